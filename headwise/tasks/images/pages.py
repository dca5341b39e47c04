"""Pages about an image: attention as a map over it with all heads of all layers below, or a map for each word."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int64, UInt8
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.image import AxesImage
from matplotlib.patches import Patch

from headwise.errors import ShapeError
from headwise.explain import maps
from headwise.explain.canvas import PAGE, SMALL, SOFT, TEXT, Picture, picture
from headwise.explain.ramps import colormap
from headwise.explain.values import LEGENDS, Legend
from headwise.tasks.images.mask_pictures import written

SIDE = 1.75  # inches of the longer side of a large picture
HEAD = 0.7  # inches of a small map's side
GAP = 0.15  # inches between pictures
NAME = 0.22  # inches above each
LEFT = 0.6  # inches beside small maps, for the numbers of their layers
LEGEND = 0.3  # inches of the classes below
WORD = 1.0  # inches of the longer side of the map of a word

Colour = tuple[int, int, int]

# how much of a map covers the grey picture under it
_COVER = 0.6


@dataclass(frozen=True)
class Looks:
    """What one pixel of an image looks at.

    Args:
        pixel: its row and column.
        covered: height and width, in pixels, of what the grid of the weights lies over.
        weights: on the places of the grid.
        layers: those of every head of every layer, for small maps.
        chosen: (layer, head) of the small maps that `weights` is the mean of.
    """

    pixel: tuple[int, int]
    covered: tuple[int, int]
    weights: Float[np.ndarray, "rows columns"]
    layers: Sequence[Float[np.ndarray, "heads rows columns"]]
    chosen: Sequence[tuple[int, int]] = ()


def image_page(
    pixels: UInt8[np.ndarray, "height width channels"],
    weights: Float[np.ndarray, "rows columns"],
    layers: Sequence[Float[np.ndarray, "heads rows columns"]],
    *,
    chosen: Sequence[tuple[int, int]] = (),
    title: str = "",
    legend: Legend = LEGENDS["self"],
) -> Picture:
    """The image, the map over it, the map alone; and small maps, a row for each layer, a column for each head.

    Args:
        pixels: of 1 (grey), 3 (RGB) or 4 (RGBA) channels; of any other number their mean is drawn.
        weights: how much is attended to at each place of a grid that lies over the image.
        layers: what the small maps show.
        chosen: (layer, head) of the small maps that the large one is the mean of; they are framed.
        legend: what the map shows.

    Raises: ShapeError: if a map has no places.

    >>> drawn = image_page(np.zeros((4, 4, 1), np.uint8), np.eye(2), [np.ones((3, 2, 2))], title="a cat")
    >>> [axes.get_title() for axes in drawn.axes[:3]]
    ['image', 'attention over it', 'attention']
    """
    if not weights.size:
        raise ShapeError(f"nothing to draw: weights of shape {weights.shape}")
    large, places = _placed(pixels), ("image", f"{legend.title} over it", legend.title)
    # a single head is not drawn twice
    layers = layers if sum(map(len, layers)) > 1 else []
    across = max(map(len, layers), default=1)
    small = min(HEAD, (PAGE - LEFT) / across)
    below = small * len(layers) + 0.3
    height = below + large[1] + NAME + maps.title_height(title)
    figure = picture(PAGE, height, free=True)
    first, over, alone = (figure.place(at * (large[0] + GAP), below, *large) for at in range(len(places)))
    _show(first, pixels, places[0])
    _show(over, pixels, places[1], grey=True)
    # linear: the weights of many places are close to each other
    norm = maps.norm(weights, power=1.0, signed=legend.signed)
    cover = _cover(over, weights, norm, pixels.shape[:2])
    image = maps.draw(alone, weights, norm)
    image.set_extent(cover.get_extent())
    _bare(alone, places[2])
    maps.colour_bar(alone, image, large, legend.quantity)
    maps.name_page(figure, title)
    if layers:
        maps.draw_heads(figure.place(LEFT, 0.05, small * across, small * len(layers)), layers, small, chosen)
    return figure


def word_page(
    pixels: UInt8[np.ndarray, "height width channels"],
    weights: Float[np.ndarray, "words rows columns"],
    words: Sequence[str],
    *,
    title: str = "",
) -> Picture:
    """The image, and after it, for each word, what it looks at: a map over the image, of one scale for all words.

    Args:
        pixels: as for `image_page`.
        weights: how much each word attends to each place of a grid that lies over the image.
        words: in their order.

    Raises: ShapeError: if there is no map, or a word for each is missing.

    >>> drawn = word_page(np.zeros((4, 4, 1), np.uint8), np.ones((3, 2, 2)), ["a", "red", "dog"])
    >>> [axes.get_title() for axes in drawn.axes[:4]]
    ['image', 'a', 'red', 'dog']
    """
    if not weights.size or len(words) != len(weights):
        raise ShapeError(f"{len(words)} words do not go with weights of shape {weights.shape}; give each word a map")
    side = _placed(pixels, WORD)
    across = min(len(words) + 1, int((PAGE - maps.BAR_INCHES) / (side[0] + GAP)))
    rows, lead = math.ceil((len(words) + 1) / across), side[1] + NAME
    figure = picture(PAGE, rows * lead + maps.title_height(title), free=True)
    norm = maps.norm(weights, power=1.0)
    named = maps.labels(["image", *words])
    for number, name in enumerate(named.texts):
        row, column = divmod(number, across)
        axes = figure.place(column * (side[0] + GAP), (rows - 1 - row) * lead, *side)
        _show(axes, pixels, name, grey=bool(number))
        axes.title.set_fontfamily(named.fonts)
        if number:
            _cover(axes, weights[number - 1], norm, pixels.shape[:2])
    maps.colour_bar(figure.axes[across - 1], figure.axes[-1].images[-1], side)
    maps.name_page(figure, title)
    return figure


def label_page(
    pixels: UInt8[np.ndarray, "height width channels"],
    labels: Mapping[str, Int64[np.ndarray, "height width"]],
    legend: Sequence[tuple[str, Colour]],
    looks: Looks | None = None,
    *,
    title: str = "",
) -> Picture:
    """The image, and beside it its labels: a picture for each of them; and what a pixel looks at, if anything.

    Args:
        pixels: as for `image_page`.
        labels: numbers of classes, by what they are; beyond the legend where none counts, which stays white.
        legend: name and colour of each class; those in the pictures are listed.
        looks: the attention of one pixel.

    Raises: ShapeError: labels that are not those of the image.

    >>> legend = [("a", (0, 0, 0)), ("b", (9, 9, 9))]
    >>> page = label_page(np.zeros((2, 3, 1), np.uint8), {"predicted": np.ones((2, 3), int)}, legend)
    >>> [axes.get_title() for axes in page.axes], [text.get_text() for text in page.legends[0].get_texts()]
    (['image', 'predicted'], ['b'])
    """
    height, width = pixels.shape[:2]
    if any(label_map.shape != (height, width) for label_map in labels.values()):
        raise ShapeError(f"labels do not go with an image of {height} x {width}; give each pixel one")
    names = ["image", *labels, *([] if looks is None else [f"pixel {looks.pixel[0]},{looks.pixel[1]} attends to"])]
    large = _placed(pixels, min(SIDE, (PAGE - maps.BAR_INCHES) / len(names) - GAP))
    layers = () if looks is None else looks.layers
    across = max(map(len, layers), default=1)
    small = min(HEAD, (PAGE - LEFT) / across)
    lower = small * across, small * len(layers)
    below = LEGEND + (lower[1] + 0.3 if layers else 0.0)
    figure = picture(PAGE, below + large[1] + NAME + maps.title_height(title), free=True)
    axes = [figure.place(at * (large[0] + GAP), below, *large) for at in range(len(names))]
    _show(axes[0], pixels, "image")
    shown = np.unique(np.concatenate([np.empty(0, int), *(label_map.ravel() for label_map in labels.values())]))
    colours = np.full((max(len(legend), int(shown.max(initial=0)) + 1), 3), 255, np.uint8)
    colours[: len(legend)] = [colour for _, colour in legend]
    for place, (name, label_map) in zip(axes[1:], labels.items(), strict=False):
        _show(place, colours[label_map], name)
    if looks is not None:
        image = _look(axes[0], axes[-1], pixels, looks, names[-1])
        maps.colour_bar(axes[-1], image, large)
        maps.draw_heads(figure.place(LEFT, LEGEND, *lower), layers, small, looks.chosen)
    _list(figure, [legend[number] for number in shown if number < len(legend)])
    maps.name_page(figure, title)
    return figure


def _look(image: Axes, over: Axes, pixels: np.ndarray, looks: Looks, name: str) -> AxesImage:
    """The map of a pixel over the image, and where the pixel is in both."""
    height, width = pixels.shape[:2]
    _show(over, pixels, name, grey=True)
    cover = _cover(over, looks.weights, maps.norm(looks.weights, power=1.0), looks.covered)
    for axes in (image, over):
        axes.plot(*reversed(looks.pixel), marker="s", mfc="none", mec="black", mew=2.4, ms=6)
        axes.plot(*reversed(looks.pixel), marker="s", mfc="none", mec="white", mew=1.2, ms=6)
        axes.set(xlim=(-0.5, width - 0.5), ylim=(height - 0.5, -0.5))
    return cover


def _placed(pixels: np.ndarray, side: float = SIDE) -> tuple[float, float]:
    """Width and height in inches of a picture whose longer side is this long."""
    height, width = pixels.shape[:2]
    return side * width / max(height, width), side * height / max(height, width)


def _cover(axes: Axes, weights: np.ndarray, norm: Normalize, size: tuple[int, int]) -> AxesImage:
    """Draws weights over a grey picture of this height and width."""
    extent = (-0.5, size[1] - 0.5, size[0] - 0.5, -0.5)
    ramp = colormap(maps.ramp_of(norm))
    return axes.imshow(weights, cmap=ramp, norm=norm, extent=extent, interpolation="nearest", alpha=_COVER)


def _list(figure: Picture, legend: Sequence[tuple[str, Colour]]) -> None:
    """The classes of the pictures with their colours, in a row at the bottom."""
    named = maps.labels([name for name, _ in legend])
    patches = [
        Patch(facecolor=written(colour), edgecolor=SOFT, linewidth=0.4, label=text)
        for (_, colour), text in zip(legend, named.texts, strict=True)
    ]
    how = {"size": SMALL, "family": named.fonts}
    figure.legend(handles=patches, loc="lower left", ncols=6, frameon=False, prop=how, borderpad=0)


def _show(axes: Axes, pixels: np.ndarray, title: str, *, grey: bool = False) -> None:
    """Draws the pixels, in grey where something lies over them."""
    channels = pixels.shape[2]
    if channels not in (3, 4) or grey:
        shades = pixels[..., : min(channels, 3) if channels in (3, 4) else channels].mean(axis=-1)
        axes.imshow(shades, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    else:
        axes.imshow(pixels, interpolation="nearest")
    _bare(axes, title)


def _bare(axes: Axes, title: str) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_title(title, fontsize=TEXT, pad=3)
    for spine in axes.spines.values():
        spine.set_edgecolor(maps.EDGE)

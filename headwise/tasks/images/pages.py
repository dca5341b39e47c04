"""Pages about an image: attention as a map over it with all heads of all layers below, or a map for each word."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int64, UInt8
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.patches import Patch

from headwise.errors import ShapeError
from headwise.explain import maps
from headwise.explain.canvas import Picture, picture
from headwise.explain.values import LEGENDS, Legend
from headwise.tasks.images.mask_pictures import written

SIDE = 2.6  # inches of the longer side of a large picture
SMALL = 0.9  # inches of a small map's side
WIDEST = 9.0  # inches of a row of small maps
GAP = 0.3  # inches between pictures
WORD = 1.3  # inches of the longer side of the map of a word
LEAD = 0.4  # inches above it
ACROSS = 8  # maps of words in a row at most
TITLE = 4.0  # inches of a title at least

Colour = tuple[int, int, int]

# clear where there is no attention
_GLOW = LinearSegmentedColormap.from_list("glow", [(0.835, 0.369, 0.0, 0.0), (0.835, 0.369, 0.0, 0.85)])
_SIGNED_GLOW = LinearSegmentedColormap.from_list(
    "signed glow", [(0.0, 0.447, 0.698, 0.85), (0.4, 0.4, 0.4, 0.0), (0.835, 0.369, 0.0, 0.85)]
)


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
    height, width = pixels.shape[:2]
    large = SIDE * width / max(height, width), SIDE * height / max(height, width)
    # a single head is not drawn twice
    layers = layers if sum(map(len, layers)) > 1 else []
    small = min(SMALL, WIDEST / max(map(len, layers), default=1))
    lower = small * max(map(len, layers), default=0), small * len(layers)
    left, below = 0.7, lower[1] + (0.65 if layers else 0.1)
    size = left + max(3 * large[0] + 2 * GAP, lower[0]) + 0.9, below + large[1] + 1.0
    figure = picture(*size, free=True)
    places = [(left + number * (large[0] + GAP), below, *large) for number in range(3)]
    first, over, alone = (figure.place(*place) for place in places)
    _show(first, pixels, "image")
    _show(over, pixels, f"{legend.title} over it", strength=0.55)
    # linear: what is looked at little shall hide nothing
    extent = _glow(over, weights, maps.norm(weights, power=1.0, signed=legend.signed), (height, width))
    image = maps.draw(alone, weights, maps.norm(weights, signed=legend.signed))
    image.set_extent(extent)
    _bare(alone, legend.title)
    maps.colour_bar(alone, image, large, legend.quantity)
    figure.suptitle(maps.title_of(title).texts[0], fontsize=maps.TITLE_SIZE, y=1 - 0.12 / size[1], va="top")
    if layers:
        maps.draw_heads(figure.place(left, 0.1, *lower), layers, small, chosen)
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
    height, width = pixels.shape[:2]
    across = math.ceil((len(words) + 1) / math.ceil((len(words) + 1) / ACROSS))
    rows = math.ceil((len(words) + 1) / across)
    side = WORD * width / max(height, width), WORD * height / max(height, width)
    lead = side[1] + LEAD
    size = max(across * (side[0] + GAP) + 2 * GAP, TITLE), rows * lead + 0.75
    figure = picture(*size, free=True)
    norm = maps.norm(weights, power=1.0)
    named = maps.labels(["image", *words])
    for number, name in enumerate(named.texts):
        row, column = divmod(number, across)
        axes = figure.place(GAP + column * (side[0] + GAP), GAP + (rows - 1 - row) * lead, *side)
        _show(axes, pixels, name, strength=1.0 if not number else 0.55)
        axes.title.set_fontfamily(named.fonts)
        if number:
            _glow(axes, weights[number - 1], norm, (height, width))
    figure.suptitle(maps.title_of(title).texts[0], fontsize=maps.TITLE_SIZE, y=1 - 0.12 / size[1], va="top")
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
    >>> page = label_page(np.zeros((2, 3, 1), np.uint8), {"said": np.ones((2, 3), int)}, legend)
    >>> [axes.get_title() for axes in page.axes], [text.get_text() for text in page.legends[0].get_texts()]
    (['image', 'said'], ['b'])
    """
    height, width = pixels.shape[:2]
    if any(label_map.shape != (height, width) for label_map in labels.values()):
        raise ShapeError(f"labels do not go with an image of {height} x {width}; give each pixel one")
    large = SIDE * width / max(height, width), SIDE * height / max(height, width)
    names = ["image", *labels, *([] if looks is None else [f"pixel {looks.pixel[0]},{looks.pixel[1]} looks at"])]
    layers = () if looks is None else looks.layers
    small = min(SMALL, WIDEST / max(map(len, layers), default=1))
    lower = small * max(map(len, layers), default=0), small * len(layers) + (0.65 if layers else 0.0)
    below = lower[1] + 0.45
    size = 1.2 + max(len(names) * (large[0] + GAP), lower[0], TITLE), below + large[1] + 0.85
    figure = picture(*size, free=True)
    axes = [figure.place(0.7 + at * (large[0] + GAP), below, *large) for at in range(len(names))]
    _show(axes[0], pixels, "image")
    shown = np.unique(np.concatenate([np.empty(0, int), *(label_map.ravel() for label_map in labels.values())]))
    colours = np.full((max(len(legend), int(shown.max(initial=0)) + 1), 3), 255, np.uint8)
    colours[: len(legend)] = [colour for _, colour in legend]
    for place, (name, label_map) in zip(axes[1:], labels.items(), strict=False):
        _show(place, colours[label_map], name)
    if looks is not None:
        _look(axes[0], axes[-1], pixels, looks, names[-1])
        maps.draw_heads(figure.place(0.7, 0.45, lower[0], small * len(layers)), layers, small, looks.chosen)
    _list(figure, [legend[number] for number in shown if number < len(legend)], size)
    figure.suptitle(maps.title_of(title).texts[0], fontsize=maps.TITLE_SIZE, y=1 - 0.12 / size[1], va="top")
    return figure


def _look(image: Axes, over: Axes, pixels: np.ndarray, looks: Looks, name: str) -> None:
    """The map of a pixel over the image, and where the pixel is in both."""
    height, width = pixels.shape[:2]
    _show(over, pixels, name, strength=0.55)
    _glow(over, looks.weights, maps.norm(looks.weights, power=1.0), looks.covered)
    for axes in (image, over):
        axes.plot(*reversed(looks.pixel), marker="s", mfc="none", mec="black", mew=2.4, ms=7)
        axes.plot(*reversed(looks.pixel), marker="s", mfc="none", mec="white", mew=1.2, ms=7)
        axes.set(xlim=(-0.5, width - 0.5), ylim=(height - 0.5, -0.5))


def _glow(axes: Axes, weights: np.ndarray, norm: Normalize, size: tuple[int, int]) -> tuple[float, float, float, float]:
    """Weights over a picture of this height and width; where they lie."""
    extent = (-0.5, size[1] - 0.5, size[0] - 0.5, -0.5)
    glow = _GLOW if maps.ramp_of(norm) != "diverging" else _SIGNED_GLOW
    axes.imshow(weights, cmap=glow, norm=norm, extent=extent, interpolation="nearest")
    return extent


def _list(figure: Picture, legend: Sequence[tuple[str, Colour]], size: tuple[float, float]) -> None:
    """The classes of the pictures with their colours, in a row at the bottom."""
    named = maps.labels([name for name, _ in legend])
    patches = [
        Patch(facecolor=written(colour), edgecolor="#5a6070", linewidth=0.4, label=text)
        for (_, colour), text in zip(legend, named.texts, strict=True)
    ]
    across = max(1, int(size[0] / 1.3))
    corner = 0.55 / size[0], 0.0
    drawn = figure.legend(
        handles=patches, loc="lower left", bbox_to_anchor=corner, ncols=across, frameon=False, fontsize=maps.LABEL_SIZE
    )
    for text in drawn.get_texts():
        text.set_fontfamily(named.fonts)


def _show(axes: Axes, pixels: np.ndarray, title: str, strength: float = 1.0) -> None:
    """Draws the pixels; with less strength as grey on a light page."""
    channels = pixels.shape[2]
    if strength < 1.0 or channels not in (1, 3, 4):
        grey = pixels[..., : min(channels, 3) if channels in (3, 4) else channels].mean(axis=-1)
        axes.imshow(255 - strength * (255 - grey), cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    elif channels == 1:
        axes.imshow(pixels[..., 0], cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    else:
        axes.imshow(pixels, interpolation="nearest")
    _bare(axes, title)


def _bare(axes: Axes, title: str) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_title(title, fontsize=maps.LABEL_SIZE + 1)

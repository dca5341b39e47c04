"""How one matrix is drawn: value scale, token labels, masked cells, numbers in cells, colour bar."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colorbar import Colorbar
from matplotlib.colors import Normalize, PowerNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from headwise.errors import ShapeError
from headwise.explain import fonts
from headwise.explain.ramps import colormap, oklab
from headwise.labels import columns, decimals, literal, shorten, visible

LONGEST_LABEL = 14  # columns
LONGEST_TITLE = 80
LABEL_SIZE = 8.0  # points
TITLE_SIZE = 10.0
COLUMN_INCHES = 0.075  # width of a column of text at LABEL_SIZE
LINE_INCHES = 0.16  # smallest distance of two labels
MASKED = "#e9eaee"
EDGE = "#b8bcc6"
NOT_A_NUMBER = "#d55e00"
OUTLINE = "#d55e00"


@dataclass(frozen=True)
class Labels:
    """The tokens of an axis as they are written, and the fonts that have their characters."""

    texts: list[str]
    fonts: list[str]

    @property
    def inches(self) -> float:
        """Length of the longest label."""
        return COLUMN_INCHES * max((columns(text) for text in self.texts), default=0)

    def blank(self) -> "Labels":
        """The same ticks without text."""
        return Labels([""] * len(self.texts), self.fonts)


def labels(tokens: Sequence[str]) -> Labels:
    """Tokens made legible: controls escaped, long ones shortened, spaces shown, characters without a font coded."""
    return _legible([_token_text(token) for token in tokens])


def check_shape(weights: np.ndarray, axes: Sequence[tuple[str, int]]) -> None:
    """Raises: ShapeError if the weights do not have these axes, a name and a length each, or are empty."""
    expected = tuple(length for _, length in axes)
    if weights.shape != expected:
        names = ", ".join(name for name, _ in axes)
        raise ShapeError(f"weights must be ({names}) = {expected} as the labels say; got {weights.shape}")
    if 0 in expected:
        raise ShapeError(f"nothing to draw: weights of shape {expected}")


def norm(*weights: np.ndarray, keep: np.ndarray | None = None, power: float = 0.5, signed: bool = False) -> Normalize:
    """Weight to position on the ramp: its share of the largest one, to this power; zero is the page colour.

    The largest one is that of all these weights that are finite and not masked, or 1 when all are zero. Where some are
    negative, or could be (`signed`), zero is in the middle of a linear scale.
    """
    values = [table[np.isfinite(table) if keep is None else np.isfinite(table) & keep] for table in weights]
    largest = max(float(np.abs(table).max(initial=0.0)) for table in values) or 1.0
    if signed or min(float(table.min(initial=0.0)) for table in values) < 0:
        return Normalize(-largest, largest)
    return PowerNorm(power, 0.0, largest)


def ramp_of(scale: Normalize) -> str:
    """The ramp of a scale: diverging where it has negative numbers."""
    return "diverging" if scale.vmin is not None and scale.vmin < 0 else "ink light"


def draw(axes: Axes, weights: np.ndarray, scale: Normalize, keep: np.ndarray | None = None) -> AxesImage:
    """Paints the matrix, row 0 on top; cells outside `keep` are hatched, cells that are no number stand out."""
    ramp = colormap(ramp_of(scale)).with_extremes(bad=NOT_A_NUMBER)
    image = axes.imshow(np.ma.masked_invalid(weights), cmap=ramp, norm=scale, aspect="equal", interpolation="nearest")
    if keep is not None and not keep.all():
        axes.add_collection(_hatching(~keep))
    for spine in axes.spines.values():
        spine.set_edgecolor(EDGE)
        spine.set_linewidth(0.6)
    axes.tick_params(length=2, width=0.5, color=EDGE)
    return image


def draw_heads(axes: Axes, layers: Sequence[np.ndarray], side: float, chosen: Sequence[tuple[int, int]]) -> None:
    """Paints every head as a small map, its side in inches: a row for each layer, a column for each head.

    Args:
        layers: (heads, rows, columns) of each.
        chosen: (layer, head) of the maps that are framed.
    """
    scale = norm(*layers)
    cells = [(down, across) for down, heads in enumerate(layers) for across in range(len(heads))]
    for down, across in cells:
        image = draw(axes, layers[down][across], scale)
        image.set_extent((across - 0.45, across + 0.45, down + 0.45, down - 0.45))
    frames = [_rectangle(down, across, across + 1, inset=0.05) for down, across in cells]
    axes.add_collection(PolyCollection(frames, facecolors="none", edgecolors=EDGE, linewidths=0.5))
    across = max(map(len, layers))
    axes.set(xlim=(-0.5, across - 0.5), ylim=(len(layers) - 0.5, -0.5))
    for spine in axes.spines.values():
        spine.set_visible(False)
    outline(axes, chosen)
    label_rows(axes, labels([f"layer {number}" for number in range(len(layers))]), side)
    label_columns(axes, labels([f"head {number}" for number in range(across)]), side)


def label_rows(axes: Axes, rows: Labels, cell: float) -> None:
    """Writes row labels; when rows are thinner than a line of text, every second, fifth, tenth ... of them."""
    ticks = _ticks(len(rows.texts), cell)
    axes.set_yticks(ticks, [rows.texts[i] for i in ticks], fontsize=LABEL_SIZE, fontfamily=rows.fonts)


def label_columns(axes: Axes, keys: Labels, cell: float) -> None:
    """Writes column labels above the matrix, upright where they fit, else slanted, else turned."""
    ticks = _ticks(len(keys.texts), cell)
    rotation = _rotation(keys, cell)
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.set_xticks(
        ticks,
        [keys.texts[i] for i in ticks],
        fontsize=LABEL_SIZE,
        fontfamily=keys.fonts,
        rotation=rotation,
        rotation_mode="anchor" if rotation == 45 else "default",
        ha="left" if rotation == 45 else "center",
        va="bottom",
    )


def columns_height(keys: Labels, cell: float) -> float:
    """Inches that the column labels take above the matrix."""
    return 0.1 + {0: LINE_INCHES, 45: 0.1 + 0.71 * keys.inches, 90: keys.inches}[_rotation(keys, cell)]


def number_cells(axes: Axes, weights: np.ndarray, scale: Normalize, keep: np.ndarray | None) -> None:
    """Writes each weight with two digits into its cell, dark on light and light on dark."""
    visible = np.isfinite(weights) if keep is None else np.isfinite(weights) & keep
    colours = colormap(ramp_of(scale))(scale(np.where(visible, weights, 0.0)))[..., :3]
    lightness = oklab(colours.reshape(-1, 3))[:, 0].reshape(weights.shape)
    for row, column in np.argwhere(visible):
        text = re.sub(r"^(\D*)0\.", r"\1.", decimals(weights[row, column]))
        ink = "#10131c" if lightness[row, column] > 0.65 else "#ffffff"
        axes.text(column, row, text, ha="center", va="center", fontsize=6.5, color=ink)


def outline(axes: Axes, cells: Sequence[tuple[int, int]]) -> None:
    """Draws a frame around each of the cells (row, column)."""
    frames = [_rectangle(row, column, column + 1, inset=0.06) for row, column in cells]
    if not frames:
        return
    axes.add_collection(PolyCollection(frames, facecolors="none", edgecolors=OUTLINE, linewidths=1.2))


def colour_bar(axes: Axes, image: AxesImage, size: tuple[float, float], what: str) -> None:
    """A colour bar beside a matrix of this width and height in inches: as tall, within 1.3 and 4 inches."""
    width, height = size
    tall = min(max(height, 1.3), 4.0) / height
    place = axes.inset_axes((1 + 0.12 / width, 1 - tall, 0.12 / width, tall))
    _label_bar(axes.figure.colorbar(image, cax=place), what)


def shared_colour_bar(figure: Figure, image: AxesImage, what: str) -> None:
    """One colour bar for all maps of a figure."""
    _label_bar(figure.colorbar(image, ax=figure.axes, aspect=30, shrink=0.8, pad=0.02), what)


def name_axes(axes: Axes, rows: str, keys: str, title: str) -> None:
    """Writes what rows and columns are and the title, as text and never as a formula."""
    heading = title_of(title)
    axes.set_ylabel(rows, fontsize=TITLE_SIZE - 1)
    axes.set_xlabel(keys, fontsize=TITLE_SIZE - 1)
    axes.set_title(heading.texts[0], fontsize=TITLE_SIZE, fontfamily=heading.fonts)


def name_grid(figure: Figure, rows: str, keys: str, title: str) -> None:
    """The same for all maps of a figure."""
    heading = title_of(title)
    figure.supylabel(rows, fontsize=TITLE_SIZE - 1)
    figure.supxlabel(keys, fontsize=TITLE_SIZE - 1)
    figure.suptitle(heading.texts[0], fontsize=TITLE_SIZE, fontfamily=heading.fonts)


def name_map(axes: Axes, name: str, above: float) -> None:
    """Writes the name of a map in a grid, `above` inches over it; the layout cannot find that height by itself."""
    heading = title_of(name)
    axes.set_title(heading.texts[0], fontsize=LABEL_SIZE + 1, fontfamily=heading.fonts, y=1.0, pad=72 * above)


def caption(axes: Axes, weights: np.ndarray, keep: np.ndarray | None) -> None:
    """Explains hatched and orange cells below the map, where there are some."""
    notes = []
    if keep is not None and not keep.all():
        notes.append("hatched: masked, may not attend")
    if not np.isfinite(weights).all():
        notes.append("orange: not a number")
    if notes:
        below = axes.text(0.0, -0.01, "\n" + "; ".join(notes), transform=axes.transAxes, va="top", color="#5a6070")
        below.set_fontsize(LABEL_SIZE - 1)


def _label_bar(bar: Colorbar, what: str) -> None:
    scale = ", √ scale" if isinstance(bar.norm, PowerNorm) and bar.norm.gamma == 0.5 else ""
    bar.set_label(f"{what}{scale}", fontsize=LABEL_SIZE)
    bar.ax.tick_params(labelsize=LABEL_SIZE - 1, length=2)
    bar.outline.set_linewidth(0.4)


def title_of(title: str) -> Labels:
    """The lines of a title made legible, as one text."""
    lines = [shorten(visible(line), LONGEST_TITLE) for line in title.split("\n")]
    return _legible(["\n".join(lines)])


def _legible(texts: list[str]) -> Labels:
    families = fonts.families(texts)
    return Labels([literal(fonts.legible(text, families)) for text in texts], families)


def _rotation(keys: Labels, cell: float) -> int:
    return 0 if keys.inches < 0.95 * cell else 45 if cell >= 0.2 else 90


def _token_text(token: str) -> str:
    text = visible(token)
    if text and not text.strip():
        return "␣" * len(text)
    return shorten(text.strip(), LONGEST_LABEL)


def _ticks(count: int, cell: float) -> list[int]:
    step = next((s for s in (1, 2, 5, 10, 20, 50, 100, 200, 500) if s * cell >= LINE_INCHES), 1000)
    return list(range(0, count, step))


def _hatching(masked: np.ndarray) -> PolyCollection:
    """One polygon for each run of masked cells in a row."""
    edges = np.diff(np.pad(masked.astype(np.int8), ((0, 0), (1, 1))), axis=1)
    starts, ends = np.argwhere(edges == 1).tolist(), np.argwhere(edges == -1).tolist()
    runs = [_rectangle(row, first, last) for (row, first), (_, last) in zip(starts, ends, strict=True)]
    return PolyCollection(runs, facecolors=MASKED, edgecolors="#c3c7d1", linewidths=0.0, hatch="////")


def _rectangle(row: int, first: int, last: int, inset: float = 0.0) -> list[tuple[float, float]]:
    left, right = first - 0.5 + inset, last - 0.5 - inset
    top, bottom = row - 0.5 + inset, row + 0.5 - inset
    return [(left, top), (right, top), (right, bottom), (left, bottom)]

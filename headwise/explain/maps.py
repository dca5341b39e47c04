"""How one matrix is drawn: value scale, token labels, masked cells, numbers in cells, colour bar."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import Normalize, PowerNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from headwise.errors import ShapeError
from headwise.explain import fonts
from headwise.explain.canvas import SMALL, SOFT, TEXT, TITLE
from headwise.explain.ramps import colormap, oklab
from headwise.labels import cell_text, columns, literal, shorten, significant, visible

LONGEST_LABEL = 14  # columns
LONGEST_TITLE = 76
COLUMN_INCHES = 0.066  # width of a column of text of size SMALL
LINE_INCHES = 0.14  # smallest distance of two labels
TITLE_LINE = 0.17  # height of a line of a title
BAR_INCHES = 0.8  # a colour bar with its numbers and its name
_APART = 0.11  # share of a colour bar between two of its marks
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
    axes.tick_params(length=0)


def label_rows(axes: Axes, rows: Labels, cell: float) -> None:
    """Writes row labels; when rows are thinner than a line of text, every second, fifth, tenth ... of them."""
    ticks = _ticks(len(rows.texts), cell)
    axes.set_yticks(ticks, [rows.texts[i] for i in ticks], fontsize=SMALL, fontfamily=rows.fonts)


def label_columns(axes: Axes, keys: Labels, cell: float) -> None:
    """Writes column labels above the matrix, upright where they fit, else slanted, else turned."""
    ticks = _ticks(len(keys.texts), cell)
    rotation = _rotation(keys, cell)
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.set_xticks(
        ticks,
        [keys.texts[i] for i in ticks],
        fontsize=SMALL,
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
    """Writes each weight into its cell, as `cell_text` has it, dark on light and light on dark."""
    visible = np.isfinite(weights) if keep is None else np.isfinite(weights) & keep
    colours = colormap(ramp_of(scale))(scale(np.where(visible, weights, 0.0)))[..., :3]
    lightness = oklab(colours.reshape(-1, 3))[:, 0].reshape(weights.shape)
    for row, column in np.argwhere(visible):
        ink = "#10131c" if lightness[row, column] > 0.65 else "#ffffff"
        text = cell_text(weights[row, column])
        axes.text(column, row, text, ha="center", va="center", fontsize=SMALL, color=ink)


def outline(axes: Axes, cells: Sequence[tuple[int, int]]) -> None:
    """Draws a frame around each of the cells (row, column)."""
    frames = [_rectangle(row, column, column + 1, inset=0.06) for row, column in cells]
    if not frames:
        return
    axes.add_collection(PolyCollection(frames, facecolors="none", edgecolors=OUTLINE, linewidths=1.2))


def colour_bar(axes: Axes, image: AxesImage, size: tuple[float, float], what: str = "attention weight") -> None:
    """A colour bar beside a matrix of this width and height in inches: as tall, within 1.3 and 4 inches."""
    width, height = size
    tall = min(max(height, 1.3), 4.0) / height
    place = axes.inset_axes((1 + 0.12 / width, 1 - tall, 0.1 / width, tall))
    scale = image.norm
    assert isinstance(scale, Normalize), "made by `norm`"
    bar = axes.figure.colorbar(image, cax=place, ticks=_round_values(scale))
    bar.ax.set_yticklabels([_mark(value) for value in bar.get_ticks()])
    bar.ax.minorticks_off()
    bent = isinstance(scale, PowerNorm) and scale.gamma != 1
    bar.set_label(f"{what},\nsquare-root scale" if bent else what, fontsize=SMALL)
    bar.ax.tick_params(labelsize=SMALL, length=2, width=0.5)
    bar.outline.set_linewidth(0.4)


def name_axes(axes: Axes, rows: str, keys: str) -> None:
    """Writes what rows and columns are."""
    axes.set_ylabel(rows, fontsize=TEXT)
    axes.set_xlabel(keys, fontsize=TEXT)


def name_page(figure: Figure, title: str) -> None:
    """Writes the title, as text and never as a formula, at the upper left."""
    heading, (width, height) = title_of(title), figure.get_size_inches()
    place = {"x": 0.05 / width, "y": 1 - 0.05 / height, "ha": "left", "va": "top"}
    figure.suptitle(heading.texts[0], fontsize=TITLE, fontfamily=heading.fonts, linespacing=1.25, **place)


def name_map(axes: Axes, name: str, above: float) -> None:
    """Writes the name of a map in a grid, `above` inches over it."""
    axes.set_title(name, fontsize=TEXT, y=1.0, pad=72 * above, parse_math=False)


def title_height(title: str) -> float:
    """Inches that the title takes."""
    return 0.05 + TITLE_LINE * (title.count("\n") + 1) if title else 0.05


def caption(axes: Axes, weights: np.ndarray, keep: np.ndarray | None, *, numbered: bool = False) -> None:
    """Explains signs in cells, hatched and orange cells below the map, where there are some."""
    notes = []
    if keep is not None and not keep.all():
        notes.append("hatched: masked, may not attend")
    if not np.isfinite(weights).all():
        notes.append("orange: not a number")
    if numbered and ((weights > 0) & (weights < 0.005)).any():
        notes.append("· is below .005")
    if notes:
        below = axes.text(0.0, -0.01, "\n" + "; ".join(notes), transform=axes.transAxes, va="top", color=SOFT)
        below.set_fontsize(SMALL)


def title_of(title: str) -> Labels:
    """The lines of a title made legible, as one text."""
    lines = [shorten(visible(line), LONGEST_TITLE) for line in title.split("\n")]
    return _legible(["\n".join(lines)])


def _mark(value: float) -> str:
    """A number beside a colour bar, without the zero before its point.

    >>> _mark(0.25), _mark(-0.5), _mark(0.0)
    ('.25', '−.5', '0')
    """
    return ("−" if value < 0 else "") + (significant(abs(value), 3).removeprefix("0") or "0")


def _round_values(scale: Normalize) -> list[float]:
    """Zero, the largest value, and round numbers between them that stand well apart on the bar; mirrored below zero."""
    top, zero = float(scale.vmax or 1.0), float(scale(0.0))
    values, last = [top], 1.0
    for power in range(math.floor(math.log10(top)) + 1, -7, -1):
        for step in (0.5, 0.25, 0.1):
            value = float(f"{step * 10.0**power:.2g}")
            at = float(scale(value))
            if value < top and last - at > _APART and at - zero > _APART:
                values.append(value)
                last = at
    below = [-value for value in values] if scale.vmin else []
    return [*below, 0.0, *reversed(values)]


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

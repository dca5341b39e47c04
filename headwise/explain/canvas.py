"""The figure under every picture: it shows in notebooks without pyplot, and is saved in one step."""

import io
import os
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from headwise.errors import ConfigError, MachineError
from headwise.explain.values import FORMATS, Drawing
from headwise.files import replacing

SCREEN_DPI = 110
PRINT_DPI = 300
# the widths of a column and of a page of a paper in inches: 85 and 170 mm; nothing is wider than a page
COLUMN, PAGE = 85 / 25.4, 170 / 25.4
# letters in points: of ticks and numbers, of axes and legends, of titles
SMALL, TEXT, TITLE = 7.0, 8.0, 9.0
# frames, ticks and notes
SOFT = "#5a6070"


class Picture(Figure):
    """A matplotlib figure that a notebook displays; pyplot holds no reference to it."""

    def _repr_png_(self) -> bytes:
        return _rendered(self, "png", SCREEN_DPI)

    def place(self, left: float, bottom: float, width: float, height: float) -> Axes:
        """New axes; all in inches."""
        across, down = self.get_size_inches()
        return self.add_axes((left / across, bottom / down, width / across, height / down))


def picture(width: float, height: float, *, free: bool = False) -> Picture:
    """An empty figure of this size in inches, on the page colour, laid out so that labels are not cut.

    Args:
        free: without a layout engine, which is faster; the caller places everything.
    """
    engine = None if free else ConstrainedLayoutEngine(h_pad=0.08)
    return Picture(figsize=(width, height), layout=engine, facecolor="white")


def save(figure: Drawing, path: str | os.PathLike[str]) -> Path:
    """Writes the figure as PNG, SVG or PDF, by the suffix of `path`.

    The file is replaced in one step: readers see the old one or the new one. The same data give the same bytes.

    Raises:
        ConfigError: for another suffix.
        MachineError: if the folder cannot be written.
    """
    target = Path(path)
    kind = target.suffix.removeprefix(".").lower()
    if kind not in FORMATS:
        raise ConfigError(f"{target}: cannot draw '{target.suffix}'; use a name that ends in .png, .svg or .pdf")
    content = _rendered(figure, kind, PRINT_DPI)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target) as temporary:
            temporary.write_bytes(content)
    except OSError as error:
        raise MachineError(f"{target}: cannot be written: {error.strerror}") from error
    return target


def _rendered(figure: Drawing, kind: str, dpi: int) -> bytes:
    # without dates and random ids the bytes depend on the figure alone
    metadata = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind]
    buffer = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "headwise", "pdf.fonttype": 42, "text.usetex": False}):
        figure.savefig(buffer, format=kind, dpi=dpi, metadata=metadata, bbox_inches="tight", pad_inches=0.02)
    return buffer.getvalue()

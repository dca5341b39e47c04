"""What rows and columns stand for: tokens, patches of an image, nodes of a graph, frames of sound, steps."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float, Int, UInt8

# the class of a pixel that counts nowhere
NO_CLASS = 255
# columns of a series that a page draws
_COLUMNS = 4


class Places:
    """What rows and columns lie on, where they are no tokens; an own kind says what pages and `axes` are told of it."""

    # what to do where there are too many to be shown
    advice = "give a shorter input"

    def place_names(self) -> Sequence[str]:
        """A label for each, where a layer has none."""
        return ()

    def description(self) -> dict[str, Any] | None:
        """What the rows and columns lie on, as JSON; None: nothing that a page draws."""
        return None

    def axis(self, labels: Sequence[str]) -> dict[str, Any] | None:
        """What the places with these labels are, as JSON; None: tokens."""
        return None

    def on_pages(self, labels: Sequence[str]) -> list[str]:
        """The labels as the explorer writes them."""
        return list(labels)


@dataclass(frozen=True)
class Grid:
    """Patches of an image, row by row.

    Args:
        before: class tokens in front of them.

    >>> Grid(2, 3, before=1).length
    7
    """

    rows: int
    columns: int
    before: int = 0

    @property
    def length(self) -> int:
        """Number of patches and class tokens."""
        return self.before + self.rows * self.columns

    @property
    def labels(self) -> list[str]:
        """A label for each class token and patch, `row,column`."""
        return self.labels_from(0)

    def labels_from(self, first: int) -> list[str]:
        """The labels, rows and columns counted from a number."""
        rows, columns = (range(first, first + count) for count in (self.rows, self.columns))
        return ["class"] * self.before + [f"{row},{column}" for row in rows for column in columns]


@dataclass(frozen=True, eq=False)
class PixelLabels:
    """Predicted and true classes of the pixels of an image.

    Args:
        predicted, true: class numbers, beyond the last where a pixel does not count; None: the truth is not known.
        classes: name and colour, as #rrggbb, of each.
    """

    predicted: Int[np.ndarray, "height width"]
    true: Int[np.ndarray, "height width"] | None
    classes: Sequence[tuple[str, str]]


@dataclass(frozen=True, eq=False)
class OnImage(Places):
    """Rows and columns lie on an image.

    Args:
        pixels: the image as the model read it.
        grids: the patches of its layers; they differ where a network makes its maps smaller.
        covered: height and width, in pixels, of the area under a grid, which may exceed the image; None: the image.
        chosen: the query that an explanation shows; None: the mean of all queries.
        labels: of its pixels, where the model predicts them.

    >>> on = OnImage(np.zeros((8, 8, 1), np.uint8), (Grid(4, 4, before=1), Grid(2, 2)))
    >>> on.grid(17), on.grid(5)
    (Grid(rows=4, columns=4, before=1), None)
    """

    pixels: UInt8[np.ndarray, "height width channels"]
    grids: Sequence[Grid]
    covered: tuple[int, int] | None = None
    chosen: int | None = None
    labels: PixelLabels | None = None

    def grid(self, length: int) -> Grid | None:
        """The grid whose patches an axis of this length has; None: they are no patches."""
        return next((grid for grid in self.grids if grid.length == length), None)

    def description(self) -> dict[str, Any]:
        covered = self.covered or self.pixels.shape[:2]
        fields: dict[str, Any] = {"kind": "image", "shape": [*self.pixels.shape], "covered": [*covered]}
        classes = {} if self.labels is None else {"classes": self.labels.classes}
        return fields | {"chosen": self.chosen} | classes

    def axis(self, labels: Sequence[str]) -> dict[str, Any] | None:
        grid = self.grid(len(labels))
        return None if grid is None else {"kind": "patches", "grid": [grid.rows, grid.columns], "before": grid.before}

    def on_pages(self, labels: Sequence[str]) -> list[str]:
        """Rows and columns of patches are counted from 1 there, as layers and heads are.

        >>> OnImage(np.zeros((8, 8, 1), np.uint8), (Grid(1, 2, before=1),)).on_pages(["class", "0,0", "0,1"])
        ['class', '1,1', '1,2']
        """
        grid = self.grid(len(labels))
        return list(labels) if grid is None or list(labels) != grid.labels else grid.labels_from(1)


@dataclass(frozen=True, eq=False)
class InGraph(Places):
    """Rows and columns are the nodes of a graph; the masks of its layers have the edges.

    Args:
        kinds: the predicted or true class of every node.
        classes: of nodes, in the order of the model.
        chosen: the node that an explanation shows; None: all nodes.
        bonds: (node, node) to the order of their bond, in a graph with bonds.
        spots: where each node is drawn, downwards; all bonds are as long. None: where a layout puts it.
        quantity: what the predicted number is, with its unit where the data names one; empty: no number is predicted.
    """

    names: Sequence[str]
    kinds: Sequence[str]
    classes: Sequence[str]
    chosen: int | None = None
    bonds: dict[tuple[int, int], float] = field(default_factory=dict)
    spots: Float[np.ndarray, "nodes 2"] | None = None
    quantity: str = ""
    advice = "look at a node on the page Graph"

    def place_names(self) -> Sequence[str]:
        return self.names

    def description(self) -> dict[str, Any]:
        quantity = {"quantity": self.quantity} if self.quantity else {}
        return {"kind": "graph", "nodes": len(self.names), "chosen": self.chosen} | quantity

    def axis(self, labels: Sequence[str]) -> dict[str, Any] | None:
        return {"kind": "nodes"} if len(labels) == len(self.names) else None


@dataclass(frozen=True)
class Tokens:
    """Rows or columns are tokens of a text.

    Args:
        words: the word of each token, from 0; -1: none.
        special: indices of tokens that stand for no text, such as begin and end.
    """

    labels: Sequence[str]
    words: Sequence[int]
    special: Sequence[int] = ()


@dataclass(frozen=True, eq=False)
class OnSound(Places):
    """Rows and columns are frames of a recording.

    Args:
        spectrogram: the input of the model, the lowest band first.
    """

    spectrogram: Float[np.ndarray, "bands frames"]
    seconds: float

    def description(self) -> dict[str, Any]:
        return {"kind": "sound", "seconds": self.seconds}

    def axis(self, labels: Sequence[str]) -> dict[str, Any] | None:
        return {"kind": "frames"} if labels == times(len(labels), self.seconds) else None


@dataclass(frozen=True, eq=False)
class OnSeries(Places):
    """Rows and columns are steps of a series: its last ones, 0 the latest, and those of the forecast, from +1.

    Args:
        name: of the series; empty for one without.
        names: of the predicted columns, of which the first four are described.
        past, ahead: the steps that are read and those that are forecast, in the units of the file.
        truth: what came in place of the forecast; None: not known.

    >>> numbers = np.arange(3.0)[:, None]
    >>> on = OnSeries("", ["a"], numbers, numbers[:1], None)
    >>> on.axis(["-2", "-1", "0"]), on.axis(["a", "b"])
    ({'kind': 'steps', 'before': 0}, None)
    """

    name: str
    names: Sequence[str]
    past: Float[np.ndarray, "length targets"]
    ahead: Float[np.ndarray, "horizon targets"]
    truth: Float[np.ndarray, "horizon targets"] | None

    def description(self) -> dict[str, Any]:
        columns = [
            {
                "name": name,
                "past": _significant(self.past[:, column]),
                "ahead": _significant(self.ahead[:, column]),
                "truth": None if self.truth is None else _significant(self.truth[:, column]),
            }
            for column, name in enumerate(self.names[:_COLUMNS])
        ]
        return {"kind": "series", "name": self.name, "columns": columns}

    def axis(self, labels: Sequence[str]) -> dict[str, Any] | None:
        steps = [str(step) for step in range(1 - len(self.past), 1)]
        steps += [f"+{step}" for step in range(1, len(self.ahead) + 1)]
        # a vector in front of the series is none of its steps
        before = next((place for place, label in enumerate(labels) if label in steps), len(labels))
        numbered = list(labels[before:])
        if not numbered:
            return None
        first = steps.index(numbered[0])
        return {"kind": "steps", "before": before} if numbered == steps[first : first + len(numbered)] else None


def _significant(values: Float[np.ndarray, "steps"]) -> list[float]:
    """As many digits as a page shows."""
    return [float(f"{value:.6g}") for value in values.tolist()]


def times(places: int, seconds: float) -> list[str]:
    """A label for each frame of the encoder: its start.

    >>> times(2, 0.5)
    ['0.00 s', '0.25 s']
    """
    return [f"{seconds * place / places:.2f} s" for place in range(places)]

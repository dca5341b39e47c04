"""What rows and columns of attention stand for: tokens, patches of an image, nodes of a graph, frames of sound."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float, Int, UInt8

# the class of a pixel that counts nowhere
NO_CLASS = 255


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


@dataclass(frozen=True, eq=False)
class PixelLabels:
    """Predicted and true classes of the pixels of an image.

    Args:
        said, true: class numbers, beyond the last where a pixel does not count; None: the truth is not known.
        classes: name and colour, as #rrggbb, of each.
    """

    said: Int[np.ndarray, "height width"]
    true: Int[np.ndarray, "height width"] | None
    classes: Sequence[tuple[str, str]]


@dataclass(frozen=True, eq=False)
class OnImage:
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


@dataclass(frozen=True, eq=False)
class InGraph:
    """Rows and columns are the nodes of a graph; the masks of its layers have the edges.

    Args:
        names: of every node.
        kinds: the predicted or true class of every node.
        classes: of nodes, in the order of the model.
        chosen: the node that an explanation shows; None: all nodes.
        bonds: (node, node) to the order of their bond, in a graph with bonds.
    """

    names: Sequence[str]
    kinds: Sequence[str]
    classes: Sequence[str]
    chosen: int | None = None
    bonds: dict[tuple[int, int], float] = field(default_factory=dict)


@dataclass(frozen=True)
class Tokens:
    """Rows or columns are tokens of a text.

    Args:
        labels: a label for each.
        words: the word of each token, from 0; -1: none.
        special: indices of tokens that stand for no text, such as begin and end.
    """

    labels: Sequence[str]
    words: Sequence[int]
    special: Sequence[int] = ()


@dataclass(frozen=True, eq=False)
class OnSound:
    """Rows and columns are frames of a recording.

    Args:
        spectrogram: the input of the model, the lowest band first.
        seconds: length of the recording.
    """

    spectrogram: Float[np.ndarray, "bands frames"]
    seconds: float


Places = OnImage | InGraph | OnSound


def times(places: int, seconds: float) -> list[str]:
    """A label for each frame of the encoder: its start.

    >>> times(2, 0.5)
    ['0.00 s', '0.25 s']
    """
    return [f"{seconds * place / places:.2f} s" for place in range(places)]

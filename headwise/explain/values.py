"""Arrays and figures as the drawing modules pass them, without matplotlib."""

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from torch import Tensor

from headwise.errors import ConfigError, unknown

Array = np.ndarray | Tensor

FORMATS = ("png", "svg", "pdf")


class Legend(NamedTuple):
    """What a map shows.

    Args:
        title: what is shown, in a word or two.
        rows, keys: what its rows and columns are.
        quantity: what its numbers are.
        framed: whether the strongest cell of each row is framed.
        signed: whether they have signs, so that zero is in the middle of the colours.
    """

    title: str
    rows: str
    keys: str
    quantity: str
    framed: bool = True
    signed: bool = False


# of attention, by the kind of its layer
LEGENDS = {
    "self": Legend("attention", "query: attends from", "key: attends to", "attention weight", framed=False),
    "cross": Legend("attention", "target token (attends from)", "source token (attends to)", "attention weight"),
    "pooled": Legend("attention", "answer", "token (attends to)", "attention weight"),
    "tags": Legend("tags", "word and its tag", "tag", "probability"),
}


@runtime_checkable
class Drawing(Protocol):
    """A matplotlib figure."""

    def savefig(self, fname: Any, **options: Any) -> None: ...


def require_formats(formats: Iterable[str]) -> None:
    """Raises: ConfigError for a format that cannot be drawn."""
    for kind in formats:
        if kind not in FORMATS:
            raise ConfigError(unknown("format", kind, FORMATS))


def array(values: Array) -> np.ndarray:
    """The numbers as float64 on the host; tensors of any device and dtype, with or without a graph."""
    if isinstance(values, Tensor):
        values = values.detach().double().cpu().numpy()
    return np.asarray(values, dtype=np.float64)

"""Numbers to draw or to read from, wherever they come from; nothing here needs matplotlib."""

from typing import Any, Protocol, runtime_checkable

import numpy as np
from torch import Tensor

Array = np.ndarray | Tensor

FORMATS = ("png", "svg", "pdf")
# what the sides of a map are
QUERY = "query: attends from"
KEY = "key: attends to"
TARGET = "target token (attends from)"
SOURCE = "source token (attends to)"
ANSWER = "answer"
TOKEN = "token (attends to)"


@runtime_checkable
class Drawing(Protocol):
    """A matplotlib figure."""

    def savefig(self, fname: Any, **options: Any) -> None: ...


def array(values: Array) -> np.ndarray:
    """The numbers as float64 on the host, whatever device, dtype and graph they come from."""
    if isinstance(values, Tensor):
        values = values.detach().double().cpu().numpy()
    return np.asarray(values, dtype=np.float64)

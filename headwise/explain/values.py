"""Arrays and figures as the drawing modules pass them, without matplotlib."""

from collections.abc import Iterable
from typing import Any, Protocol, runtime_checkable

import numpy as np
from torch import Tensor

from headwise.errors import ConfigError, unknown

Array = np.ndarray | Tensor

FORMATS = ("png", "svg", "pdf")


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

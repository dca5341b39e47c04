"""Headwise: attention: swap it, see it, ship it."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwise.attention import attend, plan
    from headwise.attention.masks import Causal, Mask, Padding, Table, Window
    from headwise.errors import (
        CheckpointError,
        ConfigError,
        DataError,
        HeadwiseError,
        ShapeError,
        Unsupported,
    )
    from headwise.layers.attention import MultiHeadAttention
    from headwise.records import record
    from headwise.runtime import apply as tune
    from headwise.training.runs import load, train

__version__ = "0.1.0"

__all__ = [
    "Causal",
    "CheckpointError",
    "ConfigError",
    "DataError",
    "HeadwiseError",
    "Mask",
    "MultiHeadAttention",
    "Padding",
    "ShapeError",
    "Table",
    "Unsupported",
    "Window",
    "attend",
    "load",
    "plan",
    "record",
    "train",
    "tune",
]

# names are looked up at their first use, so that importing the package, and `--help`, imports no PyTorch
_HOMES = {
    "headwise.attention": ("attend", "plan"),
    "headwise.attention.masks": ("Causal", "Mask", "Padding", "Table", "Window"),
    "headwise.errors": ("CheckpointError", "ConfigError", "DataError", "HeadwiseError", "ShapeError", "Unsupported"),
    "headwise.layers.attention": ("MultiHeadAttention",),
    "headwise.records": ("record",),
    "headwise.training.runs": ("load", "train"),
}


def __getattr__(name: str) -> Any:
    if name == "tune":
        return importlib.import_module("headwise.runtime").apply
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(home), name)
    raise AttributeError(f"module 'headwise' has no attribute '{name}'")

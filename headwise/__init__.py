"""Headwise: attention: swap it, see it, ship it."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwise.adoption import adopt, release
    from headwise.attention import attend, plan, weights
    from headwise.attention.call import Call
    from headwise.attention.masks import (
        BigBird,
        Blocks,
        Causal,
        Dilated,
        Documents,
        Edges,
        Global,
        Mask,
        Padding,
        Prefix,
        Shifts,
        Strided,
        Table,
        Window,
    )
    from headwise.attention.mechanisms.mechanism import Facts, Mechanism, Recurrent
    from headwise.attention.mechanisms.scored import Scored
    from headwise.attention.normalizers import Normalizer
    from headwise.attention.scores import Score
    from headwise.errors import CheckpointError, ConfigError, DataError, HeadwiseError, ShapeError, Unsupported
    from headwise.explorer.exploring import explore
    from headwise.explorer.notebook import show
    from headwise.layers.attention import MultiHeadAttention
    from headwise.positions.position import Position
    from headwise.predictors.attribution.attribute import attribute
    from headwise.records import Hide, Mute, Replace, Swap, edit, record
    from headwise.runtime import apply as tune
    from headwise.training.loading import load
    from headwise.training.train import train

__version__ = "0.1.0"

# names are looked up at their first use, so that importing the package, and `--help`, imports no PyTorch
_HOMES = {
    "headwise.adoption": ("adopt", "release"),
    "headwise.attention": ("attend", "plan", "weights"),
    "headwise.attention.call": ("Call",),
    "headwise.attention.masks": (
        *("BigBird", "Blocks", "Causal", "Dilated", "Documents", "Edges", "Global", "Mask", "Padding", "Prefix"),
        *("Shifts", "Strided", "Table", "Window"),
    ),
    "headwise.attention.mechanisms.mechanism": ("Facts", "Mechanism", "Recurrent"),
    "headwise.attention.mechanisms.scored": ("Scored",),
    "headwise.attention.normalizers": ("Normalizer",),
    "headwise.attention.scores": ("Score",),
    "headwise.errors": ("CheckpointError", "ConfigError", "DataError", "HeadwiseError", "ShapeError", "Unsupported"),
    "headwise.explorer.exploring": ("explore",),
    "headwise.explorer.notebook": ("show",),
    "headwise.layers.attention": ("MultiHeadAttention",),
    "headwise.positions.position": ("Position",),
    "headwise.predictors.attribution.attribute": ("attribute",),
    "headwise.records": ("Hide", "Mute", "Replace", "Swap", "edit", "record"),
    "headwise.training.loading": ("load",),
    "headwise.training.train": ("train",),
}

__all__ = [
    "BigBird",
    "Blocks",
    "Call",
    "Causal",
    "CheckpointError",
    "ConfigError",
    "DataError",
    "Dilated",
    "Documents",
    "Edges",
    "Facts",
    "Global",
    "HeadwiseError",
    "Hide",
    "Mask",
    "Mechanism",
    "MultiHeadAttention",
    "Mute",
    "Normalizer",
    "Padding",
    "Position",
    "Prefix",
    "Recurrent",
    "Replace",
    "Score",
    "Scored",
    "ShapeError",
    "Shifts",
    "Strided",
    "Swap",
    "Table",
    "Unsupported",
    "Window",
    "adopt",
    "attend",
    "attribute",
    "edit",
    "explore",
    "load",
    "plan",
    "record",
    "release",
    "show",
    "train",
    "tune",
    "weights",
]


def __getattr__(name: str) -> Any:
    if name == "tune":
        return importlib.import_module("headwise.runtime").apply
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(home), name)
    raise AttributeError(f"module 'headwise' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""Which pairs may meet: predicates over (batch, head, query, key), combined by `&`, `|`, `~`; True = may attend."""

import functools
import operator
from collections.abc import Callable

from headwise.attention.masks.content import Documents, Edges, Padding, Prefix, Table
from headwise.attention.masks.groups import Blocks, Columns, GridWindows, Groups, Lattice, Rows
from headwise.attention.masks.mask import And, Mask, Not, Or, Part, Shared, empty_rows, explain, parts, without
from headwise.attention.masks.patterns import BigBird, Causal, Dilated, Global, Shifts, Strided, Window
from headwise.attention.structure import Band, Pairs, Place, Structure
from headwise.errors import ConfigError
from headwise.registry import Registry, split

__all__ = ["MASKS", "And", "Band", "BigBird", "Blocks", "Causal", "Dilated", "Documents", "Edges", "Global", "Mask"]
__all__ += ["Not", "Or", "Padding", "Pairs", "Part", "Place", "Prefix", "Shared", "Shifts", "Strided", "Structure"]
__all__ += ["Columns", "GridWindows", "Groups", "Lattice", "Rows", "Table", "Window", "build", "catalogue", "combined"]
__all__ += ["empty_rows", "explain", "parts", "without"]


MASKS: dict[str, type[Mask]] = {
    "causal": Causal,
    "padding": Padding,
    "window": Window,
    "dilated": Dilated,
    "strided": Strided,
    "blocks": Blocks,
    "groups": Groups,
    "grid_windows": GridWindows,
    "rows": Rows,
    "columns": Columns,
    "lattice": Lattice,
    "global": Global,
    "bigbird": BigBird,
    "shifts": Shifts,
    "prefix": Prefix,
    "documents": Documents,
    "edges": Edges,
    "table": Table,
}


REGISTRY = Registry("mask", Mask, lambda: MASKS, ("length",))  # type: ignore[type-abstract]

catalogue = REGISTRY.catalogue
details = REGISTRY.details


def build(text: str, length: int) -> Mask:
    """The mask of a text such as "window:left=64,right=0 & strided:8": `&` binds closer than `|`, `~` inverts one.

    Args:
        length: of the sequences, for masks that are drawn for one.

    >>> build("causal & ~global:2", 8)
    And(left=Causal(), right=Not(mask=Global(tokens=2)))
    """
    try:
        return combined(text, lambda part: REGISTRY.build(part, length=length))
    except RecursionError:
        raise ConfigError("a mask of so many parts in one another cannot be read; write fewer") from None


def combined(text: str, make: Callable[[str], Mask]) -> Mask:
    """What a text makes of several masks, each made by `make` of its part; parentheses group."""
    text = text.strip()
    for sign, both in (("|", operator.or_), ("&", operator.and_)):
        if len(sides := split(text, sign)) > 1:
            return functools.reduce(both, (combined(side, make) for side in sides))
    if text.startswith("~"):
        return ~combined(text[1:], make)
    return combined(text[1:-1], make) if text.startswith("(") and text.endswith(")") else make(text)

"""Which pairs may meet: predicates over (batch, head, query, key), combined by `&`, `|`, `~`; True = may attend."""

from headwise.attention.masks.band import Band
from headwise.attention.masks.bigbird import BigBird
from headwise.attention.masks.content import Documents, Padding, Prefix, Table
from headwise.attention.masks.explain import empty_rows, explain
from headwise.attention.masks.graph import Edges
from headwise.attention.masks.mask import And, Mask, Not, Or, Shared
from headwise.attention.masks.pairs import Pairs
from headwise.attention.masks.parts import parts, without
from headwise.attention.masks.patterns import Blocks, Causal, Dilated, Global, Shifts, Strided, Window

__all__ = ["MASKS", "And", "Band", "BigBird", "Blocks", "Causal", "Dilated", "Documents", "Edges", "Global", "Mask"]
__all__ += ["Not", "Or", "Padding", "Pairs", "Prefix", "Shared", "Shifts", "Strided", "Table", "Window", "catalogue"]
__all__ += ["empty_rows", "explain", "parts", "without"]

MASKS: dict[str, type[Mask]] = {
    "causal": Causal,
    "padding": Padding,
    "window": Window,
    "dilated": Dilated,
    "strided": Strided,
    "blocks": Blocks,
    "global": Global,
    "bigbird": BigBird,
    "shifts": Shifts,
    "prefix": Prefix,
    "documents": Documents,
    "edges": Edges,
    "table": Table,
}


def catalogue() -> dict[str, str]:
    """Name and first documentation line of every mask."""
    return {name: (mask.__doc__ or "").partition("\n")[0] for name, mask in MASKS.items()}

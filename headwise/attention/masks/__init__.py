"""Which pairs may meet: predicates over (batch, head, query, key), combined by `&`, `|`, `~`; True = may attend."""

from headwise.attention.masks.content import Documents, Edges, Padding, Prefix, Table
from headwise.attention.masks.mask import And, Mask, Not, Or, Part, Shared, empty_rows, explain, parts, without
from headwise.attention.masks.patterns import BigBird, Blocks, Causal, Dilated, Global, Shifts, Strided, Window
from headwise.attention.structure import Band, Pairs, Place, Structure

__all__ = ["MASKS", "And", "Band", "BigBird", "Blocks", "Causal", "Dilated", "Documents", "Edges", "Global", "Mask"]
__all__ += ["Not", "Or", "Padding", "Pairs", "Part", "Place", "Prefix", "Shared", "Shifts", "Strided", "Structure"]
__all__ += ["Table", "Window", "catalogue", "empty_rows", "explain", "parts", "without"]

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

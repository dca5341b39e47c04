"""Where position enters: one scheme a file; the folder is the registry and a scheme's name is its file name."""

from functools import partial

from headwise.folders import Folder, members
from headwise.positions.position import Position

_FOLDER = Folder(partial(members, __name__, "position"), Position, "position")  # type: ignore[type-abstract]

names = _FOLDER.names
position_type = _FOLDER.find
catalogue = _FOLDER.catalogue


def details() -> dict[str, list[tuple[str, str]]]:
    """(what, value) of every scheme, as `headwise list positions` shows them."""
    kinds = {name: position_type(name) for name in names()}
    return {
        name: [("where", kind.where), ("longer", kind.extrapolates), ("paper", kind.paper)]
        for name, kind in kinds.items()
    }


def build(name: str, d_model: int, head_dim: int, num_heads: int, max_len: int) -> Position:
    """The scheme of this name for a model of these sizes."""
    return position_type(name).sized(d_model, head_dim, num_heads, max_len)

"""Where position enters: one scheme a file; the folder is the registry and a scheme's name is its file name."""

from functools import partial

from headwise.positions.position import Position
from headwise.positions.rotary import SCALINGS
from headwise.registry import Registry, members

REGISTRY = Registry(
    "position",
    Position,
    partial(members, __name__, "position"),
    sizes=("d_model", "head_dim", "num_heads", "max_len"),
    nested={"scaling": SCALINGS.build},
)

names = REGISTRY.names
position_type = REGISTRY.find
catalogue = REGISTRY.catalogue


def details() -> dict[str, list[tuple[str, str]]]:
    """(what, value) of every scheme, as `headwise list positions` shows them."""
    rows, written = {}, REGISTRY.details()
    for name in names():
        where, longer, paper = position_type(name).where, position_type(name).extrapolates, position_type(name).paper
        rows[name] = [*written.get(name, []), ("where", where), ("longer", longer), ("paper", paper)]
    return rows


def build(name: str, d_model: int, head_dim: int, num_heads: int, max_len: int) -> Position:
    """The scheme of this name for a model of these sizes."""
    return REGISTRY.build(name, d_model=d_model, head_dim=head_dim, num_heads=num_heads, max_len=max_len)

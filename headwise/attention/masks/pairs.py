"""The pairs of a graph, listed."""

from dataclasses import dataclass

from jaxtyping import Int
from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Pairs (query[i], key[i]) of positions in ascending order of query, then key, each once.

    `turn` puts them in ascending order of key, if it is known.
    """

    query: Int[Tensor, "pairs"]
    key: Int[Tensor, "pairs"]
    turn: Int[Tensor, "pairs"] | None = None

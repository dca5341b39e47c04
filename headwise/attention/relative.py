"""What the distance of a pair adds to its score and its value, kept as tables: no (query, key) tensor is needed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwise.errors import ShapeError

_TENSORS = ("scalar", "query", "query_table", "key", "key_table", "value_table")


@dataclass(frozen=True, slots=True, eq=False)
class Relative:
    """Terms of a pair that depend on n, the distance key - query clamped to the rows of the tables, less `low`.

    bias_ij = scalar[n] + query_i . query_table[n] + key_j . key_table[n], and the value that query i takes from key j
    is value_j + value_table[n]. Absent tables add nothing; all have `size` rows, the first for distance `low`. The
    terms are added to the score after its scale. Position schemes make these objects; kernels read them by rows.
    Lengths and `low` may be symbolic.

    Args:
        query, key: vectors that meet the tables; they need not be those of the scores.
        distances: the distance of each pair where positions are not consecutive, in place of key - query.

    >>> table = torch.arange(3.0).view(1, 3)
    >>> Relative(low=-1, scalar=table).bias(3, 3)[0, 0].tolist()
    [[1.0, 2.0, 2.0], [0.0, 1.0, 2.0], [0.0, 0.0, 1.0]]
    """

    low: int
    scalar: Float[Tensor, "#heads size"] | None = None
    query: Float[Tensor, "batch heads query_len width"] | None = None
    query_table: Float[Tensor, "#heads size width"] | None = None
    key: Float[Tensor, "batch heads key_len width"] | None = None
    key_table: Float[Tensor, "#heads size width"] | None = None
    value_table: Float[Tensor, "#heads size value_dim"] | None = None
    distances: Int[Tensor, "query_len key_len"] | None = None

    @property
    def size(self) -> int:
        """Rows of the tables. Raises: ShapeError if there is no table or they differ."""
        tables = (self.scalar, self.query_table, self.key_table, self.value_table)
        sizes = [table.shape[1] for table in tables if table is not None]
        if not sizes or any(size != sizes[0] for size in sizes):
            raise ShapeError(f"tables of relative positions need one number of rows, got {sizes or 'none'}")
        return sizes[0]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Every tensor that a gradient may be asked of."""
        return tuple(tensor for name in _TENSORS if (tensor := getattr(self, name)) is not None)

    def has_bias(self) -> bool:
        """Whether anything is added to the scores."""
        return self.scalar is not None or self.query_table is not None or self.key_table is not None

    def placed(self, distances: Int[Tensor, "query_len key_len"]) -> "Relative":
        """The same tables for pairs at these distances."""
        return replace(self, distances=distances)

    def detached(self) -> "Relative":
        """The same terms without a graph."""
        return replace(self, **{name: t.detach() for name in _TENSORS if (t := getattr(self, name)) is not None})

    def apart(self) -> tuple[tuple[Tensor, ...], Callable[..., "Relative"]]:
        """Its tensors, and the function that makes the same terms of them."""
        names = [name for name in _TENSORS if getattr(self, name) is not None]
        low, distances = self.low, self.distances
        return self.tensors, lambda *tensors: Relative(
            low, distances=distances, **dict(zip(names, tensors, strict=True))
        )

    def part(
        self,
        heads: Sequence[int] | None = None,
        queries: tuple[int, int] | None = None,
        keys: tuple[int, int] | None = None,
    ) -> "Relative":
        """The same terms for some heads, the queries first .. last - 1 and the keys first .. last - 1.

        Queries of the part start at their position, keys at 0: `low` is moved by the keys that are left out.
        """
        rows, columns = (slice(0, None) if limits is None else slice(*limits) for limits in (queries, keys))
        cut: dict[str, Any] = {
            "low": self.low - (columns.start if self.distances is None else 0),
            "query": None if self.query is None else self.query[:, :, rows],
            "key": None if self.key is None else self.key[:, :, columns],
            "distances": None if self.distances is None else self.distances[rows, columns],
        }
        if heads is not None:
            for name in _TENSORS:
                tensor, axis = cut.get(name, getattr(self, name)), 1 if name in ("query", "key") else 0
                if tensor is not None and tensor.shape[axis] > 1:
                    cut[name] = tensor.index_select(axis, torch.tensor(list(heads), device=tensor.device))
        return replace(self, **cut)

    def check(self, value_dim: int) -> None:
        """Raises: ShapeError if what distances add to the output has another width than the values."""
        if self.value_table is not None and self.value_table.shape[-1] != value_dim:
            width = self.value_table.shape[-1]
            raise ShapeError(f"relative positions add vectors of width {width} to values of width {value_dim}")

    def index(
        self, query_len: int, key_len: int, query_start: int, device: torch.device
    ) -> Int[Tensor, "query_len key_len"]:
        """The table row of each pair; query 0 stands at `query_start`."""
        distances = self.distances
        if distances is None:
            queries = torch.arange(query_start, query_start + query_len, device=device)
            distances = torch.arange(key_len, device=device) - queries[:, None]
        return (distances - self.low).clamp(0, self.size - 1)

    def bias(self, query_len: int, key_len: int, query_start: int = 0) -> Float[Tensor, "#batch #heads _ key_len"]:
        """The definition: what is added to the scores."""
        index = self.index(query_len, key_len, query_start, self.tensors[0].device)
        total = self.tensors[0].new_zeros(())
        if self.scalar is not None:
            total = total + self.scalar.index_select(1, index.flatten()).unflatten(1, index.shape).unsqueeze(0)
        low, high = self._reached(query_len, key_len, query_start)
        if self.query is not None and self.query_table is not None:
            by_row = self.query @ self.query_table[:, low:high].mT
            total = total + by_row.gather(-1, (index - low).expand(*by_row.shape[:2], -1, -1))
        if self.key is not None and self.key_table is not None:
            by_key = self.key @ self.key_table[:, low:high].mT
            total = total + by_key.mT.gather(-2, (index - low).expand(*by_key.shape[:2], -1, -1))
        return total

    def _reached(self, query_len: int, key_len: int, query_start: int) -> tuple[int, int]:
        """Limits of the rows that pairs of these queries can meet: a few queries need no product with all rows."""
        # a program is for any length: all rows, rather than limits in symbols
        if self.distances is not None or torch.compiler.is_compiling():
            return 0, self.size
        nearest, farthest = 1 - query_start - query_len - self.low, key_len - 1 - query_start - self.low
        low, high = (max(0, min(row, self.size - 1)) for row in (nearest, farthest))
        return low, max(low, high) + 1

    def values(
        self, weights: Float[Tensor, "batch heads query_len key_len"], query_start: int = 0
    ) -> Float[Tensor, "batch heads query_len value_dim"]:
        """The definition: the weighted sum of the value table."""
        assert self.value_table is not None
        index = self.index(weights.shape[-2], weights.shape[-1], query_start, weights.device)
        by_row = weights.new_zeros(*weights.shape[:-1], self.size).scatter_add(-1, index.expand_as(weights), weights)
        return by_row @ self.value_table.to(weights.dtype)

"""What the distance of a pair adds to its score and its value, kept as tables: no (query, key) tensor is needed."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwise.errors import ShapeError


@dataclass(frozen=True, slots=True, eq=False)
class Relative:
    """Terms of a pair that depend on n, the distance key - query clamped to the rows of the tables, less `low`.

    bias_ij = scalar[n] + query_i . query_table[n] + key_j . key_table[n], and the value that query i takes from key j
    is value_j + value_table[n]. Absent tables add nothing; all have `size` rows, the first for distance `low`. The
    terms are added to the score after its scale. Position schemes make these objects; kernels read them by rows.

    Args:
        query, key: vectors that meet the tables; they need not be those of the scores.
        distances: the distance of each pair where positions are not consecutive, in place of key - query.

    >>> table = torch.arange(3.0).view(1, 3)
    >>> Relative(low=-1, scalar=table).bias(0, 3, 3)[0, 0].tolist()
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
        sizes = {
            table.shape[1]
            for table in (self.scalar, self.query_table, self.key_table, self.value_table)
            if table is not None
        }
        if len(sizes) != 1:
            raise ShapeError(f"tables of relative positions need one number of rows, got {sorted(sizes) or 'none'}")
        return sizes.pop()

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Every tensor that a gradient may be asked of."""
        found = (self.scalar, self.query, self.query_table, self.key, self.key_table, self.value_table)
        return tuple(tensor for tensor in found if tensor is not None)

    def has_bias(self) -> bool:
        """Whether anything is added to the scores."""
        return self.scalar is not None or self.query_table is not None or self.key_table is not None

    def placed(self, distances: Int[Tensor, "query_len key_len"]) -> "Relative":
        """The same tables for pairs at these distances."""
        return replace(self, distances=distances)

    def part(self, heads: list[int], first: int, last: int) -> "Relative":
        """The same terms for some heads and for the queries first .. last - 1, the first of which becomes query 0."""

        def chosen(tensor: Tensor | None, axis: int) -> Tensor | None:
            return tensor if tensor is None or tensor.shape[axis] == 1 else tensor.index_select(axis, index)

        index = torch.tensor(heads, device=self.tensors[0].device)
        query = chosen(self.query, 1)
        return replace(
            self,
            scalar=chosen(self.scalar, 0),
            query=None if query is None else query[:, :, first:last],
            query_table=chosen(self.query_table, 0),
            key=chosen(self.key, 1),
            key_table=chosen(self.key_table, 0),
            value_table=chosen(self.value_table, 0),
            distances=None if self.distances is None else self.distances[first:last],
        )

    def detached(self) -> "Relative":
        """The same terms without a graph."""
        names = ("scalar", "query", "query_table", "key", "key_table", "value_table")
        return replace(self, **{name: t.detach() for name in names if (t := getattr(self, name)) is not None})

    def index(
        self, first: int, last: int, key_len: int, query_start: int = 0, device: torch.device | None = None
    ) -> Int[Tensor, "rows key_len"]:
        """The table row of each pair of the queries first .. last - 1, of which query 0 stands at `query_start`."""
        if self.distances is not None:
            distances = self.distances[first:last]
        else:
            queries = torch.arange(query_start + first, query_start + last, device=device)
            distances = torch.arange(key_len, device=device) - queries[:, None]
        return (distances - self.low).clamp_(0, self.size - 1)

    def bias(
        self, first: int, last: int, key_len: int, query_start: int = 0
    ) -> Float[Tensor, "#batch #heads rows key_len"]:
        """The definition: what is added to the scores of the queries first .. last - 1."""
        index = self.index(first, last, key_len, query_start, self.tensors[0].device)
        rows, total = index.shape[0], self.tensors[0].new_zeros(())
        if self.scalar is not None:
            total = total + self.scalar[:, index].unsqueeze(0)
        if self.query is not None and self.query_table is not None:
            by_row = self.query[:, :, first:last] @ self.query_table.mT
            total = total + by_row.gather(-1, index.expand(*by_row.shape[:2], rows, key_len))
        if self.key is not None and self.key_table is not None:
            by_key = self.key @ self.key_table.mT
            total = total + by_key.mT.gather(-2, index.expand(*by_key.shape[:2], rows, key_len))
        return total

    def values(
        self, weights: Float[Tensor, "batch heads rows key_len"], first: int, query_start: int = 0
    ) -> Float[Tensor, "batch heads rows value_dim"]:
        """The definition: the weighted sum of the value table for the queries from `first` on."""
        assert self.value_table is not None
        rows, key_len = weights.shape[-2:]
        index = self.index(first, first + rows, key_len, query_start, weights.device)
        by_row = weights.new_zeros(*weights.shape[:-1], self.size).scatter_add(-1, index.expand_as(weights), weights)
        return by_row @ self.value_table.to(weights.dtype)

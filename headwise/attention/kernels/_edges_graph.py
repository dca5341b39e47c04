"""Graphs as the edge kernel reads them: pairs in segments by query and by key, and sums and products over them."""

import warnings
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from headwise.attention.call import Call
from headwise.attention.masks import Edges, Pairs
from headwise.errors import ShapeError

# pairs that are computed at once: enough to hide the cost of a call, few enough to stay in the cache
_AT_ONCE = 1 << 17

PerPair = Float[Tensor, "pairs"]


class Graph:
    """Pairs in ascending order of row, then column, with what is derived from them; memory is linear in the pairs.

    Args:
        chosen: places of the pairs in a longer list of candidates; None if they are all of it.
    """

    def __init__(
        self, row: Int[Tensor, "pairs"], column: Int[Tensor, "pairs"], rows: int, columns: int, chosen: Tensor | None
    ):
        self.row, self.column, self.rows, self.columns, self.chosen = row, column, rows, columns, chosen
        self.row_start = _starts(row, rows)
        self._patterns: dict[torch.dtype, Tensor] = {}

    @cached_property
    def degree(self) -> Int[Tensor, "rows"]:
        """Pairs of each row."""
        return self.row_start.diff()

    @cached_property
    def buckets(self) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Rows of about equal degree, padded to one width: (places in the list of pairs, which are real, degree)."""
        degree = self.degree
        # width 1, 2, 4 ... that holds the row
        size = torch.ceil(torch.log2(degree.clamp(min=1).double())).long()
        buckets = []
        for power in torch.unique(size[degree > 0]).tolist():
            chosen = ((size == power) & (degree > 0)).nonzero().squeeze(-1)
            count = degree[chosen].unsqueeze(-1)
            places = torch.arange(1 << power, device=chosen.device).expand(chosen.numel(), -1)
            valid = places < count
            buckets.append((torch.where(valid, places + self.row_start[chosen].unsqueeze(-1), 0), valid, count))
        return buckets

    @cached_property
    def turn(self) -> Int[Tensor, "pairs"]:
        """The pairs in ascending order of column, then row."""
        return torch.argsort(self.column, stable=True)

    @cached_property
    def turned_row(self) -> Int[Tensor, "pairs"]:
        """The rows in that order."""
        return self.row.index_select(0, self.turn)

    @cached_property
    def column_start(self) -> Int[Tensor, "columns_and_one"]:
        """Where each column starts in that order."""
        return _starts(self.column, self.columns)

    def row_top(self, numbers: PerPair) -> Float[Tensor, "rows"]:
        """The largest number of each row; minus infinity where there is none."""
        return torch.segment_reduce(numbers, "max", offsets=self.row_start, unsafe=True)

    def row_sums(self, numbers: PerPair) -> Float[Tensor, "rows"]:
        return numbers.new_zeros(self.rows).scatter_add_(0, self.row, numbers)

    def column_sums(self, numbers: PerPair) -> Float[Tensor, "columns"]:
        return numbers.new_zeros(self.columns).scatter_add_(0, self.column, numbers)

    def by_row(self, numbers: PerPair, vectors: Float[Tensor, "columns dim"]) -> Float[Tensor, "rows dim"]:
        """For each row the sum over its pairs of number times vector of the column; no (pairs, dim) tensor is made."""
        return _bags(self.column, vectors, self.row_start, numbers)

    def by_column(self, numbers: PerPair, vectors: Float[Tensor, "rows dim"]) -> Float[Tensor, "columns dim"]:
        """For each column the sum over its pairs of number times vector of the row."""
        return _bags(self.turned_row, vectors, self.column_start, numbers.index_select(0, self.turn))

    def products(self, one: Float[Tensor, "rows dim"], two: Float[Tensor, "columns dim"]) -> PerPair:
        """The dot product of the row's and the column's vector for each pair."""
        return torch.sparse.sampled_addmm(self._pattern(one.dtype), one, two.mT, beta=0.0).values()

    def _pattern(self, dtype: torch.dtype) -> Tensor:
        if dtype not in self._patterns:
            start, column = self.row_start.int(), self.column.int()
            values = torch.zeros(column.shape, dtype=dtype, device=column.device)
            with warnings.catch_warnings(), torch.inference_mode(False):
                # says once that sparse tensors are in beta
                warnings.simplefilter("ignore")
                shape = (self.rows, self.columns)
                self._patterns[dtype] = torch.sparse_csr_tensor(start, column, values, shape, check_invariants=False)
        return self._patterns[dtype]


class Graphs:
    """The graph of every sequence and head of a call: its mask on the pairs that may be allowed at all."""

    def __init__(self, call: Call, pairs: Pairs):
        self.pairs, self.shape = pairs, call.shape
        self._memo: dict[tuple[tuple[int, int], ...], Graph] = {}
        # the pairs of a graph alone are all allowed
        self._keep = None if isinstance(call.mask, Edges) else _allowed(call, pairs)

    @property
    def step(self) -> int:
        """Items (pairs of sequence and head) that are computed at once, as parts of one larger graph."""
        return max(1, _AT_ONCE // max(1, self.pairs.query.numel()))

    def items(self, first: int, last: int) -> Graph:
        """The graph of these items, side by side: rows and columns of item n follow those of item n - 1."""
        heads = self.shape[1]
        kinds = tuple(self._kind(item // heads, item % heads) for item in range(first, last))
        if kinds not in self._memo:
            with torch.inference_mode(False):
                self._memo[kinds] = self._joined(kinds)
        return self._memo[kinds]

    def largest(self, numbers: Float[Tensor, "batch heads key_len"]) -> Float[Tensor, "batch heads query_len"]:
        """For each query the largest of these numbers, none negative, over the keys that it sees; 0 if none."""
        batch, heads, query_len, _ = self.shape
        flat, found = numbers.flatten(0, 1), []
        for first in range(0, batch * heads, self.step):
            last = min(first + self.step, batch * heads)
            graph = self.items(first, last)
            seen = flat[first:last].flatten().index_select(0, graph.column)
            found.append(graph.row_top(seen).clamp(min=0))
        return torch.cat(found).view(batch, heads, query_len)

    def _kind(self, batch: int, head: int) -> tuple[int, int]:
        if self._keep is None:
            return 0, 0
        return (batch if self._keep.shape[0] > 1 else 0), (head if self._keep.shape[1] > 1 else 0)

    def _joined(self, kinds: tuple[tuple[int, int], ...]) -> Graph:
        query, key = self.pairs.query, self.pairs.key
        query_len, key_len = self.shape[2:]
        count = query.numel()
        rows, columns, chosen = [], [], []
        for place, (batch, head) in enumerate(kinds):
            if self._keep is None:
                index = torch.arange(count, device=query.device)
            else:
                index = self._keep[batch, head].nonzero().squeeze(-1)
            rows.append(query[index] + place * query_len)
            columns.append(key[index] + place * key_len)
            chosen.append(index + place * count)
        row, column, places = torch.cat(rows), torch.cat(columns), torch.cat(chosen)
        every = places.numel() == len(kinds) * count
        return Graph(row, column, len(kinds) * query_len, len(kinds) * key_len, None if every else places)


def graphs(call: Call) -> Graphs | None:
    """The graphs of a call, remembered on its mask; None if the mask is given by no list of pairs."""
    if call.mask is None:
        return None
    memo: dict[tuple[object, ...], Graphs] = call.mask.__dict__.setdefault("_graphs", {})
    device = call.query.device
    shape = (*call.shape, call.query_start, device)
    if shape not in memo:
        with torch.inference_mode(False):
            pairs = call.mask.candidates(call.shape[2], call.shape[3], call.query_start, device)
            if pairs is None:
                return None
            memo[shape] = Graphs(call, pairs)
    return memo[shape]


def _starts(sorted_or_not: Int[Tensor, "pairs"], count: int) -> Int[Tensor, "count_and_one"]:
    starts = sorted_or_not.new_zeros(count + 1)
    starts[1:] = torch.bincount(sorted_or_not, minlength=count).cumsum(0)
    return starts


def _bags(index: Tensor, vectors: Tensor, starts: Tensor, numbers: Tensor) -> Tensor:
    return F.embedding_bag(index, vectors, starts, mode="sum", per_sample_weights=numbers, include_last_offset=True)


def _allowed(call: Call, pairs: Pairs) -> Bool[Tensor, "#batch #heads pairs"]:
    """What the mask says to the pairs; an axis that it does not depend on has size 1."""
    assert call.mask is not None
    batch, heads = call.shape[:2]
    device = pairs.query.device
    indices = torch.arange(batch, device=device).view(-1, 1, 1), torch.arange(heads, device=device).view(1, -1, 1)
    try:
        keep = call.mask(*indices, (pairs.query + call.query_start).view(1, 1, -1), pairs.key.view(1, 1, -1))
    except IndexError:
        raise ShapeError(f"the mask does not fit (batch, heads, query_len, key_len) = {call.shape}") from None
    return _narrow(_narrow(keep, 0), 1)


def _narrow(keep: Tensor, axis: int) -> Tensor:
    one = keep.narrow(axis, 0, min(1, keep.shape[axis]))
    return one if bool((keep == one).all()) else keep

"""Relative positions inside a strip: tables by distance enter along diagonals by a view, without a gather.

In a matrix with one column per distance, row i shifted by i has one column per key. Read with a row stride one less
than the row's length, memory does the shifting. Distances beyond a table share its edge rows: they fill whole columns
of the strip, so only the diagonals that the table distinguishes are ever written out.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from headwise.attention.kernels._strips import Strip, heads_of, rows_of
from headwise.attention.relative import Relative

# the tensors of `Relative`, in the order of its `tensors`
NAMES = ("scalar", "query", "query_table", "key", "key_table", "value_table")


class Diagonals:
    """Which table row each pair of a strip takes.

    Keys before `left` take the first row of the table, keys from `right` on the last one. Those between take `width`
    neighbouring rows, counted from `begin` and clamped to the table: pair (i, j) the one at j - left - i + rows - 1.
    """

    def __init__(self, relative: Relative, strip: Strip, query_start: int):
        rows, keys = strip.shape[2:]
        self.rows, self.size = rows, relative.size
        # the table row of the first pair, if the table went on for ever
        first = strip.keys.start - query_start - strip.rows.start - relative.low
        self.left = min(max(-first, 0), keys - 1)
        self.right = min(max(self.size + rows - 1 - first, self.left + 1), keys)
        self.begin = first + self.left - (rows - 1)
        self.width = self.right - self.left + rows - 1
        self._whole = self.begin >= 0 and self.begin + self.width <= self.size

    def index(self, device: torch.device) -> Tensor:
        """The table rows of the diagonals."""
        return torch.arange(self.begin, self.begin + self.width, device=device).clamp_(0, self.size - 1)

    def chosen(self, table: Tensor) -> Tensor:
        """The rows of a table (heads, size, ...) that the diagonals take."""
        if self._whole:
            return table[:, self.begin : self.begin + self.width]
        return table.index_select(1, self.index(table.device))

    def return_(self, d_table: Tensor, gradient: Tensor) -> None:
        """Adds the gradient of what `chosen` gave to that of the table."""
        if self._whole:
            d_table[:, self.begin : self.begin + self.width].add_(gradient)
        else:
            d_table.index_add_(1, self.index(d_table.device), gradient)

    def spread_(self, strip: Tensor, by_row: Tensor, factor: float) -> None:
        """strip_ij += factor * (by_row_i at the diagonal of the pair)."""
        strip[..., : self.left].add_(by_row[..., :1], alpha=factor)
        strip[..., self.left : self.right].add_(self._skewed(by_row), alpha=factor)
        strip[..., self.right :].add_(by_row[..., -1:], alpha=factor)

    def gathered(self, strip: Tensor) -> Tensor:
        """The transposed map: what lies in the row of a strip, summed by table row."""
        by_row = strip.new_zeros(*strip.shape[:-1], self.width)
        self._skewed(by_row).copy_(strip[..., self.left : self.right])
        by_row[..., 0] += strip[..., : self.left].sum(-1)
        by_row[..., -1] += strip[..., self.right :].sum(-1)
        return by_row

    def _skewed(self, by_row: Tensor) -> Tensor:
        shape = (*by_row.shape[:2], self.rows, self.right - self.left)
        strides = (by_row.stride(0), by_row.stride(1), self.width - 1, 1)
        return by_row.as_strided(shape, strides, by_row.storage_offset() + self.rows - 1)


class RelativeStrips:
    """The relative terms of a call, strip by strip, and the gradients of their tensors."""

    def __init__(self, relative: Relative, query_start: int, dtype: torch.dtype):
        self.relative, self._start, self._dtype = relative, query_start, dtype
        self.gradients: dict[str, Tensor] = {}

    def learn(self) -> None:
        """Starts all gradients at zero."""
        for name in NAMES:
            tensor = getattr(self.relative, name)
            if tensor is not None:
                self.gradients[name] = torch.zeros_like(tensor, dtype=self._dtype)

    def learned(self) -> list[Tensor]:
        """The gradients, in the order of `relative.tensors`."""
        return list(self.gradients.values())

    def at(self, strip: Strip) -> "RelativeStrip":
        """The terms of one strip."""
        return RelativeStrip(self, strip, Diagonals(self.relative, strip, self._start), self._dtype)


class RelativeStrip:
    """The relative terms of one strip; what the scores needed is kept for their gradient."""

    def __init__(self, whole: RelativeStrips, strip: Strip, diagonals: Diagonals, dtype: torch.dtype):
        self._relative, self._gradients, self._strip = whole.relative, whole.gradients, strip
        self._diagonals, self._dtype = diagonals, dtype
        self._by_key: list[tuple[slice, Tensor]] = []

    def add_(self, scores: Tensor, factor: float) -> None:
        """Adds `factor` times the bias of the pairs."""
        relative = self._relative
        by_row: Tensor | None = None
        if relative.query is not None and relative.query_table is not None:
            by_row = _times(self._vectors(relative.query), self._rows(relative.query_table))
        if relative.scalar is not None:
            scalar = self._rows(relative.scalar)[None, :, None]
            rows = (1, scalar.shape[1], self._diagonals.rows, scalar.shape[-1])
            by_row = scalar.expand(rows).contiguous() if by_row is None else by_row.add_(scalar)
        if by_row is not None:
            self._diagonals.spread_(scores, by_row, factor)
        if relative.key is not None and relative.key_table is not None:
            for columns, bias in self._key_parts(self._keys(relative.key), self._tables(relative.key_table)):
                scores[..., columns].add_(bias, alpha=factor)

    def learn_bias(self, d_scores: Tensor) -> None:
        """Adds what the gradient of the scores gives to the gradients of the terms of `add_`."""
        relative, diagonals, strip = self._relative, self._diagonals, self._strip
        if relative.query is not None and relative.query_table is not None:
            by_row = diagonals.gathered(d_scores)
            rows_of(self._gradients["query"], strip).add_(_back(by_row, self._rows(relative.query_table)))
            self._return("query_table", _outer(by_row, self._vectors(relative.query), relative.query_table.shape[0]))
            self._return_scalar(by_row.sum((0, 2)))
        elif relative.scalar is not None:
            self._return_scalar(diagonals.gathered(d_scores.sum(0, keepdim=True)).sum((0, 2)))
        if relative.key is not None and relative.key_table is not None:
            self._learn_by_key(d_scores)

    def add_values_(self, output: Tensor, weights: Tensor) -> None:
        """output_i += sum over j of weights_ij value_table at the diagonal of the pair."""
        if self._relative.value_table is not None:
            output.add_(_back(self._diagonals.gathered(weights), self._rows(self._relative.value_table)))

    def learn_values(self, weights: Tensor, d_output: Tensor, d_weights: Tensor) -> None:
        """Adds the gradients of `add_values_` to those of the table and of the weights."""
        table = self._relative.value_table
        if table is None:
            return
        d_output = d_output.to(self._dtype)
        self._diagonals.spread_(d_weights, _times(d_output, self._rows(table)), 1.0)
        self._return("value_table", _outer(self._diagonals.gathered(weights), d_output, table.shape[0]))

    def _vectors(self, query: Tensor) -> Tensor:
        return rows_of(query, self._strip).to(self._dtype)

    def _keys(self, key: Tensor) -> Tensor:
        return key[self._strip.batches, self._strip.heads, self._strip.keys].to(self._dtype)

    def _tables(self, table: Tensor) -> Tensor:
        return heads_of(table, self._strip).to(self._dtype)

    def _rows(self, table: Tensor) -> Tensor:
        return self._diagonals.chosen(heads_of(table, self._strip)).to(self._dtype)

    def _return(self, name: str, gradient: Tensor) -> None:
        self._diagonals.return_(heads_of(self._gradients[name], self._strip), gradient)

    def _return_scalar(self, gradient: Tensor) -> None:
        if self._relative.scalar is not None:
            self._return("scalar", gradient if self._relative.scalar.shape[0] > 1 else gradient.sum(0, keepdim=True))

    def _key_parts(self, key: Tensor, table: Tensor) -> list[tuple[slice, Tensor]]:
        """What key_j . table adds: whole columns beyond the table, the diagonals between."""
        left, right = self._diagonals.left, self._diagonals.right
        edges = [
            (columns, _times(key[:, :, columns], table[:, [row]]).mT)
            for columns, row in ((slice(0, left), 0), (slice(right, key.shape[2]), -1))
        ]
        between = _by_diagonal(key[:, :, left:right], self._diagonals.chosen(table), self._diagonals.rows)
        return [*edges, (slice(left, right), between)]

    def _learn_by_key(self, d_scores: Tensor) -> None:
        relative, strip = self._relative, self._strip
        assert relative.key is not None
        assert relative.key_table is not None
        with torch.enable_grad():
            key = self._keys(relative.key).detach().requires_grad_()
            table = self._tables(relative.key_table).detach().requires_grad_()
            parts = self._key_parts(key, table)
        gradients = [
            d_scores[..., columns].sum(-2, keepdim=True) if bias.shape[-2] == 1 else d_scores[..., columns]
            for columns, bias in parts
        ]
        d_key, d_table = torch.autograd.grad([bias for _, bias in parts], (key, table), gradients)
        self._gradients["key"][strip.batches, strip.heads, strip.keys] += d_key
        heads_of(self._gradients["key_table"], strip).add_(d_table)


def _times(vectors: Tensor, table: Tensor) -> Tensor:
    """vectors (batch, heads, rows, width) . table (heads or 1, entries, width), of each pair of row and entry."""
    if table.shape[0] > 1:
        return vectors @ table.mT
    return (vectors.flatten(0, 2) @ table[0].mT).unflatten(0, vectors.shape[:3])


def _back(by_row: Tensor, table: Tensor) -> Tensor:
    """by_row (batch, heads, rows, entries) times table (heads or 1, entries, width)."""
    return _times(by_row, table.mT)


def _outer(by_row: Tensor, vectors: Tensor, heads: int) -> Tensor:
    """The gradient of the table in `_times`: summed over batch and rows, over heads too if the table has one."""
    if heads == 1:
        return (by_row.flatten(0, 2).mT @ vectors.flatten(0, 2))[None]
    return by_row.transpose(0, 1).flatten(1, 2).mT @ vectors.transpose(0, 1).flatten(1, 2)


def _by_diagonal(key: Tensor, table: Tensor, rows: int) -> Tensor:
    """bias_ij = key_j . table[j - i + rows - 1], by products of blocks of as many keys as there are rows.

    With keys and table in reverse order, key m meets entry m + i: a block of keys meets one window of the table, in a
    product twice as large as needed, whose diagonals come by reading with a row one longer than it is.
    """
    keys = key.shape[2]
    blocks = -(-keys // rows)
    padding = blocks * rows - keys
    backward = F.pad(key.flip(2), (0, 0, 0, padding)).unflatten(2, (blocks, rows))
    # (heads, blocks, width, 2 rows - 1)
    windows = F.pad(table.flip(1), (0, 0, 0, padding)).unfold(1, 2 * rows - 1, rows)
    products = (backward @ windows).flatten(-2)
    # (batch, heads, keys, rows)
    shifted = F.pad(products, (0, rows)).unflatten(-1, (rows, 2 * rows))[..., :rows].flatten(2, 3)
    return shifted[:, :, :keys].flip(2).mT

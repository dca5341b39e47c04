"""Cuts a call into strips: a few heads, a few query rows, and only those keys that the rows may see."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from headwise.attention.call import Call
from headwise.attention.kernels._products import rounded
from headwise.attention.masks import And, Band, Mask

# pairs of a table that is small enough to be built whole, and kept with the mask for all layers
_SMALL_TABLE = 2**20


@dataclass(frozen=True, slots=True)
class Strip:
    """Where a strip lies: `groups` are heads of the key, `heads` those of the query, `rows` queries counted from 0."""

    batches: slice
    groups: slice
    heads: slice
    rows: slice
    keys: slice

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(batch, heads, rows, keys) of the scores."""
        return _length(self.batches), _length(self.heads), _length(self.rows), _length(self.keys)

    @property
    def pairs(self) -> int:
        """Scores in the strip."""
        return math.prod(self.shape)


def strips(call: Call, pairs: int, least_rows: int) -> list[Strip]:
    """The strips of a call, of about `pairs` scores each, but never fewer than `least_rows` rows if there are more.

    Every query row lies in exactly one strip of each head; keys outside the band of the mask lie in none.
    """
    batch, kv_heads = call.key.shape[:2]
    cut = _cut(call, pairs, least_rows, every=1)
    return [
        Strip(
            slice(b, min(b + cut.batches, batch)),
            slice(g, min(g + cut.groups, kv_heads)),
            slice(g * call.group, min(g + cut.groups, kv_heads) * call.group),
            slice(first, last),
            keys,
        )
        for b in range(0, batch, cut.batches)
        for first, last, keys in cut.blocks
        for g in range(0, kv_heads, cut.groups)
    ]


class Outline(NamedTuple):
    """Number of strips, pairs in them, and the sizes of a product: a strip holds one for each head of the key."""

    strips: float
    pairs: float
    rows: int
    keys: int


def outline(call: Call, pairs: int, least_rows: int) -> Outline:
    """What a plan needs to know of the strips: long calls are judged by a sample of theirs."""
    batch, kv_heads = call.key.shape[:2]
    every = max(1, call.shape[2] // 4096)
    cut = _cut(call, pairs, least_rows, every)
    beside = -(-batch // cut.batches) * -(-kv_heads // max(1, cut.groups))
    covered = sum((last - first) * _length(keys) for first, last, keys in cut.blocks)
    blocks = len([keys for _, _, keys in cut.blocks if _length(keys)])
    first, last, keys = max(cut.blocks, key=lambda block: block[1] - block[0], default=(0, 0, slice(0, 0)))
    strips_, pairs_ = every * beside * blocks, every * batch * kv_heads * call.group * covered
    return Outline(float(strips_), float(pairs_), call.group * (last - first), _length(keys))


class _Cut(NamedTuple):
    """Rows and keys of each block, and how many batch entries and key heads are computed together."""

    blocks: list[tuple[int, int, slice]]
    batches: int
    groups: int


def _cut(call: Call, pairs: int, least_rows: int, every: int) -> _Cut:
    batch, kv_heads = call.key.shape[:2]
    query_len = call.shape[2]
    band = (None, None) if call.mask is None else call.mask.within() or (None, None)
    rows = _rows(call, band, pairs, least_rows)
    ends = [(first, min(first + rows, query_len)) for first in range(0, query_len, rows * every)]
    blocks = [(first, last, _keys(call, band, first, last)) for first, last in ends]
    widest = max((_length(keys) for _, _, keys in blocks), default=0)
    together = max(1, pairs // max(1, call.group * rows * widest))
    # a score with parameters for each head needs all of them
    groups = kv_heads if call.score.per_head() else min(together, kv_heads)
    return _Cut(blocks, max(1, min(together // kv_heads, batch)), groups)


def _rows(call: Call, band: Band, pairs: int, least: int) -> int:
    _, _, query_len, key_len = call.shape
    left, right = band
    if left is None and right is None:
        return max(1, min(rounded(max(least, pairs // max(1, call.group * key_len))), query_len))
    span = key_len if left is None or right is None else max(1, left + right + 1)
    # a band saves the keys outside it only if the rows are few
    most = max(least, min(128, 2 * span), span // 8)
    rows = max(least, pairs // max(1, call.group * min(key_len, span + most)))
    return max(1, min(rows, most, query_len))


def as_wide_as_all_keys(call: Call) -> bool:
    """Whether every strip meets all keys, so that all have one shape but the last."""
    return call.mask is None or call.mask.within() in (None, (None, None))


def _keys(call: Call, band: Band, first: int, last: int) -> slice:
    key_len, start = call.shape[3], call.query_start
    left, right = band
    low = 0 if left is None else min(max(0, start + first - left), key_len)
    high = key_len if right is None else min(max(low, start + last + right), key_len)
    return slice(low, high)


def _length(part: slice) -> int:
    return int(part.stop - part.start)


class StripMask:
    """The mask of a call, strip by strip, as what is added to the scores: 0 where allowed, minus infinity where not.

    Bands cost two triangles that all strips share, padding one row, anything else the predicate on the strip's pairs.
    """

    def __init__(self, call: Call, dtype: torch.dtype):
        self._call, self._dtype, self._device = call, dtype, call.query.device
        self._band, self._rest = _split(call.mask)
        self._triangles: dict[tuple[int, int, int, bool], Tensor] = {}
        self._table: Tensor | None = None
        # of the last strip of rows, or of all if they are alike
        self._place: object = None
        self._hidden: Tensor | None = None
        self._by_query = self._by_head = False
        if self._rest is not None and 0 not in call.shape:
            self._look(self._rest)

    def _look(self, rest: Mask) -> None:
        """Finds the axes that the mask depends on, and keeps its table where that is small."""
        batch, heads, query_len, key_len = self._call.shape
        start = self._call.query_start
        # the last row is enough to have the mask check its sizes
        last = rest.prepared(batch, heads, 1, key_len, start + query_len - 1, self._device)
        corner = (slice(0, batch), slice(0, heads), slice(0, min(2, query_len)), slice(0, min(1, key_len)))
        two_rows = rest(*self._positions(*corner))
        sizes = (1,) * (4 - two_rows.ndim) + tuple(two_rows.shape)
        self._by_head, self._by_query = sizes[1] > 1, sizes[2] > 1
        if not self._by_query:
            self._table = last.keep
        elif batch * (heads if self._by_head else 1) * query_len * key_len <= _SMALL_TABLE:
            self._table = rest.prepared(batch, heads, query_len, key_len, start, self._device).keep

    def hide_(self, scores: Tensor, strip: Strip) -> None:
        """Adds minus infinity to the scores (batch, heads, rows, keys) of forbidden pairs."""
        for columns, corner in self._corners(strip):
            scores[..., columns].add_(corner)
        if self._rest is not None:
            scores.add_(self._rest_hidden(strip))

    def hidden(self, strip: Strip) -> Tensor:
        """What `hide_` adds, (batch or 1, heads or 1, rows, keys)."""
        hidden = torch.zeros(strip.shape[2:], dtype=self._dtype, device=self._device)[None, None]
        if self._rest is not None:
            hidden = hidden + self._rest_hidden(strip)
        for columns, corner in self._corners(strip):
            hidden[..., columns].add_(corner)
        return hidden

    def count(self, strip: Strip, bias: Tensor | None) -> Tensor:
        """Allowed keys of each row, (batch or 1, heads or 1, rows or 1, 1); a bias of minus infinity forbids too."""
        if self._rest is None and bias is None:
            return self._band_count(strip)
        hidden = self.hidden(strip) if bias is None else self.hidden(strip) + bias
        return (hidden > float("-inf")).sum(-1, keepdim=True).to(self._dtype)

    def _band_count(self, strip: Strip) -> Tensor:
        left, right = self._band
        low, high = strip.keys.start, strip.keys.stop
        if left is None and right is None:
            return torch.full((1, 1, 1, 1), float(high - low), dtype=self._dtype, device=self._device)
        start = self._call.query_start
        query = torch.arange(start + strip.rows.start, start + strip.rows.stop, device=self._device)
        first = torch.full_like(query, low) if left is None else (query - left).clamp(low, high)
        end = torch.full_like(query, high) if right is None else (query + right + 1).clamp(low, high)
        return (end - first).clamp(min=0).view(1, 1, -1, 1).to(self._dtype)

    def _corners(self, strip: Strip) -> list[tuple[slice, Tensor]]:
        """The columns in which the band forbids something, with what is added there."""
        (left, right), (_, _, rows, keys) = self._band, strip.shape
        # the column of the first row's own position
        own = self._call.query_start + strip.rows.start - strip.keys.start
        corners = []
        if right is not None and own + right + 1 < keys:
            begin = max(0, own + right + 1)
            corners.append(
                (slice(begin, keys), self._triangle(rows, keys - begin, own + right + 1 - begin, upper=True))
            )
        if left is not None and own + rows - 1 - left > 0:
            end = min(keys, own + rows - 1 - left)
            corners.append((slice(0, end), self._triangle(rows, end, own - left - 1, upper=False)))
        return corners

    def _triangle(self, rows: int, columns: int, diagonal: int, *, upper: bool) -> Tensor:
        key = (rows, columns, diagonal, upper)
        if key not in self._triangles:
            full = torch.full((rows, columns), float("-inf"), dtype=self._dtype, device=self._device)
            self._triangles[key] = full.triu_(diagonal) if upper else full.tril_(diagonal)
        return self._triangles[key]

    def _rest_hidden(self, strip: Strip) -> Tensor:
        """What the mask beside its bands adds; heads of one strip of rows share it."""
        if not self._by_query:
            assert self._table is not None
            if self._hidden is None:
                self._hidden = _minus_infinity(self._table, self._dtype)
            return part(self._hidden, strip)
        place = (strip.batches, strip.rows, strip.heads if self._by_head else None)
        if self._hidden is None or self._place != place:
            self._place, self._hidden = place, _minus_infinity(self._keep(strip), self._dtype)
        return self._hidden

    def _keep(self, strip: Strip) -> Tensor:
        if self._table is not None:
            return part(self._table, strip)
        assert self._rest is not None
        heads = strip.heads if self._by_head else slice(0, 1)
        return self._rest(*self._positions(strip.batches, heads, strip.rows, strip.keys))

    def _positions(self, batches: slice, heads: slice, rows: slice, keys: slice) -> list[Tensor]:
        start = self._call.query_start
        ranges = (batches, heads, slice(start + rows.start, start + rows.stop), keys)
        return [
            torch.arange(part.start, part.stop, device=self._device).view([-1 if i == axis else 1 for i in range(4)])
            for axis, part in enumerate(ranges)
        ]


def _minus_infinity(keep: Tensor, dtype: torch.dtype) -> Tensor:
    # 1 - 1/1 = 0 and 1 - 1/0 = -infinity: ten times as fast as filling by a mask
    return keep.to(dtype).reciprocal_().neg_().add_(1.0)


def _part(tensor: Tensor, *parts: slice) -> Tensor:
    """The slices of the axes that are not broadcast."""
    return tensor[tuple(slice(None) if n == 1 else part for n, part in zip(tensor.shape, parts, strict=True))]


def part(tensor: Tensor, strip: Strip) -> Tensor:
    """What belongs to the strip of a tensor that broadcasts to (batch, heads, query_len, key_len)."""
    return _part(tensor, strip.batches, strip.heads, strip.rows, strip.keys)


def rows_of(tensor: Tensor, strip: Strip) -> Tensor:
    """The rows of the strip in a tensor (batch, heads, query_len, n)."""
    return tensor[strip.batches, strip.heads, strip.rows]


def heads_of(table: Tensor, strip: Strip) -> Tensor:
    """The heads of the strip in a table (heads or 1, ...)."""
    return table if table.shape[0] == 1 else table[strip.heads]


def _split(mask: Mask | None) -> tuple[Band, Mask | None]:
    """(band, rest) such that the mask is the band and the rest."""
    left: int | None = None
    right: int | None = None
    rest: Mask | None = None
    for mask_part in _conjuncts(mask):
        band = mask_part.band()
        if band is None:
            rest = mask_part if rest is None else rest & mask_part
        else:
            left, right = _least(left, band[0]), _least(right, band[1])
    return (left, right), rest


def _conjuncts(mask: Mask | None) -> list[Mask]:
    if mask is None:
        return []
    return [*_conjuncts(mask.left), *_conjuncts(mask.right)] if isinstance(mask, And) else [mask]


def _least(one: int | None, two: int | None) -> int | None:
    return min((n for n in (one, two) if n is not None), default=None)

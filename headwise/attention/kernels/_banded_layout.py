"""Blocks of queries and the band of keys that each can reach, as overlapping views of one padded tensor."""

from collections.abc import Iterator
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from headwise.attention.call import Call
from headwise.attention.masks import Mask

# fastest or equal at every width
BLOCK = 64
# numbers of keys that one piece copies or differentiates at a time
_PIECE = 2**19
# shapes for which one mask is remembered
_SHAPES = 64


@dataclass(frozen=True, slots=True)
class Piece:
    """Blocks computed by one call: `blocks` of `rows` queries each, from query `first` on, for some of the heads.

    `keep` is (#heads, #blocks, #rows, width); `empty` marks the rows without a key, and is None if there is none.
    """

    heads: slice
    first: int
    rows: int
    blocks: int
    keep: Tensor
    empty: Tensor | None

    @property
    def last(self) -> int:
        return self.first + self.rows * self.blocks


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the keys of each block lie: padded key p is key p + shift, and query i reaches i .. i + reach."""

    query_len: int
    key_len: int
    shift: int
    reach: int

    @classmethod
    def of(cls, call: Call) -> "Layout":
        """The layout of a call whose mask lies within a band."""
        assert call.mask is not None
        within = call.mask.within()
        left, right = within or (None, None)
        assert left is not None
        assert right is not None
        return cls(*call.shape[2:], call.query_start - left, max(0, left + right))

    def padded(self, tensor: Tensor) -> Tensor:
        """(heads, key_len, width) -> (heads, query_len + reach, width), zeros where there is no key."""
        padded = tensor.new_zeros(tensor.shape[0], self.query_len + self.reach, tensor.shape[2])
        inside, source = self._overlap()
        padded[:, inside] = tensor[:, source]
        return padded

    def unpadded(self, padded: Tensor) -> Tensor:
        """The inverse for gradients: zeros at keys that no query reaches."""
        inside, source = self._overlap()
        if source == slice(0, self.key_len):
            return padded[:, inside]
        tensor = padded.new_zeros(padded.shape[0], self.key_len, padded.shape[2])
        tensor[:, source] = padded[:, inside]
        return tensor

    def _overlap(self) -> tuple[slice, slice]:
        low, high = max(0, self.shift), min(self.key_len, self.shift + self.query_len + self.reach)
        return slice(low - self.shift, max(low, high) - self.shift), slice(low, max(low, high))

    def queries(self, tensor: Tensor, piece: Piece) -> Tensor:
        """The queries (heads, blocks, rows, width) of a piece."""
        return tensor[piece.heads, piece.first : piece.last].unflatten(1, (piece.blocks, piece.rows))

    def keys(self, padded: Tensor, piece: Piece, every: int = 1, skip: int = 0) -> Tensor:
        """The keys (heads, blocks, rows + reach, width) of every so many blocks of a piece, as a view."""
        heads = padded[piece.heads]
        step, length = heads.stride(0), heads.stride(1)
        blocks = (piece.blocks - skip + every - 1) // every
        size = (heads.shape[0], blocks, piece.rows + self.reach, heads.shape[2])
        start = heads.storage_offset() + (piece.first + skip * piece.rows) * length
        return heads.as_strided(size, (step, every * piece.rows * length, length, 1), start)

    def add_keys(self, padded: Tensor, piece: Piece, parts: Tensor) -> None:
        """Adds what each block has for its keys; blocks far enough apart share none and are added at once."""
        every = -(-parts.shape[2] // piece.rows)
        for skip in range(min(every, piece.blocks)):
            self.keys(padded, piece, every, skip).add_(parts[:, skip::every])

    def runs(self, exact: bool) -> Iterator[tuple[int, int, int, bool]]:
        """(first query, rows, blocks, whether one table serves all blocks): edges, inner blocks, edges, the rest."""
        full = self.query_len // BLOCK
        before = min(full, -(-max(0, -self.shift) // BLOCK)) if exact else full
        inside = (self.key_len - self.shift - self.reach) // BLOCK
        after = min(full, max(before, inside))
        for start, stop, shared in ((0, before, False), (before, after, True), (after, full, False)):
            if stop > start:
                yield start * BLOCK, BLOCK, stop - start, shared
        if self.query_len % BLOCK:
            yield full * BLOCK, self.query_len % BLOCK, 1, False


_memo: WeakKeyDictionary[Mask, dict[tuple[object, ...], list[Piece]]] = WeakKeyDictionary()


def pieces(call: Call, layout: Layout) -> list[Piece]:
    """All pieces of a call, made once for a mask and shape and shared by the layers of a model."""
    assert call.mask is not None
    memo = _memo.setdefault(call.mask, {})
    shape = (*call.shape, call.query_start, call.query.device, call.query.shape[-1], call.value.shape[-1])
    if shape not in memo:
        # a step of decoding has a new shape each time
        if len(memo) >= _SHAPES:
            memo.clear()
        with torch.inference_mode(False), torch.no_grad():
            memo[shape] = list(_pieces(call, layout))
    return memo[shape]


def _pieces(call: Call, layout: Layout) -> Iterator[Piece]:
    assert call.mask is not None
    batch, heads, query_len, key_len = call.shape
    # one row as a table: the mask says itself if it does not fit
    call.mask.prepared(batch, heads, 1, key_len, call.query_start + query_len - 1, call.query.device)
    exact = call.mask.band() is not None
    for first, rows, blocks, shared in layout.runs(exact):
        keep = _table(call, layout, first, rows, 1 if shared else blocks)
        together = keep.shape[0] == 1 and keep.shape[1] == 1
        slabs = [slice(0, batch * heads)] if together else [slice(b * heads, (b + 1) * heads) for b in range(batch)]
        size = (slabs[0].stop - slabs[0].start) * (rows + layout.reach)
        step = max(1, _PIECE // (size * max(call.query.shape[-1], call.value.shape[-1], 1)))
        for at in range(0, blocks, step):
            part = keep if keep.shape[2] == 1 else keep[:, :, at : at + step]
            empty = ~part.any(-1, keepdim=True)
            nowhere = not bool(empty.any())
            for b, slab in enumerate(slabs):
                index = min(b, keep.shape[0] - 1)
                count = min(step, blocks - at)
                yield Piece(slab, first + at * rows, rows, count, part[index], None if nowhere else empty[index])


def _table(call: Call, layout: Layout, first: int, rows: int, blocks: int) -> Tensor:
    """The mask (#batch, #heads, blocks, rows, width) of some blocks; False where there is no key."""
    assert call.mask is not None
    batch, heads = (torch.arange(n, device=call.query.device) for n in call.shape[:2])
    starts = first + torch.arange(blocks, device=call.query.device)[:, None, None] * rows
    query = starts + torch.arange(rows, device=call.query.device)[:, None]
    key = starts + torch.arange(rows + layout.reach, device=call.query.device) + layout.shift
    there = (key >= 0) & (key < layout.key_len)
    known = key.clamp(0, max(0, layout.key_len - 1))
    allowed = call.mask(batch.view(-1, 1, 1, 1, 1), heads.view(-1, 1, 1, 1), query + call.query_start, known)
    # a key beyond the ends was read as the nearest one
    allowed = allowed & there
    return allowed.reshape((1,) * (5 - allowed.ndim) + tuple(allowed.shape))

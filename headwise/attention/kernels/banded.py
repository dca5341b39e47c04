"""Masks within a band: blocks of queries over the keys they can reach, in time and memory linear in the length.

Blocks whose keys do not overlap are taken together: their keys are then a view, and their gradients are added at once.
"""

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from headwise.attention.call import Call, is_plain, per_head
from headwise.attention.kernels import plain
from headwise.attention.kernels._sdpa import NoDerivative, sdpa
from headwise.attention.normalizers import Softmax
from headwise.attention.zeros import zeroed

Keep = Bool[Tensor, "#batch #heads #groups block width"]
Live = Bool[Tensor, "#batch #heads #groups block 1"]
Rows = Float[Tensor, "batch heads groups block _"]
Columns = Float[Tensor, "batch kv_heads groups width _"]
Padded = Float[Tensor, "batch kv_heads length dim"]


def refusal(call: Call) -> str | None:
    if None in call.structure.within:
        return "the mask has no band of bounded width"
    if call.bias is not None:
        return "there is a bias"
    if call.relative is not None:
        return "there are relative positions"
    return plain.left_out(call)


def num_pairs(call: Call) -> int:
    """Blocks of queries times the keys that a block can reach."""
    layout = Layout.of(call)
    return math.prod((*call.shape[:2], layout.groups, layout.every, layout.block, layout.width))


def memory_summary(call: Call) -> str:
    if _is_tiled(call):
        return f"a table of the band, {4 * num_pairs(call) // math.prod(call.shape[:2]):,} bytes for each that differs"
    return f"the scores of the band, {4 * num_pairs(call):,} bytes"


def peak_bytes(call: Call) -> int:
    item, layout = call.query.element_size(), Layout.of(call)
    (batch, heads), dims = call.shape[:2], call.query.shape[-1] + call.value.shape[-1]
    alike = call.structure.band is not None and call.structure.lens is None
    tables = num_pairs(call) // (batch * heads) * (1 if alike else batch)
    length = layout.groups * layout.stride + (layout.every - 1) * layout.block
    copies = item * (2 * call.query.numel() + call.key.numel() + call.value.numel())
    copies += item * batch * heads // call.group * length * dims
    if _is_tiled(call):
        # keys and values for each head, and what the score makes of them
        again = (call.group > 1) + (not is_plain(call.score))
        return copies + again * item * batch * heads * length * dims + tables * (2 + item)
    # one phase after another; what each keeps for the gradient stays
    phases, wide_item = layout.every if call.learns else 1, max(4, item)
    if wide_item > item or call.group > 1 or not is_plain(call.score):
        # keys and values of blocks, which overlap, in float32 and for each head
        copies += wide_item * batch * heads * phases * layout.groups * layout.width * dims
    table = plain.table_bytes(call, num_pairs(call) // layout.every, tables // layout.every)
    # of the tables that a phase makes, half are there when it has ended
    return copies + table + (phases - 1) * table // 2


def compute(call: Call) -> Float[Tensor, "batch heads query_len value_dim"]:
    """The output of the call; without SDPA inside transforms that ask for derivatives which it has not."""
    if _is_tiled(call):
        try:
            return _computed(call, tiled=True)
        except NoDerivative:
            pass
    return _computed(call, tiled=False)


def _computed(call: Call, *, tiled: bool) -> Tensor:
    layout = Layout.of(call)
    tables = call.structure.cached("band", lambda: [_table(call, layout, phase) for phase in range(layout.every)])
    call = replace(call, mask=None)
    query, key, value, scale = call.query, call.key, call.value, 1.0
    if tiled:
        query, key, value, scale = call.products()
        key, value = (per_head(tensor, call.shape[1]) for tensor in (key, value))
        # of one width, or SDPA would keep the scores, on a CPU
        dim = max(query.shape[-1], value.shape[-1])
        query, key, value = (_widened(tensor, dim) for tensor in (query, key, value))
    rows, key, value = layout.rows(query), layout.padded(key), layout.padded(value)
    blocks = []
    for phase, (keep, live) in enumerate(tables):
        query, near, values = rows[phase], layout.reached(key, phase), layout.reached(value, phase)
        output = _tiled(query, near, values, keep, scale) if tiled else _defined(call, query, near, values, keep)
        blocks.append(output if live is None else zeroed(output, live))
    # (batch, heads, groups x every x block, value_dim)
    output = torch.stack(blocks, 3).flatten(2, 4)
    return output[:, :, : call.shape[2], : call.value.shape[-1]].to(call.value.dtype)


@dataclass(frozen=True)
class Layout:
    """Where the blocks lie: block b, of the queries from b x block on, is in group b // every, at phase b % every.

    It reaches `width` padded keys from b x block on. Blocks of one phase lie `stride` apart, no less than the width.
    `first` is the position of the first padded key.
    """

    block: int
    width: int
    every: int
    groups: int
    stride: int
    first: int

    @classmethod
    def of(cls, call: Call) -> "Layout":
        """The layout of a call whose mask lies within a band, with as few padded queries as possible."""
        left, right = call.structure.within
        reach, query_len = max(0, left + right), call.shape[2]
        # wider blocks compute more pairs, but read each key less often
        block = 64 if reach < 192 else 128
        least = _ceil(reach, block) + 1
        groups = max(1, query_len // (least * block))
        every = _ceil(query_len, groups * block)
        if groups * every > (groups + 1) * least:
            groups, every = groups + 1, least
        return cls(block, least * block, every, groups, max(every, least) * block, call.query_start - left)

    def rows(self, query: Float[Tensor, "batch heads query_len dim"]) -> tuple[Rows, ...]:
        """The queries of each phase."""
        more = self.groups * self.every * self.block - query.shape[2]
        query = F.pad(query, (0, 0, 0, more)) if more else query
        return query.unflatten(2, (self.groups, self.every, self.block)).unbind(3)

    def padded(self, tensor: Float[Tensor, "batch kv_heads key_len dim"]) -> Padded:
        """Keys or values from the first that a query reaches to the last."""
        before = -min(self.first, tensor.shape[2])
        length = self.groups * self.stride + (self.every - 1) * self.block
        return F.pad(tensor, (0, 0, before, length - before - tensor.shape[2]))

    def reached(self, padded: Padded, phase: int) -> Columns:
        """The keys or values that the blocks of a phase reach, as a view."""
        # each cut is a pass over the gradient
        length = self.width if self.groups == 1 else self.stride
        part = padded.narrow(2, phase * self.block, self.groups * length).unflatten(2, (self.groups, length))
        return part if length == self.width else part[:, :, :, : self.width]


def _table(call: Call, layout: Layout, phase: int) -> tuple[Keep, Live | None]:
    """What the mask says to the pairs of a phase, and which queries have a key; None if each has one.

    A query without a key sees all of them, so that its softmax and gradient are finite; so do those beyond the end.
    """
    batch, heads, query_len, key_len = call.shape
    device = call.query.device
    group = torch.arange(layout.groups, device=device)[:, None, None]
    row, column = torch.arange(layout.block, device=device)[:, None], torch.arange(layout.width, device=device)
    query = group * layout.every * layout.block + phase * layout.block + row
    key = group * layout.stride + phase * layout.block + column + layout.first
    there, beyond = (key >= 0) & (key < key_len), query >= query_len
    band, start = call.structure.band, call.query_start
    full_band = band is not None and call.structure.lens is None and sum(band) >= 0
    if full_band and layout.first + query_len <= key_len and start + band[1] >= 0:
        far = column + layout.first - start - row
        keep = (far >= -band[0]) & (far <= band[1]) & there | beyond
        return keep[None, None], None
    # positions beyond the ends are read as the nearest
    sequences, head = (torch.arange(n, device=device).view(-1, 1, 1, 1) for n in (batch, heads))
    query, key = query.clamp(max=query_len - 1) + start, key.clamp(0, key_len - 1)
    keep = call.mask(sequences.unsqueeze(-1), head, query, key) & there
    keep = keep.reshape((1,) * (5 - keep.ndim) + tuple(keep.shape))
    live = keep.any(-1, keepdim=True)
    return keep | ~live | beyond, live


def _is_tiled(call: Call) -> bool:
    """Whether SDPA computes the blocks; with dropout it would keep the scores, on a CPU."""
    return isinstance(call.normalizer, Softmax) and call.score.is_dot() and call.dropout == 0.0


def _tiled(query: Rows, key: Columns, value: Columns, keep: Keep, scale: float) -> Rows:
    """Softmax of a dot product by SDPA, groups as its batch."""
    batch, heads = query.shape[:2]
    if batch > 1 and keep.shape[:2] != (1, 1):
        # row by row, so that keys stay views
        rows = zip(
            *(tensor.split(1) for tensor in (query, key, value, keep.expand(batch, *keep.shape[1:]))), strict=True
        )
        return torch.cat([_tiled(q, k, v, table, scale) for q, k, v, table in rows])
    query, key, value = (tensor.flatten(0, 1).transpose(0, 1) for tensor in (query, key, value))
    output = sdpa(query, key, value, attn_mask=keep[0].transpose(0, 1), scale=scale)
    return output.transpose(0, 1).unflatten(0, (batch, heads))


def _defined(
    call: Call, query: Rows, key: Columns, value: Columns, keep: Keep
) -> Float[Tensor, "batch heads groups block value_dim"]:
    """The definition, blocks as sequences."""
    keep = keep.expand(query.shape[0], -1, query.shape[2], -1, -1)
    query, key, value, keep = (tensor.transpose(1, 2).flatten(0, 1) for tensor in (query, key, value, keep))
    output = plain.attention(replace(call, query=query, key=key, value=value, query_start=0), keep)
    return output.unflatten(0, (call.shape[0], -1)).transpose(1, 2)


def _widened(tensor: Tensor, dim: int) -> Tensor:
    return tensor if tensor.shape[-1] == dim else F.pad(tensor, (0, dim - tensor.shape[-1]))


def _ceil(number: int, step: int) -> int:
    return -(-number // step)

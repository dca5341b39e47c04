"""Masks within groups of positions: sorted by group, each group a sequence of its own, in a batch of all groups.

Groups smaller than the largest are filled up with positions that nothing sees. Windows of a grid, rows and columns,
blocks: time and memory are those of the pairs of each group.
"""

import math
from dataclasses import replace
from types import ModuleType
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.attention.call import Call
from headwise.attention.kernels import fused, plain
from headwise.attention.masks import Table
from headwise.attention.masks.groups import Grouped


def refusal(call: Call) -> str | None:
    if call.structure.groups is None:
        return "the mask has no groups of positions"
    if call.relative is not None:
        return "there are relative positions by distance"
    return plain.left_out(call)


def sorts(call: Call) -> bool:
    """Whether there are numbers to sort: a traced program and the meta device have none, and compute the definition."""
    return not torch.compiler.is_compiling() and call.query.device.type != "meta"


def num_pairs(call: Call) -> int:
    """Groups times the queries and the keys of the largest."""
    queries, keys = _layout(call)
    return math.prod(call.shape[:2]) * queries.groups * queries.width * keys.width


def memory_summary(call: Call) -> str:
    queries, keys = _layout(call)
    return f"{queries.groups} groups of up to {queries.width} queries and {keys.width} keys, sorted"


def peak_bytes(call: Call) -> int:
    queries, keys = _layout(call)
    rows, item = queries.groups * call.shape[0], call.query.element_size()
    moved = rows * queries.width * call.shape[1] * (call.query.shape[-1] + call.value.shape[-1])
    moved += rows * keys.width * call.key.shape[1] * (call.key.shape[-1] + call.value.shape[-1])
    tabled = rows * queries.width * keys.width
    # sorted, and turned to batches
    if _inner(replace(call, mask=None, structure=None)) is plain:
        return 2 * item * moved + plain.table_bytes(call, num_pairs(call), tabled)
    # the table, the same with rows that see nothing, and the numbers that are added; none where groups are of one size
    even = bool(queries.there.all()) and bool(keys.there.all()) and isinstance(call.mask, Grouped)
    return 2 * item * moved + (0 if even else tabled * (2 + item))


def compute(call: Call) -> Float[Tensor, "batch heads query_len value_dim"]:
    if not sorts(call):
        return plain.compute(call)
    queries, keys = _layout(call)
    table = call.structure.cached("groups table", lambda: _table(call, queries, keys))
    tensors: dict[str, Any] = {
        "query": queries.rows(call.query),
        "key": keys.rows(call.key),
        "value": keys.rows(call.value),
    }
    bias = None if call.bias is None else _bias(call.bias, call, queries, keys)
    mask = None if table is None else Table(_batched(table, call.shape[0]))
    inner = replace(call, **tensors, mask=mask, bias=bias, query_start=0, structure=None, clean=True)
    output = _inner(inner).compute(inner).unflatten(0, (call.shape[0], queries.groups))
    # (batch, heads, groups x width, value_dim)
    output = output.transpose(1, 2).flatten(2, 3)
    return output.index_select(2, queries.place)


def _inner(call: Call) -> ModuleType:
    """The kernel that computes all groups."""
    return plain if fused.refusal(call) or fused.keeps_scores(call) else fused


class Slots(NamedTuple):
    """Where positions go: group by group, each filled up to the width of the largest.

    Args:
        position: that in each slot; that of a free slot is another's.
        there: whether a slot is taken.
        place: the slot of each position.
    """

    position: Int[Tensor, "slots"]
    there: Bool[Tensor, "groups width"]
    place: Int[Tensor, "length"]

    @property
    def groups(self) -> int:
        """How many."""
        return self.there.shape[0]

    @property
    def width(self) -> int:
        """Slots of a group."""
        return self.there.shape[1]

    @classmethod
    def of(cls, group: Int[Tensor, "length"], groups: int) -> "Slots":
        """The slots of positions whose groups are numbered from 0 on."""
        counts = torch.bincount(group, minlength=groups)
        width, order = int(counts.max()), torch.argsort(group, stable=True)
        first = counts.cumsum(0) - counts
        place = torch.empty_like(group)
        rank = torch.arange(len(group), device=group.device) - first[group[order]]
        place[order] = group[order] * width + rank
        index = torch.zeros(groups * width, dtype=torch.int64, device=group.device)
        index[place] = torch.arange(len(group), device=group.device)
        there = torch.arange(width, device=group.device) < counts[:, None]
        return cls(index, there, place)

    def rows(self, tensor: Float[Tensor, "batch heads length dim"]) -> Float[Tensor, "rows heads width dim"]:
        """Each group of each sequence as a sequence."""
        return tensor.index_select(2, self.position).unflatten(2, self.there.shape).transpose(1, 2).flatten(0, 1)


def _layout(call: Call) -> tuple[Slots, Slots]:
    """The slots of queries and of keys."""
    made: tuple[Slots, Slots] = call.structure.cached("groups", lambda: _slots(call))
    return made


def _slots(call: Call) -> tuple[Slots, Slots]:
    query_len, key_len = call.shape[2:]
    device, start = call.query.device, call.query_start
    # on the host, where the widths are needed
    positions = torch.cat((torch.arange(start, start + query_len), torch.arange(key_len))).cpu()
    names, group = call.structure.groups(positions).unique(return_inverse=True)
    parts = group.split((query_len, key_len))
    queries, keys = (Slots(*(part.to(device) for part in Slots.of(each, len(names)))) for each in parts)
    return queries, keys


def _table(call: Call, queries: Slots, keys: Slots) -> Bool[Tensor, "#batch #heads groups width keys"] | None:
    """What the mask says to the pairs of each group; None: it allows all of them."""
    batch, heads, device = call.shape[0], call.shape[1], call.query.device
    query = queries.position.view(queries.groups, -1, 1) + call.query_start
    key = keys.position.view(keys.groups, 1, -1)
    sequence, head = (torch.arange(n, device=device).view(-1, 1, 1, 1) for n in (batch, heads))
    allowed = call.mask(sequence.unsqueeze(-1), head, query, key) & keys.there.unsqueeze(1)
    allowed = allowed.reshape((1,) * (5 - allowed.ndim) + tuple(allowed.shape))
    return None if bool(allowed.all()) else allowed


def _batched(
    tensor: Float[Tensor, "#batch heads groups width keys"] | Bool[Tensor, "#batch heads groups width keys"], batch: int
) -> Tensor:
    """Each group of each sequence as a sequence, (batch x groups, heads, width, keys)."""
    return tensor.expand(batch, -1, -1, -1, -1).transpose(1, 2).flatten(0, 1)


def _bias(bias: Tensor, call: Call, queries: Slots, keys: Slots) -> Float[Tensor, "rows heads width keys"]:
    bias = bias.expand(-1, -1, call.shape[2], -1)
    pairs = bias[:, :, queries.position.view(queries.groups, -1, 1), keys.position.view(keys.groups, 1, -1)]
    return _batched(pairs, call.shape[0])

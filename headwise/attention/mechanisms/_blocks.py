"""What mechanisms share whose content chooses keys: blocks, how the chosen ones are computed, what a trace shows."""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from headwise.attention import planner
from headwise.attention.call import Call
from headwise.attention.dropout import drop
from headwise.attention.mechanisms._masks import chunks, front
from headwise.attention.mechanisms.mechanism import FORWARD, Rescored
from headwise.attention.precision import uncast, wide
from headwise.attention.stages import Stage, Working, definition

Chosen = Bool[Tensor, "batch heads query_len blocks"]

# of those that choose: whole blocks are seen or hidden, so a mask may only say which keys there are
CHOOSING = replace(FORWARD, family="pattern", honours="keys")


class Choosing(Rescored, ABC):
    """softmax(q k^T / sqrt(d)) v over the blocks of keys that `chosen` shows to each query.

    The choice is a step, so no gradient goes through it. Of a long sequence the chosen blocks alone are computed, see
    `attend_blocks`; else other pairs get a bias of minus infinity for the planner's kernels: the exact reference. A
    trace shows the chosen blocks.
    """

    block: int
    # blocks that a query sees at most
    top: int
    # how the choice is made, in LaTeX
    rule: str

    @abstractmethod
    def chosen(self, call: Call) -> Chosen:
        """Which blocks each query sees."""

    def as_scored(self, call: Call, dropout: float) -> Call:
        return limited(call, self.chosen(call), self.block, dropout)

    def compute(self, call: Call) -> Float[Tensor, "batch heads query_len value_dim"]:
        dropout = self.dropout if self.training else 0.0
        return attend_blocks(call, self.chosen(call), self.block, self.top, dropout, self.kernel)

    def compute_stages(self, call: Call) -> list[Stage]:
        """The chosen blocks, then products, scale, mask and softmax."""
        return [choice_stage(self.chosen(call), call, self.block, self.rule), *definition(self.as_scored(call, 0.0))]


def limited(call: Call, chosen: Chosen, block: int, dropout: float = 0.0) -> Call:
    """The call in which each query sees the keys of its blocks alone."""
    hides = torch.zeros(chosen.shape, dtype=wide(call.query).dtype, device=chosen.device)
    hides = hides.masked_fill(~chosen, float("-inf")).repeat_interleave(block, -1)
    hides = front(hides, call.shape[3], -1)
    return replace(call, bias=hides if call.bias is None else hides + call.bias, dropout=dropout, gates=None)


# queries of a tile, which meet one block together
_TILE = 64
# narrower blocks make products too narrow; what a query and its output cost to move, in keys that it meets there
_NARROW, _MOVED = 8, 16


def attend_blocks(
    call: Call, chosen: Chosen, block: int, top: int, dropout: float = 0.0, kernel: str = "auto"
) -> Float[Tensor, "batch heads query_len value_dim"]:
    """softmax(q k^T / sqrt(d)) v over the keys of the chosen blocks, `top` a query at most.

    Where they are few, in time and memory that grow with the chosen pairs: the queries that chose a block meet it side
    by side, in tiles. Else over all pairs, by the planner, as are calls with a bias, relative positions or another
    kernel than "auto", and traced programs. Equal but for rounding, gradients too.
    """
    # as `python -m benchmarks.sparse` measures it: from 5 (blocks of 64) to 6 times (of 32) as many keys as are chosen
    spared = 4 * top * (block + _MOVED) <= call.shape[3] and block >= _NARROW and call.shape[2] > 1
    whole = torch.compiler.is_compiling() or call.query.device.type == "meta" or kernel != "auto"
    if whole or not spared or call.bias is not None or call.relative is not None:
        return planner.run(limited(call, chosen, block, dropout), kernel).to(call.value.dtype)
    with uncast(call.query):
        return _tiled(call, _Tiles.of(chosen, min(top, chosen.shape[-1])), block, dropout).to(call.value.dtype)


class _Tiles(NamedTuple):
    """Pairs of a query and a block that it chose, block by block, each block's filled up to whole tiles.

    The number of tiles is the most that there can be, so that no shape depends on a choice.

    Args:
        block: that each tile meets.
        query: that in each slot of a tile; -1 in a free one.
        slot: of each pair, up to `top` for a query.
        there: whether there is such a pair.
    """

    block: Int[Tensor, "batch heads tiles"]
    query: Int[Tensor, "batch heads slots"]
    slot: Int[Tensor, "batch heads query_len top"]
    there: Bool[Tensor, "batch heads query_len top"]

    @classmethod
    def of(cls, chosen: Chosen, top: int) -> "_Tiles":
        """The tiles of a choice."""
        *sizes, length, blocks = chosen.shape
        tiles = length * top // _TILE + blocks
        number = torch.arange(blocks, dtype=torch.int32, device=chosen.device)
        # block numbers of each query, that of no block behind the others
        pairs = torch.where(chosen, number, blocks).topk(top, largest=False).values.long()
        flat = pairs.flatten(-2)
        counts = flat.new_zeros(*sizes, blocks + 1).scatter_add(-1, flat, torch.ones_like(flat))
        ends = (-(-counts[..., :-1] // _TILE)).cumsum(-1)
        order = flat.argsort(dim=-1, stable=True)
        ordered = flat.gather(-1, order)
        # places among the queries of a block
        rank = torch.arange(length * top, device=flat.device) - (counts.cumsum(-1) - counts).gather(-1, ordered)
        slot = F.pad(ends, (1, 0)).gather(-1, ordered) * _TILE + rank
        # of no block, behind all slots
        slot = slot.masked_fill(ordered == blocks, tiles * _TILE)
        query = slot.new_full((*sizes, tiles * _TILE + 1), -1).scatter(-1, slot, order // top)[..., :-1]
        slot = torch.zeros_like(slot).scatter(-1, order, slot).unflatten(-1, (length, top))
        block = (ends.unsqueeze(-2) <= torch.arange(tiles, device=chosen.device).unsqueeze(-1)).sum(-1)
        return cls(block.clamp(max=blocks - 1), query, slot.masked_fill(pairs == blocks, 0), pairs < blocks)


def _tiled(call: Call, tiles: _Tiles, block: int, dropout: float) -> Float[Tensor, "batch heads query_len value_dim"]:
    """The output: scores in tiles, the largest of each query off all of its own, its parts summed and divided."""
    (batch, heads, length, _), group = call.shape, call.group
    row = torch.arange(batch * heads, device=call.query.device).view(batch, heads, 1)
    query_row = tiles.query.clamp(min=0) + row * length
    slot_row = tiles.slot + (row * tiles.query.shape[-1]).unsqueeze(-1)
    met = torch.arange(batch * heads // group, device=row.device).repeat_interleave(group).view(batch, heads, 1)
    met = (met * chunks(call.shape[3], block) + tiles.block).flatten()
    key, value = (blocked(wide(x), block).flatten(0, 2).index_select(0, met) for x in (call.key, call.value))
    query = _at(wide(call.query).flatten(0, 2) * call.query.shape[-1] ** -0.5, query_row.unflatten(-1, (-1, _TILE)))
    scores = query.flatten(0, 2) @ key.mT
    scores = scores.masked_fill(~_meets(call, tiles, block), float("-inf"))
    with torch.no_grad():
        # the same number for all pairs of a query, which cancels out
        of_pairs = _at(scores.amax(-1).flatten(), slot_row).masked_fill(~tiles.there, float("-inf"))
        most = of_pairs.amax(-1)
        most = _at(most.masked_fill(most == float("-inf"), 0.0).flatten(), query_row).reshape(-1, _TILE, 1)
    powers = (scores - most).exp()
    rows = _at((drop(powers, dropout) @ value).flatten(0, 1), slot_row)
    rows = (rows * tiles.there.unsqueeze(-1)).sum(-2)
    total = (_at(powers.sum(-1).flatten(), slot_row) * tiles.there).sum(-1, keepdim=True)
    return rows / total.masked_fill(total == 0, 1.0)


def _at(rows: Tensor, index: Tensor) -> Tensor:
    """The rows of these numbers, in the shape of the index."""
    return rows.index_select(0, index.flatten()).unflatten(0, index.shape)


def _meets(call: Call, tiles: _Tiles, block: int) -> Bool[Tensor, "tiles slots keys"]:
    """Whether the query in a slot may see a key of its tile's block: none behind it, none that is hidden."""
    key = (tiles.block.flatten().unsqueeze(-1) * block + torch.arange(block, device=tiles.block.device)).unsqueeze(-2)
    query = tiles.query.reshape(-1, _TILE, 1)
    earlier = (key <= query + call.query_start) & (query >= 0)
    if call.structure.open or call.structure.key_mask() is None:
        return earlier
    shown = blocked(shown_keys(call), block).squeeze(-1).expand(*call.shape[:2], -1, -1) > 0
    blocks = shown.gather(2, tiles.block.unsqueeze(-1).expand(-1, -1, -1, block))
    return earlier & blocks.flatten(0, 2).unsqueeze(-2)


def choice_stage(chosen: Chosen, call: Call, block: int, rule: str) -> Stage:
    """What a trace shows of the choice."""
    text, values = f"1 where a query sees a block of {block} keys", chosen.to(wide(call.query).dtype)
    return Stage("blocks", "C", rule, ("queries", "blocks"), values, text, Working("formula", ("query", "key")))


def blocked(tensor: Float[Tensor, "batch heads length dim"], block: int) -> Float[Tensor, "batch heads blocks _ dim"]:
    """Axis 2 in blocks, zeros behind the end."""
    count = chunks(tensor.shape[2], block)
    return F.pad(tensor, (0, 0, 0, count * block - tensor.shape[2])).unflatten(2, (-1, block))


def shown_keys(call: Call) -> Float[Tensor, "#batch #heads key_len 1"]:
    """1 for keys that some query sees, else 0."""
    keys = None if call.structure.open else call.structure.key_mask()
    like = wide(call.key[:1, :1, :, :1])
    return torch.ones_like(like) if keys is None else keys.unsqueeze(-1).to(like.dtype)


def places(call: Call) -> Tensor:
    """The position of each query, as a column."""
    return (torch.arange(call.shape[2], device=call.query.device) + call.query_start).unsqueeze(-1)


def best(scores: Float[Tensor, "batch heads query_len blocks"], allowed: Tensor, count: int) -> Chosen:
    """The highest of those allowed, `count` at most; the earlier of two that are equal.

    >>> best(torch.tensor([[[[1.0, 3.0, 3.0, 4.0]]]]), torch.tensor([True, True, True, False]), 1).int().tolist()
    [[[[0, 1, 0, 0]]]]
    """
    hidden = scores.masked_fill(~allowed, float("-inf"))
    if count == 0:
        return torch.zeros_like(hidden, dtype=torch.bool)
    least = F.pad(hidden, (0, count), value=float("-inf")).topk(count).values[..., -1:]
    above, equal = hidden > least, hidden == least
    room = count - above.sum(-1, keepdim=True)
    return (above | (equal & (equal.cumsum(-1, dtype=torch.int32) <= room))) & allowed

"""Masks that depend on positions alone: causal, windows, dilated, strided, global tokens, shifts, BigBird."""

import functools
import operator
from abc import ABC
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from jaxtyping import Bool
from torch import Tensor

from headwise.attention.masks.mask import Mask, are_whole, check_sizes
from headwise.attention.structure import Band, KeyMask, Place, QueryMask, Structure
from headwise.errors import ShapeError


class Near(Mask, ABC):
    """Base of patterns in which each query sees the key at its own position."""

    def _within(self) -> Band:
        """A band outside of which nothing is allowed."""
        return (None, None)

    def structure(self, place: Place | None = None) -> Structure:
        return Structure(self, place, within=self._within(), seen_by_own_query=True)

    def key_mask(self, structure: Structure) -> KeyMask:
        place = structure.at
        return None if place.query_start == 0 and place.key_len <= place.query_len else structure.reach()[0]


@dataclass(frozen=True, eq=False)
class Causal(Mask):
    """No query sees a later key: `key <= query`."""

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return key <= query

    def structure(self, place: Place | None = None) -> Structure:
        return Structure(self, place, (None, 0), within=(None, 0), seen_by_own_query=True)

    def reason(self, batch: int, head: int, query: int, key: int) -> str:
        return f"key {key} comes after query {query}"


@dataclass(frozen=True, eq=False)
class Window(Mask):
    """Keys at most `left` positions before and `right` positions after the query (truncated self-attention).

    >>> int(Window(5, 5).dense(1, 1, 1000, 1000).sum())
    10970
    """

    left: int
    right: int
    least: ClassVar = {"left": 0, "right": 0}

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (key >= query - self.left) & (key <= query + self.right)

    def structure(self, place: Place | None = None) -> Structure:
        band = (self.left, self.right)
        return Structure(self, place, band, within=band, seen_by_own_query=True)

    def reason(self, batch: int, head: int, query: int, key: int) -> str:
        return f"key {key} is {_apart(query, key)}; it allows {self.left} before and {self.right} after"


@dataclass(frozen=True, eq=False)
class Dilated(Near):
    """Every `step`-th key, at most `left` such steps before and `right` after the query: a window with gaps.

    Source: Beltagy et al. 2020, arXiv:2004.05150, section 3.1 (dilated sliding window).

    >>> Dilated(1, 1, 2).dense(1, 1, 1, 5, query_start=2).flatten().int().tolist()
    [1, 0, 1, 0, 1]
    """

    left: int
    right: int
    step: int
    least: ClassVar = {"left": 0, "right": 0, "step": 1}

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        far = key - query
        near = (far >= -self.left * self.step) & (far <= self.right * self.step)
        return near & (far.remainder(self.step) == 0)

    def _within(self) -> Band:
        return (self.left * self.step, self.right * self.step)

    def reason(self, batch: int, head: int, query: int, key: int) -> str:
        allows = f"it allows {self.left} steps of {self.step} before and {self.right} after"
        return f"key {key} is {_apart(query, key)}; {allows}"


@dataclass(frozen=True, eq=False)
class Strided(Near):
    """The last `step` keys, and before and after them every key whose distance is a multiple of `step`.

    With `Causal()` it is the strided pattern of the Sparse Transformer: any key is reached in two layers at a cost of
    n^1.5 for step = sqrt(n).

    Source: Child et al. 2019, arXiv:1904.10509, section 4.3 (both heads of the strided pattern joined into one).

    >>> (Strided(3) & Causal()).dense(1, 1, 1, 8, query_start=7).flatten().int().tolist()
    [0, 1, 0, 0, 1, 1, 1, 1]
    """

    step: int
    least: ClassVar = {"step": 1}

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        far = (query - key).abs()
        return (far <= self.step) | (far.remainder(self.step) == 0)

    def reason(self, batch: int, head: int, query: int, key: int) -> str:
        return f"key {key} is {_apart(query, key)}, more than {self.step} and no multiple of it"


@dataclass(frozen=True, eq=False)
class Shifts(Mask):
    """Head h sees one key only, `steps[h]` positions after the query: heads that form a convolution.

    Args:
        steps: one for each head; negative ones look back.
    Source: Cordonnier et al. 2020, arXiv:1911.03584, theorem 1, in one dimension.

    >>> Shifts((-1, 1)).dense(1, 2, 1, 3, query_start=1)[0, :, 0].int().tolist()
    [[1, 0, 0], [0, 0, 1]]
    """

    steps: tuple[int, ...]

    def __post_init__(self) -> None:
        if not are_whole(self.steps) or not self.steps:
            raise ShapeError("Shifts needs a whole number of steps for each head, below 2^31: Shifts((-1, 0, 1))")

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        # sums in place of a table, which a compiled program cannot make for each pair
        return key - query == sum(step * (head == number) for number, step in enumerate(self.steps))

    def structure(self, place: Place | None = None) -> Structure:
        if place is not None and place.heads > len(self.steps):
            raise ShapeError(f"Shifts has steps for {len(self.steps)} heads, got {place.heads} heads")
        return Structure(self, place, within=(max(0, -min(self.steps)), max(0, max(self.steps))))

    def reason(self, batch: int, head: int, query: int, key: int) -> str:
        return f"head {head} sees the key {self.steps[head]} positions after the query only"


@dataclass(frozen=True, eq=False)
class Global(Mask):
    """Some positions see all keys and are seen by all queries.

    `Global(2) | Window(256, 256)` is Longformer's pattern with its global tokens in front. Longformer projects the
    global tokens' queries, keys and values by matrices of their own; here one set serves all.

    Args:
        tokens: how many of the first positions, or which positions.
    Source: Beltagy et al. 2020, arXiv:2004.05150, section 3.1 (global attention).

    >>> Global(1).dense(1, 1, 3, 3)[0, 0].int().tolist()
    [[1, 1, 1], [1, 0, 0], [1, 0, 0]]
    >>> Global((0, 2)).dense(1, 1, 3, 3)[0, 0].int().tolist()
    [[1, 1, 1], [1, 0, 1], [1, 1, 1]]
    """

    tokens: int | tuple[int, ...]

    def __post_init__(self) -> None:
        tokens = (self.tokens,) if isinstance(self.tokens, int) else self.tokens
        if not are_whole(tokens) or min(tokens, default=0) < 0:
            raise ShapeError(
                f"Global({self.tokens}): the number of tokens and their positions must be 0 or more and below 2^31"
            )

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return self._among(query) | self._among(key)

    def key_mask(self, structure: Structure) -> KeyMask:
        place = structure.at
        return self._reached(place.query_start, place.query_len, 0, place.key_len, place.device)

    def query_mask(self, structure: Structure) -> QueryMask:
        place = structure.at
        return self._reached(0, place.key_len, place.query_start, place.query_len, place.device)

    def _reached(
        self, start: int, length: int, first: int, count: int, device: torch.device | None
    ) -> Bool[Tensor, "1 1 count"] | None:
        """Which of some positions meet one of the others; all of them where a token is among the others."""
        tokens = range(self.tokens) if isinstance(self.tokens, int) else self.tokens
        if any(start <= token < start + length for token in tokens):
            return None
        return self._among(torch.arange(first, first + count, device=device)).view(1, 1, -1)

    def reason(self, batch: int, head: int, query: int, key: int) -> str:
        if isinstance(self.tokens, int):
            return f"neither query {query} nor key {key} is among the first {self.tokens} positions"
        return f"neither query {query} nor key {key} is among the positions {', '.join(map(str, self.tokens))}"

    def _among(self, position: Tensor) -> Tensor:
        if isinstance(self.tokens, int):
            return position < self.tokens
        # without a table, which a compiled program cannot make for each pair
        return functools.reduce(operator.or_, (position == token for token in self.tokens), position < 0)


@dataclass(frozen=True, eq=False)
class BigBird(Mask):
    """Blocks of positions see their neighbours, some global blocks, and a few blocks drawn at random.

    Queries in a global block see everything and everything sees them. The drawing depends on the seed alone. The
    released model draws other blocks, to be given as `blocks`; it gives the last block to all: `(0, last)`.

    Args:
        length: positions that there are; a longer input is an error.
        block: positions in a block.
        window: neighbouring blocks, the own one included; odd.
        global_blocks: how many blocks at the front, or which blocks, see and are seen by all.
        random: blocks drawn for each block, besides those.
        seed: of the drawing.
        blocks: which block sees which, (blocks, blocks); made of what stands above if absent.
    Source: Zaheer et al. 2020, arXiv:2007.14062, section 2 (internal transformer construction, ITC).

    >>> int(BigBird(64, block=8, window=3, global_blocks=1, random=1).dense(1, 1, 64, 64).sum())
    2624
    """

    length: int
    block: int = 64
    window: int = 3
    global_blocks: int | tuple[int, ...] = 2
    random: int = 3
    seed: int = 0
    blocks: Bool[Tensor, "blocks blocks"] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_sizes(self, length=1, block=1, window=1, random=0)
        if not self.window % 2:
            raise ShapeError(f"{self}: window must be an odd number of blocks")
        count, blocks = -(-self.length // self.block), self.global_blocks
        if self.blocks is not None:
            if self.blocks.shape != (count, count) or self.blocks.dtype != torch.bool:
                shape = f"{tuple(self.blocks.shape)} {self.blocks.dtype}"
                raise ShapeError(f"BigBird: blocks must be a bool tensor ({count}, {count}), got {shape}")
            return
        if isinstance(blocks, int):
            check_sizes(self, global_blocks=0)
        everywhere = tuple(range(min(blocks, count))) if isinstance(blocks, int) else blocks
        if not are_whole(everywhere) or not all(0 <= b < count for b in everywhere):
            raise ShapeError(f"{self}: global_blocks must be a number of blocks, or blocks from 0 to {count - 1}")
        object.__setattr__(self, "blocks", self._drawn(count, everywhere))

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        assert self.blocks is not None
        return self.blocks.to(key.device)[query // self.block, key // self.block]

    def structure(self, place: Place | None = None) -> Structure:
        longest = 0 if place is None else max(place.query_start + place.query_len, place.key_len)
        if longest > self.length:
            raise ShapeError(f"BigBird was built for {self.length} positions, got {longest}")
        return Structure(self, place)

    def key_mask(self, structure: Structure) -> KeyMask:
        assert self.blocks is not None
        place = structure.at
        return self._met(self.blocks.mT, (0, place.key_len), (place.query_start, place.query_len), place)

    def query_mask(self, structure: Structure) -> QueryMask:
        assert self.blocks is not None
        place = structure.at
        return self._met(self.blocks, (place.query_start, place.query_len), (0, place.key_len), place)

    def _met(
        self, blocks: Tensor, positions: tuple[int, int], others: tuple[int, int], place: Place
    ) -> Bool[Tensor, "1 1 length"]:
        """Which positions, given by their first and their number, meet one of the others."""
        number = torch.arange(blocks.shape[0], device=place.device)
        there = (number >= others[0] // self.block) & (number * self.block < others[0] + others[1])
        index = torch.arange(positions[0], positions[0] + positions[1], device=place.device) // self.block
        return (blocks.to(there.device) & there).any(1)[index].view(1, 1, -1)

    def reason(self, batch: int, head: int, query: int, key: int) -> str:
        return (
            f"block {key // self.block} of key {key} is no neighbour of block {query // self.block} of query {query},"
            f" not global and was not drawn for it"
        )

    def _drawn(self, count: int, everywhere: tuple[int, ...]) -> Tensor:
        row = torch.arange(count)
        chosen = torch.isin(row, torch.tensor(everywhere, dtype=torch.long))
        keep = ((row[:, None] - row).abs() <= self.window // 2) | chosen | chosen[:, None]
        # the largest of random numbers among the blocks that are not seen yet
        lots = torch.rand(count, count, generator=torch.Generator().manual_seed(self.seed), device="cpu")
        lots = lots.to(row.device).masked_fill_(keep, -1.0)
        drawn = lots.topk(min(self.random, count), dim=-1)
        return keep.scatter(1, drawn.indices, keep.gather(1, drawn.indices) | (drawn.values >= 0.0))


def _apart(query: int, key: int) -> str:
    return f"{abs(key - query)} {'before' if key < query else 'after'} query {query}"

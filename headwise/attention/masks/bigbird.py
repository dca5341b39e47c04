"""BigBird's pattern: blocks that see their neighbours, global blocks and blocks drawn at random."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Bool
from torch import Tensor

from headwise.attention.masks.checks import are_whole, check_sizes
from headwise.attention.masks.mask import Mask
from headwise.errors import ShapeError


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
        count, given = -(-self.length // self.block), self.global_blocks
        if self.blocks is not None:
            if self.blocks.shape != (count, count) or self.blocks.dtype != torch.bool:
                shape = f"{tuple(self.blocks.shape)} {self.blocks.dtype}"
                raise ShapeError(f"BigBird: blocks must be a bool tensor ({count}, {count}), got {shape}")
            return
        if isinstance(given, int):
            check_sizes(self, global_blocks=0)
        everywhere = tuple(range(min(given, count))) if isinstance(given, int) else given
        if not are_whole(everywhere) or not all(0 <= b < count for b in everywhere):
            raise ShapeError(f"{self}: global_blocks must be a number of blocks, or blocks from 0 to {count - 1}")
        object.__setattr__(self, "blocks", self._drawn(count, everywhere))

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        assert self.blocks is not None
        return self.blocks.to(key.device)[query // self.block, key // self.block]

    def seen(
        self, batch: int, heads: int, query_len: int, key_len: int, query_start: int, device: torch.device
    ) -> Bool[Tensor, "1 1 key_len"]:
        assert self.blocks is not None
        rows = self.blocks[query_start // self.block : -(-(query_start + query_len) // self.block)].to(device)
        return rows.any(0).repeat_interleave(self.block)[:key_len].view(1, 1, -1)

    def reason(self, batch: int, head: int, query: int, key: int) -> str:
        return (
            f"block {key // self.block} of key {key} is no neighbour of block {query // self.block} of query {query},"
            f" not global and was not drawn for it"
        )

    def check(self, batch: int, heads: int, query_len: int, key_len: int, query_start: int) -> None:
        if max(query_start + query_len, key_len) > self.length:
            longest = max(query_start + query_len, key_len)
            raise ShapeError(f"BigBird was built for {self.length} positions, got {longest}")

    def _drawn(self, count: int, everywhere: tuple[int, ...]) -> Tensor:
        row = torch.arange(count)
        chosen = torch.isin(row, torch.tensor(everywhere, dtype=torch.long))
        seen = ((row[:, None] - row).abs() <= self.window // 2) | chosen | chosen[:, None]
        # the largest of random numbers among the blocks that are not seen yet
        lots = torch.rand(count, count, generator=torch.Generator().manual_seed(self.seed), device="cpu")
        lots = lots.to(row.device).masked_fill_(seen, -1.0)
        drawn = lots.topk(min(self.random, count), dim=-1)
        return seen.scatter(1, drawn.indices, seen.gather(1, drawn.indices) | (drawn.values >= 0.0))

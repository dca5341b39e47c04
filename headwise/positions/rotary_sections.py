"""Rotary positions of several axes: each pair of columns turns with the ids of one of them."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from headwise.errors import ConfigError
from headwise.positions.position import Ids, Position, Projected
from headwise.positions.rotary import Layout, angles_of, check_turns, check_width, turned
from headwise.positions.sinusoidal import exact, frequencies


class RotarySections(Position):
    """Rotary positions whose pairs are shared out among axes: time, row and column of a token (M-RoPE).

    Pair j turns by id x base^(-2j/d) with the id along its own axis. Text has the same number on every axis, and a
    start in place of ids means that: this is then `rotary`.

    Args:
        head_dim: width of a head, even.
        base: ratio of the slowest to the fastest period.
        sections: pairs of each axis, head_dim / 2 together; None: a quarter for time and the rest in halves, as
            Qwen2-VL has [16, 24, 24] of 64.
        order: "chunks": an axis has neighbouring pairs (Qwen2-VL); "interleaved": pairs take turns, and what is left
            is of the first axis (Qwen3-VL).
        layout: which columns form a pair, as in `Rotary`; "half" in both models.
    Raises: ConfigError: sections that are not head_dim / 2 pairs, another order or layout, a base not above 0.
    Source: Wang et al. 2024 (Qwen2-VL), arXiv:2409.12191, section 2.1; the order "interleaved": the code of Qwen3-VL.

    >>> scheme = RotarySections(8, sections=(2, 1, 1))
    >>> scheme.rotate(torch.ones(2, 3, 5, 8), torch.zeros(1, 3, 5, dtype=torch.int64)).shape
    torch.Size([2, 3, 5, 8])
    """

    axes = 3
    where = "queries and keys"
    extrapolates = "Any length has its angles, but far distances are untrained."

    def __init__(
        self,
        head_dim: int,
        base: float = 10000.0,
        *,
        sections: Sequence[int] | None = None,
        order: Literal["chunks", "interleaved"] = "chunks",
        layout: Layout = "half",
    ):
        super().__init__()
        check_turns("rotary_sections", head_dim, base, layout)
        pairs = head_dim // 2
        side = 3 * pairs // 8
        sections = (pairs - 2 * side, side, side) if sections is None else tuple(sections)
        if len(sections) != 3 or min(sections) < 0 or sum(sections) != pairs:
            raise ConfigError(
                f"sections of rotary_sections positions must be 3 numbers of pairs that sum to head_dim / 2 ({pairs}),"
                f" got {list(sections)}"
            )
        if order not in ("chunks", "interleaved"):
            raise ConfigError(f"order of rotary_sections positions must be 'chunks' or 'interleaved', got {order!r}")
        self.head_dim, self.base, self.sections, self.order, self.layout = head_dim, base, sections, order, layout

    def axis(self) -> list[int]:
        """The axis of each pair.

        >>> RotarySections(16, sections=(4, 2, 2)).axis(), RotarySections(16, order="interleaved").axis()
        ([0, 0, 0, 0, 1, 1, 2, 2], [0, 1, 2, 0, 1, 2, 0, 1])
        """
        if self.order == "chunks":
            return [axis for axis, pairs in enumerate(self.sections) for _ in range(pairs)]
        count = len(self.sections)
        return [j % count if j < count * self.sections[j % count] else 0 for j in range(self.head_dim // 2)]

    def rotate(self, heads: Projected, start: int | Ids) -> Projected:
        check_width("rotary_sections", self.head_dim, heads)
        if not isinstance(start, Tensor):
            counted = torch.arange(start, start + heads.shape[-2], device=exact(heads.device))
            start = counted.expand(1, self.axes, -1)
        turns = angles_of(start, frequencies(self.head_dim, self.base, heads.device), self.axis())
        return turned(heads, turns.cos(), turns.sin(), self.layout)

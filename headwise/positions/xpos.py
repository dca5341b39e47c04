"""Rotary positions whose queries shrink and whose keys grow, so that far pairs count less."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.attention.precision import wide
from headwise.errors import ConfigError, ShapeError
from headwise.positions.position import Ids, Position, Projected
from headwise.positions.rotary import Layout, angles_of, check_turns, check_width, turned
from headwise.positions.sinusoidal import angles, exact, frequencies


class Xpos(Position):
    """Rotary positions times z_j^(i/scale_base) for queries and z_j^(-i/scale_base) for keys (xPos).

    The score of pair (i, j) is that of `rotary` with pair c of the columns times z_c^((i - j)/scale_base), where z_c =
    (c/p + gamma) / (1 + gamma) for pair c of p: fast pairs fade first. Made for causal attention: towards later keys
    the factor grows. Positions count from 0: implementations that count from the middle of the input (torchscale,
    x-transformers) give the same scores for a whole input, and others when decoding step by step.

    Args:
        head_dim: width of a head, even.
        base: ratio of the slowest to the fastest period.
        scale_base: positions over which a pair fades by its z.
        gamma: how much of the fastest pair is left; its z is gamma / (1 + gamma).
        layout: which columns form a pair, as in `Rotary`.
    Raises:
        ConfigError: an odd width, another layout, a number that is not above 0.
        ShapeError: a position beyond what the type of the heads can hold: about 36,000 in float32 and bfloat16, 4,500
            in float16. Ids are not checked.
    Source: Sun et al. 2022, arXiv:2212.10554, section 3.2 and algorithm 1.

    >>> query = Xpos(4).rotate(torch.ones(1, 1, 1025, 4), 0)
    >>> round(query[0, 0, 1024].norm().item() / query[0, 0, 0].norm().item(), 3)
    0.298
    """

    axes = 1
    where = "queries and keys"
    extrapolates = "Made for it: far pairs fade, though positions beyond some 36,000 leave the range of float32."

    def __init__(
        self,
        head_dim: int,
        base: float = 10000.0,
        *,
        scale_base: float = 512.0,
        gamma: float = 0.4,
        layout: Layout = "interleaved",
    ):
        super().__init__()
        check_turns("xpos", head_dim, base, layout)
        if not min(scale_base, gamma) > 0:
            raise ConfigError(f"xpos needs scale_base ({scale_base}) and gamma ({gamma}) above 0")
        self.head_dim, self.base, self.scale_base, self.gamma, self.layout = head_dim, base, scale_base, gamma, layout

    def rotate(self, heads: Projected, start: int | Ids) -> Projected:
        return self._scaled(heads, start, 1.0)

    def rotate_keys(self, heads: Projected, start: int | Ids) -> Projected:
        return self._scaled(heads, start, -1.0)

    def rates(self, device: torch.device) -> Float[Tensor, "pairs"]:
        """log z_c / scale_base of each pair, below 0, in float64."""
        pairs = self.head_dim // 2
        number = torch.arange(pairs, dtype=torch.float64, device=exact(device))
        return ((number / pairs + self.gamma) / (1 + self.gamma)).log() / self.scale_base

    def _scaled(self, heads: Projected, start: int | Ids, sign: float) -> Projected:
        check_width("xpos", self.head_dim, heads)
        self._check_reach(heads, start)
        turns, rates = frequencies(self.head_dim, self.base, heads.device), self.rates(heads.device)
        turns, fades = (
            angles_of(start, each) if isinstance(start, Tensor) else angles(start, heads.shape[-2], each)
            for each in (turns, rates)
        )
        size = (sign * fades).exp()
        return turned(heads, turns.cos() * size, turns.sin() * size, self.layout)

    def _check_reach(self, heads: Tensor, start: int | Ids) -> None:
        end = start if isinstance(start, Tensor) else start + heads.shape[-2]
        rate = math.log(1 + 1 / self.gamma) / self.scale_base
        # e for what stands in the heads themselves
        limit = int((math.log(min(torch.finfo(heads.dtype).max, torch.finfo(wide(heads).dtype).max)) - 1) / rate)
        if isinstance(end, int) and end > limit:
            raise ShapeError(
                f"position {end - 1} is beyond the {limit} that xpos has in {heads.dtype}; use a larger scale_base"
                f" ({self.scale_base:g}), or rotary or alibi positions"
            )

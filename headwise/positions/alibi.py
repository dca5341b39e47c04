"""Scores that fall linearly with distance, faster in some heads than in others."""

import torch

from headwise.attention.precision import wide
from headwise.attention.relative import Relative
from headwise.errors import ConfigError
from headwise.positions.position import Key, Position, Query


def slopes(num_heads: int) -> tuple[float, ...]:
    """How much a score loses per position in each head: 2^(-8/n), 2^(-16/n), ..., 2^-8 for n heads, a power of two.

    Other numbers of heads take those of the next lower power, then every second one of the next higher power.

    >>> slopes(3)
    (0.0625, 0.00390625, 0.25)
    """
    power = 2 ** (num_heads.bit_length() - 1)
    lower = [2.0 ** (-8 * (head + 1) / power) for head in range(power)]
    between = [2.0 ** (-4 * (head + 1) / power) for head in range(0, 2 * power, 2)]
    return tuple(lower + between[: num_heads - power])


class Alibi(Position):
    """score - m_h |i - j| with a fixed slope m_h for each head (ALiBi): nothing learned, nothing in the embeddings.

    The paper is causal, where |i - j| = i - j; both sides are treated alike here, as its authors advise for encoders.

    Args:
        num_heads: heads of the query.
    Raises: ConfigError: without heads.
    Source: Press et al. 2022, arXiv:2108.12409, section 3 and, for numbers of heads that are no power of two, its code.

    >>> query = torch.zeros(1, 2, 3, 8)
    >>> Alibi(2).relative(query, query, -2, 2).scalar[0].tolist()
    [-0.125, -0.0625, -0.0, -0.0625, -0.125]
    """

    where = "scores"
    extrapolates = (
        "Made for it: trained on short inputs, it keeps its quality on longer ones, whose far ends it fades out."
    )

    def __init__(self, num_heads: int):
        super().__init__()
        if num_heads < 1:
            raise ConfigError(f"alibi positions need at least 1 head, got {num_heads}")
        self.slopes = slopes(num_heads)

    def relative(self, query: Query, key: Key, low: int, high: int) -> Relative:
        dtype = wide(query).dtype
        distances = torch.arange(low, high + 1, dtype=dtype, device=query.device).abs_()
        return Relative(low, scalar=torch.tensor(self.slopes, dtype=dtype, device=query.device)[:, None] * -distances)

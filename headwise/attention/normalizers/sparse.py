"""Sparsemax and alpha-entmax: normalizers that give most keys exactly 0.

With gaps g_j = (alpha - 1)(max s - s_j) and x the largest weight of a row, the others are

    w_j = x (1 - g_j / x^(alpha - 1))^(1 / (alpha - 1)), 0 where the bracket is negative.

Their sum grows with x, so the x that makes it 1 is found by halving, without a sort and without a look at values.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.attention.normalizers.normalizer import Keep, Normalizer, Scores, hide
from headwise.errors import ConfigError

Largest = Float[Tensor, "*rows 1"]
Gaps = Float[Tensor, "*rows key_len"]


class Sparsemax(Normalizer):
    """max(s_j - tau, 0) with sum 1: the point of the simplex nearest to the scores, with exact zeros.

    Source: Martins and Astudillo 2016, arXiv:1602.02068, eq. 2.

    >>> [round(weight, 6) for weight in Sparsemax()(torch.tensor([[[[0.1, 1.1, 0.2, 0.3]]]]), None).flatten().tolist()]
    [0.0, 0.9, 0.0, 0.1]
    """

    def forward(self, scores: Scores, keep: Keep | None) -> Scores:
        return entmax(scores, keep, 2.0)


class Entmax15(Normalizer):
    """max(s_j / 2 - tau, 0)^2 with sum 1: between softmax and sparsemax, with exact zeros.

    Source: Peters, Niculae and Martins 2019, arXiv:1905.05702, eq. 11.

    >>> weights = Entmax15()(torch.tensor([[[[0.1, 1.1, 0.2, 0.3]]]]), None)
    >>> [round(weight, 4) for weight in weights.flatten().tolist()]
    [0.088, 0.6346, 0.1201, 0.1573]
    """

    def forward(self, scores: Scores, keep: Keep | None) -> Scores:
        return entmax(scores, keep, 1.5)


class Entmax(Normalizer):
    """max((alpha - 1) s_j - tau, 0)^(1 / (alpha - 1)) with sum 1; softmax as alpha goes to 1, sparsemax at 2.

    Above alpha 2 a weight starts to grow with infinite slope: gradients there can be large, and rounding of eps in a
    score is eps^(1 / (alpha - 1)) in such a weight (alpha 3 in float32: 3e-4).

    Args:
        alpha: between 1 and 10, both excluded; larger is sparser.
    Raises:
        ConfigError: another alpha.
    Source: Peters, Niculae and Martins 2019, arXiv:1905.05702, eq. 10.

    >>> weights = Entmax(1.5)(torch.tensor([[[[0.1, 1.1, 0.2, 0.3]]]]), None)
    >>> [round(weight, 4) for weight in weights.flatten().tolist()]
    [0.088, 0.6346, 0.1201, 0.1573]
    """

    def __init__(self, alpha: float):
        super().__init__()
        if not 1.0 < alpha < 10.0:
            raise ConfigError(
                f"alpha ({alpha}) of normalizer 'entmax' must lie above 1 and below 10, such as entmax:1.3;"
                " alpha 1 is softmax"
            )
        self.alpha = alpha

    def forward(self, scores: Scores, keep: Keep | None) -> Scores:
        return entmax(scores, keep, self.alpha)

    @property
    def name(self) -> str:
        return f"entmax:{self.alpha}"


def entmax(scores: Scores, keep: Keep | None, alpha: float) -> Scores:
    """The weights of `Entmax`: some 30 passes over the scores in float32, as many again as there are bits in float64.

    The halving has no gradient. One Newton step of fixed slope after it has the right first derivative, the next one
    the right second; both also polish the last digits.
    """
    if scores.shape[-1] == 0:
        return scores
    seen = hide(scores, keep, float("-inf"))
    top = seen.detach().amax(-1, keepdim=True)
    # 0 in a row without a key, whose weights then are 0
    sums = (top > float("-inf")).to(scores.dtype)
    # no weight is beyond a gap of 1, so a cut at 2 keeps all finite
    gaps = ((alpha - 1) * (top.clamp(min=torch.finfo(scores.dtype).min) - seen)).clamp(max=2.0)
    power = 1 / (alpha - 1)
    with torch.no_grad():
        x = _largest(gaps, alpha)
        slope = _falls(gaps, x, alpha, power - 1).sum(-1, keepdim=True).clamp(min=1)
    # the pieces of sparsemax are straight
    for _ in range(1 if alpha == 2.0 else 2):
        x = x - (x * _falls(gaps, x, alpha, power).sum(-1, keepdim=True) - sums) / slope
    weights = x * _falls(gaps, x, alpha, power)
    # beyond 2 a sum can jump past 1 where a weight enters
    return weights if alpha <= 2 else weights / weights.sum(-1, keepdim=True).clamp(min=0.5)


def _largest(gaps: Gaps, alpha: float) -> Largest:
    """The largest weight of each row, from above: halves of ln x, which lies between -16 (nine million keys) and 0.

    27 steps in float32 and 56 in float64 halve the 16 down to the rounding of x.
    """
    x = torch.ones_like(gaps[..., :1])
    for step in range(4 - round(math.log2(torch.finfo(gaps.dtype).eps))):
        lower = x * math.exp(-(2.0 ** (3 - step)))
        x = torch.where(_sum(gaps, lower, alpha) >= 1, lower, x)
    return x


def _sum(gaps: Gaps, x: Largest, alpha: float) -> Largest:
    """The sum of the weights, in as few passes as possible."""
    if alpha == 2.0:
        return (x - gaps).relu_().sum(-1, keepdim=True)
    if alpha == 1.5:
        return (x.sqrt() - gaps).relu_().pow_(2).sum(-1, keepdim=True)
    # powers of 2 have no slow path for zeros
    logs = (gaps * -_scale(x, alpha)).clamp_min_(-1).log1p_()
    return x * logs.mul_(1 / (alpha - 1) / math.log(2)).exp2_().sum(-1, keepdim=True)


def _falls(gaps: Gaps, x: Largest, alpha: float, power: float) -> Gaps:
    """(1 - g / x^(alpha - 1))^power, 0 where the bracket is negative."""
    fraction = gaps * _scale(x, alpha)
    rest = (1 - fraction).clamp(min=0)
    if power == 0.0:
        return rest.sign()
    if power in (1.0, 2.0):
        return rest**power
    # exact also as alpha goes to 1, where a power would multiply the rounding of its base
    logs = torch.log1p(-fraction.clamp(max=1 - torch.finfo(gaps.dtype).eps))
    return rest.detach().sign() * (power * logs).exp()


def _scale(x: Largest, alpha: float) -> Largest:
    """1 / x^(alpha - 1), far from overflow."""
    least = torch.finfo(x.dtype).max ** (0.5 / (1 - alpha))
    return x.clamp(min=least) ** (1 - alpha)

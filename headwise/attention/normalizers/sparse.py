"""Sparsemax and alpha-entmax: normalizers that give most keys exactly 0.

With gaps g_j = (alpha - 1)(max s - s_j) and x the largest weight of a row, the others are

    w_j = x (1 - g_j / x^(alpha - 1))^(1 / (alpha - 1)), 0 where the bracket is negative.

Their sum grows with x, so the x that makes it 1 is found by halving, without a sort and without a look at values.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.attention.normalizers.normalizer import Keep, Normalizer, Scores
from headwise.attention.zeros import hide
from headwise.errors import ConfigError

Table = Float[Tensor, "*rows key_len"]
Row = Float[Tensor, "*rows 1"]


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
    Raises: ConfigError: another alpha.
    Source: Peters, Niculae and Martins 2019, arXiv:1905.05702, eq. 10; gradient from proposition 2.

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
    """The weights of `Entmax`."""
    if scores.shape[-1] == 0:
        return scores
    function = _Entmax if torch.compiler.is_compiling() else _ForwardToo
    return function.apply(hide(scores, keep, float("-inf")), alpha)


class _Entmax(torch.autograd.Function):
    """Its gradient needs the weights only; through the steps it would cost twice as much, and eight tables."""

    generate_vmap_rule = True

    @staticmethod
    def forward(scores, alpha):
        top = scores.amax(-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).min)
        # no weight is beyond a gap of 1; a row without a key has no other
        gaps = ((alpha - 1) * (top - scores)).clamp(max=2.0)
        weights = _weights(gaps, _largest(gaps, alpha), alpha)
        # the last digits, and beyond alpha 2 sums that jump past 1 where a weight enters
        return weights / weights.sum(-1, keepdim=True).clamp(min=0.5)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)
        ctx.alpha = inputs[1]

    @staticmethod
    def backward(ctx, d_weights):
        return _slopes(ctx.saved_tensors[0], d_weights, ctx.alpha), None


class _ForwardToo(_Entmax):
    """With derivatives in forward mode, which no compiler takes."""

    @staticmethod
    def jvp(ctx, d_scores, _):
        return _slopes(ctx.saved_tensors[0], d_scores, ctx.alpha)


def _slopes(weights: Table, vector: Table, alpha: float) -> Table:
    """The symmetric Jacobian times a vector: t_j (v_j - sum t v / sum t) with t = w^(2 - alpha) (proposition 2)."""
    least = torch.finfo(weights.dtype).tiny ** (1 / max(1.0, alpha - 2))
    slopes = weights.clamp(min=least) ** (2 - alpha) * weights.sign()
    return slopes * (vector - (slopes * vector).sum(-1, keepdim=True) / slopes.sum(-1, keepdim=True).clamp(min=least))


def _largest(gaps: Table, alpha: float) -> Row:
    """The largest weight of each row, from above: halves of ln x, which lies between -16 (nine million keys) and 0.

    27 steps in float32 and 56 in float64 halve the 16 down to the rounding of x.
    """
    x = torch.ones_like(gaps[..., :1])
    for step in range(4 - round(math.log2(torch.finfo(gaps.dtype).eps))):
        lower = x * math.exp(-(2.0 ** (3 - step)))
        x = torch.where(_weights(gaps, lower, alpha).sum(-1, keepdim=True) >= 1, lower, x)
    return x


def _weights(gaps: Table, x: Row, alpha: float) -> Table:
    """The weights of rows whose largest is x."""
    if alpha == 2.0:
        return (x - gaps).relu_()
    if alpha == 1.5:
        return (x.sqrt() - gaps).relu_().pow_(2)
    # far from overflow
    scale = x.clamp(min=torch.finfo(x.dtype).max ** (0.5 / (1 - alpha))) ** (1 - alpha)
    # exact also as alpha goes to 1, where a power would multiply the rounding of its base; 2^x has no slow path
    logs = (gaps * -scale).clamp_min_(-1).log1p_()
    return logs.mul_(1 / (alpha - 1) / math.log(2)).exp2_().mul_(x)

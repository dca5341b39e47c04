"""Sparsemax and alpha-entmax: normalizers that give most keys exactly 0. The definitions sort; the strips do not.

All are entmax of some alpha: w_j = max((alpha - 1) s_j - tau, 0)^(1 / (alpha - 1)) with the tau that makes the sum 1.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.attention.normalizers.normalizer import Count, Keep, Normalizer, Scores, Strip
from headwise.attention.normalizers.thresholds import gradient, weigh
from headwise.errors import ConfigError


@dataclass(frozen=True)
class Sparsemax(Normalizer):
    """max(s_j - tau, 0) with sum 1: the point of the simplex nearest to the scores, with exact zeros.

    Source: Martins and Astudillo 2016, arXiv:1602.02068, eq. 2 and algorithm 1; gradient eq. 14.

    >>> [round(weight, 6) for weight in Sparsemax()(torch.tensor([[[[0.1, 1.1, 0.2, 0.3]]]]), None).flatten().tolist()]
    [0.0, 0.9, 0.0, 0.1]
    """

    @property
    def work(self) -> str:
        return "searched pairs"

    def __call__(self, scores: Scores, keep: Keep | None) -> Scores:
        if scores.shape[-1] == 0:
            return scores
        gaps = _gaps(scores, keep)
        with torch.no_grad():
            ordered = gaps.sort(-1, descending=True).values
            size = torch.arange(1, gaps.shape[-1] + 1, device=gaps.device, dtype=gaps.dtype)
            sums = ordered.cumsum(-1)
            # at least one, also where scores are NaN
            number = (1 + size * ordered > sums).sum(-1, keepdim=True).clamp(min=1)
            support = gaps > (sums.gather(-1, number - 1) - 1) / number
        tau = (_sum(gaps, support) - 1) / support.sum(-1, keepdim=True)
        return _shown(torch.where(support, gaps - tau, 0.0), keep)

    def strip(self, scores: Strip, count: Count) -> Strip:
        return weigh(scores, count, 2.0)

    def strip_gradient(self, weights: Strip, d_weights: Strip, count: Count) -> Strip:
        return gradient(weights, d_weights, 2.0)


@dataclass(frozen=True)
class Entmax15(Normalizer):
    """max(s_j / 2 - tau, 0)^2 with sum 1: between softmax and sparsemax, with exact zeros.

    Source: Peters, Niculae and Martins 2019, arXiv:1905.05702, eq. 11 and algorithm 2.

    >>> weights = Entmax15()(torch.tensor([[[[0.1, 1.1, 0.2, 0.3]]]]), None)
    >>> [round(weight, 4) for weight in weights.flatten().tolist()]
    [0.088, 0.6346, 0.1201, 0.1573]
    """

    @property
    def work(self) -> str:
        return "searched pairs"

    def __call__(self, scores: Scores, keep: Keep | None) -> Scores:
        if scores.shape[-1] == 0:
            return scores
        gaps = _gaps(scores / 2, keep)
        with torch.no_grad():
            ordered = gaps.sort(-1, descending=True).values
            size = torch.arange(1, gaps.shape[-1] + 1, device=gaps.device, dtype=gaps.dtype)
            mean = ordered.cumsum(-1) / size
            spread = ordered.square().cumsum(-1) - size * mean.square()
            taus = mean - ((1 - spread) / size).clamp(min=0).sqrt()
            number = (taus <= ordered).sum(-1, keepdim=True).clamp(min=1)
            support = gaps > taus.gather(-1, number - 1)
        number = support.sum(-1, keepdim=True)
        mean = _sum(gaps, support) / number
        spread = _sum((gaps - mean).square(), support)
        tau = mean - ((1 - spread) / number).sqrt()
        return _shown(torch.where(support, gaps - tau, 0.0).square(), keep)

    def strip(self, scores: Strip, count: Count) -> Strip:
        return weigh(scores, count, 1.5)

    def strip_gradient(self, weights: Strip, d_weights: Strip, count: Count) -> Strip:
        return gradient(weights, d_weights, 1.5)


@dataclass(frozen=True)
class Entmax(Normalizer):
    """max((alpha - 1) s_j - tau, 0)^(1 / (alpha - 1)) with sum 1; softmax as alpha goes to 1, sparsemax at 2.

    The threshold is found by bracketed Newton steps to the precision of the numbers. Above alpha 2 a weight starts to
    grow with infinite slope: gradients there can be large, and rounding of eps in a score is eps^(1 / (alpha - 1)) in
    such a weight (alpha 3 in float32: 3e-4).

    Args:
        alpha: between 1 and 10, both excluded; larger is sparser.
    Raises:
        ConfigError: another alpha.
    Source: Peters, Niculae and Martins 2019, arXiv:1905.05702, eq. 10; gradient from its proposition 2.

    >>> weights = Entmax(1.5)(torch.tensor([[[[0.1, 1.1, 0.2, 0.3]]]]), None)
    >>> [round(weight, 4) for weight in weights.flatten().tolist()]
    [0.088, 0.6346, 0.1201, 0.1573]
    """

    alpha: float

    def __post_init__(self) -> None:
        if not 1.0 < self.alpha < 10.0:
            raise ConfigError(
                f"alpha ({self.alpha}) of normalizer 'entmax' must lie above 1 and below 10, such as entmax:1.3;"
                " alpha 1 is softmax"
            )

    @property
    def work(self) -> str:
        return "searched pairs"

    def __call__(self, scores: Scores, keep: Keep | None) -> Scores:
        if keep is not None:
            scores = scores.masked_fill(~keep, float("-inf"))
        weights: Tensor = _Entmax.apply(scores, self.alpha)
        return weights

    @property
    def name(self) -> str:
        return f"entmax:{self.alpha}"

    def strip(self, scores: Strip, count: Count) -> Strip:
        return weigh(scores, count, self.alpha)

    def strip_gradient(self, weights: Strip, d_weights: Strip, count: Count) -> Strip:
        return gradient(weights, d_weights, self.alpha)


class _Entmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scores, alpha):
        count = (scores > float("-inf")).sum(-1, keepdim=True).to(scores.dtype)
        weights = weigh(scores.clone(), count, alpha)
        ctx.save_for_backward(weights)
        ctx.alpha = alpha
        return weights

    @staticmethod
    def backward(ctx, d_weights):
        (weights,) = ctx.saved_tensors
        # not in place: the result has a derivative, through the weights
        support = weights > 0
        slopes = torch.where(support, torch.where(support, weights, 1.0) ** (2 - ctx.alpha), 0.0)
        total = slopes.sum(-1, keepdim=True)
        shared = (slopes * d_weights).sum(-1, keepdim=True) / total.masked_fill(total == 0, 1.0)
        return slopes * (d_weights - shared), None


def _gaps(scores: Scores, keep: Keep | None) -> Scores:
    """Scores less the largest allowed one; below -1 nothing has a weight, so a cut at -2 keeps all finite."""
    if keep is not None:
        scores = scores.masked_fill(~keep, torch.finfo(scores.dtype).min)
    return (scores - scores.detach().amax(-1, keepdim=True)).clamp(min=-2.0)


def _sum(numbers: Scores, support: Tensor) -> Float[Tensor, "batch heads query_len 1"]:
    return torch.where(support, numbers, 0.0).sum(-1, keepdim=True)


def _shown(weights: Scores, keep: Keep | None) -> Scores:
    return weights if keep is None else weights.masked_fill(~keep, 0.0)

"""Softmax and its variants: normalizers that give every allowed key a weight."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.attention.normalizers.normalizer import Count, Keep, Normalizer, Scores, Strip, allowed
from headwise.errors import ConfigError


@dataclass(frozen=True)
class Softmax(Normalizer):
    """exp(s_j) / sum over allowed k of exp(s_k) (Vaswani et al. 2017, arXiv:1706.03762, eq. 1).

    >>> keep = torch.tensor([[[[True, True, False, False]]]])
    >>> Softmax()(torch.zeros(1, 1, 1, 4), keep).tolist()
    [[[[0.5, 0.5, 0.0, 0.0]]]]
    """

    def __call__(self, scores: Scores, keep: Keep | None) -> Scores:
        if keep is None:
            return scores.softmax(-1)
        empty = ~keep.any(-1, keepdim=True)
        # a row of minus infinities would give NaN in the gradient too, so an empty row goes through as zeros
        hidden = scores.new_zeros(empty.shape).masked_fill(~empty, float("-inf"))
        return torch.where(keep, scores, hidden).softmax(-1).masked_fill(empty, 0.0)

    def strip(self, scores: Strip, count: Count) -> Strip:
        torch.softmax(scores, -1, out=scores)
        return scores.masked_fill_(count == 0, 0.0)

    def strip_gradient(self, weights: Strip, d_weights: Strip, count: Count) -> Strip:
        return torch._softmax_backward_data(d_weights, weights, -1, weights.dtype, grad_input=d_weights)


@dataclass(frozen=True)
class Softmax1(Normalizer):
    """exp(s_j) / (1 + sum over allowed k of exp(s_k)): softmax beside a key of score 0 and value 0.

    A query that finds nothing can leave its weights near 0; they sum to less than 1.
    Source: Miller 2023, "Attention is off by one", where it is named softmax1 (its third formula).

    >>> Softmax1()(torch.zeros(1, 1, 1, 3), None).tolist()
    [[[[0.25, 0.25, 0.25]]]]
    """

    def __call__(self, scores: Scores, keep: Keep | None) -> Scores:
        if keep is not None:
            scores = scores.masked_fill(~keep, float("-inf"))
        # the added score keeps rows without a key finite
        return torch.cat((scores, scores.new_zeros(*scores.shape[:-1], 1)), -1).softmax(-1)[..., :-1]

    def strip(self, scores: Strip, count: Count) -> Strip:
        if scores.shape[-1] == 0:
            return scores
        top = scores.amax(-1, keepdim=True).clamp_(min=0)
        scores.sub_(top).exp_()
        return scores.div_(scores.sum(-1, keepdim=True).add_(top.neg_().exp_()))

    def strip_gradient(self, weights: Strip, d_weights: Strip, count: Count) -> Strip:
        return torch._softmax_backward_data(d_weights, weights, -1, weights.dtype, grad_input=d_weights)


@dataclass(frozen=True)
class Scalable(Normalizer):
    """softmax(scale ln(n) s) with n allowed keys: a temperature that keeps rows as sharp when they grow longer.

    Args:
        scale: factor of ln n, above 0; Nakanishi learns it for each head, a typical value is 0.43.
    Raises:
        ConfigError: a scale that is not above 0.
    Source: Nakanishi 2025, arXiv:2501.19399, eq. 2, n^(scale s_j) / sum n^(scale s_k), with one fixed scale;
    Chiang and Cholak 2022, arXiv:2202.12172, with scale 1.

    >>> Scalable(1.0)(torch.tensor([[[[1.0, 0.0, 0.0, 0.0]]]]), None).mul(7).tolist()  # 4 : 1 : 1 : 1
    [[[[4.0, 1.0, 1.0, 1.0]]]]
    """

    scale: float

    def __post_init__(self) -> None:
        if not 0.0 < self.scale < float("inf"):
            raise ConfigError(f"scale ({self.scale}) of normalizer 'scalable' must lie above 0, such as scalable:0.43")

    def __call__(self, scores: Scores, keep: Keep | None) -> Scores:
        if keep is not None:
            scores = scores.masked_fill(~keep, 0.0)
        return Softmax()(scores * self._factor(allowed(scores, keep)), keep)

    @property
    def name(self) -> str:
        return f"scalable:{self.scale}"

    def strip(self, scores: Strip, count: Count) -> Strip:
        return Softmax().strip(scores.mul_(self._factor(count)), count)

    def strip_gradient(self, weights: Strip, d_weights: Strip, count: Count) -> Strip:
        return Softmax().strip_gradient(weights, d_weights, count).mul_(self._factor(count))

    def _factor(self, count: Float[Tensor, "*rows n"]) -> Float[Tensor, "*rows n"]:
        # a single key has weight 1 at any temperature; ln 1 = 0 would multiply hidden minus infinities
        return self.scale * count.clamp(min=2).log()

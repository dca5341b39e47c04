"""Normalizers that look at one score and the number of keys: rows need not sum to 1."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.attention.normalizers.normalizer import Count, Keep, Normalizer, Scores, Strip, allowed, root
from headwise.errors import ConfigError


@dataclass(frozen=True)
class ReLU(Normalizer):
    """max(s_j, 0) / n with n allowed keys; rows need not sum to 1 (Wortsman et al. 2023, arXiv:2309.08586, sec. 3).

    >>> ReLU()(torch.tensor([[[[2.0, -1.0]]]]), None).tolist()
    [[[[1.0, 0.0]]]]
    """

    def __call__(self, scores: Scores, keep: Keep | None) -> Scores:
        weights = scores.relu() / allowed(scores, keep)
        return weights if keep is None else weights.masked_fill(~keep, 0.0)

    def strip(self, scores: Strip, count: Count) -> Strip:
        return scores.relu_().div_(count.clamp(min=1))

    def strip_gradient(self, weights: Strip, d_weights: Strip, count: Count) -> Strip:
        # several times as fast as a masked fill
        torch.ops.aten.threshold_backward.grad_input(d_weights, weights, 0.0, grad_input=d_weights)
        return d_weights.div_(count.clamp(min=1))


@dataclass(frozen=True)
class ReLU2(Normalizer):
    """max(s_j, 0)^2 / n with n allowed keys; rows need not sum to 1.

    Source: Hua et al. 2022, arXiv:2202.10447 (squared ReLU in the gated attention unit); Wortsman et al. 2023,
    arXiv:2309.08586, sec. 3 (divided by the length). n counts allowed keys here, not all.

    >>> ReLU2()(torch.tensor([[[[2.0, -1.0]]]]), None).tolist()
    [[[[2.0, 0.0]]]]
    """

    def __call__(self, scores: Scores, keep: Keep | None) -> Scores:
        # filled first: the derivative of a square holds what stands under the mask
        seen = scores if keep is None else scores.masked_fill(~keep, 0.0)
        return seen.relu().square() / allowed(scores, keep)

    def strip(self, scores: Strip, count: Count) -> Strip:
        return scores.relu_().square_().div_(count.clamp(min=1))

    def strip_gradient(self, weights: Strip, d_weights: Strip, count: Count) -> Strip:
        # 2 s / n with s = sqrt(n w)
        return d_weights.mul_(root(weights)).mul_(2 * count.clamp(min=1).rsqrt())


@dataclass(frozen=True)
class Sigmoid(Normalizer):
    """1 / (1 + exp(-bias - s_j)), with bias -ln n for n allowed keys unless given; rows need not sum to 1.

    Args:
        bias: added to every score; -ln n if None, which lets the weights of equal scores sum to about 1.
    Raises:
        ConfigError: a bias that is not finite.
    Source: Ramapuram et al. 2024, arXiv:2409.04431 (bias -ln n); n counts allowed keys here, not all.

    >>> Sigmoid()(torch.zeros(1, 1, 1, 3), None).tolist()
    [[[[0.25, 0.25, 0.25]]]]
    """

    bias: float | None = None

    def __post_init__(self) -> None:
        if self.bias is not None and not math.isfinite(self.bias):
            raise ConfigError(f"bias ({self.bias}) of normalizer 'sigmoid' must be finite; without one it is -ln n")

    def __call__(self, scores: Scores, keep: Keep | None) -> Scores:
        if keep is None:
            return (scores + self._bias(allowed(scores, keep))).sigmoid()
        # filled before and after: what stands under the mask must not reach the gradient as NaN
        shifted = scores.masked_fill(~keep, 0.0) + self._bias(allowed(scores, keep))
        return shifted.sigmoid().masked_fill(~keep, 0.0)

    @property
    def name(self) -> str:
        return "sigmoid" if self.bias is None else f"sigmoid:{self.bias}"

    def strip(self, scores: Strip, count: Count) -> Strip:
        return scores.add_(self._bias(count)).sigmoid_()

    def strip_gradient(self, weights: Strip, d_weights: Strip, count: Count) -> Strip:
        return torch.ops.aten.sigmoid_backward.grad_input(d_weights, weights, grad_input=d_weights)

    def _bias(self, count: Float[Tensor, "*rows n"]) -> Float[Tensor, "*rows n"]:
        return count.clamp(min=1).log().neg() if self.bias is None else torch.full_like(count, self.bias)


@dataclass(frozen=True)
class Identity(Normalizer):
    """s_j, the score itself: a weighted sum whose size says how much was found.

    Source: Zhou et al. 2018, arXiv:1706.06978, sec. 4.3: interests are summed by their intensity, without softmax.

    >>> Identity()(torch.tensor([[[[2.0, -1.0]]]]), torch.tensor([[[[True, False]]]])).tolist()
    [[[[2.0, 0.0]]]]
    """

    def __call__(self, scores: Scores, keep: Keep | None) -> Scores:
        return scores.clone() if keep is None else scores.masked_fill(~keep, 0.0)

"""Normalizers that give every allowed key a weight: softmax and the elementwise ones."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.attention.normalizers.normalizer import Count, Keep, Normalizer, Scores, Strip


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
class ReLU(Normalizer):
    """max(s_j, 0) / n with n allowed keys; rows need not sum to 1 (Wortsman et al. 2023, arXiv:2309.08586, sec. 3)."""

    def __call__(self, scores: Scores, keep: Keep | None) -> Scores:
        weights = scores.relu() / allowed(scores, keep)
        return weights if keep is None else weights.masked_fill(~keep, 0.0)

    def strip(self, scores: Strip, count: Count) -> Strip:
        return scores.relu_().div_(count.clamp(min=1))

    def strip_gradient(self, weights: Strip, d_weights: Strip, count: Count) -> Strip:
        return d_weights.masked_fill_(weights == 0, 0.0).div_(count.clamp(min=1))


@dataclass(frozen=True)
class Sigmoid(Normalizer):
    """1 / (1 + exp(ln n - s_j)) with n allowed keys (Ramapuram et al. 2024, arXiv:2409.04431)"""

    def __call__(self, scores: Scores, keep: Keep | None) -> Scores:
        if keep is None:
            return (scores - allowed(scores, keep).log()).sigmoid()
        # filled before and after: what stands under the mask must not reach the gradient as NaN
        shifted = scores.masked_fill(~keep, 0.0) - allowed(scores, keep).log()
        return shifted.sigmoid().masked_fill(~keep, 0.0)

    def strip(self, scores: Strip, count: Count) -> Strip:
        return scores.sub_(count.clamp(min=1).log()).sigmoid_()

    def strip_gradient(self, weights: Strip, d_weights: Strip, count: Count) -> Strip:
        return d_weights.mul_(weights).mul_(1 - weights)


def allowed(scores: Scores, keep: Keep | None) -> Float[Tensor, "#batch #heads #query_len #key_len"]:
    """Allowed keys of each row, at least 1."""
    if keep is None:
        return scores.new_tensor(float(max(1, scores.shape[-1]))).view(1, 1, 1, 1)
    return keep.expand(*keep.shape[:-1], scores.shape[-1]).sum(-1, keepdim=True).clamp(min=1).to(scores.dtype)

"""Scores to weights: functions (scores, keep) -> weights. A row with no allowed key is zero, and so is its gradient."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headwise.errors import ConfigError, unknown

Scores = Float[Tensor, "batch heads query_len key_len"]
Keep = Bool[Tensor, "#batch #heads #query_len #key_len"]
Normalizer = Callable[[Scores, Keep | None], Scores]


def softmax(scores: Scores, keep: Keep | None) -> Scores:
    """exp(s_j) / sum over allowed k of exp(s_k) (Vaswani et al. 2017, arXiv:1706.03762, eq. 1).

    >>> import torch
    >>> softmax(torch.zeros(1, 1, 1, 4), torch.tensor([[[[True, True, False, False]]]])).tolist()
    [[[[0.5, 0.5, 0.0, 0.0]]]]
    """
    if keep is None:
        return scores.softmax(-1)
    empty = ~keep.any(-1, keepdim=True)
    # a row of minus infinities would give NaN in the gradient too, so an empty row goes through as zeros
    hidden = scores.new_zeros(empty.shape).masked_fill(~empty, float("-inf"))
    return torch.where(keep, scores, hidden).softmax(-1).masked_fill(empty, 0.0)


def relu(scores: Scores, keep: Keep | None) -> Scores:
    """max(s_j, 0) / n with n allowed keys; rows need not sum to 1 (Wortsman et al. 2023, arXiv:2309.08586, sec. 3)."""
    weights = scores.relu() / _allowed(scores, keep)
    return weights if keep is None else weights.masked_fill(~keep, 0.0)


def sigmoid(scores: Scores, keep: Keep | None) -> Scores:
    """1 / (1 + exp(ln n - s_j)) with n allowed keys (Ramapuram et al. 2024, arXiv:2409.04431)"""
    if keep is None:
        return (scores - _allowed(scores, keep).log()).sigmoid()
    # filled before and after: what stands under the mask must not reach the gradient as NaN
    shifted = scores.masked_fill(~keep, 0.0) - _allowed(scores, keep).log()
    return shifted.sigmoid().masked_fill(~keep, 0.0)


def _allowed(scores: Scores, keep: Keep | None) -> Tensor:
    if keep is None:
        return scores.new_tensor(float(max(1, scores.shape[-1])))
    return keep.expand(*keep.shape[:-1], scores.shape[-1]).sum(-1, keepdim=True).clamp(min=1).to(scores.dtype)


NORMALIZERS: dict[str, Normalizer] = {"softmax": softmax, "relu": relu, "sigmoid": sigmoid}


def build(name: str) -> Normalizer:
    """The normalizer of this name. Raises: ConfigError if unknown."""
    if name not in NORMALIZERS:
        raise ConfigError(unknown("normalizer", name, NORMALIZERS))
    return NORMALIZERS[name]


def catalogue() -> dict[str, str]:
    """Name and first documentation line of every normalizer."""
    return {name: (function.__doc__ or "").partition("\n")[0] for name, function in NORMALIZERS.items()}

"""Normalizers that pick the best keys first. At ties the key that stands first wins."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headwise.attention.normalizers.dense import Softmax
from headwise.attention.normalizers.normalizer import Count, Keep, Normalizer, Scores, Strip
from headwise.errors import ConfigError


@dataclass(frozen=True)
class Hard(Normalizer):
    """1 at the largest allowed score, 0 elsewhere; the gradient is that of softmax (straight-through).

    The step has no derivative: softmax stands in for it going back, so `gradcheck` cannot hold.
    Source: Xu et al. 2015, arXiv:1502.03044, sec. 4.1 (hard attention), which samples the key instead; Bengio et al.
    2013, arXiv:1308.3432 (the straight-through gradient, there of a threshold).

    >>> Hard()(torch.tensor([[[[0.5, 2.0, 2.0]]]]), None).tolist()
    [[[[0.0, 1.0, 0.0]]]]
    """

    def __call__(self, scores: Scores, keep: Keep | None) -> Scores:
        if scores.shape[-1] == 0:
            return scores
        soft = Softmax()(scores, keep)
        seen = scores if keep is None else scores.masked_fill(~keep, float("-inf"))
        chosen = torch.arange(scores.shape[-1], device=scores.device) == seen.argmax(-1, keepdim=True)
        if keep is not None:
            chosen = chosen & keep
        # the difference is exactly 0 and carries the gradient
        return chosen.to(scores.dtype) + (soft - soft.detach())


@dataclass(frozen=True)
class TopK(Normalizer):
    """Softmax over the k largest allowed scores, 0 elsewhere; all of them where fewer than k keys are allowed.

    Costs a partial sort of each row: n log k comparisons.

    Args:
        k: keys that share the weight of a row, at least 1.
    Raises:
        ConfigError: k below 1.
    Source: Gupta et al. 2021, arXiv:2106.06899 (top-k attention); Zhao et al. 2019, arXiv:1912.11637 (explicit sparse
    transformer), which keeps all keys that tie with the k-th.

    >>> TopK(2)(torch.tensor([[[[1.0, 3.0, 3.0, 2.0]]]]), None).tolist()
    [[[[0.0, 0.5, 0.5, 0.0]]]]
    """

    k: int

    def __post_init__(self) -> None:
        if self.k < 1:
            raise ConfigError(f"k ({self.k}) of normalizer 'top_k' must be at least 1, such as top_k:8")

    @property
    def work(self) -> str:
        return "searched pairs"

    def __call__(self, scores: Scores, keep: Keep | None) -> Scores:
        if self.k >= scores.shape[-1]:
            return Softmax()(scores, keep)
        seen = scores.detach()
        seen = seen if keep is None else seen.masked_fill(~keep, float("-inf"))
        chosen = self._chosen(seen)
        return Softmax()(scores, chosen if keep is None else chosen & keep)

    @property
    def name(self) -> str:
        return f"top_k:{self.k}"

    def strip(self, scores: Strip, count: Count) -> Strip:
        if self.k >= scores.shape[-1]:
            return Softmax().strip(scores, count)
        values, index = scores.topk(self.k + 1, -1)
        last, next_one = values[..., self.k - 1], values[..., self.k]
        if bool(((last == next_one) & (last > float("-inf"))).any()):
            # topk takes any of the keys that tie
            return Softmax().strip(scores.masked_fill_(~self._chosen(scores), float("-inf")), count)
        weights = Softmax().strip(values[..., : self.k].contiguous(), count)
        return scores.zero_().scatter_(-1, index[..., : self.k], weights)

    def strip_gradient(self, weights: Strip, d_weights: Strip, count: Count) -> Strip:
        return Softmax().strip_gradient(weights, d_weights, count)

    def _chosen(self, scores: Float[Tensor, "*rows key_len"]) -> Bool[Tensor, "*rows key_len"]:
        """The k largest of each row; a score equal to the k-th counts only while there is room."""
        least = scores.topk(self.k, -1).values[..., -1:]
        above, equal = scores > least, scores == least
        room = self.k - above.sum(-1, keepdim=True)
        return above | (equal & (equal.cumsum(-1) <= room))

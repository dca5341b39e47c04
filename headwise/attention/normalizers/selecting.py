"""Normalizers that pick the best keys first. At ties the key that stands first wins."""

import torch
from torch.nn import functional as F

from headwise.attention.normalizers.dense import softmax_of
from headwise.attention.normalizers.normalizer import Keep, Normalizer, Scores
from headwise.attention.zeros import hide
from headwise.errors import ConfigError


class Hard(Normalizer):
    """1 at the largest allowed score, 0 elsewhere; the gradient is that of softmax (straight-through).

    The step has no derivative: softmax stands in for it going back, so `gradcheck` cannot hold.
    Source: Xu et al. 2015, arXiv:1502.03044, sec. 4.1 (hard attention), which samples the key instead; Bengio et al.
    2013, arXiv:1308.3432 (the straight-through gradient, there of a threshold).

    >>> Hard()(torch.tensor([[[[0.5, 2.0, 2.0]]]]), None).tolist()
    [[[[0.0, 1.0, 0.0]]]]
    """

    def forward(self, scores: Scores, keep: Keep | None) -> Scores:
        if scores.shape[-1] == 0:
            return scores
        best = hide(scores, keep, float("-inf")).argmax(-1, keepdim=True)
        chosen = torch.arange(scores.shape[-1], device=scores.device) == best
        chosen = chosen if keep is None else chosen & keep
        soft = softmax_of(scores, keep)
        # the difference is exactly 0 and carries the gradient
        return chosen.to(scores.dtype) + (soft - soft.detach())


class TopK(Normalizer):
    """Softmax over the k largest allowed scores, 0 elsewhere; all of them where fewer than k keys are allowed.

    Costs a partial sort of each row: n log k comparisons.

    Args:
        k: keys that share the weight of a row, at least 1.
    Raises: ConfigError: k below 1.
    Source: Gupta et al. 2021, arXiv:2106.06899 (top-k attention); Zhao et al. 2019, arXiv:1912.11637 (explicit sparse
    transformer), which keeps all keys that tie with the k-th.

    >>> TopK(2)(torch.tensor([[[[1.0, 3.0, 3.0, 2.0]]]]), None).tolist()
    [[[[0.0, 0.5, 0.5, 0.0]]]]
    """

    def __init__(self, k: int):
        super().__init__()
        if k < 1:
            raise ConfigError(f"k ({k}) of normalizer 'top_k' must be at least 1, such as top_k:8")
        self.k = k

    def forward(self, scores: Scores, keep: Keep | None) -> Scores:
        masked = hide(scores.detach(), keep, float("-inf"))
        # one column more, so that there are k of them, or all
        least = F.pad(masked, (0, 1), value=float("-inf")).topk(min(self.k, masked.shape[-1] + 1), -1).values[..., -1:]
        above, equal = masked > least, masked == least
        # a score equal to the k-th counts only while there is room
        room = self.k - above.sum(-1, keepdim=True)
        chosen = above | (equal & (equal.cumsum(-1) <= room))
        return softmax_of(scores, chosen if keep is None else chosen & keep)

    @property
    def name(self) -> str:
        return f"top_k:{self.k}"

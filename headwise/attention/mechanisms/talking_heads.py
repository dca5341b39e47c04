"""Attention whose heads exchange scores before the softmax and weights after it."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from headwise.attention.call import Call
from headwise.attention.mechanisms.mechanism import SOFTMAX, Rule, Written
from headwise.attention.zeros import hide


class TalkingHeads(Written):
    """softmax((q k^T / sqrt(d)) P_l + bias under mask) P_w v, where P_l and P_w mix heads.

    Bias and relative terms are added to the mixed scores, where the mask is too. With a mask that differs by head, a
    pair forbidden to a head is nothing in that head: its score is 0 in the mixtures of the others, and so is the
    weight that the others give it there. Time n^2 (d + heads), memory n^2 heads: no score is spared. A NaN in a head
    spreads to the others.

    Args:
        num_heads: heads before, between and after the mixtures.
        dropout: probability of dropping a mixed weight while training.
    Raises: ShapeError for other heads than it was built for.
    Source: Shazeer et al. 2020, arXiv:2003.02436, section 4, with as many heads at each place (h_k = h = h_v). The
    mixtures start as identities, which is softmax attention.

    >>> x = torch.ones(2, 3, 5, 8)
    >>> TalkingHeads(3)(Call(x, x, x)).shape
    torch.Size([2, 3, 5, 8])
    """

    facts = replace(SOFTMAX, time="n^2 (d + h) for h heads", exact="P_l and P_w identities", cache="shared")

    def __init__(self, num_heads: int, dropout: float = 0.0):
        super().__init__(dropout)
        self.before = nn.Parameter(torch.eye(num_heads))
        self.after = nn.Parameter(torch.eye(num_heads))
        self.num_heads = num_heads

    def written(self, call: Call) -> tuple[Tensor | None, Rule | None, Rule | None]:
        keep = call.keep()

        def score(query: Tensor, key: Tensor) -> Tensor:
            return _mix(hide(call.score(query, key), keep, 0.0), self.before)

        def normalizer(scores: Tensor, keep: Tensor | None) -> Tensor:
            return hide(_mix(call.normalizer(scores, keep), self.after), keep, 0.0)

        return keep, score, normalizer


def _mix(table: Tensor, mixture: Tensor) -> Tensor:
    return torch.einsum("bhqk,hg->bgqk", table, mixture.to(table.dtype))

"""Inverted attention: queries compete for each key, as the slots of slot attention do."""

from dataclasses import replace

from torch import Tensor

from headwise.attention.call import Call
from headwise.attention.mechanisms.mechanism import SOFTMAX, Rule, Written
from headwise.attention.normalizers import Keep, Scores, softmax


class Inverted(Written):
    """W v, W_ij = A_ij / sum_k A_ik, A = softmax over queries of q k^T / sqrt(d): keys are shared out among queries.

    In self-attention, where queries and keys are as many, a token that is hidden as a key takes part in nothing and
    gives 0; in cross-attention all queries exist, as slots do. A query's output depends on the other queries, so there
    are no cached steps.

    Args:
        dropout: probability of dropping a weight while training.
    Source: Locatello et al. 2020, arXiv:2006.15055, whose code adds 1e-8 to A.

    >>> import torch
    >>> x = torch.eye(2).view(1, 1, 2, 2)
    >>> Inverted().weights(Call(x, x, x))[0, 0].sum(-1).tolist()
    [1.0, 1.0]
    """

    facts = replace(SOFTMAX, honours="keys", causal=False, cache="none")

    def written(self, call: Call) -> tuple[Tensor | None, Rule | None, Rule | None]:
        keep, keys = call.keep(), None if call.structure.open else call.structure.key_mask()
        if keep is not None and keys is not None and not call.cross and call.shape[2] == call.shape[3]:
            keep = keep & keys.unsqueeze(-1)
        return keep, None, shared_out


def shared_out(scores: Scores, keep: Keep | None) -> Scores:
    """The weights of scores that are normalized over queries, then over keys."""
    shares = softmax(scores.mT, None if keep is None else keep.expand_as(scores).mT).mT
    total = shares.sum(-1, keepdim=True)
    return shares / total.masked_fill(total == 0, 1.0)

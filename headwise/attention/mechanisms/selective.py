"""Selective attention: the first head's scores also say which tokens later queries may forget."""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from headwise.attention.call import Call
from headwise.attention.mechanisms.mechanism import FORWARD, Rule, Written, with_earlier_queries
from headwise.attention.precision import wide
from headwise.attention.zeros import zeroed


class Selective(Written):
    """Selective: softmax(z_ij - F_ij) v_j, F_ij = sum over l < i of relu(z_lj of head 0), z = q k^T / sqrt(d).

    What queries of head 0 point at, later queries of all heads see less of; nothing is learned for it. A token does not
    select itself, and nobody selects token 0. Pairs that the mask hides select nothing. F needs the scores of earlier
    queries: a cache keeps them, and a step takes time n^2 d for head 0.

    Args:
        dropout: probability of dropping a weight while training.
    Source: Leviathan et al. 2024, arXiv:2410.02703, section 3 and its listing; x-transformers' `selective_attn` is the
        same for a whole sequence, and another function in its cached steps.

    >>> x = torch.ones(2, 3, 5, 8)
    >>> from headwise.attention.masks import Causal
    >>> Selective()(Call(x, x, x, mask=Causal())).shape
    torch.Size([2, 3, 5, 8])
    """

    facts = replace(FORWARD, family="mixing", exact="scores of head 0 below 0", apart=False, cache="queries")

    def written(self, call: Call) -> tuple[Tensor | None, Rule | None, Rule | None]:
        so_far = with_earlier_queries(call, call.query_start)
        keep = so_far.keep()

        def score(query: Tensor, key: Tensor) -> Tensor:
            scores = call.score(query, key)
            selecting = scores[:, :1] if so_far is call else call.score(wide(so_far.query[:, :1]), key[:, :1])
            before = forgotten(selecting, None if keep is None else keep[:, :1])
            return scores - before.narrow(2, before.shape[2] - scores.shape[2], scores.shape[2])

        return call.keep(), score, None


def forgotten(
    scores: Float[Tensor, "batch 1 length length"], keep: Tensor | None
) -> Float[Tensor, "batch 1 length length"]:
    """F: what earlier queries selected of each key.

    >>> forgotten(torch.ones(1, 1, 4, 4).tril(), None)[0, 0].int().tolist()
    [[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0]]
    """
    length = scores.shape[-1]
    place = torch.arange(length, device=scores.device)
    selects = (place != place[:, None]) & (place > 0)
    chosen = zeroed(scores, selects if keep is None else selects & keep).relu()
    # what the queries before each one chose
    return F.pad(chosen, (0, 0, 1, 0))[..., : scores.shape[-2], :].cumsum(-2)

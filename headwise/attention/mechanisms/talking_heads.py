"""Attention whose heads exchange scores before the softmax and weights after it."""

from collections.abc import Callable
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.attention.call import Call
from headwise.attention.kernels import plain
from headwise.attention.mechanisms.mechanism import Facts, Heads, Mechanism, Weights
from headwise.attention.precision import uncast
from headwise.attention.scores.score import check_built
from headwise.attention.weights import select_weights
from headwise.attention.zeros import zeroed


class TalkingHeads(Mechanism):
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

    facts = Facts(
        formula="softmax((q k^T / sqrt(d)) P_l) P_w v, P over heads",
        paper="Shazeer et al. 2020, arXiv:2003.02436",
        family="definition",
        time="n^2 (d + h) for h heads",
        memory="n^2",
        exact="P_l and P_w identities",
        honours="any",
        causal=True,
        cross=True,
        bias=True,
        relative=True,
        cache="shared",
    )

    def __init__(self, num_heads: int, dropout: float = 0.0):
        super().__init__()
        self.before = nn.Parameter(torch.eye(num_heads))
        self.after = nn.Parameter(torch.eye(num_heads))
        self.dropout = dropout

    def compute(self, call: Call) -> Float[Tensor, "batch heads query_len value_dim"]:
        with uncast(call.query):
            return plain.attention(*self._mixed(call))

    def compute_weights(self, call: Call, heads: Heads, queries: slice, keys: slice) -> Weights:
        """The mixed weights before dropout; a row need not sum to 1."""
        with uncast(call.query):
            weights = plain.normalized(*self._mixed(call))
        return select_weights(weights, heads, queries, keys)

    def extra_repr(self) -> str:
        return f"num_heads={self.before.shape[0]}, dropout={self.dropout}"

    def _mixed(self, call: Call) -> tuple[Call, Tensor | None, Callable[..., Tensor], Callable[..., Tensor]]:
        """The call as the definition takes it: clean, with its table and what makes scores and weights."""
        check_built(self, "heads", self.before.shape[0], call.shape[1])
        keep = call.keep()

        def score(query: Tensor, key: Tensor) -> Tensor:
            return _mix(_shown(call.score(query, key), keep), self.before)

        def normalizer(scores: Tensor, keep: Tensor | None) -> Tensor:
            return _shown(_mix(call.normalizer(scores, keep), self.after), keep)

        return replace(call, dropout=self.dropout if self.training else 0.0), keep, score, normalizer


def _mix(table: Tensor, mixture: Tensor) -> Tensor:
    return torch.einsum("bhqk,hg->bgqk", table, mixture.to(table.dtype))


def _shown(table: Tensor, keep: Tensor | None) -> Tensor:
    """Zero for pairs that are forbidden to a head."""
    return table if keep is None else zeroed(table, keep)

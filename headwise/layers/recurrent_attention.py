"""Additive attention for a decoder that attends at every step: what it compares is projected outside, keys but once."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.attention import normalizers
from headwise.attention.call import Call
from headwise.attention.dropout import drop
from headwise.attention.mechanisms.mechanism import Facts, Mechanism
from headwise.attention.normalizers import Normalizer, Softmax
from headwise.attention.weights import cut
from headwise.errors import ShapeError


class AdditiveAttention(Mechanism):
    """normalizer_j(v . tanh(q + k_j)) v_j for one head, with queries and keys that are projected already.

    With q = W_q x and k_j = W_k m_j this is `Scored(Additive(...))`. Over a short sentence a step costs what its
    operators cost, not its numbers, and `Scored` would project and clean the keys again at each of them.
    Keeps query_len x key_len x hidden numbers. What a mask hides must hold finite numbers.

    Args:
        hidden: width of queries, keys and v.
        normalizer: scores to weights, a name or an object.
        dropout: probability of dropping a weight while training.
    Raises:
        ShapeError: more than one head, or another width than `hidden`.
    Source: Bahdanau et al. 2015, arXiv:1409.0473, appendix A.1.2.

    >>> x = torch.ones(2, 1, 4, 8)
    >>> AdditiveAttention(8)(Call(x[:, :, :1], x, x)).shape
    torch.Size([2, 1, 1, 8])
    """

    facts = Facts(
        formula="softmax(v . tanh(q + k)) v",
        paper="Bahdanau et al. 2015, arXiv:1409.0473",
        family="definition",
        time="n^2 d",
        memory="n^2 d",
        honours="any",
        causal=True,
        cross=True,
        steps="shared",
    )

    def __init__(self, hidden: int, normalizer: Normalizer | str = "softmax", dropout: float = 0.0):
        super().__init__()
        self.value = nn.Linear(hidden, 1, bias=False)
        self.normalizer = normalizers.build(normalizer)
        self.dropout = dropout

    def forward(self, call: Call) -> Float[Tensor, "batch 1 query_len value_dim"]:
        weights = drop(self._weights(call), self.dropout if self.training else 0.0)
        # one query is a sum of few vectors, in half the time of many small products
        one = call.shape[2] == 1
        output = (weights.mT * call.value).sum(-2, keepdim=True) if one else weights @ call.value
        return output.to(call.value.dtype)

    def weights(
        self,
        call: Call,
        heads: Sequence[int] | None = None,
        queries: slice = slice(None),
        keys: slice = slice(None),
    ) -> Float[Tensor, "batch heads queries keys"]:
        """The weights before dropout, cut."""
        whole = self._weights(call)
        return cut(whole, heads, queries, keys)

    def extra_repr(self) -> str:
        return f"dropout={self.dropout}"

    def _weights(self, call: Call) -> Tensor:
        if call.query.shape[1] != 1 or call.query.shape[3] != self.value.in_features:
            got = f"{call.query.shape[1]} of width {call.query.shape[3]}"
            raise ShapeError(f"AdditiveAttention({self.value.in_features}) takes one head of that width, got {got}")
        # the axis of the only head serves queries on one side and keys on the other
        features = torch.tanh(call.query.transpose(1, 2) + call.key)
        scores: Tensor = self.value(features).movedim(-1, 1)
        if call.mask is None or type(self.normalizer) is not Softmax:
            weights: Tensor = self.normalizer(scores, call.keep())
            return weights
        # `Softmax`, with what the mask means for it made once for all steps
        made_for = (*call.shape, call.query_start, scores.dtype, scores.device)
        bias, some = call.mask.made("softmax", made_for, lambda: _parts(call, scores))
        return (scores + bias).softmax(-1) * some


def _parts(call: Call, scores: Tensor) -> tuple[Tensor, Tensor]:
    """What is added to the scores, minus infinity for hidden keys beside others, and 0 for rows without a key."""
    keep = call.keep()
    assert keep is not None
    some = keep.any(-1, keepdim=True)
    return scores.new_zeros(keep.shape).masked_fill(some & ~keep, -math.inf), some.to(scores.dtype)

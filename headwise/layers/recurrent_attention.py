"""Additive attention for a decoder that attends at every step: what it compares is projected outside, keys but once."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.attention import normalizers
from headwise.attention.call import Call, wide
from headwise.attention.dropout import drop
from headwise.attention.mechanisms.mechanism import Facts, Mechanism
from headwise.attention.normalizers import Normalizer
from headwise.attention.scores.score import times
from headwise.errors import ShapeError


class AdditiveAttention(Mechanism):
    """normalizer_j(v . tanh(q + k_j)) v_j for one head, with queries and keys that are projected already.

    With q = W_q x and k_j = W_k m_j this is `Scored(Additive(...))`. Over a short sentence a step costs what its
    operators cost, not its numbers; with `Scored` at each of them, which projects and cleans the keys again, a training
    step of the course book's translator takes 1.3 times as long (Xeon, one thread, `benchmarks.bahdanau`).
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
        bias=False,
        relative=False,
    )

    def __init__(self, hidden: int, normalizer: Normalizer | str = "softmax", dropout: float = 0.0):
        super().__init__()
        self.value = nn.Linear(hidden, 1, bias=False)
        self.normalizer = normalizers.build(normalizer)
        self.dropout = dropout

    def forward(self, call: Call) -> Float[Tensor, "batch 1 query_len value_dim"]:
        weights = drop(self._weights(call), self.dropout if self.training else 0.0)
        return (weights @ wide(call.value)).to(call.value.dtype)

    def weights(
        self,
        call: Call,
        heads: Sequence[int] | None = None,
        queries: slice = slice(None),
        keys: slice = slice(None),
    ) -> Float[Tensor, "batch heads queries keys"]:
        """The weights before dropout, cut."""
        whole = self._weights(call)
        return (whole if heads is None else whole[:, list(heads)])[:, :, queries, keys]

    def extra_repr(self) -> str:
        return f"dropout={self.dropout}"

    def _weights(self, call: Call) -> Tensor:
        self.require(call)
        if call.shape[1] != 1 or call.query.shape[3] != self.value.in_features:
            got = f"{call.shape[1]} of width {call.query.shape[3]}"
            raise ShapeError(f"AdditiveAttention({self.value.in_features}) takes one head of that width, got {got}")
        # the axis of the only head serves queries on one side and keys on the other
        features = torch.tanh(wide(call.query).transpose(1, 2) + wide(call.key))
        weights: Tensor = self.normalizer(times(self.value, features).movedim(-1, 1), call.keep())
        return weights

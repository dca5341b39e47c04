"""Attention by its definition: a score, a normalizer, a weighted sum."""

from jaxtyping import Float
from torch import Tensor

from headwise.attention import planner
from headwise.attention.call import Call, check
from headwise.attention.kernels import plain
from headwise.attention.masks import Mask
from headwise.attention.mechanisms.mechanism import Facts, Mechanism
from headwise.attention.normalizers import Normalizer, softmax
from headwise.attention.relative import Relative
from headwise.attention.scores import ScaledDot, Score


class Scored(Mechanism):
    """normalizer(score(q, k) + bias under mask) @ value: softmax(q k^T / sqrt(d)) v unless told otherwise.

    Time and memory are quadratic in length by definition; the planner picks the fastest kernel that is exact.

    Args:
        score: how alike a query and a key are; scaled dot product if None.
        normalizer: scores to weights.
        dropout: probability of dropping a weight while training.
        kernel: "auto", or the kernel to insist on.
    Source: Vaswani et al. 2017, arXiv:1706.03762, eq. 1; Bahdanau et al. 2015, arXiv:1409.0473, with `Additive`.

    >>> import torch
    >>> x = torch.ones(2, 3, 5, 8)
    >>> Scored()(x, x, x).shape
    torch.Size([2, 3, 5, 8])
    """

    facts = Facts(
        formula="normalizer(score(q, k) + bias under mask) v; softmax(q k^T / sqrt(d)) v",
        paper="Vaswani et al. 2017, arXiv:1706.03762; Bahdanau et al. 2015, arXiv:1409.0473",
        family="definition",
        time="n^2 d; n w d under a window of w, e d over e edges",
        memory="n d",
        exact="yes",
        causal=True,
        cross=True,
        recurrent=False,
        masks="any",
        bias=True,
        relative=True,
    )

    def __init__(
        self, score: Score | None = None, normalizer: Normalizer = softmax, dropout: float = 0.0, kernel: str = "auto"
    ):
        super().__init__()
        self.score = ScaledDot() if score is None else score
        self.normalizer = normalizer
        self.dropout = dropout
        self.kernel = kernel

    @classmethod
    def sized(cls, *, head_dim: int, num_heads: int, max_len: int, dropout: float) -> "Scored":
        return cls(dropout=dropout)

    def forward(
        self,
        query: Float[Tensor, "batch heads query_len query_dim"],
        key: Float[Tensor, "batch kv_heads key_len key_dim"],
        value: Float[Tensor, "batch kv_heads key_len value_dim"],
        *,
        mask: Mask | None = None,
        bias: Float[Tensor, "#batch #heads #query_len key_len"] | None = None,
        relative: Relative | None = None,
        query_start: int = 0,
        finite: bool = False,
    ) -> Float[Tensor, "batch heads query_len value_dim"]:
        dropout = self.dropout if self.training else 0.0
        call = Call(
            query, key, value, self.score, self.normalizer, mask, bias, relative, 1.0, dropout, query_start, finite
        )
        return planner.run(check(call), self.kernel)

    def effective_weights(
        self,
        query: Float[Tensor, "batch heads query_len query_dim"],
        key: Float[Tensor, "batch kv_heads key_len key_dim"],
        *,
        mask: Mask | None = None,
        bias: Float[Tensor, "#batch #heads #query_len key_len"] | None = None,
        relative: Relative | None = None,
        query_start: int = 0,
    ) -> Float[Tensor, "batch heads query_len key_len"]:
        """The weights, which for this mechanism are the definition's own: nothing is multiplied by an identity."""
        call = Call(query, key, key, self.score, self.normalizer, mask, bias, relative, query_start=query_start)
        return plain.weights(check(call))

    def extra_repr(self) -> str:
        return f"normalizer={self.normalizer.name}, dropout={self.dropout}, kernel={self.kernel}"

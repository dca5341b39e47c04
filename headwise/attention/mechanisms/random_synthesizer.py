"""Attention weights that depend on no input: a learned or a fixed matrix for each head."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.attention import planner
from headwise.attention.call import Call, check, wide
from headwise.attention.kernels import plain
from headwise.attention.masks import Mask
from headwise.attention.mechanisms._masks import per_head
from headwise.attention.mechanisms._sequences import check_length
from headwise.attention.mechanisms.mechanism import Facts, Mechanism
from headwise.attention.normalizers import softmax
from headwise.attention.relative import Relative
from headwise.attention.scores import Dot
from headwise.errors import ShapeError


class RandomSynthesizer(Mechanism):
    """softmax(R) v with a matrix R of scores for each head: static mixing, the same for every input.

    Query and key are not read but for their lengths. Every mask, bias and relative position is honoured. Time and
    memory are quadratic in length, and each head keeps max_len^2 numbers.

    Args:
        num_heads: heads, each with a matrix of its own.
        max_len: positions at most.
        learned: whether R is a parameter; else it stays as it was drawn, and is saved with the model.
        dropout: probability of dropping a weight while training.
    Raises:
        ShapeError: for positions beyond max_len, or other heads than it was built for.
    Source: Tay et al. 2020, arXiv:2005.00743, section 3 ("random"). R starts as standard normal numbers.

    >>> x = torch.ones(2, 3, 5, 8)
    >>> RandomSynthesizer(num_heads=3, max_len=7)(x, x, x).shape
    torch.Size([2, 3, 5, 8])
    """

    scores: Float[Tensor, "heads max_len max_len"]

    facts = Facts(
        formula="softmax(R) v",
        paper="Tay et al. 2020, arXiv:2005.00743",
        family="mixing",
        time="n^2 d",
        memory="n^2",
        exact="another function: queries and keys are not read",
        causal=True,
        cross=True,
        recurrent=False,
        masks="any",
        bias=True,
        relative=True,
        steps="own",
    )

    def __init__(self, num_heads: int, max_len: int, *, learned: bool = True, dropout: float = 0.0):
        super().__init__()
        scores = torch.randn(num_heads, max_len, max_len)
        if learned:
            self.scores = nn.Parameter(scores)
        else:
            self.register_buffer("scores", scores)
        self.score, self.dropout = Dot(), dropout

    @classmethod
    def sized(cls, *, head_dim: int, num_heads: int, max_len: int, dropout: float) -> "RandomSynthesizer":
        return cls(num_heads, max_len, dropout=dropout)

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
        call = self._call(query, value, mask, bias, relative, query_start, finite)
        return planner.run(call).to(value.dtype)

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
        """The weights before dropout."""
        return plain.weights(self._call(query, key, mask, bias, relative, query_start, False))

    def _call(
        self,
        query: Tensor,
        value: Tensor,
        mask: Mask | None,
        bias: Tensor | None,
        relative: Relative | None,
        query_start: int,
        finite: bool,
    ) -> Call:
        heads, max_len, _ = self.scores.shape
        if query.shape[1] != heads:
            raise ShapeError(f"random_synthesizer was built for {heads} heads, got {query.shape[1]}")
        last, length = query_start + query.shape[2], value.shape[2]
        check_length("random_synthesizer", max(last, length), max_len)
        values = wide(per_head(value, heads))
        scores = self.scores[None, :, query_start:last, :length].to(values.dtype)
        # the scores enter as a bias on a product of zeros
        nothing = [values.new_zeros(query.shape[0], heads, n, 1) for n in (query.shape[2], length)]
        added = scores if bias is None else scores + bias
        dropout = self.dropout if self.training else 0.0
        options = (self.score, softmax, mask, added, relative, 1.0, dropout, query_start, finite)
        return check(Call(nothing[0], nothing[1], values, *options))

    def extra_repr(self) -> str:
        heads, max_len, _ = self.scores.shape
        return f"num_heads={heads}, max_len={max_len}, dropout={self.dropout}"

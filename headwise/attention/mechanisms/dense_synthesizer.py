"""Attention weights that a network makes from the query alone."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.attention import planner
from headwise.attention.call import Call, check
from headwise.attention.kernels import plain
from headwise.attention.masks import Mask
from headwise.attention.mechanisms._masks import per_head
from headwise.attention.mechanisms._sequences import check_length
from headwise.attention.mechanisms.mechanism import Facts, Mechanism
from headwise.attention.normalizers import softmax
from headwise.attention.relative import Relative
from headwise.attention.scores import Dot
from headwise.errors import ShapeError


class DenseSynthesizer(Mechanism):
    """softmax(W_2 relu(W_1 q + b_1) + b_2) v: the score of key j is output j of a network that sees no key.

    That is a dot product of relu(W_1 q + b_1) with a learned vector for each position, so time and memory are those of
    softmax attention on the same kernels, and every mask, bias and relative position is honoured. Keys are not read.

    Args:
        num_heads: heads, each with a network of its own.
        head_dim: width of a query and of the hidden layer.
        max_len: keys at most: outputs of the network.
        dropout: probability of dropping a weight while training.
    Raises:
        ShapeError: for more than max_len keys, or other heads than it was built for.
    Source: Tay et al. 2020, arXiv:2005.00743, section 3 ("dense"), with the query of a head in place of the input.

    >>> x = torch.ones(2, 3, 5, 8)
    >>> DenseSynthesizer(num_heads=3, head_dim=8, max_len=7)(x, x, x).shape
    torch.Size([2, 3, 5, 8])
    """

    facts = Facts(
        formula="softmax(W_2 relu(W_1 q + b_1) + b_2) v",
        paper="Tay et al. 2020, arXiv:2005.00743",
        family="mixing",
        time="n^2 d",
        memory="n d",
        exact="another function: keys are not read",
        causal=True,
        cross=True,
        recurrent=False,
        masks="any",
        bias=True,
        relative=True,
        steps="own",
    )

    def __init__(self, num_heads: int, head_dim: int, max_len: int, dropout: float = 0.0):
        super().__init__()
        self.inner = nn.Parameter(torch.empty(num_heads, head_dim, head_dim))
        self.inner_bias = nn.Parameter(torch.zeros(num_heads, 1, head_dim))
        # rows of W_2, and b_2 as the last column
        self.positions = nn.Parameter(torch.empty(num_heads, max_len, head_dim + 1))
        for weight in (self.inner, self.positions):
            nn.init.normal_(weight, std=head_dim**-0.5)
        self.score, self.dropout = Dot(), dropout

    @classmethod
    def sized(cls, *, head_dim: int, num_heads: int, max_len: int, dropout: float) -> "DenseSynthesizer":
        return cls(num_heads, head_dim, max_len, dropout)

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
        return planner.run(self._call(query, value, mask, bias, relative, query_start, finite))

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
        heads, _, head_dim = self.inner.shape
        length = value.shape[2]
        if query.shape[1] != heads or query.shape[-1] != head_dim:
            raise ShapeError(
                f"dense_synthesizer was built for (heads, head_dim) = ({heads}, {head_dim}), got"
                f" ({query.shape[1]}, {query.shape[-1]})"
            )
        check_length("dense_synthesizer", length, self.positions.shape[1])
        with torch.autocast(query.device.type, enabled=False):
            hidden = (query @ self.inner.to(query.dtype) + self.inner_bias.to(query.dtype)).relu()
        hidden = torch.cat((hidden, torch.ones_like(hidden[..., :1])), -1)
        positions = self.positions[:, :length].to(query.dtype).expand(query.shape[0], -1, -1, -1)
        dropout = self.dropout if self.training else 0.0
        options = (self.score, softmax, mask, bias, relative, 1.0, dropout, query_start, finite)
        return check(Call(hidden, positions, per_head(value, heads), *options))

    def extra_repr(self) -> str:
        heads, max_len, width = self.positions.shape
        return f"num_heads={heads}, head_dim={width - 1}, max_len={max_len}, dropout={self.dropout}"

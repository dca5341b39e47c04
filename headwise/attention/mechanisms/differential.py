"""The difference of two attentions: what both look at cancels."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention import planner
from headwise.attention.call import Call, check
from headwise.attention.kernels import plain
from headwise.attention.masks import Mask
from headwise.attention.mechanisms.mechanism import Facts, Mechanism
from headwise.attention.normalizers import softmax
from headwise.attention.relative import Relative
from headwise.attention.scores import Dot
from headwise.errors import ConfigError, ShapeError


class Differential(Mechanism):
    """(softmax(q1 k1^T / sqrt(d/2)) - lambda softmax(q2 k2^T / sqrt(d/2))) v; 1 and 2 are the halves of a head.

    lambda = exp(a1 . b1) - exp(a2 . b2) + lambda_init with learned a, b, one lambda for all heads. Costs what softmax
    attention costs and a second sum of values, on any kernel; masks, bias and relative positions are those of both
    attentions. The paper normalises each head afterwards and multiplies it by 1 - lambda_init: that is not linear in
    the values and no part of this mechanism.

    Args:
        head_dim: width of query and key, even.
        lambda_init: lambda before training, but for the small random a and b; the paper lets it grow with the layer
            from 0.2 to 0.8 as 0.8 - 0.6 exp(-0.3 layer), layers counted from 0, and finds 0.8 as good.
        dropout: probability of dropping a weight of either attention while training.
    Raises:
        ConfigError: for an odd width.
        ShapeError: for heads of another width.
    Source: Ye et al. 2024, arXiv:2410.05258, eq. 1 and 2.

    >>> x = torch.ones(2, 3, 5, 8)
    >>> Differential(8)(x, x, x).shape
    torch.Size([2, 3, 5, 8])
    """

    facts = Facts(
        formula="(softmax(q1 k1^T) - lambda softmax(q2 k2^T)) v",
        paper="Ye et al. 2024, arXiv:2410.05258",
        family="definition",
        time="n^2 d",
        memory="n d",
        exact="lambda = 0, for the first halves",
        causal=True,
        cross=True,
        recurrent=False,
        masks="any",
        bias=True,
        relative=True,
    )

    def __init__(self, head_dim: int, *, lambda_init: float = 0.8, dropout: float = 0.0):
        super().__init__()
        if head_dim < 2 or head_dim % 2:
            raise ConfigError(f"differential needs an even head_dim, half for each attention; got {head_dim}")
        self.head_dim, self.lambda_init, self.dropout = head_dim, lambda_init, dropout
        self.lambda_query = nn.Parameter(torch.empty(2, head_dim // 2))
        self.lambda_key = nn.Parameter(torch.empty(2, head_dim // 2))
        for vectors in (self.lambda_query, self.lambda_key):
            nn.init.normal_(vectors, std=0.1)
        self.score = Dot()

    @classmethod
    def sized(cls, *, head_dim: int, num_heads: int, max_len: int, dropout: float) -> "Differential":
        return cls(head_dim, dropout=dropout)

    def strength(self) -> Float[Tensor, ""]:
        """lambda: how much of the second attention is taken away."""
        first, second = (self.lambda_query * self.lambda_key).sum(-1).exp()
        return first - second + self.lambda_init

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
        calls = self._calls(query, key, value, mask, bias, relative, query_start, finite)
        first, second = (planner.run(call) for call in calls)
        good = second.isfinite()
        # a row of NaN that no loss reads would still give lambda a gradient of 0 x NaN
        taken = self.strength().to(first.dtype) * second.masked_fill(~good, 0.0)
        return first - torch.where(good, taken, second)

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
        """The difference of the two weights, which may be negative."""
        calls = self._calls(query, key, key, mask, bias, relative, query_start, False)
        first, second = (plain.weights(call) for call in calls)
        return first - self.strength().to(first.dtype) * second

    def _calls(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Mask | None,
        bias: Tensor | None,
        relative: Relative | None,
        query_start: int,
        finite: bool,
    ) -> list[Call]:
        if query.shape[-1] != self.head_dim or key.shape[-1] != self.head_dim:
            raise ShapeError(
                f"differential was built for head_dim ({self.head_dim}), got query {query.shape[-1]} and key"
                f" {key.shape[-1]}"
            )
        dropout, half = self.dropout if self.training else 0.0, self.head_dim // 2
        options = (self.score, softmax, mask, bias, relative, half**-0.5, dropout, query_start, finite)
        # zeros in place of the other half leave key and value as wide as the query, which tiled kernels need
        halves = (F.pad(query[..., :half], (0, half)), F.pad(query[..., half:], (half, 0)))
        return [check(Call(each, key, value, *options)) for each in halves]

    def extra_repr(self) -> str:
        return f"head_dim={self.head_dim}, lambda_init={self.lambda_init}, dropout={self.dropout}"

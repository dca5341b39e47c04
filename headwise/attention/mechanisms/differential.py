"""The difference of two attentions: what both look at cancels."""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention import planner
from headwise.attention.call import Call
from headwise.attention.mechanisms.mechanism import SOFTMAX, Heads, Mechanism, Weights
from headwise.attention.scores import Dot
from headwise.attention.weights import weights as exact_weights
from headwise.errors import ConfigError


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
    >>> Differential(8)(Call(x, x, x)).shape
    torch.Size([2, 3, 5, 8])
    """

    facts = replace(SOFTMAX, memory="n d", exact="lambda = 0, for the first halves", cache="shared")
    head_dim: int

    def __init__(self, head_dim: int, *, lambda_init: float = 0.8, dropout: float = 0.0):
        super().__init__()
        if head_dim < 2 or head_dim % 2:
            raise ConfigError(f"differential needs an even head_dim, half for each attention; got {head_dim}")
        self.head_dim, self.lambda_init, self.dropout = head_dim, lambda_init, dropout
        self.lambda_query = nn.Parameter(torch.empty(2, head_dim // 2))
        self.lambda_key = nn.Parameter(torch.empty(2, head_dim // 2))
        for vectors in (self.lambda_query, self.lambda_key):
            nn.init.normal_(vectors, std=0.1)

    def strength(self) -> Float[Tensor, ""]:
        """lambda: how much of the second attention is taken away."""
        first, second = (self.lambda_query * self.lambda_key).sum(-1).exp()
        return first - second + self.lambda_init

    def compute(self, call: Call) -> Float[Tensor, "batch heads query_len value_dim"]:
        first, second = (planner.run(half) for half in self._halves(call, self.dropout if self.training else 0.0))
        return first - self.strength().to(first.dtype) * second

    def compute_weights(self, call: Call, heads: Heads, queries: slice, keys: slice) -> Weights:
        """The difference of the two weights before dropout, which may be negative."""
        first, second = (exact_weights(half, heads, queries, keys) for half in self._halves(call, 0.0))
        return first - self.strength().to(first.dtype) * second

    def _halves(self, call: Call, dropout: float) -> tuple[Call, Call]:
        half = self.head_dim // 2
        # zeros in place of the other half leave key and value as wide as the query, which fused kernels need
        queries = F.pad(call.query[..., :half], (0, half)), F.pad(call.query[..., half:], (half, 0))
        first, second = (replace(call, query=query, score=Dot(half**-0.5), dropout=dropout) for query in queries)
        return first, second

"""The scores of graph attention networks; a `Table` or `Edges` mask says which nodes are neighbours.

Query and key are the projected nodes W h, as the layer makes them: projections belong to the layer, and in the first
paper queries and keys share one.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.scores.score import Key, Pairs, PairScores, Query, Score, Scores, check_built


class GAT(Score):
    """LeakyReLU(a_q . q + a_k . k) with vectors a_q and a_k for each head, over projected nodes.

    Every query ranks the keys in the same order, since the score is monotone in a_k . k: use `GATv2` if it should not.
    Costs two numbers for each node and one sum for each pair.

    Args:
        num_heads: heads of the query.
        dim: width of a query and of a key.
        slope: of LeakyReLU below 0.
    Source: Velickovic et al. 2018, arXiv:1710.10903, eq. 3, whose a is [a_q; a_k].

    >>> GAT(num_heads=3, dim=4)(torch.ones(2, 3, 5, 4), torch.ones(2, 3, 7, 4)).shape
    torch.Size([2, 3, 5, 7])
    """

    def __init__(self, num_heads: int, dim: int, slope: float = 0.2):
        super().__init__()
        self.query = nn.Parameter(torch.empty(num_heads, dim))
        self.key = nn.Parameter(torch.empty(num_heads, dim))
        nn.init.xavier_uniform_(self.query)
        nn.init.xavier_uniform_(self.key)
        self.num_heads, self.dim, self.widths, self.slope = num_heads, dim, (dim, dim), slope

    def forward(self, query: Query, key: Key) -> Scores:
        check_built(self, "heads", self.num_heads, query.shape[1])
        of_query, of_key = self.project(query, key)
        return F.leaky_relu(of_query + of_key.mT, self.slope)

    def project(
        self, query: Query, key: Key
    ) -> tuple[Float[Tensor, "batch heads query_len 1"], Float[Tensor, "batch heads key_len 1"]]:
        """(a_q . q, a_k . k)."""
        return _along(query, self.query).unsqueeze(-1), _along(key, self.key).unsqueeze(-1)

    def matrices(self) -> tuple[Float[Tensor, "heads 1 dim"], Float[Tensor, "heads 1 dim"]]:
        """(a_q, a_k), a row for each head."""
        return self.query.unsqueeze(1), self.key.unsqueeze(1)

    def vector(self) -> Float[Tensor, "1 1"]:
        """The weight of the sum: one."""
        return self.query.new_ones(1, 1)

    def pairs(self, query: Pairs, key: Pairs) -> PairScores:
        return F.leaky_relu(_along(query, self.query) + _along(key, self.key), self.slope)

    def pair_width(self, query: Query) -> int:
        return 1


class GATv2(Score):
    """a . LeakyReLU(q + k) with a vector a for each head, over projected nodes: each query has its own order of keys.

    Costs batch x heads x query_len x key_len x dim numbers in its plain form.

    Args:
        num_heads: heads of the query.
        dim: width of a query and of a key.
        slope: of LeakyReLU below 0.
    Source: Brody et al. 2022, arXiv:2105.14491, eq. 7; W [q; k] there is the sum of the two projections here.

    >>> GATv2(num_heads=3, dim=4)(torch.ones(2, 3, 5, 4), torch.ones(2, 3, 7, 4)).shape
    torch.Size([2, 3, 5, 7])
    """

    def __init__(self, num_heads: int, dim: int, slope: float = 0.2):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_heads, dim))
        nn.init.xavier_uniform_(self.weight)
        self.num_heads, self.dim, self.widths, self.slope = num_heads, dim, (dim, dim), slope

    def forward(self, query: Query, key: Key) -> Scores:
        check_built(self, "heads", self.num_heads, query.shape[1])
        features = F.leaky_relu(query.unsqueeze(-2) + key.unsqueeze(-3), self.slope)
        # (batch, heads, query_len, key_len, dim) @ (heads, 1, dim, 1)
        return (features @ self.weight.to(query.dtype)[:, None, :, None]).squeeze(-1)

    def vector(self) -> Float[Tensor, "heads dim"]:
        """a."""
        return self.weight

    def pairs(self, query: Pairs, key: Pairs) -> PairScores:
        return (F.leaky_relu(query + key, self.slope) @ self.weight.to(query.dtype).unsqueeze(-1)).squeeze(-1)


def _along(
    x: Float[Tensor, "batch heads length dim"], weight: Float[Tensor, "heads dim"]
) -> Float[Tensor, "batch heads length"]:
    return (x * weight.to(x.dtype).unsqueeze(1)).sum(-1)

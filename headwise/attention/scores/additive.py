"""Scores that add what the query and the key say."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.attention.scores.score import Key, Query, Score, Scores, times
from headwise.errors import ShapeError


class Additive(Score):
    """v . tanh(W_q q + W_k k), the score of Bahdanau et al. 2015 (arXiv:1409.0473, appendix A.1.2).

    The concatenation form v . tanh(W [q; k]) (Luong et al. 2015, arXiv:1508.04025, eq. 8 "concat") is the same function
    with W = [W_q W_k]: `from_concatenation`; the names "additive" and "concat" both build this class.
    Costs batch x heads x query_len x key_len x hidden numbers in its plain form.

    Args:
        query_dim: width of a query.
        key_dim: width of a key.
        hidden: width of the sum inside tanh.

    >>> Additive(3, 5, hidden=4)(torch.ones(2, 1, 6, 3), torch.ones(2, 1, 7, 5)).shape
    torch.Size([2, 1, 6, 7])
    """

    def __init__(self, query_dim: int, key_dim: int, hidden: int):
        super().__init__()
        self.widths = (query_dim, key_dim)
        self.query = nn.Linear(query_dim, hidden, bias=False)
        self.key = nn.Linear(key_dim, hidden, bias=False)
        self.value = nn.Linear(hidden, 1, bias=False)

    @classmethod
    def from_concatenation(
        cls, weight: Float[Tensor, "hidden both"], value: Float[Tensor, "hidden"], query_dim: int
    ) -> "Additive":
        """The score v . tanh(W [q; k]) for the given W (its first `query_dim` columns belong to the query) and v."""
        hidden, both = weight.shape
        if not 0 < query_dim < both:
            raise ShapeError(
                f"query_dim ({query_dim}) must lie between 1 and {both - 1}, the columns of the weight less one"
            )
        score = cls(query_dim, both - query_dim, hidden).to(weight.dtype)
        with torch.no_grad():
            score.query.weight.copy_(weight[:, :query_dim])
            score.key.weight.copy_(weight[:, query_dim:])
            score.value.weight.copy_(value[None])
        return score

    def forward(self, query: Query, key: Key) -> Scores:
        query, key = self.project(query, key)
        # (batch, heads, query_len, 1, hidden) + (batch, heads, 1, key_len, hidden)
        return self.of_sums(query.unsqueeze(-2) + key.unsqueeze(-3))

    def project(
        self, query: Float[Tensor, "*rows query_dim"], key: Float[Tensor, "*columns key_dim"]
    ) -> tuple[Float[Tensor, "*rows hidden"], Float[Tensor, "*columns hidden"]]:
        """(W_q q, W_k k)."""
        return times(self.query, query), times(self.key, key)

    def matrices(self) -> tuple[Float[Tensor, "1 hidden query_dim"], Float[Tensor, "1 hidden key_dim"]]:
        """(W_q, W_k), the same for all heads."""
        return self.query.weight[None], self.key.weight[None]

    def vector(self) -> Float[Tensor, "1 hidden"]:
        """v."""
        return self.value.weight

    def of_sums(self, sums: Float[Tensor, "*pairs hidden"]) -> Float[Tensor, "*pairs"]:
        """v . tanh of what is inside."""
        # as one vector, so that scores are not rounded to the type of the parameters
        return torch.tanh(sums) @ self.value.weight[0].to(sums.dtype)

    def pair_width(self, query: Query) -> int:
        return self.value.in_features

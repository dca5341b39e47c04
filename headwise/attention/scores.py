"""How alike a query and a key are: modules (query, key) -> scores, without mask, softmax or dropout."""

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.errors import ConfigError, ShapeError, unknown

Query = Float[Tensor, "batch heads query_len query_dim"]
Key = Float[Tensor, "batch heads key_len key_dim"]
AsKey = Float[Tensor, "batch heads query_len key_dim"]
Scores = Float[Tensor, "batch heads query_len key_len"]


class Score(nn.Module, ABC):
    """Base of the score functions."""

    @abstractmethod
    def forward(self, query: Query, key: Key) -> Scores:
        """One number for each pair of query and key."""

    def as_dot(self, query: Query) -> tuple[AsKey, float] | None:
        """(q', scale) such that the score is exactly scale * q' . key; None if it is no such product.

        What can be written so runs on every kernel for dot products.
        """
        return None

    def pair_width(self, query: Query) -> int:
        """Numbers that are multiplied for each pair; a score that is no dot product keeps them all at once."""
        return query.shape[-1]

    def check(self, query_dim: int, key_dim: int) -> None:
        """Raises: ShapeError if the score cannot compare vectors of these widths."""
        if query_dim != key_dim:
            raise ShapeError(
                f"query_dim ({query_dim}) and key_dim ({key_dim}) differ: a dot product needs equal widths;"
                " use Bilinear or Additive"
            )


class Dot(Score):
    """q . k (Luong et al. 2015, arXiv:1508.04025, eq. 8 "dot")."""

    def forward(self, query: Query, key: Key) -> Scores:
        return query @ key.mT

    def as_dot(self, query: Query) -> tuple[AsKey, float]:
        return query, 1.0


class ScaledDot(Score):
    """q . k / sqrt(d), which keeps the variance of the scores at 1 (Vaswani et al. 2017, arXiv:1706.03762, eq. 1).

    >>> ScaledDot()(torch.ones(1, 1, 1, 4), torch.ones(1, 1, 1, 4)).item()
    2.0
    """

    def forward(self, query: Query, key: Key) -> Scores:
        return (query @ key.mT) * _root(query)

    def as_dot(self, query: Query) -> tuple[AsKey, float]:
        return query, _root(query)


class Bilinear(Score):
    """q^T W k with one learned W for all heads (Luong et al. 2015, arXiv:1508.04025, eq. 8 "general").

    Args:
        query_dim: width of a query.
        key_dim: width of a key.
    """

    def __init__(self, query_dim: int, key_dim: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(query_dim, key_dim))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, query: Query, key: Key) -> Scores:
        return (query @ self.weight.to(query.dtype)) @ key.mT

    def as_dot(self, query: Query) -> tuple[AsKey, float]:
        return query @ self.weight.to(query.dtype), 1.0

    def check(self, query_dim: int, key_dim: int) -> None:
        _check_built(self, tuple(self.weight.shape), (query_dim, key_dim))


class Additive(Score):
    """v . tanh(W_q q + W_k k), the score of Bahdanau et al. 2015 (arXiv:1409.0473, appendix A.1.2).

    The concatenation form v . tanh(W [q; k]) is the same function with W = [W_q W_k]: `from_concatenation`.
    Costs batch x heads x query_len x key_len x hidden numbers in its plain form.

    Args:
        query_dim: width of a query.
        key_dim: width of a key.
        hidden: width of the sum inside tanh.
    """

    def __init__(self, query_dim: int, key_dim: int, hidden: int):
        super().__init__()
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
        # (batch, heads, query_len, 1, hidden) + (batch, heads, 1, key_len, hidden)
        features = torch.tanh(_times(self.query, query).unsqueeze(-2) + _times(self.key, key).unsqueeze(-3))
        return _times(self.value, features).squeeze(-1)

    def pair_width(self, query: Query) -> int:
        return self.value.in_features

    def check(self, query_dim: int, key_dim: int) -> None:
        _check_built(self, (self.query.in_features, self.key.in_features), (query_dim, key_dim))


def _times(linear: nn.Linear, x: Tensor) -> Tensor:
    # scores are wider than the parameters of a half-precision model
    return F.linear(x, linear.weight.to(x.dtype))


def _check_built(score: Score, built: tuple[int, ...], given: tuple[int, int]) -> None:
    if built != given:
        raise ShapeError(f"{type(score).__name__} was built for (query_dim, key_dim) = {built}, got {given}")


def _root(query: Tensor) -> float:
    # a head of no width has no score; any finite scale will do
    return max(1, query.shape[-1]) ** -0.5


SCORES: dict[str, tuple[type[Score], Callable[[int, int, int], Score]]] = {
    # name: (class, builder from query_dim, key_dim, hidden)
    "dot": (Dot, lambda query_dim, key_dim, hidden: Dot()),
    "scaled_dot": (ScaledDot, lambda query_dim, key_dim, hidden: ScaledDot()),
    "bilinear": (Bilinear, lambda query_dim, key_dim, hidden: Bilinear(query_dim, key_dim)),
    "additive": (Additive, Additive),
}


def build(name: str, query_dim: int, key_dim: int, hidden: int) -> Score:
    """The score of this name. Raises: ConfigError if unknown, or if a dot product is asked of unequal widths."""
    if name not in SCORES:
        raise ConfigError(unknown("score", name, SCORES))
    if name in ("dot", "scaled_dot") and query_dim != key_dim:
        raise ConfigError(
            f"score '{name}' needs equal widths, got query {query_dim} and key {key_dim}; use 'bilinear' or 'additive'"
        )
    return SCORES[name][1](query_dim, key_dim, hidden)


def catalogue() -> dict[str, str]:
    """Name and first documentation line of every score."""
    return {name: (score.__doc__ or "").partition("\n")[0] for name, (score, _) in SCORES.items()}

"""A bound around any score."""

from headwise.attention.scores.dot import ScaledDot
from headwise.attention.scores.score import Key, Pairs, PairScores, Query, Score, Scores
from headwise.errors import ConfigError


class SoftCap(Score):
    """cap tanh(score / cap): another score, bent so that it stays between -cap and cap.

    No dot product any more, whatever the inner score is.

    Args:
        score: the inner score.
        cap: the bound, above 0; scores far below it hardly change.
    Raises:
        ConfigError: a cap that is not above 0 and finite, or an inner score that is no `Score`.
    Source: Gemma team 2024, arXiv:2408.00118, sec. 2 (logit soft-capping, cap 50 in attention).

    >>> import torch
    >>> from headwise.attention.scores import Dot
    >>> SoftCap(Dot(), cap=2.0)(torch.full((1, 1, 1, 1), 100.0), torch.ones(1, 1, 1, 1)).item()
    2.0
    """

    def __init__(self, score: Score, cap: float):
        super().__init__()
        if not 0.0 < cap < float("inf"):
            raise ConfigError(f"cap ({cap}) must lie above 0, such as 50.0")
        if not isinstance(score, Score):
            raise ConfigError(f"SoftCap bends a score such as ScaledDot(), got {score!r}")
        self.score = score
        self.cap = cap

    @classmethod
    def sized(cls, *, query_dim: int, key_dim: int, hidden: int, num_heads: int, dim: int) -> "SoftCap":
        """Of scaled dot products, with a cap of 50."""
        return cls(ScaledDot(), 50.0)

    def forward(self, query: Query, key: Key) -> Scores:
        return self.cap * (self.score(query, key) / self.cap).tanh()

    def pairs(self, query: Pairs, key: Pairs) -> PairScores:
        return self.cap * (self.score.pairs(query, key) / self.cap).tanh()

    def pair_width(self, query: Query) -> int:
        return self.score.pair_width(query)

    def kept_width(self, query: Query) -> int:
        # the inner score, and what is made of it
        return 2 if self.score.is_dot() else self.score.kept_width(query)

    def per_head(self) -> bool:
        return self.score.per_head()

    def check(self, query_dim: int, key_dim: int) -> None:
        self.score.check(query_dim, key_dim)

    def extra_repr(self) -> str:
        return f"cap={self.cap}"

"""How alike a query and a key are: modules (query, key) -> scores, without mask, softmax or dropout."""

from collections.abc import Callable

from headwise.attention.scores.additive import Additive
from headwise.attention.scores.dot import Bilinear, Dot, ScaledDot
from headwise.attention.scores.score import Score
from headwise.errors import ConfigError, unknown

__all__ = ["SCORES", "Additive", "Bilinear", "Dot", "ScaledDot", "Score", "build", "catalogue"]

SCORES: dict[str, tuple[type[Score], Callable[[int, int, int, int], Score]]] = {
    # name: (class, builder from query_dim, key_dim, hidden)
    "dot": (Dot, lambda query_dim, key_dim, hidden, num_heads: Dot()),
    "scaled_dot": (ScaledDot, lambda query_dim, key_dim, hidden, num_heads: ScaledDot()),
    "bilinear": (Bilinear, lambda query_dim, key_dim, hidden, num_heads: Bilinear(query_dim, key_dim)),
    "additive": (Additive, lambda query_dim, key_dim, hidden, num_heads: Additive(query_dim, key_dim, hidden)),
}


def build(name: str, query_dim: int, key_dim: int, hidden: int, num_heads: int) -> Score:
    """The score of this name. Raises: ConfigError if unknown, or if a dot product is asked of unequal widths."""
    if name not in SCORES:
        raise ConfigError(unknown("score", name, SCORES))
    if name in ("dot", "scaled_dot") and query_dim != key_dim:
        raise ConfigError(
            f"score '{name}' needs equal widths, got query {query_dim} and key {key_dim}; use 'bilinear' or 'additive'"
        )
    return SCORES[name][1](query_dim, key_dim, hidden, num_heads)


def catalogue() -> dict[str, str]:
    """Name and first documentation line of every score."""
    return {name: (score.__doc__ or "").partition("\n")[0] for name, (score, _) in SCORES.items()}

"""How alike a query and a key are: modules (query, key) -> scores, without mask, softmax or dropout."""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from headwise.attention.scores.activation_unit import ActivationUnit
from headwise.attention.scores.additive import Additive
from headwise.attention.scores.dot import Bilinear, Distance, Dot, ScaledDot
from headwise.attention.scores.graph import GAT, GATv2
from headwise.attention.scores.normalized import Cosine, QKNorm, SoftCap
from headwise.attention.scores.score import Custom, Product, Score
from headwise.errors import ConfigError, unknown

__all__ = ["GAT", "SCORES", "ActivationUnit", "Additive", "Bilinear", "Cosine", "Custom", "Distance", "Dot", "GATv2"]
__all__ += ["Product", "QKNorm", "ScaledDot", "Score", "SoftCap", "as_score", "build", "catalogue", "check_name"]


class Sizes(NamedTuple):
    """What a score is built from."""

    query_dim: int
    key_dim: int
    hidden: int
    num_heads: int


SCORES: dict[str, tuple[type[Score], Callable[[Sizes], Score]]] = {
    "dot": (Dot, lambda sizes: Dot()),
    "scaled_dot": (ScaledDot, lambda sizes: ScaledDot()),
    "distance": (Distance, lambda sizes: Distance()),
    "bilinear": (Bilinear, lambda sizes: Bilinear(sizes.query_dim, sizes.key_dim)),
    "additive": (Additive, lambda sizes: Additive(sizes.query_dim, sizes.key_dim, sizes.hidden)),
    "concat": (Additive, lambda sizes: Additive(sizes.query_dim, sizes.key_dim, sizes.hidden)),
    "cosine": (Cosine, lambda sizes: Cosine(sizes.num_heads)),
    "qk_norm": (QKNorm, lambda sizes: QKNorm(sizes.query_dim)),
    "soft_cap": (SoftCap, lambda sizes: SoftCap(ScaledDot(), 50.0)),
    "gat": (GAT, lambda sizes: GAT(sizes.num_heads, sizes.query_dim)),
    "gatv2": (GATv2, lambda sizes: GATv2(sizes.num_heads, sizes.query_dim)),
    "activation_unit": (ActivationUnit, lambda sizes: ActivationUnit(sizes.query_dim, [sizes.hidden])),
}

_UNEQUAL = ("bilinear", "additive", "concat")


def build(name: str, query_dim: int, key_dim: int, hidden: int, num_heads: int) -> Score:
    """The score of this name. Raises: ConfigError if unknown, or if widths differ where the score needs equal ones."""
    check_name(name)
    if name not in _UNEQUAL and query_dim != key_dim:
        raise ConfigError(
            f"score '{name}' needs equal widths, got query {query_dim} and key {key_dim}; use 'bilinear' or 'additive'"
        )
    return SCORES[name][1](Sizes(query_dim, key_dim, hidden, num_heads))


def check_name(name: str) -> None:
    """Raises: ConfigError if no score has this name."""
    if name not in SCORES:
        raise ConfigError(unknown("score", name, SCORES))


def catalogue() -> dict[str, str]:
    """Name and first documentation line of every score."""
    return {name: (score.__doc__ or "").partition("\n")[0] for name, (score, _) in SCORES.items()}


# without parameters, so one object serves everybody
_SINGLE = {name: build(name, 0, 0, 0, 0) for name in ("dot", "scaled_dot", "distance", "soft_cap")}


def as_score(score: str | Score | Callable[..., Tensor]) -> Score:
    """The score itself, that of a name without parameters, or a function or module (query, key) -> scores as one.

    Raises:
        ConfigError: an unknown name or one with parameters, a class in place of an instance, what cannot be called.

    >>> as_score("scaled_dot")
    ScaledDot()
    """
    if not isinstance(score, str):
        return score if isinstance(score, Score) else Custom(score)
    if score in _SINGLE:
        return _SINGLE[score]
    check_name(score)
    raise ConfigError(f"score '{score}' has parameters; pass a module: score={SCORES[score][0].__name__}(...)")

"""How alike a query and a key are: modules (query, key) -> scores, without mask, softmax or dropout."""

from collections.abc import Callable
from inspect import signature

from torch import Tensor

from headwise.attention.scores.activation_unit import ActivationUnit
from headwise.attention.scores.additive import Additive
from headwise.attention.scores.dot import Bilinear, Distance, Dot, ScaledDot
from headwise.attention.scores.graph import GAT, GATv2
from headwise.attention.scores.normalized import Cosine, QKNorm, SoftCap
from headwise.attention.scores.score import Custom, Product, Score
from headwise.errors import ConfigError
from headwise.registry import Registry

__all__ = ["GAT", "SCORES", "ActivationUnit", "Additive", "Bilinear", "Cosine", "Custom", "Distance", "Dot", "GATv2"]
__all__ += ["Product", "QKNorm", "ScaledDot", "Score", "SoftCap", "as_score", "build", "catalogue", "find"]


SCORES: dict[str, type[Score]] = {
    "dot": Dot,
    "scaled_dot": ScaledDot,
    "distance": Distance,
    "bilinear": Bilinear,
    "additive": Additive,
    "concat": Additive,
    "cosine": Cosine,
    "qk_norm": QKNorm,
    "soft_cap": SoftCap,
    "gat": GAT,
    "gatv2": GATv2,
    "activation_unit": ActivationUnit,
}
SIZES = ("query_dim", "key_dim", "hidden", "num_heads", "dim")
REGISTRY = Registry(
    "score",
    Score,  # type: ignore[type-abstract]
    lambda: SCORES,
    SIZES,
    # the score that another one bends
    nested={"score": lambda text: build(text, 0, 0, 0, 0)},
)

find = REGISTRY.find
catalogue = REGISTRY.catalogue
details = REGISTRY.details


def build(name: str, query_dim: int, key_dim: int, hidden: int, num_heads: int) -> Score:
    """The score of this name. Raises: ConfigError as the registry, and where widths differ that must be equal."""
    unequal = {"query_dim", "key_dim"} <= {*signature(find(name)).parameters}
    if query_dim != key_dim and not unequal:
        raise ConfigError(
            f"score '{name}' needs equal widths, got query {query_dim} and key {key_dim}; use 'bilinear' or 'additive'"
        )
    sizes = (query_dim, key_dim, hidden, num_heads, query_dim)
    return REGISTRY.build(name, **dict(zip(SIZES, sizes, strict=True)))


# without parameters, so one object serves everybody
_SINGLE = {name: build(name, 0, 0, 0, 0) for name in ("dot", "scaled_dot", "distance", "soft_cap")}


def as_score(score: str | Score | Callable[..., Tensor]) -> Score:
    """The score itself, that of a name without parameters, or a function or module (query, key) -> scores as one.

    Raises: ConfigError: an unknown name or one with parameters, a class in place of an instance, what cannot be called.

    >>> as_score("scaled_dot")
    ScaledDot()
    """
    if not isinstance(score, str):
        return score if isinstance(score, Score) else Custom(score)
    if score in _SINGLE:
        return _SINGLE[score]
    if signature(find(score)).parameters.keys() & SIZES:
        raise ConfigError(f"score '{score}' has parameters; pass a module, such as score=Additive(...)")
    return build(score, 0, 0, 0, 0)

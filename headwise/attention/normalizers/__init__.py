"""Scores to weights: modules (scores, keep) -> weights. A row with no allowed key is zero, and so is its gradient."""

from collections.abc import Callable
from inspect import signature

from torch import Tensor

from headwise.attention.normalizers.dense import Scalable, Sinks, Softmax, Softmax1
from headwise.attention.normalizers.elementwise import Identity, ReLU, ReLU2, Sigmoid, Tempered
from headwise.attention.normalizers.normalizer import Function, Keep, Normalizer, Scores
from headwise.attention.normalizers.selecting import Hard, TopK
from headwise.attention.normalizers.sparse import Entmax, Entmax15, Sparsemax
from headwise.errors import ConfigError
from headwise.registry import Registry

softmax = Softmax()
_SINGLE = (softmax, Softmax1(), ReLU(), ReLU2(), Sigmoid(), Identity(), Sparsemax(), Entmax15(), Hard())
# without parameters, so one object serves everybody
NORMALIZERS: dict[str, Normalizer] = {single.name: single for single in _SINGLE}

_KINDS: dict[str, type[Normalizer]] = {
    **{single.name: type(single) for single in _SINGLE},
    "sinks": Sinks,
    "entmax": Entmax,
    "top_k": TopK,
    "scalable": Scalable,
}
REGISTRY = Registry("normalizer", Normalizer, lambda: _KINDS, ("num_heads",))  # type: ignore[type-abstract]

find = REGISTRY.find
catalogue = REGISTRY.catalogue
details = REGISTRY.details


def build(normalizer: str | Normalizer | Callable[..., Tensor], num_heads: int | None = None) -> Normalizer:
    """The normalizer of a name such as "softmax" or "top_k:8"; an object as it is, a function or module as `Function`.

    Args:
        num_heads: what "sinks" is built for, which has a parameter for each head.
    Raises: ConfigError: an unknown name, an argument that is missing or unknown, a class in place of its instance.

    >>> build("top_k:8").name
    'top_k:8'
    """
    if not isinstance(normalizer, str):
        return normalizer if isinstance(normalizer, Normalizer) else Function(normalizer)
    if normalizer in NORMALIZERS:
        return NORMALIZERS[normalizer]
    if num_heads is None and "num_heads" in signature(find(normalizer)).parameters:
        raise ConfigError(f"normalizer '{normalizer}' has a parameter for each head; pass an object: Sinks(num_heads)")
    return REGISTRY.build(normalizer, num_heads=num_heads)


__all__ = ["NORMALIZERS", "Entmax", "Entmax15", "Function", "Hard", "Identity", "Keep", "Normalizer", "ReLU", "ReLU2"]
__all__ += ["Scalable", "Scores", "Sigmoid", "Sinks", "Softmax", "Softmax1", "Sparsemax", "TopK", "build", "catalogue"]
__all__ += ["Tempered", "find", "softmax"]

"""Scores to weights: modules (scores, keep) -> weights. A row with no allowed key is zero, and so is its gradient."""

from collections.abc import Callable

from torch import Tensor

from headwise.attention.normalizers.dense import Scalable, Sinks, Softmax, Softmax1
from headwise.attention.normalizers.elementwise import Identity, ReLU, ReLU2, Sigmoid, Tempered
from headwise.attention.normalizers.normalizer import Function, Keep, Normalizer, Scores
from headwise.attention.normalizers.selecting import Hard, TopK
from headwise.attention.normalizers.sparse import Entmax, Entmax15, Sparsemax
from headwise.errors import ConfigError, unknown

softmax = Softmax()
_SINGLE = (softmax, Softmax1(), ReLU(), ReLU2(), Sigmoid(), Identity(), Sparsemax(), Entmax15(), Hard())
# without parameters, so one object serves everybody
NORMALIZERS: dict[str, Normalizer] = {single.name: single for single in _SINGLE}

# what is written after the name and a colon: class, builder from the option, noun and example
_OPTIONS: dict[str, tuple[type[Normalizer], Callable[[str], Normalizer], str, str]] = {
    "sigmoid": (Sigmoid, lambda option: Sigmoid(float(option)), "a number, the bias", "sigmoid:-3.5"),
    "entmax": (Entmax, lambda option: Entmax(float(option)), "a number, alpha", "entmax:1.3"),
    "top_k": (TopK, lambda option: TopK(int(option)), "a whole number, k", "top_k:8"),
    "scalable": (Scalable, lambda option: Scalable(float(option)), "a number, the scale", "scalable:0.43"),
}


def build(normalizer: str | Normalizer | Callable[..., Tensor], num_heads: int | None = None) -> Normalizer:
    """The normalizer of a name such as "softmax" or "top_k:8"; an object as it is, a function or module as `Function`.

    Args:
        num_heads: what "sinks" is built for, which has a parameter for each head.
    Raises:
        ConfigError: an unknown name, an option that is missing or not allowed, a class in place of its instance.

    >>> build("top_k:8").name
    'top_k:8'
    """
    if not isinstance(normalizer, str):
        return normalizer if isinstance(normalizer, Normalizer) else Function(normalizer)
    family, colon, option = normalizer.partition(":")
    if not colon and family in NORMALIZERS:
        return NORMALIZERS[family]
    if family in _OPTIONS:
        _, made, noun, example = _OPTIONS[family]
        try:
            return made(option)
        except ValueError:
            given = f"got '{option}'" if option else "got none"
            raise ConfigError(f"normalizer '{family}' needs {noun} after a colon, such as {example}; {given}") from None
    if family not in (*NORMALIZERS, "sinks"):
        raise ConfigError(unknown("normalizer", family, [*dict.fromkeys((*NORMALIZERS, *_OPTIONS, "sinks"))]))
    if colon:
        raise ConfigError(f"normalizer '{family}' has no option, got '{option}'; write {family}")
    if num_heads is None:
        raise ConfigError("normalizer 'sinks' has a parameter for each head; pass an object: Sinks(num_heads)")
    return Sinks(num_heads)


def catalogue() -> dict[str, str]:
    """Name and first documentation line of every normalizer; those that need an option come last."""
    kinds = {name: type(item) for name, item in NORMALIZERS.items()} | {"sinks": Sinks}
    kinds |= {name: row[0] for name, row in _OPTIONS.items()}
    return {name: (kind.__doc__ or "").partition("\n")[0] for name, kind in kinds.items()}


__all__ = ["NORMALIZERS", "Entmax", "Entmax15", "Function", "Hard", "Identity", "Keep", "Normalizer", "ReLU", "ReLU2"]
__all__ += ["Scalable", "Scores", "Sigmoid", "Sinks", "Softmax", "Softmax1", "Sparsemax", "TopK", "build", "catalogue"]
__all__ += ["Tempered", "softmax"]

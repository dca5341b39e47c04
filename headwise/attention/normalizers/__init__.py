"""Scores to weights: objects (scores, keep) -> weights. A row with no allowed key is zero, and so is its gradient."""

from headwise.attention.normalizers.dense import ReLU, Sigmoid, Softmax
from headwise.attention.normalizers.normalizer import Keep, Normalizer, Scores
from headwise.errors import ConfigError, unknown

softmax, relu, sigmoid = Softmax(), ReLU(), Sigmoid()

NORMALIZERS: dict[str, Normalizer] = {"softmax": softmax, "relu": relu, "sigmoid": sigmoid}


def build(name: str) -> Normalizer:
    """The normalizer of this name. Raises: ConfigError if unknown."""
    if name not in NORMALIZERS:
        raise ConfigError(unknown("normalizer", name, NORMALIZERS))
    return NORMALIZERS[name]


def catalogue() -> dict[str, str]:
    """Name and first documentation line of every normalizer."""
    return {name: (type(item).__doc__ or "").partition("\n")[0] for name, item in NORMALIZERS.items()}


__all__ = ["NORMALIZERS", "Keep", "Normalizer", "ReLU", "Scores", "Sigmoid", "Softmax", "build", "catalogue"]
__all__ += ["relu", "sigmoid", "softmax"]

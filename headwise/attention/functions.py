"""A user's own function or module in place of a score or a normalizer: what it must be, and what it must return."""

from collections.abc import Callable
from inspect import signature

from torch import Tensor, nn

from headwise.attention.precision import autocast_dtype
from headwise.errors import ConfigError, ShapeError


def check_function(kind: str, function: object, signature: str) -> None:
    """Raises: ConfigError if it is a class in place of an instance, or cannot be called."""
    if isinstance(function, type):
        name = function.__name__
        raise ConfigError(f"{kind} is the class {name}; pass an instance, {name}()")
    if not callable(function):
        raise ConfigError(f"{kind} must be a name, a module or a function {signature}, got {type(function).__name__}")


def name_of(function: Callable[..., Tensor]) -> str:
    """Its name in messages; of an object that of its class."""
    return getattr(function, "__name__", type(function).__name__)


def arguments(module: nn.Module, *more: str) -> str:
    """The arguments of its constructor, and other attributes, that are numbers or words and there by their names."""
    values = {name: getattr(module, name, None) for name in (*more, *signature(type(module)).parameters)}
    return ", ".join(f"{name}={value}" for name, value in values.items() if isinstance(value, int | float | str))


def check_result(result: object, kind: str, shape: tuple[int, ...], like: Tensor) -> Tensor:
    """What it returned, in the type of `like` where autocast changed that. Raises: ShapeError if it does not fit."""
    if not isinstance(result, Tensor):
        raise ShapeError(f"{kind} must return a tensor, got {type(result).__name__}")
    if result.is_floating_point() and autocast_dtype(result.device) is not None:
        result = result.to(like.dtype)
    if tuple(result.shape) != shape or result.dtype != like.dtype:
        actual = f"{tuple(result.shape)} {result.dtype}"
        raise ShapeError(f"{kind} must return {shape} {like.dtype}, got {actual}")
    return result

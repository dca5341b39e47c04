"""Where position enters: one scheme a file; the folder is the registry and a scheme's name is its file name."""

import importlib
import pkgutil

from headwise.errors import ConfigError, unknown
from headwise.positions.position import Position


def names() -> tuple[str, ...]:
    """All position schemes, in alphabetical order."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name != "position"))


def position_type(name: str) -> type[Position]:
    """The class of a position scheme. Raises: ConfigError if there is no file of that name."""
    if name not in names():
        raise ConfigError(unknown("position", name, names()))
    module = importlib.import_module(f"{__name__}.{name}")
    found: type[Position] = next(
        kind
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Position) and kind.__module__ == module.__name__
    )
    return found


def build(name: str, d_model: int, head_dim: int, max_len: int) -> Position:
    """The scheme of this name for a model of these sizes."""
    return position_type(name).sized(d_model, head_dim, max_len)


def catalogue() -> dict[str, str]:
    """Name and first documentation line of every position scheme."""
    return {name: (position_type(name).__doc__ or "").partition("\n")[0] for name in names()}

"""What is computed: one mechanism a file; the folder is the registry and a mechanism's name is its file name."""

import importlib
import pkgutil

from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.errors import ConfigError, unknown


def names() -> tuple[str, ...]:
    """All mechanisms, in alphabetical order."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name != "mechanism"))


def mechanism_type(name: str) -> type[Mechanism]:
    """The class of a mechanism. Raises: ConfigError if there is no file of that name."""
    if name not in names():
        raise ConfigError(unknown("mechanism", name, names()))
    module = importlib.import_module(f"{__name__}.{name}")
    found: type[Mechanism] = next(
        kind
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Mechanism) and kind.__module__ == module.__name__
    )
    return found


def catalogue() -> dict[str, str]:
    """Name and first documentation line of every mechanism."""
    return {name: (mechanism_type(name).__doc__ or "").partition("\n")[0] for name in names()}

"""The families of tasks: the folders beside this file, found by name; importing them needs no PyTorch."""

import importlib
import importlib.util
import pkgutil
from collections.abc import Callable
from functools import cache
from types import ModuleType


@cache
def families() -> tuple[ModuleType, ...]:
    """The package of each family, in alphabetical order."""
    folder = importlib.import_module(__package__)
    names = [entry.name for entry in pkgutil.iter_modules(folder.__path__) if entry.ispkg]
    return tuple(importlib.import_module(f"{__package__}.{name}") for name in sorted(names))


def commands() -> dict[str, Callable[..., None]]:
    """What families add to the command line: `COMMANDS` of their modules `cli`, such as "data tokenize"."""
    named: dict[str, Callable[..., None]] = {}
    for family in families():
        if importlib.util.find_spec(f"{family.__name__}.cli"):
            named |= importlib.import_module(f"{family.__name__}.cli").COMMANDS
    return named

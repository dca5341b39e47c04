"""The families of tasks: the folders beside this file, found by name; importing them needs no PyTorch."""

import importlib
import importlib.util
import pkgutil
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any


@cache
def families() -> tuple[ModuleType, ...]:
    """The package of each family, in alphabetical order."""
    folder = importlib.import_module(__package__)
    names = [entry.name for entry in pkgutil.iter_modules(folder.__path__) if entry.ispkg]
    return tuple(importlib.import_module(f"{__package__}.{name}") for name in sorted(names))


def modules(name: str) -> list[ModuleType]:
    """The module of this name of each family that has one, such as `options`."""
    places = (f"{family.__name__}.{name}" for family in families())
    return [importlib.import_module(place) for place in places if importlib.util.find_spec(place)]


def commands(group: str) -> dict[str, Callable[..., None]]:
    """What families add to a group of verbs, such as "tokenize" to "data": `COMMANDS` of their modules `cli`."""
    return {name: command for module in modules("cli") for name, command in module.COMMANDS.get(group, {}).items()}


def options() -> list[Any]:
    """The kinds of `Options` in the modules `options` of families."""
    kinds = (value for module in modules("options") for value in vars(module).values() if isinstance(value, type))
    return list(dict.fromkeys(kind for kind in kinds if getattr(kind, "adds_to", None)))

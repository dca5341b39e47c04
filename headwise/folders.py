"""A folder as a registry: a thing is named by its file; nothing registers itself, nothing is imported to list it.

A thing of one's own is named `module:attribute`.
"""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from headwise.errors import ConfigError, Untrusted, unknown
from headwise.trust import here, import_trusted

T = TypeVar("T")


def members(package: str, base: str) -> dict[str, str]:
    """The modules of a package by name; those that start with an underscore and the one of the base class are none."""
    names = [module.name for module in pkgutil.iter_modules(importlib.import_module(package).__path__)]
    return {name: f"{package}.{name}" for name in names if name != base and not name.startswith("_")}


class Folder(Generic[T]):
    """The classes of modules, one a module.

    Args:
        modules: gives the module of each name; read at each use, so that nothing is imported before.
        kind: the class that those of the modules extend.
        noun: what one of them is called in messages.
    """

    def __init__(self, modules: Callable[[], Mapping[str, str]], kind: type[T], noun: str):
        self.modules, self.kind, self.noun = modules, kind, noun

    def names(self) -> tuple[str, ...]:
        """All members, in alphabetical order."""
        return tuple(sorted(self.modules()))

    def find(self, name: str) -> type[T]:
        """The class in the module of this name, or the one named `module:Class`; a hyphen may be an underscore.

        Raises: ConfigError with the nearest name if there is no such module; if there is no such class, or another
            kind.
        """
        if ":" in name:
            own = imported(name)
            if not (isinstance(own, type) and issubclass(own, self.kind)):
                raise ConfigError(f"'{name}' is no {self.noun}: a class that extends {self.kind.__name__}")
            return own
        modules = self.modules()
        home = modules.get(name) or modules.get(name.replace("_", "-"))
        if home is None:
            advice = f"; one of your own is named module:Class, such as my_module:My{self.kind.__name__}"
            raise ConfigError(unknown(self.noun, name, self.names()) + advice)
        for value in vars(importlib.import_module(home)).values():
            if isinstance(value, type) and issubclass(value, self.kind) and value.__module__ == home:
                return value
        raise ConfigError(f"{home} holds no {self.noun}: a class that extends {self.kind.__name__}")

    def catalogue(self) -> dict[str, str]:
        """Name and first documentation line of every member."""
        return {name: (self.find(name).__doc__ or "").partition("\n")[0] for name in self.names()}


def imported(name: str) -> Any:
    """What `module:attribute` names; modules are looked for in the current folder too.

    Raises:
        Untrusted: the module is not part of an installed package, and the user has not trusted it.
        ConfigError: there is no such module or attribute, or its import fails.
    """
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise ConfigError(f"'{name}' is not module:attribute, such as my_module:MyAttention")
    try:
        found: Any = import_trusted(module)
    except Untrusted:
        raise
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(f"{error.name}.")):
            raise ConfigError(f"no module '{module}' here ({here()}) or installed") from None
        raise ConfigError(f"module '{module}' needs '{error.name}', which is not installed") from None
    except (Exception, SystemExit) as error:
        raise ConfigError(f"module '{module}' fails when it is imported: {type(error).__name__}: {error}") from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            names = [known for known in dir(found) if not known.startswith("_")]
            raise ConfigError(unknown(f"attribute of module '{module}':", part, names))
        found = getattr(found, part)
    return found

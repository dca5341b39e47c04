"""A folder as a registry: a thing is named by its file; nothing registers itself, nothing is imported to list it."""

import importlib
import pkgutil
from typing import Generic, TypeVar

from headwise.errors import ConfigError, unknown

T = TypeVar("T")


class Folder(Generic[T]):
    """The classes of a package's modules, one a file; files that start with an underscore or are `base` hold none.

    Args:
        package: name of the package.
        kind: the class that those of the files extend.
        noun: what one of them is called in messages.
        base: file names that are no members.
    """

    def __init__(self, package: str, kind: type[T], noun: str, base: tuple[str, ...]):
        self.package, self.kind, self.noun, self.base = package, kind, noun, base

    def names(self) -> tuple[str, ...]:
        """All members, in alphabetical order."""
        path = importlib.import_module(self.package).__path__
        found = (module.name for module in pkgutil.iter_modules(path))
        return tuple(sorted(name for name in found if name not in self.base and not name.startswith("_")))

    def find(self, name: str) -> type[T]:
        """The class in the file of this name. Raises: ConfigError with the nearest name if there is no such file."""
        if name not in self.names():
            raise ConfigError(unknown(self.noun, name, self.names()))
        module = importlib.import_module(f"{self.package}.{name}")
        for found in vars(module).values():
            if isinstance(found, type) and issubclass(found, self.kind) and found.__module__ == module.__name__:
                return found
        raise ConfigError(f"{module.__name__} holds no {self.noun}: a class that extends {self.kind.__name__}")

    def catalogue(self) -> dict[str, str]:
        """Name and first documentation line of every member."""
        return {name: (self.find(name).__doc__ or "").partition("\n")[0] for name in self.names()}

"""A folder as a registry: a thing is named by its file; nothing registers itself, nothing is imported to list it.

A thing of one's own is named `module:attribute`.
"""

import importlib
import pkgutil
from typing import Any, Generic, TypeVar

from headwise.errors import ConfigError, Untrusted, unknown
from headwise.trust import here, import_trusted

T = TypeVar("T")


class Folder(Generic[T]):
    """The classes of a package's modules, one a file; files that start with an underscore or are `base` hold none.

    Args:
        package: name of the package.
        kind: the class that those of the files extend.
        noun: what one of them is called in messages.
        base: file names that are no members.
        hyphens: names have hyphens where the files have underscores; both are understood.
    """

    def __init__(self, package: str, kind: type[T], noun: str, base: tuple[str, ...], *, hyphens: bool = False):
        self.package, self.kind, self.noun, self.base, self.hyphens = package, kind, noun, base, hyphens

    def names(self) -> tuple[str, ...]:
        """All members, in alphabetical order."""
        path = importlib.import_module(self.package).__path__
        found = (module.name for module in pkgutil.iter_modules(path))
        members = (name for name in found if name not in self.base and not name.startswith("_"))
        return tuple(sorted(name.replace("_", "-") if self.hyphens else name for name in members))

    def find(self, name: str) -> type[T]:
        """The class in the file of this name, or the one named `module:Class`.

        Raises: ConfigError with the nearest name if there is no such file; if there is no such class, or another kind.
        """
        if ":" in name:
            own = imported(name)
            if not (isinstance(own, type) and issubclass(own, self.kind)):
                raise ConfigError(f"'{name}' is no {self.noun}: a class that extends {self.kind.__name__}")
            return own
        name = name.replace("_", "-") if self.hyphens else name
        if name not in self.names():
            advice = f"; one of your own is named module:Class, such as my_module:My{self.kind.__name__}"
            raise ConfigError(unknown(self.noun, name, self.names()) + advice)
        module = importlib.import_module(f"{self.package}.{name.replace('-', '_') if self.hyphens else name}")
        for found in vars(module).values():
            if isinstance(found, type) and issubclass(found, self.kind) and found.__module__ == module.__name__:
                return found
        raise ConfigError(f"{module.__name__} holds no {self.noun}: a class that extends {self.kind.__name__}")

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

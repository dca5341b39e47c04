"""The ways to compute a call, one file each; the folder is the registry.

A kernel is a module with three functions: `refusal(call)` says in words why it cannot compute the call exactly, or
None; `terms(call)` gives the amounts of work in it, by names of the module's choosing, which `costs` turns into
seconds; `compute(call)` returns the output, equal to `plain`. One that keeps less than a table of scores offers
`keeps(call)`, which says what it keeps, and `spares(call)`, whether that is no table of all pairs at all. Files that
start with an underscore are parts of one.
"""

import importlib
import pkgutil
from functools import cache
from types import ModuleType


@cache
def names() -> tuple[str, ...]:
    """All kernels, in alphabetical order."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")))


@cache
def kernel(name: str) -> ModuleType:
    """The module of a kernel."""
    return importlib.import_module(f"{__name__}.{name}")


def catalogue() -> dict[str, str]:
    """Name and first documentation line of every kernel."""
    return {name: (kernel(name).__doc__ or "").partition("\n")[0] for name in names()}

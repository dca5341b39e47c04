"""The ways to compute a call, one file each; the folder is the registry.

A kernel is a module with five functions: `refusal(call)` says in words what of the call it cannot compute exactly, or
None; `compute(call)` returns the output, equal to `plain`; `num_pairs(call)` counts the pairs whose score it computes;
`memory_summary(call)` says what is in memory besides inputs and output, `peak_bytes(call)` how many bytes of it there
are at the height of the forward pass.
"""

import importlib
import pkgutil
from types import ModuleType

# by name, in alphabetical order
KERNELS: dict[str, ModuleType] = {
    name: importlib.import_module(f"{__name__}.{name}")
    for name in sorted(module.name for module in pkgutil.iter_modules(__path__))
    if not name.startswith("_")
}


def catalogue() -> dict[str, str]:
    """Name and first documentation line of every kernel."""
    return {name: (module.__doc__ or "").partition("\n")[0] for name, module in KERNELS.items()}

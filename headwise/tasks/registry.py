"""The tasks there are: each family, a folder beside this file, lists the modules of its tasks; a name has hyphens."""

import importlib
import pkgutil
from functools import cache

from headwise.data.inspection import DataKind
from headwise.folders import Folder
from headwise.tasks.task import Task


@cache
def _modules() -> dict[str, str]:
    """The module of each task, by the task's name."""
    here = importlib.import_module(__package__)
    families = [f"{__package__}.{entry.name}" for entry in pkgutil.iter_modules(here.__path__) if entry.ispkg]
    tasks = {family: getattr(importlib.import_module(family), "TASKS", ()) for family in families}
    return {name.replace("_", "-"): f"{family}.{name}" for family, names in tasks.items() for name in names}


_FOLDER = Folder(_modules, Task, "task")  # type: ignore[type-abstract]

task_names = _FOLDER.names
task_type = _FOLDER.find
catalogue = _FOLDER.catalogue


def data_kinds() -> dict[str, DataKind]:
    """What `headwise data report` can look into, by name."""
    return {kind.name: kind for name in task_names() for kind in task_type(name).kinds}

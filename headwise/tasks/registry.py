"""The tasks there are: a family lists the modules of its tasks as `TASKS`; a task is named as its file."""

from functools import cache

from headwise.data.inspection import DataKind
from headwise.registry import Registry
from headwise.tasks.families import families
from headwise.tasks.task import Task


@cache
def _modules() -> dict[str, str]:
    tasks = [(name, family.__name__) for family in families() for name in getattr(family, "TASKS", ())]
    return {name.replace("_", "-"): f"{family}.{name}" for name, family in sorted(tasks)}


_TASKS = Registry("task", Task, _modules, sizes=("config", "assets"))  # type: ignore[type-abstract]

task_names = _TASKS.names
task_type = _TASKS.find
catalogue = _TASKS.catalogue


def data_kinds(name: str = "") -> dict[str, DataKind]:
    """What `headwise data report` can look into, by name; that of a task of one's own by the task's name, if given."""
    kinds = {kind.name: kind for task in task_names() for kind in task_type(task).kinds}
    if ":" in name:
        kinds |= zip((name,), task_type(name).kinds, strict=False)
    return kinds

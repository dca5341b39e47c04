"""The tasks there are: every module of this folder that holds a task of its own name; listing imports none of them."""

import importlib
import inspect
import pkgutil
from typing import TYPE_CHECKING, cast

from headwise.errors import ConfigError, unknown

if TYPE_CHECKING:
    from headwise.tasks.task import Task

_NOT_TASKS = {"registry", "task"}


def task_names() -> list[str]:
    """Names of all tasks, in alphabetical order."""
    package = importlib.import_module("headwise.tasks")
    modules = (module.name for module in pkgutil.iter_modules(package.__path__))
    return sorted(name for name in modules if name not in _NOT_TASKS and not name.startswith("_"))


def task_type(name: str) -> type["Task"]:
    """The class of a task. Raises: ConfigError with the nearest name when there is none."""
    if name not in task_names():
        raise ConfigError(unknown("task", name, task_names()))
    module = importlib.import_module(f"headwise.tasks.{name}")
    for _, found in inspect.getmembers(module, inspect.isclass):
        if getattr(found, "name", None) == name and hasattr(found, "config_type"):
            return cast("type[Task]", found)
    raise ConfigError(f"headwise/tasks/{name}.py holds no task of the name '{name}'")

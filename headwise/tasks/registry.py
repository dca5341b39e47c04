"""The tasks there are: every module of this folder; a task's name is its file name, with hyphens."""

from headwise.folders import Folder
from headwise.tasks.task import Task

_FOLDER = Folder("headwise.tasks", Task, "task", ("registry", "task"), hyphens=True)  # type: ignore[type-abstract]

task_names = _FOLDER.names
task_type = _FOLDER.find
catalogue = _FOLDER.catalogue

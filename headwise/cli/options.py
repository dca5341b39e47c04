"""Options that tasks add to a verb."""

import inspect
import os
import re
from collections.abc import Callable, Iterator, Sequence
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_args, get_origin

import typer
from typer.core import TyperCommand

from headwise.errors import ConfigError, flag
from headwise.trust import trusting

if TYPE_CHECKING:
    from headwise.tasks.options import Options

_OUTSIDE = re.compile(r"[^\W\d][\w.]*:[^\W\d][\w.]*")


class TaskOptions(NamedTuple):
    """The options that tasks add to a verb, and the values of those that were given, by name."""

    kind: "type[Options]"
    values: dict[str, Any]

    @classmethod
    def of(cls, context: typer.Context, group: str) -> "TaskOptions":
        options: TaskOptions = context.meta[group]
        return options


class TaskCommand(TyperCommand):
    """A verb with the options of every task of the package, and of the outside tasks that its arguments name."""

    context_class = typer.Context
    # what `Options.adds_to` may be here
    groups: tuple[str, ...] = ("predict",)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        from headwise.config import build
        from headwise.tasks.families import options
        from headwise.tasks.options import merged

        kinds = [*(kind for task in self.outside_tasks(args) for kind in _options_of(task)), *options()]
        parts = {group: merged(kind for kind in kinds if kind.adds_to == group) for group in self.groups}
        values: dict[str, dict[str, Any]] = {group: {} for group in self.groups}
        ctx.meta["options of tasks"] = [
            _option(kind, name, values[group]) for group, kind in parts.items() for name in kind.model_fields
        ]
        remaining = super().parse_args(ctx, args)
        for group, kind in parts.items():
            build(kind, values[group], "options")
            ctx.meta[group] = TaskOptions(kind, values[group])
        return remaining

    def get_params(self, ctx: Any) -> list[Any]:
        *verb_options, helping = super().get_params(ctx)
        # a flag of the verb means what it says there
        flags = {flag for option in verb_options for flag in option.opts}
        others = [option for option in ctx.meta.get("options of tasks", []) if flags.isdisjoint(option.opts)]
        return [*verb_options, *others, helping]

    def outside_tasks(self, args: Sequence[str]) -> list[str]:
        """The tasks of one's own, `module:Class`, of the run folders among the arguments."""
        return [task for task in _tasks_of_runs(args) if ":" in task]


class EvaluateCommand(TaskCommand):
    """A verb that scores a run, on other data too."""

    groups = ("evaluate", "data")


class InitCommand(TaskCommand):
    """A verb that describes data, perhaps of a task that it names."""

    groups = ("data",)

    def outside_tasks(self, args: Sequence[str]) -> list[str]:
        return [arg for arg in args if _OUTSIDE.fullmatch(arg)][:1]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        # a task that is named here is the user's own word
        with trusting():
            return super().parse_args(ctx, args)


def _option(kind: Any, name: str, values: dict[str, Any]) -> Any:
    """The option of a field, which puts its value into `given`: a path as an absolute one, `\\n` as a line end."""
    from headwise.config import file_mark

    field = kind.model_fields[name]
    (value,) = (part for part in get_args(field.annotation) if part is not NoneType)
    several, is_file = get_args(value) if get_origin(value) is tuple else (), file_mark(field) is not None
    value = value if several or value in (int, float, bool) else str

    def put(typed: Any) -> None:
        if isinstance(typed, str):
            values[name] = os.path.abspath(typed) if is_file else typed.replace("\\n", "\n")
        elif typed is not None and typed is not False:
            values[name] = typed

    text = str(field.description)
    option = typer.Option(
        flag(name),
        callback=put,
        expose_value=False,
        metavar=" ".join(part.__name__.upper() for part in several) or None,
        help=f"{text[:1].upper()}{text[1:]}.",
        rich_help_panel="Options of some tasks",
    )
    # Typer makes options of the parameters of a function alone
    app = typer.Typer(add_completion=False)
    app.command()(_with_parameter(name, Annotated[value | None, option]))
    return typer.main.get_command(app).params[0]


def _with_parameter(name: str, annotation: Any) -> Callable[..., None]:
    def function(**values: Any) -> None:
        pass

    parameter = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
    function.__signature__ = inspect.Signature([parameter])  # type: ignore[attr-defined]
    function.__annotations__ = {name: annotation}
    return function


def _options_of(task: str) -> Any:
    # PyTorch comes with it
    from headwise.tasks.registry import task_type

    return task_type(task).options


def _tasks_of_runs(args: Sequence[str]) -> Iterator[str]:
    """The task of every run folder among the arguments; what is wrong with a folder is for its reader to report."""
    from headwise.config import read_toml

    for arg in args:
        path = os.path.join(arg, "config.toml")
        if os.path.isfile(path):
            try:
                yield str(read_toml(path).get("task", ""))
            except ConfigError:
                continue

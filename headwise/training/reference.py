"""Every key of the recipes of a task, from the configurations: section, type, default and description."""

import textwrap
import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from headwise.problems import models, shown, tag
from headwise.tasks import registry
from headwise.training.recipe import Recipe, recipe_type

_NAMES = {int: "whole number", float: "number", bool: "true or false", str: "text", type(None): "none"}
_REQUIRED = "required"


class Entry(NamedTuple):
    """One key: `section` is empty for keys of the whole recipe, `kind` for sections of one kind alone.

    `default` is as TOML writes it; "required" if there is none, "none" if the key may be absent.
    """

    section: str
    kind: str
    key: str
    type: str
    default: str
    description: str


def entries(task: str) -> list[Entry]:
    """The keys of a recipe of this task, those of the whole recipe first. Raises: ConfigError for an unknown task."""
    keys = _entries(recipe_type(task, registry.task_type(task).config_type), "", "", None)
    # keys of every recipe before those of the task, sections last
    return sorted(
        keys, key=lambda entry: (bool(entry.section), not entry.section and entry.key not in Recipe.model_fields)
    )


def lines(entries: list[Entry], width: int = 116) -> list[str]:
    """The keys as text: a heading for each section and kind, a line for each key, wrapped where it is long."""
    text: list[str] = []
    heading = ("", "")
    for entry in entries:
        if (entry.section, entry.kind) != heading:
            heading = entry.section, entry.kind
            text += ["", f"[{entry.section}]" + (f'  # kind = "{entry.kind}"' if entry.kind else "")]
        text.append(f"{entry.key} = {entry.default}  ({entry.type})")
        text += textwrap.wrap(entry.description, width, initial_indent="    ", subsequent_indent="    ")
    return text


def _entries(config: type[BaseModel], section: str, kind: str, defaults: BaseModel | None) -> Iterator[Entry]:
    """The keys of a configuration; `defaults` is its default value as a section, if it has one."""
    for name, field in config.model_fields.items():
        value = field.get_default(call_default_factory=True) if defaults is None else getattr(defaults, name)
        inner = models(field.annotation)
        for model in inner:
            several = tag(model) if len(inner) > 1 else ""
            place = f"{section}.{name}" if section else name
            yield from _entries(model, place, several, value if isinstance(value, model) else None)
        if not inner:
            default = _REQUIRED if field.is_required() and defaults is None else _toml(value)
            yield Entry(section, kind, name, _type(field), default, field.description or "")


def _type(field: FieldInfo) -> str:
    bounds = []
    for item in field.metadata:
        for mark, words in (("gt", "above"), ("ge", "at least"), ("lt", "below"), ("le", "at most")):
            if getattr(item, mark, None) is not None:
                bounds.append(f"{words} {getattr(item, mark):g}" if abs(getattr(item, mark)) < 2**40 else "")
    return ", ".join([_name(field.annotation), *filter(None, bounds)])


def _name(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " | ".join(f'"{value}"' if isinstance(value, str) else str(value) for value in arguments)
    if origin is Annotated:
        return _name(arguments[0])
    if origin in (Union, types.UnionType):
        return " or ".join(_name(part) for part in arguments if part is not type(None))
    if origin is tuple and arguments[-1] is Ellipsis:
        return f"list of {_name(arguments[0])}"
    if origin is tuple:
        return f"list of {len(arguments)}: {', '.join(dict.fromkeys(map(_name, arguments)))}"
    if origin is list:
        return f"list of {_name(arguments[0])}"
    return _NAMES.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _toml(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_toml, value))}]"
    return shown(value)

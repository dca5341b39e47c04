"""Every key of the recipes of a task: its section, type, default and what it is; read from the configurations."""

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

    `default` is as TOML writes it; "required" where there is none, "none" where the key may be left out.
    """

    section: str
    kind: str
    key: str
    type: str
    default: str
    description: str


def entries(task: str) -> list[Entry]:
    """The keys of a recipe of this task, those of the whole recipe first. Raises: ConfigError for an unknown task."""
    found = list(_entries(recipe_type(task, registry.task_type(task).config_type), "", "", None))
    # keys of every recipe before those of the task, sections last
    return sorted(
        found, key=lambda entry: (bool(entry.section), not entry.section and entry.key not in Recipe.model_fields)
    )


def lines(found: list[Entry], width: int = 116) -> list[str]:
    """The keys as text: a heading for each section and kind, a line for each key, wrapped where it is long."""
    told: list[str] = []
    heading = ("", "")
    for entry in found:
        if (entry.section, entry.kind) != heading:
            heading = entry.section, entry.kind
            told += ["", f"[{entry.section}]" + (f'  # kind = "{entry.kind}"' if entry.kind else "")]
        told.append(f"{entry.key} = {entry.default}  ({entry.type})")
        told += textwrap.wrap(entry.description, width, initial_indent="    ", subsequent_indent="    ")
    return told


def _entries(config: type[BaseModel], section: str, kind: str, given: BaseModel | None) -> Iterator[Entry]:
    """The keys of a configuration; `given` is what stands where the section is left out."""
    for name, field in config.model_fields.items():
        value = field.get_default(call_default_factory=True) if given is None else getattr(given, name)
        inner = models(field.annotation)
        for model in inner:
            several = tag(model) if len(inner) > 1 else ""
            place = f"{section}.{name}" if section else name
            yield from _entries(model, place, several, value if isinstance(value, model) else None)
        if not inner:
            default = _REQUIRED if field.is_required() and given is None else _written(value)
            yield Entry(section, kind, name, _type(field), default, field.description or "")


def _type(field: FieldInfo) -> str:
    bounds = []
    for item in field.metadata:
        for mark, words in (("gt", "above"), ("ge", "at least"), ("lt", "below"), ("le", "at most")):
            if getattr(item, mark, None) is not None:
                bounds.append(f"{words} {getattr(item, mark):g}" if abs(getattr(item, mark)) < 2**40 else "")
    return ", ".join([_name(field.annotation), *filter(None, bounds)])


def _name(annotation: Any) -> str:
    """A type in the words of a reader of TOML."""
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


def _written(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_written, value))}]"
    return shown(value)

"""TOML recipes and `section.key=value` overrides become frozen, checked models; unknown keys are errors."""

import os
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import tomli_w
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from headwise.errors import ConfigError, ShapeError, Untrusted
from headwise.problems import describe
from headwise.registry import as_text

C = TypeVar("C", bound="Config")

# problems that one error lists
_MOST_PROBLEMS = 10


class Config(BaseModel):
    """Base of every configuration: frozen, without unknown keys, numbers finite."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, protected_namespaces=())


@dataclass(frozen=True)
class FileKey:
    """Marks a key whose value is the path of one file; the file may move, since runs identify it by its SHA-256.

    Args:
        at_start: only the first step reads it; a resumed run does not need it.
    """

    at_start: bool = False


# the types of such keys; `DataFile | None` where there may be no file
DataFile = Annotated[str, FileKey()]
StartFile = Annotated[str, FileKey(at_start=True)]


def named(check: Callable[[str], object]) -> BeforeValidator:
    """Marks a key that names something of a registry: a text, or a table of a name and arguments, which becomes one.

    Args:
        check: raises ConfigError or ShapeError for a text that names nothing.
    """

    def read(value: Any) -> Any:
        try:
            text = as_text(value)
            if isinstance(text, str):
                check(text)
        except Untrusted:
            raise
        except (ConfigError, ShapeError) as error:
            # pydantic adds the place of the key
            raise ValueError(str(error)) from None
        return text

    return BeforeValidator(read)


def file_keys(config: Config) -> dict[str, FileKey]:
    """Every key that names a file, sections before it: `data.train`.

    >>> class Data(Config):
    ...     train: DataFile
    ...     valid: DataFile | None = None
    >>> class Recipe(Config):
    ...     data: Data
    >>> list(file_keys(Recipe(data=Data(train="pairs.tsv"))))
    ['data.train', 'data.valid']
    """
    keys: dict[str, FileKey] = {}
    for name, field in type(config).model_fields.items():
        value = getattr(config, name)
        if isinstance(value, Config):
            keys |= {f"{name}.{key}": mark for key, mark in file_keys(value).items()}
        elif (mark := file_mark(field)) is not None:
            keys[name] = mark
    return keys


def file_mark(field: FieldInfo) -> FileKey | None:
    """The mark of a field that names a file; None of another one."""
    return _mark((field.annotation, *field.metadata))


def value_of(config: Config, key: str) -> Any:
    section, dot, rest = key.partition(".")
    value = getattr(config, section)
    return value_of(value, rest) if dot else value


def with_values(config: C, values: Mapping[str, Any]) -> C:
    """A copy with the value of each `section.key` in place of its own; the values are not checked again."""
    own = {key: value for key, value in values.items() if "." not in key}
    for section in {key.partition(".")[0] for key in values if "." in key}:
        inside = {key.partition(".")[2]: value for key, value in values.items() if key.startswith(f"{section}.")}
        own[section] = with_values(getattr(config, section), inside)
    return config.model_copy(update=own)


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Reads a TOML file. Raises: ConfigError naming the file, and the line where the syntax breaks."""
    try:
        return parse(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; `headwise list recipes` names the recipes that ship") from None
    except (ConfigError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None


def parse(text: str) -> dict[str, Any]:
    """The values of TOML. Raises: ConfigError with the line where the syntax breaks."""
    try:
        values = tomllib.loads(text)
        _refuse_huge(values, "")
    except RecursionError:
        raise ConfigError("sections or lists are nested too deep") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(str(error)) from None
    except ValueError:
        # the only other cause: the interpreter's bound on the digits of an integer
        raise ConfigError("a number with too many digits") from None
    return values


def override(values: Mapping[str, Any], settings: Iterable[str]) -> dict[str, Any]:
    """A copy of `values` with each `section.key=value` set; a value is read as TOML, or else as text.

    >>> override({"model": {"num_heads": 4}}, ["model.num_heads=8", "model.norm=rms"])
    {'model': {'num_heads': 8, 'norm': 'rms'}}
    """
    result = _copied(values)
    for setting in settings:
        path, equals, text = setting.partition("=")
        keys = path.strip().split(".")
        if not equals or not all(keys):
            raise ConfigError(f"'{setting}' is not an override; write section.key=value, such as model.num_heads=8")
        node = result
        for key in keys[:-1]:
            node = node.setdefault(key, {})
            if not isinstance(node, dict):
                raise ConfigError(f"'{setting}': '{key}' is a value, not a section")
        node[keys[-1]] = _value(text.strip())
    return result


def build(kind: type[C], values: Mapping[str, Any], source: str) -> C:
    """Validates `values` as `kind`. Raises: ConfigError that lists every wrong key with its place in `source`."""
    try:
        return kind.model_validate(dict(values))
    except ValidationError as error:
        problems = list(dict.fromkeys(describe(kind, detail) for detail in error.errors(include_url=False)))
        rest = f"; and {len(problems) - _MOST_PROBLEMS} more" if len(problems) > _MOST_PROBLEMS else ""
        raise ConfigError(f"{source}: " + "; ".join(problems[:_MOST_PROBLEMS]) + rest) from None
    except ConfigError as error:
        raise type(error)(f"{source}: {error}") from None


def to_toml(config: Config) -> str:
    """The resolved configuration as TOML; keys without a value are left out."""
    return tomli_w.dumps(config.model_dump(mode="json", exclude_none=True))


def _mark(types: Iterable[Any]) -> FileKey | None:
    """The mark among these parts of a field's type, or among their alternatives."""
    for part in types:
        if isinstance(part, FileKey):
            return part
        if get_origin(part) in (Annotated, Union, UnionType) and (mark := _mark(get_args(part))) is not None:
            return mark
    return None


def _refuse_huge(values: Any, place: str) -> None:
    """TOML has no number beyond 64 bits, but Python's reader accepts them, and some are sizes."""
    if isinstance(values, Mapping):
        for key, value in values.items():
            _refuse_huge(value, f"{place}.{key}" if place else key)
    elif isinstance(values, list):
        for value in values:
            _refuse_huge(value, place)
    elif isinstance(values, int) and not -(2**63) <= values < 2**63:
        raise ConfigError(f"{place}: a number beyond 64 bits")


def _copied(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _copied(value) if isinstance(value, Mapping) else value for key, value in values.items()}


def _value(text: str) -> Any:
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        # no TOML, or a number of thousands of digits
        return text
    _refuse_huge(value, text)
    return value

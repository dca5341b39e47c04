"""How a name becomes an object: "linformer", "top_k:8", "linformer:rank=64", "my_module:Mine:rank=64", or a table.

The same for mechanisms, scores, normalizers, masks, positions and tasks, in recipes, on the command line and in Python.
"""

import importlib
import inspect
import json
import math
import pkgutil
import re
import tomllib
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import starmap
from types import NoneType, UnionType
from typing import Any, Generic, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

from headwise.errors import ConfigError, Untrusted, unknown
from headwise.trust import here, import_trusted

T = TypeVar("T")

_PLAIN = (int, float, bool, str, NoneType)
# what separates or groups, so that a text with it stands in quotes
_SIGNS = frozenset('",&|()[]\\')
_WORDS = {"none": None, "true": True, "false": False}
# a name begins with a letter that is not small, after what stands before surnames
_NAME = (
    r"(?:[dl]['’]|(?:van|von|de|der|den|di|da|du|le|la|el|al|ter|ten|dos)[ -])*"
    r"[^\W\d_a-zß-öø-ÿ][\w'’-]*"
)
_NAMES = f"{_NAME}(?: {_NAME})*"
_PAPER = re.compile(
    rf"\b{_NAMES}(?:, {_NAMES})*(?:,? and {_NAMES}|,? et al\.)? \d{{4}}(?: \([^()]*\))?, arXiv:\d{{4}}\.\d+"
)


class Spec(NamedTuple):
    """A name, and the arguments written after it, without and with names."""

    name: str
    values: tuple[Any, ...]
    named: tuple[tuple[str, Any], ...]


def members(package: str, base: str) -> dict[str, str]:
    """The modules of a package by name; those that start with an underscore and the one of the base class are none."""
    names = _modules(tuple(importlib.import_module(package).__path__))
    return {name: f"{package}.{name}" for name in names if name != base and not name.startswith("_")}


@cache
def _modules(folders: tuple[str, ...]) -> tuple[str, ...]:
    """The names of what can be imported from these folders, listed once: names are looked up by the thousand."""
    return tuple(module.name for module in pkgutil.iter_modules(folders))


class Registry(Generic[T]):
    """Classes by name, and objects of them.

    After a name and a colon stand arguments of the constructor, with their names or in their order. What it takes
    besides are sizes, which a model gives: to the class method `sized`, where the class has one, else by their names.

    Args:
        kind: the class that all members extend.
        members: gives the module of each name, which holds one such class, or the class itself; called at each use, so
            that nothing is imported before.
        nested: arguments that are objects with names of their own, and what builds each of its text.
    """

    def __init__(
        self,
        noun: str,
        kind: type[T],
        members: Callable[[], Mapping[str, Any]],
        sizes: Sequence[str] = (),
        nested: Mapping[str, Callable[..., Any]] | None = None,
    ):
        self.noun, self.kind, self.members, self.sizes, self.nested = noun, kind, members, sizes, nested or {}

    def names(self) -> tuple[str, ...]:
        return tuple(self.members())

    def find(self, text: str) -> Any:
        """The class of a name; with arguments, a `Creator`, which has its facts. A hyphen may be an underscore.

        Raises: ConfigError with the nearest name for an unknown member or argument; for `module:Class` that is not
            there or of another kind; for a value of another type.
        """
        creator = self._creator(text)
        return creator if creator.written else creator.kind

    def class_of(self, text: str) -> type[T]:
        """The class itself of a name with or without arguments. Raises: ConfigError as `find` for the name."""
        return self._class(self.parse(text).name)

    def build(self, text: str, **sizes: Any) -> T:
        """The object of a name. Raises: ConfigError as `find`, for a missing argument, or as the class."""
        creator = self._creator(text)
        sized = hasattr(creator.kind, "sized")
        member: T = creator.sized(**sizes) if sized else creator(**{key: sizes[key] for key in sizes if key in creator})
        return member

    def arguments(self, kind: type[Any]) -> dict[str, inspect.Parameter]:
        """What may be written after a name: arguments of the constructor that are plain values or have a registry."""
        return {
            key: parameter
            for key, parameter in _parameters(kind).items()
            if key not in self.sizes and (key in self.nested or _is_plain(parameter.annotation))
        }

    def details(self) -> dict[str, list[tuple[str, str]]]:
        """The arguments of every member that has some, as they are written: "rank=256"; needed ones without a value."""
        by_name = {name: self.arguments(self._class(name)) for name in self.names()}
        return {
            name: [("arguments", ", ".join(starmap(_shown, arguments.items())))]
            for name, arguments in by_name.items()
            if arguments
        }

    def catalogue(self) -> dict[str, str]:
        """Name and first documentation line of every member."""
        return {name: (self._class(name).__doc__ or "").partition("\n")[0] for name in self.names()}

    def parse(self, text: str) -> Spec:
        """The parts of a text; of two names before the arguments, the first is a module."""
        name, _, rest = text.strip().partition(":")
        attribute, _, after = rest.partition(":")
        if self._home(name) is None and all(part.isidentifier() for part in attribute.split(".")):
            name, rest = f"{name}:{attribute}", after
        parts = [part.partition("=") for part in split(rest, ",")] if rest else []
        return Spec(
            name,
            tuple(_value(key) for key, equals, _ in parts if not equals),
            tuple((key.strip(), _value(value)) for key, equals, value in parts if equals),
        )

    def _creator(self, text: str) -> "Creator":
        spec = self.parse(text)
        kind = self._class(spec.name)
        written = self.arguments(kind)
        needed = {
            key: f"{self.noun} '{spec.name}' needs {key}"
            + (f": write {spec.name}:{key}=..." if key in written else ", which cannot be written; pass an object")
            for key, parameter in _parameters(kind).items()
            if parameter.default is parameter.empty
            and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        }
        return Creator(kind, self._arguments(kind, spec), needed)

    def _home(self, name: str) -> Any:
        members = self.members()
        spellings = (name, name.replace("_", "-"), name.replace("-", "_"))
        return next((members[spelling] for spelling in spellings if spelling in members), None)

    def _class(self, name: str) -> type[T]:
        home = self._home(name)
        if home is None and ":" not in name:
            advice = f"; one of your own is named module:Class, such as my_module:My{self.kind.__name__}"
            raise ConfigError(unknown(self.noun, name, self.names()) + advice)
        if isinstance(home, str):
            classes = [value for value in vars(importlib.import_module(home)).values() if isinstance(value, type)]
            candidates = [cls for cls in classes if issubclass(cls, self.kind) and cls.__module__ == home]
            name, home = home, candidates[0] if candidates else None
        elif home is None:
            home = imported(name)
        if not (isinstance(home, type) and issubclass(home, self.kind)):
            raise ConfigError(f"'{name}' is no {self.noun}: a class that extends {self.kind.__name__}")
        if inspect.isabstract(home):
            missing = ", ".join(sorted(getattr(home, "__abstractmethods__", ())))
            raise ConfigError(f"'{name}' is no {self.noun} yet: it does not define {missing}")
        return home

    def _arguments(self, kind: type[T], spec: Spec) -> dict[str, Any]:
        parameters = self.arguments(kind)
        if len(spec.values) > len(parameters):
            takes = f"takes {', '.join(parameters)}" if parameters else "has no arguments"
            raise ConfigError(f"{self.noun} '{spec.name}' {takes}, got '{spec.values[len(parameters)]}'")
        arguments: dict[str, Any] = {}
        for key, value in (*zip(parameters, spec.values, strict=False), *spec.named):
            if key not in parameters:
                raise ConfigError(unknown(f"argument of {self.noun} '{spec.name}':", key, parameters))
            if key in arguments:
                raise ConfigError(f"{self.noun} '{spec.name}' got {key} twice")
            place = f"{key} of {self.noun} '{spec.name}'"
            nested = self.nested.get(key)
            if nested is None or value is None:
                arguments[key] = self._typed(place, parameters[key].annotation, value)
            else:
                arguments[key] = nested(str(value))
        return arguments

    def _typed(self, place: str, annotation: Any, value: Any) -> Any:
        try:
            return _fitting(annotation, value)
        except TypeError:
            expected = inspect.formatannotation(annotation).replace("collections.abc.", "").replace("typing.", "")
            raise ConfigError(f"{place} must be {expected}, not '{value}'") from None


class Creator:
    """A class some of whose constructor's arguments are written: what its class methods create has them.

    Args:
        written: the arguments, which go before those that a class method chooses.
        needed: what is wrong where an argument is missing.
    """

    def __init__(self, kind: type[Any], written: Mapping[str, Any], needed: Mapping[str, str]):
        self.kind, self.written, self.needed = kind, written, needed
        self.__signature__ = inspect.signature(kind)

    def __call__(self, *values: Any, **named: Any) -> Any:
        arguments = {**self.__signature__.bind_partial(*values, **named).arguments, **self.written}
        for key, fault in self.needed.items():
            if key not in arguments:
                raise ConfigError(fault)
        return self.kind(**arguments)

    def __contains__(self, argument: str) -> bool:
        return argument in self.__signature__.parameters

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.kind, name)
        return partial(value.__func__, self) if inspect.ismethod(value) else value


def as_text(value: Any) -> Any:
    """The text of a table such as {name = "rotary", base = 500}; anything else is itself.

    >>> as_text({"name": "rotary", "base": 500, "scaling": {"name": "yarn", "factor": 4}})
    'rotary:base=500,scaling=(yarn:factor=4)'
    """
    if not isinstance(value, Mapping):
        return value
    if not isinstance(name := value.get("name"), str):
        raise ConfigError('a table needs a name, such as {name = "linformer", rank = 64}')
    parts = [f"{key}={_written(argument)}" for key, argument in value.items() if key != "name"]
    return f"{name}:{','.join(parts)}" if parts else name


def papers(kind: type[Any]) -> str:
    """Author, year and arXiv id of each paper that the documentation of a class names as its source; "" without.

    >>> from headwise.positions.alibi import Alibi
    >>> papers(Alibi)
    'Press et al. 2022, arXiv:2108.12409'
    """
    # a letter and its accent as one sign
    text = unicodedata.normalize("NFC", " ".join((kind.__doc__ or "").split()))
    return "; ".join(_PAPER.findall(text.partition("Source: ")[2].partition(">>>")[0]))


def split(text: str, separator: str) -> list[str]:
    """The parts of a text between separators that stand in no brackets and no quotes.

    >>> split('a=[1,2],b=(c:d,e),f="g,h",{x=1,y=2}', ",")
    ['a=[1,2]', 'b=(c:d,e)', 'f="g,h"', '{x=1,y=2}']
    """
    parts, depth, quote, escaped = [""], 0, "", False
    for letter in text:
        # an apostrophe inside a word quotes nothing
        begins = letter in ("'", '"') and (parts[-1].rstrip()[-1:] or separator) in f"{separator}=([{{,"
        if not escaped and (letter == quote or (not quote and begins)):
            quote = "" if quote else letter
        escaped = letter == "\\" and quote == '"' and not escaped
        depth += 0 if quote else (letter in "[({") - (letter in "])}")
        if letter == separator and depth == 0 and not quote:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def imported(name: str) -> Any:
    """What `module:attribute` names; modules are looked for in the current folder too.

    Raises:
        Untrusted: the module is not part of an installed package, and the user has not trusted it.
        ConfigError: there is no such module or attribute, or its import fails.
    """
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise ConfigError(f"'{name}' is not module:attribute, such as my_module:MyAttention")
    try:
        value: Any = import_trusted(module)
    except Untrusted:
        raise
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(f"{error.name}.")):
            raise ConfigError(f"no module '{module}' here ({here()}) or installed") from None
        raise ConfigError(f"module '{module}' needs '{error.name}', which is not installed") from None
    except (Exception, SystemExit) as error:
        raise ConfigError(f"module '{module}' fails when it is imported: {type(error).__name__}: {error}") from error
    for part in attribute.split("."):
        if not hasattr(value, part):
            names = [member for member in dir(value) if not member.startswith("_")]
            raise ConfigError(unknown(f"attribute of module '{module}':", part, names))
        value = getattr(value, part)
    return value


def _parameters(kind: type[Any]) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(kind).parameters


def _is_plain(annotation: Any) -> bool:
    """Whether a value of this type can be written: a number, a text, true, none, or a list of such."""
    if get_origin(annotation) in (Union, UnionType, Sequence, tuple):
        return all(part is ... or _is_plain(part) for part in get_args(annotation))
    return annotation in _PLAIN or get_origin(annotation) is Literal


def _shown(name: str, parameter: inspect.Parameter) -> str:
    return name if parameter.default is parameter.empty else f"{name}={_written(parameter.default)}"


def _fitting(annotation: Any, value: Any) -> Any:
    """A value as one of this type. Raises: TypeError, for a number too that is not finite or has over 64 bits."""
    origin, options = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        for option in options:
            with suppress(TypeError):
                return _fitting(option, value)
    elif origin in (Sequence, tuple) and isinstance(value, list):
        return tuple(_fitting(options[0], element) for element in value)
    elif (type(value) is int and abs(value) >= 2**63) or (type(value) is float and not math.isfinite(value)):
        raise TypeError
    elif annotation is float and type(value) is int:
        return float(value)
    elif type(value) is annotation or (origin is Literal and value in options):
        return value
    raise TypeError


def _value(text: str) -> Any:
    """A written value: as TOML has it, else the text; in parentheses a name with arguments."""
    text = text.strip()
    if text.startswith("(") and text.endswith(")"):
        return text[1:-1]
    if text in _WORDS:
        return _WORDS[text]
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def _written(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"({as_text(value)})"
    if isinstance(value, list | tuple):
        return f"[{','.join(json.dumps(part) if isinstance(part, str) else _written(part) for part in value)}]"
    if isinstance(value, str) and not value.startswith("(") and (_SIGNS & set(value) or _value(value) != value):
        return json.dumps(value, ensure_ascii=False)
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)

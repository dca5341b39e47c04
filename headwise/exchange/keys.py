"""How a key of a recipe follows from one of config.json, and that from it; what has no counterpart is refused."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headwise.errors import Unsupported

# values of a recipe by `section.key`
Flat = dict[str, Any]


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Key:
    """A key of theirs.

    Args:
        name: theirs.
        ours: the key of a recipe that says the same; None: no key does.
        default: the value of their class where the key is absent.
        inward, outward: from their value to ours and back; they raise KeyError for what has no counterpart.
        allowed: values of a key without one of ours that mean nothing here, the one to write first; None: any.
        written: whether it is written, if it is None of ours.
    """

    name: str
    ours: str | None
    default: Any
    inward: Callable[[Any], Any] = _same
    outward: Callable[[Any], Any] = _same
    allowed: tuple[Any, ...] | None = None
    written: bool = True

    def read(self, values: Mapping[str, Any], where: str) -> Any:
        """Our value. Raises: Unsupported for one that has no counterpart."""
        value = values.get(self.name, self.default)
        if self.ours is None:
            if self.allowed is not None and not any(_equal(value, allowed) for allowed in self.allowed):
                raise refused(where, self.name, value)
            return None
        if self.inward is _same and not _is_like(value, self.default):
            raise refused(where, self.name, value)
        try:
            return self.inward(value)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise refused(where, self.name, value) from None


def token(name: str, ours: str, default: Any) -> Key:
    """A key that names a token, or several; None and -1 say that there is none."""

    def number(value: Any) -> Any:
        numbers = value if isinstance(value, list) else [value]
        if any(type(entry) is not int or entry < -1 for entry in numbers if entry is not None):
            raise ValueError(value)
        return value

    return Key(name, ours, default, number)


def mapped(name: str, ours: str, default: Any, pairs: Mapping[Any, Any] | None = None) -> Key:
    """A key with one of ours; `pairs`: the names of its values, those of ours by theirs, the first is written."""
    if pairs is None:
        return Key(name, ours, default)
    back: dict[Any, Any] = {}
    for theirs, value in pairs.items():
        back.setdefault(value, theirs)
    return Key(name, ours, default, pairs.__getitem__, back.__getitem__)


def fixed(name: str, *allowed: Any, written: bool = True) -> Key:
    """A key that has to have one of these values, the first where it is absent."""
    return Key(name, None, allowed[0], allowed=allowed, written=written)


def free(*names: str) -> list[Key]:
    """Keys whose value changes nothing that a model computes."""
    return [Key(name, None, None) for name in names]


def refused(where: str, key: str, value: Any) -> Unsupported:
    """The refusal of a key."""
    text = json.dumps(value, default=str)
    text = text if len(text) <= 60 else f"{text[:57]}..."
    return Unsupported(f"{where}: {key} = {text} has no counterpart here")


def check_kinds(keys: Sequence[Key], values: Mapping[str, Any], where: str) -> None:
    """Raises: Unsupported naming a key whose value is of another kind than its class has, before anything follows."""
    for key in keys:
        value = values.get(key.name)
        if key.inward is _same and key.ours is not None and value is not None and not _is_like(value, key.default):
            raise refused(where, key.name, value)


def read_keys(keys: Sequence[Key], values: Mapping[str, Any], where: str) -> Flat:
    """Values of a recipe.

    Raises: Unsupported naming a key that is unknown, has a value without counterpart, or contradicts another.
    """
    by_name = {key.name: key for key in keys}
    for name, value in values.items():
        if name not in by_name:
            raise refused(where, name, value)
    flat: Flat = {}
    first: dict[str, str] = {}
    for key in keys:
        value = key.read(values, where)
        if key.ours is None:
            continue
        if key.ours in flat and not _equal(flat[key.ours], value):
            raise Unsupported(f"{where}: {key.name} differs from {first[key.ours]}, and {key.ours} is one number here")
        flat.setdefault(key.ours, value)
        first.setdefault(key.ours, key.name)
    return flat


def write_keys(keys: Sequence[Key], flat: Flat) -> dict[str, Any]:
    """Their values. Raises: Unsupported naming one of ours that has no counterpart."""
    values: dict[str, Any] = {}
    for key in keys:
        if key.ours is None:
            if key.allowed is not None and key.written:
                values[key.name] = key.allowed[0]
            continue
        try:
            values[key.name] = key.outward(flat[key.ours])
        except (KeyError, TypeError, ValueError):
            raise Unsupported(f"{key.ours} = {flat.get(key.ours)!r} has no counterpart there ({key.name})") from None
    return values


def _is_like(value: Any, default: Any) -> bool:
    """Whether a value is of the kind of a default: whole number, number, truth value; of no kind anything but text."""
    kinds: dict[type, tuple[type, ...]] = {bool: (bool,), int: (int,), float: (int, float)}
    if type(default) in kinds:
        return type(value) in kinds[type(default)]
    return not isinstance(value, str | dict)


def _equal(value: Any, other: Any) -> bool:
    # 1 is no True, and 0 no False
    return bool(value == other) and isinstance(value, bool) == isinstance(other, bool)

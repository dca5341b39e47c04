"""Strict JSON lines, an object each: the fields of a pair, flat or under Hugging Face's "translation"; lists; spans."""

import json
from typing import Any, NoReturn

from headwise.data.spans import Span
from headwise.data.text import refuse_surrogates
from headwise.errors import DataError, unknown


def pair_fields(text: str, source_key: str | None, target_key: str | None) -> tuple[str, str]:
    """The source and target text of one JSON line; keys that are not given default to "source" and "target".

    Raises: DataError: what is wrong with the line, without its place.

    >>> pair_fields('{"translation": {"en": "Go.", "fr": "Va !"}}', "en", "fr")
    ('Go.', 'Va !')
    """
    record = parse_object(text)
    inner = record.get("translation")
    if isinstance(inner, dict) and (source_key is None or source_key not in record):
        record = inner
    if source_key is None or target_key is None:
        _refuse_guess(record, source_key, target_key)
    return text_field(record, source_key or "source"), text_field(record, target_key or "target")


def parse_object(text: str) -> dict[str, Any]:
    """One JSON object; what JSON does not allow (NaN, twice the same key) or no text can hold is refused.

    Raises: DataError: what is wrong, without its place.
    """
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
        # of a file, only an escape can be half of a surrogate pair
        if "\\u" in text:
            _refuse_surrogates(value)
    except json.JSONDecodeError as error:
        raise DataError(f"not valid JSON: {error.msg} at column {error.colno}") from None
    except RecursionError:
        raise DataError("JSON nested too deeply; flatten the record") from None
    except ValueError:
        # the only other cause: the interpreter's bound on the digits of an integer
        raise DataError("a number with too many digits") from None
    if not isinstance(value, dict):
        raise DataError(f"expected a JSON object, got {kind_name(value)}; write one object a line")
    return value


def texts(record: dict[str, Any], key: str) -> list[str]:
    """A field that is an array of texts. Raises: DataError without its place.

    >>> texts({"words": ["a", "saw"]}, "words")
    ['a', 'saw']
    """
    values = any_field(record, key)
    if not isinstance(values, list):
        raise DataError(f"the field {key!r} must be an array of texts, got {kind_name(values)}")
    for number, value in enumerate(values, 1):
        if not isinstance(value, str):
            raise DataError(f"the field {key!r} must be an array of texts, but entry {number} is {kind_name(value)}")
        _refuse_nul(value, key)
    return values


def spans(record: dict[str, Any], key: str) -> list[Span]:
    """A field that is an array of spans, each `[start, end, label]` or an object with these keys.

    Raises: DataError: without its place.

    >>> spans({"spans": [[0, 2, "PER"], {"start": 3, "end": 4, "label": "LOC"}]}, "spans")
    [Span(label='PER', start=0, end=2), Span(label='LOC', start=3, end=4)]
    """
    values = any_field(record, key)
    if not isinstance(values, list):
        raise DataError(f"the field {key!r} must be an array of spans, got {kind_name(values)}")
    return [_span(value, number, key) for number, value in enumerate(values, 1)]


def _span(value: Any, number: int, key: str) -> Span:
    parts = [value.get(name) for name in ("start", "end", "label")] if isinstance(value, dict) else value
    if isinstance(parts, list) and len(parts) == 3:
        start, end, label = parts
        if type(start) is int and type(end) is int and isinstance(label, str) and label:
            _refuse_nul(label, key)
            return Span(label, start, end)
    raise DataError(f"span {number} of the field {key!r} must be [start, end, label]: two whole numbers and a text")


def _unique(items: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(items)
    if len(record) < len(items):
        keys: set[str] = set()
        twice = next(key for key, _ in items if key in keys or keys.add(key))  # type: ignore[func-returns-value]
        raise DataError(f"the key {twice!r} stands twice in one object")
    return record


def _refuse_surrogates(value: Any) -> None:
    if isinstance(value, str):
        refuse_surrogates(value)
    elif isinstance(value, list | dict):
        for part in [*value, *value.values()] if isinstance(value, dict) else value:
            _refuse_surrogates(part)


def _no_constant(name: str) -> NoReturn:
    raise DataError(f"{name} is not allowed in JSON")


def _refuse_guess(record: dict[str, Any], source_key: str | None, target_key: str | None) -> None:
    """Two text fields under other names: say which, since the direction cannot be known."""
    if (source_key or "source") in record and (target_key or "target") in record:
        return
    names = [key for key, value in record.items() if isinstance(value, str)]
    if len(names) == 2 and source_key is None and target_key is None:
        first, second = names
        raise DataError(
            f"the fields are {first!r} and {second!r}; say which is source and which is target",
            {"source_key": first, "target_key": second},
        )


def text_field(record: dict[str, Any], key: str) -> str:
    """A field that is text. Raises: DataError without its place."""
    value = any_field(record, key)
    if not isinstance(value, str):
        raise DataError(f"the field {key!r} must be text, got {kind_name(value)}")
    _refuse_nul(value, key)
    return value


def any_field(record: dict[str, Any], key: str) -> Any:
    """A field of any kind. Raises: DataError without its place where it is missing."""
    if key in record:
        return record[key]
    if not record:
        raise DataError(f"missing field {key!r}: the object is empty")
    raise DataError(f"missing field {key!r}: {unknown('field', key, record)}")


def _refuse_nul(value: str, key: str) -> None:
    if "\0" in value:
        raise DataError(f"the field {key!r} contains the NUL character \\u0000")


def kind_name(value: Any) -> str:
    """What JSON calls a value of this kind."""
    number = "a number"
    names = {type(None): "null", bool: "true or false", int: number, float: number, str: "text", list: "an array"}
    return names.get(type(value), "an object")

"""Request bodies: their schemas and checks; messages never repeat what was sent."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from headwise.decoding.search import DecodingConfig
from headwise.service.limits import Limits
from headwise.service.problems import Problem
from headwise.tasks.options import Options, merged

M = TypeVar("M", bound=BaseModel)

# how deep a request may be nested, which none needs to be
_DEEP = 8


class Body(BaseModel):
    """The keys that every request may have."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    model: str | None = Field(None, max_length=200, description="name of a run; may be left out where there is one")


class Ask(Body):
    """Texts to answer."""

    texts: list[str] = Field(min_length=1, description="inputs, as arguments of `headwise predict`")
    options: Options = Field(Options(), description="as those of `headwise predict`; others as the recipe says")
    attention: bool = Field(False, description="return the weights of every layer too")
    stream: bool = Field(False, description="continuations of one text as they are written: JSON lines")


class AskTrace(Body):
    """A text whose steps through one attention head are returned."""

    text: str = Field(min_length=1)
    layer: str | None = Field(None, max_length=200, description="name of a layer; the most focused one if left out")
    head: int = Field(0, ge=0, le=1 << 16)


def request_type(kinds: Iterable[type[Options]]) -> type[Ask]:
    """The requests to runs of tasks that have these options."""
    options = merged(kinds)
    description = Ask.model_fields["options"].description
    return create_model("Ask", __base__=Ask, options=(options, Field(options(), description=description)))


def parsed(body: bytes, kind: type[M]) -> M:
    """The request in a body. Raises: Problem 400 for what is no JSON, 422 for what says something else."""
    try:
        values = json.loads(body.decode("utf-8"), parse_constant=_constant, object_pairs_hook=_once)
    except UnicodeDecodeError:
        raise Problem(400, "the body is not UTF-8") from None
    except RecursionError:
        raise Problem(400, "the body is nested too deeply") from None
    except ValueError as error:
        raise Problem(400, f"the body is no JSON: {str(error)[:200]}") from None
    _check(values, 0)
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        # names are of the model's keys or of a request's own, which are bounded
        place = ".".join(str(part)[:40] for part in first["loc"]) or "the body"
        raise Problem(422, f"{place}: {first['msg']}", "the keys are in /api/v1/openapi.json") from None


def schema_of(kind: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a body, whole: a document that it stands in would look for its parts elsewhere."""
    schema = kind.model_json_schema()
    parts = schema.pop("$defs", {})

    def resolve(value: Any) -> Any:
        if isinstance(value, list):
            return [resolve(element) for element in value]
        if not isinstance(value, dict):
            return value
        name = str(value.get("$ref", "")).rpartition("/")[2]
        return {key: resolve(child) for key, child in {**parts.get(name, {}), **value}.items() if key != "$ref"}

    resolved: dict[str, Any] = resolve(schema)
    return resolved


def check(ask: Ask, limits: Limits, decoding: DecodingConfig | None = None) -> None:
    """Raises: Problem 422 for more than the limits allow, before a model is asked.

    Args:
        decoding: how the run searches where the request does not say; None: it does not search.
    """
    _at_most("texts", len(ask.texts), limits.texts)
    _texts(ask.texts, limits.chars)
    check_search(ask.options.model_dump(exclude_none=True), len(ask.texts), limits, decoding)
    if ask.attention:
        _at_most("texts with attention", len(ask.texts), limits.shown_texts)


def check_search(options: Mapping[str, Any], count: int, limits: Limits, decoding: DecodingConfig | None) -> None:
    """Raises: Problem 422 for a search of `count` inputs that is larger than the limits allow."""
    sizes = {name: value for name, value in options.items() if isinstance(value, int)}
    hypotheses = max(sizes.get("beam_size", 1), sizes.get("n_best", 1))
    _at_most("options.beam_size and n_best", hypotheses, limits.beam)
    _at_most("options.max_len", sizes.get("max_len", 1), limits.max_len)
    if decoding is not None:
        width = {"beam": decoding.beam_size, "sample": decoding.num_samples, "greedy": 1}[decoding.method]
        work = count * max(hypotheses, width) * sizes.get("max_len", decoding.max_len)
        _at_most("texts x beam_size x max_len", work, limits.work)


def check_text(text: str, limits: Limits) -> None:
    """Raises: Problem 422 for a text that is too long to be read."""
    _texts([text], limits.chars)


def _texts(texts: list[str], chars: int) -> None:
    for place, text in enumerate(texts):
        if len(text) > chars:
            raise Problem(422, f"texts.{place}: has {len(text):,} characters; at most {chars:,} are read")


def _at_most(name: str, value: int, limit: int) -> None:
    if value > limit:
        raise Problem(422, f"{name}: {value:,} is more than {limit:,}")


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    body = dict(pairs)
    if len(body) < len(pairs):
        raise ValueError("a key is there twice")
    return body


def _check(value: Any, depth: int) -> None:
    """Raises: Problem 400 for surrogates without a partner, which no text has, and for deep nesting."""
    if depth > _DEEP:
        raise Problem(400, "the body is nested too deeply")
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Problem(400, "a text holds half of a surrogate pair") from None
    elif isinstance(value, dict):
        for key, child in value.items():
            _check(key, depth + 1)
            _check(child, depth + 1)
    elif isinstance(value, list):
        for child in value:
            _check(child, depth + 1)

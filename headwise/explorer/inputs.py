"""Inputs of runs besides a text that is typed: examples of a run's own data by number, and files that are sent."""

import base64
import binascii
import hashlib
import warnings
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Annotated, Any, NamedTuple

from fastapi import FastAPI, Query, Request, Response
from pydantic import Field

from headwise.errors import DataError
from headwise.labels import shorten
from headwise.service.app import Service
from headwise.service.limits import Limits
from headwise.service.loaded import LoadedRun
from headwise.service.problems import Problem
from headwise.service.requests import Body, check_text
from headwise.service.responses import as_json
from headwise.training.loading import examples

# examples of a run that can be asked for
MOST = 200
# bytes of a file that is sent, before base64 makes four of three
MOST_BYTES = 8 << 20
# of a request to the explorer
BODY_BYTES = MOST_BYTES // 3 * 4 + (1 << 16)
_COLUMNS = 60
# significant digits of a number that is right, as float64 keeps all that were written
_DIGITS = 12
# examples that are tried for one with a right answer
_TRIED = 16


class AskInput(Body):
    """An input: exactly one of these."""

    text: str | None = Field(None, min_length=1, description="what is typed")
    chat: bool | None = Field(None, description="whether the chat template writes the text; null: where there is one")
    example: int | None = Field(None, ge=0, le=1 << 20, description="the number of one of GET /api/v1/examples")
    file: str | None = Field(None, min_length=1, description="the content of a file, in base64")


class Examples:
    """Of each run the first examples of its test data, or else of its training data, read when first asked for.

    Only the worker's thread asks, so that nothing is read twice.
    """

    def __init__(self) -> None:
        self._examples: dict[str, list[tuple[Any, Any]]] = {}

    def of(self, run: LoadedRun) -> list[tuple[Any, Any]]:
        """Inputs, each with its example. Raises: HeadwiseError for data that is not there, or gives no inputs."""
        if run.name not in self._examples:
            self._examples[run.name] = [(run.predictor.input_of(example), example) for example in _read(run)]
        return self._examples[run.name]


def _read(run: LoadedRun) -> list[Any]:
    if run.folder is None:
        return []
    with warnings.catch_warnings():
        # that data has changed since training is told where scores are
        warnings.simplefilter("ignore")
        try:
            return examples(run.folder, "test")[:MOST]
        except DataError:
            # a recipe need not have that part
            return examples(run.folder, "train")[:MOST]


def item_of(run: LoadedRun, ask: AskInput, examples: Examples, limits: Limits) -> tuple[Any, str]:
    """An input as the run's predictor reads it, and what tells it from others.

    Raises:
        ConfigError: for a text of more tokens than are looked at.
        Problem: 404 for an example that is not there, 413 for a file that is too large, 422 for what is none.
        HeadwiseError: for an input that cannot be read.
    """
    if ask.text is not None:
        (item,) = run.attention_inputs([ask.text], limits.shown_tokens, ask.chat)
        return item, f"text {ask.text}" if ask.chat is None else f"chat {ask.chat} {ask.text}"
    if ask.example is not None:
        pairs = examples.of(run)
        if ask.example >= len(pairs):
            there = f"the last is {len(pairs) - 1}" if pairs else "this run has none"
            raise Problem(404, f"there is no example {ask.example}; {there}")
        return pairs[ask.example][0], f"example {ask.example}"
    assert ask.file is not None, "it was checked"
    data = _decoded(ask.file)
    return run.predictor.opened(data, "the file"), f"file {hashlib.sha256(data).hexdigest()}"


def check_input(ask: AskInput, limits: Limits) -> None:
    """Raises: Problem 422 for none or several inputs, or a text that is too long."""
    if sum(source is not None for source in (ask.text, ask.example, ask.file)) != 1:
        raise Problem(422, "give one of text, example and file")
    check_text(ask.text or "", limits)


def add_examples(app: FastAPI, service: Service, examples: Examples) -> None:
    # of each run, found once
    chosen: dict[str, tuple[int, bool]] = {}

    @app.get("/api/v1/examples")
    async def list_examples(request: Request, model: Annotated[str, Query(max_length=200)]) -> Response:
        """The examples of a run by number, each with a title and, where there is one, what is right.

        `opens`: the first of those that have most to show, of a classifier of images, sounds or nodes one whose
        answer is `right`, where there is one among the first few.
        """
        run = service.find(model, "trace")

        def listing() -> tuple[list[Example], int, bool]:
            pairs = examples.of(run)
            if run.name not in chosen:
                chosen[run.name] = _opening(run, pairs)
            return [title_of(*pair) for pair in pairs], *chosen[run.name]

        titles, opens, right = await service.compute(listing, request)
        listed = [{"title": example.title, "label": example.label} for example in titles]
        return as_json(
            {"model": run.name, "input": run.predictor.given, "examples": listed, "opens": opens, "right": right}
        )


def _opening(run: LoadedRun, pairs: Sequence[tuple[Any, Any]]) -> tuple[int, bool]:
    """The example on which a page opens, and whether its answer is right."""
    varieties = [run.predictor.variety(item) for item, _ in pairs]
    first = [number for number, variety in enumerate(varieties) if variety == max(varieties)][:_TRIED]
    if first and run.predictor.given in ("sound", "node", "image"):
        outputs = run.predictor.predict([pairs[number][0] for number in first])
        labels = [title_of(*pairs[number]).label for number in first]
        answers = map(answer_of, outputs)
        right = [number for number, label, answer in zip(first, labels, answers, strict=True) if answer == label]
        if right:
            return right[0], True
    return (first[0] if first else 0), False


def answer_of(output: Any) -> str | None:
    """The text or the class that a predictor gives; None: a number, or what else is right by degrees."""
    first = output[0] if isinstance(output, list) and output else output
    if isinstance(first, Mapping):
        return str(max(first, key=lambda name: first[name]))
    return next((str(getattr(first, name)) for name in ("text", "label") if hasattr(first, name)), None)


class Example(NamedTuple):
    """An example as it is listed.

    Args:
        label: what is right; empty where nothing is known.
        whole: the title is all of the input.
    """

    title: str
    label: str
    whole: bool


def title_of(item: Any, example: Any) -> Example:
    name = next((title_part for key in ("name", "smiles", "history") if (title_part := getattr(item, key, None))), item)
    label = getattr(example, "label", None) or getattr(example, "target", None)
    title = " ".join(name) if isinstance(name, list | tuple) else str(name)
    if hasattr(item, "pixels") or hasattr(item, "samples"):
        # a path says where, its end what
        title = PurePath(title).name
    short = shorten(title, _COLUMNS)
    # a float as a file writes it, without what adding in binary leaves at its end
    written = repr(float(f"{label:.{_DIGITS}g}")) if isinstance(label, float) else str(label)
    return Example(short, "" if label is None else shorten(written, _COLUMNS), short == item)


def _decoded(text: str) -> bytes:
    if len(text) > MOST_BYTES // 3 * 4 + 4:
        raise Problem(413, f"the file is larger than {MOST_BYTES:,} bytes", "make the picture smaller")
    try:
        return base64.b64decode(text.encode("ascii"), validate=True)
    except (ValueError, binascii.Error):
        raise Problem(422, "file: is no base64") from None

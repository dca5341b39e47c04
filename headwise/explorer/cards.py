"""The card of a run: its model as blocks, its data and metrics, and inputs to begin with."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import Any

from fastapi import FastAPI, Request, Response

from headwise.errors import HeadwiseError
from headwise.explain.parts import stages_of
from headwise.explorer.explorer import Explorer, Name
from headwise.explorer.inputs import Example, title_of
from headwise.predictors import pronouns
from headwise.runs.commits import MANIFEST
from headwise.runs.reading import read_manifest
from headwise.service.loaded import LoadedRun
from headwise.service.problems import Problem
from headwise.service.responses import as_json
from headwise.training.ledger import deciding_keys
from headwise.training.loading import recipe_of

# inputs of a card
SHOWN = 5
# words of a text whose map is seen whole
_FEWEST_WORDS, _MOST_WORDS = 3, 12
# that many different answers are classes, of which each is shown once
_MOST_CLASSES = 10
# for a model of texts whose data gives no single inputs: the first of each pair
SENTENCES = tuple(sentence.text for sentence in pronouns.SENTENCES[::2])


def add_cards(app: FastAPI, explorer: Explorer) -> None:
    @app.get("/api/v1/cards")
    async def card(request: Request, model: Name, inputs: bool = True) -> Response:
        """What a run is, and inputs to begin with; `inputs=false`: without these, for which its data is read."""
        run = explorer.service.find(model, "trace")
        return as_json(await explorer.service.compute(lambda: _card(run, explorer, inputs), request))


def _card(run: LoadedRun, explorer: Explorer, inputs: bool) -> dict[str, Any]:
    model = run.predictor.model
    return {
        "model": run.name,
        "task": run.task,
        "input": run.predictor.given,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "stages": stages_of(model),
        **_training(run),
        "adopted": _adopted(run),
        "examples": _inputs(run, explorer) if inputs else [],
    }


def _training(run: LoadedRun) -> dict[str, Any]:
    """What a run was trained on, for how many steps, and what its validation measured; nothing of other models."""
    if run.folder is None or not (run.folder / MANIFEST).is_file():
        return {"data": [], "step": None, "metrics": {}, "settings": {}}
    manifest, recipe = read_manifest(run.folder), recipe_of(run.folder)
    data = getattr(recipe, "data", None)
    files = [getattr(data, key, None) for key in ("train", "train_target")]
    return {
        "data": [PurePath(str(path)).name.removeprefix("headwise:") for path in files if path],
        "step": run.step or manifest.get("step"),
        "metrics": manifest.get("metrics", {}) if run.step is None else {},
        "settings": deciding_keys(recipe),
    }


def _adopted(run: LoadedRun) -> dict[str, Any] | None:
    """What a model of transformers says of itself: its class, whether it reads, writes or both, sizes, and its origin.

    Its origin is the name that it was loaded by, else that of its folder; None: it is no such model.
    """
    config = getattr(run.predictor.model, "config", None)
    if config is None or not hasattr(config, "model_type"):
        return None
    origin = str(getattr(config, "_name_or_path", "") or "")
    # of a path its end says what, the rest is nobody's business
    named = origin if origin.count("/") < 2 and not PurePath(origin).is_absolute() else PurePath(origin).name
    return {
        "class": type(run.predictor.model).__name__,
        "kind": getattr(getattr(run.predictor, "saved", None), "kind", "encoder"),
        "width": getattr(config, "hidden_size", None),
        "vocabulary": getattr(config, "vocab_size", None),
        "reads": getattr(getattr(run.predictor, "saved", None), "longest", None),
        "origin": named,
    }


def _inputs(run: LoadedRun, explorer: Explorer) -> list[dict[str, Any]]:
    """Inputs to begin with: examples of the run's own data, else what its recipe shows, else sentences."""
    try:
        pairs = explorer.examples.of(run)
    except (HeadwiseError, Problem):
        pairs = []
    # a model of another library has no data here
    if not pairs:
        if run.predictor.given != "text":
            return []
        texts = [*_shown(run), *(SENTENCES if run.task != "masked-lm" else _masked(run))]
        return [{"text": text, "title": text, "label": ""} for text in texts[:SHOWN]]
    titled = [(number, title_of(*pair)) for number, pair in enumerate(pairs)]
    read = run.predictor.given == "text" and run.predictor.reads == "text"
    return [_input(number, example, read) for number, example in _varied(titled, by_length=read)]


def _masked(run: LoadedRun) -> Iterator[str]:
    """The sentences with a mask for their last word, which a model of masked words fills in."""
    mask = getattr(getattr(getattr(run.predictor, "saved", None), "tokenizer", None), "mask_token", None)
    for sentence in SENTENCES:
        yield f"{sentence.rpartition(' ')[0]} {mask}" if mask else sentence


def _shown(run: LoadedRun) -> Iterator[str]:
    recipe = None if run.folder is None or not (run.folder / MANIFEST).is_file() else recipe_of(run.folder)
    yield from (text for text in getattr(recipe, "show", ()) if isinstance(text, str) and text.strip())


def _input(number: int, example: Example, read: bool) -> dict[str, Any]:
    source = {"text": example.title} if read and example.whole else {"example": number}
    return source | {"title": example.title, "label": example.label}


def _varied(examples: Sequence[tuple[int, Example]], by_length: bool) -> list[tuple[int, Example]]:
    """A few examples unlike each other: of different classes where there are few, else texts of different lengths."""
    words = {number: len(example.title.split()) for number, example in examples}
    fitting = [
        (number, example)
        for number, example in examples
        if not by_length or (example.whole and _FEWEST_WORDS <= words[number] <= _MOST_WORDS)
    ] or list(examples)
    classes = {example.label for _, example in fitting}
    of_class = 1 < len(classes) <= _MOST_CLASSES
    chosen = list(
        _first_of_each((example.label if of_class else words[number], (number, example)) for number, example in fitting)
    )
    rest = [pair for pair in fitting if pair not in chosen]
    return sorted([*chosen, *rest][:SHOWN], key=lambda pair: (words[pair[0]], pair[0]) if by_length else pair[0])


def _first_of_each(items: Iterable[tuple[Any, Any]]) -> Iterator[Any]:
    seen = set()
    for kind, item in items:
        if kind not in seen:
            seen.add(kind)
            yield item

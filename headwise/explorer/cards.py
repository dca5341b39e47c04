"""The card of a run: its model as blocks, its data and metrics, and inputs to begin with."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import Any

from fastapi import FastAPI, Request, Response

from headwise.errors import HeadwiseError
from headwise.explain.parts import stages_of
from headwise.explain.reel import turns
from headwise.explorer.explorer import Explorer, Name
from headwise.explorer.inputs import Example, answer_of, title_of
from headwise.predictors import pronouns
from headwise.runs.commits import MANIFEST
from headwise.runs.publish import DATA
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
# examples of which the answers are compared with what is right, and of the right ones those whose attention is read
_POOL, _TURNED = 60, 40
# an example and its number
Numbered = tuple[int, Example]
# for a model of texts whose data gives no single inputs: the first of each pair
SENTENCES = tuple(sentence.text for sentence in pronouns.SENTENCES[::2])


def add_cards(app: FastAPI, explorer: Explorer) -> None:
    # the inputs of each run, whose answers are made once
    chosen: dict[str, list[dict[str, Any]]] = {}

    @app.get("/api/v1/cards")
    async def card(request: Request, model: Name, inputs: bool = True) -> Response:
        """What a run is, and inputs to begin with; `inputs=false`: without these, for which its data is read."""
        run = explorer.service.find(model, "trace")

        def described() -> dict[str, Any]:
            if inputs and run.name not in chosen:
                chosen[run.name] = _inputs(run, explorer)
            return _card(run) | {"examples": chosen[run.name] if inputs else []}

        return as_json(await explorer.service.compute(described, request))


def _card(run: LoadedRun) -> dict[str, Any]:
    model = run.predictor.model
    return {
        "model": run.name,
        "task": run.task,
        "input": run.predictor.given,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "stages": stages_of(model),
        **_training(run),
        "adopted": _adopted(run),
    }


def _training(run: LoadedRun) -> dict[str, Any]:
    """What a run was trained on, for how many steps, and what its validation measured; nothing of other models."""
    if run.folder is None or not (run.folder / MANIFEST).is_file():
        return {"data": [], "digests": None, "step": None, "metrics": {}, "settings": {}}
    manifest, recipe = read_manifest(run.folder), recipe_of(run.folder)
    data = getattr(recipe, "data", None)
    files = [getattr(data, key, None) for key in ("train", "train_target")]
    return {
        "data": [PurePath(str(path)).name.removeprefix("headwise:") for path in files if path],
        # what tells files of one name apart
        "digests": manifest.get(DATA),
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
        # what reads no text may have one all the same
        "vocabulary": getattr(config, "vocab_size", None) if run.predictor.given != "image" else None,
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
    if run.predictor.given == "series":
        # neighbours of a series are nearly the same
        chosen = [titled[place * (len(titled) - 1) // max(1, SHOWN - 1)] for place in range(min(SHOWN, len(titled)))]
    else:
        items = [item for item, _ in pairs]
        chosen = _varied(_telling(run.predictor, items, _fitting(titled, read)), by_length=read)
    return [_input(number, example, read) for number, example in chosen]


def _telling(predictor: Any, items: Sequence[Any], examples: Sequence[Numbered]) -> list[Numbered]:
    """Those with most to show first: of great variety, then with a right answer, of texts one that turns the order."""
    varieties = {number: predictor.variety(items[number]) for number, _ in examples}
    pool = sorted(_some_of_each(examples), key=lambda pair: -varieties[pair[0]])[:_POOL]
    if not any(example.label for _, example in pool):
        return pool
    outputs = predictor.predict([items[number] for number, _ in pool])
    right = {
        number for (number, example), output in zip(pool, outputs, strict=True) if answer_of(output) == example.label
    }
    reads_text = predictor.given == "text"
    turned = {number: _turns(predictor, items[number]) for number in sorted(right)[:_TURNED] if reads_text}
    ordered = sorted(pool, key=lambda pair: (-varieties[pair[0]], pair[0] not in right, -turned.get(pair[0], 0)))
    return [pair for pair in ordered if pair[0] in right] if turned and len(right) >= SHOWN else ordered


def _some_of_each(examples: Sequence[Numbered]) -> Iterator[Numbered]:
    """As many of each class, so that the pool has all of them."""
    each = max(1, _POOL // max(1, len({example.label for _, example in examples})))
    counts: Counter[str] = Counter()
    for number, example in examples:
        counts[example.label] += 1
        if counts[example.label] <= each:
            yield number, example


def _turns(predictor: Any, item: Any) -> int:
    """How many words of an answer look most at a word before the one that the word before them looks at."""
    layers = [layer for layer in predictor.explain(item).layers.values() if layer.kind == "cross"]
    if not layers:
        return 0
    words = [row for row, label in enumerate(layers[-1].queries) if any(map(str.isalpha, label)) and "<" not in label]
    return turns(layers[-1].weights[:, words])


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


def _fitting(examples: Sequence[Numbered], by_length: bool) -> list[Numbered]:
    """Of texts those whose map is seen whole, where there are any."""
    fitting = [
        (number, example)
        for number, example in examples
        if not by_length or (example.whole and _FEWEST_WORDS <= len(example.title.split()) <= _MOST_WORDS)
    ]
    return fitting or list(examples)


def _varied(examples: Sequence[Numbered], by_length: bool) -> list[Numbered]:
    """A few examples unlike each other: of different classes where there are few, else texts of different lengths."""
    words = {number: len(example.title.split()) for number, example in examples}
    classes = {example.label for _, example in examples}
    of_class = 1 < len(classes) <= _MOST_CLASSES
    apart = list(examples) if of_class or not by_length else list(_first_of_each(_by_beginning(examples)))
    chosen = list(
        _first_of_each((example.label if of_class else words[number], (number, example)) for number, example in apart)
    )
    rest = [pair for pair in dict.fromkeys([*apart, *examples]) if pair not in chosen]
    shown = [*chosen, *rest][:SHOWN]
    if by_length and not of_class:
        return shown
    return sorted(shown, key=lambda pair: (words[pair[0]] if by_length else 0, pair[0]))


def _by_beginning(examples: Sequence[Numbered]) -> Iterator[tuple[str, Numbered]]:
    """Examples by their first word."""
    return ((example.title.split(maxsplit=1)[0], (number, example)) for number, example in examples)


def _first_of_each(items: Iterable[tuple[Any, Any]]) -> Iterator[Any]:
    seen = set()
    for kind, item in items:
        if kind not in seen:
            seen.add(kind)
            yield item

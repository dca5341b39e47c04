"""An output as it is written, as JSON lines: the beams of every step, what else was likely, where each looks."""

import base64
import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from fastapi import FastAPI, Query, Request, Response
from pydantic import Field
from torch import Tensor

from headwise.data.text import SPACE_MARK
from headwise.decoding.hypotheses import Hypothesis, PartialHypotheses, SearchStep, length_norms, observe_search
from headwise.decoding.search import DecodingConfig
from headwise.decoding.top import top
from headwise.errors import ConfigError, Unsupported
from headwise.explain.places import OnImage
from headwise.explorer.explorer import Explorer, Name, Store
from headwise.explorer.images import thinned
from headwise.explorer.inputs import AskInput, check_input, item_of
from headwise.explorer.traces import Traced, axis, traced
from headwise.explorer.wire import halved
from headwise.predictors.drafting import Draft, Follower, Looked, OutputTokens
from headwise.service.app import Service, route
from headwise.service.loaded import LoadedRun
from headwise.service.requests import check_search
from headwise.service.responses import LINES, as_json, as_lines
from headwise.service.streaming import Told, streamed

# weights of one answer; where all heads together would be more, their mean is sent
_MOST_BYTES = 1 << 24


class AskGenerated(AskInput):
    """An input about which an output is written step by step."""

    method: Literal["beam", "greedy", "sample"] | None = Field(None, description="as the run's recipe if left out")
    beam: int | None = Field(None, ge=1, description="hypotheses kept at each step, or samples")
    max_new: int | None = Field(None, ge=1, description="tokens of the output at most")
    top_k: int = Field(8, ge=0, le=50, description="most likely next tokens given at every step")
    force: list[int] = Field([], max_length=512, description="tokens that the output begins with, by number")

    def given(self) -> dict[str, Any]:
        """What it says of the search, as `headwise predict` calls it."""
        options: dict[str, Any] = {} if self.method is None else {"method": self.method}
        if self.beam is not None:
            options["n_best" if self.method == "sample" else "beam_size"] = self.beam
        return options if self.max_new is None else {**options, "max_len": self.max_new}


class Read(NamedTuple):
    """An input as it is read: what tells it from others, and warnings of reading it."""

    item: Any
    key: str
    draft: Draft
    noted: list[str]


def add_generation(app: FastAPI, explorer: Explorer) -> None:
    """Adds the routes to a service; traces of what was written are put into the store."""
    service = explorer.service
    route(app, service, "generate", AskGenerated, functools.partial(_generated, explorer), media=[LINES])

    @app.get("/api/v1/tokens")
    async def tokens(
        request: Request,
        model: Name,
        begins: Annotated[str, Query(min_length=1, max_length=200)],
        most: Annotated[int, Query(ge=1, le=100)] = 12,
    ) -> Response:
        """Tokens of what a run writes that begin with a text, the shortest first, and those that are this text."""
        run = service.find(model, "predict")
        matches = await service.compute(lambda: beginning(run.predictor.writes(), begins), request)
        exact = [match["token"] for match in matches if match["text"] == _typed(begins)]
        return as_json({"model": run.name, "exact": exact, "tokens": matches[:most], "count": len(matches)})


async def _generated(explorer: Explorer, service: Service, verb: str, ask: AskGenerated, request: Request) -> Response:
    run = service.find(ask.model, "predict")
    check_input(ask, service.limits)
    search = ask.given()
    check_search(search, 1, service.limits, getattr(run.predictor, "decoding", None))
    options = run.predictor.options({**search, "prefix": ask.force} if ask.force else search)
    read = await service.compute(lambda: _read(explorer, run, ask, options), request)
    read.draft.check(ask.force)
    work = functools.partial(_written, run, explorer.store, ask, options, read)
    return as_lines(streamed(service.submit, work, [read.item], lambda end: {"end": end}))


def _read(explorer: Explorer, run: LoadedRun, ask: AskGenerated, options: Any) -> Read:
    """By the worker alone: who catches warnings does so for all threads."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        item, key = item_of(run, ask, explorer.examples, explorer.service.limits)
        draft = run.predictor.draft(item, options)
    return Read(item, key, draft, [str(warning.message)[:500] for warning in caught])


def _written(
    run: LoadedRun,
    store: Store,
    ask: AskGenerated,
    options: Any,
    read: Read,
    items: list[Any],
    tell: Callable[[Told], None],
) -> list[Told]:
    config, draft = run.decoding(options), read.draft
    if config is None:
        raise Unsupported(f"{run.name} writes without a search")
    follower = Follower(draft)
    salient = Telling(draft, follower, config, ask.top_k)
    tell(
        {"start": {"model": run.name, "task": run.task, **salient.start(), "force": ask.force, "warnings": read.noted}}
    )
    with observe_search(lambda step: tell({"step": salient.step(step)})):
        outputs = run.predictor.outputs(items[0], options)
    hypotheses = [
        {
            "id": salient.place(output.tokens),
            "text": output.text,
            "tokens": output.tokens,
            "score": output.score,
            "log_prob": output.log_prob,
        }
        for output in outputs
    ]
    trace = _store_trace(run, store, items[0], read.key, outputs[0].text) if outputs else None
    return [
        {
            "trace_id": trace and trace.id,
            "output": outputs[0].text if outputs else "",
            "opens": trace and _opening(trace, follower.layers),
            "hypotheses": hypotheses,
        }
    ]


def _opening(trace: Traced, layers: Sequence[str]) -> list[int] | None:
    """The layer, by its place, and the head on which the group of these layers opens; None: they are of several."""
    group = next((group for group in trace.groups if group.layers == list(layers)), None)
    return None if group is None else trace.opening(group)


def _store_trace(run: LoadedRun, store: Store, item: Any, key: str, output: str) -> Traced | None:
    """The trace of an output; None for a model without attention, or a text that it cannot read again."""
    try:
        trace = traced(run, item, output, key)
    except (Unsupported, ConfigError):
        # the tokens of its text need not be those that were written
        return None
    store.put(trace)
    return trace


Key = tuple[int, ...]


@dataclass(eq=False)
class Telling:
    """What is told of a search over one input. Beginnings are numbered in the order of their appearance.

    The empty beginning has number 0. A hypothesis that reaches the end of a text has a beginning that includes it.

    Args:
        config: of the search; scores are by its length penalty.
    """

    draft: Draft
    follower: Follower
    config: DecodingConfig
    top_k: int
    _ids: dict[Key, int] = field(default_factory=lambda: {(): 0})
    _totals: dict[Key, float] = field(default_factory=lambda: {(): 0.0})
    _done: set[Key] = field(default_factory=set)

    def start(self) -> Told:
        weights = self.follower.first.weights
        read, places = self.draft.read, self.draft.places
        return {
            "axes": {"src": read if places is None else places.on_pages(read)},
            **_placed(self.draft),
            "kind": self.follower.kind,
            "layers": self.follower.layers,
            "heads": 0 if weights is None else weights.shape[2],
            "kept": self._weights_detail(),
            "method": self.config.method,
            "temperature": self.config.temperature if self.config.method == "sample" else None,
        }

    def step(self, step: SearchStep) -> Told:
        """One step: `beams` that appear or end in it; of each beginning that was continued what was likely, and where
        it looks: `cross` has (beginnings, layers, heads, keys)."""
        rows = list(dict.fromkeys(_keys(step.before)))
        outputs = self.follower.look(np.array(rows, dtype=np.int64).reshape(len(rows), step.step))
        beams = list(self._appeared(step))
        report = {"t": step.step, "beams": beams, "topk": self._likely(rows, outputs)}
        return {**report, "cross": None if outputs.weights is None else packed(self._mean(outputs.weights))}

    def place(self, tokens: Sequence[int]) -> int | None:
        """The number of a hypothesis that has ended."""
        key = tuple(tokens)
        ended = next((end for end in ((*key, self.draft.tokenizer.eos_id), key) if end in self._done), key)
        return self._ids.get(ended)

    def _appeared(self, step: SearchStep) -> Iterator[Told]:
        ended = {self._key(hypothesis): hypothesis for _, hypothesis in step.ended}
        penalty = self.config.length_penalty
        for key, total in _keys(step.after).items():
            if key not in ended and key not in self._ids:
                score = total / float(length_norms(len(key), penalty)[-1])
                yield self._node(key, total, score, done=False)
        for key, hypothesis in ended.items():
            self._done.add(key)
            yield self._node(key, hypothesis.log_prob, hypothesis.score, done=True)

    def _node(self, key: Key, total: float, score: float, *, done: bool) -> Told:
        number = self._ids.setdefault(key, len(self._ids))
        parent = self._ids[key[:-1]]
        gained = total - self._totals[key[:-1]]
        self._totals[key] = total
        text = self.draft.tokenizer.shown(key[-1])
        node = {"id": number, "parent": parent, "token": key[-1], "text": text, "logp": gained}
        return {**node, "score": score, "done": done}

    def _key(self, hypothesis: Hypothesis) -> Key:
        return (*hypothesis.tokens, self.draft.tokenizer.eos_id) if hypothesis.finished else tuple(hypothesis.tokens)

    def _likely(self, rows: Sequence[Key], outputs: Looked) -> list[Told]:
        if not self.top_k:
            return [{"id": self._ids[key], "tokens": []} for key in rows]
        values, tokens = top(outputs.log_probs, min(self.top_k, outputs.log_probs.shape[1]))
        name = self.draft.tokenizer.shown
        return [
            {
                "id": self._ids[key],
                "tokens": [
                    {"token": token, "text": name(token), "logp": value}
                    for token, value in zip(numbers, likely, strict=True)
                    if value > float("-inf")
                ],
            }
            for key, numbers, likely in zip(rows, tokens.tolist(), values.tolist(), strict=True)
        ]

    def _weights_detail(self) -> Literal["heads", "layers", "mean"]:
        """What of the weights is sent: of every head, the means of layers, or their mean."""
        weights = self.follower.first.weights
        if weights is None:
            return "heads"
        _, layers, heads, keys = weights.shape
        self_attention = self.follower.kind == "self"
        steps = self.config.max_len if self_attention else self.config.limit(keys)
        beams = {"beam": self.config.beam_size, "sample": self.config.num_samples, "greedy": 1}[self.config.method]
        size = 2 * beams * steps * (keys + steps * self_attention)
        return "heads" if size * layers * heads <= _MOST_BYTES else "layers" if size * layers <= _MOST_BYTES else "mean"

    def _mean(self, weights: Tensor) -> Tensor:
        over = {"heads": (), "layers": (2,), "mean": (1, 2)}[self._weights_detail()]
        return weights.mean(over, keepdim=True) if over else weights


def _placed(draft: Draft) -> Told:
    """What was read where it is a picture: `axis`, its places, and `image`, its pixels."""
    on = draft.places
    if not isinstance(on, OnImage):
        return {}
    covered = on.covered or on.pixels.shape[:2]
    image = {"pixels": sent(thinned(on.pixels)), "shape": on.pixels.shape, "covered": covered}
    return {"axis": axis(draft.read, (), on), "image": image}


def _keys(beginnings: PartialHypotheses) -> dict[Key, float]:
    """The hypotheses, each once, with their log-probabilities."""
    rows = zip(beginnings.tokens.tolist(), beginnings.totals.tolist(), strict=True)
    return {tuple(tokens): total for tokens, total in rows if total > float("-inf")}


def packed(weights: Tensor) -> Told:
    """Numbers inside of JSON: the bytes of half precision, little-endian, in C order."""
    return sent(halved(weights.numpy()))


def sent(numbers: np.ndarray) -> Told:
    """Numbers inside of JSON."""
    values = np.ascontiguousarray(numbers)
    return {"b64": base64.b64encode(values.tobytes()).decode(), "dtype": values.dtype.str, "shape": list(values.shape)}


def beginning(tokenizer: OutputTokens, begins: str) -> list[dict[str, Any]]:
    """Tokens with their numbers; the mark of a space before one does not count, and special tokens are none of them."""
    prefix = _typed(begins)
    texts = ((token, tokenizer.shown(token)) for token in range(tokenizer.vocab_size))
    special = tokenizer.special_ids
    matches = [
        {"token": token, "text": text} for token, text in texts if text.startswith(prefix) and token not in special
    ]
    return sorted(matches, key=lambda match: (len(match["text"]), match["text"]))


def _typed(begins: str) -> str:
    # a space alone is a token of its own
    return begins.strip() or SPACE_MARK

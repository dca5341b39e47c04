"""Every step of a layer, and what they would be with another scale, another temperature or another mask."""

import base64
import json
from typing import Annotated, Any

import numpy as np
import torch
from fastapi import FastAPI, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from headwise.attention.masks import Causal, Mask, Padding, parts
from headwise.attention.mechanisms.scored import Scored
from headwise.attention.normalizers import Tempered, softmax
from headwise.attention.scores import Dot, ScaledDot, Score
from headwise.errors import Unsupported
from headwise.explain.columns import as_columns
from headwise.explain.layer_trace import EXAMPLES, LayerTrace, example_trace
from headwise.explain.trace_formats import as_dict
from headwise.explorer.explorer import KEPT, Explorer, Name
from headwise.explorer.traces import Traced
from headwise.records import Edit, Loosen, Narrow, RecordedCall, Swap
from headwise.service.responses import as_json, as_steps

KINDS: dict[str, type[Mask]] = {"causal": Causal, "padding": Padding}
# the score in place of another, by whether it divides by the square root of the width
_SCORES: dict[bool, type[Score]] = {False: Dot, True: ScaledDot}


class Supposition(BaseModel):
    """What is other than the model did it."""

    model_config = ConfigDict(extra="forbid")

    temperature: float = Field(1.0, ge=0.01, le=100, allow_inf_nan=False, description="scores are divided by it")
    scaled: bool | None = Field(None, description="whether products are divided by the square root of their width")
    causal: bool | None = Field(None, description="whether later keys are hidden; left out: as the model has it")
    padding: bool = Field(True, description="whether the part of the mask that hides padding counts")

    def left_out(self) -> list[str]:
        """The parts of the mask that do not count."""
        return [name for name in KINDS if getattr(self, name) is False]


class AskSteps(Supposition):
    """A head, and what is other than the model did it."""

    layer: str = Field(max_length=200)
    head: int = Field(ge=0, le=1 << 20)


def add_steps(app: FastAPI, explorer: Explorer) -> None:
    at = "/api/v1/traces/{name}"

    @app.get(f"{at}/steps")
    async def steps(request: Request, name: str, ask: Annotated[AskSteps, Query()]) -> Response:
        """Every step of one head, with its numbers and how they are made."""
        traced = explorer.trace(name)

        def work() -> str:
            return encode(traced.steps(ask.layer, ask.head, *supposed(traced, ask.layer, ask)))

        return as_steps(await explorer.service.compute(work, request), explorer.service.limits, KEPT)

    @app.get(f"{at}/changeable")
    async def can_change(request: Request, name: str, layer: Name) -> Response:
        """What may be supposed of a layer: temperature, scale, masks with the pairs that each forbids."""
        traced = explorer.trace(name)
        return as_json(await explorer.service.compute(lambda: changeable(traced, layer), request), headers=KEPT)

    @app.get("/api/v1/textbook")
    async def textbook(request: Request, ask: Annotated[Supposition, Query()]) -> Response:
        """The steps of a worked example of three inputs, which needs no run."""
        text = await explorer.service.compute(lambda: encode(textbook_trace(ask)), request)
        return as_steps(text, explorer.service.limits, KEPT)


def textbook_trace(ask: Supposition) -> LayerTrace:
    name = list(EXAMPLES)[bool(ask.scaled)]
    tempered = None if ask.temperature == 1.0 else Tempered(softmax, ask.temperature)
    return example_trace(name, Causal() if ask.causal else None, tempered)


def encode(trace: LayerTrace) -> str:
    """A trace as JSON: each step with its working, and its formula where vectors are columns; parameters as float32 in
    base64, row after row.

    Weighted values are left out, which are products of two other steps and more than all of these.
    """
    content = as_dict(trace)
    for step, traced, turned in zip(content["steps"], trace.steps, as_columns(trace).steps, strict=True):
        step["columns"] = turned.formula
        if traced.working is not None:
            numbers = {name: _listed(number) for name, number in traced.working.numbers.items()}
            step["working"] = {"rule": traced.working.rule, "of": traced.working.of, "numbers": numbers}
    content["steps"] = [step for step in content["steps"] if step["name"] != "weighted values"]
    parameters = {
        name: {"shape": array.shape, "base64": base64.b64encode(array.astype("<f4").tobytes()).decode()}
        for name, array in trace.parameters.items()
    }
    content |= {"parameters": parameters, "difference": trace.difference}
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def _listed(number: Any) -> Any:
    return number.tolist() if isinstance(number, np.ndarray) else number


def changeable(traced: Traced, layer: str) -> dict[str, Any]:
    """What of a layer may be supposed, as JSON: whether it has a temperature, whether its products are scaled (None: it
    has none), how many pairs each part of its mask forbids, by name, and whether a causal mask may be added."""
    last = _last(traced, layer)
    batch, _, rows, columns = last.call.shape
    masks = {}
    for name, kind in KINDS.items():
        matching = [part for part in parts(last.call.mask) if isinstance(part, kind)]
        start, device = last.call.query_start, last.call.query.device
        tables = [part.dense(batch, 1, rows, columns, query_start=start, device=device) for part in matching]
        if tables:
            keep = torch.stack([table.expand(batch, 1, rows, columns) for table in tables]).all(0)
            masks[name] = int((~keep).sum())
    scored = isinstance(last.mechanism, Scored)
    # a graph has no order
    ordered = all(isinstance(part, Padding) for part in parts(last.call.mask))
    causal = scored and ordered and not last.call.cross and rows == columns > 1
    return {"temperature": scored, "scaled": _scaled(_score(last)), "masks": masks, "causal": causal}


def supposed(traced: Traced, layer: str, ask: Supposition) -> list[Edit]:
    """The edits that make it so: none where it is as the model did it.

    Raises: Unsupported for the temperature or the scale of a mechanism that has none.
    """
    last, kinds = _last(traced, layer), tuple(KINDS[name] for name in ask.left_out())
    edits: list[Edit] = [Loosen(layer, kinds)] if kinds else []
    if ask.causal and not any(isinstance(part, Causal) for part in parts(last.call.mask)):
        edits.append(Narrow(layer, Causal()))
    if ask.temperature == 1.0 and ask.scaled is None:
        return edits
    what = "temperature" if ask.scaled is None else "scale"
    score = _score(last)
    if not isinstance(last.mechanism, Scored) or (ask.scaled is not None and _scaled(score) is None):
        raise Unsupported(f"{layer} has no {what}: {type(last.mechanism).__name__} makes its weights by other scores")
    if ask.scaled is not None:
        score = _SCORES[ask.scaled]()
    normalizer = last.mechanism.normalizer or last.call.normalizer
    if ask.temperature != 1.0:
        normalizer = Tempered(normalizer, ask.temperature)
    return [Swap(layer, Scored(score, normalizer).to(last.call.query.device)), *edits]


def _score(recorded: RecordedCall) -> Score | None:
    """The score of attention by its definition; None for another mechanism."""
    mechanism = recorded.mechanism
    return (mechanism.score or recorded.call.score) if isinstance(mechanism, Scored) else None


def _scaled(score: Score | None) -> bool | None:
    """Whether a score of products is divided by the square root of their width; None for other scores."""
    if type(score) is Dot and score.scale == 1.0:
        return False
    return True if type(score) is ScaledDot else None


def _last(traced: Traced, layer: str) -> RecordedCall:
    traced.group_of(layer)
    call: RecordedCall = traced.trace[layer].calls[-1]
    return call

"""Every step of a layer, and what they would be at another temperature or without a part of its mask."""

from typing import Annotated, Any

import torch
from fastapi import FastAPI, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from headwise.attention.masks import Causal, Mask, Padding, parts
from headwise.attention.mechanisms.scored import Scored
from headwise.attention.normalizers import Tempered
from headwise.errors import Unsupported
from headwise.explorer.explorer import KEPT, Explorer, Name
from headwise.explorer.traces import Traced
from headwise.records import Edit, Loosen, RecordedCall, Swap
from headwise.service.responses import as_json, as_steps

KINDS: dict[str, type[Mask]] = {"causal": Causal, "padding": Padding}


class AskSteps(BaseModel):
    """A head, and what is other than the model did it."""

    model_config = ConfigDict(extra="forbid")

    layer: str = Field(max_length=200)
    head: int = Field(ge=0, le=1 << 20)
    temperature: float = Field(1.0, ge=0.01, le=100, allow_inf_nan=False, description="scores are divided by it")
    causal: bool = Field(True, description="whether the causal part of the mask counts")
    padding: bool = Field(True, description="whether the part that hides padding counts")

    def left_out(self) -> list[str]:
        """The parts of the mask that do not count."""
        return [name for name in KINDS if not getattr(self, name)]


def add_steps(app: FastAPI, explorer: Explorer) -> None:
    at = "/api/v1/traces/{name}"

    @app.get(f"{at}/steps")
    async def steps(request: Request, name: str, ask: Annotated[AskSteps, Query()]) -> Response:
        """Every step of one head, with its numbers; with another temperature or less of its mask what they would be."""
        traced = explorer.trace(name)

        def work() -> str:
            edits = supposed(traced, ask.layer, ask.temperature, ask.left_out())
            return traced.steps(ask.layer, ask.head, *edits)

        return as_steps(await explorer.service.compute(work, request), explorer.service.limits, KEPT)

    @app.get(f"{at}/changeable")
    async def can_change(request: Request, name: str, layer: Name) -> Response:
        """Of a layer whether its steps have a temperature, and the pairs that each part of its mask forbids."""
        traced = explorer.trace(name)
        return as_json(await explorer.service.compute(lambda: changeable(traced, layer), request), headers=KEPT)


def changeable(traced: Traced, layer: str) -> dict[str, Any]:
    """Whether a layer has a temperature, and how many pairs each part of its mask forbids, by name, as JSON."""
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
    return {"temperature": isinstance(last.mechanism, Scored), "masks": masks}


def supposed(traced: Traced, layer: str, temperature: float, left_out: list[str]) -> list[Edit]:
    """The edits that make it so: none where it is as the model did it.

    Raises: Unsupported for the temperature of a mechanism that normalizes no scores.
    """
    kinds = tuple(KINDS[name] for name in left_out)
    edits: list[Edit] = [Loosen(layer, kinds)] if kinds else []
    if temperature == 1.0:
        return edits
    last = _last(traced, layer)
    old = last.mechanism
    if not isinstance(old, Scored):
        raise Unsupported(f"{layer} has no temperature: {type(old).__name__} makes its weights by no scores")
    new = Scored(old.score or last.call.score, Tempered(old.normalizer or last.call.normalizer, temperature))
    return [Swap(layer, new.to(last.call.query.device)), *edits]


def _last(traced: Traced, layer: str) -> RecordedCall:
    traced.group_of(layer)
    call: RecordedCall = traced.trace[layer].calls[-1]
    return call

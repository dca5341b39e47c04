"""What a model needs of its heads: how alike they are, and what changes when each alone is muted, as it is found."""

import asyncio
import functools
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

import numpy as np
from fastapi import FastAPI, Query, Request, Response
from pydantic import Field

from headwise.errors import ConfigError, unknown
from headwise.explain.heads import mean_similarity
from headwise.explorer.explorer import Explorer, Name, Numbers
from headwise.explorer.traces import Group
from headwise.predictors.ablating import Example, ablated, examples, heads_of
from headwise.service.app import Service, route
from headwise.service.loaded import LoadedRun
from headwise.service.problems import Problem
from headwise.service.requests import Body, check_text
from headwise.service.responses import LINES, as_lines, line
from headwise.service.streaming import failed
from headwise.service.worker import Job

# head x head x query x key: what is compared in one request
_MOST_COMPARED = 1 << 28
# traces that are compared with another one at once
MOST_BESIDE = 63


class AskAblations(Body):
    """Inputs over which each head is muted alone."""

    texts: list[str] = Field(min_length=1, description="inputs; effects are means over them")


def comparable(group: Group) -> str:
    """Which heads of a group are compared in one request: "group" for all, "layer" for those of one layer, "" none."""
    if not group.whole:
        return ""
    count = len(group.queries) * len(group.keys)
    sizes = {"group": group.heads * len(group.layers), "layer": group.heads}
    return next((name for name, heads in sizes.items() if heads * heads * count <= _MOST_COMPARED), "")


def add_needs(app: FastAPI, explorer: Explorer) -> None:
    route(app, explorer.service, "ablations", AskAblations, _ablations, media=[LINES])

    @app.get("/api/v1/traces/{name}/similar", response_class=Numbers)
    async def similar(
        request: Request,
        name: str,
        group: Name,
        layer: Name = "",
        beside: Annotated[list[Name], Query(max_length=MOST_BESIDE)] = [],  # noqa: B006 - FastAPI copies it
    ) -> Response:
        """How alike all heads of a group are, layer after layer: (all heads, all heads), 1 for the same; of a layer
        those of it alone. Over the rows of this trace and of those beside it."""
        traces = [explorer.trace(trace_name) for trace_name in (name, *beside)]
        groups = [traced.group(group) for traced in traces]
        first = groups[0]
        if layer and layer not in first.layers:
            raise ConfigError(unknown("layer", layer, first.layers))
        layers = [layer] if layer else first.layers
        count = first.heads * len(layers)
        for traced, part in zip(traces, groups, strict=True):
            of_it = (traces[0].run, traces[0].asked, first.layers, first.heads)
            if (traced.run, traced.asked, part.layers, part.heads) != of_it:
                hint = "give traces of one model, edited alike"
                raise Problem(422, f"trace {traced.id} is not of the heads of {name}", hint)
        if sum(count * count * len(part.queries) * len(part.keys) for part in groups) > _MOST_COMPARED:
            raise Problem(413, f"{count} heads are too many to compare all at once", "ask for one layer, layer=NAME")
        return await explorer.numbers(
            request,
            name,
            lambda _: mean_similarity(np.concatenate([*map(traced.weights, layers)]) for traced in traces),
        )


async def _ablations(service: Service, verb: str, ask: AskAblations, request: Request) -> Response:
    run = service.find(ask.model, "trace")
    if len(ask.texts) > service.limits.shown_texts:
        raise Problem(422, f"texts: {len(ask.texts)} is more than {service.limits.shown_texts}")
    for text in ask.texts:
        check_text(text, service.limits)

    def work() -> tuple[list[Example], dict[str, int]]:
        passes = examples(run.predictor, run.attention_inputs(ask.texts, service.limits.whole_tokens))
        return passes, heads_of(passes[0])

    return as_lines(_lines(service, run, *await service.compute(work, request)))


async def _lines(
    service: Service, run: LoadedRun, passes: list[Example], layers: dict[str, int]
) -> AsyncIterator[bytes]:
    """`{"layers": ...}`, a line for each head, `{"done": true}`; or `{"error": ...}`. A layer at a time is computed."""
    yield line({"layers": layers, "texts": len(passes), "heads": sum(layers.values())})
    for layer, heads in layers.items():
        try:
            (ablations,) = await _worked(service, functools.partial(_muted, run, passes, layer, heads))
        except Exception as error:  # the answer has begun, so its last line tells
            yield line(failed(error))
            return
        for ablation in ablations:
            yield line({"layer": ablation.layer, "head": ablation.head, **ablation.effect})
    yield line({"done": True})


def _muted(run: LoadedRun, passes: list[Example], layer: str, heads: int, _: Any) -> list[Any]:
    return [list(ablated(run.predictor, passes, layer, heads))]


async def _worked(service: Service, work: Callable[[list[Any]], list[Any]]) -> Any:
    """What a job comes to; it is given up when nobody waits any more."""
    job: Job = service.submit(work, [None])
    waiting: asyncio.Future[Any] = asyncio.wrap_future(job.answer)
    # nobody may look at what comes later
    waiting.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
        return await asyncio.shield(waiting)
    finally:
        job.give_up()

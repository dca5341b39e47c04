"""What the pages of the explorer ask for: traces of inputs, and parts of them as numbers."""

import functools
import warnings
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Annotated, Literal

from fastapi import FastAPI, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from headwise.errors import HeadwiseError
from headwise.explain.folding import Fold, Special
from headwise.explorer.attributing import add_attributions
from headwise.explorer.cards import add_cards
from headwise.explorer.checkpoints import add_checkpoints, open_checkpoint
from headwise.explorer.editing import MOST_EDITS, AskEdit, edited
from headwise.explorer.explorer import KEPT, Explorer, Name, Numbers, Store
from headwise.explorer.exports import add_exports
from headwise.explorer.generating import add_generation
from headwise.explorer.graphs import add_graphs
from headwise.explorer.images import add_images
from headwise.explorer.inputs import AskInput, add_examples, check_input, item_of, title_of
from headwise.explorer.long_maps import How
from headwise.explorer.needs import add_needs, comparable
from headwise.explorer.positional import add_positions
from headwise.explorer.sounds import add_sounds
from headwise.explorer.supposing import add_steps
from headwise.explorer.traces import Traced, axes, digest_of, traced
from headwise.service.app import Service, route
from headwise.service.loaded import LoadedRun
from headwise.service.problems import Problem
from headwise.service.requests import check_text
from headwise.service.responses import as_json

# tensors of all traces that are kept
_STORE_BYTES = 1 << 28
Index = Annotated[int, Query(ge=0, le=1 << 20)]


class TraceOptions(BaseModel):
    """How a model is looked at."""

    model_config = ConfigDict(extra="forbid", strict=True)

    edits: list[AskEdit] = Field([], max_length=MOST_EDITS, description="changes of its attention, in this order")


class AskTraced(AskInput):
    """An input whose attention is looked at."""

    target: str | None = Field(None, min_length=1, description="the output that the model is made to give")
    options: TraceOptions = TraceOptions()


def add_explorer(app: FastAPI, service: Service) -> None:
    explorer = Explorer(service, Store(_STORE_BYTES))
    route(app, service, "traces", AskTraced, functools.partial(_traced, explorer), status=201)
    add_generation(app, explorer)
    _parts(app, explorer)
    _heads(app, explorer)
    _maps(app, explorer)
    _rows(app, explorer)
    add_attributions(app, explorer)
    add_needs(app, explorer)
    add_exports(app, explorer)
    add_examples(app, service, explorer.examples)
    add_cards(app, explorer)
    add_checkpoints(app, service)
    add_images(app, explorer)
    add_graphs(app, explorer)
    add_steps(app, explorer)
    add_sounds(app, explorer)
    add_positions(app, explorer)


def _parts(app: FastAPI, explorer: Explorer) -> None:
    at = "/api/v1/traces/{name}"

    @app.get(f"{at}/summary")
    async def summary(
        request: Request, name: str, group: Name, merged: bool = False, special: Special = ""
    ) -> Response:
        """Of each layer and head of a group what it does, in a few numbers."""
        traced = explorer.trace(name)
        layer_group = traced.group(group)
        fold = Fold(merged, special)
        # layer by layer, so that what is asked for meanwhile need not wait for all of them
        statistics = [
            await explorer.service.compute(functools.partial(traced.summary, layer_group, layer, fold), request)
            for layer in layer_group.layers
        ]
        return as_json({"layers": layer_group.layers, "heads": statistics}, headers=KEPT)

    @app.get(f"{at}/matrix", response_class=Numbers)
    async def matrix(
        request: Request, name: str, layer: Name, head: Index, stage: Literal["scores", "masked", "weights"] = "weights"
    ) -> Response:
        """One head: (queries, keys), weights or scores."""
        return await explorer.numbers(request, name, lambda traced: traced.stage(layer, head, stage))

    @app.get(f"{at}/row", response_class=Numbers)
    async def row(request: Request, name: str, group: Name, q: Index | None = None, k: Index | None = None) -> Response:
        """One query, or one key, through all layers and heads."""
        layer_group = explorer.trace(name).group(group)
        if (q is None) == (k is None):
            raise Problem(422, "give q or k")
        _within("q", q, layer_group.queries)
        _within("k", k, layer_group.keys)
        return await explorer.numbers(request, name, lambda traced: traced.row(layer_group, query=q, key=k))


def _heads(app: FastAPI, explorer: Explorer) -> None:
    at = "/api/v1/traces/{name}"

    @app.get(f"{at}/thumbs", response_class=Numbers)
    async def thumbs(
        request: Request,
        name: str,
        group: Name,
        first: Index = 0,
        count: Annotated[int, Query(ge=1, le=64)] = 8,
        size: Annotated[int, Query(ge=1, le=64)] = 32,
        merged: bool = False,
        special: Special = "",
    ) -> Response:
        """Small pictures of all heads of some layers: (layers, heads, rows, columns), from 0 to 255."""
        layer_group = explorer.trace(name).group(group)
        chosen, fold = slice(first, first + count), Fold(merged, special)
        _within("first", first, layer_group.layers)
        return await explorer.numbers(request, name, lambda traced: traced.thumbnails(layer_group, size, chosen, fold))

    @app.get(f"{at}/salient")
    async def salient(request: Request, name: str, layer: Name, merged: bool = False) -> Response:
        """The pair of words of a layer that tells most: its head, query, key and weight."""
        traced = explorer.trace(name)
        return as_json(
            await explorer.service.compute(lambda: traced.salient_pair(layer, merged), request), headers=KEPT
        )

    @app.get(f"{at}/alike", response_class=Numbers)
    async def alike(request: Request, name: str, layer: Name) -> Response:
        """How alike the heads of a layer are: (heads, heads)."""
        return await explorer.numbers(request, name, lambda traced: traced.alike(layer))


def _maps(app: FastAPI, explorer: Explorer) -> None:
    at = "/api/v1/traces/{name}"

    @app.get(f"{at}/overview")
    async def overview(request: Request, name: str, layer: Name, head: Index) -> Response:
        """What a map of a long input begins with: the block of its cells, the largest values, the largest weight."""
        traced = explorer.trace(name)
        return as_json(await explorer.service.compute(lambda: traced.overview(layer, head), request), headers=KEPT)

    @app.get(f"{at}/tile", response_class=Numbers)
    async def tile(
        request: Request,
        name: str,
        layer: Name,
        head: Index,
        block: Annotated[int, Query(ge=1, le=1 << 20, description="a power of two; 1: exact weights")] = 1,
        how: How = "max",
        down: Index = 0,
        across: Index = 0,
    ) -> Response:
        """Up to 512 x 512 cells of a map: the largest weight, or the mean, of blocks; minus infinity: forbidden."""
        place = down, across
        return await explorer.numbers(
            request, name, lambda traced: traced.tile(layer, head, block, how, place), single=True
        )


def _rows(app: FastAPI, explorer: Explorer) -> None:
    at = "/api/v1/traces/{name}"

    @app.get(f"{at}/thumb", response_class=Numbers)
    async def thumb(
        request: Request, name: str, layer: Name, head: Index, size: Annotated[int, Query(ge=1, le=64)] = 32
    ) -> Response:
        """The small picture of one head of a long input: (rows, columns), from 0 to 255."""
        return await explorer.numbers(request, name, lambda traced: traced.small(layer, head, size))

    @app.get(f"{at}/rows", response_class=Numbers)
    async def rows(
        request: Request,
        name: str,
        layer: Name,
        head: Index,
        q: Index,
        count: Annotated[int, Query(ge=1, le=128)] = 1,
    ) -> Response:
        """Exact rows of a head: (queries, keys); minus infinity where the mask forbids a pair."""
        _within("q", q, explorer.trace(name).group_of(layer).queries)
        queries = slice(q, q + count)
        return await explorer.numbers(request, name, lambda traced: traced.rows(layer, head, queries), single=True)


async def _traced(explorer: Explorer, service: Service, verb: str, ask: AskTraced, request: Request) -> Response:
    await open_checkpoint(service, ask.model, request)
    run = service.find(ask.model, "trace")
    check_input(ask, service.limits)
    check_text(ask.target or "", service.limits)
    traces, noted, label = await service.compute(lambda: _trace_input(explorer, run, ask), request)
    for trace in traces:
        explorer.store.put(trace)
    trace = traces[-1]
    # an edit does not lead to another head
    opens = await service.compute(lambda: {group.name: traces[0].opening(group) for group in traces[0].groups}, request)
    groups = [
        {
            **asdict(group),
            "long": group.long,
            "whole": group.whole,
            "compared": comparable(group),
            "opens": opens.get(group.name),
        }
        for group in trace.groups
    ]
    body = {"trace_id": trace.id, "model": run.name, "source": trace.source, "output": trace.output, "label": label}
    return as_json({**body, "groups": groups, **axes(trace), "warnings": noted, "change": trace.change}, 201)


def _trace_input(explorer: Explorer, run: LoadedRun, ask: AskTraced) -> tuple[list[Traced], list[str], str]:
    """The trace, behind it the one under edits if there are any; warnings; and of an example what is right."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        item, key = item_of(run, ask, explorer.examples, explorer.service.limits)
        run.check_target(ask.target or "", explorer.service.limits.shown_tokens)
        # a trace is named after all that it depends on, so one that is kept need not be made again
        stored = explorer.store.get(digest_of(run, item, ask.target, key))
        unedited = stored or traced(run, item, ask.target, key)
        if stored is None:
            unedited = replace(unedited, notes=_texts_of(caught))
        traces = [unedited, *([edited(run, unedited, ask.options.edits)] if ask.options.edits else [])]
    return traces, list(dict.fromkeys([*unedited.notes, *_texts_of(caught)])), _label(explorer, run, ask)


def _label(explorer: Explorer, run: LoadedRun, ask: AskTraced) -> str:
    """What is right, of an example; a node or a molecule that is typed may be one."""
    if ask.example is not None:
        return title_of(*explorer.examples.of(run)[ask.example]).label
    if ask.text is None or run.predictor.given not in ("node", "molecule"):
        return ""
    try:
        listed = [title_of(*pair) for pair in explorer.examples.of(run)]
    except HeadwiseError:
        return ""
    return next((example.label for example in listed if example.title == ask.text.strip()), "")


def _texts_of(caught: Sequence[warnings.WarningMessage]) -> tuple[str, ...]:
    return tuple(str(warning.message)[:500] for warning in caught)


def _within(name: str, value: int | None, there: list[str]) -> None:
    if value is not None and value >= len(there):
        raise Problem(422, f"{name}: {value} is beyond the last, {len(there) - 1}")

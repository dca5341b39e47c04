"""What the page Graph asks for: the nodes around one, where to draw them, and the weights of the edges between them."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from fastapi import Depends, FastAPI, Query, Request, Response
from jaxtyping import Float, Int
from pydantic import BaseModel

from headwise.errors import Unsupported
from headwise.explain.places import InGraph
from headwise.explain.ramps import class_colours
from headwise.explorer.explorer import KEPT, Explorer, Numbers
from headwise.explorer.layout import in_unit_square, layout
from headwise.explorer.traces import Group, Traced
from headwise.service.problems import Problem
from headwise.service.responses import as_json

# nodes that are drawn at once
MOST = 120


class Around(BaseModel):
    """Which nodes are meant.

    Args:
        around: a node by its place; None: the one that was asked about, or all nodes of a small graph.
        hops: steps from it, in whatever direction.
        most: nodes at most, the nearest and most looked at first.
    """

    group: Annotated[str, Query(max_length=200)]
    around: Annotated[int | None, Query(ge=0, le=1 << 24)] = None
    hops: Annotated[int, Query(ge=1, le=3)] = 1
    most: Annotated[int, Query(ge=1, le=MOST)] = 60


GenerationOptions = Annotated[Around, Depends()]


@dataclass(frozen=True, eq=False)
class Local:
    """A part of a graph.

    Args:
        places: of its nodes in the graph.
        hops: of each node, how far from the one in the middle.
        pairs: (query, key) of its edges, by the order of `places`.
        left: how many nodes within reach are left out.
        heard: of each node, how many nodes of the whole graph it hears of.
    """

    places: Int[np.ndarray, "nodes"]
    hops: Int[np.ndarray, "nodes"]
    pairs: Int[np.ndarray, "2 edges"]
    left: int
    heard: Int[np.ndarray, "nodes"]


def add_graphs(app: FastAPI, explorer: Explorer) -> None:
    at = "/api/v1/traces/{name}"

    @app.get(f"{at}/graph")
    async def graph(request: Request, name: str, selection: GenerationOptions) -> Response:
        """Nodes with names, kinds and places in the unit square; edges as (query, key)."""
        traced = explorer.trace(name)
        return as_json(await explorer.service.compute(lambda: _drawn(traced, selection), request), headers=KEPT)

    @app.get(f"{at}/edges", response_class=Numbers)
    async def edges(request: Request, name: str, selection: GenerationOptions) -> Response:
        """The weight of each edge in every layer and head: (layers, heads, edges)."""
        return await explorer.numbers(request, name, lambda traced: edge_weights(traced, selection))

    @app.get(f"{at}/spread", response_class=Numbers)
    async def spread(request: Request, name: str, selection: GenerationOptions) -> Response:
        """The entropy of what each node looks at, in nats: (layers, heads, nodes)."""
        return await explorer.numbers(request, name, lambda traced: entropies(traced, selection))


def local(traced: Traced, selection: Around) -> Local:
    """The nodes that are meant.

    Raises:
        Unsupported: for a trace that is of no graph.
        Problem: 422 for a node that is not there, or none of a graph that is too large to be drawn.
    """
    query, key = _pairs(traced, traced.group(selection.group))
    assert isinstance(traced.places, InGraph), "pairs are those of a graph"
    count = len(traced.places.names)
    middle = traced.places.chosen if selection.around is None else selection.around
    if middle is not None and middle >= count:
        raise Problem(422, f"around: {middle} is beyond the last node, {count - 1}")
    if middle is None and count > selection.most:
        raise Problem(422, f"{count:,} nodes are too many to be drawn", "say around which node")
    hops = np.zeros(count, np.int64) if middle is None else _hops(query, key, middle, count, selection.hops)
    within = np.flatnonzero(hops >= 0)
    # of those that are as near, the ones that the node in the middle looks at most
    attention = np.zeros(count) if middle is None else _mean_attention(traced, middle)
    order = within[np.lexsort((within, -attention[within], hops[within]))]
    chosen = order[: selection.most]
    number = np.full(count, -1)
    number[chosen] = np.arange(len(chosen))
    inside = (number[query] >= 0) & (number[key] >= 0)
    pairs = np.stack([number[query[inside]], number[key[inside]]])
    heard = np.bincount(query, minlength=count)[chosen]
    return Local(chosen, hops[chosen], pairs, len(order) - len(chosen), heard)


def edge_weights(traced: Traced, selection: Around) -> Float[np.ndarray, "layers heads edges"]:
    """The weights of the edges of a part of a graph, in the order of its pairs."""
    part, group = local(traced, selection), traced.group(selection.group)
    weights = np.zeros((len(group.layers), group.heads, part.pairs.shape[1]))
    for number, place in enumerate(part.places.tolist()):
        (mine,) = np.nonzero(part.pairs[0] == number)
        if len(mine):
            weights[:, :, mine] = _row(traced, group, place)[:, :, part.places[part.pairs[1, mine]]]
    return weights


def entropies(traced: Traced, selection: Around) -> Float[np.ndarray, "layers heads nodes"]:
    """The entropy, in nats, of what each node of a part looks at in the whole graph."""
    part, group = local(traced, selection), traced.group(selection.group)
    rows = np.stack([_row(traced, group, place) for place in part.places.tolist()], axis=2)
    logs = np.log(rows, out=np.zeros_like(rows), where=rows > 0)
    # of a row that is one key, minus nought
    return np.abs((rows * logs).sum(-1))


def _drawn(traced: Traced, selection: Around) -> dict[str, Any]:
    part = local(traced, selection)
    assert isinstance(traced.places, InGraph), "it was looked at"
    joined = np.zeros((len(part.places),) * 2, bool)
    joined[part.pairs[0], part.pairs[1]] = True
    places = part.places.tolist()
    drawn = traced.places.spots
    spots = (layout(joined) if drawn is None else in_unit_square(drawn[places])).round(4).tolist()
    nodes = [
        {"place": place, "name": traced.places.names[place], "kind": traced.places.kinds[place]}
        | {"hop": hop, "x": x, "y": y, "heard": heard}
        for place, hop, (x, y), heard in zip(places, part.hops.tolist(), spots, part.heard.tolist(), strict=True)
    ]
    number = {place: at for at, place in enumerate(places)}
    bonds = [
        [number[first], number[second], order]
        for (first, second), order in traced.places.bonds.items()
        if first in number and second in number
    ]
    present = {node["kind"] for node in nodes}
    colours = class_colours(traced.places.classes)
    kinds = [(kind, colour) for kind, colour in colours.items() if kind in present]
    drawing = {
        "nodes": nodes,
        "kinds": kinds,
        "colours": colours,
        "pairs": part.pairs.T.tolist(),
        "bonds": bonds,
        "left": part.left,
    }
    return drawing | {"total": len(traced.places.names)}


def _pairs(traced: Traced, group: Group) -> tuple[np.ndarray, np.ndarray]:
    """(query, key) of every edge of the whole graph."""
    calls = traced.trace[group.layers[0]].calls
    mask = calls[0].call.mask if calls else None
    pairs = None if mask is None else mask.structure().pairs
    if pairs is None or not isinstance(traced.places, InGraph) or len(group.queries) != len(group.keys):
        raise Unsupported(f"{group.name} is not attention between the nodes of a graph")
    return pairs.query.cpu().numpy(), pairs.key.cpu().numpy()


def _hops(query: np.ndarray, key: np.ndarray, middle: int, count: int, most: int) -> Int[np.ndarray, "nodes"]:
    """How many steps each node is from one, in whatever direction; -1 for those that are farther than the most."""
    hops = np.full(count, -1)
    hops[middle] = 0
    for step in range(1, most + 1):
        reached = hops >= 0
        wider = np.concatenate([key[reached[query]], query[reached[key]]])
        hops[wider[hops[wider] < 0]] = step
    return hops


def _mean_attention(traced: Traced, place: int) -> Float[np.ndarray, "nodes"]:
    """How much a node looks at each other in all layers, so that every layer of a trace has the same nodes."""
    assert isinstance(traced.places, InGraph), "it was looked at"
    count = len(traced.places.names)
    between = [group for group in traced.groups if len(group.queries) == len(group.keys) == count]
    mean: np.ndarray = sum(_row(traced, group, place).mean((0, 1)) for group in between) / len(between)
    return mean


def _row(traced: Traced, group: Group, place: int) -> Float[np.ndarray, "layers heads nodes"]:
    rows = slice(place, place + 1)
    return np.stack([traced.weights(layer, None, rows)[:, 0] for layer in group.layers])

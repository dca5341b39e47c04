"""What the page Graph asks for: the nodes around one, where to draw them, and the weights of the edges between them."""

import json
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from fastapi import Depends, FastAPI, Query, Request, Response
from jaxtyping import Float, Int
from pydantic import BaseModel

from headwise.errors import Unsupported
from headwise.explain.places import InGraph
from headwise.explain.ramps import class_colours
from headwise.explorer.explorer import KEPT, Explorer, Numbers
from headwise.explorer.layout import layout
from headwise.explorer.traces import Group, Traced
from headwise.service.problems import Problem

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


Asked = Annotated[Around, Depends()]


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
    """Adds the routes of graphs."""
    at = "/api/v1/traces/{name}"

    @app.get(f"{at}/graph")
    async def graph(request: Request, name: str, asked: Asked) -> Response:
        """Nodes with names, kinds and places in the unit square; edges as (query, key)."""
        one = explorer.trace(name)
        job = explorer.service.submit(lambda _: [_drawn(one, asked)], [None])
        (told,) = await explorer.service.answer(job, request)
        return Response(told, media_type="application/json", headers=KEPT)

    @app.get(f"{at}/edges", response_class=Numbers)
    async def edges(request: Request, name: str, asked: Asked) -> Response:
        """The weight of each edge in every layer and head: (layers, heads, edges)."""
        return await explorer.numbers(request, name, lambda one: edge_weights(one, asked))

    @app.get(f"{at}/spread", response_class=Numbers)
    async def spread(request: Request, name: str, asked: Asked) -> Response:
        """The entropy of what each node looks at, in nats: (layers, heads, nodes)."""
        return await explorer.numbers(request, name, lambda one: entropies(one, asked))


def local(one: Traced, asked: Around) -> Local:
    """The nodes that are meant.

    Raises:
        Unsupported: for a trace that is of no graph.
        Problem: 422 for a node that is not there, or none of a graph that is too large to be drawn.
    """
    query, key = _pairs(one, one.group(asked.group))
    assert isinstance(one.places, InGraph), "pairs are those of a graph"
    count = len(one.places.names)
    middle = one.places.chosen if asked.around is None else asked.around
    if middle is not None and middle >= count:
        raise Problem(422, f"around: {middle} is beyond the last node, {count - 1}")
    if middle is None and count > asked.most:
        raise Problem(422, f"{count:,} nodes are too many to be drawn", "say around which node")
    hops = np.zeros(count, np.int64) if middle is None else _hops(query, key, middle, count, asked.hops)
    within = np.flatnonzero(hops >= 0)
    # of those that are as near, the ones that the node in the middle looks at most
    looked = np.zeros(count) if middle is None else _looked(one, middle)
    order = within[np.lexsort((within, -looked[within], hops[within]))]
    chosen = order[: asked.most]
    number = np.full(count, -1)
    number[chosen] = np.arange(len(chosen))
    inside = (number[query] >= 0) & (number[key] >= 0)
    pairs = np.stack([number[query[inside]], number[key[inside]]])
    heard = np.bincount(query, minlength=count)[chosen]
    return Local(chosen, hops[chosen], pairs, len(order) - len(chosen), heard)


def edge_weights(one: Traced, asked: Around) -> Float[np.ndarray, "layers heads edges"]:
    """The weights of the edges of a part of a graph, in the order of its pairs."""
    part, group = local(one, asked), one.group(asked.group)
    found = np.zeros((len(group.layers), group.heads, part.pairs.shape[1]))
    for number, place in enumerate(part.places.tolist()):
        (mine,) = np.nonzero(part.pairs[0] == number)
        if len(mine):
            found[:, :, mine] = _row(one, group, place)[:, :, part.places[part.pairs[1, mine]]]
    return found


def entropies(one: Traced, asked: Around) -> Float[np.ndarray, "layers heads nodes"]:
    """The entropy, in nats, of what each node of a part looks at in the whole graph."""
    part, group = local(one, asked), one.group(asked.group)
    rows = np.stack([_row(one, group, place) for place in part.places.tolist()], axis=2)
    logs = np.log(rows, out=np.zeros_like(rows), where=rows > 0)
    # of a row that is one key, minus nought
    return np.abs((rows * logs).sum(-1))


def _drawn(one: Traced, asked: Around) -> str:
    part = local(one, asked)
    assert isinstance(one.places, InGraph), "it was looked at"
    joined = np.zeros((len(part.places),) * 2, bool)
    joined[part.pairs[0], part.pairs[1]] = True
    spots = layout(joined).round(4).tolist()
    nodes = [
        {"place": place, "name": one.places.names[place], "kind": one.places.kinds[place], "hop": hop, "x": x, "y": y}
        | {"heard": heard}
        for place, hop, (x, y), heard in zip(
            part.places.tolist(), part.hops.tolist(), spots, part.heard.tolist(), strict=True
        )
    ]
    number = {place: at for at, place in enumerate(part.places.tolist())}
    bonds = [
        [number[first], number[second], order]
        for (first, second), order in one.places.bonds.items()
        if first in number and second in number
    ]
    present = {node["kind"] for node in nodes}
    kinds = [(kind, colour) for kind, colour in class_colours(one.places.classes).items() if kind in present]
    told = {"nodes": nodes, "kinds": kinds, "pairs": part.pairs.T.tolist(), "bonds": bonds, "left": part.left}
    return json.dumps(told | {"total": len(one.places.names)})


def _pairs(one: Traced, group: Group) -> tuple[np.ndarray, np.ndarray]:
    """(query, key) of every edge of the whole graph."""
    calls = one.trace[group.layers[0]].calls
    mask = calls[0].call.mask if calls else None
    pairs = None if mask is None else mask.structure().pairs
    if pairs is None or not isinstance(one.places, InGraph) or len(group.queries) != len(group.keys):
        raise Unsupported(f"{group.name} is not attention between the nodes of a graph")
    return pairs.query.cpu().numpy(), pairs.key.cpu().numpy()


def _hops(query: np.ndarray, key: np.ndarray, middle: int, count: int, most: int) -> Int[np.ndarray, "nodes"]:
    """How many steps each node is from one, in whatever direction; -1 for those that are farther than the most."""
    found = np.full(count, -1)
    found[middle] = 0
    for step in range(1, most + 1):
        reached = found >= 0
        wider = np.concatenate([key[reached[query]], query[reached[key]]])
        found[wider[found[wider] < 0]] = step
    return found


def _looked(one: Traced, place: int) -> Float[np.ndarray, "nodes"]:
    """How much a node looks at each other in all layers, so that every layer of a trace has the same nodes."""
    assert isinstance(one.places, InGraph), "it was looked at"
    count = len(one.places.names)
    between = [group for group in one.groups if len(group.queries) == len(group.keys) == count]
    found: np.ndarray = sum(_row(one, group, place).mean((0, 1)) for group in between) / len(between)
    return found


def _row(one: Traced, group: Group, place: int) -> Float[np.ndarray, "layers heads nodes"]:
    rows = slice(place, place + 1)
    return np.stack([one.weights(layer, None, rows)[:, 0] for layer in group.layers])

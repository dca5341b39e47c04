"""What the page Positions asks for: what a scheme adds, turns or scores, and how alike positions are for it."""

import inspect
from typing import Annotated, Any, Literal

import numpy as np
import torch
from fastapi import Depends, FastAPI, Query, Request, Response
from jaxtyping import Float
from pydantic import BaseModel
from torch import nn

from headwise import positions
from headwise.errors import ConfigError, HeadwiseError, Unsupported, unknown
from headwise.explorer.explorer import Explorer, Numbers
from headwise.explorer.wire import npy
from headwise.positions.position import Position, square
from headwise.service.app import Service
from headwise.service.responses import NOT_KEPT, as_json

Role = Literal["vectors", "turns", "scores"]
# heads of a scheme that is of no run
_HEADS = 8
# numbers that are alike for every pair of a distance
_ALIKE = 1e-5


class GenerationOptions(BaseModel):
    """Which scheme, and how much of it.

    Args:
        kind: one of the library; or, with `model`, the name of a module of a run.
        d: columns; a scheme of a run has its own.
        head: of a scheme that adds to scores.
    """

    kind: Annotated[str, Query(max_length=200)]
    model: Annotated[str | None, Query(max_length=200)] = None
    n: Annotated[int, Query(ge=1, le=512)] = 64
    d: Annotated[int, Query(ge=1, le=512)] = 64
    base: Annotated[float, Query(gt=1, le=1e9, allow_inf_nan=False)] = 10_000.0
    head: Annotated[int, Query(ge=0, le=1 << 10)] = 0
    what: Literal["values", "similarity"] = "values"


def add_positions(app: FastAPI, explorer: Explorer) -> None:
    service = explorer.service

    @app.get("/api/v1/positions")
    async def listed(request: Request) -> Response:
        """The schemes of the library, then those of the runs here."""
        # trying them draws numbers, which is the worker's alone: what it samples comes from the same generator
        schemes = await service.compute(lambda: [*_library_schemes(), *_of_runs(service)], request)
        return as_json({"positions": schemes})

    @app.get("/api/v1/positional", response_class=Numbers)
    async def positional(request: Request, options: Annotated[GenerationOptions, Depends()]) -> Response:
        """Values: (n, d) of vectors or of turned unit vectors, (n, n) of what is added to scores. Similarity: (n) by
        distance, or (n, n) where it is not of the distance alone."""
        body = await service.compute(lambda: _answer(service, options), request)
        return Numbers(body, headers=NOT_KEPT)


def _answer(service: Service, options: GenerationOptions) -> bytes:
    if options.model is None:
        scheme, width = built(options.kind, options.n, options.d, options.base), options.d
    else:
        schemes = _modules(service.find(options.model, "trace").predictor.model)
        if options.kind not in schemes:
            raise ConfigError(unknown("position of this run", options.kind, schemes))
        scheme = schemes[options.kind]
        width = _width(scheme)
    vectors = values(scheme, options.n, width, options.head)
    return npy((vectors if options.what == "values" else similarity(scheme, vectors)).astype(np.float32))


def built(kind: str, n: int, d: int, base: float) -> Position:
    """A scheme of the library, untrained: what is learned is drawn at random, the same on every call.

    Raises: ConfigError for another name, or sizes that it cannot have.
    """
    # a name such as module:Class would import what a request says
    if kind not in positions.names():
        raise ConfigError(unknown("position", kind, positions.names()))
    position_type = positions.position_type(kind)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        if _has_base(position_type):
            grid = {"width": square(kind, n)} if "width" in inspect.signature(position_type).parameters else {}
            return position_type(d, base=base, **grid)
        # whose shares of the query's position begin at this length
        return position_type.sized(d, d, _HEADS, max(1, n // 4) if kind == "fire" else n)


def role(scheme: Position) -> Role | None:
    """What a scheme does to positions, whatever stands there; None: nothing, or what depends on that alone."""
    kind = type(scheme)
    if not kind.steps:
        return None
    if kind.embed is not Position.embed:
        return "vectors"
    if scheme.acts_on_scores():
        return "scores"
    return "turns" if scheme.acts_in_attention() else None


@torch.no_grad()
def values(scheme: Position, n: int, d: int, head: int = 0) -> Float[np.ndarray, "n columns"]:
    """What a scheme does to n positions.

    Vectors: what is added to each embedding. Turns: a unit vector, turned in each pair of columns, whose two numbers
    stand side by side. Scores: what is added to each pair of query and key, of one head.

    Raises:
        Unsupported: for a scheme that does nothing, or whose effect depends on the input.
        HeadwiseError: for positions that it has not.

    >>> values(built("sinusoidal", 2, 4, 10000.0), 2, 4).round(2).tolist()
    [[0.0, 1.0, 0.0, 1.0], [0.8399999737739563, 0.5400000214576721, 0.009999999776482582, 1.0]]
    """
    does, device = role(scheme), next((p.device for p in scheme.parameters()), torch.device("cpu"))
    if does == "vectors":
        return scheme.embed(torch.zeros(1, n, d, device=device), 0)[0].float().cpu().numpy()
    if does == "turns":
        halves = getattr(scheme, "layout", "interleaved") == "half"
        order = torch.arange(d).view(2, -1).T.flatten() if halves else torch.arange(d)
        unit = torch.zeros(1, 1, n, d)
        unit[..., order[::2]] = 1.0
        return scheme.rotate(unit, 0)[0, 0][:, order].numpy()
    if does == "scores":
        return _added(scheme, torch.zeros(1, _heads(scheme), n, d, device=device), head)
    raise _depends(scheme)


def similarity(scheme: Position, vectors: Float[np.ndarray, "n columns"]) -> np.ndarray:
    """Cosines of positions, or what is added to the score of each pair: (n) by distance, if that is all it depends on.

    >>> scheme = built("rotary", 5, 4, 100.0)
    >>> similarity(scheme, values(scheme, 5, 4)).round(2).tolist()[:2]
    [1.0, 0.7699999809265137]
    """
    pairs = vectors
    if role(scheme) != "scores":
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit = vectors / np.where(lengths > 0, lengths, 1.0)
        pairs = unit @ unit.T
    apart = np.abs(np.arange(len(pairs))[:, None] - np.arange(len(pairs)))
    by_distance = pairs[0]
    return by_distance if np.abs(by_distance[apart] - pairs).max() < _ALIKE * max(1e-9, np.abs(pairs).max()) else pairs


def _added(scheme: Position, none: torch.Tensor, head: int) -> Float[np.ndarray, "n n"]:
    n = none.shape[2]
    relative = scheme.relative(none, none, 1 - n, n - 1)
    if relative is None:
        table, other = scheme.bias(none, none, 0), scheme.bias(none + 1, none + 1, 0)
        table = table if table is not None and other is not None and torch.equal(table, other) else None
    else:
        terms = (relative.query_table, relative.key_table, relative.value_table)
        table = relative.bias(n, n) if all(term is None for term in terms) else None
    if table is None:
        raise _depends(scheme)
    if head >= table.shape[1]:
        raise ConfigError(f"positions of kind {_kind(scheme)} have heads 0 to {table.shape[1] - 1} here, not {head}")
    return table[0, head].float().cpu().numpy()


def _depends(scheme: Position) -> Unsupported:
    name = _kind(scheme)
    if type(scheme).where == "nowhere":
        return Unsupported(f"positions of kind {name} do nothing: there is nothing to draw")
    return Unsupported(f"positions of kind {name} are not drawn by themselves: what they do depends on the input")


def _heads(scheme: Position) -> int:
    """Heads of a scheme that adds to scores; a table of such numbers has a column for each."""
    table = getattr(scheme, "table", None)
    return int(getattr(scheme, "num_heads", 1 if table is None else table.shape[-1]))


def _kind(scheme: Position) -> str:
    return type(scheme).__module__.rpartition(".")[2]


def _library_kind(scheme: Position) -> str | None:
    """The name of a scheme in the library; None: it is somebody's own."""
    kind = _kind(scheme)
    return kind if kind in positions.names() and positions.position_type(kind) is type(scheme) else None


def _library_schemes() -> list[dict[str, Any]]:
    lines = positions.catalogue()
    return [
        {"kind": kind, "line": lines[kind], **dict(details), "base": _has_base(positions.position_type(kind))}
        | _tried(built(kind, 4, 8, 10_000.0), 8)
        for kind, details in positions.details().items()
    ]


def _of_runs(service: Service) -> list[dict[str, Any]]:
    schemes = [
        {"kind": name, "model": run.name, "library": _library_kind(scheme), "line": type(scheme).__name__}
        | {"where": type(scheme).where, "base": False}
        | _tried(scheme, _width(scheme))
        for run in service.runs.values()
        for name, scheme in _modules(run.predictor.model).items()
    ]
    return [scheme_row for scheme_row in schemes if scheme_row["does"]]


def _tried(scheme: Position, d: int) -> dict[str, str | None]:
    """What can be drawn of a scheme, or why nothing can, found by trying."""
    try:
        values(scheme, 4, d)
    except (HeadwiseError, RuntimeError) as error:
        # one of somebody's own may need other sizes
        return {"does": None, "why": str(error)[:500]}
    return {"does": role(scheme)}


def _modules(model: nn.Module) -> dict[str, Position]:
    return {name: module for name, module in model.named_modules() if isinstance(module, Position)}


def _width(scheme: Position) -> int:
    """Columns of the vectors of a scheme that has its own."""
    widths = (getattr(scheme, name, None) for name in ("head_dim", "d_model"))
    table = getattr(scheme, "table", None)
    return next((int(width) for width in widths if width), 1 if table is None else int(table.shape[-1]))


def _has_base(kind: type[Position]) -> bool:
    return "base" in inspect.signature(kind).parameters

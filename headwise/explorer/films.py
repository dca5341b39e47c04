"""The films of trainings: what the page that plays them asks for, frames as numbers that never change."""

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import numpy as np
from fastapi import FastAPI, Query, Request, Response

from headwise.errors import Unsupported
from headwise.explain import heads as of_heads
from headwise.explain.reel import Reel
from headwise.explorer.explorer import KEPT, Name, Numbers, as_numbers
from headwise.explorer.wire import npy
from headwise.runs.film import has_film
from headwise.service.app import Service
from headwise.service.problems import Problem
from headwise.service.responses import as_json

T = TypeVar("T")

# films that are told of at once; an older one is asked for again
_REELS = 32
Index = Annotated[int, Query(ge=0, le=1 << 40)]


class Films:
    """The films of a service's runs by their identities."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._reels: dict[str, Reel] = {}

    def of_run(self, model: str) -> Reel:
        """The film of a run as it is now. Raises: Problem 404 where there is none; CheckpointError if it is damaged."""
        run = self._service.find(model, "trace")
        if run.folder is None:
            raise Problem(404, f"{model} has no folder, so no film")
        if not has_film(run.folder):
            hint = "train with film.every=50 for a frame every 50 steps"
            raise Problem(404, f"{model} has no film of its training", hint)
        reel = Reel(run.folder)
        cached = self._reels.setdefault(reel.identity, reel)
        while len(self._reels) > _REELS:
            self._reels.pop(next(iter(self._reels)))
        return cached

    async def asked(self, request: Request, identity: str, work: Callable[[Reel], T]) -> T:
        """What the work makes of a film. Raises: Problem 404 for one that was not told of."""
        # asked once: the worker may let it go at any moment
        reel = self._reels.get(identity)
        if reel is None:
            raise Problem(404, "this film is not known any more", "GET /api/v1/films/MODEL tells what it is called now")
        return await self._service.compute(lambda: work(reel), request)

    async def numbers(self, request: Request, identity: str, work: Callable[[Reel], np.ndarray]) -> Response:
        body = await self.asked(request, identity, lambda reel: npy(work(reel)))
        return as_numbers(body, "ask for a single head")


def add_films(app: FastAPI, service: Service) -> None:
    films = Films(service)
    _add_descriptions(app, service, films)
    _add_pictures(app, films)


def _add_descriptions(app: FastAPI, service: Service, films: Films) -> None:
    @app.get("/api/v1/films")
    async def known(request: Request) -> Response:
        """The runs that have a film."""
        return as_json({"models": [run.name for run in service.runs.values() if run.folder and has_film(run.folder)]})

    @app.get("/api/v1/films/{model}")
    async def film(request: Request, model: str) -> Response:
        """The film of a run: its name, steps, probes, layers, and the heads that choose no key at the end."""
        description = await service.compute(lambda: described(films.of_run(model)), request)
        return as_json({"model": model, **description})

    @app.get("/api/v1/films/{identity}/axes")
    async def axes(request: Request, identity: str, step: Index, probe: Index, layer: Name) -> Response:
        """What the rows and the columns of a layer are, and what the model answered at that step."""
        labels, output = await films.asked(
            request, identity, lambda reel: (reel.axes(step, probe, layer).model_dump(), reel.output(step, probe))
        )
        return as_json({**labels, "output": output}, headers=KEPT)


def _add_pictures(app: FastAPI, films: Films) -> None:
    at = "/api/v1/films/{identity}"

    @app.get(f"{at}/matrix", response_class=Numbers)
    async def matrix(request: Request, identity: str, step: Index, probe: Index, layer: Name, head: Index) -> Response:
        """The weights of one head at one step: (queries, keys), minus infinity where its mask forbids a pair."""
        return await films.numbers(request, identity, lambda reel: _head(_masked(reel, step, probe, layer), head))

    @app.get(f"{at}/thumbs", response_class=Numbers)
    async def thumbs(
        request: Request,
        identity: str,
        step: Index,
        probe: Index,
        layer: Name,
        size: Annotated[int, Query(ge=1, le=64)] = 32,
    ) -> Response:
        """Small pictures of all heads of a layer at one step: (heads, rows, columns), from 0 to 255."""
        return await films.numbers(
            request, identity, lambda reel: of_heads.thumbnails(reel.weights(step, probe, layer), size)
        )

    @app.get(f"{at}/curves", response_class=Numbers)
    async def curves(request: Request, identity: str, layer: Name) -> Response:
        """What each head of a layer did over the training: (steps, statistics, heads)."""
        return await films.numbers(request, identity, lambda reel: reel.curves(layer))

    @app.get(f"{at}/agreement", response_class=Numbers)
    async def agreement(request: Request, identity: str, layer: Name) -> Response:
        """The share of rows that look most at the key that they look at most at the end: (steps, heads)."""
        return await films.numbers(request, identity, lambda reel: reel.agreement(layer))


def described(reel: Reel) -> dict[str, Any]:
    return {
        "film_id": reel.identity,
        "steps": reel.steps,
        "statistics": reel.statistics,
        "probes": reel.probes,
        "layers": [{"name": name, "heads": heads, "opens": reel.telling(name)} for name, heads in reel.layers.items()],
        "flags": {layer: [flag._asdict() for flag in flags] for layer, flags in reel.flags.items()},
    }


def _masked(reel: Reel, step: int, probe: int, layer: str) -> np.ndarray:
    return np.where(reel.allowed(step, probe, layer), reel.weights(step, probe, layer), -np.inf)


def _head(weights: np.ndarray, head: int) -> np.ndarray:
    if head >= len(weights):
        raise Unsupported(f"this layer has heads 0 to {len(weights) - 1}, not {head}")
    matrix: np.ndarray = weights[head]
    return matrix

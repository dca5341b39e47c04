"""What counts for an output of a trace, by the methods of attribution: their maps as numbers, beside what they say."""

from typing import Annotated

import numpy as np
from fastapi import FastAPI, Query, Request, Response
from jaxtyping import Float

from headwise.errors import ConfigError, Unsupported, unknown
from headwise.explain.attribution import Attribution
from headwise.explain.methods import METHODS
from headwise.explorer.content import described
from headwise.explorer.explorer import KEPT, Explorer, Name, Numbers
from headwise.explorer.traces import Traced
from headwise.predictors.attribution.attribute import attribute
from headwise.service.app import Service
from headwise.service.problems import Problem
from headwise.service.responses import as_json

# patching needs a second input
OFFERED = [name for name in METHODS if name != "patching"]
Head = Annotated[int | None, Query(ge=0, le=1 << 20)]


def add_attributions(app: FastAPI, explorer: Explorer) -> None:
    at = "/api/v1/traces/{name}/attribution"

    @app.get(at)
    async def attribution(request: Request, name: str, by: Name) -> Response:
        """The maps of a method, and its formula, source and limit."""
        traced = explorer.trace(name)
        maps = await explorer.service.compute(lambda: described(attributed(explorer.service, traced, by)), request)
        return as_json(maps, headers=KEPT)

    @app.get(f"{at}/map", response_class=Numbers)
    async def numbers(request: Request, name: str, by: Name, layer: Name, head: Head = None) -> Response:
        """The numbers of a map (queries, keys), with signs where there are some; of a head, or of all together."""
        return await explorer.numbers(
            request, name, lambda traced: _numbers(attributed(explorer.service, traced, by), layer, head)
        )


def attributed(service: Service, traced: Traced, by: str) -> Attribution:
    """The attribution of a trace by a method, made once.

    Raises: Problem 422 for a trace under edits; ConfigError and Unsupported as `attribute`.
    """
    if by not in OFFERED:
        raise ConfigError(unknown("attribution", by, OFFERED))
    if long := next((group for group in traced.groups if group.long), None):
        what = f"{len(long.queries):,} x {len(long.keys):,}"
        raise Unsupported(f"{long.name} has {what} pairs, too many to be attributed to; give a shorter input")
    if traced.edits:
        raise Problem(422, "attribution is of a model without edits", "undo the edits")
    if by not in traced.attributions:
        predictor = service.find(traced.run, "trace").predictor
        traced.attributions[by] = attribute(predictor, traced.item, by, traced.target)
    return traced.attributions[by]


def _numbers(attribution: Attribution, name: str, head: int | None) -> Float[np.ndarray, "queries keys"]:
    if name not in attribution.layers:
        raise ConfigError(unknown("layer", name, attribution.layers))
    return attribution.values(name, head)

"""What the page that compares asks for: measured times and memory from a file, and pictures of pairs."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Literal

from fastapi import FastAPI, Request, Response

from headwise.explorer.bench import Measurement, as_csv
from headwise.explorer.explorer import Numbers
from headwise.explorer.patterns import LENGTH, patterns
from headwise.explorer.wire import npy
from headwise.service.app import Service
from headwise.service.responses import as_json

# what makes records, and what shows them
_MADE_BY = "python -m benchmarks.lengths --json lengths.json"
_SHOWN_BY = "headwise explore RUN --bench lengths.json"


def bench_routes(records: Sequence[Measurement]) -> Callable[[FastAPI, Service], None]:
    """What adds these routes to a service."""
    measurements = [record.model_dump() for record in records]

    def add(app: FastAPI, service: Service) -> None:
        @app.get("/api/v1/bench", responses={200: {"content": {"text/csv": {}}}})
        async def bench(format: Literal["json", "csv"] = "json") -> Response:
            """Stored measurements; nothing is measured when a page asks."""
            if format == "csv":
                name = {"Content-Disposition": 'attachment; filename="headwise-bench.csv"'}
                return Response(as_csv(list(records)), media_type="text/csv; charset=utf-8", headers=name)
            return as_json({"records": measurements, "made_by": _MADE_BY, "shown_by": _SHOWN_BY})

        @app.get("/api/v1/patterns")
        async def named(request: Request) -> Response:
            """Masks and mechanisms of which there are pictures."""
            descriptions, _ = await service.compute(patterns, request)
            return as_json({"length": LENGTH, "patterns": [asdict(pattern) for pattern in descriptions]})

        @app.get("/api/v1/patterns/pairs", response_class=Numbers)
        async def pairs(request: Request) -> Response:
            """The pictures: (patterns, queries, keys), from 0 to 255."""
            return Numbers(npy((await service.compute(patterns, request))[1]))

    return add

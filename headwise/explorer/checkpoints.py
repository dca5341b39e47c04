"""Checkpoints of runs as models of their own: RUN@STEP is the run RUN as it was after so many steps."""

from dataclasses import replace

from fastapi import FastAPI, Request, Response

from headwise.errors import CheckpointError
from headwise.explorer.explorer import Name
from headwise.service.app import Service
from headwise.service.loaded import LoadedRun
from headwise.service.problems import Problem
from headwise.service.responses import as_json
from headwise.training.loading import checkpoint_steps, load_step

# models of checkpoints in memory, the latest
_MOST = 4


def add_checkpoints(app: FastAPI, service: Service) -> None:
    @app.get("/api/v1/checkpoints")
    async def checkpoints(request: Request, model: Name) -> Response:
        """The steps of which a run keeps a checkpoint; MODEL@STEP traces it."""
        run = service.find(model, "trace")
        return as_json({"model": run.name, "steps": await service.compute(lambda: kept_steps(run), request)})


def kept_steps(run: LoadedRun) -> list[int]:
    """The steps of which a run keeps a checkpoint, in order; none of a model from elsewhere."""
    try:
        return [] if run.folder is None else checkpoint_steps(run.folder)
    except CheckpointError:
        return []


async def open_checkpoint(service: Service, name: str | None, request: Request) -> None:
    """Loads the checkpoint that a name RUN@STEP means, so that `Service.find` finds it; other names are left alone.

    Raises: Problem 404 where the run keeps no checkpoint of this step; CheckpointError where it is damaged.
    """
    base, mark, step = (name or "").rpartition("@")
    if not mark or name in service.runs or name in service.checkpoints:
        return
    run = service.find(base, "trace")
    service.checkpoints[f"{base}@{step}"] = await service.compute(lambda: _loaded(run, step), request)
    while len(service.checkpoints) > _MOST:
        service.checkpoints.pop(next(iter(service.checkpoints)))


def _loaded(run: LoadedRun, step: str) -> LoadedRun:
    steps = kept_steps(run)
    if run.folder is None or step not in map(str, steps):
        available = ", ".join(map(str, steps)) or "none"
        hint = "train with training.keep_last=20 to keep more"
        raise Problem(404, f"{run.name} keeps no checkpoint of step {step}, but of these: {available}", hint)
    predictor = load_step(run.folder, int(step))
    name, identity = f"{run.name}@{step}", f"{run.identity} step {step}"
    return replace(run, name=name, predictor=predictor, identity=identity, step=int(step))

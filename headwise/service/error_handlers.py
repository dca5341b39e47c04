"""Errors as problem documents."""

import re

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError

from headwise.errors import Diverged, HeadwiseError, MachineError
from headwise.service.problems import MEDIA_TYPE, Problem
from headwise.service.responses import NOT_KEPT

# from the start of a word on, up to the last name
_FOLDERS = re.compile(r"(?<![^\s'\"(])/(?:[^\s/:;,'\"]+/)*(?=[^\s/])")


def add_error_handlers(app: FastAPI) -> None:
    """Every error becomes a problem document."""
    app.add_exception_handler(Problem, _respond)
    app.add_exception_handler(HeadwiseError, _of_headwise)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(404, _not_found)
    app.add_exception_handler(405, _no_method)


def to_problem(error: HeadwiseError) -> Problem:
    """What the machine lacks, or a model does, is not the request's fault; where its files are is nobody's business."""
    return Problem(503 if isinstance(error, MachineError | Diverged) else 422, without_folders(str(error))[:500])


def without_folders(message: str) -> str:
    """A message whose absolute paths are the names of their files.

    >>> without_folders("/srv/runs/mood/config.toml: is damaged; see '/tmp/log'")
    "config.toml: is damaged; see 'log'"
    """
    return _FOLDERS.sub("", message)


async def _of_headwise(request: Request, error: Exception) -> Response:
    assert isinstance(error, HeadwiseError)
    return await _respond(request, to_problem(error))


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(str(part)[:40] for part in first["loc"][1:])
    return await _respond(request, Problem(422, f"{place}: {first['msg']}", "the keys are in /api/v1/openapi.json"))


async def _respond(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    headers = NOT_KEPT | error.headers
    return Response(error.body(), error.status, headers, media_type=MEDIA_TYPE)


async def _not_found(request: Request, error: Exception) -> Response:
    problem = Problem(404, "there is nothing at this address", "/api/v1/openapi.json lists what there is")
    return await _respond(request, problem)


async def _no_method(request: Request, error: Exception) -> Response:
    return await _respond(request, Problem(405, "this address does not answer this method"))

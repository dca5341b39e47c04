"""How answers are written: JSON, lines of it, the steps of a head; what is kept of them, and what is not."""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from fastapi import Response
from fastapi.responses import StreamingResponse

from headwise.service.limits import Limits
from headwise.service.problems import Problem

JSON, LINES = "application/json", "application/x-ndjson"
NOT_KEPT = {"Cache-Control": "no-store"}


def as_steps(told: str, limits: Limits, headers: Mapping[str, str]) -> Response:
    """Every step of a head. Raises: Problem 413 where they are too many numbers for an answer."""
    if len(told) > limits.shown_bytes:
        raise Problem(
            413, f"the steps have {len(told):,} bytes", "send a shorter text, or use `headwise explain --trace`"
        )
    return Response(told, headers=headers, media_type=JSON)


def as_json(told: Any, status: int = 200) -> Response:
    """An answer that nobody keeps; escapes keep what somebody sent from being anything but text."""
    return Response(json.dumps(told), status, NOT_KEPT, media_type=JSON)


def as_lines(told: AsyncIterator[bytes]) -> Response:
    """An answer of JSON lines, sent as they are made; nobody keeps it."""
    return StreamingResponse(told, headers=NOT_KEPT, media_type=LINES)

"""Responses: JSON, lines of it, the steps of a head; how long a client may keep them."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

from fastapi import Response
from fastapi.responses import StreamingResponse

from headwise.files import json_text
from headwise.service.limits import Limits
from headwise.service.problems import Problem

JSON, LINES = "application/json", "application/x-ndjson"
NOT_KEPT = {"Cache-Control": "no-store"}


def as_steps(text: str, limits: Limits, headers: Mapping[str, str]) -> Response:
    """Every step of a head. Raises: Problem 413 where they are too many numbers for an answer."""
    if (size := len(text.encode())) > limits.shown_bytes:
        raise Problem(413, f"the steps have {size:,} bytes", "shorten the text, or use `headwise explain --trace`")
    return Response(text, headers=headers, media_type=JSON)


def as_json(content: Any, status: int = 200, headers: Mapping[str, str] = NOT_KEPT) -> Response:
    """An answer as JSON, which nobody keeps; escapes keep what somebody sent from being anything but text."""
    return Response(json_text(content, ascii=True), status, headers, media_type=JSON)


def line(content: Any) -> bytes:
    """A line of JSON lines."""
    return json_text(content, ascii=True).encode() + b"\n"


def as_lines(lines: AsyncIterator[bytes]) -> Response:
    """An answer of JSON lines, sent as they are made; nobody keeps it."""
    return StreamingResponse(lines, headers=NOT_KEPT, media_type=LINES)

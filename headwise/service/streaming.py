"""A continuation as it is written: JSON lines, a piece of text at a time."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from headwise.decoding.watching import Searched, watcher, watching
from headwise.errors import HeadwiseError
from headwise.service.served import Served
from headwise.service.worker import Expired, Job

_BROKEN = "\ufffd"


def streamed(submit: Callable[..., Job], run: Served, items: list[Any], options: Any) -> AsyncIterator[bytes]:
    """`{"text": piece}` for each piece, then `{"output": ...}`, what `predict` prints; or `{"error": ...}`.

    Pieces joined are the continuation, but for what a text to stop at cuts off. The work is submitted at once, so what
    refuses it is raised before an answer begins.
    """
    loop, pieces = asyncio.get_running_loop(), asyncio.Queue[dict[str, Any] | None]()

    def tell(piece: dict[str, Any] | None) -> None:
        loop.call_soon_threadsafe(pieces.put_nowait, piece)

    job = submit(lambda given: _written(run, given, options, tell), items)
    job.answer.add_done_callback(lambda _: tell(None))
    return _lines(job, pieces)


async def _lines(job: Job, pieces: asyncio.Queue[dict[str, Any] | None]) -> AsyncIterator[bytes]:
    try:
        while (piece := await pieces.get()) is not None:
            yield json.dumps(piece).encode() + b"\n"
        yield json.dumps(_ended(job)).encode() + b"\n"
    finally:
        job.give_up()


def _written(run: Served, items: list[Any], options: Any, tell: Callable[[dict[str, Any]], None]) -> list[Any]:
    outer, tokens, shown = watcher(), list[int](), ""
    tokenizer = run.predictor.tokenizer  # type: ignore[attr-defined]

    def step(found: Searched) -> None:
        nonlocal shown
        if outer is not None:
            outer(found)
        tokens.append(int(found.tokens[0]))
        text = tokenizer.decode(tokens)
        # a character of several tokens is shown when it is whole
        if text.startswith(shown) and not text.endswith(_BROKEN) and text != shown:
            tell({"text": text[len(shown) :]})
            shown = text

    with watching(step):
        return run.answers(items, options)


def _ended(job: Job) -> dict[str, Any]:
    try:
        (output,) = job.answer.result()
    except Expired:
        return {"error": "the request took too long"}
    except HeadwiseError as error:
        return {"error": str(error)[:500]}
    return {"output": output}

"""Responses sent while the work goes on: JSON lines, a continuation piece by piece."""

import asyncio
import logging
import secrets
import weakref
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import nullcontext
from typing import Any

from headwise.decoding.hypotheses import SearchStep, observe_search
from headwise.errors import HeadwiseError
from headwise.service.error_handlers import without_folders
from headwise.service.loaded import LoadedRun
from headwise.service.problems import Problem
from headwise.service.responses import line
from headwise.service.worker import Expired, Job

_BROKEN = "\ufffd"
_log = logging.getLogger("headwise.service")


Told = dict[str, Any]


def streamed(
    submit: Callable[..., Job],
    work: Callable[[list[Any], Callable[[Told], None]], Sequence[Any]],
    items: list[Any],
    last: Callable[[Any], Told],
) -> AsyncIterator[bytes]:
    """What the work tells while it is done, an object a line; then what `last` makes of its answer, or an error.

    The work is submitted at once, so what refuses it is raised before an answer begins. When nobody reads any more it
    is given up.

    Args:
        work: from one item, and whom to tell, to one answer.
    """
    loop, pieces = asyncio.get_running_loop(), asyncio.Queue[Told | None]()

    def tell(piece: Told | None) -> None:
        loop.call_soon_threadsafe(pieces.put_nowait, piece)

    job = submit(lambda inputs: work(inputs, tell), items)
    job.answer.add_done_callback(lambda _: tell(None))
    lines = _lines(job, pieces, last)
    # who leaves before the first line never begins to read, so nothing in there ends
    weakref.finalize(lines, job.give_up).atexit = False
    return lines


async def _lines(job: Job, pieces: asyncio.Queue[Told | None], last: Callable[[Any], Told]) -> AsyncIterator[bytes]:
    try:
        while (piece := await pieces.get()) is not None:
            yield line(piece)
        yield line(_ended(job, last))
    finally:
        job.give_up()


def _ended(job: Job, last: Callable[[Any], Told]) -> Told:
    try:
        (answer,) = job.answer.result()
        return last(answer)
    except Exception as error:
        return failed(error)


def failed(error: Exception) -> Told:
    """The last line of an answer that had begun when something went wrong."""
    if isinstance(error, Expired):
        return {"error": "the request took too long; ask for less"}
    if isinstance(error, HeadwiseError | Problem):
        return {"error": without_folders(str(error))[:500]}
    number = secrets.token_hex(4)
    _log.error("request %s failed", number, exc_info=error)
    return {"error": f"something went wrong; the log has it under {number}"}


def continued(run: LoadedRun, options: Any) -> Callable[[list[Any], Callable[[Told], None]], list[Any]]:
    """Work that tells a continuation as `{"text": piece}`; joined, they are all of it but for what `stop` cuts off."""

    def work(items: list[Any], tell: Callable[[Told], None]) -> list[Any]:
        tokens, sent = list[int](), ""
        tokenizer = run.predictor.writes()

        def step(update: SearchStep) -> None:
            nonlocal sent
            tokens.extend(update.after.tokens[:1, -1].tolist())
            text = tokenizer.decode(tokens)
            # a character of several tokens is shown when it is whole
            if text.startswith(sent) and not text.endswith(_BROKEN) and text != sent:
                tell({"text": text[len(sent) :]})
                sent = text

        engines = run.predictor.engines()
        # another engine does not tell its steps
        with observe_search(step), nullcontext() if engines is None else engines.own():
            return run.answers(items, options)

    return work

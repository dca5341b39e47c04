"""One thread that does the work: jobs wait in a bounded queue, and those that go together are answered together."""

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from headwise.decoding.watching import Searched, watching
from headwise.wanted import while_wanted

# how long to wait for those who were answered together, as a share of the time that their answers took
_LINGER = 0.05


class Full(Exception):
    """As many jobs wait as may."""


class Expired(Exception):
    """The time of a job is over, or nobody waits for it any more."""


@dataclass(eq=False)
class Job:
    """Work for some items.

    Args:
        run: from the items of several jobs, one after another, to an answer for each.
        key: jobs with the same key are done together, by the `run` of the first; None: by itself.
        deadline: on the clock `time.monotonic`.
    """

    run: Callable[[list[Any]], Sequence[Any]]
    items: list[Any]
    key: Hashable | None
    deadline: float
    answer: "Future[Sequence[Any]]" = field(default_factory=Future)
    given_up: threading.Event = field(default_factory=threading.Event)

    def give_up(self) -> None:
        """Nobody waits for the answer any more."""
        self.given_up.set()

    def over(self) -> bool:
        """Whether there is no use in an answer."""
        return self.given_up.is_set() or time.monotonic() > self.deadline


class Worker:
    """Answers jobs in the order in which they came.

    Work is ended between two of its steps when nobody waits for any of its jobs. What goes wrong with several jobs
    together is tried again one by one, so that nobody pays for another's request.

    Args:
        waiting: jobs that may wait.
        together: items that are answered in one go.
        told: is told how many items were answered together.
    """

    def __init__(self, waiting: int, together: int, told: Callable[[int], None] = lambda _: None):
        self._jobs: deque[Job] = deque()
        self._begun: list[Job] = []
        self._waiting, self._together, self._told = waiting, together, told
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="headwise worker", daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        return len(self._jobs)

    def submit(self, job: Job) -> None:
        """Puts a job at the end of the queue. Raises: Full."""
        with self._changed:
            if len(self._jobs) >= self._waiting:
                self._drop_given_up()
            if self._closing or len(self._jobs) >= self._waiting:
                raise Full
            self._jobs.append(job)
            self._changed.notify()

    def close(self, wait_s: float) -> None:
        """Finishes what is begun and what waits, for at most so many seconds; then gives the rest up."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(wait_s)
        with self._changed:
            for job in (*self._begun, *self._jobs):
                job.give_up()

    def _drop_given_up(self) -> None:
        """Takes those out of the queue for whose answers nobody waits."""
        jobs, self._jobs = self._jobs, deque()
        for job in jobs:
            if job.over():
                job.answer.set_exception(Expired())
            else:
                self._jobs.append(job)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._jobs or self._closing)
                if not self._jobs:
                    return
                self._begun = self._take()
            begun = time.monotonic()
            self._answer(self._begun)
            self._linger(len(self._begun), _LINGER * (time.monotonic() - begun))

    def _linger(self, count: int, seconds: float) -> None:
        """Those who were answered together may ask again at once: a moment lets them be answered together again."""
        with self._changed:
            self._changed.wait_for(lambda: self._closing or not 1 < count > len(self._jobs), seconds)

    def _take(self) -> list[Job]:
        """The first job, and those behind it that go with it."""
        first = self._jobs.popleft()
        jobs, count = [first], len(first.items)
        if first.key is None:
            return jobs
        rest: deque[Job] = deque()
        while self._jobs:
            job = self._jobs.popleft()
            if job.key == first.key and count + len(job.items) <= self._together:
                jobs.append(job)
                count += len(job.items)
            else:
                rest.append(job)
        self._jobs = rest
        return jobs

    def _answer(self, jobs: list[Job]) -> None:
        alive = []
        for job in jobs:
            if job.over():
                job.answer.set_exception(Expired())
            else:
                alive.append(job)
        if not alive:
            return
        try:
            answers = self._run(alive)
        except Expired as error:
            for job in alive:
                job.answer.set_exception(error)
        except Exception as error:
            # whatever a model raises is the request's answer, not the end of the service
            if len(alive) == 1:
                alive[0].answer.set_exception(error)
            else:
                for job in alive:
                    self._answer([job])
        else:
            for job in alive:
                count = len(job.items)
                job.answer.set_result(answers[:count])
                answers = answers[count:]

    def _run(self, jobs: list[Job]) -> list[Any]:
        def still_wanted(step: Searched | None = None) -> None:
            if all(job.over() for job in jobs):
                raise Expired

        items = [item for job in jobs for item in job.items]
        self._told(len(items))
        with watching(still_wanted), while_wanted(still_wanted):
            return list(jobs[0].run(items))

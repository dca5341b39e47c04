"""One thread that does the work: jobs wait in a bounded queue, and those that go together are answered together."""

import math
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
_LINGER = 0.1
# of many items that wait together, how many are answered at once, so that there is a choice of lengths; what are few
_CHOSEN, _FEW = 0.75, 16
# how often a job may be passed over for others that are nearer in length
_PASSED = 4


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
        length: of its longest item, in any unit: work on items of like length costs less.
    """

    run: Callable[[list[Any]], Sequence[Any]]
    items: list[Any]
    key: Hashable | None
    deadline: float
    length: int = 0
    passed: int = 0
    answer: "Future[Sequence[Any]]" = field(default_factory=Future)
    given_up: threading.Event = field(default_factory=threading.Event)

    def give_up(self) -> None:
        """Nobody waits for the answer any more."""
        self.given_up.set()

    def over(self) -> bool:
        """Whether there is no use in an answer."""
        return self.given_up.is_set() or time.monotonic() > self.deadline


class Worker:
    """Answers jobs: always the one that waits longest, and those that go with it and are nearest to it in length.

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
        # how many jobs must wait for the thread to be woken
        self._awaited = 1
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
            if len(self._jobs) >= self._awaited:
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
                self._awaited = 1
                self._changed.wait_for(lambda: self._jobs or self._closing)
                if not self._jobs:
                    return
                self._begun = self._take()
            begun = time.monotonic()
            self._answer(self._begun)
            if len(self._begun) > 1:
                self._linger(_LINGER * (time.monotonic() - begun))

    def _linger(self, seconds: float) -> None:
        """Those who were answered together may ask again at once: a moment lets them be answered together again."""
        with self._changed:
            self._changed.wait_for(lambda: self._closing or len(self._jobs) >= self._awaited, seconds)

    def _take(self) -> list[Job]:
        """The first job, and of those that go with it the ones nearest to it in length, or passed over too often."""
        first = self._jobs[0]
        if first.key is None:
            return [self._jobs.popleft()]

        def distance(job: Job) -> int:
            return -1 if job is first or job.passed >= _PASSED else abs(job.length - first.length)

        fitting = [job for job in self._jobs if job.key == first.key]
        room = min(self._together, max(_FEW, math.ceil(_CHOSEN * sum(len(job.items) for job in fitting))))
        taken, count = dict[Job, None](), 0
        for job in sorted(fitting, key=distance):
            if taken and count + len(job.items) > room:
                job.passed += 1
            else:
                taken[job] = None
                count += len(job.items)
        self._jobs = deque(job for job in self._jobs if job not in taken)
        return list(taken)

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
            # all of these may ask again
            self._awaited = min(len(self._jobs) + len(alive), self._waiting)
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

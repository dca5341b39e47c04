"""One thread does the work: jobs wait in a bounded queue, and those that fit together are computed together."""

import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from headwise import runtime
from headwise.cancellation import cancelled_by
from headwise.decoding.hypotheses import SearchStep, observe_search
from headwise.predictors.predictor import OutputStream

# between two jobs that are computed as one batch, at most
_GATHER_S = 0.002
# without a job, after which the memory of the last ones is returned to the system
_IDLE_S = 1.0

Begins = Callable[[], OutputStream[Any, Any] | None]


class Full(Exception):
    """As many jobs wait as may."""


class Closed(Exception):
    """No more jobs are taken."""


class Expired(Exception):
    """The time of a job is over, or nobody waits for it any more."""


@dataclass(eq=False)
class Job:
    """Work for some items.

    Args:
        run: from the items of several jobs, one after another, to an output for each.
        key: jobs with the same key are done together, by what the first has; None: by itself.
        deadline: on the clock `time.monotonic`.
        flow: begins the same work as one that others may join; None if it cannot be done so after all.
        gathers: others cannot join it later, so it waits a moment for those that come at once.
    """

    run: Callable[[list[Any]], Sequence[Any]]
    items: list[Any]
    key: Hashable | None
    deadline: float
    flow: Begins | None = None
    gathers: bool = False
    answer: "Future[Sequence[Any]]" = field(default_factory=Future)
    given_up: threading.Event = field(default_factory=threading.Event)

    def give_up(self) -> None:
        """Nobody waits for the answer any more."""
        self.given_up.set()

    def over(self) -> bool:
        """Whether there is no use in an answer."""
        return self.given_up.is_set() or time.monotonic() > self.deadline


class Worker:
    """Answers jobs: always the one that waits longest, and those that go with it.

    Where the work is a flow, jobs that go with it join until work of another kind is next; each is answered as it ends,
    and leaves when nobody waits for it. Other work is ended between two of its steps when nobody waits for any of its
    jobs. What goes wrong with several jobs together is tried again one by one, so that nobody pays for another's.

    Args:
        together: items that are answered in one go.
        report_size: is told how many items were answered together.
    """

    def __init__(self, waiting: int, together: int, report_size: Callable[[int], None] = lambda _: None):
        self._jobs: deque[Job] = deque()
        self._begun: list[Job] = []
        self._waiting, self._together, self._report_size = waiting, together, report_size
        self._changed = threading.Condition()
        self.closed = False
        self._thread = threading.Thread(target=self._work, name="headwise worker", daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        return len(self._jobs)

    def submit(self, job: Job) -> None:
        """Puts a job at the end of the queue. Raises: Full, Closed."""
        with self._changed:
            if self.closed:
                raise Closed
            if len(self._jobs) >= self._waiting:
                self._drop_given_up()
            if len(self._jobs) >= self._waiting:
                raise Full
            self._jobs.append(job)
            self._changed.notify()

    def close(self, wait_s: float) -> None:
        """Finishes what is begun and what waits, for at most so many seconds; then gives the rest up."""
        with self._changed:
            self.closed = True
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
        idle_s: float | None = None
        while True:
            with self._changed:
                called = self._changed.wait_for(lambda: self._jobs or self.closed, idle_s)
                if self._jobs:
                    self._gather(self._jobs[0])
                    self._begun = self._take(self._jobs[0].key, self._together)
                elif called:
                    return
            if called:
                self._answer(self._begun)
                idle_s = _IDLE_S
            else:
                runtime.release_freed_memory()
                idle_s = None

    def _gather(self, first: Job) -> None:
        """Waits until a batch is full, or no further job comes for a moment."""
        while first.gathers and not self.closed and sum(len(job.items) for job in self._jobs) < self._together:
            if not self._changed.wait(_GATHER_S):
                return

    def _take(self, key: Hashable | None, room: int) -> list[Job]:
        """The first job, and those that go with it, as many as there is room for."""
        batch, count = dict[Job, None](), 0
        for job in self._jobs:
            if not batch or (key is not None and job.key == key and count + len(job.items) <= room):
                batch[job] = None
                count += len(job.items)
        self._jobs = deque(job for job in self._jobs if job not in batch)
        return list(batch)

    def _joining(self, key: Hashable, room: int) -> list[Job]:
        """Those that may join, while nothing else is next."""
        with self._changed:
            while self._jobs and self._jobs[0].over():
                self._jobs.popleft().answer.set_exception(Expired())
            if not self._jobs or self._jobs[0].key != key or len(self._jobs[0].items) > room:
                return []
            joining = self._take(key, room)
            self._begun = [*(job for job in self._begun if not job.answer.done()), *joining]
        return joining

    def _answer(self, jobs: list[Job]) -> None:
        try:
            first = jobs[0]
            flow = None if first.key is None or first.flow is None else first.flow()
            if flow is None:
                self._answer_batch(jobs)
            else:
                self._go_on(flow, jobs)
        except Exception:
            # whatever a model raises is the request's answer, not the end of the service
            for job in self._begun:
                if not job.answer.done():
                    self._answer_batch([job])

    def _go_on(self, flow: OutputStream[Any, Any], jobs: list[Job]) -> None:
        """Answers these and those that join them; whatever is raised, some may be left without an answer."""
        key, going = jobs[0].key, _Going(flow)
        try:
            while jobs or going.places:
                if added := going.add(_alive(jobs)):
                    self._report_size(added)
                going.step()
                jobs = self._joining(key, self._together - len(going.places))
        finally:
            going.tell()

    def _answer_batch(self, jobs: list[Job]) -> None:
        if not (alive := _alive(jobs)):
            return
        try:
            answers = self._run(alive)
        except Expired as error:
            for job in alive:
                job.answer.set_exception(error)
        except Exception as error:
            if len(alive) > 1:
                raise
            alive[0].answer.set_exception(error)
        else:
            for job in alive:
                count = len(job.items)
                job.answer.set_result(answers[:count])
                answers = answers[count:]

    def _run(self, jobs: list[Job]) -> list[Any]:
        def still_wanted(step: SearchStep | None = None) -> None:
            if all(job.over() for job in jobs):
                raise Expired

        items = [item for job in jobs for item in job.items]
        self._report_size(len(items))
        with observe_search(still_wanted), cancelled_by(still_wanted):
            return list(jobs[0].run(items))


class _Going:
    """The items of a flow by their numbers, what is found of each job, and the jobs that are done."""

    def __init__(self, flow: OutputStream[Any, Any]):
        self._flow = flow
        self.places: dict[int, tuple[Job, int]] = {}
        self._found: defaultdict[Job, dict[int, Any]] = defaultdict(dict)
        self._done: list[Job] = []

    def add(self, jobs: list[Job]) -> int:
        """Takes these jobs too; how many items they have."""
        if not jobs:
            return 0
        places = [(job, place) for job in jobs for place in range(len(job.items))]
        self.places |= zip(self._flow.add([job.items[place] for job, place in places]), places, strict=True)
        return len(places)

    def step(self) -> None:
        """Goes on a little; those that nobody waits for leave."""
        for number, output in self._flow.step(self.tell):
            job, place = self.places.pop(number)
            self._found[job][place] = output
            if len(self._found[job]) == len(job.items):
                self._done.append(job)
        if not self.places:
            self.tell()
        if lost := {number for number, (job, _) in self.places.items() if job.over()}:
            self._flow.drop(lost)
            for job in _over(self.places.pop(number)[0] for number in lost):
                self._found.pop(job, None)

    def tell(self) -> None:
        """Answers the jobs that are done: whoever is told wants the interpreter, and has it during a long product."""
        while self._done:
            job = self._done.pop(0)
            answers = self._found.pop(job)
            job.answer.set_result([answers[place] for place in range(len(job.items))])


def _alive(jobs: Iterable[Job]) -> list[Job]:
    """Those that somebody waits for; the others are told that it is too late."""
    jobs = list(jobs)
    over = _over(job for job in jobs if job.over())
    return [job for job in jobs if job not in over]


def _over(jobs: Iterable[Job]) -> list[Job]:
    """These, each once, told that it is too late."""
    expired = list(dict.fromkeys(jobs))
    for job in expired:
        job.answer.set_exception(Expired())
    return expired

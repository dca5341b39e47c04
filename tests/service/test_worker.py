"""Which jobs the thread of a service answers together, and when each is answered."""

import gc
import threading
import time
import weakref

import pytest

from headwise import runtime
from headwise.service import worker as worker_module
from headwise.service.worker import Expired, Full, Job, Worker


def by_itself(run, items=(0,), seconds=60):
    return Job(run, list(items), None, time.monotonic() + seconds)


@pytest.fixture
def gate():
    """What holds the thread until it is set."""
    return threading.Event()


@pytest.fixture
def worker(gate):
    """A thread that is busy until the gate opens, so that jobs wait together."""
    made = Worker(100, 4)
    made.submit(by_itself(lambda items: [gate.wait(60)]))
    yield made
    gate.set()
    made.close(20.0)


def test_the_oldest_is_answered_with_those_that_go_with_it(worker, gate):
    batches, deadline = [], time.monotonic() + 60

    def run(items):
        batches.append(items)
        return items

    jobs = [Job(run, [number], number % 2, deadline) for number in range(9)]
    for job in jobs:
        worker.submit(job)
    gate.set()
    assert [job.answer.result(60) for job in jobs] == [[number] for number in range(9)]
    assert batches == [[0, 2, 4, 6], [1, 3, 5, 7], [8]]


def test_a_job_of_more_items_than_go_together_is_answered_alone(worker, gate):
    batches, deadline = [], time.monotonic() + 60

    def run(items):
        batches.append(len(items))
        return items

    jobs = [Job(run, [number] * count, "same", deadline) for number, count in enumerate((9, 3, 2, 1))]
    for job in jobs:
        worker.submit(job)
    gate.set()
    assert [len(job.answer.result(60)) for job in jobs] == [9, 3, 2, 1]
    assert batches == [9, 4, 2]


def test_a_batch_that_nobody_can_join_waits_for_those_that_come_at_once(monkeypatch):
    # far longer than the test may take
    monkeypatch.setattr(worker_module, "_GATHER_S", 600.0)
    sizes, deadline = [], time.monotonic() + 60
    worker = Worker(100, 4, sizes.append)
    jobs = [Job(list, [number], "same", deadline, gathers=True) for number in range(4)]
    for job in jobs:
        worker.submit(job)
    assert [job.answer.result(60) for job in jobs] == [[0], [1], [2], [3]]
    assert sizes == [4]
    # what others may join does not wait, nor does a service that ends
    alone = Job(list, [5], "same", deadline)
    worker.submit(alone)
    assert alone.answer.result(60) == [5]
    last = Job(list, [6], "same", deadline, gathers=True)
    worker.submit(last)
    worker.close(20.0)
    assert last.answer.result(60) == [6]


def test_a_batch_waits_no_longer_than_a_moment(monkeypatch):
    monkeypatch.setattr(worker_module, "_GATHER_S", 1e-6)
    worker = Worker(100, 4)
    job = Job(list, [1], "same", time.monotonic() + 60, gathers=True)
    worker.submit(job)
    assert job.answer.result(60) == [1]
    worker.close(20.0)


class Steps:
    """A flow whose items say after how many steps they end; "bad" breaks it."""

    def __init__(self, held=None):
        self.left, self.count, self.log, self.held = {}, 0, [], held

    def add(self, items):
        self.log.append(("add", list(items)))
        numbers = range(self.count, self.count + len(items))
        self.left |= zip(numbers, items, strict=True)
        self.count += len(items)
        return numbers

    def drop(self, numbers):
        self.log.append(("drop", [self.left.pop(number) for number in sorted(numbers)]))

    def step(self, beside):
        beside()
        if self.held is not None:
            self.held()
        if "bad" in self.left.values():
            raise ValueError("broken")
        self.left = {number: steps - 1 for number, steps in self.left.items()}
        ended = [number for number, steps in self.left.items() if steps <= 0]
        for number in ended:
            del self.left[number]
        return [(number, f"{number} told") for number in ended]


def flowing(flow, items, key="flow", seconds=60.0):
    def run(given):
        if "bad" in given:
            raise ValueError("bad")
        return [f"{item} alone" for item in given]

    return Job(run, list(items), key, time.monotonic() + seconds, lambda: flow)


def test_whoever_comes_joins_what_is_under_way_and_is_answered_when_it_ends(worker, gate):
    begun, go_on = threading.Semaphore(0), threading.Semaphore(0)

    def held():
        begun.release()
        go_on.acquire(timeout=60)

    flow = Steps(held)
    first = flowing(flow, [5, 1])
    worker.submit(first)
    gate.set()
    begun.acquire(timeout=60)
    # while the first step is taken
    second, third = flowing(flow, [1]), flowing(flow, [4])
    worker.submit(second)
    worker.submit(third)
    go_on.release(2)
    assert second.answer.result(60) == ["2 told"]
    assert not first.answer.done()
    assert not third.answer.done()
    go_on.release(9)
    assert (first.answer.result(60), third.answer.result(60)) == (["0 told", "1 told"], ["3 told"])
    assert flow.log == [("add", [5, 1]), ("add", [1, 4])]


def test_nobody_joins_while_other_work_is_next_and_no_more_than_go_together(worker, gate):
    flow = Steps()
    early = [flowing(flow, [2]), flowing(flow, [2, 2]), flowing(flow, [1, 1, 1])]
    other = Job(lambda items: [list(flow.log)], [0], "other", time.monotonic() + 60)
    late = flowing(flow, [1, 1])
    for job in (*early, other, late):
        worker.submit(job)
    gate.set()
    # the last of the early ones had to wait for room, and the late one for the other
    assert other.answer.result(60) == [[("add", [2, 2, 2]), ("add", [1, 1, 1])]]
    assert late.answer.result(60) == ["6 told", "7 told"]


def test_not_one_item_more_goes_on_than_go_together(worker, gate):
    flow, going = Steps(), []
    add = flow.add

    def noted(items):
        numbers = add(items)
        going.append(len(flow.left))
        return numbers

    flow.add = noted
    # the last fits beside the first; when it is done there is room for one item, and two wait
    jobs = [flowing(flow, [3, 3, 3]), flowing(flow, [1, 1]), flowing(flow, [2])]
    for job in jobs:
        worker.submit(job)
    gate.set()
    assert [len(job.answer.result(60)) for job in jobs] == [3, 2, 1]
    assert going == [4, 2]


def test_a_job_that_nobody_waits_for_keeps_nobody_from_joining(worker, gate):
    begun, go_on = threading.Semaphore(0), threading.Semaphore(0)

    def held():
        begun.release()
        go_on.acquire(timeout=60)

    flow = Steps(held)
    first, other = flowing(flow, [4]), Job(lambda items: items, [0], "other", time.monotonic() + 60)
    worker.submit(first)
    gate.set()
    begun.acquire(timeout=60)
    other.give_up()
    late = flowing(flow, [1])
    worker.submit(other)
    worker.submit(late)
    go_on.release(9)
    assert late.answer.result(60) == ["1 told"]
    first.answer.result(60)
    assert flow.log == [("add", [4]), ("add", [1])]
    with pytest.raises(Expired):
        other.answer.result(60)


def test_whoever_leaves_is_dropped_and_nobody_else(worker, gate):
    begun, go_on = threading.Semaphore(0), threading.Semaphore(0)

    def held():
        begun.release()
        go_on.acquire(timeout=60)

    flow = Steps(held)
    stays, leaves = flowing(flow, [3]), flowing(flow, [9, 1])
    worker.submit(stays)
    worker.submit(leaves)
    gate.set()
    begun.acquire(timeout=60)
    leaves.give_up()
    go_on.release(9)
    assert stays.answer.result(60) == ["0 told"]
    with pytest.raises(Expired):
        leaves.answer.result(60)
    assert ("drop", [8]) in flow.log


def test_what_breaks_a_flow_is_told_to_its_own_job_alone(worker, gate):
    flow = Steps()
    good, bad = flowing(flow, [3]), flowing(flow, ["bad"])
    worker.submit(good)
    worker.submit(bad)
    gate.set()
    assert good.answer.result(60) == ["3 alone"]
    with pytest.raises(ValueError, match="bad"):
        bad.answer.result(60)


def test_a_flow_that_cannot_begin_is_a_batch(worker, gate):
    def broken():
        raise ValueError("no flow")

    job = Job(lambda items: ["answered"], [1], "same", time.monotonic() + 60, broken)
    worker.submit(job)
    gate.set()
    assert job.answer.result(60) == ["answered"]


def test_the_queue_is_bounded_while_a_flow_goes_on():
    begun, go_on = threading.Semaphore(0), threading.Event()

    def held():
        begun.release()
        go_on.wait(60)

    flow, worker = Steps(held), Worker(2, 3)
    jobs = [flowing(flow, [1, 1, 1])]
    worker.submit(jobs[0])
    begun.acquire(timeout=60)
    for _ in range(2):
        jobs.append(flowing(flow, [1]))
        worker.submit(jobs[-1])
    with pytest.raises(Full):
        worker.submit(flowing(flow, [1]))
    go_on.set()
    assert all(job.answer.result(60) for job in jobs)
    worker.close(20.0)


def test_work_without_a_key_is_done_by_itself_though_it_could_flow(worker, gate):
    flow = Steps()
    jobs = [flowing(flow, [1], key=None), flowing(flow, [1], key=None)]
    for job in jobs:
        worker.submit(job)
    gate.set()
    assert [job.answer.result(60) for job in jobs] == [["1 alone"], ["1 alone"]]
    assert flow.log == []


def test_of_whoever_leaves_nothing_is_kept_and_its_time_may_pass_too(worker, gate):
    begun, go_on = threading.Semaphore(0), threading.Semaphore(0)

    def held():
        begun.release()
        go_on.acquire(timeout=60)

    flow = Steps(held)
    stays, late = flowing(flow, [4]), flowing(flow, [9, 1])
    worker.submit(stays)
    worker.submit(late)
    gate.set()
    begun.acquire(timeout=60)
    # one of its two items has an answer already
    late.deadline = 0.0
    kept = weakref.ref(late)
    go_on.release(2)
    with pytest.raises(Expired):
        late.answer.result(60)
    begun.acquire(timeout=60)
    begun.acquire(timeout=60)
    del late
    gc.collect()
    assert kept() is None or not any(isinstance(one, dict) and kept() in one for one in gc.get_referrers(kept()))
    go_on.release(9)
    assert stays.answer.result(60) == ["0 told"]


def test_what_is_told_is_told_before_the_next_who_join_are_read(worker, gate):
    seen, flow = [], Steps()
    first, second = flowing(flow, [1]), flowing(flow, [3])
    step = flow.step

    def watched(beside):
        seen.append(first.answer.done())
        return step(lambda: (beside(), seen.append(first.answer.done())))

    flow.step = watched
    worker.submit(first)
    worker.submit(second)
    gate.set()
    assert second.answer.result(60) == ["1 told"]
    # done with the first step, told in the second one before its work
    assert seen == [False, False, False, True, True, True]


def test_closing_ends_a_flow():
    begun = threading.Semaphore(0)

    def held():
        begun.release()
        time.sleep(0.001)

    worker = Worker(4, 4)
    job = flowing(Steps(held), [10**9])
    worker.submit(job)
    begun.acquire(timeout=60)
    worker.close(0.0)
    with pytest.raises(Expired):
        job.answer.result(60)


def test_items_are_counted_once():
    sizes, flow = [], Steps()
    worker, gate = Worker(9, 4, sizes.append), threading.Event()
    worker.submit(by_itself(lambda items: [gate.wait(60)]))
    jobs = [flowing(flow, [3, 1]), flowing(flow, [2]), flowing(flow, [1, 1])]
    for job in jobs:
        worker.submit(job)
    gate.set()
    assert all(job.answer.result(60) for job in jobs)
    assert sum(sizes) == 6
    worker.close(20.0)


def test_an_idle_worker_returns_freed_memory_once_and_a_busy_one_keeps_it(monkeypatch):
    log, released, gate = [], threading.Semaphore(0), threading.Event()
    monkeypatch.setattr(worker_module, "_IDLE_S", 0.0)
    monkeypatch.setattr(runtime, "release_freed_memory", lambda: (log.append("released"), released.release()))
    worker = Worker(4, 4)
    worker.submit(by_itself(lambda items: [gate.wait(60)]))
    second = by_itself(lambda items: (log.append("answered"), items)[1])
    worker.submit(second)
    gate.set()
    assert second.answer.result(60) == [0]
    assert released.acquire(timeout=60)
    worker.close(20.0)
    assert log == ["answered", "released"]

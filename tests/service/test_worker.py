"""Which jobs the thread of a service answers together."""

import threading
import time

import pytest

from headwise.service import worker as workers
from headwise.service.worker import Job, Worker


@pytest.fixture
def batched():
    """Lets jobs of these lengths wait together, then tells which lengths were answered together."""

    def found(together, lengths):
        worker, gate, batches = Worker(100, together), threading.Event(), []

        def run(items):
            batches.append(items)
            return items

        deadline = time.monotonic() + 60
        first = Job(lambda items: [gate.wait(60)], [0], None, deadline)
        jobs = [Job(run, [length], "same", deadline, length) for length in lengths]
        for job in (first, *jobs):
            worker.submit(job)
        gate.set()
        assert [job.answer.result(60) for job in jobs] == [[length] for length in lengths]
        worker.close(20.0)
        return batches

    return found


def test_the_oldest_is_answered_with_those_nearest_to_it_in_length(batched):
    assert batched(4, [10, 50, 11, 52, 8, 10, 30]) == [[10, 10, 11, 8], [50, 52, 30]]


def test_nobody_is_passed_over_for_ever(batched):
    assert batched(2, [1, 9] * 8) == [*[[1, 1], [9, 9]] * 2, *[[1, 9]] * 4]


def test_of_many_some_are_left_to_be_chosen_from(batched):
    assert [len(batch) for batch in batched(64, [7] * 40)] == [30, 10]
    assert [len(batch) for batch in batched(64, [7] * 16)] == [16]


def test_those_answered_together_may_be_answered_together_again(monkeypatch):
    monkeypatch.setattr(workers, "_LINGER", 1e9)
    sizes, gate, deadline = [], threading.Event(), time.monotonic() + 60
    worker = Worker(8, 8, sizes.append)
    worker.submit(Job(lambda items: [gate.wait(60)], [0], None, deadline))

    def three():
        return [Job(list, [number], "same", deadline) for number in range(3)]

    jobs = three()
    for job in jobs:
        worker.submit(job)
    gate.set()
    for job in jobs:
        job.answer.result(60)
    again = three()
    for job in again:
        # the others come a while after the first
        time.sleep(0.05)
        worker.submit(job)
    for job in again:
        job.answer.result(60)
    assert sizes == [1, 3, 3]
    worker.close(20.0)


def test_who_cannot_come_back_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(workers, "_LINGER", 1e9)
    sizes, deadline = [], time.monotonic() + 60
    begun, gates = threading.Semaphore(0), threading.Semaphore(0)
    worker = Worker(4, 8, sizes.append)

    def held(items):
        begun.release()
        gates.acquire(timeout=60)
        return items

    def jobs_of(run, key, count):
        jobs = [Job(run, [key], key, deadline) for _ in range(count)]
        for job in jobs:
            worker.submit(job)
        return jobs

    alone = jobs_of(held, "alone", 1)
    begun.acquire(timeout=60)
    together = jobs_of(held, "together", 3)
    gates.release()
    begun.acquire(timeout=60)
    # as many wait now as may
    last = jobs_of(list, "last", 4)
    gates.release()
    assert [job.answer.result(60) for job in (*alone, *together, *last)]
    assert sizes == [1, 3, 4]
    worker.close(20.0)

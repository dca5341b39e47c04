"""Predictors whose batches several processes share: what comes out is what one makes, byte for byte."""

import copy
import threading
from contextvars import copy_context

import numpy as np
import pytest
from life import task_of
from tiny_tasks import CASES

import headwise
from headwise.processes import Processes, sharing
from headwise.tasks import registry
from headwise.tasks.images import pixel_labeller
from headwise.tasks.series import forecaster
from headwise.tasks.speech import listening
from headwise.tasks.speech.transcriber import SpeechWriter
from headwise.training.train import train

WORLD = 2
# what a batch is made of, made small enough for a few of them
PORTIONS = [
    (forecaster, "_PORTION", 2),
    (pixel_labeller, "PREDICTION_PIXELS", 130),
    (listening, "PREDICTION_FRAMES", 40),
]


class Threads(Processes):
    """A thread in the place of a process: what it tells goes through a list."""

    def __init__(self, rank, told, barrier):
        self.rank, self.world, self.local = rank, WORLD, rank
        self._told, self._barrier = told, barrier

    def gather(self, value):
        self._told[self.rank] = value
        self._barrier.wait()
        found = list(self._told)
        self._barrier.wait()
        return found

    def numbers(self, *values):
        return self.gather([float(value) for value in values])

    def once(self, work):
        return self.gather(work() if self.first else None)[0]

    def gone(self, error):
        return None


def counted(predictor):
    """A list that grows with every batch that a predictor computes."""
    calls = []
    if isinstance(predictor, SpeechWriter):
        # a twin of the model searches
        found = predictor.writing.search
        predictor.writing.search = lambda *batch: calls.append(1) or found(*batch)
    else:
        predictor.model.register_forward_pre_hook(lambda *_: calls.append(1))
    return calls


def together(work, predictor):
    """What each of the threads makes of a predictor of its own, and how many batches it has computed."""
    told, barrier, found = [None] * WORLD, threading.Barrier(WORLD, timeout=60), [None] * WORLD

    def one(rank, own):
        calls = counted(own)
        with sharing(Threads(rank, told, barrier)):
            found[rank] = work(own), len(calls)

    copies = [copy.deepcopy(predictor) for _ in range(WORLD)]
    threads = [threading.Thread(target=copy_context().run, args=(one, *pair)) for pair in enumerate(copies)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@pytest.mark.parametrize(
    "name",
    [
        "forecast",
        pytest.param("forecast, step by step", marks=pytest.mark.slow),
        "image-segment",
        "speech-tag",
        pytest.param("transcribe, a decoder with attention", marks=pytest.mark.slow),
    ],
)
def test_what_processes_share_is_what_one_makes(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    case = CASES[name]
    recipe = case.whole(tmp_path, 2)
    train(recipe, tmp_path / "run")
    for module, constant, value in PORTIONS:
        monkeypatch.setattr(module, constant, value)
    predictor = headwise.load(tmp_path / "run")
    items = [predictor.parse(text) for text in case.inputs]
    examples = registry.task_type(case.task).examples(
        task_of(case.task, {k: recipe[k] for k in case.recipe}).config, "train"
    )

    def work(own):
        written = [own.write(item, one, "json") for item, one in zip(items, own.predict(items), strict=True)]
        return written, own.evaluate(examples[:9])

    found = together(work, predictor)
    calls = counted(predictor)
    alone = work(predictor)
    assert [repr(one) for one, _ in found] == [repr(alone)] * WORLD
    assert np.isfinite([value for value in alone[1].values() if isinstance(value, float)]).all()
    # each batch is computed once
    assert sum(count for _, count in found) == len(calls)
    assert min(count for _, count in found) > 0

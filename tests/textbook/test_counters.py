import pytest
import torch

from headwise.textbook import Accumulator, Timer, training


def test_a_watch_collects_what_it_measures(monkeypatch):
    readings = iter([0.0, 2.0, 10.0, 11.0])
    monkeypatch.setattr(training.time, "perf_counter", lambda: next(readings))
    timer = Timer()
    assert timer.stop() == 2.0
    timer.start()
    assert timer.stop() == 1.0
    assert (timer.avg(), timer.sum(), timer.cumsum()) == (1.5, 3.0, [2.0, 3.0])


def test_sums():
    metric = Accumulator(2)
    metric.add(torch.tensor(1.5), 2)
    metric.add(1, torch.tensor([3]))
    assert (metric[0], metric[1]) == (2.5, 5.0)
    with pytest.raises(ValueError, match="argument"):
        metric.add(1)
    metric.reset()
    assert metric.data == [0.0, 0.0]

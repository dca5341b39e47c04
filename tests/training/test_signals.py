"""SIGINT and SIGTERM at any moment: saved within seconds, the right exit code, handlers put back."""

import os
import random
import signal
import threading
import time

import pytest
from training_toy import ToyTask, final_digest, recipe

from headwise.errors import HeadwiseError
from headwise.runs.checkpoints import Checkpoints
from headwise.training.signals import Stopped, StopSignal
from headwise.training.train import train

LONG = recipe({"max_steps": 60, "validate_every": 4, "save_every": 3})


def test_first_signal_is_remembered_and_handlers_come_back():
    former = [signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM)]
    with StopSignal() as stop:
        assert stop.signum == 0
        stop.check()
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.signum == signal.SIGTERM
        with pytest.raises(Stopped, match=r"^stopped by SIGTERM$") as caught:
            stop.check()
        assert caught.value.exit_code == 143
        with pytest.raises(Stopped), stop.breakable():
            pytest.fail("not reached")
    assert [signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM)] == former


def test_a_breakable_stretch_ends_at_once():
    def work(stop):
        with stop.breakable():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
            pytest.fail("not reached")

    with StopSignal() as stop, pytest.raises(Stopped, match="stopped by SIGINT") as caught:
        work(stop)
    assert isinstance(caught.value, HeadwiseError)
    assert caught.value.exit_code == 130


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_second_signal_ends_the_process(signum, code):
    pid = os.fork()
    if pid == 0:
        with StopSignal():
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signum)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == code


def test_other_threads_train_without_signals():
    problems = []

    def work():
        try:
            with StopSignal() as stop:
                stop.check()
        except BaseException as error:
            problems.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert problems == []


def test_validation_is_broken_off_and_done_again(tmp_path, monkeypatch):
    train(LONG, tmp_path / "whole")
    real = ToyTask.measure
    broken = []

    def measure(self, model, batches):
        # the one before training starts looks at an example alone
        batches = list(batches)
        if sum(len(batch.indices) for batch in batches) > 1 and not broken:
            broken.append(model.training)
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10)
            pytest.fail("not reached")
        return real(self, model, batches)

    monkeypatch.setattr(ToyTask, "measure", measure)
    with pytest.raises(Stopped, match="after step 4; everything is saved"):
        train(LONG, tmp_path / "run")
    assert broken == [False]
    train(LONG, tmp_path / "run")
    assert final_digest(tmp_path / "run") == final_digest(tmp_path / "whole")


def test_stopped_while_data_is_read(tmp_path, monkeypatch):
    def slow(config):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(10)

    monkeypatch.setattr(ToyTask, "prepare", slow)
    with pytest.raises(Stopped, match="stopped by SIGINT") as caught:
        train(LONG, tmp_path / "run")
    assert caught.value.exit_code == 130
    monkeypatch.undo()


def test_stopped_inside_a_save(tmp_path, monkeypatch):
    real, sent = Checkpoints.save, []

    def save(self, *args):
        if not sent:
            sent.append(os.kill(os.getpid(), signal.SIGTERM))
        return real(self, *args)

    monkeypatch.setattr(Checkpoints, "save", save)
    with pytest.raises(Stopped, match="after step 3; everything is saved"):
        train(LONG, tmp_path / "run")
    assert [entry.step for entry in Checkpoints(tmp_path / "run").entries()] == [3]


def _signalled(folder, delay_s, signals, latest):
    """Trains in a child and sends it signals, at the latest when it tells this event; returns its exit code."""
    ready, told = os.pipe()
    sent, go = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        os.close(go)
        # when training listens no longer
        for signum in signals:
            signal.signal(signum, lambda *_: os._exit(LATE))
        events = []

        def on_event(event):
            events.append(os.write(told, b"x"))
            if len(events) == latest:
                os.read(sent, 1)

        try:
            train(LONG, folder, on_event=on_event)
        except Stopped as stopped:
            os._exit(stopped.exit_code)
        os._exit(0)
    os.close(told)
    os.close(sent)
    os.read(ready, 1)
    time.sleep(delay_s)
    for signum in signals:
        try:
            os.kill(pid, signum)
        except ProcessLookupError:
            break
    os.close(go)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(ready)
    return code


LATE = 99
SIGNALS = [[signal.SIGINT], [signal.SIGTERM], [signal.SIGTERM, signal.SIGINT]]


@pytest.mark.slow
def test_signals_at_random_moments(tmp_path, untyped):
    whole = final_digest(train(LONG, tmp_path / "whole").folder)
    rng = random.Random(11)
    for round_ in range(6):
        folder, signals, codes = tmp_path / f"run{round_}", SIGNALS[round_ % 3], []
        # later each time, so that each comes further at last
        while code := _signalled(folder, rng.uniform(0, 0.15), signals, 5 + len(codes)):
            codes.append(code)
        # the first signal decides; a second one that comes in time ends the process by itself
        assert codes[0] == 128 + signals[0] or len(signals) == 2
        assert set(codes) <= {LATE, *(128 + signum for signum in signals)}
        assert final_digest(folder) == whole

"""Killed at every single fsync and rename of a run: there is always a good checkpoint, the end has the same bits."""

import os
import struct

import pytest
import torch
from training_toy import final_digest, recipe

from headwise.runs.checkpoints import Checkpoints
from headwise.training.loading import load
from headwise.training.train import train

MADE = recipe({"max_steps": 4, "validate_every": 2, "save_every": 3, "average_last": 2, "ema_decay": 0.5})


def _killed_at(folder, number):
    """Trains in a child that dies at its `number`-th fsync or rename; returns (finished, last step acknowledged)."""
    ready, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        _die_at(number)

        def tell(event):
            if event["event"] == "checkpoint":
                os.write(told, struct.pack("<q", event["step"]))

        train(MADE, folder, on_event=tell)
        os._exit(0)
    os.close(told)
    acknowledged = b""
    while part := os.read(ready, 4096):
        acknowledged += part
    os.close(ready)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in (0, 99)
    steps = [step for (step,) in struct.iter_unpack("<q", acknowledged)]
    return code == 0, steps[-1] if steps else 0


def _die_at(number):
    """The process ends before its `number`-th call that makes something durable."""
    count = 0

    def dying(real):
        def call(*args):
            nonlocal count
            count += 1
            if count == number:
                os._exit(99)
            return real(*args)

        return call

    # silence, since the child shares the output of the tests
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    for name in ("fsync", "replace", "rename"):
        setattr(os, name, dying(getattr(os, name)))


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    import training_toy

    from headwise.tasks import registry

    former = registry.task_type
    torch.set_num_threads(1)
    training_toy.install()
    folder = tmp_path_factory.mktemp("reference") / "run"
    train(MADE, folder)
    registry.task_type = former
    return final_digest(folder)


@pytest.mark.slow
def test_every_crash_point(tmp_path, reference, recwarn):
    number, finished = 0, False
    while not finished:
        number += 1
        folder = tmp_path / f"run{number}"
        finished, acknowledged = _killed_at(folder, number)
        saved = Checkpoints(folder).newest(print) if folder.exists() else None
        if acknowledged:
            assert saved is not None
            assert saved.facts["step"] >= acknowledged
            assert load(folder) is not None
        train(MADE, folder)
        assert final_digest(folder) == reference, number
        assert not [name for place in (folder, folder / "state") for name in os.listdir(place) if name.endswith(".tmp")]
    assert number > 60


@pytest.mark.slow
def test_killed_again_at_every_crash_point_of_the_resumed_run(tmp_path, reference, recwarn):
    for number in range(1, 30, 3):
        folder = tmp_path / f"run{number}"
        _killed_at(folder, 37)
        _killed_at(folder, number)
        train(MADE, folder)
        assert final_digest(folder) == reference, number

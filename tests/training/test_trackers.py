"""Services that draw curves: what they hold after a run that was resumed, read back with their own tools."""

import os
import sqlite3
import sys

import pytest
from training_toy import recipe

from headwise.errors import ConfigError
from headwise.runs.checkpoints import Checkpoints
from headwise.runs.commits import remove_folder
from headwise.runs.trackers import TRACKERS, Tracker, TrackerListener, open_trackers
from headwise.training.train import train


class Listed(Tracker):
    """A tracker that keeps a list."""

    name, package = "listed", "none"

    def __init__(self):
        self.key, self.steps = "the key", []

    def write(self, step, numbers, texts):
        self.steps.append((*numbers, step))

    def close(self):
        pass


def test_a_resumed_run_tells_a_tracker_nothing_twice(tmp_path):
    events = [
        {"event": "step", "step": 2, "loss": 1.0},
        {"event": "validation", "step": 2, "metrics": {"loss": 2.0}},
        {"event": "step", "step": 4, "loss": 1.0},
    ]
    first, second = Listed(), Listed()
    for event in events:
        TrackerListener(tmp_path, first).take(event)
    resumed = TrackerListener(tmp_path, second)
    for event in [
        *events,
        {"event": "checkpoint", "step": 9},
        {"event": "validation", "step": 4, "metrics": {"f1": 1.0}},
    ]:
        resumed.take(event)
    assert first.steps == [("train/loss", 2), ("valid/loss", 2), ("train/loss", 4)]
    assert second.steps == [("valid/f1", 4)]
    # a damaged note costs a repeated event, not the run
    (tmp_path / "trackers.json").write_bytes(b"{")
    assert TrackerListener(tmp_path, Listed())._step == -1


@pytest.mark.parametrize("name", TRACKERS)
def test_what_is_not_installed_is_named_with_its_extra(tmp_path, monkeypatch, name):
    for module in ("torch.utils.tensorboard", "wandb", "mlflow.tracking", "trackio"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=rf"{name} needs .*; install it with: pip install 'headwise\[{name}\]'"):
        open_trackers(tmp_path, (name,), "project", {}, print)


def test_a_service_that_does_not_answer_is_left_out(tmp_path, monkeypatch):
    def unreachable(*_):
        raise ConnectionError("no route to host")

    monkeypatch.setattr(TRACKERS["wandb"], "__init__", unreachable)
    told = []
    assert open_trackers(tmp_path, ("wandb",), "project", {}, told.append) == []
    assert told == ["wandb gets no events: ConnectionError: no route to host"]


def _resumed(folder, name):
    """A run of 12 steps that lost its checkpoint of step 10, and with it the steps since 5."""
    made = {"max_steps": 10, "log_every": 1, "trackers": [name], "tracker_project": "toy"}
    train(recipe(made), folder)
    remove_folder(Checkpoints(folder).entries()[0].path)
    train(recipe({**made, "max_steps": 12}), folder)


@pytest.mark.slow
def test_tensorboard(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    _resumed(tmp_path / "run", "tensorboard")
    events = accumulator.EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    assert {"train/loss", "train/lr", "valid/loss", "valid/accuracy"} <= set(events.Tags()["scalars"])
    assert [value.step for value in events.Scalars("valid/loss")] == [5, 10, 12]
    assert [value.step for value in events.Scalars("train/loss")] == list(range(1, 13))


def _logged(content):
    """The records of a file in LevelDB's log format, behind the 7 bytes that W&B puts in front of it."""
    place, block, record = 7, 32768, b""
    while place < len(content):
        if block - place % block < 7:
            place += block - place % block
            continue
        size, kind = int.from_bytes(content[place + 4 : place + 6], "little"), content[place + 6]
        record += content[place + 7 : place + 7 + size]
        place += 7 + size
        # whole, first, middle, last
        if kind in (1, 4):
            yield record
            record = b""


@pytest.mark.slow
def test_wandb(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    _resumed(tmp_path / "run", "wandb")
    # ends the process that writes the files
    wandb.teardown()
    from wandb.proto.wandb_internal_pb2 import Record

    steps = []
    for path in sorted((tmp_path / "run" / "wandb").glob("offline-run-*/*.wandb")):
        for data in _logged(path.read_bytes()):
            record = Record()
            record.ParseFromString(data)
            if any("train/loss" in (item.key, *item.nested_key) for item in record.history.item):
                steps.append(record.history.step.num)
    assert steps == list(range(1, 13))


@pytest.mark.slow
def test_mlflow(tmp_path, monkeypatch):
    tracking = pytest.importorskip("mlflow.tracking")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    _resumed(tmp_path / "run", "mlflow")
    client = tracking.MlflowClient()
    (found,) = client.search_runs([client.get_experiment_by_name("toy").experiment_id])
    assert [metric.step for metric in client.get_metric_history(found.info.run_id, "train/loss")] == list(range(1, 13))
    assert found.data.params["training.log_every"] == "1"


@pytest.mark.slow
def test_trackio(tmp_path, monkeypatch):
    # read when the package is imported
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    pytest.importorskip("trackio")
    _resumed(tmp_path / "run", "trackio")
    (path,) = (tmp_path / "trackio").glob("toy*.db")
    with sqlite3.connect(path) as database:
        rows = database.execute("select step, metrics from metrics order by step").fetchall()
    steps = [step for step, metrics in rows if "train/loss" in str(metrics)]
    assert steps == list(range(1, 13))
    assert os.listdir(tmp_path / "run")

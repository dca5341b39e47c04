"""Exact resume: stopped after any step, at any micro-batch, several times, the result has the same bits."""

import json
import os
import shutil
import signal
from dataclasses import replace

import pytest
from training_toy import VOCABULARY, ToyTask, final_digest, recipe

from headwise import runtime
from headwise.errors import CheckpointError, ConfigError, DataError
from headwise.runs.checkpoints import Checkpoints
from headwise.runs.commits import Draft, remove_folder
from headwise.runs.log import read_metrics
from headwise.training.loop import Loop
from headwise.training.signals import Stopped
from headwise.training.train import train

# 20 steps of two batches: an epoch has three steps, so stops fall inside and between epochs, before and after
# validations (each 5) and lines of the log (each 3); everything that has a state is switched on
EVERYTHING = {"accumulate": 2, "ema_decay": 0.9, "average_last": 2, "save_every": 7, "clip_norm": 0.5}
STEPS = 20


def _recipe(**training):
    return recipe({**EVERYTHING, **training}, sides=2)


def _train_with_stops(made, folder, stops, monkeypatch, *, late=0):
    """Trains to the end with a SIGTERM inside each step of `stops`; `late` is the micro-batch it falls into."""
    real_loss, real_step = ToyTask.loss, Loop._step
    left = []

    def step(self, used):
        left.append(late)
        real_step(self, used)
        if len(left) == steps_to_stop and left[-1] >= 0:
            # the last step of an epoch has fewer batches
            os.kill(os.getpid(), signal.SIGTERM)

    def loss(self, model, batch):
        if model.training and len(left) == steps_to_stop:
            if left[-1] == 0:
                os.kill(os.getpid(), signal.SIGTERM)
            left[-1] -= 1
        return real_loss(self, model, batch)

    monkeypatch.setattr(Loop, "_step", step)
    monkeypatch.setattr(ToyTask, "loss", loss)
    for stop in stops:
        left.clear()
        steps_to_stop = stop - _steps_done(folder)
        with pytest.raises(Stopped, match=f"stopped by SIGTERM after step {stop}; everything is saved") as caught:
            train(made, folder)
        assert caught.value.exit_code == 143
        assert _steps_done(folder) == stop
    steps_to_stop = 0
    run = train(made, folder)
    monkeypatch.setattr(Loop, "_step", real_step)
    monkeypatch.setattr(ToyTask, "loss", real_loss)
    return run


def _steps_done(folder):
    entries = Checkpoints(folder).entries()
    return entries[0].step if entries else 0


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    import torch
    import training_toy

    from headwise.tasks import registry

    former = registry.task_type
    training_toy.install()
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("reference") / "run"
    run = train(_recipe(), folder)
    registry.task_type = former
    return final_digest(folder), run


@pytest.mark.parametrize("stop", range(1, STEPS + 1))
def test_stopped_after_every_step(tmp_path, monkeypatch, reference, stop):
    run = _train_with_stops(_recipe(), tmp_path / "run", [stop], monkeypatch, late=stop % 2)
    assert final_digest(tmp_path / "run") == reference[0]
    assert (run.metrics, run.best, run.steps) == (reference[1].metrics, reference[1].best, STEPS)


@pytest.mark.parametrize(
    "stops", [(1, 2), (4, 5), (5, 6), (7, 8), (2, 9, 10), (3, 6, 9), (19, 20), tuple(range(1, 20))]
)
def test_stopped_several_times(tmp_path, monkeypatch, reference, stops):
    _train_with_stops(_recipe(), tmp_path / "run", stops, monkeypatch, late=1)
    assert final_digest(tmp_path / "run") == reference[0]


@pytest.mark.parametrize("options", [{"optimizer": "sgd"}, {"optimizer": "adam"}, {"precision": "bf16"}])
def test_other_optimizers_and_precision(tmp_path, monkeypatch, options):
    made = recipe({"max_steps": 8, **options})
    train(made, tmp_path / "whole")
    _train_with_stops(made, tmp_path / "run", [3, 6], monkeypatch)
    assert final_digest(tmp_path / "run") == final_digest(tmp_path / "whole")


def test_the_same_seed_twice_and_another_one(tmp_path, reference):
    train(_recipe(), tmp_path / "again")
    assert final_digest(tmp_path / "again") == reference[0]
    train({**_recipe(), "seed": 4}, tmp_path / "other")
    assert final_digest(tmp_path / "other")["model.safetensors"] != reference[0]["model.safetensors"]


def test_validation_does_not_change_training(tmp_path, reference):
    train(_recipe(validate_every=2, average_last=0), tmp_path / "run")
    ours, theirs = final_digest(tmp_path / "run"), reference[0]
    assert ours["model.safetensors"] == theirs["model.safetensors"]
    assert ours["optimizer.safetensors"] == theirs["optimizer.safetensors"]


def test_early_stopping_counts_on(tmp_path, monkeypatch):
    made = recipe({"patience": 3, "validate_every": 2, "learning_rate": 0.5, "optimizer": "sgd", "max_steps": 90})
    whole = train(made, tmp_path / "whole")
    assert whole.stopped_because == "patience"
    stops = range(1, whole.steps, 3)
    run = _train_with_stops(made, tmp_path / "run", stops, monkeypatch)
    assert (run.steps, run.best, run.stopped_because) == (whole.steps, whole.best, "patience")
    assert final_digest(tmp_path / "run") == final_digest(tmp_path / "whole")


def test_no_line_of_the_metrics_is_repeated_after_a_crash(tmp_path, reference):
    folder = tmp_path / "run"
    train(_recipe(max_steps=7), folder)
    # as if killed on the way from the checkpoint of step 7 to the next one, in the middle of a line
    with open(folder / "metrics.jsonl", "a") as metrics:
        metrics.write('{"event": "step", "step": 9, "loss": 1.0}\n{"event": "st')
    train(_recipe(), folder)
    assert [event["step"] for event in read_metrics(folder)].count(9) == 1
    assert final_digest(folder)["optimizer.safetensors"] == reference[0]["optimizer.safetensors"]


def test_a_finished_run_is_left_as_it_is(tmp_path, reference):
    def content():
        files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
        return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}

    run = train(_recipe(), tmp_path / "run")
    before = content()
    assert train(_recipe(), tmp_path / "run") == run
    assert content() == before
    assert final_digest(tmp_path / "run") == reference[0]
    # what is damaged at its end is mended
    (tmp_path / "run" / "model.safetensors").write_bytes(b"")
    assert train(_recipe(), tmp_path / "run") == run
    assert content()[tmp_path / "run" / "model.safetensors"][0] == before[tmp_path / "run" / "model.safetensors"][0]


def test_a_limit_under_its_schedule_is_a_choice(tmp_path):
    made = {"schedule": "linear", "max_steps": 10}
    train(recipe(made), tmp_path / "run")
    message = "training.max_steps was 10 and is 20 now, and the schedule 'linear' ends there: the learning rate would"
    with pytest.raises(ConfigError, match=message):
        train(recipe({**made, "max_steps": 20}), tmp_path / "run")
    assert train(recipe({**made, "max_steps": 20}), tmp_path / "run", allow_schedule_change=True).steps == 20


def test_a_longer_limit_goes_on(tmp_path):
    train(recipe({"max_steps": 10}), tmp_path / "run")
    told = []
    run = train(recipe({"max_steps": 20}), tmp_path / "run", on_event=told.append)
    assert run.steps == 20
    assert "training.max_steps was 10 and is 20 now" in (tmp_path / "run" / "log.txt").read_text()
    train(recipe({"max_steps": 20}), tmp_path / "whole")
    assert final_digest(tmp_path / "run") == final_digest(tmp_path / "whole")


def test_a_warm_up_by_share_is_laid_out_over_every_limit(tmp_path):
    made = {"schedule": "constant", "warmup_steps": 0, "warmup_share": 0.5, "max_steps": 4}
    train(recipe(made), tmp_path / "run")
    with pytest.raises(ConfigError, match=r"training\.max_steps was 4 and is 8 now"):
        train(recipe({**made, "max_steps": 8}), tmp_path / "run")


def test_another_recipe_is_refused_with_its_keys(tmp_path):
    train(recipe({"max_steps": 2}), tmp_path / "run")
    expected = (
        r"started with another recipe: training.clip_norm was 1.0 and is 2.0 now; width was 6 and is 5 now; change"
    )
    with pytest.raises(ConfigError, match=expected):
        train(recipe({"max_steps": 4, "clip_norm": 2.0}, width=5), tmp_path / "run")


def test_changed_data_is_refused_unless_allowed(tmp_path, monkeypatch):
    train(recipe({"max_steps": 2}), tmp_path / "run")
    real = ToyTask.prepare
    other = {"train": "0" * 64, "extra": "1"}
    monkeypatch.setattr(ToyTask, "prepare", lambda config: replace(real(config), digests=other))
    with pytest.raises(DataError, match=r"the data has changed since this run began: extra, train; restore the files"):
        train(recipe({"max_steps": 4}), tmp_path / "run")
    assert train(recipe({"max_steps": 4}), tmp_path / "run", allow_data_change=True).steps == 4
    assert "extra, train; resuming anyway" in (tmp_path / "run" / "log.txt").read_text()


def test_other_labels_are_refused(tmp_path, monkeypatch):
    train(recipe({"max_steps": 2}), tmp_path / "run")
    real, labels = ToyTask.prepare, list(range(VOCABULARY))[::-1]
    files = {"labels.json": json.dumps(labels).encode()}
    monkeypatch.setattr(ToyTask, "prepare", lambda config: replace(real(config), files=files))
    with pytest.raises(
        CheckpointError, match=r"labels.json: is not what the task makes of its data now; the model was"
    ):
        train(recipe({"max_steps": 4}), tmp_path / "run")


def test_another_machine_is_told(tmp_path):
    import torch

    train(recipe({"max_steps": 2}), tmp_path / "run")
    torch.set_num_threads(2)
    train(recipe({"max_steps": 4}), tmp_path / "run")
    text = (tmp_path / "run" / "log.txt").read_text()
    assert "not bit-exact from here: the run began on {" in text
    assert "'threads': 1" in text


def test_a_resumed_run_keeps_its_path_of_products(tmp_path, monkeypatch):
    import torch

    matmul = torch.backends.mkldnn.matmul
    before, seen = matmul.fp32_precision, []
    # whether this processor rounds on the other path or not, here it does not
    monkeypatch.setattr(runtime, "_error", lambda: 0.0)
    try:
        matmul.fp32_precision = "bf16"
        train(recipe({"max_steps": 2}), tmp_path / "run")
        matmul.fp32_precision = "none"
        real = ToyTask.measure
        monkeypatch.setattr(ToyTask, "measure", lambda *a: seen.append(matmul.fp32_precision) or real(*a))
        train(recipe({"max_steps": 6}), tmp_path / "run")
        assert matmul.fp32_precision == "none"
    finally:
        matmul.fp32_precision = before
    assert set(seen) == {"bf16"}
    assert "not bit-exact" not in (tmp_path / "run" / "log.txt").read_text()


def test_products_that_would_round_here_are_not_taken_over(monkeypatch):
    import torch

    monkeypatch.setattr(runtime, "_error", lambda: 3e-3)
    before = torch.backends.mkldnn.matmul.fp32_precision
    other = "ieee" if before == "bf16" else "bf16"
    with runtime.products_as(other) as same:
        assert not same
        assert torch.backends.mkldnn.matmul.fp32_precision == before


def test_a_damaged_newest_checkpoint_costs_only_time(tmp_path, reference):
    folder = tmp_path / "run"
    train(_recipe(max_steps=14), folder)
    newest = Checkpoints(folder).entries()[0].path
    data = bytearray((newest / "optimizer.safetensors").read_bytes())
    data[-1] ^= 1
    (newest / "optimizer.safetensors").write_bytes(data)
    train(_recipe(), folder)
    assert f"{newest / 'optimizer.safetensors'}: damaged: its SHA-256 is not" in (folder / "log.txt").read_text()
    assert final_digest(folder) == reference[0]


def test_counters_of_another_program_cost_only_time(tmp_path, reference):
    folder = tmp_path / "run"
    train(_recipe(max_steps=14), folder)
    newest = Checkpoints(folder).entries()[0].path
    files = {path.name: path.read_bytes() for path in newest.iterdir() if path.name != "manifest.json"}
    files["trainer.json"] = files["trainer.json"].replace(b'"updates"', b'"improvements"')
    remove_folder(newest)
    Draft.begin(newest, 0).commit(files, {"format": 2, "kind": "checkpoint", "step": 14})
    train(_recipe(), folder)
    assert "trainer.json: " in (folder / "log.txt").read_text()
    assert final_digest(folder) == reference[0]


def test_a_checkpoint_that_was_not_retired_goes_at_the_next_start(tmp_path):
    folder, state = tmp_path / "run", tmp_path / "run" / "state"
    options = {"keep_last": 1, "validate_every": 0, "validate_every_epochs": 0}
    train(recipe({"max_steps": 2, **options}), folder)
    shutil.copytree(state / "step-00000002", tmp_path / "old")
    train(recipe({"max_steps": 3, **options}), folder)
    # as if the last process had been killed right after its last checkpoint: it retired nothing, and did not end
    shutil.move(tmp_path / "old", state / "step-00000002")
    (state / "finished.json").unlink()
    train(recipe({"max_steps": 3, **options}), folder)
    assert sorted(path.name for path in state.glob("step-*")) == ["step-00000003"]


@pytest.mark.parametrize(("resume", "message"), [("never", "is not empty; choose another folder, or resume the run")])
def test_resume_never(tmp_path, resume, message):
    train(recipe({"max_steps": 2}), tmp_path / "run")
    with pytest.raises(ConfigError, match=message):
        train(recipe({"max_steps": 2}), tmp_path / "run", resume=resume)
    assert train(recipe({"max_steps": 2}), tmp_path / "new", resume="never").steps == 2


def test_resume_must(tmp_path):
    with pytest.raises(ConfigError, match="run: has no checkpoint to resume from"):
        train(recipe({"max_steps": 2}), tmp_path / "run", resume="must")

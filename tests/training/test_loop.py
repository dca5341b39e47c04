"""What a step computes, bad numbers, limits, the choice of the best model, full disks."""

import json
import math
import os
import signal
from dataclasses import replace

import pytest
import torch
from training_toy import ToyTask, batch_of, digest_of_weights, recipe, toy

from headwise.errors import ConfigError, DataError, Diverged, MachineError
from headwise.runs import commits
from headwise.runs.checkpoints import Checkpoints
from headwise.runs.log import read_metrics
from headwise.runs.publish import read_run
from headwise.tasks.task import Task
from headwise.training.loading import load
from headwise.training.numerics import clip, global_norm
from headwise.training.progress import Progress
from headwise.training.recipe import read_recipe
from headwise.training.session import Session
from headwise.training.train import train


def _events(folder, kind):
    return [event for event in read_metrics(folder) if event["event"] == kind]


def _weights(folder):
    return Checkpoints(folder).newest(print).file("model.safetensors")[0]


def _with_loss(monkeypatch, change):
    """The toy's loss, changed in training by `change(number of the call, loss)`."""
    real, calls = ToyTask.loss, []

    def loss(self, model, batch):
        value = real(self, model, batch)
        if not model.training:
            return value
        calls.append(batch)
        return change(len(calls), value)

    monkeypatch.setattr(ToyTask, "loss", loss)
    return calls


def test_accumulated_batches_are_one_batch(tmp_path):
    # without dropout, k batches of b rows and one of k b rows have the same gradient
    task = toy(read_recipe(recipe(dropout=0.0)))
    model = task.build()
    whole = batch_of(task, range(12))
    (task.loss(model, whole) / whole.num_tokens).backward()
    expected = [parameter.grad.clone() for parameter in model.parameters()]
    parts = [batch_of(task, range(start, start + 3)) for start in range(0, 12, 3)]
    tokens = sum(part.num_tokens for part in parts)
    assert tokens == whole.num_tokens
    model.zero_grad()
    for part in parts:
        (task.loss(model, part) / tokens).backward()
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-5, atol=1e-7)
    # and so has the loop: one step over the whole epoch, in one batch or in many
    made = {"max_steps": 3, "validate_every": 0, "optimizer": "sgd", "clip_norm": 0.0}
    train(recipe({**made, "batch_tokens": 10_000}, dropout=0.0), tmp_path / "one")
    train(recipe({**made, "batch_tokens": 9, "accumulate": 99}, dropout=0.0), tmp_path / "many")
    for name, tensor in _weights(tmp_path / "one").items():
        torch.testing.assert_close(_weights(tmp_path / "many")[name], tensor, rtol=1e-5, atol=1e-6)
    losses = [[event["loss"] for event in _events(tmp_path / name, "step")] for name in ("one", "many")]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_examples_without_tokens_are_skipped(tmp_path):
    made = recipe({"batch_sentences": 1, "max_epochs": 1, "max_steps": 0, "validate_every": 0}, without_tokens=9)
    run = train(made, tmp_path / "run")
    assert (run.steps, run.skipped) == (23 - 9, 0)
    with pytest.raises(DataError, match="no example of the training data has a target token; is the target side empty"):
        train(recipe(without_tokens=23), tmp_path / "none")


def test_the_learning_rate_follows_the_step(tmp_path):
    train(recipe({"schedule": "constant", "warmup_steps": 4, "log_every": 1, "max_steps": 5}), tmp_path / "run")
    assert [event["lr"] for event in _events(tmp_path / "run", "step")] == pytest.approx(
        [0.0125, 0.025, 0.0375, 0.05, 0.05]
    )


def test_clipping():
    parameters = [torch.nn.Parameter(torch.zeros(1)), torch.nn.Parameter(torch.zeros(1, 1))]
    gradients = [torch.tensor([3.0]), torch.tensor([[4.0]])]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient
    clip(parameters, 5.0, 0.0)
    clip(parameters, 5.0, 6.0)
    assert global_norm(gradients) == 5.0
    clip(parameters, 5.0, 2.5)
    torch.testing.assert_close(global_norm(gradients), torch.tensor(2.5))
    assert global_norm([]) == 0.0
    assert global_norm([torch.tensor([1.0, math.nan])]).isnan()


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_bad_loss_is_skipped_counted_and_told(tmp_path, monkeypatch, value):
    calls = _with_loss(monkeypatch, lambda call, loss: loss * value if call in (3, 7) else loss)
    run = train(recipe({"max_steps": 8}), tmp_path / "run")
    skipped = _events(tmp_path / "run", "skipped")
    assert run.skipped == 2
    assert [event["step"] for event in skipped] == [3, 7]
    assert skipped[0]["batches"] == [calls[2].indices]
    assert skipped[0]["reason"].startswith(f"loss {value:g}, gradient norm nan")
    assert "step 3 skipped: loss" in (tmp_path / "run" / "log.txt").read_text()
    for tensor in _weights(tmp_path / "run").values():
        assert tensor.isfinite().all()


def test_one_bad_gradient_is_enough(tmp_path, monkeypatch):
    def change(call, loss):
        if call == 2:
            loss.register_hook(lambda gradient: gradient * math.inf)
        return loss

    _with_loss(monkeypatch, change)
    assert train(recipe({"max_steps": 4}), tmp_path / "run").skipped == 1


def test_ten_in_a_row_end_the_run_and_write_nothing(tmp_path, monkeypatch):
    _with_loss(monkeypatch, lambda call, loss: loss * math.nan if 6 <= call <= 15 or call == 3 else loss)
    expected = (
        r"^training diverged: 10 steps in a row up to step 15 had no finite loss and gradient \(loss nan, gradient"
    )
    with pytest.raises(Diverged, match=expected) as caught:
        train(recipe({"max_steps": 30}), tmp_path / "run")
    assert caught.value.exit_code == 6
    assert [entry.step for entry in Checkpoints(tmp_path / "run").entries()] == [10, 5]
    for tensor in _weights(tmp_path / "run").values():
        assert tensor.isfinite().all()


def test_checkpoints_of_better_times_stay_while_steps_are_skipped(tmp_path, monkeypatch):
    _with_loss(monkeypatch, lambda call, loss: loss * math.nan if call > 6 else loss)
    with pytest.raises(Diverged):
        train(recipe({"max_steps": 30, "save_every": 1}), tmp_path / "run")
    assert [entry.step for entry in Checkpoints(tmp_path / "run").entries()] == [*range(15, 4, -1)]


def test_overflowing_weights_end_the_run_in_the_same_step(tmp_path):
    made = recipe({"max_steps": 30, "learning_rate": 3e38, "optimizer": "sgd", "warmup_steps": 0, "clip_norm": 0.0})
    expected = r"^training diverged: at step \d '.*' holds NaN or infinity \(\d of \d tensors do\), and skipping steps"
    with pytest.raises(Diverged, match=expected):
        train(made, tmp_path / "run")
    assert Checkpoints(tmp_path / "run").entries() == []


def test_a_bad_optimizer_state_is_never_saved(tmp_path, monkeypatch):
    from headwise.training.loop import Loop

    real = Loop._after_step

    def poisoned(self):
        if self.session.progress.step == 7:
            state = self.session.optimizer.state
            next(iter(state.values()))["exp_avg"].fill_(math.nan)
        real(self)

    monkeypatch.setattr(Loop, "_after_step", poisoned)
    with pytest.raises(Diverged, match=r"training diverged: at step 7 'exp_avg:.*' holds NaN"):
        train(recipe({"save_every": 1, "validate_every": 0}), tmp_path / "run")
    assert Checkpoints(tmp_path / "run").entries()[0].step == 6


def test_memory_that_is_out_is_told_with_the_batch(tmp_path, monkeypatch):
    def change(call, loss):
        if call == 2:
            raise RuntimeError(
                "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"
            )
        return loss

    _with_loss(monkeypatch, change)
    expected = (
        r"out of memory at step 2, with \d+ target tokens and up to \d+ examples in a batch; lower training.batch"
    )
    with pytest.raises(MachineError, match=expected):
        train(recipe(), tmp_path / "run")


def test_other_errors_of_a_task_come_through(tmp_path, monkeypatch):
    def change(call, loss):
        raise RuntimeError("a task's own fault")

    _with_loss(monkeypatch, change)
    with pytest.raises(RuntimeError, match="a task's own fault"):
        train(recipe(), tmp_path / "run")


def _validations(values, *, smaller=True):
    progress = Progress()
    best = []
    for value in values:
        progress.step += 5
        best.append(progress.note_validation({"m": value}, value, smaller, 2))
    return best, progress


def test_nan_is_never_best_and_the_first_of_equal_ones_stays():
    best, progress = _validations([math.nan, 3.0, 3.0, math.nan, 2.0, math.inf, -math.inf])
    assert best == [False, True, False, False, True, False, False]
    assert (progress.best_step, progress.best_value, progress.since_best) == (25, 2.0, 2)
    assert progress.recent_steps == [30, 35]
    assert _validations([1.0, 2.0, 2.0], smaller=False)[0] == [True, True, False]


def test_a_metric_that_is_nan_is_no_model(tmp_path, monkeypatch):
    monkeypatch.setattr(ToyTask, "summarise", lambda self, stats: {"loss": math.nan})
    run = train(recipe({"max_steps": 6}), tmp_path / "run")
    assert (run.best, run.metrics) == (6, {})
    assert [event["metrics"] for event in _events(tmp_path / "run", "validation")] == [{"loss": None}] * 2


def test_the_best_model_is_published_not_the_last(tmp_path, monkeypatch):
    values = iter([9.0, 3.0, 1.0, 2.0, 4.0])
    monkeypatch.setattr(ToyTask, "summarise", lambda self, stats: {"loss": next(values)})
    run = train(recipe({"max_steps": 20}), tmp_path / "run")
    assert (run.best, run.metrics) == (10, {"loss": 1.0})
    published = read_run(tmp_path / "run", pytest.fail, lambda saved: saved)
    assert published.facts["step"] == 10
    best = Checkpoints(tmp_path / "run").at(10).file("model.safetensors")[0]
    for name, tensor in published.file("model.safetensors")[0].items():
        assert torch.equal(tensor, best[name])


def test_unknown_metrics_are_found_out_before_training(tmp_path):
    with pytest.raises(ConfigError, match=r"training.monitor: unknown metric 'acuracy'; did you mean 'accuracy'?"):
        train(recipe({"monitor": "acuracy"}), tmp_path / "run")


def test_accuracy_is_better_when_larger(tmp_path):
    run = train(recipe({"monitor": "accuracy"}), tmp_path / "run")
    accuracies = [event["metrics"]["accuracy"] for event in _events(tmp_path / "run", "validation")]
    assert run.metrics["accuracy"] == max(accuracies)


@pytest.mark.parametrize(
    ("options", "reason", "steps"),
    [
        ({"max_steps": 7}, "max_steps", 7),
        ({"max_steps": 0, "max_epochs": 2}, "max_epochs", 12),
        ({"max_steps": 0, "max_cpu_s": 1e-9}, "max_cpu_s", 0),
        ({"max_steps": 99, "learning_rate": 1e-9, "patience": 1, "optimizer": "sgd", "mode": "max"}, "patience", 10),
    ],
)
def test_limits(tmp_path, options, reason, steps):
    run = train(recipe(options), tmp_path / "run")
    assert (run.stopped_because, run.steps) == (reason, steps)


def test_validation_by_epochs_and_without_data(tmp_path):
    by_epoch = {"max_steps": 0, "max_epochs": 5, "validate_every": 0, "validate_every_epochs": 2}
    train(recipe(by_epoch), tmp_path / "run")
    assert [event["epoch"] for event in _events(tmp_path / "run", "validation")] == [2.0, 4.0, 5.0]
    run = train(recipe(by_epoch, valid_examples=0), tmp_path / "none")
    assert (run.metrics, run.best) == ({}, run.steps)
    assert load(tmp_path / "none") is not None


def test_a_cpu_budget_counts_earlier_parts_and_the_rate_falls_with_it(tmp_path):
    made = {"max_steps": 12, "max_cpu_s": 1000.0, "schedule": "budget", "log_every": 1, "warmup_steps": 0}
    train(recipe({**made, "max_steps": 6}), tmp_path / "run")
    first = Checkpoints(tmp_path / "run").newest(print).json("trainer.json")["progress"]["cpu_s"]
    train(recipe(made), tmp_path / "run", allow_schedule_change=True)
    second = Checkpoints(tmp_path / "run").newest(print).json("trainer.json")["progress"]["cpu_s"]
    assert 0 < first < second
    rates = [event["lr"] for event in _events(tmp_path / "run", "step")]
    # the rate falls to the nearest limit, six steps at first and then twelve
    assert rates[:6] == pytest.approx([0.05 * (6 - done) / 6 for done in range(6)], rel=0.02)
    assert rates[6:] == pytest.approx([0.05 * (6 - done) / 12 for done in range(6)], rel=0.02)
    assert "cannot be repeated bit for bit" in (tmp_path / "run" / "log.txt").read_text()


def test_a_score_that_is_no_number_ends_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(ToyTask, "summarise", lambda *_: {"loss": 1.0, "recall": math.nan})
    run = train(recipe({"max_steps": 10, "average_last": 2}), tmp_path / "run")
    assert run.metrics == {"loss": 1.0}
    progress = Progress()
    progress.replace_best(3, math.nan, {"loss": math.nan, "accuracy": 0.5})
    assert (progress.best_value, progress.best_metrics) == (None, {"accuracy": 0.5})


def test_what_is_odd_about_the_data_is_in_the_metrics_and_on_the_card(tmp_path, monkeypatch):
    real = ToyTask.prepare
    monkeypatch.setattr(ToyTask, "prepare", lambda config: replace(real(config), notes=("3 pairs are \x1b too long",)))
    run = train(recipe({"max_steps": 2}), tmp_path / "run").folder
    assert _events(run, "data") == [{"event": "data", "step": 0, "notes": ["3 pairs are \\x1b too long"]}]
    assert (run / "README.md").read_text().endswith("## Data\n\n* 3 pairs are \\x1b too long\n")
    assert len(_events(run, "data")) == 1


def _full_disk(monkeypatch, first, last):
    """The disk refuses the `first` to the `last` checkpoint."""
    real, count = commits.require_space, [0]

    def require_space(path, needed):
        if path.name.startswith("step-"):
            count[0] += 1
            if first <= count[0] <= last:
                raise MachineError(f"{path}: no space left: {needed:,} bytes are needed")
        real(path, needed)

    monkeypatch.setattr(commits, "require_space", require_space)


def test_training_goes_on_when_the_disk_is_full(tmp_path, monkeypatch):
    _full_disk(monkeypatch, 2, 2)
    run = train(recipe({"max_steps": 15}), tmp_path / "run")
    assert run.steps == 15
    text = (tmp_path / "run" / "log.txt").read_text()
    assert "checkpoint of step 10 not saved, to be tried again at the next: " in text
    assert [entry.step for entry in Checkpoints(tmp_path / "run").entries()] == [15, 5]


def test_or_stops_by_choice_and_always_at_the_end(tmp_path, monkeypatch):
    _full_disk(monkeypatch, 2, 99)
    with pytest.raises(MachineError, match="step-00000010: no space left") as caught:
        train(recipe({"max_steps": 15, "on_disk_full": "stop"}), tmp_path / "stop")
    assert caught.value.exit_code == 5
    assert Checkpoints(tmp_path / "stop").newest(print).facts["step"] == 5
    with pytest.raises(MachineError, match="step-00000006: no space left"):
        train(recipe({"max_steps": 6, "validate_every": 0}), tmp_path / "end")


def test_a_best_model_that_a_full_disk_refused_is_published_later(tmp_path, monkeypatch):
    def values(self, stats):
        return {"loss": next(losses)}

    monkeypatch.setattr(ToyTask, "summarise", values)
    losses = iter([9.0, 3.0, 1.0, 2.0, 4.0])
    expected = train(recipe({"max_steps": 15}), tmp_path / "undisturbed")
    losses = iter([9.0, 3.0, 1.0, 2.0, 4.0])
    _full_disk(monkeypatch, 2, 2)
    run = train(recipe({"max_steps": 15}), tmp_path / "run")
    assert run.best == expected.best == 10
    assert run.metrics == expected.metrics == {"loss": 1.0}
    assert digest_of_weights(load(run.folder)) == digest_of_weights(load(expected.folder))
    assert json.loads((run.folder / "manifest.json").read_text())["step"] == 10


def test_a_best_model_that_is_lost_is_replaced_under_a_true_label(tmp_path, monkeypatch):
    monkeypatch.setattr(ToyTask, "summarise", lambda self, stats: {"loss": next(losses)})
    losses = iter([9.0, 1.0, 3.0])
    run = tmp_path / "run"
    assert train(recipe({"max_steps": 10}), run).best == 5
    (run / "state" / "step-00000005" / "model.safetensors").write_bytes(b"")
    (run / "model.safetensors").write_bytes(b"")
    losses = iter([3.0, 7.0])
    assert train(recipe({"max_steps": 15}), run).best == 10
    manifest = json.loads((run / "manifest.json").read_text())
    assert (manifest["step"], manifest["metrics"]) == (10, {"loss": 3.0})
    assert "step 5, the best, is lost; that of step 10 is published in its place" in (run / "log.txt").read_text()
    assert (run / "state" / "damaged-step-00000005").is_dir()
    assert Checkpoints(run).best_step(print) == 10


def test_random_numbers_outside_are_left_alone(tmp_path, untyped):
    import random

    torch.manual_seed(9)
    random.seed(9)
    expected = (torch.rand(3), random.random())
    torch.manual_seed(9)
    random.seed(9)
    train(recipe({"max_steps": 2}), tmp_path / "run")
    assert torch.equal(torch.rand(3), expected[0])
    assert random.random() == expected[1]


def test_a_task_may_not_take_a_name_of_the_run_folder(tmp_path, monkeypatch):
    real = ToyTask.prepare
    monkeypatch.setattr(ToyTask, "prepare", lambda config: replace(real(config), files={"config.toml": b""}))
    monkeypatch.setattr(ToyTask, "__init__", Task.__init__)
    with pytest.raises(ConfigError, match=r"the task's file 'config.toml' has the name of a file of the run folder"):
        Session(toy(read_recipe(recipe())), read_recipe(recipe())).model_files()


def test_learns_its_task(tmp_path):
    train(recipe({"max_steps": 150, "validate_every": 50}, width=23, dropout=0.0, tied=False), tmp_path / "run")
    losses = [event["loss"] for event in _events(tmp_path / "run", "step")]
    assert losses[-1] < 0.3 < 2.0 < losses[0]


def test_a_signal_while_an_average_is_scored_loses_nothing(tmp_path, monkeypatch):
    made = recipe({"max_steps": 10, "average_last": 2})
    real, calls = ToyTask.measure, []

    def measure(self, model, batches):
        calls.append(1)
        if len(calls) == 4:
            os.kill(os.getpid(), signal.SIGTERM)
        return real(self, model, batches)

    monkeypatch.setattr(ToyTask, "measure", measure)
    from headwise.training.signals import Stopped

    with pytest.raises(Stopped, match="stopped by SIGTERM"):
        train(made, tmp_path / "run")
    assert train(made, tmp_path / "run").steps == 10

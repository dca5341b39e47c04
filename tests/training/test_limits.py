"""Shares of limits, the schedule that follows them, forecasts, and what does not fit; every clock is the test's."""

import math

import pytest
from training_toy import recipe, toy

from headwise.runs.checkpoints import Checkpoints
from headwise.runs.display import Display
from headwise.runs.log import RunLog, read_metrics
from headwise.training import reporter
from headwise.training.limits import Budget, Clock, Snapshot, misfits
from headwise.training.loop import Loop
from headwise.training.progress import Progress
from headwise.training.recipe import TrainingConfig, read_recipe
from headwise.training.session import Session
from headwise.training.signals import StopSignal
from headwise.training.train import train
from headwise.training.trial import time_steps


class Hands:
    """A clock that stands still until it is moved, or moves by `tick` at each look."""

    def __init__(self, tick=0.0):
        self.seconds, self.tick = 0.0, tick

    def __call__(self):
        self.seconds += self.tick
        return self.seconds


def session_of(**training):
    made = read_recipe(recipe(training))
    return Session(toy(made), made)


def test_the_nearest_limit_is_used_and_reached():
    wall, cpu = Hands(), Hands()
    session = session_of(max_steps=50, max_epochs=4, max_cpu_s=30.0, max_minutes=2.0)
    budget = Budget(session, Clock(wall, cpu))
    wall.seconds, cpu.seconds, session.progress.step = 60.0, 6.0, 20
    assert budget.shares() == {"max_steps": 0.4, "max_epochs": 0.0, "max_cpu_s": 0.2, "max_minutes": 0.5}
    assert budget.used() == ("max_minutes", 0.5)
    cpu.seconds = 33.0
    assert budget.used() == ("max_cpu_s", 1.1)


def test_the_clock_goes_on_from_earlier_parts():
    wall, cpu = Hands(), Hands()
    clock, progress = Clock(wall, cpu), Progress(cpu_s=5.0, wall_s=7.0)
    clock.resume(progress)
    wall.seconds, cpu.seconds = 3.0, 2.0
    clock.save_to(progress)
    assert (progress.wall_s, progress.cpu_s) == (10.0, 7.0)


def test_the_schedule_begins_after_preparation_and_keeps_its_beginning():
    wall = Hands()
    session = session_of(max_minutes=2.0, max_steps=0)
    budget = Budget(session, Clock(wall, Hands()))
    wall.seconds = 24.0
    budget.begin()
    assert budget.done(budget.used()) == 0.0
    wall.seconds = 72.0
    session.progress.step = 9
    budget.begin()
    assert budget.done(budget.used()) == pytest.approx(0.5)
    wall.seconds = 130.0
    assert budget.done(budget.used()) == 1.0


def test_preparation_that_took_all_leaves_nothing():
    wall = Hands()
    budget = Budget(session_of(max_minutes=1.0), Clock(wall, Hands()))
    wall.seconds = 61.0
    budget.begin()
    assert budget.done(budget.used()) == 1.0


@pytest.mark.parametrize(
    ("limits", "steps"),
    [
        ({"max_steps": 9, "max_epochs": 5}, 9),
        ({"max_steps": 0, "max_epochs": 5}, 30),
        ({"max_steps": 0, "max_epochs": 5, "accumulate": 4}, 10),
        ({"max_steps": 0, "max_minutes": 1.0}, math.inf),
    ],
)
def test_planned_steps(limits, steps):
    session = session_of(**limits)
    assert session.source.size() == 6
    assert Budget(session, Clock()).planned_steps() == steps


def test_a_forecast_goes_on_as_before():
    then = Snapshot(10.0, 5, 0.5, {"max_minutes": 0.1, "max_epochs": 0.05})
    now = Snapshot(40.0, 65, 2.0, {"max_minutes": 0.4, "max_epochs": 0.2})
    found = then.forecast(now)
    assert (found.limit, found.seconds) == ("max_minutes", pytest.approx(60.0))
    assert (found.steps, found.epochs) == (pytest.approx(185.0), pytest.approx(5.0))
    assert then.forecast(then) is None


@pytest.mark.parametrize(
    ("fields", "steps", "told"),
    [
        ({"warmup_steps": 4000}, 1000.0, "the warm-up of 4,000 steps does not end in the 1,000 steps"),
        ({"warmup_steps": 600}, 1000.0, "the warm-up of 600 steps is more than half of the 1,000 steps"),
        ({"warmup_steps": 500}, 1000.0, None),
        ({"warmup_steps": 4000, "warmup_share": 0.1, "schedule": "budget"}, 1000.0, None),
        ({"schedule": "cosine", "max_steps": 9000, "warmup_steps": 9}, 1700.0, "'cosine' falls until step 9,000, but"),
        ({"schedule": "linear", "max_steps": 1800, "warmup_steps": 9}, 1700.0, None),
        ({"warmup_steps": 4000}, math.inf, None),
    ],
)
def test_what_does_not_fit_is_told(fields, steps, told):
    found = misfits(TrainingConfig(**fields), steps)
    assert len(found) == (told is not None)
    assert all(told in text for text in found)


def test_a_run_of_minutes_warms_up_falls_and_ends_with_them(tmp_path):
    wall = Hands(tick=0.25)
    made = read_recipe(
        recipe({"schedule": "budget", "warmup_share": 0.25, "max_minutes": 1.0, "max_steps": 0, "log_every": 1})
    )
    session, log = Session(toy(made), made), RunLog(tmp_path, Display())
    with StopSignal() as stop:
        reason = Loop(session, Checkpoints(tmp_path, keep_last=1), log, stop, Clock(wall, Hands())).run()
    log.close()
    rates = [event["lr"] for event in read_metrics(tmp_path) if event["event"] == "step"]
    peak = rates.index(max(rates))
    assert reason == "max_minutes"
    assert rates[0] < 0.1 * max(rates)
    assert rates[: peak + 1] == sorted(rates[: peak + 1])
    assert rates[peak:] == sorted(rates[peak:], reverse=True)
    assert 0.2 < peak / len(rates) < 0.3
    assert max(rates) == pytest.approx(0.05 * 0.75, rel=0.1)
    assert rates[-1] < 0.1 * max(rates)


def test_the_rate_falls_with_the_passes(tmp_path):
    training = {"schedule": "budget", "warmup_steps": 0, "max_epochs": 2, "max_steps": 0, "log_every": 1}
    train(recipe(training), tmp_path / "run")
    rates = [event["lr"] for event in read_metrics(tmp_path / "run") if event["event"] == "step"]
    assert rates == pytest.approx([0.05 * (12 - done) / 12 for done in range(12)])


def test_a_run_says_where_it_will_end_and_what_does_not_fit(tmp_path):
    wall = Hands()
    session = session_of(max_minutes=10.0, max_steps=0, warmup_steps=800)
    log = RunLog(tmp_path, Display())
    told = reporter.Reporter(session, log, Budget(session, Clock(wall, Hands())))
    told.begin()
    wall.seconds, session.progress.step, session.source.epoch = 59.0, 99, 1
    told.forecast()
    assert "ends at" not in (tmp_path / "log.txt").read_text()
    wall.seconds, session.progress.step, session.source.epoch = 60.0, 100, 2
    told.forecast()
    told.forecast()
    log.close()
    lines = (tmp_path / "log.txt").read_text().splitlines()
    assert len(lines) == 2
    assert lines[0].endswith(", by max_minutes, after about 1,000 steps and 20.0 passes over the data")
    assert "the warm-up of 800 steps is more than half of the 1,000 steps" in lines[1]


def test_a_warm_up_that_never_ends_is_told_at_the_start_and_the_costs_at_the_end(tmp_path):
    run = train(recipe({"max_steps": 2, "warmup_steps": 9}), tmp_path / "run")
    text = (tmp_path / "run" / "log.txt").read_text()
    assert "the warm-up of 9 steps does not end in the 2 steps of this run" in text
    assert f"max_steps after 2 steps, {run.cpu_s:,.0f} CPU s, {run.minutes:,.1f} minutes; the model is in" in text
    assert run.minutes > 0


def test_a_trial_measures_steps_memory_and_passes():
    session = session_of(max_steps=0, max_minutes=1.0, ema_decay=0.9)
    # each look at the clock is half a second later, and a step takes two looks
    found = time_steps(session, 5.0, Hands(tick=0.5))
    weights = sum(parameter.numel() for parameter in session.model.parameters())
    assert (found.step_s, found.pass_steps) == (0.5, 6)
    assert found.tokens > 1
    # float32 weights, gradients, two states of Adam, running mean, and the optimizer's counts of steps
    assert 4 * 5 * weights <= found.weights_bytes <= 4 * 5 * weights + 4 * 8
    assert found.activation_bytes > 0
    assert found.steps(session.recipe.training, 10.0) == 100.0
    assert found.steps(TrainingConfig(max_epochs=3), 10.0) == 18.0

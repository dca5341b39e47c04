"""The runs of a comparison: planned, tuned alike, trained one after another or side by side, and weighed."""

import itertools
import math
import multiprocessing
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch

from headwise import runtime
from headwise.compare.costs import peak_bytes
from headwise.compare.sides import Cost, Side
from headwise.errors import (
    ConfigError,
    DataError,
    Diverged,
    HeadwiseError,
    MachineError,
    OutOfMemory,
    RunBusy,
    Unsupported,
    unknown,
)
from headwise.predictors.intervals import Resampled
from headwise.predictors.lengths import metric_of
from headwise.predictors.rows import Rows
from headwise.tasks import registry
from headwise.training.ledger import Account, NoScore, Row, account_each
from headwise.training.recipe import Recipe, as_recipe
from headwise.training.sweep import Cell, Swept, plan_runs
from headwise.training.train import train
from headwise.training.trial import Trial, try_steps

# between looks at a run that another process trains
_WAIT_S = 5.0
_TRIAL_S = 2.0
# scores of `evaluate` that no validation gives, and which way they improve
_EVALUATED: dict[str, Literal["low", "high"]] = {"chrf": "high", "exact": "high", "word_perplexity": "low"}

Say = Callable[[str], None]


@dataclass(frozen=True)
class Arm:
    """A side that is written out: its recipe, and the settings that it alone has."""

    recipe: str
    settings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """What is compared.

    Args:
        names: recipe files or names.
        settings: as of `headwise train`; those with several values are what sides differ in.
        seeds: of the runs that are scored.
        tune: a key with the values that each side may choose from, on the validation data.
        tokens: of training, in place of the recipe's limits; None: as the settings say.
        split, limit: what is scored.
        folder_of: the run folder of (recipe, settings).
        jobs: runs that train at once, each in a process of its own.
        arms: sides by their names, in place of those that `names` and settings with several values give.
        extensions: times that the values of `tune`, which are numbers then, go on for all sides while the best of one
            side is the first or the last.
        worst: a run that fails has a finite score, 0, or of a score that is better when it is low the highest of all
            runs; else one that is infinitely bad.
        alone: whether a single side is enough.
    """

    names: Sequence[str]
    settings: Sequence[str]
    seeds: Sequence[int]
    folder_of: Callable[[str, list[str]], Path]
    tune: Swept | None = None
    tokens: int | None = None
    metric: str | None = None
    split: str = "test"
    limit: int | None = None
    jobs: int = 1
    arms: Mapping[str, Arm] = field(default_factory=dict)
    extensions: int = 0
    worst: bool = False
    alone: bool = False


class Outcome(NamedTuple):
    """What became of a run; `why` it failed: it diverged, or it crashed, which says nothing of its model."""

    state: Literal["trained", "busy", "diverged", "crashed"]
    why: str = ""


class Measured(NamedTuple):
    """A run that was scored, with what was counted of each example; what its decoder keeps, of the first of a side."""

    row: Row
    rows: Rows | None
    state_bytes: int | None


@dataclass(frozen=True)
class Trained:
    """A side whose runs have ended.

    Args:
        rows: of the runs that have a score, by seed.
        scores: by seed; of a run that failed the worst one.
        measured: what else was found of the runs that have a score; failures: why the others have none.
        tuned, at_edge: as of `Side`; tuning_cpu_s: of the runs that chose it.
        crashes: runs that ended for a reason that says nothing of the side, those of tuning too, in words.
    """

    cells: Mapping[int, Cell]
    rows: Mapping[int, Row]
    scores: Mapping[int, float]
    tuned: str | None
    at_edge: bool
    measured: Mapping[int, Measured] = field(default_factory=dict)
    failures: Mapping[int, str] = field(default_factory=dict)
    crashes: Sequence[str] = ()
    tuning_cpu_s: float = 0.0

    @property
    def diverged(self) -> list[int]:
        """Seeds whose run failed, for whatever reason."""
        return sorted(self.cells.keys() - self.rows.keys())

    def resampled(self, metric: str) -> dict[int, Resampled]:
        """By seed, a score as a function of the examples, where it follows from what was counted of each."""
        return {
            seed: scored.rows.resampled(metric)
            for seed, scored in self.measured.items()
            if scored.rows is not None and metric in scored.rows.metrics
        }


@dataclass(frozen=True)
class Choice:
    """The tuned value of a side, whether it is the first or last one, which runs crashed on the way, and their time."""

    value: str | None
    at_edge: bool
    crashes: Sequence[str] = ()
    cpu_s: float = 0.0


@dataclass(frozen=True)
class Result:
    """Sides with what was measured, by the score that they are compared by.

    Args:
        conditions: what is compared and what is alike, in words.
    """

    metric: str
    better: Literal["low", "high"]
    sides: list[Side]
    conditions: list[str]


def compare(plan: Plan, say: Say = lambda text: None) -> Result:
    """Trains what is not trained yet, and scores it. The same call again goes on where it was broken off.

    Several processes may make the same call at once, on one machine or on several that share the folder: each trains
    the next run that none of them is training.

    Args:
        say: told what happens, a line each.
    Raises: as `plan_runs`, `train` and `account`; ConfigError for fewer than two sides.
    """
    sides = plan_sides(plan)
    costs = {}
    for name, cell in sides.items():
        say(f"measuring a step of {name}")
        costs[name] = _cost(cell.recipe)
    metric, better, trained = train_sides(plan, sides, say, {name: cost.tokens for name, cost in costs.items()})
    for side in trained.values():
        _check_length(side)
    first = next(row for side in trained.values() for row in side.rows.values())
    return Result(
        metric,
        better,
        [_side(name, sides[name], side, costs[name], metric) for name, side in trained.items()],
        _conditions(plan, first),
    )


def plan_sides(plan: Plan) -> dict[str, Cell]:
    """A run of each side, with the first seed; all are checked before anything trains.

    Raises: as `plan_runs`; ConfigError for fewer than two sides, and for sides that cannot be compared.
    """
    if plan.tune is not None and plan.tune.key == "seed":
        raise ConfigError("seed is what runs are repeated with, and cannot be tuned; give --seeds")
    own = [setting for arm in plan.arms.values() for setting in arm.settings]
    keys = {setting.partition("=")[0].strip() for setting in (*plan.settings, *own)}
    if plan.tune is not None and plan.tune.key in keys:
        raise ConfigError(f"{plan.tune.key} is tuned, so that it cannot be set; leave it out of the settings")
    sides = _arms(plan) if plan.arms else _sides(plan_runs(plan.names, plan.settings, [plan.seeds[0]], plan.folder_of))
    if len(tasks := {cell.recipe.task for cell in sides.values()}) > 1:
        raise ConfigError(f"{' and '.join(sorted(tasks))} are different tasks, whose scores cannot be compared")
    if len(sides) < 2 and not (sides and plan.alone):
        raise ConfigError(
            "there is one model, and nothing to compare; give several values: model.position=rotary,alibi"
        )
    if plan.metric is not None:
        direction(next(iter(tasks)), plan.metric)
    return sides


def train_sides(
    plan: Plan, sides: Mapping[str, Cell], say: Say = lambda text: None, tokens: Mapping[str, float] | None = None
) -> tuple[str, Literal["low", "high"], dict[str, Trained]]:
    """Tunes sides alike, trains what is not trained yet, and scores it: the metric, which way it is better, the sides.

    Args:
        sides: of `plan_sides`.
        tokens: of a batch of each side, for a plan with a budget of tokens.
    Raises: as `train` and `account`.
    """
    tokens = tokens or {}
    chosen = _tuned(plan, sides, tokens, say)
    cells = {name: _cells(plan, cell, tokens.get(name), plan.seeds, chosen[name].value) for name, cell in sides.items()}
    # broken off at any time, there are as many runs of each side
    failures = _train_all([row[place] for place in range(len(plan.seeds)) for row in cells.values()], plan, say)
    accounts = {}
    for name, row in cells.items():
        say(f"scoring {name}")
        accounts[name] = _accounts(plan, row, failures)
    if not (all_rows := [run.row for by_seed, _ in accounts.values() for run in by_seed.values()]):
        reason = next((outcome.why for outcome in failures.values()), "no run has a score")
        raise Diverged(f"every run failed, and nothing can be compared; the first one: {reason}")
    metric, better = _metric(plan, all_rows[0])
    for name, row in cells.items():
        chosen[name] = replace(chosen[name], crashes=[*chosen[name].crashes, *_crashes(row, failures)])
    lost = -math.inf if better == "high" else math.inf
    if plan.worst:
        lost = 0.0 if better == "high" else max(scored.scores[metric] for scored in all_rows)
    return (
        metric,
        better,
        {name: _trained_side(cells[name], *accounts[name], metric, lost, chosen[name]) for name in sides},
    )


def _trained_side(
    cells: Sequence[Cell],
    accounts: Mapping[int, Measured],
    failures: Mapping[int, str],
    metric: str,
    lost: float,
    chosen: Choice,
) -> Trained:
    rows = {seed: scored.row for seed, scored in accounts.items()}
    by_seed = {cell.recipe.seed: cell for cell in cells}
    scores = {seed: rows[seed].scores[metric] if seed in rows else lost for seed in by_seed}
    return Trained(
        by_seed, rows, scores, chosen.value, chosen.at_edge, accounts, failures, chosen.crashes, chosen.cpu_s
    )


def _crashes(cells: Sequence[Cell], failures: Mapping[Path, Outcome], doing: str = "") -> list[str]:
    """Those of these runs that crashed, in words."""
    return [
        f"seed {cell.recipe.seed}{doing}: {failures[cell.folder].why}".partition("\n")[0]
        for cell in cells
        if cell.folder in failures and failures[cell.folder].state == "crashed"
    ]


def _arms(plan: Plan) -> dict[str, Cell]:
    """A run of each side that is written out, with the first seed."""
    sides = {}
    for name, arm in plan.arms.items():
        values = tuple((key.strip(), value.strip()) for key, _, value in (own.partition("=") for own in arm.settings))
        (cell,) = plan_runs([arm.recipe], [*plan.settings], [plan.seeds[0]], plan.folder_of, values)
        sides[name] = cell
    return sides


def _sides(cells: Sequence[Cell]) -> dict[str, Cell]:
    """Cells by the name of their side."""
    several = len({cell.name for cell in cells}) > 1
    return {
        ", ".join([cell.name] * (several or not cell.values) + [value for _, value in cell.values]): cell
        for cell in cells
    }


def _cells(plan: Plan, side: Cell, tokens: float | None, seeds: Sequence[int], tuned: str | None) -> list[Cell]:
    """The runs of a side, one for each seed."""
    settings = [setting for setting in plan.settings if Swept.parse(setting) is None]
    if tuned is not None and plan.tune is not None:
        settings.append(f"{plan.tune.key}={tuned}")
    if plan.tokens is not None and tokens is not None:
        steps = max(1, round(plan.tokens / tokens))
        settings += [f"training.max_steps={steps}", "training.max_epochs=0"]
    recipes = (*plan.names, *(arm.recipe for arm in plan.arms.values()))
    name = next(name for name in recipes if Path(name).stem == side.name)
    return plan_runs([name], settings, seeds, plan.folder_of, side.values)


def _tuned(plan: Plan, sides: Mapping[str, Cell], tokens: Mapping[str, float], say: Say) -> dict[str, Choice]:
    """For each side the value of the tuned key that is best on the validation data, and whether it is at an end.

    It is chosen with a seed that is not reported. Of values that are equally good it is the one in the middle.
    """
    if plan.tune is None:
        return dict.fromkeys(sides, Choice(None, False))
    crashes: dict[str, list[str]] = {name: [] for name in sides}
    seed, values = max(plan.seeds) + 1, list(plan.tune.values)
    scores: dict[tuple[str, str], float] = {}
    cpu_s = dict.fromkeys(sides, 0.0)
    for times in range(plan.extensions + 1):
        for name, side in sides.items():
            cells = {
                value: _cells(plan, side, tokens.get(name), [seed], value)[0]
                for value in values
                if (name, value) not in scores
            }
            failures = _train_all(list(cells.values()), plan, say)
            crashes[name] += _crashes(list(cells.values()), failures, " of tuning")
            for value, cell in cells.items():
                score, spent_s = _tuning_score(plan, cell, say) if cell.folder not in failures else (-math.inf, 0.0)
                scores[name, value] = score
                cpu_s[name] += spent_s
        best = {name: _best([scores[name, value] for value in values]) for name in sides}
        ends = 0 in best.values(), len(values) - 1 in best.values()
        if times == plan.extensions or not any(ends):
            break
        values = extended(values, *ends)
        say(f"{plan.tune.key} goes on for all sides: {', '.join(values)}")
    for name, place in best.items():
        say(f"{name}: {plan.tune.key} = {values[place]}")
    return {
        name: Choice(values[place], place in (0, len(values) - 1), crashes[name], cpu_s[name])
        for name, place in best.items()
    }


def _tuning_score(plan: Plan, cell: Cell, say: Say) -> tuple[float, float]:
    """On the validation data, larger is better, the least of all where there is none; and CPU seconds of training."""
    try:
        scored = account_each(cell.folder, "valid", plan.limit).row
    except DataError as error:
        say(f"{error}; it counts as the worst")
        return -math.inf, 0.0
    metric, better = _metric(plan, scored)
    return scored.scores[metric] * (1 if better == "high" else -1), scored.cpu_s


def _best(scores: Sequence[float]) -> int:
    """The place of the largest number; of several the one that is nearest to the middle.

    >>> _best([0.5, 1.0, 1.0, 1.0])
    2
    """
    middle = (len(scores) - 1) / 2
    return min(
        (place for place, score in enumerate(scores) if score == max(scores)), key=lambda at: (abs(at - middle), -at)
    )


def extended(values: Sequence[str], below: bool, above: bool) -> list[str]:
    """Numbers that go on by the factor of the two that are next to an end.

    Raises: ConfigError for what are not two positive numbers in ascending order or more.

    >>> extended(["0.001", "0.004"], True, True)
    ['0.00025', '0.001', '0.004', '0.016']
    """
    try:
        numbers = [float(value) for value in values]
    except ValueError:
        numbers = []
    if len(numbers) < 2 or numbers[0] <= 0 or any(a >= b for a, b in itertools.pairwise(numbers)):
        raise ConfigError(f"the tuned values {', '.join(values)} cannot go on: give positive numbers, ascending")
    first = [f"{numbers[0] ** 2 / numbers[1]:.6g}"] if below else []
    last = [f"{numbers[-1] ** 2 / numbers[-2]:.6g}"] if above else []
    return [*first, *values, *last]


def _accounts(
    plan: Plan, cells: Sequence[Cell], failures: Mapping[Path, Outcome]
) -> tuple[dict[int, Measured], dict[int, str]]:
    """The runs of a side by their seed, and why others failed."""
    accounts, failed = dict[int, Measured](), dict[int, str]()
    for cell in cells:
        if cell.folder in failures:
            failed[cell.recipe.seed] = failures[cell.folder].why
            continue
        try:
            scored = account_each(cell.folder, plan.split, plan.limit)
            # the model itself is not kept
            state = None if accounts else _state_bytes(scored)
            accounts[cell.recipe.seed] = Measured(scored.row, scored.rows, state)
        except NoScore as error:
            failed[cell.recipe.seed] = str(error)
    return accounts, failed


def _metric(plan: Plan, scored: Row) -> tuple[str, Literal["low", "high"]]:
    """The score that is compared, and which way it is better."""
    name = metric_of(dict(scored.scores), plan.metric or scored.metric)
    return name, direction(scored.task, name)


def direction(task: str, metric: str) -> Literal["low", "high"]:
    """Which way a score of a task is better. Raises: ConfigError for one that the task does not state."""
    directions = _EVALUATED | {known.name: known.better for known in registry.task_type(task).metrics}
    if metric not in directions:
        raise ConfigError(f"{unknown('metric', metric, directions)}; these say whether a larger one is better")
    return directions[metric]


def _train_all(cells: Sequence[Cell], plan: Plan, say: Say) -> dict[Path, Outcome]:
    """Trains every cell; those that another process is training are waited for. Runs that failed, by their folder."""
    waiting, failures = list(cells), dict[Path, Outcome]()
    while waiting:
        busy = []
        for cell, outcome in _trained(waiting, plan.jobs):
            if outcome.state == "trained":
                say(f"trained {cell.folder}")
            elif outcome.state == "busy":
                busy.append(cell)
            else:
                say(f"{cell.folder} failed, which counts as the worst score: {outcome.why}")
                failures[cell.folder] = outcome
        if len(busy) == len(waiting):
            time.sleep(_WAIT_S)
        waiting = busy
    return failures


def _trained(cells: Sequence[Cell], jobs: int) -> Iterator[tuple[Cell, Outcome]]:
    if jobs == 1:
        for cell in cells:
            yield cell, _train(cell.recipe, cell.folder)
        return
    threads = max(1, torch.get_num_threads() // jobs)
    # a process that is started anew inherits no threads and locks of this one
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        futures = {pool.submit(_train, _values(cell.recipe), cell.folder, threads): cell for cell in cells}
        try:
            for future in as_completed(futures):
                # one that ends takes all others with it: each by itself shows which
                yield futures[future], _result_of(future) or _train_alone(futures[future], threads)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _result_of(future: Future[Outcome]) -> Outcome | None:
    return None if isinstance(future.exception(), BrokenProcessPool) else future.result()


def _train_alone(cell: Cell, threads: int) -> Outcome:
    try:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            return pool.submit(_train, _values(cell.recipe), cell.folder, threads).result()
    except BrokenProcessPool:
        return Outcome("crashed", "its process was ended from outside, as the system does where memory runs out")


def _values(recipe: Recipe) -> dict[str, Any]:
    """A recipe as another process reads it, which has no class of this one."""
    return recipe.model_dump(mode="json")


def _train(recipe: Recipe | Mapping[str, Any], folder: Path, threads: int | None = None) -> Outcome:
    """Trains a run unless it is finished, or another process is at it.

    Raises: as `train`, but for what is wrong with this run alone: it diverges, needs too much memory, or crashes.
    """
    if threads is not None:
        runtime.apply(threads)
    try:
        train(recipe, folder)
    except RunBusy:
        return Outcome("busy")
    except Diverged as error:
        return Outcome("diverged", str(error))
    except OutOfMemory as error:
        return Outcome("crashed", str(error))
    except HeadwiseError:
        raise
    except Exception as error:
        # a model of one's own may fail in any way
        return Outcome("crashed", f"{type(error).__name__}: {error}")
    return Outcome("trained")


def _cost(recipe: Recipe) -> Cost:
    """What a step of a recipe costs, measured in a process of its own, whose memory nothing else has used."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_measure, _values(recipe)).result()


def _measure(values: Mapping[str, Any]) -> Cost:
    runtime.apply(1)
    recipe, trials = as_recipe(values), list[tuple[Trial, int]]()
    try:
        height = peak_bytes(lambda: trials.append(try_steps(recipe, _TRIAL_S)))
    except MachineError:
        # without /proc what is counted stands for what is measured
        trials.append(try_steps(recipe, _TRIAL_S))
        height = trials[-1][0].weights_bytes + trials[-1][0].activation_bytes
    trial, parameters = trials[-1]
    return Cost(parameters, trial.step_cpu_s, trial.tokens, height)


def _side(name: str, cell: Cell, side: Trained, cost: Cost, metric: str) -> Side:
    rows = side.rows.values()
    return Side(
        name,
        dict(cell.values),
        side.scores,
        cost,
        sum(row.cpu_s for row in rows),
        sum(row.steps for row in rows) / max(1, len(rows)),
        side.tuned,
        side.at_edge,
        side.failures,
        side.resampled(metric),
        next((scored.state_bytes for scored in side.measured.values()), None),
        {seed: str(cell.folder) for seed, cell in side.cells.items() if seed in side.rows},
    )


def _state_bytes(account: Account) -> int | None:
    try:
        return account.predictor.state_bytes(account.examples)
    except Unsupported:
        return None


def _check_length(side: Trained) -> None:
    """Raises: ConfigError for a run that was trained on, under the same name, for more steps than it is asked for."""
    for seed, row in side.rows.items():
        cell = side.cells[seed]
        most, steps = cell.recipe.training.max_steps, row.steps
        if most and steps > most:
            raise ConfigError(f"{cell.folder} has {steps} steps, and {most} are asked for; name another folder: --runs")


def _conditions(plan: Plan, scored: Row) -> list[str]:
    swept = [key for key in map(Swept.parse, plan.settings) if key is not None]
    fixed = [setting for setting in plan.settings if Swept.parse(setting) is None]
    words = [f"compared: {key.key} = {', '.join(key.values)}" for key in swept]
    if len(plan.names) > 1:
        words.append(f"compared: recipes {', '.join(plan.names)}")
    alike = [*([] if len(plan.names) > 1 else [f"recipe {plan.names[0]}"]), *fixed]
    if plan.tokens is not None:
        alike.append(f"{plan.tokens:,} tokens of training")
    words.append(f"alike: {', '.join([*alike, f'data {scored.data}'])}")
    if plan.tune is not None:
        words.append(f"tuned for each on the validation data: {plan.tune.key} = {', '.join(plan.tune.values)}")
    words.append(f"scored: {scored.examples:,} examples ({scored.part}), seeds {', '.join(map(str, plan.seeds))}")
    return words

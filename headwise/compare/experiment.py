"""The runs of a comparison: planned, tuned alike, trained one after another or side by side, and weighed."""

import math
import multiprocessing
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
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
from headwise.predictors.lengths import metric_of
from headwise.tasks import registry
from headwise.training.ledger import Account, NoScore, Row, account, account_each
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
    if plan.tune is not None and plan.tune.key == "seed":
        raise ConfigError("seed is what runs are repeated with, and cannot be tuned; give --seeds")
    if plan.tune is not None and any(setting.partition("=")[0].strip() == plan.tune.key for setting in plan.settings):
        raise ConfigError(f"{plan.tune.key} is tuned, so that it cannot be set; leave it out of the settings")
    groups = _sides(plan_runs(plan.names, plan.settings, [plan.seeds[0]], plan.folder_of))
    if len(tasks := {cell.recipe.task for (cell,) in groups.values()}) > 1:
        raise ConfigError(f"{' and '.join(sorted(tasks))} are different tasks, whose scores cannot be compared")
    if len(groups) < 2:
        raise ConfigError(
            "there is one model, and nothing to compare; give several values: model.position=rotary,alibi"
        )
    if plan.metric is not None:
        _direction(next(iter(tasks)), plan.metric)
    costs = {}
    for name, (cell,) in groups.items():
        say(f"measuring a step of {name}")
        costs[name] = _cost(cell.recipe)
    chosen = {name: _tuned(plan, cell, costs[name], say) for name, (cell,) in groups.items()}
    cells = {name: _cells(plan, cell, costs[name], plan.seeds, chosen[name][0]) for name, (cell,) in groups.items()}
    # broken off at any time, there are as many runs of each side
    runs = [row[place] for place in range(len(plan.seeds)) for row in cells.values()]
    failures = _train_all(runs, plan.jobs, say)
    if len(failures) == len(runs):
        raise Diverged(f"every run failed, the first one so: {next(iter(failures.values()))}")
    return _result(plan, cells, costs, chosen, failures, say)


def _sides(cells: Sequence[Cell]) -> dict[str, list[Cell]]:
    """Cells by the name of their side."""
    several = len({cell.name for cell in cells}) > 1
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        words = [cell.name] * (several or not cell.values) + [value for _, value in cell.values]
        groups.setdefault(", ".join(words), []).append(cell)
    return groups


def _cells(plan: Plan, side: Cell, cost: Cost, seeds: Sequence[int], tuned: str | None) -> list[Cell]:
    """The runs of a side, one for each seed."""
    settings = [setting for setting in plan.settings if Swept.parse(setting) is None]
    settings += [f"{key}={value}" for key, value in side.values]
    if tuned is not None and plan.tune is not None:
        settings.append(f"{plan.tune.key}={tuned}")
    if plan.tokens is not None:
        steps = max(1, round(plan.tokens / cost.tokens))
        settings += [f"training.max_steps={steps}", "training.max_epochs=0"]
    name = next(name for name in plan.names if Path(name).stem == side.name)
    return plan_runs([name], settings, seeds, plan.folder_of)


def _tuned(plan: Plan, side: Cell, cost: Cost, say: Say) -> tuple[str | None, bool]:
    """The value of the tuned key that is best on the validation data, and whether it is the first or last one.

    It is chosen with a seed that is not reported.
    """
    if plan.tune is None:
        return None, False
    seed, values = max(plan.seeds) + 1, plan.tune.values
    cells = [_cells(plan, side, cost, [seed], value)[0] for value in values]
    failures = _train_all(cells, plan.jobs, say)
    scores = []
    for cell in cells:
        if cell.folder in failures:
            scores.append(-math.inf)
            continue
        try:
            scored = account(cell.folder, "valid", plan.limit)
            metric, better = _metric(plan, scored)
            scores.append(scored.scores[metric] * (1 if better == "high" else -1))
        except DataError as error:
            say(f"{error}; it counts as the worst")
            scores.append(-math.inf)
    place = max(range(len(values)), key=lambda at: scores[at])
    say(f"{', '.join(value for _, value in side.values) or side.name}: {plan.tune.key} = {values[place]}")
    return values[place], place in (0, len(values) - 1)


def _metric(plan: Plan, scored: Row) -> tuple[str, Literal["low", "high"]]:
    """The score that is compared, and which way it is better."""
    name = metric_of(dict(scored.scores), plan.metric or scored.metric)
    return name, _direction(scored.task, name)


def _direction(task: str, metric: str) -> Literal["low", "high"]:
    """Raises: ConfigError for a score that the task does not state."""
    directions = _EVALUATED | {known.name: known.better for known in registry.task_type(task).metrics}
    if metric not in directions:
        raise ConfigError(f"{unknown('metric', metric, directions)}; these say whether a larger one is better")
    return directions[metric]


class Outcome(NamedTuple):
    """What became of a run; `why` it failed: it diverged, or its process ended."""

    state: Literal["trained", "busy", "failed"]
    why: str = ""


def _train_all(cells: Sequence[Cell], jobs: int, say: Say) -> dict[Path, str]:
    """Trains every cell; those that another process is training are waited for. Why runs failed, by their folder."""
    waiting, failures = list(cells), dict[Path, str]()
    while waiting:
        busy = []
        for cell, outcome in _trained(waiting, jobs):
            if outcome.state == "trained":
                say(f"trained {cell.folder}")
            elif outcome.state == "busy":
                busy.append(cell)
            else:
                say(f"{cell.folder} failed, which counts as the worst score: {outcome.why}")
                failures[cell.folder] = outcome.why
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
        return Outcome("failed", "its process was ended from outside, as the system does where memory runs out")


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
    except (Diverged, OutOfMemory) as error:
        return Outcome("failed", str(error))
    except HeadwiseError:
        raise
    except Exception as error:
        # a model of one's own may fail in any way
        return Outcome("failed", f"{type(error).__name__}: {error}")
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


def _result(
    plan: Plan,
    cells: Mapping[str, Sequence[Cell]],
    costs: Mapping[str, Cost],
    chosen: Mapping[str, tuple[str | None, bool]],
    failures: Mapping[Path, str],
    say: Say,
) -> Result:
    scored = {}
    for name, row in cells.items():
        say(f"scoring {name}")
        scored[name] = _accounts(plan, row, failures)
    first = next(account.row for accounts, _ in scored.values() for account in accounts.values())
    metric, better = _metric(plan, first)
    sides = [_side(name, row, costs[name], chosen[name], metric, better, *scored[name]) for name, row in cells.items()]
    return Result(metric, better, sides, _conditions(plan, first))


def _accounts(
    plan: Plan, cells: Sequence[Cell], failures: Mapping[Path, str]
) -> tuple[dict[int, Account], dict[int, str]]:
    """The runs of a side by their seed, and why others failed."""
    accounts, failed = dict[int, Account](), dict[int, str]()
    for cell in cells:
        if cell.folder in failures:
            failed[cell.recipe.seed] = failures[cell.folder]
            continue
        try:
            accounts[cell.recipe.seed] = account_each(cell.folder, plan.split, plan.limit)
        except NoScore as error:
            failed[cell.recipe.seed] = str(error)
    _check_length(cells, {seed: account.row for seed, account in accounts.items()})
    return accounts, failed


def _side(
    name: str,
    cells: Sequence[Cell],
    cost: Cost,
    chosen: tuple[str | None, bool],
    metric: str,
    better: Literal["low", "high"],
    accounts: Mapping[int, Account],
    failures: Mapping[int, str],
) -> Side:
    worst, rows = math.inf if better == "low" else -math.inf, [account.row for account in accounts.values()]
    return Side(
        name,
        dict(cells[0].values),
        {
            cell.recipe.seed: accounts[cell.recipe.seed].row.scores[metric] if cell.recipe.seed in accounts else worst
            for cell in cells
        },
        cost,
        sum(row.cpu_s for row in rows),
        sum(row.steps for row in rows) / max(1, len(rows)),
        *chosen,
        failures,
        {
            seed: account.rows.resampled(metric)
            for seed, account in accounts.items()
            if account.rows is not None and metric in account.rows.metrics
        },
        next((_state_bytes(account) for account in accounts.values()), None),
        {cell.recipe.seed: str(cell.folder) for cell in cells if cell.recipe.seed in accounts},
    )


def _state_bytes(account: Account) -> int | None:
    try:
        return account.predictor.state_bytes(account.examples)
    except Unsupported:
        return None


def _check_length(cells: Sequence[Cell], rows: Mapping[int, Row]) -> None:
    """Raises: ConfigError for a run that was trained on, under the same name, for more steps than it is asked for."""
    for cell in cells:
        if cell.recipe.seed not in rows:
            continue
        most, steps = cell.recipe.training.max_steps, rows[cell.recipe.seed].steps
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

"""The end of a run: the average of the last checkpoints if it is better, the best model published, the README."""

import datetime
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headwise import runtime
from headwise.errors import CheckpointError, HeadwiseError
from headwise.labels import visible
from headwise.processes import ALONE
from headwise.runs.checkpoints import Checkpoints
from headwise.runs.commits import Writable, commit_file
from headwise.runs.log import RunLog
from headwise.runs.publish import DATA, evaluated, publish
from headwise.runs.reading import read_folder
from headwise.runs.tensors import TensorFile
from headwise.training.comparison import Baselines, compare_with_baselines
from headwise.training.ema import average
from headwise.training.progress import finite_only
from headwise.training.session import Session, weight_files
from headwise.training.validation import Guard, monitored, scores, smaller_is_better

README = "README.md"


@dataclass(frozen=True)
class Outcome:
    """The model that a run ends with: its step, or the steps it is the average of, and its scores."""

    steps: list[int]
    metrics: dict[str, float]


def finish(session: Session, checkpoints: Checkpoints, log: RunLog, guard: Guard, reason: str) -> dict[str, Any]:
    """Publishes the best model, or the average of the last ones if that is better, and writes the README.

    For one process alone.

    Returns: the facts that it records about the end of the run.
    """
    outcome = _publish_average(session, checkpoints, log, guard) or publish_best(session, checkpoints, log, guard)
    baselines = _baselines(session, outcome, log, guard)
    text = "\n\n".join(
        [
            session.task.card(outcome.metrics).rstrip(),
            *_baseline_facts(baselines),
            _training_facts(session, outcome, reason),
        ]
    )
    commit_file(checkpoints.run / README, text.encode())
    progress = session.progress
    facts = {
        "step": progress.step,
        "reason": reason,
        "skipped": progress.skipped,
        "steps": outcome.steps,
        "cpu_s": progress.cpu_s,
        "wall_s": progress.wall_s,
        "metrics": finite_only(outcome.metrics),
        "baselines": {name: finite_only(scores) for name, scores in baselines.scores().items()},
        "comparison": None if baselines.comparison is None else baselines.comparison.warning,
        "parameters": _num_parameters(session),
        "ended": datetime.date.today().isoformat(),
        "processor": _processor(session.device),
        "version": runtime.version(),
    }
    checkpoints.mark_finished(facts)
    return facts


def publish_best(session: Session, checkpoints: Checkpoints, log: RunLog, guard: Guard) -> Outcome:
    """Publishes the best checkpoint unless it is published; the last one where no validation chose a best.

    Where the best is damaged, the newest good checkpoint is scored and published instead.
    """
    progress = session.progress
    best = progress.best_step or progress.step
    if not _is_published(checkpoints, best, session.model_files()):
        saved = checkpoints.newest(log.note, first=best)
        assert saved is not None, "a run that has made steps has a checkpoint"
        _, tensors, tied = evaluated(saved)
        if (step := saved.facts["step"]) != best:
            metrics = _scores_of(session, tensors, tied, guard) if session.validates else {}
            value = monitored(session.recipe.training, metrics) if metrics else None
            progress.replace_best(step, value, metrics)
            checkpoints.point_to_best(step, progress.best_value)
            log.note(f"the model of step {best}, the best, is lost; that of step {step} is published in its place")
        files = {**session.model_files(), **weight_files(TensorFile(tensors, tied))}
        publish(checkpoints.run, files, {"step": step, "metrics": progress.best_metrics, DATA: session.digests})
    return Outcome([progress.best_step or progress.step], progress.best_metrics)


def _publish_average(session: Session, checkpoints: Checkpoints, log: RunLog, guard: Guard) -> Outcome | None:
    config, progress = session.recipe.training, session.progress
    models, steps, tied = _recent(checkpoints, progress.recent_steps, log)
    if config.average_last < 2 or len(models) < 2:
        return None
    mean = average(models)
    metrics = _scores_of(session, mean, tied, guard)
    value, best = monitored(config, metrics), progress.best_value
    metrics = finite_only(metrics)
    better = best is not None and (value < best if smaller_is_better(session) else value > best)
    average_of = f"average of the checkpoints of steps {', '.join(map(str, steps))}: {config.monitor} {value:.4g}, "
    log.note(average_of + ("better than the best one, and published" if better else "no better than the best one"))
    log.emit({"event": "average", "step": progress.step, "steps": steps, "metrics": metrics, "best": better})
    if not better:
        return None
    files = {**session.model_files(), **weight_files(TensorFile(mean, tied))}
    publish(checkpoints.run, files, {"step": steps[-1], "averaged": steps, "metrics": metrics, DATA: session.digests})
    return Outcome(steps, metrics)


def _baselines(session: Session, outcome: Outcome, log: RunLog, guard: Guard) -> Baselines:
    """The baselines on the validation data; none after a signal, since the model is published."""
    recipe = session.recipe
    if not (session.validates and recipe.training.baseline_cpu_s):
        return Baselines()
    try:
        with guard(), warnings.catch_warnings():
            # warnings about the data were logged at the start
            warnings.simplefilter("ignore")
            every: Sequence[Any] = type(session.task).examples(recipe, "valid")
            limit = recipe.training.valid_limit
            examples = every if limit is None else session.task.select(every, limit)
            predictor = session.task.predictor(session.model)
            baselines = compare_with_baselines(recipe, predictor, examples, outcome.metrics, session.digests)
    except Exception as error:
        # a comparison is no reason to lose a run: the data may be gone, a user's task may fail in any way
        log.note(f"baselines are left out: {error if isinstance(error, HeadwiseError) else repr(error)[:200]}")
        return Baselines()
    if baselines.baselines and len(examples) < len(every):
        log.note(f"model and baselines are compared on a part of the validation data: training.valid_limit = {limit}")
    for note in (*baselines.notes, *([] if baselines.comparison is None else [baselines.comparison.warning])):
        log.note(note)
    return baselines


def _baseline_facts(baselines: Baselines) -> list[str]:
    if not baselines.baselines:
        return []
    rows = "".join(
        f"| {visible(baseline.name)} | {', '.join(f'{k} {value:.4g}' for k, value in baseline.scores.items())} |\n"
        for baseline in baselines.baselines
    )
    sentence = "" if baselines.comparison is None else f"Validation {baselines.comparison}.\n\n"
    return [f"## Baselines\n\n{sentence}| | |\n|---|---|\n{rows}".rstrip()]


def _recent(
    checkpoints: Checkpoints, steps: list[int], log: RunLog
) -> tuple[list[Mapping[str, Tensor]], list[int], Mapping[str, str]]:
    """The models of these steps, their steps and their ties; without damaged ones."""
    models: list[Mapping[str, Tensor]] = []
    intact: list[int] = []
    tied: Mapping[str, str] = {}
    for step in steps:
        try:
            _, tensors, tied = evaluated(checkpoints.at(step))
        except CheckpointError as error:
            log.note(f"{error}; left out of the average")
            continue
        models.append(tensors)
        intact.append(step)
    return models, intact, tied


def _scores_of(
    session: Session, tensors: Mapping[str, Tensor], tied: Mapping[str, str], guard: Guard
) -> dict[str, float]:
    limit = session.recipe.training.valid_limit
    with session.with_weights(tensors, tied) as model:
        return scores(session, model, guard, ALONE, limit=limit, samples=False)[0]


def _is_published(checkpoints: Checkpoints, step: int, files: Mapping[str, Writable]) -> bool:
    try:
        saved = read_folder(checkpoints.run)
    except CheckpointError:
        return False
    return saved.facts.get("step") == step and "averaged" not in saved.facts and saved.files == files


def _training_facts(session: Session, outcome: Outcome, reason: str) -> str:
    progress, recipe = session.progress, session.recipe
    steps = ", ".join(map(str, outcome.steps))
    facts = {
        "recipe": f"`config.toml`, seed {recipe.seed}",
        "weights": f"{_num_parameters(session):,}",
        "trained": f"{progress.step:,} steps, {session.source.progress():.2f} epochs, {progress.tokens:,} tokens",
        "CPU time": f"{progress.cpu_s:,.0f} s",
        "ended by": reason,
        "model": f"average of steps {steps}" if len(outcome.steps) > 1 else f"step {steps}",
        **{name: f"{value:.6g}" for name, value in outcome.metrics.items()},
        "skipped steps": str(progress.skipped),
        **({"start": line} if (line := session.start_line) else {}),
        "made with": f"headwise {runtime.version()}, torch {torch.__version__}",
        **{f"SHA-256 of {name}": f"`{digest}`" for name, digest in session.digests.items()},
    }
    rows = "".join(f"| {name} | {value} |\n" for name, value in facts.items())
    notes = "".join(f"* {visible(note)}\n" for note in session.task.assets.notes)
    return f"## Training\n\n| | |\n|---|---|\n{rows}" + (f"\n## Data\n\n{notes}" if notes else "")


def _num_parameters(session: Session) -> int:
    return sum(parameter.numel() for parameter in session.model.parameters())


def _processor(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else runtime.processor()

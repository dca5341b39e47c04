"""What finished runs reached and took: read from their folders, scored on their own held-out data."""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwise.errors import CheckpointError
from headwise.runs.checkpoints import Checkpoints
from headwise.training.loading import beside, examples, load, recipe_of, trained_on
from headwise.training.recipe import Recipe


@dataclass(frozen=True)
class Account:
    """A finished run and its scores.

    Args:
        scores: of `evaluate` on one part of its data; texts, such as signatures, are left out.
        baselines: the scores of each baseline on the same part, by its name.
        part: the part: train, valid or test.
        examples: how many were scored.
        parameters: of the model, shared ones counted once; None where an older release trained it.
        cpu_s: of all threads, while it trained.
        ended: the day; None as above.
        processor: on which it ended; None as above.
        version: of this library, which trained it; None as above.
        digest: SHA-256 of the file that it was trained on; None where there is no such file.
    """

    folder: Path
    recipe: Recipe
    scores: Mapping[str, float]
    baselines: Mapping[str, Mapping[str, float]]
    part: str
    examples: int
    steps: int
    cpu_s: float
    parameters: int | None
    ended: datetime.date | None
    processor: str | None
    version: str | None
    digest: str | None

    @property
    def monitor(self) -> str:
        """The score that says which model is best, where `evaluate` has it; else the first one.

        A loss says little alone: without a baseline of it, it is the first score that has one, or the first of all.
        """
        wanted = self.recipe.training.monitor
        known = {name for scores in self.baselines.values() for name in scores}
        if wanted == "loss" and "loss" not in known:
            return next(iter([name for name in self.scores if name in known] or self.scores))
        return wanted if wanted in self.scores else next(iter(self.scores))


def account(run: Path, split: str = "test", limit: int | None = None) -> Account:
    """Reads a finished run and scores it.

    Args:
        run: the run folder.
        split: the part of its data that is scored: train, valid or test.
        limit: examples at most.

    Raises:
        CheckpointError: there is no run, or it has not ended.
        DataError: its data is not there, or has no such part.
    """
    recipe = recipe_of(run)
    facts = Checkpoints(run).finished()
    if facts is None:
        raise CheckpointError(f"{run}: has not ended; go on with it: headwise train RECIPE --run-folder {run}")
    found = examples(run, split)[:limit]
    predictor = load(run)
    told = predictor.evaluate(found)
    return Account(
        run,
        recipe,
        {name: float(value) for name, value in told.items() if not isinstance(value, str)},
        beside(run, predictor, found, told).scores(),
        split,
        len(found),
        facts["step"],
        facts["cpu_s"],
        facts.get("parameters"),
        _day(facts),
        facts.get("processor"),
        facts.get("version"),
        trained_on(run).get("train"),
    )


def _day(facts: Mapping[str, Any]) -> datetime.date | None:
    try:
        return datetime.date.fromisoformat(facts["ended"])
    except (KeyError, TypeError, ValueError):
        return None

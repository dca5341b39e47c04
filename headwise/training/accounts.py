"""What finished runs reached and took: read from their folders, scored on their own held-out data."""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwise.errors import CheckpointError
from headwise.runs.checkpoints import Checkpoints
from headwise.training.loading import examples, load, recipe_of, scores
from headwise.training.recipe import Recipe


@dataclass(frozen=True)
class Account:
    """A finished run and its scores.

    Args:
        scores: of `evaluate` on one part of its data; texts, such as signatures, are left out.
        examples: how many were scored.
        parameters: of the model, shared ones counted once; None where an older release trained it.
        cpu_s: of all threads, while it trained.
        ended: the day; None as above.
        processor: on which it ended; None as above.
    """

    folder: Path
    recipe: Recipe
    scores: Mapping[str, float]
    examples: int
    steps: int
    cpu_s: float
    parameters: int | None
    ended: datetime.date | None
    processor: str | None

    @property
    def monitor(self) -> str:
        """The score that says which model is best, where `evaluate` has it; else the first one."""
        wanted = self.recipe.training.monitor
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
    told = scores(run, load(run), found)
    return Account(
        run,
        recipe,
        {name: float(value) for name, value in told.items() if not isinstance(value, str)},
        len(found),
        facts["step"],
        facts["cpu_s"],
        facts.get("parameters"),
        _day(facts),
        facts.get("processor"),
    )


def _day(facts: Mapping[str, Any]) -> datetime.date | None:
    try:
        return datetime.date.fromisoformat(facts["ended"])
    except (KeyError, TypeError, ValueError):
        return None

"""Models that a claim looks into, and scores of groups of examples."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headwise.compare.bench import Bench
from headwise.predictors.predictor import Predictor
from headwise.training.sweep import plan_runs
from headwise.training.train import train

# of examples, by which an interval knows how much scores vary between them
GROUPS = 10


def models(bench: Bench, recipe: str, settings: Sequence[str], seeds: Sequence[int]) -> list[Path]:
    """The run folders of a recipe, one for each seed; those that are finished are left as they are.

    Raises: as `headwise.train`; DataError where a public set is not at hand, with the command that fetches it.
    """
    cells = plan_runs([recipe], list(settings), list(seeds), bench.folder_of)
    for cell in cells:
        train(cell.recipe, cell.folder)
    return [cell.folder for cell in cells]


def by_group(predictor: Predictor[Any, Any, Any], cases: Sequence[Any], metric: str) -> list[float]:
    """A score of a tenth of the examples each, from the first to the last: what `Interval.across` wants of a seed."""
    edges = [len(cases) * part // GROUPS for part in range(GROUPS + 1)]
    scores = [predictor.evaluate(cases[low:high])[metric] for low, high in itertools.pairwise(edges)]
    return [float(score) for score in scores]

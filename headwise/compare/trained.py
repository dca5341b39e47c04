"""Models that a claim looks into: trained for it, and thrown away."""

import contextlib
import io
import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from headwise.data.synthetic import Sizes, make
from headwise.predictors.predictor import Predictor
from headwise.training import recipes
from headwise.training.train import train

# of examples, by which an interval knows how much scores vary between them
GROUPS = 10


@contextmanager
def trained(recipe: str, settings: Sequence[str], seeds: Sequence[int]) -> Iterator[list[Path]]:
    """The run folders of a recipe, one for each seed, as long as the block is open.

    Raises: as `headwise.train`; DataError where a public set is not at hand, with the command that fetches it.
    """
    with TemporaryDirectory(prefix="headwise-claim-") as scratch:
        folders = [Path(scratch) / str(seed) for seed in seeds]
        for seed, folder in zip(seeds, folders, strict=True):
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                train(recipes.read(recipe, [*settings, f"seed={seed}"]), folder)
        yield folders


def drawn(problem: str, folder: Path, sizes: Sizes) -> list[str]:
    """Settings of a recipe with the data of a drawn problem of these sizes, which is written into the folder."""
    make(problem, folder, sizes=sizes)
    return [f"data.{split}={folder / split}.tsv" for split in ("train", "valid", "test")]


def by_group(predictor: Predictor[Any, Any, Any], cases: Sequence[Any], metric: str) -> list[float]:
    """A score of a tenth of the examples each, from the first to the last: what `Interval.across` wants of a seed."""
    edges = [len(cases) * part // GROUPS for part in range(GROUPS + 1)]
    scores = [predictor.evaluate(cases[low:high])[metric] for low, high in itertools.pairwise(edges)]
    return [float(score) for score in scores]

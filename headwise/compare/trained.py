"""Models that a claim looks into: trained for it, and thrown away."""

import contextlib
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from headwise.training import recipes
from headwise.training.train import train


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

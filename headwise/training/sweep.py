"""Several runs that differ in one key, trained unless they are, and their scores."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headwise.errors import ConfigError
from headwise.registry import split
from headwise.training import recipes
from headwise.training.ledger import Row, account
from headwise.training.recipe import Recipe
from headwise.training.train import train


@dataclass(frozen=True)
class Swept:
    """A key with the values it takes, as they are written in settings.

    >>> Swept.parse("model.num_heads=1,2,[4,8]")
    Swept(key='model.num_heads', values=('1', '2', '[4,8]'))
    """

    key: str
    values: tuple[str, ...]

    @classmethod
    def parse(cls, setting: str) -> "Swept | None":
        """The key and values of a setting with commas outside brackets and quotation marks; None where it has none."""
        key, _, text = setting.partition("=")
        values = split(text, ",")
        return cls(key.strip(), tuple(values)) if len(values) > 1 else None


@dataclass(frozen=True)
class Point:
    """A run of a sweep: the name of its recipe, the value of the swept key, its seed, its folder, and its scores."""

    recipe: str
    value: str
    seed: int
    folder: Path
    row: Row


def plan_runs(
    names: Sequence[str],
    settings: Sequence[str],
    seeds: Sequence[int | None],
    folder_of: Callable[[str, list[str]], Path],
) -> list[tuple[str, str, int, Recipe, Path]]:
    """Recipe name, value, seed, recipe and folder of every run, all checked before the first one trains.

    Args:
        names: recipe files or names.
        settings: as of `headwise train`; one of them may have several values, with commas between them.
        seeds: a run for each; None: that of the recipe.
        folder_of: the run folder of (recipe, settings).

    Raises:
        ConfigError: a wrong recipe or setting, several keys with several values, or the same run twice.
        DataError: a data file is nowhere.
    """
    swept = [key for key in map(Swept.parse, settings) if key is not None]
    if len(swept) > 1:
        keys = " and ".join(sweep.key for sweep in swept)
        raise ConfigError(f"{keys} have several values each; sweep one key, and give several recipes for the other")
    fixed = [setting for setting in settings if Swept.parse(setting) is None]
    key, values = (swept[0].key, swept[0].values) if swept else ("", ("",))
    runs = []
    for name, value, seed in itertools.product(names, values, seeds):
        own = [*fixed, *([f"{key}={value}"] if key else []), *([] if seed is None else [f"seed={seed}"])]
        recipe = recipes.read(name, own)
        runs.append((Path(name).stem, value, recipe.seed, recipe, folder_of(name, own)))
    folders = [folder for *_, folder in runs]
    if twice := [folder for place, folder in enumerate(folders) if folder in folders[:place]]:
        raise ConfigError(f"the run {twice[0]} is asked for twice; give each recipe, value and seed once")
    return runs


def sweep(
    runs: Iterable[tuple[str, str, int, Recipe, Path]], split: str = "test", limit: int | None = None
) -> Iterable[Point]:
    """Trains the planned runs, one after another, and scores each; existing runs are resumed or left.

    Raises: as `train` and `account`.
    """
    for name, value, seed, recipe, folder in runs:
        train(recipe, folder)
        yield Point(name, value, seed, folder, account(folder, split, limit))

"""Several runs that differ in the values of some keys, trained unless they are, and their scores."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
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
class Cell:
    """A planned run: the name of its recipe, the values of the swept keys, the recipe itself, and its folder."""

    name: str
    values: tuple[tuple[str, str], ...]
    recipe: Recipe
    folder: Path


@dataclass(frozen=True)
class Point:
    """A run of a sweep, and its scores."""

    cell: Cell
    row: Row


def plan_runs(
    names: Sequence[str],
    settings: Sequence[str],
    seeds: Sequence[int | None],
    folder_of: Callable[[str, list[str]], Path],
    beside: Sequence[tuple[str, str]] = (),
) -> list[Cell]:
    """Every run, all checked before the first one trains.

    Args:
        names: recipe files or names.
        settings: as of `headwise train`; those with commas between values give a run for each combination.
        seeds: a run for each; None: that of the recipe.
        folder_of: the run folder of (recipe, settings).
        beside: keys with one value each, which `Cell.values` names before those that are swept.

    Raises:
        ConfigError: a wrong recipe or setting, or the same run twice.
        DataError: a data file is nowhere.
    """
    swept = [key for key in map(Swept.parse, settings) if key is not None]
    fixed = [setting for setting in settings if Swept.parse(setting) is None]
    combinations = list(itertools.product(*([(key.key, value) for value in key.values] for key in swept)))
    cells = []
    for name, swept_values, seed in itertools.product(names, combinations, seeds):
        values = (*beside, *swept_values)
        own = [*fixed, *(f"{key}={value}" for key, value in values), *([] if seed is None else [f"seed={seed}"])]
        cells.append(Cell(Path(name).stem, values, recipes.read(name, own), folder_of(name, own)))
    folders = [cell.folder for cell in cells]
    if twice := [folder for place, folder in enumerate(folders) if folder in folders[:place]]:
        raise ConfigError(f"the run {twice[0]} is asked for twice; give each recipe, value and seed once")
    return cells


def sweep(cells: Iterable[Cell], split: str = "test", limit: int | None = None) -> Iterator[Point]:
    """Trains the planned runs, one after another, and scores each; existing runs are resumed or left.

    Raises: as `train` and `account`.
    """
    for cell in cells:
        train(cell.recipe, cell.folder)
        yield Point(cell, account(cell.folder, split, limit))

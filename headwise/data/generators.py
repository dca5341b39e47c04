"""Every kind of data that `headwise data make` draws, by name."""

from collections.abc import Callable
from pathlib import Path

from headwise.data import synthetic
from headwise.errors import ConfigError, unknown
from headwise.tasks.images import shapes
from headwise.tasks.series import drawn as drawn_series
from headwise.tasks.translation import talk

# what is drawn but is no problem of symbols: (folder, seed, count) -> the files, and how many examples each has
OTHERS: dict[str, Callable[[Path, int, int], dict[Path, int]]] = {
    "shapes": shapes.make,
    "dialogues": talk.make,
    "waves": drawn_series.make,
}


def make(name: str, folder: Path, seed: int, sizes: synthetic.Sizes) -> dict[Path, int]:
    """Writes the files of this name; gives them, and how many examples each has.

    Raises:
        ConfigError: an unknown name, or sizes that mean nothing to it.
        DataError: the folder holds other data.

    >>> make("poems", Path("."), 1, synthetic.Sizes())
    Traceback (most recent call last):
    headwise.errors.ConfigError: unknown problem 'poems'; known: brackets, copy, dialogues, lookup, odd, parity, \
recall, reverse, shapes, sort, waves
    """
    if name in synthetic.PROBLEMS:
        return synthetic.make(name, folder, seed, sizes)
    if name not in OTHERS:
        raise ConfigError(unknown("problem", name, [*synthetic.PROBLEMS, *OTHERS]))
    if sizes != synthetic.Sizes(sizes.count):
        raise ConfigError(f"--symbols, --shortest and --longest mean nothing to '{name}'; leave them out")
    return OTHERS[name](folder, seed, sizes.count)

"""Every kind of data that `headwise data make` draws, by name: problems of symbols, and what tasks draw."""

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headwise.data import synthetic
from headwise.errors import ConfigError, flag, unknown
from headwise.tasks import registry
from headwise.tasks.task import Generator

# symbols, characters or pixels of all examples to train on: they are drawn in memory, about a gigabyte
MOST_SYMBOLS = 100_000_000


def make(name: str, folder: Path, seed: int, count: int, options: Mapping[str, Any] | None = None) -> dict[Path, int]:
    """Writes the files of this name; returns them, and how many examples each has.

    Args:
        name: of a problem, of what a task of the package draws, or `module:Class/name` of what another one draws.
        options: sizes besides the number of examples, as that kind of data has them.

    Raises: ConfigError: an unknown name, or sizes that it does not have or that no memory has room for; DataError: the
        folder holds other data.

    >>> make("copi", Path("."), 1, 10)
    Traceback (most recent call last):
    headwise.errors.ConfigError: unknown problem 'copi'; did you mean 'copy'?
    """
    draw, options = _generator(name), options or {}
    known = inspect.signature(draw).parameters
    if others := [flag(option) for option in options if option not in known]:
        words = f"{', '.join(others)} {'does' if len(others) == 1 else 'do'} not apply to '{name}'"
        raise ConfigError(f"{words}; leave {'it' if len(others) == 1 else 'them'} out")
    _check_total(count, options)
    return draw(folder, seed, count, **options)


def _check_total(count: int, options: Mapping[str, Any]) -> None:
    """Raises: ConfigError: more is declared than can be drawn, before any of it is."""
    examples = max(count, options.get("held_out") or 0)
    # of an input: symbols, characters of a passage, or pixels
    sizes = {key: options[key] for key in ("shortest", "longest", "length", "side") if options.get(key)}
    symbols = max([1, *(size**2 if key == "side" else size for key, size in sizes.items())])
    symbols *= max(options.get("lengths") or (1,))
    if examples * symbols > MOST_SYMBOLS:
        given = ", ".join(f"{flag(key)} {size:,}" for key, size in {"count": examples, **sizes}.items())
        raise ConfigError(
            f"{given}: {examples * symbols:,} symbols, of which at most {MOST_SYMBOLS:,} are drawn; give smaller sizes"
        )


def _generator(name: str) -> Generator:
    if name in synthetic.PROBLEMS:
        return synthetic.Drawing(name)
    tasks = map(registry.task_type, registry.task_names())
    generators = {drawn: draw for task in tasks for drawn, draw in task.generators.items()}
    if ":" in name:
        task = name.partition("/")[0]
        generators = {f"{task}/{drawn}": draw for drawn, draw in registry.task_type(task).generators.items()}
    if name not in generators:
        problems = generators if ":" in name else sorted([*synthetic.PROBLEMS, *generators])
        raise ConfigError(unknown("problem", name, problems))
    return generators[name]

"""Every kind of data that `headwise data make` draws, by name: problems of symbols, and what tasks draw."""

from pathlib import Path

from headwise.data import synthetic
from headwise.errors import ConfigError, unknown
from headwise.tasks import registry


def make(name: str, folder: Path, seed: int, sizes: synthetic.Sizes) -> dict[Path, int]:
    """Writes the files of this name; returns them, and how many examples each has.

    Args:
        name: of a problem, of what a task of the package draws, or `module:Class/name` of what another one draws.

    Raises: ConfigError: an unknown name, or sizes that it does not have; DataError: the folder holds other data.

    >>> make("poems", Path("."), 1, synthetic.Sizes())
    Traceback (most recent call last):
    headwise.errors.ConfigError: unknown problem 'poems'; known: brackets, copy, dialogues, lookup, odd, parity, \
    recall, refills, reverse, shapes, sort, waves
    """
    if name in synthetic.PROBLEMS:
        return synthetic.make(name, folder, seed, sizes)
    tasks = map(registry.task_type, registry.task_names())
    generators = {drawn: draw for task in tasks for drawn, draw in task.generators.items()}
    if ":" in name:
        task = name.partition("/")[0]
        generators = {f"{task}/{drawn}": draw for drawn, draw in registry.task_type(task).generators.items()}
    if name not in generators:
        raise ConfigError(unknown("problem", name, generators if ":" in name else [*synthetic.PROBLEMS, *generators]))
    if sizes != synthetic.Sizes(sizes.count):
        raise ConfigError(f"--symbols, --shortest and --longest do not apply to '{name}'; leave them out")
    return generators[name](folder, seed, sizes.count)

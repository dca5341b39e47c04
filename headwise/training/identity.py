"""What a run is known by: the SHA-256 of every file that its recipe names, wherever that file lies."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from headwise.config import Config, file_keys, value_of
from headwise.data.files import digest, resolve
from headwise.tasks.task import Task
from headwise.training.recipe import Recipe


def digest_name(key: str) -> str:
    """The name of a file's digest, from its key in the recipe: keys of `[data]` stand without their section.

    >>> digest_name("data.train"), digest_name("vectors.source")
    ('train', 'vectors.source')
    """
    return key.removeprefix("data.")


def named_files(recipe: Config) -> dict[str, Path]:
    """The files that a recipe names, by the names of their digests. Raises: DataError, no such file ships."""
    values = {key: value_of(recipe, key) for key in file_keys(recipe)}
    return {digest_name(key): resolve(value) for key, value in values.items() if value is not None}


def unread(task: Task[Any], recipe: Recipe) -> dict[str, Path]:
    """The files that the recipe names and whose digest the task did not take when it read its data."""
    return {name: path for name, path in named_files(recipe).items() if name not in task.assets.digests}


def as_begun(now: Mapping[str, str], before: Mapping[str, str], recipe: Recipe) -> dict[str, str]:
    """The digests to keep: what the first step read stays what it was, whatever its file is now."""
    return {**now, **{name: before[name] for name in _once(recipe) if name in before}}


def digests(task: Task[Any], recipe: Recipe, before: Mapping[str, str]) -> dict[str, str]:
    """The SHA-256 of every file of a run that goes on; those of `before` where a file of the first step is gone.

    Raises: DataError for a file that is not there and is needed.
    """
    found, once = dict(task.assets.digests), _once(recipe)
    for name, path in unread(task, recipe).items():
        if name not in once or path.exists():
            found[name] = digest(path)
        elif name in before:
            found[name] = before[name]
    return found


def changed(now: Mapping[str, str], before: Mapping[str, str], recipe: Recipe) -> list[str]:
    """The names of the files that are not those of before.

    A file of the first step whose digest was not kept, as older runs did not, passes.
    """
    unknown = _once(recipe) - before.keys()
    names = (before.keys() | now.keys()) - unknown
    return sorted(name for name in names if before.get(name) != now.get(name))


def movable(recipe: Recipe, known: Collection[str]) -> set[str]:
    """The keys of files that may lie elsewhere than before; of those of the first step only `known` and gone ones."""
    values = {key: (value_of(recipe, key), mark) for key, mark in file_keys(recipe).items()}
    return {
        key
        for key, (value, mark) in values.items()
        if value is not None and (not mark.at_start or digest_name(key) in known or not resolve(value).exists())
    }


def start_is_gone(recipe: Recipe) -> bool:
    """Whether a file of the first step is where the recipe says no more."""
    values = [value_of(recipe, key) for key, mark in file_keys(recipe).items() if mark.at_start]
    return any(value is not None and not resolve(value).exists() for value in values)


def _once(recipe: Recipe) -> set[str]:
    return {digest_name(key) for key, mark in file_keys(recipe).items() if mark.at_start}

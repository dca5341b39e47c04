"""Recipes by path or name: those that ship, and the data files that a recipe names."""

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from headwise.config import Config, file_keys, value_of, with_values
from headwise.data import data_sets
from headwise.data.files import SHIPPED, data_cache, resolve
from headwise.errors import ConfigError, DataError, unknown
from headwise.training.recipe import Recipe, read_recipe


@cache
def folder() -> Path:
    """The folder of the recipes: inside an installed package, beside it in a working copy."""
    package = Path(__file__).parent.parent
    inside = package / "recipes"
    return inside if inside.is_dir() else package.parent / "recipes"


def shipped() -> dict[str, Path]:
    return {path.stem: path for path in sorted(folder().glob("*.toml"))}


def catalogue() -> dict[str, str]:
    """Name and first comment line of every recipe that ships."""
    lines = {name: path.read_text(encoding="utf-8").partition("\n")[0] for name, path in shipped().items()}
    return {name: line.removeprefix("#").strip() for name, line in lines.items()}


def find(name: str) -> Path:
    """The recipe file of this path, or the shipped recipe of this name.

    Raises: ConfigError: if there is neither.

    >>> find("phrasebook").name
    'phrasebook.toml'
    """
    path = Path(name)
    if path.is_file():
        return path
    if name in (by_name := shipped()):
        return by_name[name]
    if path.suffix == ".toml" or path.parent != Path():
        raise ConfigError(f"{name}: no such file; `headwise list recipes` names the recipes that ship")
    raise ConfigError(unknown("recipe", name, by_name) + " (a recipe of your own: the path of its .toml file)")


def read(name: str, overrides: Sequence[str]) -> Recipe:
    """The recipe of this path or name with overrides set and its data files found.

    A path in the recipe is looked for beside it first, one in an override in the working folder first.

    Raises: ConfigError: for wrong keys or values; DataError: if a data file is nowhere.
    """
    path = find(name)
    recipe = read_recipe(path, overrides)
    overridden = {override.partition("=")[0].strip() for override in overrides}
    paths = {}
    for key, mark in file_keys(recipe).items():
        if (value := value_of(recipe, key)) is None:
            continue
        near = [Path.cwd(), path.parent] if key in overridden else [path.parent, Path.cwd()]
        try:
            paths[key] = locate(value, [*near, data_cache()], key)
        except DataError:
            # a resumed run does not need it, and a new one reports that it is missing
            if not mark.at_start:
                raise
    return with_values(recipe, paths)


def locate(name: str, folders: Iterable[Path], key: str) -> str:
    """The absolute path of a data file, from the first of the folders that has it.

    Args:
        name: as in the recipe; absolute paths and `headwise:` names stay as they are.

    Raises: DataError: naming every folder that was searched.
    """
    if name.startswith(SHIPPED) or Path(name).is_absolute():
        return name
    places = list(dict.fromkeys((folder / name).absolute() for folder in folders))
    for place in places:
        if place.exists():
            return str(place)
    searched = ", ".join(str(place.parent) for place in places)
    public = name.partition("/")[0]
    fetch = f", or run `headwise data fetch {public}`" if public in data_sets.names() else ""
    raise DataError(f"{name}: not found in {searched}; set HEADWISE_DATA to the folder of data, or {key}=PATH{fetch}")


def digest_name(key: str) -> str:
    """The name of a file's digest, from its key in the recipe: keys of `[data]` stand without their section.

    >>> digest_name("data.train"), digest_name("vectors.source")
    ('train', 'vectors.source')
    """
    return key.removeprefix("data.")


def named_files(recipe: Config) -> dict[str, Path]:
    """The files that a recipe names, by the names of their digests. Raises: DataError: no such file ships."""
    values = {key: value_of(recipe, key) for key in file_keys(recipe)}
    return {digest_name(key): resolve(value) for key, value in values.items() if value is not None}

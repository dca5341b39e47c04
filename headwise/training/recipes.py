"""Recipes by path or name: what ships, and where the data files that a recipe names are found."""

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from headwise.config import file_keys, value_of, with_values
from headwise.data import data_sets
from headwise.data.files import SHIPPED, data_cache
from headwise.errors import ConfigError, DataError, unknown
from headwise.training.recipe import Recipe, read_recipe


@cache
def folder() -> Path:
    """Where the recipes lie: inside an installed package, beside it in a working copy."""
    package = Path(__file__).parent.parent
    inside = package / "recipes"
    return inside if inside.is_dir() else package.parent / "recipes"


def shipped() -> dict[str, Path]:
    """Name and file of every recipe that ships."""
    return {path.stem: path for path in sorted(folder().glob("*.toml"))}


def catalogue() -> dict[str, str]:
    """Name and first comment line of every recipe that ships."""
    return {name: _first_line(path) for name, path in shipped().items()}


def find(name: str) -> Path:
    """The recipe file of this path, or the shipped recipe of this name.

    Raises:
        ConfigError: if there is neither.

    >>> find("phrasebook").name
    'phrasebook.toml'
    """
    path = Path(name)
    if path.is_file():
        return path
    known = shipped()
    if name in known:
        return known[name]
    if path.suffix == ".toml" or path.parent != Path():
        raise ConfigError(f"{name}: no such file; `headwise list recipes` names the recipes that ship")
    raise ConfigError(unknown("recipe", name, known) + " (a recipe of your own: the path of its .toml file)")


def read(name: str, overrides: Sequence[str]) -> Recipe:
    """The recipe of this path or name with overrides set and its data files found.

    A path in the recipe is looked for beside it first, one in an override in the working folder first.

    Raises:
        ConfigError: for wrong keys or values.
        DataError: if a data file is nowhere.
    """
    path = find(name)
    recipe = read_recipe(path, overrides)
    set_here = {override.partition("=")[0].strip() for override in overrides}
    found = {}
    for key, mark in file_keys(recipe).items():
        if (value := value_of(recipe, key)) is None:
            continue
        near = [Path.cwd(), path.parent] if key in set_here else [path.parent, Path.cwd()]
        try:
            found[key] = located(value, [*near, data_cache()], key)
        except DataError:
            # a run that goes on does not need it, and one that begins says that it is not there
            if not mark.at_start:
                raise
    return with_values(recipe, found)


def located(name: str, folders: Iterable[Path], key: str) -> str:
    """The absolute path of a data file, from the first of the folders that has it.

    Args:
        name: as in the recipe; absolute paths and `headwise:` names stay as they are.
        folders: where to look, in this order.
        key: the key of the recipe, for the message.

    Raises:
        DataError: naming every place that was looked at.
    """
    if name.startswith(SHIPPED) or Path(name).is_absolute():
        return name
    places = list(dict.fromkeys((folder / name).absolute() for folder in folders))
    for place in places:
        if place.exists():
            return str(place)
    looked = ", ".join(str(place.parent) for place in places)
    public = name.partition("/")[0]
    fetch = f", or run `headwise data fetch {public}`" if public in data_sets.names() else ""
    raise DataError(f"{name}: not found in {looked}; set HEADWISE_DATA to the folder of data, or {key}=PATH{fetch}")


def _first_line(path: Path) -> str:
    with path.open(encoding="utf-8") as lines:
        return next(lines, "").removeprefix("#").strip()

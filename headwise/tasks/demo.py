"""A task in small: data that the package makes itself, a recipe, and an input to look at."""

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True)
class Demo:
    """What `headwise demo TASK` trains on.

    Args:
        shows: what there is to learn, in one line.
        write: writes the data into a folder; None: the data ships.
        recipe: the recipe as TOML, without its first line, the task; its files stand in that folder. Where data ships,
            the name of a recipe that ships.
        given: an input to look at, as on the command line; FOLDER stands for the folder of the data.
        others: further inputs to answer.
        first: whether it is the one where no task is named.
    """

    shows: str
    write: Callable[[Path], object] | None
    recipe: str
    given: str
    others: tuple[str, ...] = ()
    first: bool = False

    def make(self, task: str, folder: Path) -> tuple["Demo", str]:
        """Writes data and recipe into a folder, the same wherever made; returns the demo there, and its recipe.

        The recipe is a path, or the name of one that ships.
        """
        if self.write is None:
            return self, self.recipe
        folder.mkdir(parents=True, exist_ok=True)
        self.write(folder)
        path = folder / "recipe.toml"
        path.write_text(f'task = "{task}"\n{self.recipe}', encoding="utf-8")
        return replace(self, given=self.given.replace("FOLDER", str(folder))), str(path)


def write_table(path: Path, rows: Sequence[Sequence[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, lineterminator="\n").writerows(rows)

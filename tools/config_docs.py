"""Writes docs/config.md: every key of the recipes of every task, as `headwise config TASK` prints them."""

from itertools import groupby
from pathlib import Path

from headwise.tasks import registry
from headwise.training.reference import Entry, entries, lines

PATH = Path(__file__).parents[1] / "docs" / "config.md"
_HEADING = """# Every key of a recipe

`headwise config TASK` prints the part of a task; `headwise config TASK --section training` one section of it, and
`--json` everything for programs. It takes a task of your own too: `headwise config my_module:MyTask`. This page is made
by `make config-docs` and held to the code by a test.

A line has the key, its default and its type; below it stands what it is. "required" has no default, "none" means that
the key may be left out. A key is set in its section of the recipe, or on the command line:
`headwise train recipe.toml training.learning_rate=1e-3`. Where a section may be of several kinds, `kind` chooses.
"""


def page() -> str:
    """The page as Markdown; a section that an earlier task has too stands there alone."""
    known: set[tuple[Entry, ...]] = set()
    parts = [_HEADING]
    for task in registry.task_names():
        grouped = groupby(entries(task), key=lambda entry: entry.section)
        found = {section: tuple(keys) for section, keys in grouped}
        new = [entry for section, keys in found.items() if not section or keys not in known for entry in keys]
        left_out = [f"`[{section}]`" for section, keys in found.items() if section and keys in known]
        known |= set(found.values())
        parts.append(f"## {task}\n\n```text\n" + "\n".join(lines(new)).strip("\n") + "\n```\n")
        if left_out:
            parts.append(f"As above: {', '.join(left_out)}.\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PATH.write_text(page(), encoding="utf-8")

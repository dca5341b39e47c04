"""Settings fitted to a data set, for the first recipe written for it: what each kind of data suggests."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from headwise.errors import DataError

# parts to hold out, the first that leaves none empty
_SHARES = (0.05, 0.1, 0.2, 0.3)


class Size(NamedTuple):
    """A model that a limit of time may allow: settings by `section.key`, and the steps that it wants at least."""

    settings: Mapping[str, Any]
    steps: int


@dataclass(frozen=True)
class Suggestion:
    """What `headwise init` writes for a task.

    Args:
        values: the recipe, section by section, in the order in which it is written.
        about: what the recipe is for, as the first words of its heading.
        sizes: the models to choose from where there is a limit of time, from small to large; the largest one that
            takes the steps it wants is written.
        dropouts: (passes over the data, dropout of the model) where there is a limit of time: the rate of the first
            number that the passes do not exceed.
    """

    values: dict[str, Any]
    about: str
    sizes: tuple[Size, ...] = (Size({}, 0),)
    dropouts: tuple[tuple[float, float], ...] = ()


def held_out(data: Mapping[str, Any], split: Callable[[float, float], object]) -> dict[str, float]:
    """Fractions for the parts without a file of their own, such that none comes out empty: 0 where that cannot be."""
    parts = [part for part in ("valid", "test") if part not in data]
    for share in _SHARES:
        shares = dict.fromkeys(parts, share)
        try:
            split(shares.get("valid", 0.0), shares.get("test", 0.0))
        except DataError:
            continue
        return {f"{part}_fraction": share for part in parts}
    return {f"{part}_fraction": 0.0 for part in parts}

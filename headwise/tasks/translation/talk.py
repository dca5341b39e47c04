"""Made dialogues whose answers depend on earlier turns: who is told something is asked for it later."""

import json
import random
from collections.abc import Iterator
from itertools import count as numbers
from pathlib import Path

from headwise.data.synthetic import write_drawn

# what is told -> how it is told, how that is answered, how it is asked, how that is answered, and the words
FACTS: dict[str, tuple[str, str, str, str, tuple[str, ...]]] = {
    "name": (
        "my name is {}",
        "hello {}",
        "what is my name ?",
        "your name is {}",
        ("anna", "ben", "carla", "david", "emil", "fatma", "greta", "hugo"),
    ),
    "home": (
        "i live in {}",
        "{} is nice",
        "where do i live ?",
        "you live in {}",
        ("rome", "oslo", "lima", "cairo", "tokyo", "quito"),
    ),
    "food": (
        "i like {}",
        "{} is good",
        "what do i like ?",
        "you like {}",
        ("tea", "bread", "fruit", "cheese", "fish", "soup"),
    ),
}
UNKNOWN = "i do not know"
# exchanges of a dialogue
SHORTEST, LONGEST = 3, 6


def dialogue(number: int, seed: int = 0) -> list[str]:
    """Turns of dialogue `number` of an endless list: what is told, or asked, and the answer to it, in turn.

    What was told twice is what was told last; what was never told is not known.

    >>> dialogue(4)[:4]
    ['my name is carla', 'hello carla', 'what do i like ?', 'i do not know']
    """
    # a text as seed goes through SHA-512: the same numbers everywhere
    draws = random.Random(f"talk {seed} {number}")
    facts: dict[str, str] = {}
    turns: list[str] = []
    for _ in range(draws.randint(SHORTEST, LONGEST)):
        kind = draws.choice(list(FACTS))
        statement, reply, question, answer, words = FACTS[kind]
        if draws.random() < (0.6 if kind in facts else 0.2):
            turns += [question, answer.format(facts[kind]) if kind in facts else UNKNOWN]
        else:
            facts[kind] = draws.choice(words)
            turns += [statement.format(facts[kind]), reply.format(facts[kind])]
    return turns


def make(folder: Path, seed: int = 1, count: int = 2000) -> dict[Path, int]:
    """JSON lines `train.jsonl` of `count` dialogues, `valid.jsonl` and `test.jsonl` of a tenth; none comes twice.

    Returns: the files, and how many dialogues each has.

    Raises: DataError: the folder holds other data under one of these names.
    """
    sizes, contents, drawn = {}, {}, _different(seed)
    for part, size in (("train", count), ("valid", max(1, count // 10)), ("test", max(1, count // 10))):
        path = folder / f"{part}.jsonl"
        contents[path] = "".join(json.dumps({"turns": next(drawn)}) + "\n" for _ in range(size))
        sizes[path] = size
    write_drawn(contents)
    return sizes


def _different(seed: int) -> Iterator[list[str]]:
    """Dialogues of which each comes once."""
    earlier: set[tuple[str, ...]] = set()
    for number in numbers():
        turns = dialogue(number, seed)
        if tuple(turns) not in earlier:
            earlier.add(tuple(turns))
            yield turns

"""What `headwise demo rank` trains on."""

import random
from pathlib import Path

from headwise.data.synthetic import write_drawn
from headwise.tasks.demo import Demo, write_table

# kind of goods -> how many of them there are; a good is called by its kind and a number
TASTES = ("book", "film", "game", "song")

_GOODS = 6


def clicks(seed: int = 0, sessions: int = 500) -> list[tuple[str, str]]:
    """Rows of session and item: a visitor has a taste, and chooses goods of its kind in nine of ten cases.

    >>> clicks()[0]
    ('session', 'item')
    """
    draws = random.Random(f"clicks {seed}")
    rows = [("session", "item")]
    for session in range(sessions):
        taste = draws.choice(TASTES)
        for _ in range(draws.randint(4, 9)):
            kind = taste if draws.random() < 0.9 else draws.choice(TASTES)
            rows.append((f"s{session}", f"{kind}{draws.randrange(_GOODS)}"))
    return rows


# of `refills`: different goods at the beginning, how many there are, how many of them have to follow one
_FIRST, _SHELF, _WAIT = 6, 40, 3


def refills(seed: int, shown: int) -> list[tuple[str, str, str]]:
    """Rows of session, item and whether it was bought: what was bought long enough ago is bought again.

    A visitor buys six goods; then goods that were bought before are shown, and each is bought again if three purchases
    or more followed its last one. To know that, the purchase of the same good has to be looked up in the history.

    Args:
        shown: goods that are shown in all, six of each session besides the first ones.

    >>> [row[2] for row in refills(0, 2)]
    ['bought', '1', '1', '1', '1', '1', '1', '0', '0']
    """
    draws = random.Random(f"refills {seed}")
    rows = [("session", "item", "bought")]
    for session in range(-(-shown // _FIRST)):
        history = [f"good{number}" for number in draws.sample(range(_SHELF), _FIRST)]
        rows += [(f"s{session}", item, "1") for item in history]
        for _ in range(min(_FIRST, shown - session * _FIRST)):
            item = draws.choice(sorted(set(history)))
            bought = history[::-1].index(item) >= _WAIT
            rows.append((f"s{session}", item, str(int(bought))))
            history += [item] * bought
    return rows


def make_refills(folder: Path, seed: int = 1, count: int = 10_000) -> dict[Path, int]:
    """Writes `train.csv`, `valid.csv` and `test.csv` of `refills`, the last two with a tenth of the goods shown.

    Returns: the files, and how many goods each shows.

    Raises: DataError: the folder holds other data under one of these names.
    """
    counts = {"train": count, "valid": max(1, count // 10), "test": max(1, count // 10)}
    files = {part: refills(seed * len(counts) + place, shown) for place, (part, shown) in enumerate(counts.items())}
    write_drawn({folder / f"{part}.csv": "".join(",".join(row) + "\n" for row in rows) for part, rows in files.items()})
    return {folder / f"{part}.csv": shown for part, shown in counts.items()}


RANK = Demo(
    "what a visitor chooses next, by a taste",
    lambda folder: write_table(folder / "clicks.csv", clicks()),
    """[data]
train = "clicks.csv"
min_history = 2
valid_fraction = 0.1
test_fraction = 0.1
[negatives]
held_out = 8
[model]
pooling = "attention"
[training]
learning_rate = 5e-3
warmup_steps = 20
batch_sentences = 32
max_epochs = 6
monitor = "auc"
""",
    "book1 film3 book4 book0",
)

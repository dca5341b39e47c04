"""What `headwise demo rank` trains on."""

import random

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

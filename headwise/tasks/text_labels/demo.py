"""What `headwise demo classify` and `regress` train on."""

import random
from collections.abc import Sequence
from pathlib import Path

from headwise.tasks.demo import Demo, write_table


def _reviews(folder: Path) -> None:
    """Films that are good or not, with stars: `not` turns a word round, and `very` adds to it."""
    draws = random.Random(0)
    rows: list[Sequence[object]] = [("text", "label", "stars")]
    for number in range(800):
        word, sign = draws.choice([("good", 1), ("fine", 1), ("bad", -1), ("dull", -1)])
        no, very = draws.random() < 0.5, draws.random() < 0.5
        value = (-sign if no else sign) * (2 if very else 1)
        text = f"the {draws.choice(['film', 'plot', 'end', 'cast'])} is {'not ' * no}{'very ' * very}{word} {number}"
        rows.append((text, "praise" if value > 0 else "blame", value))
    write_table(folder / "reviews.csv", rows)


_RECIPE = """[data]
train = "reviews.csv"
[tokenizer]
kind = "word"
vocab_size = 60
[model]
kind = "attention"
d_model = 32
d_ff = 64
num_heads = 2
encoder_layers = 1
dropout = 0.0
[training]
learning_rate = 5e-3
warmup_steps = 20
batch_sentences = 32
max_epochs = 12
"""
CLASSIFY = Demo("that `not` turns a review round", _reviews, _RECIPE, "the film is not very good")
REGRESS = Demo(
    "how good a film is, from -2 to 2",
    _reviews,
    _RECIPE.replace("[data]\n", '[data]\nlabel_key = "stars"\n'),
    "the film is not very good",
)

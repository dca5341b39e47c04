"""What `headwise demo forecast` trains on."""

from pathlib import Path

from headwise.tasks.demo import Demo, write_table
from headwise.tasks.series import drawn


def _waves(folder: Path) -> None:
    """A series whose every number lies on a parabola over the one six steps before."""
    rows = [(step, f"{echo:.4f}") for step, (_, echo) in enumerate(drawn.draw(2500))]
    write_table(folder / "series.csv", [("step", "echo"), *rows])


# a history by the rule of the demo's series and what comes after it; it begins with no minus, as an option would
_GIVEN = " ".join(f"{echo:.3f}" for _, echo in drawn.draw(16, seed=3))

FORECAST = Demo(
    "a number from the one six steps before",
    _waves,
    """length = 12
horizon = 4
[data]
train = "series.csv"
time = "step"
valid_fraction = 0.1
test_fraction = 0.1
[model]
kind = "decoder"
position = "rotary"
d_model = 32
d_ff = 64
num_heads = 2
num_layers = 2
dropout = 0.0
[training]
learning_rate = 5e-3
warmup_steps = 20
batch_sentences = 32
max_epochs = 10
""",
    _GIVEN,
)

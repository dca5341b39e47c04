"""What `headwise demo translate`, `dialogue` and `summarise` train on."""

import random
from collections.abc import Sequence
from pathlib import Path

from headwise.tasks.demo import Demo
from headwise.tasks.text import grammar
from headwise.tasks.translation import talk

MARK = "today"


def reports(seed: int = 0, count: int = 1500) -> Sequence[tuple[str, str]]:
    """Pairs of a text and its summary: who does what in the one of three sentences that begins with `today`.

    >>> text, summary = reports()[0]
    >>> text.count("today"), text.count("."), len(summary.split())
    (1, 3, 4)
    """
    draws = random.Random(f"reports {seed}")
    rows = []
    for _ in range(count):
        facts = [[draws.choice(grammar.KINDS[kind]) for kind in ("animal", "eats", "food")] for _ in range(3)]
        chosen = draws.randrange(3)
        texts = [f"the {' '.join(words)} ." for words in facts]
        texts[chosen] = f"{MARK} {texts[chosen]}"
        rows.append((" ".join(texts), f"the {' '.join(facts[chosen])}"))
    return rows


def _reports(folder: Path) -> None:
    """Three sentences a line, and what one of them says."""
    text = "".join(f"{text}\t{summary}\n" for text, summary in reports())
    (folder / "reports.tsv").write_text(text, encoding="utf-8")


def _talks(folder: Path) -> None:
    """Dialogues in which a name, a town or a dish is told, and asked for later."""
    talk.make(folder, count=2000)


_MODEL = """[model]
kind = "transformer"
d_model = 32
d_ff = 64
num_heads = 4
encoder_layers = 2
decoder_layers = 1
dropout = 0.0
attention_dropout = 0.0
activation_dropout = 0.0
"""
DIALOGUE = Demo(
    "to answer by what was told some turns before",
    _talks,
    f"""label_smoothing = 0.0
[data]
train = "train.jsonl"
valid = "valid.jsonl"
test = "test.jsonl"
[tokenizer]
kind = "word"
{_MODEL}[decoding]
method = "greedy"
max_len = 7
[training]
learning_rate = 4e-3
schedule = "budget"
warmup_share = 0.1
batch_tokens = 1024
max_steps = 800
max_epochs = 0
validate_every = 800
validate_every_epochs = 0
monitor = "accuracy"
""",
    "my name is anna ||| hello anna ||| i like tea ||| tea is good ||| what is my name ?",
)
SUMMARISE = Demo(
    "what is said of today, in one of three sentences",
    _reports,
    f"""label_smoothing = 0.0
[data]
train = "reports.tsv"
valid_fraction = 0.1
test_fraction = 0.1
[tokenizer]
kind = "word"
{_MODEL}[decoding]
method = "greedy"
max_len = 6
[training]
learning_rate = 5e-3
warmup_steps = 20
batch_sentences = 32
max_epochs = 12
validate_every_epochs = 4
monitor = "accuracy"
""",
    "the cat likes hay . today the dog steals bread . the fox finds corn .",
)
TRANSLATE = Demo(
    "English to French, from the phrasebook that ships",
    None,
    "phrasebook",
    "i'm home .",
    ("go .", "i lost .", "he's calm ."),
    first=True,
)

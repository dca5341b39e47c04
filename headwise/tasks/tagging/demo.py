"""What `headwise demo tag` trains on."""

import json
from pathlib import Path

from headwise.tasks.demo import Demo
from headwise.tasks.text import grammar

# word of the grammar -> what stands in its place, so that some words have two kinds and only the others tell which
_AMBIGUOUS = {"mouse": "fish", "finds": "hides"}


def _tagged(folder: Path) -> None:
    """Sentences with the kind of each word."""
    kinds = {word: kind for kind, words in grammar.KINDS.items() for word in words}
    lines = []
    for sentence in grammar.sentences(600):
        words = sentence.split()
        row = {"words": [_AMBIGUOUS.get(word, word) for word in words], "tags": [kinds[word] for word in words]}
        lines.append(json.dumps(row) + "\n")
    (folder / "tagged.jsonl").write_text("".join(lines), encoding="utf-8")


TAG = Demo(
    "the kind of a word that has two kinds",
    _tagged,
    """[data]
train = "tagged.jsonl"
valid_fraction = 0.1
test_fraction = 0.1
[tokenizer]
kind = "word"
[model]
kind = "attention"
d_model = 32
d_ff = 64
num_heads = 2
encoder_layers = 1
dropout = 0.0
position = "rotary"
[training]
learning_rate = 5e-3
warmup_steps = 20
batch_sentences = 32
max_epochs = 12
""",
    "the fish hides behind the barn",
)

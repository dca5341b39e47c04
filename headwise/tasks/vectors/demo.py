"""What `headwise demo word-vectors` trains on."""

from headwise.tasks.demo import Demo
from headwise.tasks.text.grammar import write_sentences

WORD_VECTORS = Demo(
    "which words stand in the same places",
    write_sentences,
    """show = ["cat", "bread", "near"]
[data]
train = "sentences.txt"
valid_fraction = 0.1
test_fraction = 0.1
[model]
embed_dim = 16
[context]
window = 2
subsample = 0.0
[training]
learning_rate = 2e-2
warmup_steps = 20
batch_tokens = 512
max_epochs = 4
""",
    "cat",
)

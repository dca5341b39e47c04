"""What `headwise demo language-model` and `masked-lm` train on."""

from headwise.tasks.demo import Demo
from headwise.tasks.text.grammar import write_sentences

LANGUAGE_MODEL = Demo(
    "which kinds of words follow each other",
    write_sentences,
    """length = 32
show_len = 12
[data]
train = "sentences.txt"
valid_fraction = 0.1
test_fraction = 0.1
[tokenizer]
kind = "word"
spaces = "kept"
[model]
d_model = 64
d_ff = 128
num_heads = 2
num_layers = 2
position = "rotary"
dropout = 0.0
[decoding]
method = "greedy"
max_len = 12
[training]
learning_rate = 5e-3
warmup_steps = 20
batch_sentences = 32
max_epochs = 8
""",
    "the horse waits near",
)
MASKED_LM = Demo(
    "which words a sentence lacks, from both sides",
    write_sentences,
    """length = 32
show = ["the [MASK] waits near the barn"]
[data]
train = "sentences.txt"
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
[masking]
share = 0.25
[training]
learning_rate = 3e-3
warmup_steps = 20
batch_tokens = 512
max_epochs = 25
validate_every_epochs = 5
""",
    "the [MASK] waits near the barn",
)

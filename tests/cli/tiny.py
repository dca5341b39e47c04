"""Recipes of tiny runs, a few steps each, whose data the tests write beside them."""

TRAINING = """
[training]
max_steps = 3
batch_tokens = 64
validate_every_epochs = 0
warmup_steps = 1
"""
TAGGED = (
    'task = "tag"\n[data]\ntrain = "train.jsonl"\n[tokenizer]\nkind = "word"\n[model]\nkind = "window"\n' + TRAINING
)
TEXT = (
    'task = "language-model"\nlength = 16\n[data]\ntrain = "text.txt"\n[tokenizer]\nkind = "char"\n'
    '[model]\nkind = "decoder"\nd_model = 8\nd_ff = 8\nnum_heads = 2\nnum_layers = 1\n' + TRAINING
)
CLASSES = 'task = "classify"\n[data]\ntrain = "reviews.csv"\n[tokenizer]\nkind = "word"\n[pooling]\nkind = "max"\n' + (
    '[model]\nkind = "token"\nd_model = 8\nd_ff = 8\n' + TRAINING
)
NUMBERS = CLASSES.replace("classify", "regress").replace("[data]", '[data]\nlabel_key = "stars"')
PAIRS = (
    """
task = "translate"
[data]
train = "pairs.tsv"
[tokenizer]
kind = "word"
joint = false
[model]
kind = "transformer"
d_model = 8
d_ff = 16
num_heads = 2
encoder_layers = 1
decoder_layers = 2
dropout = 0.0
[decoding]
max_len = 11
"""
    + TRAINING
)

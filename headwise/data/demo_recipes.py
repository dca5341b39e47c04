"""The recipes of `headwise demo TASK`, as TOML without their first line; their files stand beside them."""

_PICTURED = (
    'dropout = 0.0\n[training]\nlearning_rate = 4e-3\nschedule = "budget"\nwarmup_share = 0.1\nbatch_sentences = 32\n'
)
_PARTS = "valid_fraction = 0.1\ntest_fraction = 0.1\n"
_ENCODER = '[model]\nkind = "attention"\nd_model = 32\nd_ff = 64\nnum_heads = 2\nencoder_layers = 1\ndropout = 0.0\n'
_TRAINING = "[training]\nlearning_rate = 5e-3\nwarmup_steps = 20\nbatch_sentences = 32\n"
_WRITER = (
    '[model]\nkind = "transformer"\nd_model = 32\nd_ff = 64\nnum_heads = 4\nencoder_layers = 2\ndecoder_layers = 1\n'
    'norm_order = "pre"\ndropout = 0.0\nattention_dropout = 0.0\nactivation_dropout = 0.0\n'
    '[decoding]\nmethod = "greedy"\n'
)
_WORDS = '[tokenizer]\nkind = "word"\nvocab_size = 60\n'
RECIPES = {
    "tag": f'[data]\ntrain = "tagged.jsonl"\n{_PARTS}[tokenizer]\nkind = "word"\n'
    f'{_ENCODER}position = "rotary"\n{_TRAINING}max_epochs = 12\n',
    "classify": f'[data]\ntrain = "reviews.csv"\n{_PARTS}{_WORDS}{_ENCODER}{_TRAINING}max_epochs = 12\n',
    "regress": f'[data]\ntrain = "reviews.csv"\nlabel_key = "stars"\n{_PARTS}'
    f"{_WORDS}{_ENCODER}{_TRAINING}max_epochs = 12\n",
    "graph-regress": f'[data]\ntrain = "molecules.csv"\n{_PARTS}'
    f'[model]\nkind = "attention"\nd_model = 32\nnum_heads = 2\ndropout = 0.0\n{_TRAINING}max_epochs = 20\n',
    "forecast": f'length = 12\nhorizon = 4\n[data]\ntrain = "series.csv"\ntime = "step"\n{_PARTS}'
    '[model]\nkind = "decoder"\nposition = "rotary"\nd_model = 32\nd_ff = 64\nnum_heads = 2\nnum_layers = 2\n'
    f"dropout = 0.0\n{_TRAINING}max_epochs = 10\n",
}

_DRAWN = 'train = "{0}train.csv"\nvalid = "{0}valid.csv"\ntest = "{0}test.csv"\n'
RECIPES["image-classify"] = f"""[data]
{_DRAWN.format("first-")}[model]
kind = "attention_cnn"
width = 16
stages = 3
attention_after = 3
{_PICTURED}max_epochs = 8
"""
RECIPES["image-segment"] = f"""[data]
{_DRAWN.format("")}classes = ["background", "square", "circle", "triangle"]
[model]
kind = "attention_cnn"
width = 16
stages = 3
attention_after = 3
{_PICTURED}max_epochs = 5
"""
RECIPES["language-model"] = f"""length = 32
show_len = 12
[data]
train = "sentences.txt"
{_PARTS}[tokenizer]
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
{_TRAINING}max_epochs = 8
"""

RECIPES["dialogue"] = f"""label_smoothing = 0.0
[data]
train = "train.jsonl"
valid = "valid.jsonl"
test = "test.jsonl"
[tokenizer]
kind = "word"
{_WRITER}max_len = 7
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
"""

RECIPES["caption"] = f"""label_smoothing = 0.0
[data]
{_DRAWN.format("")}[tokenizer]
kind = "word"
[encoder]
kind = "cnn"
stages = 2
stride = 2
dropout = 0.0
[model]
d_model = 64
d_ff = 128
num_heads = 4
num_layers = 2
dropout = 0.0
[decoding]
method = "greedy"
max_len = 16
[training]
learning_rate = 3e-3
schedule = "budget"
warmup_share = 0.1
batch_sentences = 64
max_epochs = 12
validate_every_epochs = 6
monitor = "bleu"
"""
RECIPES["node-classify"] = f"""[data]
train = "nodes.csv"
edges = "edges.csv"
{_PARTS.replace("0.1", "0.2")}[model]
kind = "attention"
d_model = 16
num_heads = 2
dropout = 0.2
[training]
learning_rate = 1e-2
schedule = "constant"
warmup_steps = 0
max_epochs = 60
validate_every_epochs = 20
monitor = "accuracy"
"""
RECIPES["rank"] = f"""[data]
train = "clicks.csv"
min_history = 2
{_PARTS}[negatives]
held_out = 8
[model]
pooling = "attention"
{_TRAINING}max_epochs = 6
monitor = "auc"
"""
RECIPES["speech-classify"] = f"""[data]
train = "tones.csv"
{_PARTS}[frames]
bands = 20
[model]
kind = "conformer"
d_model = 16
d_ff = 32
num_heads = 2
encoder_layers = 1
kernel = 5
dropout = 0.0
[pooling]
kind = "attention"
{_TRAINING.replace("32", "16")}max_epochs = 10
monitor = "accuracy"
"""
RECIPES["summarise"] = f"""label_smoothing = 0.0
[data]
train = "reports.tsv"
{_PARTS}[tokenizer]
kind = "word"
{_WRITER}max_len = 6
{_TRAINING}max_epochs = 12
validate_every_epochs = 4
monitor = "accuracy"
"""
RECIPES["masked-lm"] = f"""length = 32
show = ["the [MASK] waits near the barn"]
[data]
train = "sentences.txt"
{_PARTS}[tokenizer]
kind = "word"
{_ENCODER}position = "rotary"
[masking]
share = 0.25
[training]
learning_rate = 3e-3
warmup_steps = 20
batch_tokens = 512
max_epochs = 25
validate_every_epochs = 5
"""
RECIPES["word-vectors"] = f"""show = ["cat", "bread", "near"]
[data]
train = "sentences.txt"
{_PARTS}[model]
embed_dim = 16
[context]
window = 2
subsample = 0.0
[training]
learning_rate = 2e-2
warmup_steps = 20
batch_tokens = 512
max_epochs = 4
"""

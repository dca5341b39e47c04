"""What `headwise demo image-classify`, `image-segment` and `caption` train on."""

from pathlib import Path

from headwise.tasks.demo import Demo, write_table
from headwise.tasks.images import shapes

_PICTURES = 1500

_SHOWN = "pictures/01502.png"


def _shapes(folder: Path) -> None:
    """Pictures of two shapes with masks; the kind of a picture is the form that stands above or on the left."""
    for table in shapes.make(folder, count=_PICTURES):
        lines = table.read_text(encoding="utf-8").splitlines()[1:]
        rows = [(path, caption.split()[2]) for path, caption, _ in (line.split(",") for line in lines)]
        write_table(folder / f"first-{table.name}", [("path", "label"), *rows])


_CNN = """[model]
kind = "attention_cnn"
width = 16
attention_after = 3
dropout = 0.0
[training]
learning_rate = 4e-3
schedule = "budget"
warmup_share = 0.1
batch_sentences = 32
"""
IMAGE_CLASSIFY = Demo(
    "the form that is above or on the left",
    _shapes,
    f"""[data]
train = "first-train.csv"
valid = "first-valid.csv"
test = "first-test.csv"
{_CNN}max_epochs = 8
""",
    f"FOLDER/{_SHOWN}",
)
IMAGE_SEGMENT = Demo(
    "which form each pixel belongs to",
    _shapes,
    f"""[data]
train = "train.csv"
valid = "valid.csv"
test = "test.csv"
classes = ["background", "square", "circle", "triangle"]
{_CNN}max_epochs = 5
""",
    f'{{"path": "FOLDER/{_SHOWN}", "mask": "FOLDER/{_SHOWN.replace("pictures", "masks")}"}}',
)
CAPTION = Demo(
    "to say which shapes stand where",
    _shapes,
    """label_smoothing = 0.0
[data]
train = "train.csv"
valid = "valid.csv"
test = "test.csv"
[tokenizer]
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
""",
    f"FOLDER/{_SHOWN}",
)

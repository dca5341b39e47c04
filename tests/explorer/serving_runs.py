"""Small runs to look at: a translator, and a model of masked words."""

import os

from tiny_tasks import CASES

import headwise

TEXT = "a and g ."


def folder_of(place):
    """A run folder, trained for three steps."""
    pairs = [f"{a} and {b} .\t{b} und {a} ." for a in "abcdef" for b in "ghijk"]
    (place / "pairs.tsv").write_text("\n".join(pairs) + "\n")
    sizes = {"d_model": 8, "d_ff": 8, "num_heads": 2, "encoder_layers": 2, "decoder_layers": 1}
    recipe = {
        "task": "translate",
        "data": {"train": str(place / "pairs.tsv")},
        "tokenizer": {"kind": "word", "joint": False},
        "model": {"kind": "transformer", **sizes},
        "decoding": {"max_len": 9},
        "training": {"max_steps": 3, "batch_tokens": 64, "validate_every_epochs": 0, "warmup_steps": 1},
    }
    headwise.train(recipe, place / "run")
    return place / "run"


def filler_of(place):
    """A run folder of a model that says what stands at a mask."""
    (place / "text.txt").write_text("".join(f"a{n % 7} b{n % 5} c\n" for n in range(60)))
    recipe = {
        "task": "masked-lm",
        "data": {"train": str(place / "text.txt")},
        "tokenizer": {"kind": "word", "min_frequency": 1},
        "length": 12,
        "model": {"kind": "attention", "d_model": 8, "d_ff": 8, "num_heads": 2, "encoder_layers": 1},
        "training": {"max_steps": 3, "batch_tokens": 64, "validate_every_epochs": 0, "warmup_steps": 1},
    }
    headwise.train(recipe, place / "filler")
    return place / "filler"


def task_run(place, name, steps=2):
    """A run folder of a tiny task, trained on data beside it; the recipe names it by whole paths."""
    case = CASES[name]
    recipe = case.whole(place, steps)
    data = {key: _whole(place, value) for key, value in recipe["data"].items()}
    folder = place / name.replace(", ", "-").replace(" ", "-")
    headwise.train(recipe | {"data": data}, folder)
    return folder


def _whole(place, value):
    """A file's whole path, and anything else as it is."""
    return os.path.join(place, value) if isinstance(value, str) and (place / value).exists() else value

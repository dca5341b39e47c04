"""A small translator to look at."""

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

"""Small runs to look at: a translator, a model of masked words, one that writes on."""

import os

import pytest
from browsing import explored_at
from tiny_tasks import CASES

import headwise

TEXT = "a and g ."


def small(folder, recipe):
    """A run folder, trained for three steps."""
    training = {
        "max_steps": 3,
        "baseline_cpu_s": 0,
        "batch_tokens": max(64, recipe.get("length", 0)),
        "validate_every_epochs": 0,
        "warmup_steps": 1,
    }
    headwise.train({**recipe, "training": training}, folder)
    return folder


def folder_of(place):
    """A run folder of a translator."""
    pairs = [f"{a} and {b} .\t{b} und {a} ." for a in "abcdef" for b in "ghijk"]
    (place / "pairs.tsv").write_text("\n".join(pairs) + "\n")
    sizes = {"d_model": 8, "d_ff": 8, "num_heads": 2, "encoder_layers": 2, "decoder_layers": 1}
    recipe = {
        "task": "translate",
        "data": {"train": str(place / "pairs.tsv")},
        "tokenizer": {"kind": "word", "joint": False},
        "model": {"kind": "transformer", **sizes},
        "decoding": {"max_len": 9},
    }
    return small(place / "run", recipe)


def filler_of(place):
    """A run folder of a model that says what stands at a mask."""
    (place / "text.txt").write_text("".join(f"a{n % 7} b{n % 5} c\n" for n in range(60)))
    recipe = {
        "task": "masked-lm",
        "data": {"train": str(place / "text.txt")},
        "tokenizer": {"kind": "word", "min_frequency": 1},
        "length": 12,
        "model": {"kind": "attention", "d_model": 8, "d_ff": 8, "num_heads": 2, "encoder_layers": 1},
    }
    return small(place / "filler", recipe)


def filmed_of(place):
    """The translator again, with a film of its training."""
    probes = ['film.probes=["a and g .", "b and h ."]', 'film.targets=["g und a .", "h und b ."]']
    headwise.train(folder_of(place) / "config.toml", place / "film-run", overrides=["film.every=1", *probes])
    return place / "film-run"


def writer_of(place, length=16):
    """A run folder of a language model that reads so many tokens."""
    (place / "lines.txt").write_text("".join(f"a{n % 7} b{n % 5} c\n" for n in range(60)))
    recipe = {
        "task": "language-model",
        "length": length,
        "data": {"train": str(place / "lines.txt")},
        "tokenizer": {"kind": "char"},
        "model": {"kind": "decoder", "d_model": 8, "d_ff": 8, "num_heads": 2, "num_layers": 2},
        "decoding": {"method": "greedy", "max_len": 7},
    }
    return small(place / "text", recipe)


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


def words_of(count):
    """A text of so many words."""
    return " ".join(f"a{n % 7 if n % 3 else n % 2}" for n in range(count))


def long_of(place, length=1024, heads=2, layers=2, width=8):
    """A run folder of a model that reads long inputs, whose training text is short."""
    (place / "text.txt").write_text("".join(f"{words_of(7)}\n" for _ in range(9)))
    recipe = {
        "task": "language-model",
        "data": {"train": str(place / "text.txt"), "valid_fraction": 0, "test_fraction": 0},
        "tokenizer": {"kind": "word", "min_frequency": 1},
        "length": length,
        "model": {"kind": "decoder", "d_model": width * heads, "d_ff": 32, "num_heads": heads, "num_layers": layers},
        "decoding": {"method": "greedy", "max_len": 1},
    }
    return small(place / "long", recipe)


def long_site(**sizes):
    """Fixtures of a module: the folder of a run that reads long inputs, and the address of its explorer."""

    @pytest.fixture(scope="module")
    def long_folder(tmp_path_factory):
        return long_of(tmp_path_factory.mktemp("long"), **sizes)

    @pytest.fixture(scope="module")
    def site(long_folder):
        with explored_at([long_folder]) as address:
            yield address

    return long_folder, site


def exact_of(text):
    """A fixture of a module: the weights of the heads of the first layer of its long run, of a text."""

    @pytest.fixture(scope="module")
    def exact(long_folder):
        return headwise.load(long_folder).explain(text).layers["decoder.blocks.0.self_attention"].weights

    return exact

"""Runs of encoders trained here as folders of transformers, and back."""

import json

import numpy as np
import pytest
import torch

transformers = pytest.importorskip("transformers")

from PIL import Image  # noqa: E402

import headwise  # noqa: E402
from headwise.errors import Unsupported  # noqa: E402
from headwise.export import formats  # noqa: E402
from headwise.training.recipe import read_recipe  # noqa: E402
from headwise.training.start import Start  # noqa: E402
from headwise.training.train import train  # noqa: E402

SIZES = {"d_model": 16, "d_ff": 20, "num_heads": 2, "encoder_layers": 2, "activation": "gelu"}
BERT = {
    "kind": "attention",
    **SIZES,
    "norm_order": "post",
    "position": "learned",
    "embedding_norm": True,
    "max_len": 32,
}
TRAINING = {"max_steps": 3, "batch_tokens": 256, "baseline_cpu_s": 0}
WORDS = ["red", "green", "blue", "cold", "warm", "old", "new", "fast"]


def rows(count=60):
    draw = np.random.default_rng(0)
    return [list(draw.choice(WORDS, draw.integers(1, 9))) for _ in range(count)]


def recipe(task, folder, **others):
    """A small run of a task that is a BERT or a ViT."""
    path = folder / "data.jsonl"
    values = {"task": task, "seed": 0, "training": TRAINING, "model": BERT, "tokenizer": {"vocab_size": 60}}
    if task == "image-classify":
        for number, label in enumerate(("dark", "light")):
            (folder / "data" / label).mkdir(parents=True)
            for image in range(12):
                pixels = np.random.default_rng(image).integers(0, 100, (8, 12, 3)) + 150 * number
                Image.fromarray(pixels.astype(np.uint8)).save(folder / "data" / label / f"{image}.png")
        del values["tokenizer"]
        path, values["model"] = folder / "data", {"kind": "vit", **SIZES, "patch": 4}
    elif task == "masked-lm":
        path = folder / "data.txt"
        path.write_text("".join(f"{' '.join(words)}\n" for words in rows()))
        values |= {"length": 16}
    else:
        keys = {"tag": "tags", "classify": "label", "regress": "label"}[task]
        labels = {
            "tag": lambda words: ["A" if "e" in word else "B" for word in words],
            "classify": lambda words: "long" if words[4:] else "short",
            "regress": lambda words: len(words) * 3.0 + 5,
        }
        what = (lambda words: {"words": words}) if task == "tag" else (lambda words: {"text": " ".join(words)})
        lines = [{**what(words), keys: labels[task](words)} for words in rows()]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    above = {"kind": "cls", "transform": "tanh"} if task != "tag" else {"kind": "first"}
    if task in ("classify", "regress", "tag"):
        values["pooling"] = above
    values["data"] = {"train": str(path), "valid_fraction": 0.2, "test_fraction": 0.2}
    if task in ("classify", "regress"):
        values["data"]["max_len"] = 31
    return read_recipe({**values, **others})


@pytest.mark.parametrize(
    ("task", "kind"),
    [
        ("classify", "BertForSequenceClassification"),
        ("regress", "BertForSequenceClassification"),
        ("tag", "BertForTokenClassification"),
        ("masked-lm", "BertForMaskedLM"),
        ("image-classify", "ViTForImageClassification"),
    ],
)
def test_both_sides_answer_the_same(task, kind, tmp_path):
    train(recipe(task, tmp_path), tmp_path / "run")
    parity = formats.export(tmp_path / "run", "huggingface", tmp_path / "out")
    assert parity.identical == parity.compared > 3
    assert parity.largest_difference <= 1e-5
    assert json.loads((tmp_path / "out" / "config.json").read_bytes())["architectures"] == [kind]
    assert formats.check(tmp_path / "out").identical == parity.identical
    # as a run again it answers as before
    Start.read(tmp_path / "out").publish(tmp_path / "back")
    before, after = headwise.load(tmp_path / "run"), headwise.load(tmp_path / "back")
    examples = [f"[MASK] {' '.join(words)}" if task == "masked-lm" else " ".join(words) for words in rows(9)]
    if task == "image-classify":
        examples = [str(path) for path in sorted((tmp_path / "data" / "dark").iterdir())]
    expected, outputs = before.predict(examples), after.predict(examples)
    if task == "regress":
        assert outputs == pytest.approx(expected, abs=1e-4)
    elif task == "image-classify":
        assert outputs == [pytest.approx(odds, abs=1e-5) for odds in expected]
    elif task == "tag":
        assert [chosen.tags for chosen in outputs] == [chosen.tags for chosen in expected]
    else:
        key = "text" if task == "masked-lm" else "label"
        assert [getattr(output, key) for output in outputs] == [getattr(output, key) for output in expected]
    # and goes out with the same weights
    if task != "masked-lm":
        again = formats.export(tmp_path / "back", "huggingface", tmp_path / "again", data=data_of(task, tmp_path))
        assert again.identical == again.compared
        weights = [Start.read(tmp_path / name).tensors for name in ("out", "again")]
        assert all(torch.equal(weights[1][name], tensor) for name, tensor in weights[0].items())


def data_of(task, folder):
    return {"train": str(folder / ("data" if task == "image-classify" else "data.jsonl"))}


@pytest.mark.parametrize(
    ("task", "others", "message"),
    [
        ("classify", {"pooling": {"kind": "mean"}}, "pooling.kind = 'mean'"),
        ("classify", {"model": {**BERT, "norm_order": "pre"}}, "model.norm_order = 'pre'"),
        ("classify", {"model": {**BERT, "mechanism": "linear"}}, "model.mechanism = 'linear'"),
        ("tag", {"output": {"kind": "crf"}}, "output.kind = 'crf'"),
        ("masked-lm", {"tie_output": False}, "tie_output = False"),
    ],
)
def test_what_no_class_has_is_refused_by_its_key(task, others, message, tmp_path):
    train(recipe(task, tmp_path, **others), tmp_path / "run")
    with pytest.raises(Unsupported, match=message):
        formats.export(tmp_path / "run", "huggingface", tmp_path / "out")
    assert not (tmp_path / "out").exists()

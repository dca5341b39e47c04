"""Every family that is imported learns on from its weights, resumes exactly, and can be recorded and exported then."""

import json
import random

import numpy as np
import pytest
import torch

transformers = pytest.importorskip("transformers")

from PIL import Image  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from their_models import DECODERS, ENCODERS, HEADS, TRANSLATORS, WORDS, encoder, made, picture_reader  # noqa: E402

import headwise  # noqa: E402
from headwise.errors import CheckpointError  # noqa: E402
from headwise.export import formats  # noqa: E402
from headwise.records import record  # noqa: E402
from headwise.training.loading import examples  # noqa: E402
from headwise.training.recipe import read_recipe  # noqa: E402
from headwise.training.start import Start  # noqa: E402
from headwise.training.train import train  # noqa: E402

PICTURES = {"vit": ("ViT", (10, 15)), "deit": ("DeiT", (10, 10))}
# the quickest; others take seconds each
QUICK = {("llama", "language-model"), ("bert", "classify")}
CASES = [
    *((name, "translate") for name in TRANSLATORS),
    *((name, "language-model") for name in DECODERS),
    *((name, task) for name in ENCODERS for task in HEADS),
    *((name, "image-classify") for name in PICTURES),
]
MARKED = [pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow) for case in CASES]
TUNING = ["max_steps=20", "validate_every=10", "save_every=10", "learning_rate=3e-3", "schedule=constant"]
TUNING += ["warmup_share=0", "warmup_steps=0", "baseline_cpu_s=0", "max_epochs=40"]


def imported(folder, name, task):
    """A folder of transformers."""
    if task == "image-classify":
        picture_reader(folder, *PICTURES[name])
    elif name in ENCODERS:
        encoder(folder, name, task)
    else:
        made(folder, name)
    return folder


def texts(count):
    draw = random.Random(0)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, 9))) for _ in range(count)]


def write_data(task, folder, size):
    """Examples of a task that can be learned, as a file or folder; and an input."""
    items = texts(160)
    if task == "image-classify":
        draw = np.random.default_rng(0)
        for number, label in enumerate(("dog", "owl")):
            (folder / label).mkdir(parents=True)
            for image in range(20):
                pixels = draw.integers(0, 100, (*size, 3)) + 150 * number
                Image.fromarray(pixels.astype(np.uint8)).save(folder / label / f"{image}.png")
        return folder, str(folder / "dog" / "0.png")
    folder.mkdir()
    if task == "translate":
        lines = [f"{text}\t{' '.join(reversed(text.split()))}" for text in items]
        path = folder / "data.tsv"
    elif task in ("language-model", "masked-lm"):
        lines, path = items, folder / "data.txt"
    else:
        lines, path = [json.dumps(_labelled(task, text)) for text in items], folder / "data.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path, items[0] if task != "masked-lm" else f"{items[0]} [MASK]"


def _labelled(task, text):
    words = text.split()
    if task == "tag":
        return {"words": words, "tags": ["B-X" if word < "w3" else "O" for word in words]}
    # labels of the start: its head stays
    return {"text": text, "label": float(words[0] < "w3") if task == "regress" else "good" if words[4:] else "bad"}


def recipe(start, folder, task, data, steps):
    keys = {"train": str(data), "valid_fraction": 0.2, "test_fraction": 0.2}
    values = {"task": task, "seed": 0, **start.settings(folder, keys, task)}
    own = [f"training.{setting}" for setting in TUNING] + [f"training.max_steps={steps}"]
    own += [] if task == "image-classify" else ["training.batch_tokens=256"]
    short = ["decoding.method=greedy", "decoding.beam_size=1", "decoding.max_len=5"]
    short += ["decoding.max_len_b=5", "label_smoothing=0"] if task == "translate" else ["ngram=0"]
    own += short if task in ("translate", "language-model") else []
    return read_recipe(values, own)


def loss(run, trained):
    """Of a run's model on what another was trained on."""
    scores = headwise.load(run).evaluate(examples(trained, "train"))
    return (
        next(scores[name] for name in ("loss", "rmse") if name in scores)
        if "accuracy" not in scores
        else -scores["accuracy"]
    )


@pytest.mark.parametrize(("name", "task"), MARKED)
def test_it_learns_resumes_and_goes_out(name, task, tmp_path):
    folder = imported(tmp_path / "theirs", name, task)
    start = Start.read(folder, task)
    data, text = write_data(task, tmp_path / "data", PICTURES[name][1] if name in PICTURES else None)
    start.publish(tmp_path / "run")
    whole = train(recipe(start, folder, task, data, 20), tmp_path / "whole")
    assert loss(whole.folder, whole.folder) < loss(tmp_path / "run", whole.folder)
    train(recipe(start, folder, task, data, 10), tmp_path / "parts")
    parts = train(recipe(start, folder, task, data, 20), tmp_path / "parts")
    expected, resumed = (load_file(done.folder / "model.safetensors") for done in (whole, parts))
    assert all(torch.equal(expected[key], resumed[key]) for key in expected)
    assert whole.steps == 20
    card = (whole.folder / "README.md").read_text()
    assert start.origin.sha256 in card
    assert "license: not stated" in card
    predictor = headwise.load(whole.folder)
    with record(predictor.model) as trace:
        predictor.predict([text])
    assert trace.names()
    assert predictor.explain(text).layers
    if name == "qwen2":
        # whatever its tokenizer.json says, transformers cuts texts as the pairs of bytes of Qwen are
        with pytest.raises(CheckpointError, match="as other tokens"):
            formats.export(whole.folder, "huggingface", tmp_path / "out")
        return
    parity = formats.export(whole.folder, "huggingface", tmp_path / "out")
    assert parity.identical + parity.ties == parity.compared > 2
    kind = name if name in ENCODERS else name.partition("-")[0]
    assert json.loads((tmp_path / "out" / "config.json").read_text())["model_type"] == kind

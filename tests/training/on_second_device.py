"""Trains on the simulated device and on the host; test_devices.py runs it in a process, since the device stays.

Every run must give the weights of the host: the device computes with the host's numbers.
"""

import json
import shutil
import sys
from pathlib import Path

import simulated_device
import torch
import training_toy

from headwise.decoding.search import DecodingConfig
from headwise.training import numerics
from headwise.training.loading import load
from headwise.training.train import train

HOST = numerics.device
TRAINING = {
    "max_steps": 6,
    "validate_every": 2,
    "max_epochs": 0,
    "batch_tokens": 64,
    "warmup_steps": 1,
    "ema_decay": 0.9,
    "device": "cpu",
}


def on(device, recipe, folder, steps):
    """Trains to so many steps on "sim" or "cpu"."""
    numerics.device = HOST if device == "cpu" else lambda name: simulated_device.DEVICE
    train({**recipe, "training": {**recipe["training"], "max_steps": steps}}, folder)
    return (folder / "model.safetensors").read_bytes()


def recipes(folder):
    """Tasks of one device in their smallest form; weights are not tied, which the simulation cannot do."""
    words = [json.dumps({"words": ["a", c, "b"], "tags": ["X", "Y", "X"]}) for c in "efghijklmnopqrstuvwxyz"]
    (folder / "tagged.jsonl").write_text("\n".join(words))
    (folder / "text.txt").write_text("hello there, world of text\n" * 40)
    sizes = {"d_model": 8, "d_ff": 8, "num_heads": 2}
    tag = {"data": {"train": str(folder / "tagged.jsonl"), "valid_fraction": 0.2, "test_fraction": 0.2}}
    memory = {"num_layers": 1, "memory_len": 6, "position": "shaw", "tie_output": False}
    text = {"data": {"train": str(folder / "text.txt")}, "length": 8, "model": {**sizes, **memory}}
    (folder / "pairs.tsv").write_text("".join(f"{a} {b}\t{b} {a}\n" for a in "abcdef" for b in "ghijk"))
    # not softmax, whose fused kernel of the host has other last digits than the definition
    layers = {
        "normalizer": "sparsemax",
        "encoder_layers": 1,
        "decoder_layers": 1,
        "tie_output": False,
        "tie_embeddings": False,
    }
    pairs = {
        "data": {"train": str(folder / "pairs.tsv"), "valid_fraction": 0.2, "test_fraction": 0.2},
        "tokenizer": {"kind": "word"},
        "model": {"kind": "transformer", **sizes, **layers},
        "decoding": {"max_len": 5},
    }
    toy = training_toy.recipe(tied=False)
    return {
        "toy": {**toy, "training": {**toy["training"], "ema_decay": 0.9, "accumulate": 2}},
        "tag": {"task": "tag", **tag, "model": {"kind": "token", "d_model": 8, "dropout": 0.0}, "training": TRAINING},
        "translate": {"task": "translate", **pairs, "training": TRAINING},
        "language-model": {"task": "language-model", **text, "training": TRAINING},
    }


def decoded(device, folder):
    """Beams and samples of a translator on this device: those of the host, since the draws are."""
    translator = load(folder)
    # as a validation has it, without gradient
    with torch.no_grad():
        translator.model.to(device)
        ways = [{"method": "beam", "beam_size": 3, "n_best": 2}, {"method": "sample", "num_samples": 3}]
        found = [translator.n_best(["a g", "b h i"], DecodingConfig(max_len=5, **way)) for way in ways]
    return [[one.tokens for one in every] for lists in found for every in lists]


def main(folder, name):
    """True when the weights of the task of this name are those of the host, resumed and moved."""
    simulated_device.install()
    torch.set_default_device("cpu")
    torch.set_num_threads(1)
    training_toy.install()
    recipe = recipes(folder)[name]
    expected = on("cpu", recipe, folder / "host", 6)
    on("sim", recipe, folder / "sim", 3)
    shutil.copytree(folder / "sim", folder / "moved")
    if name == "translate":
        assert decoded("sim", folder / "sim") == decoded("cpu", folder / "sim")
    return on("sim", recipe, folder / "sim", 6) == on("cpu", recipe, folder / "moved", 6) == expected


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), sys.argv[2])))

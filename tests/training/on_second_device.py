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

from headwise.training import numerics
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
    toy = training_toy.recipe(tied=False)
    return {
        "toy": {**toy, "training": {**toy["training"], "ema_decay": 0.9, "accumulate": 2}},
        "tag": {"task": "tag", **tag, "model": {"kind": "token", "d_model": 8, "dropout": 0.0}, "training": TRAINING},
        "language-model": {"task": "language-model", **text, "training": TRAINING},
    }


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
    return on("sim", recipe, folder / "sim", 6) == on("cpu", recipe, folder / "moved", 6) == expected


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), sys.argv[2])))

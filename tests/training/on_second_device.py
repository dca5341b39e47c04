"""Trains on the simulated device and on the host; test_devices.py runs it in a process, since the device stays.

Every run must give the weights of the host within rounding: the device computes with the host's numbers, but not with
its fused kernels.
"""

import os
import shutil
import sys
from pathlib import Path

import simulated_device
import torch
import training_toy
from safetensors.torch import load_file
from tiny_tasks import CASES

from headwise.decoding.search import DecodingConfig
from headwise.training import numerics
from headwise.training.loading import load
from headwise.training.train import train

HOST = numerics.device
UNTIED = {"tie_output": ("transformer", "decoder"), "tie_embeddings": ("transformer",)}


def on(device, recipe, folder, steps):
    """Trains to so many steps on "sim" or "cpu"."""
    numerics.device = HOST if device == "cpu" else lambda name: simulated_device.DEVICE
    train({**recipe, "training": {**recipe["training"], "max_steps": steps}}, folder)
    return load_file(folder / "model.safetensors")


def recipe_of(name, folder):
    """A tiny task without what the simulation lacks: tied weights, and the random numbers of the host."""
    if name == "toy":
        toy = training_toy.recipe(tied=False)
        return {**toy, "training": {**toy["training"], "ema_decay": 0.9, "accumulate": 2}}
    os.chdir(folder)
    recipe = _without_dropout(CASES[name].whole(folder, 6))
    # numbers have no table of embeddings
    kind = None if recipe["task"] == "forecast" else recipe["model"].get("kind")
    untied = {key: False for key in ("tie_output", "tie_embeddings") if kind in UNTIED[key]}
    # what is nearly zero shall stay so: Adam divides it by its size
    training = {**recipe["training"], "ema_decay": 0.9, "device": "cpu", "epsilon": 1e-2}
    own = {"tie_output": False} if recipe["task"] == "masked-lm" else {}
    return {**recipe, **own, "model": recipe["model"] | untied, "training": training}


def _without_dropout(values):
    return {
        key: _without_dropout(value) if isinstance(value, dict) else 0.0 if "dropout" in key else value
        for key, value in values.items()
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
    """Sees that the weights of the task of this name are those of the host within rounding, resumed and moved."""
    simulated_device.install()
    torch.set_default_device("cpu")
    torch.set_num_threads(1)
    training_toy.install()
    recipe = recipe_of(name, folder)
    expected = on("cpu", recipe, folder / "host", 6)
    on("sim", recipe, folder / "sim", 3)
    shutil.copytree(folder / "sim", folder / "moved")
    if name == "translate":
        assert decoded("sim", folder / "sim") == decoded("cpu", folder / "sim")
    for found in (on("sim", recipe, folder / "sim", 6), on("cpu", recipe, folder / "moved", 6)):
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

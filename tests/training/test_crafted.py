"""A checkpoint whose digests agree and whose content is wrong: refused by file and key, never by Python or PyTorch."""

import json
from dataclasses import replace

import pytest
import torch

from headwise.errors import CheckpointError
from headwise.runs.checkpoints import Checkpoints
from headwise.runs.commits import Draft, remove_folder
from headwise.tasks import registry
from headwise.training.recipe import read_recipe
from headwise.training.session import Session, Trainer
from headwise.training.train import train

LINES = "".join(f"{'abc' * (1 + line % 3)} has  {line % 7}.\n" for line in range(60))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The recipe of a language model with a memory, and a run of it that stands inside its first pass."""
    folder = tmp_path_factory.mktemp("crafted")
    (folder / "text.txt").write_text(LINES, encoding="utf-8")
    sizes = {"d_model": 6, "d_ff": 7, "num_heads": 2, "num_layers": 2, "position": "shaw", "memory_len": 13}
    recipe = {
        "task": "language-model",
        "data": {"train": str(folder / "text.txt"), "valid_fraction": 0.0, "test_fraction": 0.0},
        "tokenizer": {"kind": "char"},
        "model": sizes,
        "length": 5,
        "training": {
            "max_steps": 2,
            "baseline_cpu_s": 0,
            "max_epochs": 0,
            "batch_tokens": 15,
            "save_every": 1,
            "validate_every_epochs": 0,
        },
    }
    train(recipe, folder / "run")
    return recipe, folder / "run"


@pytest.fixture(scope="module")
def saved(trained):
    return Checkpoints(trained[1]).at(2)


@pytest.fixture(scope="module")
def session(trained):
    recipe = read_recipe(trained[0])
    kind = registry.task_type(recipe.task)
    return Session(kind(recipe, kind.prepare(recipe)), recipe)


def changed(saved, section, key, value):
    """The checkpoint with another value in trainer.json; without the key where the value is `...`."""
    values = saved.json("trainer.json")
    values[section].pop(key, None)
    if value is not ...:
        values[section][key] = value
    return replace(saved, files={**saved.files, "trainer.json": json.dumps(values).encode()})


WORDS = [1] * 624


@pytest.mark.parametrize(
    ("section", "key", "value", "message"),
    [
        ("progress", "step", -1, "progress.step: must be 0 or more"),
        ("progress", "step", 3, "counts 3 steps, not 2"),
        ("progress", "updates", 10**300, "progress.updates: must be"),
        ("progress", "window_tokens", 0, "a window without tokens"),
        ("progress", "recent_steps", [-3], "progress.recent_steps"),
        ("progress", "cpu_s", -1.0, "progress.cpu_s: must be 0 or more"),
        ("progress", "schedule_from", 7.0, "progress.schedule_from: must be 1 or less"),
        ("sampler", "position", 10**300, "sampler.position: must be"),
        ("sampler", "epoch", "first", "sampler.epoch"),
        ("randomness", "torch", ..., "randomness: .*'torch'"),
        ("randomness", "torch", 7, "randomness: no state of a generator here"),
        ("randomness", "torch", "", "randomness: "),
        ("randomness", "torch", "00" * 17, "randomness: .*size"),
        ("randomness", "torch", "00" * 5056, "randomness: "),
        ("randomness", "python", [3], "randomness: "),
        ("randomness", "python", None, "randomness: "),
        ("randomness", "python", [3, WORDS, None], "randomness: "),
        ("randomness", "python", [3, [*WORDS, 700], None], "randomness: "),
        ("randomness", "python", [3, [*WORDS, -1], None], "randomness: "),
        ("randomness", "python", [3, [*WORDS, "x"], None], "randomness: "),
        ("randomness", "python", [9, [*WORDS, 5], None], "randomness: "),
        ("randomness", "python", [3, [*WORDS, 5], "x"], "randomness: .*'x'"),
        ("data", "train", 7, "data.train"),
    ],
)
def test_values_that_no_run_has_are_told_before_anything_is_restored(saved, section, key, value, message):
    before = torch.get_rng_state()
    with pytest.raises(CheckpointError, match=f"trainer.json: .*{message}"):
        Trainer.read(changed(saved, section, key, value))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("position", 10**9, "the training data has .* batches .* stands at batch 1000000000"),
        ("position", -1, "stands at batch -1"),
        ("position", ..., "has no position"),
        ("epoch", ..., "has no epoch"),
        ("epoch", -1, "epoch -1 .* comes before the first one"),
    ],
)
def test_a_place_that_the_data_does_not_have(session, saved, key, value, message):
    with pytest.raises(CheckpointError, match=f"trainer.json: .*{message}"):
        session.restore(changed(saved, "sampler", key, value), session.digests)


def test_a_whole_checkpoint_is_restored(session, saved):
    session.restore(saved, session.digests)
    carried = session.source.tensors()
    assert {name: list(tensor.shape) for name, tensor in carried.items()} == {"0": [3, 10, 6], "1": [3, 10, 6]}


FITS = torch.zeros(3, 10, 6)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({}, "2 tensors, named from 0, are carried to batch 2; here are none"),
        ({"0": FITS}, "here are 0"),
        ({"0": FITS, "2": FITS}, "here are 0, 2"),
        ({"0": FITS, "1": FITS, "2": FITS}, "here are 0, 1, 2"),
        ({"0": FITS, "1": FITS[:2]}, r"'1' is torch.float32 \[2, 10, 6\], not .*\[3, 10, 6\]"),
        ({"0": FITS, "1": FITS[:, :7]}, r"not .*\[3, 10, 6\]"),
        ({"0": FITS[..., :5], "1": FITS}, r"'0' is .* not .*\[3, 10, 6\]"),
        ({"0": FITS[0], "1": FITS}, r"'0' is .* not .*\[3, 10, 6\]"),
        ({"0": FITS.long(), "1": FITS}, "'0' is torch.int64 .* not numbers of a floating type"),
    ],
)
def test_a_memory_that_is_not_the_model_s(session, saved, tensors, message):
    crafted = replace(saved, tensors={**saved.tensors, "stream.safetensors": (tensors, {})})
    with pytest.raises(CheckpointError, match=f"stream.safetensors: .*{message}"):
        session.restore(crafted, session.digests)


def test_a_memory_at_the_beginning_of_a_pass_is_nobody_s(session, saved):
    with pytest.raises(CheckpointError, match=r"stream.safetensors: 0 tensors, .* here are 0, 1"):
        session.restore(changed(saved, "sampler", "position", 0), session.digests)


def test_a_run_goes_on_from_the_checkpoint_before(trained, saved):
    recipe, run = trained
    crafted = changed(saved, "randomness", "torch", "00")
    newest = saved.folder
    files = {path.name: path.read_bytes() for path in newest.iterdir() if path.name != "manifest.json"}
    remove_folder(newest)
    Draft.begin(newest, 0).commit(files | crafted.files, {"format": 2, "kind": "checkpoint", "step": 2})
    assert train({**recipe, "training": {**recipe["training"], "max_steps": 3}}, run).steps == 3
    log = (run / "log.txt").read_text()
    assert "trainer.json: randomness: " in log
    assert "falling back to step-00000001" in log

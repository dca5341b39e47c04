"""A run folder whose files vouch for each other but not for the model: refused before memory is taken."""

import hashlib
import json
import tomllib

import pytest
import tomli_w
import torch
from torch.overrides import TorchFunctionMode

from headwise.errors import CheckpointError, ConfigError
from headwise.runs import publish
from headwise.runs.commits import MANIFEST, seal
from headwise.tasks.translation.translate import Translate
from headwise.training.loading import load
from headwise.training.train import train

RECIPE = {
    "task": "translate",
    "data": {"train": "pairs.tsv", "valid_fraction": 0.0, "test_fraction": 0.0},
    "tokenizer": {"kind": "word", "joint": False},
    "model": {"kind": "transformer", "d_model": 8, "d_ff": 16, "num_heads": 2}
    | {"encoder_layers": 1, "decoder_layers": 1},
    "training": {"max_steps": 1, "baseline_cpu_s": 0, "batch_tokens": 64, "validate_every_epochs": 0},
}


@pytest.fixture
def forged(tmp_path, monkeypatch):
    """Changes a value of the recipe, or a file, under a manifest that agrees."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(publish, "_RETRY_S", 0.0)
    (tmp_path / "pairs.tsv").write_text("go .\tva !\ni am home .\tje suis chez moi .\n")
    folder = train(RECIPE, tmp_path / "run").folder
    for path in sorted((folder / "state").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()

    def change(name, content):
        (folder / name).write_bytes(content)
        facts = json.loads((folder / MANIFEST).read_bytes())
        facts.pop("seal")
        facts["files"][name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        (folder / MANIFEST).write_bytes(seal(facts))
        return folder

    return change, folder


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("d_model", 2**20, "the weights do not fit the model: .*has shape"),
        ("d_ff", 2**20, "has shape .* the model .*1048576"),
        ("encoder_layers", 7, "'encoder.blocks.1.* is missing"),
        ("encoder_layers", 10**9, "model.encoder_layers: must be 1024 or less"),
    ],
)
def test_a_recipe_that_asks_for_more_than_the_weights_is_refused_first(forged, key, value, message):
    change, folder = forged
    recipe = tomllib.loads((folder / "config.toml").read_text())
    recipe["model"][key] = value
    change("config.toml", tomli_w.dumps(recipe).encode())
    largest = [0]

    class Watched(TorchFunctionMode):
        def __torch_function__(self, function, types, given=(), options=None):
            found = function(*given, **(options or {}))
            if isinstance(found, torch.Tensor) and not found.is_meta:
                largest[0] = max(largest[0], found.numel())
            return found

    with Watched(), pytest.raises(CheckpointError, match=message):
        load(folder)
    # frequencies of the positions, but no matrix
    assert largest[0] < 1_000_000


def test_layers_that_the_weights_cannot_have_are_refused_unbuilt(forged, monkeypatch):
    change, folder = forged
    recipe = tomllib.loads((folder / "config.toml").read_text())
    recipe["model"] |= {"encoder_layers": 1024, "decoder_layers": 1024}
    monkeypatch.setattr(Translate, "build", lambda task: pytest.fail("the model was built"))
    with pytest.raises(CheckpointError, match=r"model.safetensors: the weights do not fit .* has 8192 or more"):
        load(change("config.toml", tomli_w.dumps(recipe).encode()))


def test_a_whole_run_still_loads(forged):
    _, folder = forged
    assert len(load(folder).translate(["go ."])) == 1


def test_the_meta_device_is_no_place_to_load_onto(forged):
    _, folder = forged
    with torch.device("meta"), pytest.raises(ConfigError, match="onto the meta device, which holds no numbers"):
        load(folder)
    with torch.inference_mode():
        inside = load(folder).translate(["go ."])
    assert inside == load(folder).translate(["go ."])


@pytest.mark.parametrize("name", ["source.tokenizer.json", "target.tokenizer.json"])
def test_a_tokenizer_of_another_recipe_is_refused(forged, name):
    change, folder = forged
    document = json.loads((folder / name).read_text())
    document["config"]["min_frequency"] = 7
    with pytest.raises(CheckpointError, match=f"{folder}: {name}: .*it is of another configuration than the recipe's"):
        load(change(name, json.dumps(document).encode()))


@pytest.mark.parametrize("content", [b"[]", b"{}", b"null"])
def test_a_tokenizer_that_is_none_is_a_fault_of_the_folder(forged, content):
    change, folder = forged
    with pytest.raises(CheckpointError, match=f"{folder}: target.tokenizer.json: not a tokenizer file"):
        load(change("target.tokenizer.json", content))


def test_a_run_is_loaded_in_its_own_type_whatever_the_default_is(forged):
    _, folder = forged
    try:
        torch.set_default_dtype(torch.float64)
        loaded = load(folder)
        assert torch.get_default_dtype() == torch.float64
        found = loaded.translate(["go ."])
    finally:
        torch.set_default_dtype(torch.float32)
    assert {parameter.dtype for parameter in loaded.model.parameters()} == {torch.float32}
    assert found == load(folder).translate(["go ."])

"""Run folders: complete, movable, verified; what `load` does with damage; whose folder is refused."""

import hashlib
import json
import os
import random
import shutil

import pytest
import torch
from torch import nn
from training_toy import ToyConfig, ToyModel, ToyTask, batch_of, digest_of_weights, recipe, toy

from headwise.errors import CheckpointError, ConfigError, MachineError, RunBusy
from headwise.locks import FolderLock
from headwise.runs import publish as publishing
from headwise.runs.checkpoints import Checkpoints
from headwise.runs.commits import seal
from headwise.runs.weights import load_weights, ties, weights_file
from headwise.training.loading import load
from headwise.training.train import train

ROOT_FILES = ["config.toml", "labels.json", "manifest.json", "model.safetensors"]


@pytest.fixture
def run(tmp_path):
    return train(recipe({"max_steps": 10}), tmp_path / "run").folder


def test_a_run_folder_has_all_there_is(run):
    names = ["README.md", "config.toml", "labels.json", "log.txt", "manifest.json", "metrics.jsonl"]
    assert sorted(os.listdir(run)) == [".lock", ".lock.json", *names, "model.safetensors", "state"]
    assert sorted(os.listdir(run / "state")) == ["best.json", "finished.json", "step-00000005", "step-00000010"]
    checkpoint = ["config.toml", "labels.json", "manifest.json", "model.safetensors", "optimizer.safetensors"]
    assert sorted(os.listdir(run / "state" / "step-00000010")) == [*checkpoint, "trainer.json"]
    text = (run / "README.md").read_text()
    assert text.startswith("# Task toy\n\nTrained with Headwise. Validation: ")
    assert "\n\n## Training\n" in text
    assert "| trained | 10 steps, 1.67 epochs," in text
    assert "| ended by | max_steps |" in text


def test_it_predicts_without_its_state_and_after_a_move(run, tmp_path):
    before = load(run)
    digest = digest_of_weights(before)
    assert not before.training
    shutil.rmtree(run / "state")
    run.rename(tmp_path / "elsewhere")
    assert digest_of_weights(load(tmp_path / "elsewhere")) == digest
    with pytest.raises(ConfigError, match="elsewhere: has a model but no checkpoint to resume from; choose another"):
        train(recipe({"max_steps": 20}), tmp_path / "elsewhere")


def test_tied_weights_stay_tied(run):
    model = load(run)
    assert model.output.weight is model.embedding.weight
    model.output.weight.data.fill_(2.0)
    assert (model.embedding.weight == 2.0).all()


def test_loading_leaves_random_numbers_alone(run):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    load(run)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("name", ROOT_FILES)
def test_damage_is_named_and_a_checkpoint_takes_over(run, name):
    digest, rng = digest_of_weights(load(run)), random.Random(name)
    whole = (run / name).read_bytes()
    for _ in range(5):
        data = bytearray(whole)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        (run / name).write_bytes(data)
        with pytest.warns(UserWarning, match=rf"{run / name}: .*; used a checkpoint in {run / 'state'} instead"):
            assert digest_of_weights(load(run)) == digest
    (run / name).unlink()
    with pytest.warns(UserWarning, match=f"{run / name}: missing; used a checkpoint"):
        assert digest_of_weights(load(run)) == digest
    shutil.rmtree(run / "state")
    with pytest.raises(
        CheckpointError, match=f"{run / name}: missing; there is no checkpoint to fall back to"
    ) as caught:
        load(run)
    assert caught.value.exit_code == 4


def test_nothing_good_names_the_first_fault(run):
    for path in run.rglob("model.safetensors"):
        path.write_bytes(b"x")
    with pytest.raises(CheckpointError, match=rf"^{run}/model.safetensors: damaged: 1 bytes .*no other checkpoint in"):
        load(run)
    with pytest.raises(CheckpointError, match="nowhere: no such run folder"):
        load(run / "nowhere")


def test_a_running_training_can_be_read(tmp_path):
    told = []

    def look(event):
        if event["event"] == "checkpoint" and event["step"] > 5:
            told.append(digest_of_weights(load(tmp_path / "run")))

    train(recipe({"max_steps": 15}), tmp_path / "run", on_event=look)
    assert len(told) == 2


def test_a_model_that_is_being_replaced_is_read_old_or_new(run, monkeypatch):
    old, new = digest_of_weights(load(run)), "manifest of another moment"
    manifest = (run / "manifest.json").read_bytes()
    (run / "manifest.json").write_bytes(seal({"format": 1, "files": {"config.toml": {"bytes": 1, "sha256": new}}}))
    # while the reader waits to look again, the writer finishes
    monkeypatch.setattr(publishing.time, "sleep", lambda _: (run / "manifest.json").write_bytes(manifest))
    assert digest_of_weights(load(run)) == old


def test_a_run_of_an_older_format_is_read_and_goes_on(tmp_path):
    made = recipe({"max_steps": 10, "trackers": ["tensorboard"]})
    run = train(recipe({"max_steps": 10}), tmp_path / "run").folder
    digest = digest_of_weights(load(run))
    for folder in (run, *(entry.path for entry in Checkpoints(run).entries())):
        config = (folder / "config.toml").read_bytes().replace(b"trackers = []\n", b"tensorboard = true\n")
        (folder / "config.toml").write_bytes(config)
        manifest = json.loads((folder / "manifest.json").read_text())
        manifest["format"], manifest["files"]["config.toml"] = 1, _entry(config)
        del manifest["seal"]
        (folder / "manifest.json").write_bytes(seal(manifest))
    assert b"trackers" not in (run / "config.toml").read_bytes()
    assert digest_of_weights(load(run)) == digest
    (run / "state" / "finished.json").unlink()
    pytest.importorskip("tensorboard")
    assert train({**made, "training": {**made["training"], "max_steps": 12}}, run).steps == 12
    assert "training.trackers was" not in (run / "log.txt").read_text()


def _entry(content):
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def test_a_newer_format_is_refused(run):
    (run / "manifest.json").write_bytes(seal({"format": 7, "files": {}}))
    shutil.rmtree(run / "state")
    with pytest.raises(
        CheckpointError, match=r"manifest.json: format 7 is newer than this program reads \(4\); update"
    ):
        load(run)


def test_weights_that_do_not_fit_are_listed():
    file = weights_file(ToyModel(ToyConfig(tied=False)))
    tensors, metadata = dict(file._tensors), file._metadata
    with pytest.raises(CheckpointError) as caught:
        load_weights(ToyModel(ToyConfig(width=5, tied=False)), tensors, metadata, "m.safetensors")
    message = str(caught.value)
    assert message.startswith("m.safetensors: the weights do not fit the model: 'embedding.weight' has shape [11, 6]")
    assert message.count(";") == 5
    assert message.endswith("; and 1 more")
    file = weights_file(ToyModel(ToyConfig()))
    tensors, metadata = dict(file._tensors), file._metadata
    model = ToyModel(ToyConfig())
    before = digest_of_weights(model)
    for change, problem in [
        ({"mix.bias": None}, "'mix.bias' is missing"),
        ({"extra": torch.ones(1)}, "'extra' is not in this model"),
        (
            {"mix.bias": torch.ones(6, dtype=torch.float64)},
            "'mix.bias' has type torch.float64, the model torch.float32",
        ),
        ({"mix.bias": torch.ones(1)}, r"'mix.bias' has shape \[1\], the model \[6\]"),
    ]:
        changed = {name: tensor for name, tensor in {**tensors, **change}.items() if tensor is not None}
        with pytest.raises(CheckpointError, match=f"do not fit the model: {problem}"):
            load_weights(model, changed, metadata, "m.safetensors")
    with pytest.raises(CheckpointError, match="other weights are tied to each other"):
        load_weights(model, tensors, {}, "m.safetensors")
    with pytest.raises(CheckpointError, match="its note on tied weights is not valid"):
        load_weights(model, tensors, {"tied": "["}, "m.safetensors")
    assert digest_of_weights(model) == before
    load_weights(model, tensors, metadata, "m.safetensors")
    assert ties(model) == {"output.weight": "embedding.weight"}


def test_empty_tensors_are_tied_to_nothing():
    model = nn.ParameterList([torch.zeros(0), torch.zeros(0)])
    assert ties(model) == {}


def test_folders_of_others_are_refused(tmp_path):
    (tmp_path / "photo.jpg").write_text("")
    with pytest.raises(ConfigError, match="is not empty and is not a run folder; choose another one"):
        train(recipe(), tmp_path)
    assert os.listdir(tmp_path) == ["photo.jpg"]
    with pytest.raises(MachineError, match=r"photo.jpg: is a file, not a folder"):
        train(recipe(), tmp_path / "photo.jpg")


def test_a_start_that_was_killed_early_starts_again(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "metrics.jsonl").write_text('{"event": "step", "step": 1}\n')
    shutil.copy(train(recipe({"max_steps": 2}), tmp_path / "other").folder / "config.toml", folder)
    with pytest.raises(ConfigError, match="was started with another recipe: seed was 3 and is 4 now"):
        train({**recipe({"max_steps": 2}), "seed": 4}, folder)
    (folder / ".config.toml.tmp").write_text("")
    assert train(recipe({"max_steps": 2}), folder).steps == 2
    assert "removed .config.toml.tmp, left by an interrupted write" in (folder / "log.txt").read_text()


def test_only_one_trains_a_folder(tmp_path):
    (tmp_path / "run").mkdir()
    with FolderLock(tmp_path / "run"), pytest.raises(RunBusy, match="is being written by process") as caught:
        train(recipe(), tmp_path / "run")
    assert caught.value.exit_code == 7


def _valid_loss(model):
    task = toy()
    with torch.no_grad():
        return task.summarise(task.measure(model, [batch_of(task, range(5), "valid")]))["loss"]


def test_the_running_mean_is_validated_and_published(tmp_path):
    run = train(recipe({"max_steps": 10, "ema_decay": 0.9}), tmp_path / "run").folder
    saved = Checkpoints(run).newest(print)
    mean, raw = saved.file("ema.safetensors")[0], saved.file("model.safetensors")[0]
    published = load(run).state_dict()
    assert torch.equal(published["mix.weight"], mean["mix.weight"])
    assert not torch.equal(published["mix.weight"], raw["mix.weight"])
    loss = _valid_loss(load(run))
    assert loss == pytest.approx(saved.json("trainer.json")["progress"]["best_metrics"]["loss"], rel=1e-6)


def test_the_average_is_kept_only_if_it_is_better(tmp_path, monkeypatch):
    made = recipe({"max_steps": 15, "average_last": 3})
    values = {"run": [9.0, 5.0, 4.0, 3.0, 2.0], "worse": [9.0, 5.0, 4.0, 3.0, 7.0]}
    for name, metrics in values.items():
        scores = iter(metrics)
        monkeypatch.setattr(ToyTask, "summarise", lambda *_, scores=scores: {"loss": next(scores)})
        run = train(made, tmp_path / name)
        models = [Checkpoints(run.folder).at(step).file("model.safetensors")[0] for step in (5, 10, 15)]
        mean = torch.stack([model["mix.weight"].double() for model in models]).mean(0).float()
        is_mean = torch.equal(load(run.folder).state_dict()["mix.weight"], mean)
        assert (run.metrics["loss"], is_mean) == ((2.0, True) if name == "run" else (3.0, False))
    assert "average of steps 5, 10, 15" in (tmp_path / "run" / "README.md").read_text()
    # a checkpoint that is gone is left out of the average
    shutil.rmtree(tmp_path / "worse" / "state" / "step-00000005")
    (tmp_path / "worse" / "state" / "finished.json").unlink()
    monkeypatch.setattr(ToyTask, "summarise", lambda *_: {"loss": 2.5})
    assert train(made, tmp_path / "worse").metrics == {"loss": 2.5}
    assert "there is no checkpoint of step 5; left out of the average" in (tmp_path / "worse" / "log.txt").read_text()


def test_a_changed_tensor_file_of_equal_size_is_noticed(run):
    path = run / "model.safetensors"
    path.write_bytes(path.read_bytes()[::-1])
    with pytest.warns(UserWarning, match="model.safetensors: .*used a checkpoint"):
        load(run)


def test_training_stops_where_its_folder_is_taken_away(tmp_path):
    def on_event(event):
        if event["event"] == "step":
            (tmp_path / "run").rename(tmp_path / "elsewhere")

    with pytest.raises(CheckpointError, match="was moved, removed or replaced"):
        train(
            recipe({"max_steps": 4, "log_every": 2, "save_every": 3, "validate_every": 0}),
            tmp_path / "run",
            on_event=on_event,
        )
    assert os.listdir(tmp_path) == ["elsewhere"]

"""The film of a training: what the model did, within its bytes, safe from what runs are safe from, at no bit."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from process_checks import ended, started
from tiny_tasks import CASES
from training_toy import final_digest

import headwise
from headwise.errors import CheckpointError, ConfigError, MachineError
from headwise.explain.reel import Reel, rows_of
from headwise.runs import film as films
from headwise.runs.film import Film
from headwise.runs.tensors import TensorFile
from headwise.training.loading import load_step
from headwise.training.train import train

FILM = ("film.every=2", "film.max_mib=1")


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    """Of the smallest tagger; its files are in the working folder."""
    monkeypatch.chdir(tmp_path)
    return CASES["tag"].whole(tmp_path, 6)


@pytest.fixture
def writer(tmp_path, monkeypatch):
    """Of the smallest translator."""
    monkeypatch.chdir(tmp_path)
    return CASES["translate"].whole(tmp_path, 6)


def contents(run):
    return {path.name: path.read_bytes() for path in (Path(run) / "film").iterdir()}


def log_of(run):
    return (Path(run) / "log.txt").read_text()


def test_frames_are_what_the_model_did(writer):
    probes = ['film.probes=["a g .", "nowhere"]', 'film.targets=["g a .", "b"]', "training.save_every=2"]
    train(writer, "run", overrides=[*FILM, *probes, "training.keep_last=9", "training.ema_decay=0.5"])
    reel = Reel("run")
    assert reel.steps == [0, 2, 4, 6]
    assert [(one["source"], one["target"]) for one in reel.probes] == [("a g .", "g a ."), ("nowhere", "b")]
    for step in reel.steps[1:]:
        found = load_step("run", step).explain("a g .", "g a .")
        assert list(reel.layers) == list(found.layers)
        for name, layer in found.layers.items():
            np.testing.assert_array_equal(reel.weights(step, 0, name), layer.weights.astype(np.float32))
            axes = reel.axes(step, 0, name)
            assert (axes.queries, axes.keys, axes.kind, axes.causal) == (
                layer.queries, layer.keys, layer.kind, layer.causal
            )  # fmt: skip
    name = next(iter(reel.layers))
    row = rows_of(reel, "entropy", name)[-1]
    assert (row["head"], row["step"]) == (f"{name}, head 1", 6)
    assert row["entropy"] == pytest.approx(float(reel.curves(name)[-1, 0, 1]))


def test_a_film_costs_no_bit(recipe):
    for run, film in (("without", []), ("with", FILM)):
        train(recipe, run, overrides=[*film, "training.ema_decay=0.9"])
    assert final_digest(Path("without")) == final_digest(Path("with"))
    assert not Path("without/film").exists()


def test_a_resumed_run_has_the_film_of_one_that_was_not_interrupted(recipe):
    train(recipe, "whole", overrides=FILM)
    train(recipe, "part", overrides=[*FILM, "training.max_steps=4"])
    # killed behind its last checkpoint: frames of steps that come again
    shutil.copytree("whole/film", "part/film", dirs_exist_ok=True)
    Path("part/film/.step-00000002.safetensors.1234.tmp").write_bytes(b"half")
    Path("part/film/step-00000099.safetensors").write_bytes(b"unknown")
    train(recipe, "part", overrides=FILM)
    assert contents("part") == contents("whole")
    assert Film.read(Path("part")).steps == [0, 2, 4, 6]
    # a finished run is left as it is
    before = contents("part")
    train(recipe, "part", overrides=FILM)
    assert contents("part") == before


def test_the_film_of_a_run_that_begins_again_begins_again(recipe):
    train(recipe, "run", overrides=FILM)
    before = contents("run")
    shutil.rmtree("run/state")
    Path("run/manifest.json").unlink()
    train(recipe, "run", overrides=FILM)
    assert contents("run") == before


def test_a_damaged_film_is_set_aside(recipe):
    train(recipe, "run", overrides=[*FILM, "training.max_steps=4"])
    manifest = Path("run/film/manifest.json")
    manifest.write_bytes(manifest.read_bytes().replace(b"bytes", b"bites"))
    with pytest.raises(CheckpointError, match=r"film/manifest\.json"):
        Reel("run")
    train(recipe, "run", overrides=FILM)
    assert Film.read(Path("run")).steps == [6]
    assert "set aside as damaged-film, the film begins anew" in log_of("run")
    frame = Path("run/film/step-00000006.safetensors")
    frame.write_bytes(frame.read_bytes()[:-1] + b"x")
    with pytest.raises(CheckpointError, match=r"step-00000006\.safetensors: damaged"):
        Reel("run").layers  # noqa: B018
    with pytest.raises(ConfigError, match=r"has no film; train with film\.every"):
        Reel("elsewhere")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda facts, tensors: facts.pop("probes"), "is damaged"),
        (lambda facts, tensors: facts.update(probes=[]), "no probe"),
        (lambda facts, tensors: facts["probes"][0].update(layers=7), "is damaged"),
        (lambda facts, tensors: facts.update(flags={"x": [[0, "odd", 1]]}), "is damaged"),
        (lambda facts, tensors: tensors.pop("0/encoder"), "the weights of encoder"),
        (lambda facts, tensors: tensors.update({"mask/0/encoder": torch.ones(2, 2, 2)}), "the mask of encoder"),
        (lambda facts, tensors: tensors.update({"mask/0/encoder": torch.ones(1, 2, 3)}), "the mask of encoder"),
        (lambda facts, tensors: facts.update(statistics=["entropy"]), "the statistics of encoder"),
    ],
)
def test_a_frame_that_contradicts_its_description_is_refused(tmp_path, change, message):
    layer = {"kind": "self", "causal": False, "queries": ["a", "b"], "keys": ["a", "b"]}
    probe = {"source": "a b", "target": None, "output": "", "layers": {"encoder": layer}}
    facts = {"step": 0, "statistics": ["entropy", "distance"], "probes": [probe], "flags": {}}
    tensors = {"0/encoder": torch.zeros(3, 2, 2), "heads/encoder": torch.zeros(2, 3)}
    Film(tmp_path).add(0, TensorFile(tensors, {"film": json.dumps(facts)}))
    assert Reel(tmp_path).layers == {"encoder": 3}
    change(facts, tensors)
    Film(tmp_path).add(0, TensorFile(tensors, {"film": json.dumps(facts)}))
    with pytest.raises(CheckpointError, match=message):
        Reel(tmp_path).axes(0, 0, "encoder")


@pytest.mark.parametrize(("causal", "expected"), [(False, [[1, 1], [1, 1]]), (True, [[1, 0], [1, 1]])])
def test_a_frame_without_masks_has_those_of_its_shape(tmp_path, causal, expected):
    layer = {"kind": "self", "causal": causal, "queries": ["a", "b"], "keys": ["a", "b"]}
    probe = {"source": "a b", "target": None, "output": "", "layers": {"encoder": layer}}
    facts = {"step": 0, "statistics": ["entropy"], "probes": [probe], "flags": {}}
    tensors = {"0/encoder": torch.zeros(3, 2, 2), "heads/encoder": torch.zeros(1, 3)}
    Film(tmp_path).add(0, TensorFile(tensors, {"film": json.dumps(facts)}))
    assert Reel(tmp_path).allowed(0, 0, "encoder").astype(int).tolist() == [expected]
    tensors["mask/0/encoder"] = torch.tensor([[[0, 1], [1, 0]]], dtype=torch.uint8)
    Film(tmp_path).add(0, TensorFile(tensors, {"film": json.dumps(facts)}))
    assert Reel(tmp_path).allowed(0, 0, "encoder").astype(int).tolist() == [[[0, 1], [1, 0]]]


def test_a_film_stays_within_its_bytes(tmp_path):
    content = TensorFile({"x": torch.zeros(250)}, {})
    size = content.size
    film = Film(tmp_path, 5, 7 * size)
    most = 0
    for step in range(0, 501, 5):
        if film.due(step):
            film.add(step, content)
        most = max(most, sum(path.stat().st_size for path in film.folder.glob("step-*")))
    assert most <= 7 * size
    assert film.steps == [0, 80, 160, 240, 320, 400, 480]
    assert film.add(500, content, last=True)
    assert (film.steps, film.stride) == ([0, 160, 320, 480, 500], 160)
    assert Film.read(tmp_path).steps == film.steps
    # goes on with the stride it had, and drops what came later
    again = Film(tmp_path, 5, 7 * size)
    again.resume(330, pytest.fail)
    assert (again.steps, again.stride) == ([0, 160, 320], 160)
    assert sorted(path.name for path in film.folder.glob("step-*")) == [
        f"step-{step:08d}.safetensors" for step in (0, 160, 320)
    ]
    assert [again.due(step) for step in (320, 400, 480)] == [False, False, True]
    other = Film(tmp_path, 7, 7 * size)
    other.resume(330, pytest.fail)
    assert other.stride == 7


def test_a_full_disk_costs_a_frame_and_no_run(recipe, monkeypatch):
    real = films.commit_file

    def refusing(path, content):
        if path.name == "step-00000004.safetensors":
            raise MachineError(f"{path}: no space left")
        return real(path, content)

    monkeypatch.setattr(films, "commit_file", refusing)
    train(recipe, "run", overrides=FILM)
    assert Reel("run").steps == [0, 2, 6]
    assert "film: step 4 has no frame: run/film/step-00000004.safetensors: no space left" in log_of("run")


def test_probes_that_cannot_be_shown_are_told_of(writer):
    long = " ".join(["a"] * 400)
    train(writer, "run", overrides=[*FILM, f'film.probes=["a g .", "{long}"]', f'film.targets=["g a .", "{long}"]'])
    assert "film: only the first 1 of 2 probes have room in a frame" in log_of("run")
    assert len(Reel("run").probes) == 1
    with pytest.raises(ConfigError, match="1 targets for 2 probes"):
        train(writer, "other", overrides=['film.probes=["a", "b"]', 'film.targets=["a"]'])
    with pytest.raises(ConfigError, match=r"film: the sentence is empty.*film\.probes"):
        train(writer, "other", overrides=[*FILM, 'film.probes=[" "]'])
    plain = {
        **writer,
        "model": {"kind": "recurrent", "embed_dim": 6, "hidden_dim": 6, "num_layers": 1, "score": "none"},
    }
    train(plain, "none", overrides=FILM)
    assert "film: this model has no attention" in log_of("none")
    assert not Path("none/film/manifest.json").exists()


def test_heads_that_choose_no_key_are_told_of_and_young_ones_are_not(recipe):
    alike = ['film.probes=["gggggggggggg"]', 'model.position="none"', "training.validate_every=2"]
    train(recipe, "run", overrides=[*FILM, *alike])
    lines = [line.split("  ", 1)[1] for line in log_of("run").splitlines()]
    found = [place for place, line in enumerate(lines) if line.startswith("heads that choose no key")]
    checked = [place for place, line in enumerate(lines) if line.startswith("validation at step")]
    # when they were so at two validations, and at the end
    assert len(found) == 2
    assert checked[1] < found[0] < checked[2] < found[1]
    (layer,) = Reel("run").layers
    assert lines[found[0]].endswith(f"uniform: {layer} heads 0, 1")
    assert [flag.why for flag in Reel("run").flags[layer]] == ["uniform", "uniform"]
    assert json.loads(Film.read(Path("run")).frame(0)[1]["film"])["flags"] == {}


def _of_two(run, kind, *settings):
    """Trains the recipe of the working folder in two processes."""
    script = "import json, sys, headwise; headwise.train(json.load(open('recipe.json')), *sys.argv[1:2], overrides=%r)"
    overrides = [*FILM, "training.ema_decay=0.9", f"training.parallel={kind}", *settings]
    environment = {"PYTHONPATH": os.environ.get("PYTHONPATH", str(Path(headwise.__file__).parents[1]))}
    found = ended(started(2, ["-c", script % (overrides,)], run, **environment))
    assert [code for code, _, _ in found] == [0, 0], found


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_two_processes_make_the_film_of_one(writer, kind):
    writer["model"] = {**writer["model"], "dropout": 0.0}
    Path("recipe.json").write_text(json.dumps(writer))
    train(writer, "alone", overrides=[*FILM, "training.ema_decay=0.9"])
    _of_two("run", kind)
    one, other = (Film.read(Path(run)) for run in ("alone", "run"))
    assert one.steps == other.steps == [0, 2, 4, 6]
    for step in one.steps:
        (tensors, texts), (others, told) = one.frame(step), other.frame(step)
        assert texts == told
        assert tensors.keys() == others.keys()
        for name, tensor in tensors.items():
            torch.testing.assert_close(others[name], tensor, rtol=0, atol=1e-5, equal_nan=True)
    # which moved while it trained
    assert any(not torch.allclose(one.frame(0)[0][name], tensor) for name, tensor in one.frame(6)[0].items())
    # one that stops on the way goes on with the same bits
    _of_two("part", kind, "training.max_steps=3")
    assert Film.read(Path("part")).steps == [0, 2, 3]
    _of_two("part", kind)
    assert contents("part").keys() - contents("run").keys() == {"step-00000003.safetensors"}
    assert contents("part").items() >= {name: data for name, data in contents("run").items() if "step" in name}.items()

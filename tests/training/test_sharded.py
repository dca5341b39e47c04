"""Checkpoints of processes that share a model: a part from each, read by any number, refused when a part is damaged."""

import json
import shutil
from contextlib import redirect_stderr
from io import StringIO

import pytest
import torch
from process_checks import HERE, ended, started, trained
from torch.testing import assert_close

from headwise.errors import CheckpointError
from headwise.runs.checkpoints import Checkpoints
from headwise.training.loading import load

# a start of several processes takes seconds of each
SLOW = pytestmark = pytest.mark.slow
SCRIPT = [str(HERE / "sharded_checks.py")]
FILES = ["model.safetensors", "ema.safetensors", "optimizer.safetensors"]


@pytest.fixture(autouse=True)
def _as_the_processes():
    """The toy is known, and numbers have 64 bits."""
    from headwise.tasks import registry

    former, dtype = registry.task_type, torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(dtype)
    registry.task_type = former


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run of two processes that share a model; who changes it takes a copy."""
    run = tmp_path_factory.mktemp("made") / "run"
    found = ended(started(2, SCRIPT, "trained", "fsdp", run, 30))
    assert [code for code, _, _ in found] == [0, 0], found
    return run


@pytest.fixture
def copied(made, tmp_path):
    return shutil.copytree(made, tmp_path / "run")


def _newest(run):
    return Checkpoints(run).entries()[0].path


def _tensors(run):
    saved = Checkpoints(run).newest(print)
    return {name: saved.file(name)[0] for name in FILES}


def _went_on(run, steps):
    """What this one process says."""
    told = StringIO()
    with redirect_stderr(told):
        trained("gathered", run, "auto", max_steps=steps)
    return told.getvalue()


@pytest.mark.slow
def test_one_process_goes_on_from_the_parts_of_two(copied, tmp_path):
    folder = _newest(copied)
    names = ["part-1-of-2.safetensors", "part-2-of-2.safetensors", "parts.json"]
    assert [path.name for path in sorted(folder.glob("part*"))] == names
    assert not [name for name in FILES if (folder / name).exists()]
    # the published model is one file, as ever
    assert sorted(path.name for path in copied.glob("*.safetensors")) == ["model.safetensors"]
    published = load(copied).state_dict()
    # a damaged one: prediction falls back to the parts
    content = bytearray((copied / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (copied / "model.safetensors").write_bytes(content)
    with pytest.warns(UserWarning, match=r"used a checkpoint in .*state instead"):
        fallen = load(copied).state_dict()
    assert_close(fallen, published, rtol=0, atol=0)
    told = _went_on(copied, 40)
    assert "going on from step-00000030" in told
    assert "not bit-exact from here: the run began on" in told
    assert [name for name in FILES if (_newest(copied) / name).exists()] == FILES
    trained("gathered", tmp_path / "alone", max_steps=40)
    assert_close(_tensors(copied), _tensors(tmp_path / "alone"), rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("part", ["part-1-of-2.safetensors", "part-2-of-2.safetensors"])
def test_a_run_goes_on_from_before_a_damaged_part(copied, part):
    path = _newest(copied) / part
    path.write_bytes(path.read_bytes()[:-7])
    told = _went_on(copied, 31)
    assert f"{path}: damaged: " in told
    assert "falling back to step-00000025" in told
    assert (copied / "state" / "damaged-step-00000030" / part).exists()
    assert Checkpoints(copied).newest(print).facts["step"] == 31


@pytest.mark.slow
def test_where_every_checkpoint_has_lost_a_part_nothing_is_made_up(copied):
    for entry in Checkpoints(copied).entries():
        (entry.path / "part-2-of-2.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"part-2-of-2.safetensors: missing; no other checkpoint in .* is good"):
        _went_on(copied, 40)


def _goes_on(world, kind, run, steps):
    found = ended(started(world, SCRIPT, "trained", kind, run, steps))
    assert [code for code, _, _ in found] == [0] * world, found
    return found[0][2]


@SLOW
def test_another_number_of_processes_goes_on_and_any_mode(copied, tmp_path):
    for world, kind, steps in ((3, "fsdp", 34), (2, "ddp", 38), (1, "fsdp", 41), (2, "fsdp", 44), (3, "ddp", 50)):
        assert "not bit-exact from here: the run began on" in _goes_on(world, kind, copied, steps)
        parted = (_newest(copied) / "parts.json").exists()
        assert parted == (kind == "fsdp" and world > 1)
    trained("gathered", tmp_path / "alone", max_steps=50)
    assert_close(_tensors(copied), _tensors(tmp_path / "alone"), rtol=0, atol=1e-12)


@SLOW
def test_two_processes_go_on_before_a_damaged_part_with_the_same_bits(made, copied, tmp_path):
    path = _newest(copied) / "part-1-of-2.safetensors"
    path.write_bytes(path.read_bytes()[:100] + b"\0" + path.read_bytes()[101:])
    other = shutil.copytree(made, tmp_path / "other")
    shutil.rmtree(_newest(other))
    told = [_goes_on(2, "fsdp", run, 35) for run in (copied, other)]
    assert f"{path}: damaged: " in told[0]
    assert "not bit-exact" not in "".join(told)
    one, two = ({path.name: path.read_bytes() for path in _newest(run).glob("part*")} for run in (copied, other))
    assert one == two


@SLOW
@pytest.mark.parametrize("rank", ["0", "1"])
def test_parts_without_a_manifest_are_no_checkpoint(tmp_path, rank):
    run = tmp_path / "run"
    found = ended(started(2, SCRIPT, "before the manifest", "fsdp", run, rank))
    codes = [code for code, _, _ in found]
    assert sorted(codes) == [5, 99]
    assert "everything up to step 20 is saved: run the same command to resume" in found[codes.index(5)][2]
    (draft,) = (run / "state").glob(".step-00000025.*.tmp")
    assert (draft / f"part-{int(rank) + 1}-of-2.safetensors").exists()
    assert not (draft / "manifest.json").exists()
    assert Checkpoints(run).newest(print).facts["step"] == 20
    told = _went_on(run, 50)
    assert f"removed {draft.name}, left by an interrupted write" in told
    assert not list(run.rglob("*.tmp"))


@SLOW
def test_a_run_folder_that_one_process_does_not_see_is_named(tmp_path):
    found = ended(started(2, SCRIPT, "unseen", "fsdp", tmp_path / "run"))
    assert [code for code, _, _ in found] == [5, 5]
    assert "process 2 does not see " in found[0][2]
    assert "the run folder must lie where every process sees it" in found[0][2]
    assert found[1][2] == ""
    assert not list((tmp_path / "run").rglob("*.tmp"))


@SLOW
def test_kills_at_random_moments():
    import subprocess
    import sys

    tool = HERE.parents[1] / "tools" / "killprocesses.py"
    done = subprocess.run([sys.executable, tool, "-n", "4"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 kills, 0 with problems" in done.stdout


def test_the_manifest_names_every_part_and_its_digest(made):
    manifest = json.loads((_newest(made) / "manifest.json").read_bytes())
    parts = {name for name in manifest["files"] if name.startswith("part")}
    assert parts == {"parts.json", "part-1-of-2.safetensors", "part-2-of-2.safetensors"}
    table = json.loads((_newest(made) / "parts.json").read_bytes())["files"]
    assert sorted(table) == sorted(FILES)
    # a tensor that all have whole is in one part only
    step = table["optimizer.safetensors"]["tensors"]["step:mix.weight"]
    assert [piece["part"] for piece in step["pieces"]] == ["part-1-of-2.safetensors"]
    mix = table["model.safetensors"]["tensors"]["mix.weight"]
    assert [(piece["offsets"], piece["shape"]) for piece in mix["pieces"]] == [([0, 0], [4, 8]), ([4, 0], [4, 8])]

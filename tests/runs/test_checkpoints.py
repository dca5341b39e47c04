"""The checkpoints of a run: which are kept, which is read, and that no damage goes unnoticed."""

import os
import random
import shutil

import pytest
import torch

from headwise.errors import CheckpointError, MachineError
from headwise.runs.checkpoints import Checkpoints
from headwise.runs.commits import commit_file
from headwise.runs.reading import verify
from headwise.runs.tensors import TensorFile


def _files(step):
    return {"model.safetensors": TensorFile({"w": torch.full((1500,), float(step))}, {}), "trainer.json": b'{"a": 1}\n'}


def _made(run, steps, **options):
    run.mkdir(exist_ok=True)
    checkpoints = Checkpoints(run, **options)
    for step in steps:
        checkpoints.save(step, _files(step))
    return checkpoints


def _names(run):
    return sorted(os.listdir(run / "state"))


def _step_read(checkpoints, warnings=None):
    saved = checkpoints.newest((warnings if warnings is not None else []).append)
    tensors, _ = saved.file("model.safetensors")
    assert (tensors["w"] == saved.facts["step"]).all()
    return saved.facts["step"]


def test_the_newest_two_and_the_protected_stay(tmp_path):
    checkpoints = _made(tmp_path, [5, 10, 15])
    assert _names(tmp_path) == ["step-00000010", "step-00000015"]
    checkpoints.save(20, _files(20), {10})
    checkpoints.save(25, _files(25), {10})
    assert _names(tmp_path) == ["step-00000010", "step-00000020", "step-00000025"]
    assert _step_read(checkpoints) == 25
    assert checkpoints.at(10).facts["step"] == 10
    with pytest.raises(CheckpointError, match="there is no checkpoint of step 15"):
        checkpoints.at(15)


def test_the_next_save_clears_what_a_removal_left(tmp_path):
    checkpoints = _made(tmp_path, [5, 10])
    (tmp_path / "state" / ".step-00000001.removed.tmp" / "folder").mkdir(parents=True)
    (tmp_path / "state" / ".step-00000020.0a1b2c3d.tmp").mkdir()
    checkpoints.save(15, _files(15))
    # the draft may be that of another writer
    assert _names(tmp_path) == [".step-00000020.0a1b2c3d.tmp", "step-00000010", "step-00000015"]


def test_order_is_by_step_whatever_the_clock_says(tmp_path):
    checkpoints = _made(tmp_path, [99_999_999, 100_000_000])
    os.utime(tmp_path / "state" / "step-100000000", (0, 0))
    assert _step_read(checkpoints) == 100_000_000


def test_the_same_step_again_replaces_nothing(tmp_path):
    checkpoints = _made(tmp_path, [5, 10, 10])
    assert [entry.path.name for entry in checkpoints.entries()] == ["step-00000010.1", "step-00000005"]
    checkpoints.save(10, _files(10))
    assert checkpoints.entries()[0].path.name == "step-00000010.2"


def test_damaged_checkpoints_do_not_count_as_kept(tmp_path):
    _made(tmp_path, [5, 10, 15], keep_last=3)
    (tmp_path / "state" / "step-00000015" / "trainer.json").write_bytes(b"")
    checkpoints, told = Checkpoints(tmp_path, keep_last=2), []
    checkpoints.save(20, _files(20), note=told.append)
    assert _names(tmp_path) == ["damaged-step-00000015", "step-00000010", "step-00000020"]
    damaged = tmp_path / "state" / "step-00000015" / "trainer.json"
    assert told == [f"{damaged}: damaged: 0 bytes instead of 9; set aside as damaged-step-00000015"]


def test_nothing_there_is_none_and_nothing_good_is_an_error(tmp_path):
    assert Checkpoints(tmp_path).newest(print) is None
    checkpoints = _made(tmp_path, [5])
    (tmp_path / "state" / "step-00000005" / "trainer.json").write_bytes(b"x")
    with pytest.raises(CheckpointError, match=r"trainer.json: damaged: 1 bytes instead of 9; no other checkpoint in"):
        checkpoints.newest(print)


def _flip(path, rng):
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def _truncate(path, rng):
    path.write_bytes(path.read_bytes()[: rng.randrange(path.stat().st_size)])


def _zero_page(path, rng):
    data = bytearray(path.read_bytes())
    start = rng.randrange(max(1, len(data) - 4096))
    page = data[start : start + 4096]
    data[start : start + 4096] = bytes(len(page)) if any(page) else b"\1" * len(page)
    path.write_bytes(data)


def _empty(path, rng):
    path.write_bytes(b"")


def _append(path, rng):
    path.write_bytes(path.read_bytes() + b"\0")


def _remove(path, rng):
    path.unlink()


@pytest.mark.parametrize("damage", [_flip, _truncate, _zero_page, _empty, _append, _remove])
def test_every_damage_is_named_and_the_one_before_is_used(tmp_path, damage):
    _made(tmp_path, [5, 10])
    rng = random.Random(damage.__name__)
    newest = tmp_path / "state" / "step-00000010"
    for name in ["manifest.json", "model.safetensors", "trainer.json"] * 7:
        whole = (newest / name).read_bytes()
        damage(newest / name, rng)
        warnings = []
        assert _step_read(Checkpoints(tmp_path), warnings) == 5
        assert len(warnings) == 1
        assert warnings[0].startswith(f"{newest / name}: ")
        assert warnings[0].endswith("; falling back to step-00000005")
        (newest / name).write_bytes(whole)
        verify(newest)


def test_swapped_files_and_folders_are_named(tmp_path):
    checkpoints = _made(tmp_path, [5, 10])
    old, new = (tmp_path / "state" / f"step-{step:08d}" for step in (5, 10))
    for name in ("model.safetensors", "manifest.json"):
        whole = (new / name).read_bytes()
        shutil.copy(old / name, new / name)
        with pytest.raises(CheckpointError, match=r"model.safetensors: damaged: its SHA-256 is not the one in the man"):
            checkpoints.read(checkpoints.entries()[0])
        (new / name).write_bytes(whole)
    old.rename(tmp_path / "aside")
    new.rename(old)
    with pytest.raises(CheckpointError, match="step-00000005: holds step 10; it was renamed or mixed up"):
        checkpoints.read(checkpoints.entries()[0])


def test_weights_that_are_not_finite_are_refused(tmp_path):
    checkpoints = _made(tmp_path, [5])
    bad = TensorFile({"v": torch.ones(3), "w": torch.tensor([1.0, float("inf")])}, {})
    checkpoints.save(10, {"model.safetensors": bad})
    warnings = []
    assert _step_read(checkpoints, warnings) == 5
    assert "model.safetensors: 'w' holds NaN or infinity (1 of 2 tensors do)" in warnings[0]


def test_links_lead_nowhere(tmp_path):
    checkpoints = _made(tmp_path / "run", [5])
    _made(tmp_path / "other", [10])
    (tmp_path / "run" / "state" / "step-00000010").symlink_to(tmp_path / "other" / "state" / "step-00000010")
    (tmp_path / "run" / "state" / "step-00000011").symlink_to("step-00000011")
    warnings = []
    assert _step_read(checkpoints, warnings) == 5
    assert all("is a link; checkpoints must lie inside the run folder" in warning for warning in warnings)
    assert len(warnings) == 2
    # they are set aside by the next save, and what they lead to stays
    checkpoints.save(20, _files(20))
    aside = ["damaged-step-00000010", "damaged-step-00000011"]
    assert _names(tmp_path / "run") == [*aside, "step-00000005", "step-00000020"]
    verify(tmp_path / "other" / "state" / "step-00000010")
    (tmp_path / "third").mkdir()
    (tmp_path / "third" / "state").symlink_to(tmp_path / "other" / "state")
    with pytest.raises(CheckpointError, match="third/state: is a link; checkpoints must lie inside the run folder"):
        Checkpoints(tmp_path / "third").newest(print)
    with pytest.raises(CheckpointError, match="state: is a link; checkpoints must lie inside the run folder"):
        Checkpoints(tmp_path / "third").sweep()


def test_a_run_folder_that_went_away_is_named(tmp_path):
    with pytest.raises(MachineError, match="gone/state: cannot be written: no such file or directory"):
        Checkpoints(tmp_path / "gone").save(5, _files(5))


def test_the_note_on_the_best_one(tmp_path):
    checkpoints = _made(tmp_path, [5, 10, 15], keep_last=3)
    assert checkpoints.best_step(print) is None
    checkpoints.point_to_best(10, 0.25)
    assert checkpoints.best_step(print) == 10
    assert checkpoints.newest(print, first=10).facts["step"] == 10
    commit_file(tmp_path / "state" / "best.json", b"{}")
    warnings = []
    assert checkpoints.best_step(warnings.append) is None
    assert "best.json: damaged: its content does not agree with its own digest" in warnings[0]


def test_a_checkpoint_without_an_expected_file(tmp_path):
    saved = _made(tmp_path, [5]).newest(print)
    with pytest.raises(CheckpointError, match=r"ema.safetensors: missing; the folder is no checkpoint of this program"):
        saved.file("ema.safetensors")
    with pytest.raises(CheckpointError, match=r"x.json: missing; the folder is no checkpoint of this program"):
        saved.json("x.json")


def test_hostile_files_are_never_executed(tmp_path):
    # a pickle bomb, under the names it would come by; it would create a file if anything unpickled it
    bomb = b"cos\nsystem\n(S'touch %s/exploded'\ntR." % str(tmp_path).encode()
    _made(tmp_path, [5, 10])
    folder = tmp_path / "state" / "step-00000010"
    for name in ("model.safetensors", "trainer.json", "manifest.json"):
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(bomb)
        warnings = []
        assert _step_read(Checkpoints(tmp_path), warnings) == 5
        assert str(folder / name) in warnings[0]
        (folder / name).write_bytes(whole)
    assert not (tmp_path / "exploded").exists()

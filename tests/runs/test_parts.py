"""A checkpoint in parts: read as one, refused by the name of the part that is damaged, and never more than it says."""

import json
import shutil

import pytest
import torch

from headwise.errors import CheckpointError
from headwise.runs.checkpoints import Checkpoints
from headwise.runs.commits import MANIFEST, seal
from headwise.runs.parts import TABLE, File, Piece, Pieced, Table, key_of, part_name
from headwise.runs.reading import read_folder, verify
from headwise.runs.tensors import DTYPE_NAMES, TensorFile

WORLD = 3


def _tensors(step):
    generator = torch.Generator().manual_seed(step)
    return {
        "model.safetensors": {
            "table": torch.randn(7, 5, generator=generator),
            # fewer rows than processes
            "bias": torch.randn(2, generator=generator).to(torch.bfloat16),
            "count": torch.tensor(step),
            "nothing": torch.empty(0, 4),
        },
        "optimizer.safetensors": {"exp_avg:table": torch.randn(7, 5, generator=generator, dtype=torch.float64)},
    }


def _pieces(file, name, tensor, parts):
    """Gives each part its rows of a tensor; returns where they are."""
    if not tensor.numel() or not tensor.ndim:
        shared = [(0, tensor)]
    else:
        shared = [(rank, rows) for rank, rows in enumerate(tensor.chunk(WORLD)) if len(rows)]
    pieces, end = [], 0
    for rank, rows in shared:
        parts[rank][key_of(file, name)] = rows
        offsets = [end, *([0] * (rows.ndim - 1))] if rows.ndim else []
        pieces.append(Piece(part=part_name(rank, WORLD), offsets=offsets, shape=list(rows.shape)))
        end += len(rows) if rows.ndim else 0
    return Pieced(dtype=DTYPE_NAMES[tensor.dtype], shape=list(tensor.shape), pieces=pieces)


def _saved(checkpoints, step):
    """A checkpoint as several processes write it."""
    parts = [{} for _ in range(WORLD)]
    files = {
        file: File(
            metadata={"of": file},
            tensors={name: _pieces(file, name, tensor, parts) for name, tensor in held.items()},
        )
        for file, held in _tensors(step).items()
    }
    draft = checkpoints.draft(step, 1000)
    entries = {
        part_name(rank, WORLD): draft.write(part_name(rank, WORLD), TensorFile(held, {}))
        for rank, held in enumerate(parts)
    }
    more = {"trainer.json": b'{"a": 1}\n', "stream.safetensors": TensorFile({"0": torch.ones(2)}, {})}
    more[TABLE] = Table(files=files).model_dump_json().encode()
    return checkpoints.commit(step, more, (), lambda _: None, draft, entries)


@pytest.fixture
def checkpoints(tmp_path):
    (tmp_path / "run").mkdir()
    made = Checkpoints(tmp_path / "run")
    _saved(made, 5)
    _saved(made, 10)
    return made


def test_parts_are_read_as_the_files_that_they_are_of(checkpoints):
    saved = checkpoints.newest(print)
    assert saved.tensor_files == ["model.safetensors", "optimizer.safetensors", "stream.safetensors"]
    assert "ema.safetensors" not in saved.tensor_files
    # the table is no file of the task
    assert sorted(saved.files) == ["trainer.json"]
    for file, wanted in _tensors(10).items():
        tensors, metadata = saved.file(file)
        assert metadata == {"of": file}
        assert sorted(tensors) == sorted(wanted)
        assert all(tensors[name].dtype == wanted[name].dtype for name in wanted)
        assert all(torch.equal(tensors[name], wanted[name]) for name in wanted)
    verify(saved.folder)


def _flip(path):
    content = bytearray(path.read_bytes())
    content[-3] ^= 16
    path.write_bytes(content)


def _of_another_step(path):
    shutil.copy(path.parent.with_name("step-00000005") / path.name, path)


def _foreign(path):
    path.write_bytes(b"\x80\x04" + bytes(path.stat().st_size - 2))


def _of_another_process(path):
    shutil.copy(path.with_name(part_name(1, WORLD)), path)


DAMAGES = {
    "flip": (_flip, "damaged: its SHA-256 is not the one in the manifest"),
    "truncate": (lambda path: path.write_bytes(path.read_bytes()[:-1]), "damaged: .* bytes instead of"),
    "delete": (lambda path: path.unlink(), "missing"),
    "foreign": (_foreign, "damaged: its SHA-256 is not the one in the manifest"),
    "of another step": (_of_another_step, "damaged: its SHA-256 is not the one in the manifest"),
    "of another process": (_of_another_process, "damaged: "),
    "link": (lambda path: (path.rename(path.with_name("x")), path.symlink_to("x")), "is a link"),
}


DAMAGED = [(part, name) for part in ("part-1-of-3.safetensors", "part-3-of-3.safetensors") for name in DAMAGES]
# the table of every step is the same
DAMAGED += [("parts.json", name) for name in DAMAGES if name != "of another step"]


@pytest.mark.parametrize(("part", "name"), DAMAGED)
def test_a_damaged_part_is_refused_by_name_and_the_checkpoint_before_is_taken(checkpoints, part, name):
    damage, message = DAMAGES[name]
    checkpoints = Checkpoints(checkpoints.run)
    path = checkpoints.entries()[0].path / part
    damage(path)
    warnings = []
    saved = checkpoints.newest(warnings.append)
    assert saved.facts["step"] == 5
    assert torch.equal(saved.file("model.safetensors")[0]["table"], _tensors(5)["model.safetensors"]["table"])
    assert len(warnings) == 1
    assert warnings[0].startswith(f"{path}: ")
    assert warnings[0].endswith("; falling back to step-00000005")
    with pytest.raises(CheckpointError, match=message):
        read_folder(path.parent)
    # kept for who wants to rescue something, and no longer counted
    told = []
    checkpoints.commit(15, {"a": b"1"}, (), told.append, checkpoints.draft(15, 1))
    assert told[0].endswith("; set aside as damaged-step-00000010")


def test_a_part_is_checked_again_whenever_it_is_read(checkpoints):
    saved = checkpoints.newest(print)
    _flip(saved.folder / part_name(0, WORLD))
    with pytest.raises(CheckpointError, match=r"part-1-of-3.safetensors: damaged"):
        saved.file("model.safetensors")


def test_parts_may_be_verified_when_they_are_read_only(checkpoints):
    folder = checkpoints.entries()[0].path
    (folder / part_name(2, WORLD)).unlink()
    saved = read_folder(folder, every_part=False)
    with pytest.raises(CheckpointError, match=r"part-3-of-3.safetensors: missing"):
        saved.file("optimizer.safetensors")


def _forged(folder, change):
    """A table that is not true, under a manifest that agrees."""
    values = json.loads((folder / "parts.json").read_bytes())
    change(values)
    _vouched(folder, json.dumps(values).encode())


def _vouched(folder, content):
    import hashlib

    facts = json.loads((folder / MANIFEST).read_bytes())
    facts.pop("seal")
    facts["files"]["parts.json"] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    (folder / "parts.json").write_bytes(content)
    (folder / MANIFEST).write_bytes(seal(facts))


def _table(values):
    return values["files"]["model.safetensors"]["tensors"]["table"]


def _rename_file(values):
    values["files"]["stream.safetensors"] = values["files"].pop("optimizer.safetensors")


FORGERIES = {
    "gap": (lambda values: _table(values)["pieces"].pop(1), "the pieces of 'table' do not make up"),
    "overlap": (lambda values: _table(values)["pieces"][1].update(offsets=[2, 0]), "do not make up"),
    "huge": (lambda values: _table(values).update(shape=[2**40, 5]), "do not make up"),
    "wide": (lambda values: _table(values).update(shape=[7, 2**40]), "do not make up"),
    "column": (lambda values: _table(values)["pieces"][0].update(offsets=[0, 1]), "do not make up"),
    "type": (lambda values: _table(values).update(dtype="C64"), "do not make up"),
    "other type": (lambda values: _table(values).update(dtype="I32"), "part-1-of-3.* does not hold 'model.*table' as"),
    "rows of others": (
        lambda values: _table(values)["pieces"][0].update(part="part-2-of-3.safetensors"),
        "do not make up",
    ),
    "file outside": (lambda values: values["files"].update({"../x": {"metadata": {}, "tensors": {}}}), "no name of a"),
    "file of a file": (
        lambda values: values["files"].update({"model.safetensors/x": {"metadata": {}, "tensors": {}}}),
        "'model.safetensors/x' is no name of a file of tensors",
    ),
    "beyond counting": (lambda values: _table(values).update(shape=[1 << 63, 5]), "table.shape.0 is not what"),
    "nowhere": (lambda values: _table(values)["pieces"][0].update(part="part-9-of-9.safetensors"), "not in the mani"),
    "outside": (lambda values: _table(values)["pieces"][0].update(part="../x.safetensors"), "is no name of a part"),
    "twice": (_rename_file, "stream.safetensors is a file of its own too"),
    "negative": (lambda values: _table(values).update(shape=[-7, 5]), "files.*table.shape.0 is not what"),
    "more": (lambda values: values.update(more=1), "more is not what this program writes"),
    "none": (lambda values: values.pop("files"), "files is not what this program writes"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_table_that_lies_is_refused(checkpoints, name):
    change, message = FORGERIES[name]
    folder = checkpoints.entries()[0].path
    _forged(folder, change)
    with pytest.raises(CheckpointError, match=message) as refusal:
        read_folder(folder)
    assert str(refusal.value).startswith(f"{folder / 'parts.json'}: ")


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 100_000, b"\xff", b'{"files": {"a": NaN}}'])
def test_a_table_that_is_none_is_refused(checkpoints, content):
    folder = checkpoints.entries()[0].path
    _vouched(folder, content)
    with pytest.raises(CheckpointError, match=r"parts.json: .* is not what this program writes"):
        read_folder(folder)

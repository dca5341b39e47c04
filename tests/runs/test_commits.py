"""Commits: the order of system calls, full disks, folders that cannot be written, leftovers."""

import errno
import os
import re
import resource
import signal
from pathlib import Path

import pytest
import torch

from headwise.errors import CheckpointError, MachineError
from headwise.runs.commits import Draft, commit_file, probe, remove_folder, seal, sweep
from headwise.runs.migration import FORMAT
from headwise.runs.reading import read_folder, read_manifest, read_sealed, verify
from headwise.runs.tensors import TensorFile

FACTS = {"format": 1, "kind": "checkpoint", "step": 3}


@pytest.fixture
def calls(monkeypatch):
    """Every flush-relevant system call in order, with the names of what it touches."""
    made = []

    def recorded(name, real, describe):
        def call(*args):
            made.append((name, *describe(*args)))
            return real(*args)

        monkeypatch.setattr(os, name, call)

    def of_handle(handle):
        path = Path(os.readlink(f"/proc/self/fd/{handle}"))
        # what is not flushed yet would not be synced
        size = path.stat().st_size if path.is_file() else "folder"
        return path.name, size

    recorded("fsync", os.fsync, of_handle)
    recorded("replace", os.replace, lambda old, new: (Path(old).name, Path(new).name))
    recorded("rename", os.rename, lambda old, new: (Path(old).name, Path(new).name))
    return made


def test_a_file_is_flushed_synced_renamed_and_its_folder_synced(tmp_path, calls):
    commit_file(tmp_path / "a.json", b"12345")
    temporary = calls[0][1]
    assert re.fullmatch(r"\.a\.json\.\w{8}\.tmp", temporary)
    assert calls == [
        ("fsync", temporary, 5),
        ("replace", temporary, "a.json"),
        ("fsync", tmp_path.name, "folder"),
    ]


def test_a_folder_is_named_after_all_its_files_and_the_manifest_is_last(tmp_path, calls):
    Draft.begin(tmp_path / "step-1", 0).commit(
        {"a.json": b"{}", "m.safetensors": TensorFile({"w": torch.ones(3)}, {})}, FACTS
    )
    temporary = calls[3][1]
    assert re.fullmatch(r"\.step-1\.\w{8}\.tmp", temporary)
    names = [(call[0], call[1]) for call in calls]
    assert names == [
        ("fsync", "a.json"),
        ("fsync", "m.safetensors"),
        ("fsync", "manifest.json"),
        ("fsync", temporary),
        ("rename", temporary),
        ("fsync", tmp_path.name),
    ]
    assert all(call[2] for call in calls)
    assert sorted(os.listdir(tmp_path / "step-1")) == ["a.json", "m.safetensors", "manifest.json"]
    verify(tmp_path / "step-1")
    assert read_folder(tmp_path / "step-1").facts["step"] == 3


def _limited(limit_bytes, action):
    """Runs `action` in a child whose files may not grow beyond a limit; returns what it reports."""
    ready, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))
        try:
            action()
            message = "no error"
        except MachineError as error:
            message = f"{error.exit_code} {error}"
        os.write(told, message.encode())
        os._exit(0)
    os.close(told)
    message = os.read(ready, 65536).decode()
    os.close(ready)
    os.waitpid(pid, 0)
    return message


def test_a_full_disk_is_named_and_leaves_the_old_file(tmp_path):
    target = tmp_path / "model.safetensors"
    commit_file(target, b"old")
    big = TensorFile({"w": torch.ones(5000)}, {})
    message = _limited(8192, lambda: commit_file(target, big))
    assert message.startswith(f"5 {target}: no space left: {big.size:,} bytes are needed and ")
    assert message.endswith("bytes are free; free some space or move the run")
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["model.safetensors"]
    message = _limited(8192, lambda: Draft.begin(tmp_path / "step-1", 0).commit({"m": big}, FACTS))
    assert message.startswith(f"5 {tmp_path / 'step-1'}: no space left")
    assert os.listdir(tmp_path) == ["model.safetensors"]


def test_free_space_is_looked_at_before_writing(tmp_path, monkeypatch):
    class Facts:
        f_bavail, f_frsize = 10, 4096

    monkeypatch.setattr(os, "statvfs", lambda path: Facts)
    with pytest.raises(MachineError, match=r"a: no space left: 1,162,144 bytes are needed and 40,960 bytes are free;"):
        commit_file(tmp_path / "a", bytes(900_000))
    assert os.listdir(tmp_path) == []


def test_a_full_disk_never_has_more_free_than_it_needs(tmp_path, monkeypatch):
    class Facts:
        f_bavail, f_frsize = 250, 4096

    monkeypatch.setattr(os, "statvfs", lambda path: Facts)
    with pytest.raises(MachineError, match="1,162,144 bytes are needed and 1,024,000 bytes are free;"):
        commit_file(tmp_path / "a", bytes(900_000))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EACCES])
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_failing_system_call_is_translated(tmp_path, monkeypatch, number, call):
    def failing(*args):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, call, failing)
    expected = "no space left" if number in (errno.ENOSPC, errno.EDQUOT) else "cannot be written: "
    with pytest.raises(MachineError, match=expected):
        commit_file(tmp_path / "a", b"new")
    assert os.listdir(tmp_path) == []


def test_unusable_folders_are_found_out_before_training(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(MachineError, match="file: is a file, not a folder; choose another run folder"):
        probe(tmp_path / "file")
    with pytest.raises(MachineError, match="cannot be written: not a directory; check the folder"):
        probe(tmp_path / "file" / "below")
    with pytest.raises(MachineError, match="cannot be written: file name too long"):
        probe(tmp_path / ("x" * 300))
    with pytest.raises(MachineError, match="/proc/run: cannot be written: "):
        probe(Path("/proc/run"))
    probe(tmp_path / "deep" / "new")
    assert os.listdir(tmp_path / "deep" / "new") == []


@pytest.mark.skipif(os.geteuid() != 0, reason="changes the user")
def test_a_folder_of_somebody_else(tmp_path):
    folder = tmp_path / "theirs"
    folder.mkdir(mode=0o755)
    tmp_path.chmod(0o755)
    if not all(parent.stat().st_mode & 0o001 for parent in tmp_path.parents):
        pytest.skip("the test folder is hidden from other users")

    def as_nobody():
        os.setuid(65534)
        probe(folder)

    expected = f"5 {folder}: cannot be written: permission denied; check the folder and its permissions"
    assert _limited(8192, as_nobody) == expected


def test_leftovers_are_swept_and_links_are_not_followed(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "keep").write_text("")
    run = tmp_path / "run"
    (run / ".step-1.tmp").mkdir(parents=True)
    (run / ".step-1.tmp" / "half").write_text("")
    (run / ".a.tmp").write_text("")
    (run / ".link.tmp").symlink_to(outside)
    (run / "stays").write_text("")
    assert sweep(run) == [".a.tmp", ".link.tmp", ".step-1.tmp"]
    assert os.listdir(run) == ["stays"]
    assert os.listdir(outside) == ["keep"]
    assert sweep(tmp_path / "missing") == []


def test_a_removed_folder_disappears_under_its_name_first(tmp_path, calls):
    Draft.begin(tmp_path / "step-1", 0).commit({"a": b"1"}, FACTS)
    calls.clear()
    remove_folder(tmp_path / "step-1")
    assert calls == [("rename", "step-1", ".step-1.removed.tmp")]
    assert os.listdir(tmp_path) == []
    remove_folder(tmp_path / "step-1")


def test_a_seal_notices_every_changed_byte(tmp_path):
    path = tmp_path / "best.json"
    data = seal({"step": 12, "value": 0.5})
    for place in range(len(data)):
        for bit in (1, 32):
            path.write_bytes(data[:place] + bytes([data[place] ^ bit]) + data[place + 1 :])
            with pytest.raises(CheckpointError, match=r"^.*best.json: damaged: "):
                read_sealed(path)
    path.write_bytes(data)
    assert read_sealed(path) == {"step": 12, "value": 0.5}
    # what can be read but never written: NaN, and depths that only the reader manages
    unwritten = [b'{"step": NaN}', b'{"step": -Infinity}', b'{"step": ' + b"[" * 900 + b"]" * 900 + b"}"]
    for damaged in (b"", b"[]", data + b" ", b"[" * 100_000, *unwritten):
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError, match=r"best.json: damaged: "):
            read_sealed(path)


def test_manifests_of_another_time_or_place_are_refused(tmp_path):
    path = tmp_path / "manifest.json"
    path.write_bytes(seal({"format": FORMAT + 1, "files": {}}))
    newer = rf"format {FORMAT + 1} is newer than this program reads \({FORMAT}\); update headwise"
    with pytest.raises(CheckpointError, match=newer):
        read_manifest(tmp_path)
    for name in ("../a", "", ".", "..", "a/b"):
        path.write_bytes(seal({"format": 1, "files": {name: {"bytes": 1, "sha256": ""}}}))
        with pytest.raises(CheckpointError, match="its list of files is not one of this program"):
            read_manifest(tmp_path)


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "Infinity"])
def test_numbers_that_json_has_not_are_damage(tmp_path, number):
    (tmp_path / "manifest.json").write_text(f'{{"format": {number}, "seal": "0"}}')
    with pytest.raises(CheckpointError, match=r"manifest.json: damaged: not valid JSON"):
        read_manifest(tmp_path)


def test_links_pipes_and_folders_are_no_files_of_a_checkpoint(tmp_path):
    Draft.begin(tmp_path / "step-1", 0).commit({"a.json": b"{}"}, FACTS)
    target = tmp_path / "step-1" / "a.json"
    target.rename(tmp_path / "a.json")
    target.symlink_to(tmp_path / "a.json")
    with pytest.raises(CheckpointError, match=r"a.json: cannot be opened: is a link"):
        read_folder(tmp_path / "step-1")
    target.unlink()
    target.symlink_to(target)
    with pytest.raises(CheckpointError, match=r"a.json: cannot be opened: is a link"):
        read_folder(tmp_path / "step-1")
    target.unlink()
    os.mkfifo(target)
    with pytest.raises(CheckpointError, match=r"a.json: is not a regular file"):
        read_folder(tmp_path / "step-1")
    target.unlink()
    target.mkdir()
    with pytest.raises(CheckpointError, match=r"a.json: is not a regular file"):
        read_folder(tmp_path / "step-1")
    target.rmdir()
    with pytest.raises(CheckpointError, match=r"a.json: missing"):
        verify(tmp_path / "step-1")

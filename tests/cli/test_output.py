"""What a command writes to: whole files, links, devices, pipes."""

import errno
import os
import stat
import threading

import pytest

from headwise.cli.evaluate import show
from headwise.cli.output import opened
from headwise.errors import MachineError
from headwise.files import replacing


def test_two_writers_of_one_file_do_not_meet(tmp_path):
    target = tmp_path / "out.txt"
    with opened(target) as one, opened(target) as two:
        one.write("one\n")
        two.write("two\n")
    # the first to be opened is the last to be closed
    assert target.read_text() == "one\n"
    assert list(tmp_path.iterdir()) == [target]


def test_a_link_stays_one_and_permissions_stay(tmp_path):
    target, link = tmp_path / "real.txt", tmp_path / "link.txt"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    with opened(link) as stream:
        stream.write("new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_a_pipe_is_written_and_stays_a_pipe(tmp_path):
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    with opened(pipe) as stream:
        stream.write("one\n")
    reader.join()
    assert read == ["one\n"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_device_is_written_and_stays_a_device(tmp_path):
    link = tmp_path / "nowhere"
    link.symlink_to(os.devnull)
    with opened(link) as stream:
        stream.write("one\n")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    assert list(tmp_path.iterdir()) == [link]


def test_a_link_to_itself_is_left_alone(tmp_path):
    link = tmp_path / "loop"
    link.symlink_to("loop")
    with pytest.raises(MachineError, match="is a link that leads back to itself"), opened(link):
        pass
    assert link.is_symlink()


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(MachineError, match="is a folder; give the name of a file in it"), opened(tmp_path):
        pass
    with pytest.raises(MachineError, match=r"there is no folder .*no; make it first"), opened(tmp_path / "no" / "out"):
        pass


def test_an_error_of_the_disk_names_the_file_that_was_asked_for(tmp_path):
    full = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(OSError, match="No space") as caught, opened(tmp_path / "out.txt"):
        raise full
    assert caught.value.filename == str(tmp_path / "out.txt")
    with pytest.raises(FileNotFoundError) as caught, replacing(tmp_path / "out.txt") as temporary:
        (temporary / "below").open("w")
    assert caught.value.filename == str(temporary / "below")
    with pytest.raises(FileNotFoundError) as caught, replacing(tmp_path / "out.txt"):
        pass
    assert caught.value.filename == str(tmp_path / "out.txt")
    assert os.listdir(tmp_path) == []


def test_a_score_of_nothing_is_printed_as_absent(capsys):
    show({"accuracy_seen": 0.5, "accuracy_unseen": float("nan")}, "a run")
    told = capsys.readouterr().out
    assert "0.5000" in told
    assert " - " in told
    assert "nan" not in told

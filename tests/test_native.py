"""`native.cpp`: when it is compiled, what is loaded, and what happens without a compiler."""

import os
import shutil
import subprocess
from contextlib import contextmanager

import pytest

from headwise import native

COMPILED = native.build().library is not None
needs_compiler = pytest.mark.skipif(not COMPILED, reason="no C++ compiler that builds native.cpp here")


# as much of native.cpp as is looked for when it is loaded
SHORT = """extern "C" {
int has_tiles() { return 0; }
void multiply() {}
void steps() {}
void attend() {}
void continuations() {}
}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache of its own, in which nothing is compiled yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    source = tmp_path / "native.cpp"
    source.write_text(SHORT)
    monkeypatch.setattr(native, "SOURCE", source)
    return tmp_path / "headwise" / "native"


def build():
    return native.build.__wrapped__()


@needs_compiler
def test_it_is_compiled_once_for_each_source(folder, monkeypatch):
    commands, run = [], subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda command, **how: commands.append(command) or run(command, **how))
    assert str(build()).startswith("by C++: compiled by ")
    assert build().library is not None
    assert ["--version" in command for command in commands] == [True, False, True]
    assert len(list(folder.glob("*.so"))) == 1
    assert folder.stat().st_mode & 0o777 == 0o700
    native.SOURCE.write_text(SHORT + "\n")
    assert build().library is not None
    assert len(list(folder.glob("*.so"))) == 2


def test_without_a_compiler_there_is_a_reason(folder, monkeypatch):
    monkeypatch.setattr(native, "_COMPILERS", ("no-such-compiler",))
    assert build() == (None, "no C++ compiler: none of no-such-compiler is installed", False)
    assert not folder.exists()
    assert str(build()).startswith("by PyTorch: no C++ compiler")


@needs_compiler
def test_a_compiler_that_fails_is_quoted(folder, monkeypatch):
    folder.mkdir(parents=True)
    native.SOURCE.write_text("#error not for this processor\n")
    result = build()
    assert result.library is None
    assert "not for this processor" in result.reason
    assert not list(folder.iterdir())


@needs_compiler
@pytest.mark.skipif(os.name != "posix", reason="rights of POSIX")
def test_a_folder_that_others_can_write_is_not_trusted(folder):
    build()
    folder.chmod(0o777)
    assert "can be written by others than you" in build().reason
    folder.chmod(0o700)
    assert build().library is not None


@needs_compiler
def test_who_waited_for_another_takes_what_that_one_compiled(folder, monkeypatch):
    commands, run, turn = [], native._run, native.turn

    @contextmanager
    def late(path):
        monkeypatch.setattr(native, "turn", turn)
        native._compiled(next(filter(None, map(shutil.which, native._COMPILERS))))
        with turn(path):
            yield

    monkeypatch.setattr(native, "turn", late)
    monkeypatch.setattr(native, "_run", lambda *command: commands.append(command) or run(*command))
    assert build().library is not None
    assert sum("-shared" in command for command in commands) == 1


@needs_compiler
@pytest.mark.parametrize("damage", ["empty", "changed", "no seal"])
def test_a_damaged_file_is_compiled_again(folder, damage):
    build()
    (path,), (seal,) = folder.glob("*.so"), folder.glob("*.sha256")
    content = path.read_bytes()
    if damage == "no seal":
        seal.unlink()
    else:
        # in the place of a file that is loaded
        path.unlink()
        path.write_bytes(content[:-1] + b"x" if damage == "changed" else b"")
    assert build().library is not None
    assert path.read_bytes() != b""
    assert native._is_whole(path, seal)


def test_a_cache_that_cannot_be_written_is_no_error(folder, monkeypatch, tmp_path):
    (tmp_path / "headwise").write_text("a file")
    assert build().library is None


@pytest.mark.skipif(os.name != "posix", reason="a script as a compiler")
def test_a_compiler_that_does_not_run_is_a_reason(folder, monkeypatch, tmp_path):
    script = tmp_path / "broken"
    script.write_text("#!/bin/sh\nprintf 'fatal error: no licence \\377' >&2\nexit 3\n")
    script.chmod(0o755)
    monkeypatch.setattr(native, "_COMPILERS", (str(script),))
    assert build() == (None, f"{script} failed: fatal error: no licence \ufffd", False)

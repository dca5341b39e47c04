"""Code outside the installed packages runs where the user trusts it, and nowhere else: every way into an import."""

import hashlib
import importlib.util
import os
import py_compile
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwise.attention.mechanisms import mechanism_type
from headwise.errors import ConfigError, Untrusted
from headwise.folders import imported
from headwise.tasks import registry
from headwise.trust import import_trusted, trust_folder, trusting

# appends to a list of this program, so that a run leaves a trace
SOURCE = "import sys\nsys.__dict__.setdefault('_headwise_ran', []).append(__name__)\n"


@pytest.fixture
def ran(tmp_path, monkeypatch) -> Iterator[list[str]]:
    """The names of the modules that ran, in a current folder of their own where nothing is trusted."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    before = set(sys.modules)
    sys._headwise_ran = []
    yield sys._headwise_ran
    forget(before)
    del sys._headwise_ran


def forget(before: set[str]) -> None:
    """As a new process: what was imported since is not imported."""
    for name in set(sys.modules) - before:
        del sys.modules[name]


def write(name: str, text: str = SOURCE) -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_untrusted_code_does_not_run_and_the_message_says_what_would(ran):
    write("downloaded/evil.py")
    with pytest.raises(Untrusted, match=r"'downloaded\.evil' would run .*evil\.py, which is not part of .*--trust"):
        import_trusted("downloaded.evil")
    assert ran == []


@pytest.mark.parametrize("find", [imported, registry.task_type, mechanism_type])
def test_every_name_goes_through_the_guard(ran, find):
    write("evil.py")
    with pytest.raises(Untrusted):
        find("evil:Thing")
    assert ran == []


def test_what_is_trusted_once_is_remembered_until_it_changes(ran):
    path = write("mine.py")
    before = set(sys.modules)
    with trusting():
        import_trusted("mine")
    forget(before)
    import_trusted("mine")
    assert ran == ["mine", "mine"]
    assert [file.read_text() for file in trust_folder().iterdir()] == [f"{path.resolve()}\n"]
    forget(before)
    path.write_text(SOURCE + "# changed\n")
    with pytest.raises(Untrusted):
        import_trusted("mine")
    assert ran == ["mine", "mine"]


def test_without_trust_outside_it_stays_trust_inside(ran):
    write("mine.py")
    with trusting(), trusting(False):
        import_trusted("mine")
    assert ran == ["mine"]


def test_what_trusted_code_imports_is_checked_too(ran):
    write("mine.py", "import beside_mine\n" + SOURCE)
    beside = write("beside_mine.py")
    before = set(sys.modules)
    with trusting():
        import_trusted("mine")
    assert ran == ["beside_mine", "mine"]
    forget(before)
    beside.write_text(SOURCE + "# changed\n")
    with pytest.raises(Untrusted, match="'beside_mine'"):
        import_trusted("mine")


def test_a_package_around_a_trusted_module_is_checked_too(ran):
    write("pack/__init__.py", "")
    write("pack/mine.py")
    before = set(sys.modules)
    with trusting():
        import_trusted("pack.mine")
    forget(before)
    write("pack/__init__.py", SOURCE + "# other\n")
    with pytest.raises(Untrusted, match="'pack'"):
        import_trusted("pack.mine")
    assert ran == ["pack.mine"]


def test_trust_in_a_package_is_no_trust_in_its_other_modules(ran):
    write("pack/__init__.py", "")
    write("pack/mine.py")
    write("pack/evil.py", SOURCE + "# other\n")
    with trusting():
        import_trusted("pack.mine")
    with pytest.raises(Untrusted, match=r"'pack\.evil'"):
        import_trusted("pack.evil")
    assert ran == ["pack.mine"]


def test_byte_code_beside_a_trusted_source_is_not_run(ran):
    source = write("mine.py", "x = 1\n")
    before = set(sys.modules)
    with trusting():
        import_trusted("mine")
    forget(before)
    evil = write("evil.py")
    # byte code that is never compared with its source
    cached = Path("__pycache__") / f"mine.{sys.implementation.cache_tag}.pyc"
    py_compile.compile(str(evil), str(cached), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    assert import_trusted("mine").x == 1
    assert ran == []
    assert source.read_text() == "x = 1\n"


def test_byte_code_alone_is_refused_even_with_trust(ran):
    py_compile.compile(str(write("evil.py")), "alone.pyc")
    with trusting(), pytest.raises(Untrusted, match="no source file"):
        import_trusted("alone")
    assert ran == []


def test_a_file_named_as_an_installed_package_is_found_first_and_refused(ran, monkeypatch):
    # colorsys is of the standard library, and nothing here imports it
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    write("colorsys.py")
    with pytest.raises(Untrusted, match="'colorsys'"):
        import_trusted("colorsys")
    assert ran == []


def test_a_folder_on_the_path_is_no_installed_package(ran, monkeypatch, tmp_path):
    write("../elsewhere/evil.py")
    monkeypatch.syspath_prepend(tmp_path / "elsewhere")
    with pytest.raises(Untrusted):
        import_trusted("evil")
    assert ran == []


def test_installed_packages_and_what_this_program_imported_need_no_trust(ran, monkeypatch, tmp_path):
    assert import_trusted("colorsys").rgb_to_hsv
    assert import_trusted("headwise.layers.norms").__name__ == "headwise.layers.norms"
    write("own/__init__.py", "")
    write("own/part.py")
    monkeypatch.syspath_prepend(tmp_path / "here")
    __import__("own")
    import_trusted("own.part")
    assert ran == ["own.part"]


def test_where_trust_cannot_be_remembered_it_holds_this_once(ran, tmp_path):
    write("mine.py")
    (tmp_path / "config").write_text("a file, not a folder")
    with trusting(), pytest.warns(UserWarning, match="--trust is needed again"):
        imported("mine:sys")
    assert ran == ["mine"]


@pytest.mark.parametrize("name", ["site-packages", "dist-packages"])
def test_the_name_of_a_folder_makes_nothing_installed(ran, monkeypatch, name):
    Path(name).mkdir()
    monkeypatch.chdir(name)
    write("evil.py")
    with pytest.raises(Untrusted):
        import_trusted("evil")
    monkeypatch.syspath_prepend(Path.cwd())
    monkeypatch.chdir("..")
    with pytest.raises(Untrusted):
        import_trusted("evil")
    assert ran == []


def test_what_trusted_code_imports_later_is_checked_too(ran):
    write("pack/__init__.py", "")
    write("pack/mine.py", "def called():\n    from . import part\n")
    part = write("pack/part.py")
    before = set(sys.modules)
    with trusting():
        mine = import_trusted("pack.mine")
    # allowed with the module that imports it
    mine.called()
    assert ran == ["pack.part"]
    forget(before)
    part.write_text(SOURCE + "# changed\n")
    with pytest.raises(Untrusted, match=r"'pack\.part'"):
        import_trusted("pack.mine").called()
    # what this program imports is its own
    importlib.import_module("pack.part")
    assert ran == ["pack.part", "pack.part"]


def test_what_other_finders_find_is_checked_too(ran, monkeypatch):
    path = write("../elsewhere/editable.py")

    class Editable:
        @staticmethod
        def find_spec(name, *_):
            return importlib.util.spec_from_file_location(name, path) if name == "editable" else None

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Editable])
    with pytest.raises(Untrusted, match="'editable'"):
        import_trusted("editable")
    assert ran == []


@pytest.mark.parametrize("has_home", [True, False])
def test_no_digest_in_the_current_folder_counts(ran, monkeypatch, has_home):
    digest = hashlib.sha256(write("mine.py").read_bytes()).hexdigest()
    monkeypatch.setenv("XDG_CONFIG_HOME", "config" if has_home else "")
    if not has_home:
        # what Python leaves of it for a user without a home folder
        monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    for folder in ("config", "~/.config"):
        write(f"{folder}/headwise/trusted/{digest}", "")
    with pytest.raises(Untrusted):
        import_trusted("mine")
    if not has_home:
        with trusting(), pytest.warns(UserWarning, match="no home folder"):
            import_trusted("mine")


def test_in_a_folder_that_is_gone_installed_packages_are_found(ran, tmp_path):
    Path("gone").mkdir()
    os.chdir("gone")
    Path("../gone").rmdir()
    assert imported("colorsys:rgb_to_hsv")
    with pytest.raises(ConfigError, match=r"no module 'none_such' here .* is gone"):
        imported("none_such:x")


@pytest.mark.slow
def test_processes_that_a_command_starts_do_not_look_in_the_current_folder(ran, tmp_path):
    write("../bin/headwise", "from headwise.cli.main import run\n\nif __name__ == '__main__':\n    run()\n")
    write("multiprocessing.py", f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    write("text.txt", "go home .\n" * 99)
    write("lm.toml", 'task = "language-model"\ndata = { train = "text.txt" }\nmodel = {}\n')
    command = [sys.executable, "../bin/headwise", "data", "tokenize", "lm.toml", "--workers", "2", "--output", "made"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert not (tmp_path / "ran").exists()
    assert done.returncode == 0, done.stderr

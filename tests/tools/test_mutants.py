"""The list of faults fits the source as it is, and the tool tells a fault that is noticed from one that is not."""

import importlib.util
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools" / "mutants.py"
FEWEST = 130


def _loaded():
    spec = importlib.util.spec_from_file_location("mutants", TOOL)
    module = importlib.util.module_from_spec(spec)
    # a dataclass looks its module up by name
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


mutants = _loaded()
FAULTS = mutants.faults()


def test_every_fault_changes_one_line_that_stands_once_in_the_source():
    wrong = {fault.name: fault.places(ROOT) for fault in FAULTS if fault.places(ROOT) != 1}
    assert not wrong
    assert not [fault.name for fault in FAULTS if fault.old == fault.new or "\n" in fault.old + fault.new]


def test_every_fault_leaves_python_that_compiles():
    for fault in FAULTS:
        text = (ROOT / fault.file).read_text(encoding="utf-8").replace(fault.old, fault.new)
        compile(text, fault.file, "exec", dont_inherit=True)


def test_names_differ_and_tests_exist():
    assert len(FAULTS) >= FEWEST
    assert not [name for name, count in Counter(fault.name for fault in FAULTS).items() if count > 1]
    for test in sorted({test for fault in FAULTS for test in fault.tests}):
        file, _, name = test.partition("::")
        assert f"def {name.partition('[')[0]}(" in (ROOT / file).read_text(encoding="utf-8"), test


def test_a_fault_of_a_line_that_is_gone_is_no_fault(tmp_path):
    fault = mutants.Fault("gone", "data", "a line", "a.py", "x = 1", "x = 2", ("tests/test_imports.py",))
    assert fault.places(tmp_path) == 0
    (tmp_path / "a.py").write_text("x = 1\nx = 1\n")
    assert fault.places(tmp_path) == 2
    (tmp_path / "a.py").write_text("x = 1\n")
    fault.put_into(tmp_path)
    assert (tmp_path / "a.py").read_text() == "x = 2\n"


def test_only_a_failing_test_is_a_kill():
    words = {code: mutants.verdict(mutants.Outcome(code, (), 1.0)) for code in (0, 1, 2, 5, None)}
    assert [code for code, word in words.items() if word == "killed"] == [1, None]
    assert words[0] == "SURVIVED"
    assert words[5] == "its tests could not run (pytest ended with 5)"


def test_faults_are_listed_and_unknown_ones_refused(capsys):
    assert mutants.main(["--list", "--only", "byte-order-mark-kept"]) == 0
    assert capsys.readouterr().out.split(maxsplit=1) == [
        "byte-order-mark-kept",
        "a byte order mark stays in the first line\n",
    ]
    with pytest.raises(SystemExit):
        mutants.main(["--only", "byte-order-mark-lost"])
    assert "no such fault: byte-order-mark-lost" in capsys.readouterr().err


def test_the_files_of_faults_hold_nothing_else():
    for path in sorted(mutants.FAULTS.iterdir()):
        assert path.suffix == ".toml"
        for row in tomllib.loads(path.read_text(encoding="utf-8")).values():
            assert set(row) == {"what", "file", "old", "new", "tests"}


@pytest.mark.slow
def test_a_fault_is_noticed_from_end_to_end():
    before = (ROOT / "headwise" / "data" / "files.py").read_bytes()
    done = subprocess.run(
        [sys.executable, TOOL, "--only", "byte-order-mark-kept"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "killed  tests/data/test_files.py::" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("1 of 1 faults killed")
    assert (ROOT / "headwise" / "data" / "files.py").read_bytes() == before

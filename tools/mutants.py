"""Breaks the package in one line and asks the tests whether they notice: `python tools/mutants.py -j 2`.

The faults lie in `tools/faults/*.toml`. Each is put into a copy of package and tests in a temporary folder, where the
tests that should notice it run until the first failure. Before, all of them must pass without a fault: else a failure
says nothing. torch is imported once; each run is a fork.
"""

import argparse
import importlib
import importlib.util
import json
import os
import shutil
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from hypothesis import Phase, settings

ROOT = Path(__file__).parents[1]
FAULTS = Path(__file__).parent / "faults"
# what the tests need of the repository
COPIED = ("headwise", "tests", "recipes", "tools", "docs", "pyproject.toml", "README.md")
# slow to import and the same with every fault
_LIBRARIES = (
    "torch._dynamo",
    "torch._inductor",
    "numpy",
    "beartype",
    "jaxtyping",
    "pydantic",
    "tokenizers",
    "rich",
    "safetensors.torch",
)
# the libraries are there already, which pytest would warn of
_OPTIONS = ("-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")
_TIMEOUT_S = 300.0
# pytest's exit codes
_PASSED, _FAILED, _COULD_NOT = 0, 1, 3


@dataclass(frozen=True)
class Fault:
    """One line that is wrong: `old`, which stands once in the file, becomes `new`; `tests` (node ids) should notice."""

    name: str
    part: str
    what: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def places(self, root: Path) -> int:
        """How often the line stands in the file."""
        path = root / self.file
        return path.read_text(encoding="utf-8").count(self.old) if path.is_file() else 0

    def put_into(self, root: Path) -> None:
        """Breaks the file."""
        path = root / self.file
        path.write_text(path.read_text(encoding="utf-8").replace(self.old, self.new), encoding="utf-8")


@dataclass(frozen=True)
class Outcome:
    """How one run of tests ended: pytest's exit code, None if it took too long, and the tests that failed."""

    code: int | None
    failed: tuple[str, ...]
    seconds: float


class Witness:
    """A plugin of pytest that writes down what fails, and does not look for the smallest example that does."""

    def __init__(self, note: Path) -> None:
        self._note = note

    def pytest_configure(self) -> None:
        # by now the tests have loaded a profile of their own
        known = settings.get_profile(settings.get_current_profile_name())
        settings.register_profile("mutants", known, phases=[Phase.explicit, Phase.generate])
        settings.load_profile("mutants")

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            with self._note.open("a", encoding="utf-8") as file:
                file.write(json.dumps(report.nodeid) + "\n")


def faults(folder: Path = FAULTS) -> list[Fault]:
    """The list, in the order of files and of lines in them."""
    found = []
    for path in sorted(folder.glob("*.toml")):
        for name, row in tomllib.loads(path.read_text(encoding="utf-8")).items():
            tests = tuple(row.pop("tests"))
            found.append(Fault(name=name, part=path.stem, tests=tests, **row))
    return found


def copied(target: Path) -> Path:
    """A copy of the package, its tests and what they read."""
    hidden = shutil.ignore_patterns("__pycache__", ".*")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target / name, ignore=hidden)
        elif (ROOT / name).is_file():
            shutil.copy2(ROOT / name, target / name)
    return target


def tested(root: Path, tests: Sequence[str], *, until_first: bool, keep_bytecode: bool) -> Outcome:
    """Runs tests of a copy, until one fails or all of them."""
    begun, note = time.monotonic(), root / "failed.jsonl"
    note.write_text("")
    pid = os.fork()
    if pid == 0:
        sys.dont_write_bytecode = not keep_bytecode
        _run_tests(root, [*_OPTIONS, *(["-x"] if until_first else []), *tests], note)
    code = _awaited(pid, begun + _TIMEOUT_S)
    failed = tuple(json.loads(line) for line in note.read_text(encoding="utf-8").splitlines())
    return Outcome(code, failed, time.monotonic() - begun)


def _run_tests(root: Path, options: list[str], note: Path) -> None:
    """In a child: never returns."""
    code = _COULD_NOT
    try:
        # what a test started and left hanging is ended with it
        os.setsid()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        os.chdir(root)
        os.environ["PYTHONPATH"] = str(root)
        # annotations are not checked: it takes most of the time, and compilers cannot trace it
        os.environ["HEADWISE_TEST_ANNOTATIONS"] = "none"
        sys.path.insert(0, str(root))
        spec = importlib.util.find_spec("headwise")
        if spec is not None and spec.origin is not None and Path(spec.origin).parents[1] == root:
            code = int(importlib.import_module("pytest").main(options, plugins=[Witness(note)]))
    finally:
        os._exit(code)


def _awaited(pid: int, deadline: float) -> int | None:
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(pid, 9)
    os.waitpid(pid, 0)
    return None


@cache
def _own_copy(home: str, process: int) -> Path:
    # one for each worker: faults of two must not meet
    target = Path(home) / f"copy{process}"
    target.mkdir()
    return copied(target)


def without_fault(home: str, tests: tuple[str, ...]) -> Outcome:
    """The tests on the package as it is."""
    return tested(_own_copy(home, os.getpid()), tests, until_first=False, keep_bytecode=True)


def with_fault(home: str, fault: Fault) -> Outcome:
    """The tests on the package with the fault, which is taken out again."""
    root = _own_copy(home, os.getpid())
    path = root / fault.file
    whole, stat = path.read_bytes(), path.stat()
    fault.put_into(root)
    # another time than that of the bytecode, which counts in whole seconds
    os.utime(path, (stat.st_atime, stat.st_mtime + 1000))
    try:
        return tested(root, fault.tests, until_first=True, keep_bytecode=False)
    finally:
        path.write_bytes(whole)
        os.utime(path, (stat.st_atime, stat.st_mtime))


def judged(chosen: Sequence[Fault], jobs: int, home: str) -> Iterator[tuple[Fault, str, Outcome | None]]:
    """Every fault with what became of it: "killed", or in words why not."""
    with ProcessPoolExecutor(jobs, mp_context=get_context("fork")) as pool:
        wrong = _wrong_without_fault(pool, chosen, home)
        running = {
            fault: pool.submit(with_fault, home, fault)
            for fault in chosen
            if fault.places(ROOT) == 1 and not wrong.keys() & set(fault.tests)
        }
        for fault in chosen:
            if fault in running:
                outcome = running[fault].result()
                yield fault, verdict(outcome), outcome
            elif fault.places(ROOT) == 1:
                yield fault, "; ".join(wrong[test] for test in fault.tests if test in wrong), None
            else:
                yield fault, f"its line stands {fault.places(ROOT)} times in {fault.file}", None


def _wrong_without_fault(pool: ProcessPoolExecutor, chosen: Sequence[Fault], home: str) -> dict[str, str]:
    """The tests that do not pass as it is, and what is wrong with them."""
    by_file: dict[str, list[str]] = {}
    for test in dict.fromkeys(test for fault in chosen for test in fault.tests):
        by_file.setdefault(test.partition("::")[0], []).append(test)
    wrong: dict[str, str] = {}
    running = {file: pool.submit(without_fault, home, tuple(tests)) for file, tests in by_file.items()}
    for file, future in running.items():
        outcome = future.result()
        if outcome.code == _FAILED:
            of = {
                test: [name for name in outcome.failed if name == test or name.startswith(f"{test}[")]
                for test in by_file[file]
            }
            wrong |= {test: f"{names[0]} fails without it" for test, names in of.items() if names}
        elif outcome.code != _PASSED:
            wrong |= dict.fromkeys(by_file[file], f"its tests could not run (pytest ended with {outcome.code})")
    return wrong


def verdict(outcome: Outcome) -> str:
    """What became of a fault."""
    # a test that never ends has noticed too
    if outcome.code in (_FAILED, None):
        return "killed"
    return "SURVIVED" if outcome.code == _PASSED else f"its tests could not run (pytest ended with {outcome.code})"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these faults, or those of these files")
    parser.add_argument("--list", action="store_true", help="name them and run nothing")
    parser.add_argument("-j", type=int, default=1, help="runs at a time (default 1)")
    options = parser.parse_args(arguments)
    only = set(options.only or ())
    chosen = [fault for fault in faults() if not only or only & {fault.name, fault.part}]
    if missing := only - {name for fault in chosen for name in (fault.name, fault.part)}:
        parser.error(f"no such fault: {', '.join(sorted(missing))}")
    if options.list:
        for fault in chosen:
            print(f"{fault.name:<32}{fault.what}")
        return 0
    begun, killed = time.monotonic(), 0
    for library in (*_LIBRARIES, "pytest"):
        importlib.import_module(library)
    sys.path[:] = [path for path in sys.path if Path(path).resolve() not in (ROOT, ROOT / "tools")]
    with tempfile.TemporaryDirectory() as home:
        for fault, word, outcome in judged(chosen, options.j, home):
            killed += word == "killed"
            seconds = "" if outcome is None else f"{outcome.seconds:6.1f} s"
            by = "" if outcome is None or word != "killed" else "".join(outcome.failed[:1]) or "the clock"
            print(f"{fault.name:<32}{seconds:>9}  {word}  {by}", flush=True)
    print(f"{killed} of {len(chosen)} faults killed in {time.monotonic() - begun:.0f} s")
    return int(killed < len(chosen))


if __name__ == "__main__":
    sys.exit(main())

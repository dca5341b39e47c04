"""The fuzzer's inputs are read or refused in a line; it tells what is not, and what takes too long."""

import importlib.util
import random
import sys
import time
from pathlib import Path

import pytest

from headwise import runtime
from headwise.errors import DataError
from headwise.runs import publish

TOOL = Path(__file__).parents[2] / "tools" / "fuzz.py"


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("fuzz", TOOL)
    module = importlib.util.module_from_spec(spec)
    # a dataclass looks its module up by name
    sys.modules["fuzz"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(runtime, "apply", lambda threads=None, **options: None)
    monkeypatch.setattr(publish, "_RETRY_S", 0.0)


@pytest.mark.usefixtures("quick")
@pytest.mark.filterwarnings("ignore")
def test_a_hundred_inputs_are_read_or_refused(tool, tmp_path):
    tally = tool.fuzz(100, 0, tmp_path)
    assert tally.problems == []
    assert sum(tally.done.values()) == 100
    # both answers occur, or the inputs are too tame or too wild
    assert {"tsv: read", "tsv: refused", "run: refused", "recipe: refused", "command: read"} <= set(tally.done)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (ValueError("odd"), "ValueError: odd"),
        (DataError("x" * 9000), None),
        (DataError("a\x1b[2J"), None),
    ],
)
def test_what_is_no_refusal_is_a_problem(tool, tmp_path, monkeypatch, fault, told):
    class Inputs:
        def __init__(self, folder):
            self.readers = {"any": self.read}

        def read(self, rng):
            raise fault

    monkeypatch.setattr(tool, "Inputs", Inputs)
    problems = tool.fuzz(1, 0, tmp_path).problems
    # the command line shortens messages and shows what is hidden in them
    assert bool(problems) == (told is not None)
    assert told is None or told in problems[0]


@pytest.mark.parametrize("message", ["x" * 9000, "a\x1b[2J", "a\u2028b"])
def test_long_messages_and_control_characters_are_problems(tool, message):
    with pytest.raises(AssertionError, match="a message of"):
        tool._check_message(message)


def test_what_takes_too_long_is_stopped(tool):
    with pytest.raises(tool.Slow), tool.limited(0.01):
        time.sleep(10)


def test_what_takes_too_much_is_a_problem(tool, monkeypatch):
    monkeypatch.setattr(tool, "MOST_MIB", 16)
    monkeypatch.setattr(tool, "MOST_CPU_S", 0)
    problems = tool.tried({"any": lambda rng: b"x" * (1 << 28)}, 1, 0, None, str).problems
    assert len(problems) == 2, problems
    time_, memory = problems
    assert "CPU s, more than 0" in time_
    assert "MiB, more than 16" in memory


def test_changes_follow_from_the_seed(tool):
    data = tool.RECIPE.encode()
    changed = [tool.mutated(data, random.Random(seed)) for seed in (1, 1, 2)]
    assert changed[0] == changed[1] != changed[2]

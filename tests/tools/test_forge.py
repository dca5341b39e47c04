"""Forged files are read or refused by name; whole ones are read, so that what refuses them is the forgery."""

import importlib
import sys
from functools import partial
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"


@pytest.fixture(scope="module")
def tool():
    sys.path.insert(0, str(TOOLS))
    try:
        found = importlib.import_module("forge")
        # as large as tests have time for
        found.bombs = partial(found.bombs, 1 << 24, 1 << 12)
        yield found
    finally:
        sys.path.remove(str(TOOLS))


@pytest.mark.filterwarnings("ignore")
def test_whole_files_are_read(tool, tmp_path, monkeypatch):
    monkeypatch.setattr(tool, "mutated", lambda data, rng: data)
    tally = tool.forge(12, 0, tmp_path)
    assert tally.problems == []
    assert {outcome for kind, _, outcome in (one.partition(": ") for one in tally.done) if kind != "bombs"} == {"read"}


@pytest.mark.filterwarnings("ignore")
def test_forged_files_are_read_or_refused_by_name(tool, tmp_path):
    tally = tool.forge(60, 1, tmp_path)
    assert tally.problems == []
    assert sum(tally.done.values()) == 60
    assert {"bombs: read", "bombs: refused"} <= set(tally.done)
    assert {"film: refused", "parts: refused", "pictures: refused", "tokens: refused"} <= set(tally.done)


@pytest.mark.filterwarnings("ignore")
def test_what_names_no_file_is_told(tool, tmp_path, monkeypatch):
    def refuse(self, rng):
        raise tool.HeadwiseError("it is damaged")

    monkeypatch.setattr(tool.Forged, "film", refuse)
    (problem,) = tool.forge(1, 0, tmp_path, "film").problems
    assert "names no file: it is damaged" in problem

"""The page of the documentation says nothing that does not run."""

import re
from pathlib import Path

import pytest
from matplotlib import pyplot

import headwise
from headwise import textbook

DOCS = Path(headwise.__file__).parents[1] / "docs"
PAGE = DOCS / "textbook.md"


def ran(path):
    """What the code of a page leaves behind, run from top to bottom."""
    blocks = re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 3
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(path), "exec"), names)
    pyplot.close("all")
    return names


@pytest.mark.usefixtures("untyped")
def test_the_code_of_the_page_runs(capsys):
    ran(PAGE)
    assert "tokens/sec" in capsys.readouterr().out


@pytest.mark.usefixtures("untyped")
def test_the_page_of_attention_pooling_says_what_comes_out():
    errors = ran(DOCS / "attention_pooling.md")["errors"]
    assert errors == pytest.approx({"mean": 0.91, "plain": 0.43, "learned": 0.09}, abs=0.02)


def test_the_page_names_everything():
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in textbook.__all__ if f"`{name}`" not in text] == []


def test_names_are_in_order_and_there():
    # constants first
    assert textbook.__all__ == sorted(textbook.__all__, key=lambda name: (not name.isupper(), name))
    values = {"DATA_HUB", "DATA_URL"}
    assert all(callable(getattr(textbook, name)) for name in set(textbook.__all__) - values)

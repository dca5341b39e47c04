"""The page of the documentation says nothing that does not run."""

import re
from pathlib import Path

import pytest
from matplotlib import pyplot

import headwise
from headwise import textbook

PAGE = Path(headwise.__file__).parents[1] / "docs" / "textbook.md"


@pytest.mark.usefixtures("untyped")
def test_the_code_of_the_page_runs(capsys):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 3
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    pyplot.close("all")
    assert "tokens/sec" in capsys.readouterr().out


def test_the_page_names_everything():
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in textbook.__all__ if f"`{name}`" not in text] == []


def test_names_are_in_order_and_there():
    assert textbook.__all__ == sorted(textbook.__all__)
    assert all(callable(getattr(textbook, name)) for name in textbook.__all__)

"""The examples of the documents run as they stand, each document from top to bottom."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", ["extending.md", pytest.param("seeing.md", marks=pytest.mark.slow)])
def test_examples_of_a_document_run(name, untyped, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall((DOCS / name).read_text(encoding="utf-8"))
    assert blocks
    space: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, name, "exec"), space)

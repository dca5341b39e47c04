"""The examples of the documents run as they stand, each document from top to bottom."""

import re
from pathlib import Path

import pytest
import tomli_w

from headwise.training import recipes

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
# pages whose examples are files, or need some: each has a test beside what it is about
ELSEWHERE = {
    "check.md": "testing/test_check.py",
    "data.md": "test_pages.py",
    "tasks.md": "test_pages.py",
    "attention_pooling.md": "textbook/test_page.py",
    "textbook.md": "textbook/test_page.py",
    "exchange.md": "export/test_export.py",
    "images.md": "test_pages.py",
    "speech.md": "test_pages.py",
}
HERE = [
    "README.md",
    "docs/attribution.md",
    "docs/captions.md",
    "docs/dialogue.md",
    "docs/explorer.md",
    "docs/extending.md",
    "docs/forecasting.md",
    "docs/graphs.md",
    "docs/positions.md",
    "docs/recurrences.md",
    "docs/seeing.md",
    "docs/segmentation.md",
    "docs/sets.md",
    "docs/scale.md",
    "docs/transforms.md",
    "docs/word_vectors.md",
]
# a run of few steps in place of a minute
TINY = {"data": {"limit": 120}, "model": {"d_model": 8, "d_ff": 16}, "training": {"max_steps": 3}}


@pytest.fixture
def phrasebook(tmp_path, monkeypatch):
    """The recipe that ships, with a few steps of a small model."""
    values = recipes.read("phrasebook", []).model_dump(mode="json", exclude_none=True)
    values = {
        key: {**value, **TINY.get(key, {})} if isinstance(value, dict) else value for key, value in values.items()
    }
    values["decoding"]["max_len"] = 5
    folder = tmp_path / "recipes"
    folder.mkdir()
    (folder / "phrasebook.toml").write_text(tomli_w.dumps(values), encoding="utf-8")
    monkeypatch.setattr(recipes, "folder", lambda: folder)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if "seeing" in name else name for name in HERE]
)
def test_examples_of_a_document_run(name, untyped, tmp_path, monkeypatch, phrasebook):
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall((ROOT / name).read_text(encoding="utf-8"))
    assert blocks
    space: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, name, "exec"), space)


def test_no_document_is_left_out():
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    shown = {page.name for page in pages if BLOCK.search(page.read_text(encoding="utf-8"))}
    assert shown == ELSEWHERE.keys() | {Path(name).name for name in HERE}
    for name, test in ELSEWHERE.items():
        assert name in (ROOT / "tests" / test).read_text(encoding="utf-8")


def test_the_readme_leads_to_every_page():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert f"(docs/{page.name})" in readme, page.name
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)[^):]*\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"

"""The page of mechanisms is that of its records, names what is missing, and a side that fails is a row."""

import json

from headwise.errors import ConfigError
from tools import mechanism_table as table


def test_the_page_is_made_of_the_records():
    assert table.PAGE.read_text(encoding="utf-8") == table.page(table.read())


def test_every_side_has_a_row_or_is_named_as_missing():
    page, records = table.PAGE.read_text(encoding="utf-8"), table.read()
    assert records.keys() <= table.sides().keys()
    for side in table.sides():
        assert (side in records) == (f"| `mechanism={side}` |" in page or f"| `{side}` |" in page), side
        assert side in page
    assert "/tmp" not in page


def test_a_side_that_fails_is_a_record_with_its_reason(tmp_path, monkeypatch):
    def fail(*_):
        raise ConfigError("/a/recipe.toml: no such mask; set another")

    monkeypatch.setattr(table, "language", lambda *_: {"perplexity": 12.34, "speed": 0.5})
    monkeypatch.setattr(table, "exact", fail)
    monkeypatch.setattr(table, "draw", lambda folder: {"lookup": folder})
    records = tmp_path / "records.jsonl"
    table.train_missing(tmp_path, ["scored", "moba"], records, say=lambda line: None)
    assert [json.loads(line)["side"] for line in records.read_text().splitlines()] == ["scored", "moba"]
    page = table.page(table.read(records))
    assert "| `mechanism=moba` | 12.3 | - | - | - | - | - | - | 0.50 | - | - |" in page
    assert "* `scored`, `moba` (lookup): no such mask" in page
    # what has a record is not measured again
    monkeypatch.setattr(table, "sides", lambda: {"scored": (), "moba": ()})
    table.train_missing(tmp_path, [], records, say=lambda line: None)
    assert len(records.read_text().splitlines()) == 2

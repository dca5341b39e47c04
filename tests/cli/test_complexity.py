"""`headwise complexity` and `headwise claims` as a user calls them."""

import json

import pytest

from headwise.cli.main import main

SMALL = ["--from", "8", "--to", "64", "--sizes", "4", "--fixed", "8", "--rounds", "1"]


def test_costs_and_powers_as_rows_a_file_and_a_figure(tmp_path, capsys):
    figure, table = tmp_path / "a.png", tmp_path / "a.csv"
    assert main(["complexity", "cnn", "plain", *SMALL, "--json", "--figure", str(figure), "--output", str(table)]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    assert {(row["name"], row["what"]) for row in rows} >= {("cnn", "CPU time, ms"), ("plain", "operations, millions")}
    powers = {(row["name"], row["what"]): row["power"] for row in rows}
    assert powers["plain", "operations, millions"] == pytest.approx(2.0)
    assert figure.stat().st_size > 1000
    assert len(table.read_text().splitlines()) == len(rows) + 1


def test_paths_in_place_of_costs(capsys):
    assert main(["complexity", "--paths", "plain", "rnn", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["name"], row["path 9"]) for row in rows] == [("plain", 1), ("rnn", 8)]
    assert rows[0]["chain 16"] == rows[0]["chain 64"]
    assert rows[1]["chain 64"] > rows[1]["chain 16"] + 48


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["complexity", "atention"], "atention"),
        (["complexity", "--over", "depth"], "--over"),
        (["complexity", "--from", "9", "--to", "8"], "sizes"),
        (["complexity", "--paths", "--figure", "a.png"], "--figure"),
        (["claims", "run", "no-such-claim"], "no-such-claim"),
        (["claims", "show", "no-such-claim"], "no-such-claim"),
    ],
)
def test_what_is_wrong_is_named(arguments, word, capsys):
    assert main(arguments) == 2
    assert word in capsys.readouterr().err


def test_a_claim_is_listed_run_shown_and_put_on_a_page(tmp_path, capsys):
    records, text = str(tmp_path / "claims.jsonl"), tmp_path / "claims.md"
    assert main(["claims", "list", "--records", records]) == 0
    assert "not run" in capsys.readouterr().out
    assert main(["claims", "run", "norm-keeps-order", "--records", records]) == 0
    assert "holds only where" in capsys.readouterr().out
    assert main(["claims", "list", "--records", records, "--json"]) == 0
    rows = {row["name"]: row["verdict"] for row in map(json.loads, capsys.readouterr().out.splitlines())}
    assert rows["norm-keeps-order"] == "holds only where"
    assert rows["path-lengths"] is None
    assert main(["claims", "show", "norm-keeps-order", "--records", records]) == 0
    assert "| condition |" in capsys.readouterr().out
    assert main(["claims", "page", "--records", records, "--output", str(text)]) == 0
    assert "## norm-keeps-order" in text.read_text()


def test_a_damaged_file_of_records_is_refused_before_anything_runs(tmp_path, capsys):
    records = tmp_path / "claims.jsonl"
    records.write_text("{}\n")
    assert main(["claims", "run", "norm-keeps-order", "--records", str(records)]) == 3
    assert "claims.jsonl:1" in capsys.readouterr().err
    assert records.read_text() == "{}\n"

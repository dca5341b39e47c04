"""`headwise complexity` and `headwise claims` as a user calls them."""

import json
from pathlib import Path

import pytest

from headwise.cli.main import main

SMALL = ["--from", "8", "--to", "64", "--sizes", "4", "--fixed", "8", "--rounds", "1"]


@pytest.mark.slow
def test_costs_and_powers_as_rows_a_file_and_a_figure(tmp_path, capsys):
    figure, table = tmp_path / "a.png", tmp_path / "a.csv"
    assert main(["complexity", "cnn", "plain", *SMALL, "--json", "--figure", str(figure), "--output", str(table)]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    assert {(row["name"], row["what"]) for row in rows} >= {("cnn", "CPU time, ms"), ("plain", "operations, millions")}
    powers = {(row["name"], row["what"]): row["power"] for row in rows}
    assert powers["plain", "operations, millions"] == pytest.approx(2.0)
    assert figure.stat().st_size > 1000
    assert len(table.read_text().splitlines()) == len(rows) + 1


@pytest.mark.slow
def test_paths_in_place_of_costs(capsys):
    assert main(["complexity", "--paths", "plain", "rnn", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["name"], row["path 9"]) for row in rows] == [("plain", 1), ("rnn", 8)]
    assert rows[0]["chain 16"] == rows[0]["chain 64"]
    assert rows[1]["chain 64"] > rows[1]["chain 16"] + 48


@pytest.mark.slow
def test_the_table_gives_advice(tmp_path, capsys):
    table = str(tmp_path / "m.jsonl")
    assert main(["complexity", "scored", "rnn", *SMALL, "--table", table]) == 0
    assert len(Path(table).read_text().splitlines()) == 8
    capsys.readouterr()
    size = ["advise", "--length", "20", "--width", "8", "--memory", "1GiB", "--table", table]
    assert main(size) == 0
    assert "between measured sizes" in capsys.readouterr().out
    assert main([*size, "--json", "--streaming"]) == 0
    advice = json.loads(capsys.readouterr().out)
    assert {row["name"]: row["state_bytes"] for row in advice["fits"]} == {"scored": 2 * 20 * 8 * 4, "rnn": 32}


@pytest.mark.slow
def test_a_report_has_all_figures(tmp_path):
    report = tmp_path / "report"
    assert main(["complexity", "scored", "rnn", *SMALL, "--report", str(report)]) == 0
    figures = {path.name for path in report.glob("*.png")}
    assert figures >= {"operations.png", "CPU-time.png", "layers-between-the-ends.png"}
    whole = json.loads((report / "results.json").read_text())
    assert {figure["down"] for figure in whole["figures"]} >= {"operations, millions", "operations one after another"}
    assert [row["path 9"] for row in whole["paths"]] == [1, 8]


def test_the_same_work_on_several_threads(tmp_path, capsys):
    figure = tmp_path / "a.png"
    assert main(["complexity", "rnn", "plain", *SMALL, "--threads", "1,2", "--json", "--figure", str(figure)]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    assert [(row["name"], row["threads"]) for row in rows] == [("rnn", 1), ("rnn", 2), ("plain", 1), ("plain", 2)]
    assert all(row["8"] > 0 and row["gain"] > 0 for row in rows)
    assert rows[0]["gain"] == 1.0
    assert figure.stat().st_size > 1000


@pytest.mark.slow
def test_function_sets_are_measured_and_drawn(tmp_path, capsys):
    figure = tmp_path / "sets.png"
    assert main(["complexity", "--sets", str(figure), "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    lost = {row.pop("fitted"): row for row in rows}
    contained = {(outer, inner) for outer, row in lost.items() for inner, share in row.items() if share < 0.01}
    kinds = ["kernel of 3", "kernel of all", "full matrix"]
    # each of these contains those before it; attention contains a kernel of a place for each head, and is in none
    nested = {(outer, inner) for place, outer in enumerate(kinds) for inner in kinds[: place + 1]}
    assert contained == nested | {("attention", "attention"), ("attention", "kernel of 3")}
    assert figure.stat().st_size > 5000


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["complexity", "atention"], "atention"),
        (["complexity", "--over", "depth"], "--over"),
        (["complexity", "--from", "9", "--to", "8"], "sizes"),
        (["complexity", "--paths", "--threads", "1,2"], "--paths and --threads"),
        (["complexity", "--paths", "--table", "a.jsonl"], "--table"),
        (["complexity", "--backward", "--table", "a.jsonl"], "--backward"),
        (["complexity", "--threads", "2,4"], "--threads '2,4'"),
        (["complexity", "--sets", "a.png", "--arcs", "b.png"], "--sets fits layers of its own"),
        (["complexity", "rnn", "--sets", "a.png"], "--sets fits layers of its own"),
        (["complexity", "--threads", "1,x"], "--threads '1,x'"),
        (["complexity", "--threads", "1,2", "--over", "width"], "--over width"),
        (["advise", "--length", "9", "--width", "9", "--memory", "1 parsec"], "--memory '1 parsec'"),
        (["advise", "--length", "9", "--width", "9", "--memory", "1", "--table", "none.jsonl"], "nothing was measured"),
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
    assert main(["claims", "run", "tied-queries-and-keys-give-the-identity", "--records", records]) == 0
    assert "holds only where" in capsys.readouterr().out
    assert main(["claims", "list", "--records", records, "--json"]) == 0
    rows = {row["name"]: row["verdict"] for row in map(json.loads, capsys.readouterr().out.splitlines())}
    assert rows["tied-queries-and-keys-give-the-identity"] == "holds only where"
    assert rows["path-lengths"] is None
    assert main(["claims", "show", "tied-queries-and-keys-give-the-identity", "--records", records]) == 0
    assert "| condition |" in capsys.readouterr().out
    figure = tmp_path / "claim.svg"
    assert (
        main(
            ["claims", "show", "tied-queries-and-keys-give-the-identity", "--records", records, "--figure", str(figure)]
        )
        == 0
    )
    assert figure.stat().st_size > 1000
    assert main(["claims", "show", "path-lengths", "--records", records, "--figure", str(figure)]) == 2
    assert "has no record in" in capsys.readouterr().err
    assert main(["claims", "page", "--records", records, "--output", str(text)]) == 0
    assert "## tied-queries-and-keys-give-the-identity" in text.read_text()
    assert "](images/" not in text.read_text()
    figures = tmp_path / "images"
    pictured = ["claims", "page", "--records", records, "--output", str(text), "--figures", str(figures)]
    assert main(pictured) == 0
    assert "](images/claim-tied-queries-and-keys-give-the-identity.png)" in text.read_text()
    assert [path.name for path in figures.iterdir()] == ["claim-tied-queries-and-keys-give-the-identity.png"]


def test_a_damaged_file_of_records_is_refused_before_anything_runs(tmp_path, capsys):
    records = tmp_path / "claims.jsonl"
    records.write_text("{}\n")
    assert main(["claims", "run", "norm-keeps-order", "--records", str(records)]) == 3
    assert "claims.jsonl:1" in capsys.readouterr().err
    assert records.read_text() == "{}\n"

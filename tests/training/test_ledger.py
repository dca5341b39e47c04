"""Rows of finished runs in a file: what they say, what replaces what, and files that are no records."""

import json
import os
from pathlib import Path

import pytest
from finished_runs import account

from headwise.errors import DataError
from headwise.training import recipes
from headwise.training.ledger import add_rows, deciding_keys, distinct, merge_rows, read_rows, write_rows
from headwise.training.recipe import read_recipe


def test_what_decides_is_what_a_recipe_says_without_folders_and_seeds():
    said = deciding_keys(
        read_recipe(
            recipes.find("odd"), ["seed=3", "data.train=/far/away/odd/train.tsv", "data.split_seed=4", "show=[]"]
        )
    )
    assert said["data.train"] == "odd/train.tsv"
    assert said["model.kind"] == "attention"
    assert not {"seed", "data.split_seed", "show", "task", "training.max_epochs"} & said.keys()
    # the default of every encoder is its own kind, which still decides
    kinds = [{"task": "classify", "data": {"train": "a/b.tsv"}, "model": {"kind": kind}} for kind in ("cnn", "rnn")]
    assert [deciding_keys(read_recipe(one))["model.kind"] for one in kinds] == ["cnn", "rnn"]
    # a value of the recipe that is the default says nothing
    assert said == deciding_keys(read_recipe(recipes.find("odd"), ["training.epsilon=1e-8"])) | {
        "data.train": "odd/train.tsv"
    }
    phrases = deciding_keys(read_recipe(recipes.find("phrasebook")))
    assert phrases["data.train"] == "headwise:phrasebook.en-fr.tsv"


def test_rows_are_kept_and_replaced_by_recipe_and_seed(tmp_path):
    path = tmp_path / "results.json"
    assert read_rows(path) == []
    old = [account("odd,seed=1", 1, 0.5, f1=float("nan")), account("odd", 0, 0.25)]
    old.append(account("dot", 0, 0.4, "model.score=dot"))
    write_rows(path, merge_rows([], old))
    assert read_rows(path) == old
    assert old[0].scores == {"accuracy": 0.5, "loss": 0.1}
    assert "/somewhere" not in path.read_text()
    # further epochs make no other recipe; other data does
    again = account("again", 0, 0.75, "training.max_epochs=9")
    other = account("other", 0, 0.1).model_copy(update={"digest": "b2"})
    rows = merge_rows(read_rows(path), [again, other])
    assert [row.run for row in rows] == ["odd,seed=1", "again", "dot", "other"]
    assert len({row.group for row in rows}) == 3
    write_rows(path, rows)
    assert read_rows(path) == rows
    assert len(path.read_text().splitlines()) == 2 + len(rows)
    assert [file.name for file in tmp_path.iterdir()] == ["results.json"]


def test_rows_go_by_data_and_task():
    rows = [account(name, 0, 0.5, recipe=name) for name in ("sst2", "odd", "brackets")]
    assert [row.data for row in merge_rows([], rows)] == ["brackets", "odd", "sst2"]


def test_a_run_counts_once_and_has_a_score():
    runs = [account("odd", 0, 0.5), account("copy", 0, 0.5, "training.max_epochs=9")]
    with pytest.raises(DataError, match="/a/odd and /b/copy are one recipe with the same seed; name one"):
        distinct(zip((Path("/a/odd"), Path("/b/copy")), runs, strict=True))
    with pytest.raises(DataError, match="/somewhere/odd: its accuracy is no finite number"):
        account("odd", 0, float("inf"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"results.json: is not JSON .*; name a file that `headwise results --records` wrote"),
        ("[" * 100_000, r"results.json: is not JSON"),
        ("[]", r"results.json: does not hold records of results; name a file"),
        ('{"rows": []}', r"results.json: does not hold records"),
        ('{"headwise results": 1, "rows": {}}', r"results.json: does not hold records"),
        ('{"headwise results": 2, "rows": []}', r"results.json: format 2 of the records is unknown; .* reads 1"),
        ('{"headwise results": 1, "rows": [1]}', r"results.json: row 1: must be an object"),
        ('{"headwise results": 1, "rows": [{}]}', r"results.json: row 1: .*data"),
    ],
)
def test_a_foreign_file_is_refused_in_one_line(tmp_path, text, message):
    path = tmp_path / "results.json"
    path.write_text(text)
    with pytest.raises(DataError, match=message) as caught:
        read_rows(path)
    assert "\n" not in str(caught.value)


def test_a_damaged_row_is_refused_by_its_number(tmp_path):
    path = tmp_path / "results.json"
    write_rows(path, [account("odd", 0, 0.5), account("odd,seed=1", 1, 0.25)])
    whole = json.loads(path.read_text())
    for damage, message in (
        ({"metric": "bleu"}, "row 2: .*scores have no 'bleu'"),
        ({"seeds": {}}, "row 2: .*seeds have no 'seed'"),
        ({"steps": "many"}, "row 2: .*steps"),
        ({"other": 1}, "row 2: .*other"),
        ({"seeds": {"seed": 0, "data.split_seed": 0}}, "two rows are of one recipe and seed"),
    ):
        path.write_text(json.dumps(whole | {"rows": [whole["rows"][0], whole["rows"][1] | damage]}))
        with pytest.raises(DataError, match=message):
            read_rows(path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DataError, match=r"results.json: is not JSON"):
        read_rows(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match=r"results.json: is not JSON"):
        read_rows(path)


def test_rows_of_another_process_are_not_lost(tmp_path):
    path = tmp_path / "results.json"
    assert add_rows(path, []) == []
    assert not path.exists()
    many = 12
    children = []
    for seed in range(many):
        if (pid := os.fork()) == 0:
            try:
                add_rows(path, [account(f"odd,seed={seed}", seed, 0.5)])
            finally:
                os._exit(0)
        children.append(pid)
    for pid in children:
        os.waitpid(pid, 0)
    assert sorted(row.seeds["seed"] for row in read_rows(path)) == list(range(many))
    assert add_rows(path, []) == read_rows(path)

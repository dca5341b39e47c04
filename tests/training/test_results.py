"""The page of results from accounts made by hand, and settings with several values."""

import datetime
from dataclasses import replace
from pathlib import Path

import pytest

from headwise.errors import DataError
from headwise.training import recipes
from headwise.training.accounts import Account
from headwise.training.recipe import read_recipe
from headwise.training.results import Figure, data_of, page, published
from headwise.training.sweep import Swept


def account(name, seed, score, *settings, **scores):
    recipe = read_recipe(recipes.find("odd"), [f"seed={seed}", *settings])
    found = {"accuracy": score, "loss": 0.1, "baseline": 0.25} | scores
    ended = datetime.date(2026, 11, 22)
    return Account(Path("/somewhere", name), recipe, found, 1000, 250, 10.0 + 2 * seed, 9516, ended, "A processor")


FIGURES = [
    Figure("odd", "accuracy", "theirs", 0.9, "a paper, table 2"),
    Figure("odd", "f1", "another", 0.8, "a paper"),
    Figure("even", "accuracy", "elsewhere", 0.7, "a paper"),
]


def test_seeds_of_a_recipe_are_a_row_and_other_settings_another():
    runs = [account("odd,seed=1", 1, 0.7), account("odd,seed=0", 0, 0.5), account("dot", 0, 0.4, "model.score=dot")]
    # a limit that was raised makes no other recipe
    runs[1] = account("odd,seed=0", 0, 0.5, "training.max_epochs=9")
    text = page(runs, FIGURES, "headwise results odd")
    assert "| `odd` | 0.6000 ± 0.1414 | 0, 1 | 1,000 | 9,516 | 250 | 11 | 2026-11-22, A processor |\n" in text
    assert "| `dot` | 0.4000 | 0 | 1,000 |" in text
    assert "| baseline: knowing nothing of the input | 0.2500 |" in text
    assert "| theirs: a paper, table 2 | 0.9 |" in text
    assert "another" not in text
    assert "elsewhere" not in text
    assert "Written by `headwise results odd`" in text
    assert "/somewhere" not in text
    assert data_of(runs[0]) == "odd"


def test_an_n_gram_model_stands_beside_the_runs_by_the_metric_of_the_table():
    runs = [account("odd", 0, 0.5, ngram_accuracy=0.125, ngram_loss=7.5), account("dot", 0, 0.4, "model.score=dot")]
    text = page(runs, FIGURES, "headwise results odd")
    assert "| n-gram model of the training tokens | 0.1250 | | | | | | |\n| theirs" in text
    assert "7.5" not in text


def test_tasks_on_one_data_set_have_tables_of_their_own_and_each_baseline_its_name():
    one = account("odd", 0, 0.5, baseline_linear_accuracy=0.375, baseline_last_accuracy=0.125, baseline_f1=0.0625)
    other = replace(one, recipe=read_recipe(recipes.find("brackets"), ["data.train=odd/train.tsv"]))
    assert data_of(other) == "odd"
    text = page([one], [], "headwise results odd")
    assert "## odd\n" in text
    assert "| baseline: last | 0.1250 | | | | | | |\n| baseline: linear | 0.3750 |" in text
    assert "0.25" not in text
    assert "0.0625" not in text
    ranked = replace(one, recipe=other.recipe.model_copy(update={"task": "rank"}))
    text = page([one, ranked], [], "headwise results odd")
    assert "## odd: classify\n" in text
    assert "## odd: rank\n" in text


def test_a_run_counts_once():
    runs = [account("odd", 0, 0.5), account("copy", 0, 0.5, "training.max_epochs=9")]
    with pytest.raises(
        DataError, match="/somewhere/odd and /somewhere/copy are one recipe with the same seed; name one"
    ):
        page(runs, [], "headwise results")
    # another split of the data is another run
    assert "0.5000 ± 0.0000" in page([runs[0], account("other", 0, 0.5, "data.split_seed=1")], [], "headwise results")


def test_no_runs_and_a_bad_file_of_figures(tmp_path):
    with pytest.raises(DataError, match="there are no results: no runs"):
        page([], [], "headwise results")
    path = tmp_path / "figures.csv"
    for text, message in (
        ("", r"figures.csv:1: the first line must be data,metric,system,value,source"),
        ("data,metric,system,value,source\ncora,accuracy,a,high,b\n", "figures.csv:2: must be data, metric, system"),
        ("data,metric,system,value,source\ncora,accuracy,a,1\n", "figures.csv:2: must be data, metric, system"),
    ):
        path.write_text(text)
        with pytest.raises(DataError, match=message):
            published(path)


def test_the_figures_that_ship():
    assert all(0 < figure.value < 1 and figure.source for figure in published() if figure.metric == "accuracy")


@pytest.mark.parametrize(
    ("setting", "values"),
    [
        ("a.b=1,2, 4", ("1", "2", "4")),
        ("a.b=[1,2],[3]", ("[1,2]", "[3]")),
        ("a.b={x=1,y=2},3", ("{x=1,y=2}", "3")),
        ("a.b='x,y',\"[\",z", ("'x,y'", '"["', "z")),
        ("a.b=1", None),
        ("a.b=[1,2]", None),
        ('a.b="x,y"', None),
    ],
)
def test_settings_with_several_values(setting, values):
    assert Swept.parsed(setting) == (None if values is None else Swept("a.b", values))

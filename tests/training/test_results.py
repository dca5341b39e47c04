"""The page of results from rows made by hand, and settings with several values."""

import pytest
from finished_runs import account

from headwise.errors import DataError
from headwise.training.results import Figure, page, published
from headwise.training.sweep import Swept

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
    assert "| baseline: majority | 0.2500 |" in text
    assert "| theirs: a paper, table 2 | 0.9 |" in text
    assert "another" not in text
    assert "elsewhere" not in text
    assert "Written by `headwise results odd`" in text
    assert "/somewhere" not in text
    assert runs[0].data == "odd"


def test_tasks_on_one_data_set_have_tables_of_their_own_and_each_baseline_its_name():
    both = {"linear": {"accuracy": 0.375, "loss": 7.5}, "last value": {"accuracy": 0.125}, "mean": {"f1": 0.0625}}
    one = account("odd", 0, 0.5, baselines=both)
    assert account("other", 0, 0.5, "data.train=odd/train.tsv", recipe="brackets").data == "odd"
    text = page([one], [], "headwise results odd")
    assert "## odd\n" in text
    assert "| baseline: last value | 0.1250 | | | | | | |\n| baseline: linear | 0.3750 |" in text
    assert "0.0625" not in text
    assert "7.5000" not in text
    assert "* `odd`: accuracy 50.0 %: better than the best baseline, linear (37.5 %)\n" in text
    ranked = one.model_copy(update={"task": "rank"})
    text = page([one, ranked], [], "headwise results odd")
    assert "## odd: classify\n" in text
    assert "## odd: rank\n" in text


def test_the_mean_over_seeds_is_compared_with_the_best_baseline():
    runs = [account("odd", 0, 0.25, baselines={"SGC": {"accuracy": 0.5}})]
    runs += [account("odd,seed=1", 1, 0.5, baselines={"SGC": {"accuracy": 0.5}, "other": {"accuracy": 0.9}})]
    text = page(runs, [], "headwise results odd")
    # the other is not there for both
    assert "* `odd`: accuracy 37.5 %: worse than SGC (50.0 %)\n" in text
    # a task of one's own is not imported to find out which way its metric improves
    own = [runs[0].model_copy(update={"task": "nowhere.at.all:Task"})]
    assert "worse" not in page(own, [], "headwise results odd")


def test_another_split_of_the_data_is_another_run():
    runs = [account("odd", 0, 0.5), account("other", 0, 0.5, "data.split_seed=1")]
    assert "| `odd` | 0.5000 ± 0.0000 | 0, 0 |" in page(runs, [], "headwise results")


def test_a_baseline_that_differs_names_its_recipes_or_is_a_range():
    runs = [account("odd", 0, 0.5), account("odd,seed=1", 1, 0.5, baselines={"majority": {"accuracy": 0.125}})]
    runs.append(account("b", 0, 0.5, "model.score=dot"))
    text = page(runs, [], "headwise results")
    assert "| baseline: majority (`odd`) | 0.1250 to 0.2500 |" in text
    assert "| baseline: majority (`b`) | 0.2500 |" in text
    # one line where all recipes have the same
    assert page([runs[0], runs[2]], [], "headwise results").count("baseline: majority") == 1


def test_a_page_of_records_says_so_and_names_parts_that_are_not_the_test():
    runs = [account("odd", 0, 0.5)]
    text = page(runs, [], "headwise results --records a.json", from_records=True)
    assert "Written by `headwise results --records a.json`. The records are finished runs" in " ".join(text.split())
    assert "names" not in text.partition("##")[0]
    text = page([runs[0].model_copy(update={"part": "valid"})], [], "headwise results")
    assert "| 1,000 (valid) |" in text
    assert "or on the part that its number of examples names" in " ".join(text.split())


def test_a_loss_gives_way_to_a_score_with_a_baseline():
    def judged(scores, baseline=None, monitor="loss"):
        baselines = {"simple": baseline or {}}
        return account("odd", 0, 0.5, f"training.monitor={monitor}", scores=scores, baselines=baselines).metric

    assert judged({"loss": 1.0, "accuracy": 0.5}, {"accuracy": 0.1}) == "accuracy"
    assert judged({"loss": 1.0, "auc": 0.5}, {"loss": 2.0, "auc": 0.1}) == "loss"
    assert judged({"loss": 1.0, "accuracy": 0.5}) == "loss"
    assert judged({"bleu": 1.0, "loss": 0.5}) == "bleu"
    assert judged({"f1": 1.0, "accuracy": 0.5}) == "f1"
    # a section is told by what a run was judged by beside its loss
    runs = [account("odd", 0, 0.5, "training.monitor=loss"), account("b", 0, 0.5, "training.monitor=f1", f1=0.25)]
    runs[0] = runs[0].model_copy(update={"scores": {"loss": 0.5, "f1": 0.5}, "metric": "loss"})
    assert "| classify | f1 |" in page(runs, [], "headwise results")


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
    assert Swept.parse(setting) == (None if values is None else Swept("a.b", values))


def test_parts_are_lines_of_their_own():
    both = [account("odd", 0, 0.5), account("odd,seed=1", 1, 0.75).model_copy(update={"part": "valid"})]
    text = page(both, [], "headwise results odd")
    assert "| `odd` | 0.5000 | 0 | 1,000 |" in text
    assert "| `odd` | 0.7500 | 1 | 1,000 (valid) |" in text


def test_no_name_ends_a_cell_or_a_line():
    figures = [Figure("odd", "accuracy", "a|b", 0.9, "c\nd")]
    odd = account("x|y", 0, 0.5).model_copy(update={"processor": "A|B\n# C"})
    text = page([odd], figures, "headwise results")
    assert r"| `x\|y` | 0.5000 |" in text
    assert r", A\|B\n# C |" in text
    assert r"| a\|b: c\nd | 0.9 | | | | | | |" in text

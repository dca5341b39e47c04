"""The demos of tasks: data that is made, a recipe, a run, a picture."""

import json

import pytest

from headwise.tasks import registry

DEMOS = [name for name in registry.task_names() if registry.task_type(name).demo is not None and name != "translate"]

# task -> a score of the held-out part, and what it must lie between
SCORES = {
    # the most frequent tag of each word is right in 95 of 100 cases
    "tag": ("accuracy", 0.99, 1),
    "classify": ("accuracy", 0.95, 1),
    "regress": ("r2", 0.8, 1),
    "graph-regress": ("r2", 0.9, 1),
    "image-classify": ("accuracy", 0.9, 1),
    "image-segment": ("mean_iou", 0.95, 1),
    "dialogue": ("exact", 0.9, 1),
    "caption": ("bleu", 45, 100),
    # a node's own numbers are right in three of five cases
    "node-classify": ("accuracy", 0.75, 1),
    # at best 9 of 10 choices are of the taste, and all goods of a kind are alike
    "rank": ("auc", 0.75, 0.9),
    "speech-classify": ("accuracy", 0.9, 1),
    "summarise": ("exact", 0.9, 1),
    # the grammar itself has 1.52 nats a token
    "language-model": ("loss", 1.5, 1.65),
}
# the task's share of the error of each of its baselines is at most this
SHARES = {
    "forecast": ("mse", ("last value", "linear"), 0.2),
    "masked-lm": ("perplexity", ("frequencies of tokens",), 0.5),
    "word-vectors": ("loss", ("vectors of zeros",), 0.75),
}


def test_a_demo_goes_from_data_to_picture(headwise, tmp_path):
    code, out, err = headwise(
        "demo", "graph-regress", "--run-folder", tmp_path / "run", "--set", "training.max_steps=2"
    )
    assert code == 0, err
    assert "rmse of mean of training" in out
    assert "next:    headwise predict" in out
    assert (tmp_path / "run-data" / "recipe.toml").exists()
    assert (tmp_path / "run" / "figures" / "training.png").exists()


def test_an_unknown_demo_lists_the_known(headwise, tmp_path):
    code, _, err = headwise("demo", "graph-regres", "--run-folder", tmp_path / "run")
    assert code != 0
    assert "graph-regress" in err
    assert not (tmp_path / "run-data").exists()


@pytest.mark.slow
@pytest.mark.parametrize("task", DEMOS)
def test_each_demo_learns(headwise, tmp_path, task):
    assert headwise("demo", task, "--run-folder", tmp_path / "run")[0] == 0
    code, out, err = headwise("evaluate", tmp_path / "run", "--json")
    assert code == 0, err
    found = json.loads(out)
    if task in SHARES:
        name, baselines, most = SHARES[task]
        assert all(found[name] < most * found["baselines"][baseline][name] for baseline in baselines)
    else:
        name, least, most = SCORES[task]
        assert least < found[name] <= most

"""Ranking on a toy log: choices and negatives, losses, scores, and that an item equal to the candidate counts most."""

import math
from collections import Counter

import pytest
import torch
from life import baselines_of, batch_of, built_of, fitted, restored, scores_of, task_of

from headwise.data.sources import Limits
from headwise.errors import CheckpointError, ConfigError, DataError
from headwise.tasks.ranking.rank import Rank
from headwise.tasks.task import Assets, Given

ITEMS = [f"i{n}" for n in range(12)]


@pytest.fixture
def make(tmp_path):
    """Sessions of five items of which the next is one, at any place: only who compares candidate and history knows."""
    draws = torch.Generator().manual_seed(4)
    rows = ["session,item,kind,n,label"]
    for session in range(150):
        *seen, other = torch.randperm(12, generator=draws)[:6].tolist()
        again = seen[int(torch.randint(5, (), generator=draws))]
        rows += [f"s{session},i{item},k{item % 3},{place},1" for place, item in enumerate(seen)]
        rows += [f"s{session},i{again},k{again % 3},5,1", f"s{session},i{other},k{other % 3},6,0"]
    (tmp_path / "log.csv").write_text("\n".join(rows) + "\n")

    def made(model=None, negatives=None, **data):
        data = {"train": str(tmp_path / "log.csv"), "order": "n", "features": ["kind"], "label": "label"} | data
        values = {"data": data | {"min_history": 5}, "negatives": {"train": 2, "held_out": 3} | (negatives or {})}
        return task_of("rank", values | {"model": {"unit": [16], "hidden": [16], "positions": False} | (model or {})})

    return made


def test_an_item_equal_to_the_candidate_counts_most(make):
    task = make({"pooling": "din-softmax"})
    model = fitted(task, 120, Limits(10_000, sentences=64, seed=1), 1e-2)
    assert scores_of(task, model, "valid")["auc"] > 0.9
    ranker = task.predictor(model)
    largest = 0
    for start in range(12):
        history = [ITEMS[(start + 5 * step) % 12] for step in range(5)]
        found = ranker.explain(" ".join(history), history[start % 5])
        largest += int(found.weights().argmax()) == start % 5
    assert largest >= 11


def test_without_a_look_at_the_candidate_it_cannot_be_known(make):
    task = make({"pooling": "last"})
    model = fitted(task, 60, Limits(10_000, sentences=64, seed=1), 1e-2)
    assert scores_of(task, model, "valid")["auc"] < 0.9
    with pytest.raises(Exception, match="no attention to look at"):
        task.predictor(model).explain("i1 i2")


def test_the_loss_is_that_of_yes_and_no(make):
    task = make(label=None)
    model, batch = built_of(task).eval(), batch_of(task, "valid")
    logits = model(*batch.inputs).double()
    expected = 0.0
    for row in range(len(batch.indices)):
        for place, logit in enumerate(logits[row].tolist()):
            yes = 1 / (1 + math.exp(-logit))
            expected -= math.log(yes if place == 0 else 1 - yes)
    assert task.loss(model, batch).item() == pytest.approx(expected, rel=1e-5)
    assert batch.num_tokens == 4 * len(batch.indices)
    assert scores_of(task, model, "valid")["loss"] == pytest.approx(expected / batch.num_tokens, rel=1e-5)


def test_each_pass_has_negatives_of_its_own_and_a_resumed_one_the_same(make):
    task = make(label=None)
    source, limits = task.source("train", Limits(10_000, sentences=9)), Limits(10_000, sentences=9)
    first, second = list(source.once()), list(source.once())
    assert sorted(number for batch in first for number in batch.indices) == list(range(len(task.assets.data["train"])))

    def negatives(batches):
        rows = [(number, row) for batch in batches for number, row in zip(batch.indices, batch.candidates.tolist())]  # noqa: B905
        return [row[1:] for _, row in sorted(rows)]

    assert negatives(first) != negatives(second)
    again = task.source("train", limits)
    again.restore({"epoch": 1, "position": 3}, {})
    assert again.take(1)[0].candidates.tolist() == second[3].candidates.tolist()
    held_out = [task.source("valid", limits) for _ in range(2)]
    assert negatives(held_out[0].once()) == negatives(held_out[1].once()) == negatives(held_out[0].once())


def test_scores_are_those_of_the_predictor(make):
    task = make(label=None)
    model = built_of(task).eval()
    examples = task.assets.data["valid"]
    told, scores = task.predictor(model).evaluate(examples), scores_of(task, model, "valid")
    assert {name: told[name] for name in scores} == pytest.approx(scores, rel=1e-5)
    assert 0 <= told["hit_rate@1"] <= told["hit_rate@5"] == told["hit_rate@10"] == 1.0
    # one of four candidates is chosen, but one of three in training, where the model learned how rare that is
    constant = baselines_of(task, model, examples)["share of positives"]
    assert constant == {"loss": pytest.approx(-0.25 * math.log(1 / 3) - 0.75 * math.log(2 / 3))}
    labelled = make().predictor(model).evaluate(make().assets.data["valid"])
    assert "hit_rate@1" not in labelled
    with pytest.raises(DataError, match="nothing to score"):
        task.predictor(model).evaluate([])


def test_runs_are_compared_on_the_same_candidates(make):
    one, examples = make(label=None), make(label=None).assets.data["valid"]
    first = one.predictor(built_of(one).eval()).evaluate_each(examples).rows.resampled()
    other = one.predictor(built_of(one, 8).eval()).evaluate_each(examples).rows.resampled()
    assert (first.question, first.groups) == (other.question, other.groups)
    odd = make(negatives={"seed": 1}, label=None)
    assert odd.predictor(built_of(odd).eval()).evaluate_each(examples).rows.resampled().question != first.question


def test_files_restore_a_ranker(make):
    task = make(label=None)
    model, asked = built_of(task).eval(), ["i1 i2", '{"history": ["i3"], "candidates": ["zzz", "i3"]}', ""]
    ranker = task.predictor(model)
    assert restored(task, model).predict(asked) == ranker.predict(asked)
    many = ranker.predict(asked[:1], 3)[0]
    assert list(many.probabilities) == list(ranker.predict(asked[:1])[0].probabilities)[:3]
    unknown = ranker.unknown([ranker.parse(asked[1])])
    assert (unknown.count, unknown.total, unknown.examples) == (1, 3, ("zzz",))
    assert Rank.prepare_with(task.config, Given(task.assets.files)).files == task.assets.files
    assert "which of 12 items" in Rank(task.config, Assets(task.assets.files)).card({})


@pytest.mark.parametrize("data", [b"[]", b"{", b"{}", b'{"items": {"a": 1}}'])
def test_damaged_files_are_named(make, data):
    task = make()
    with pytest.raises(CheckpointError, match=r"catalogue.json: does not tell items and categories; restore it"):
        Rank(task.config, Assets({"catalogue.json": data}))
    with pytest.raises(CheckpointError, match=r"catalogue.json is missing"):
        Rank(task.config, Assets({}))


@pytest.mark.parametrize(
    "model",
    [
        {"pooling": "attention", "score": "additive", "normalizer": "sparsemax"},
        {"pooling": "attention", "mechanism": "linear"},
        {"pooling": "sum", "time_gaps": True, "positions": True},
    ],
)
def test_any_attention_and_what_an_item_is_told(make, model):
    task = make(model, label=None)
    built = built_of(task)
    assert built.items.tables[0].embedding_dim == round(6 * 13**0.25)
    batch = batch_of(task)
    loss = task.loss(built, batch)
    loss.backward()
    assert loss.isfinite()
    assert all(parameter.grad is not None for parameter in built.parameters())


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"widths": {"colour": 3}}, "model.widths: unknown column 'colour'"),
        ({"unit": []}, "model.unit must name at least one width"),
        ({"mechanism": "nystrom"}, "cannot look at a history; these can: .*scored|score and normalizer"),
        ({"mechanism": "linear", "score": "dot"}, "score and normalizer belong to mechanism 'scored'"),
    ],
)
def test_models_that_cannot_be(make, model, message):
    with pytest.raises(ConfigError, match=message):
        built_of(make(model))


def test_what_followed_what_is_a_baseline(make):
    task = make(label=None)
    model, train, examples = built_of(task), task.assets.data["train"], task.assets.data["valid"]
    followed = Counter((before, choice.candidates[0]) for choice in train for before in choice.history)
    before = Counter(item for choice in train for item in choice.history)
    chosen = Counter()
    for name, (count, _) in task.catalogue.items.items():
        chosen[name] = count
    batch = task.predictor(model)._table(examples).batch(range(len(examples)))
    names, pairs = ["", *task.catalogue.names], []
    for choice, row, labels in zip(examples, batch.candidates.tolist(), batch.labels.tolist(), strict=True):
        for number, label in zip(row, labels, strict=True):
            score = sum(followed[item, names[number]] / max(1, before[item]) for item in choice.history)
            pairs.append((score + 1e-6 * chosen[names[number]] / chosen.total(), label))
    yes, no = ([score for score, label in pairs if label == wanted] for wanted in (1, 0))
    wins = sum((one > other) + (one == other) / 2 for one in yes for other in no)
    found = baselines_of(task, model, examples)
    assert found["co-occurrence"]["auc"] == pytest.approx(wins / len(yes) / len(no), abs=1e-9)
    assert list(found) == ["share of positives", "popularity", "co-occurrence"]


def test_only_what_was_chosen_follows(make):
    task = make()
    (refused, *_) = (choice for choice in task.assets.data["train"] if choice.labels == (False,))
    one = task.predictor(built_of(task)).co_occurrence([refused], task.assets.data["valid"])
    popularity = baselines_of(task, built_of(task), task.assets.data["valid"])["popularity"]
    assert one.scores == pytest.approx(popularity)

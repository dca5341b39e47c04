"""Baselines beside their definitions: TF-IDF by its formula, regressions by their conditions, SGC and AR by loops."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from headwise.predictors.baselines import (
    logistic_regression,
    majority,
    named,
    ridge_regression,
    sample,
    standardised,
    tfidf,
)
from headwise.tasks.graphs.graph_files import SparseTable
from headwise.tasks.graphs.graphs import Graph
from headwise.tasks.graphs.node_labeller import feature_table, neighbourhoods
from headwise.tasks.series.baselines import Autoregression

TRAIN = ["a film , a film", "dull film", "a dull plot"]


def terms(text):
    words = text.split()
    return Counter(words) + Counter(f"{one} {other}" for one, other in itertools.pairwise(words))


def weights(text):
    """(1 + ln count) (ln((1 + texts) / (1 + texts with it)) + 1) of the terms that training has, of length 1."""
    often = Counter(term for other in TRAIN for term in terms(other))
    found = {
        term: (1 + math.log(count)) * (math.log((1 + len(TRAIN)) / (1 + sum(term in terms(t) for t in TRAIN))) + 1)
        for term, count in terms(text).items()
        if term in often
    }
    norm = math.sqrt(sum(value**2 for value in found.values()))
    return {term: value / norm for term, value in found.items()}


def test_tfidf_is_that_of_words_signs_and_pairs_of_them():
    known, features = tfidf(TRAIN, ["a new film , a plot", "nothing known"])
    for row, text in zip([*known.toarray(), *features.toarray()], [*TRAIN, "a new film , a plot"], strict=False):
        # a pair that the new word parts is none
        wanted = weights(text) if "new" not in text else weights_without_pairs_of("new", text)
        assert sorted(row[row > 0]) == pytest.approx(sorted(wanted.values()))
    assert not features.toarray()[1].any()
    # characters of a script without spaces are words
    assert tfidf(["好看的电影", "难看"], ["好看"])[1].nnz == 3


def weights_without_pairs_of(word, text):
    assert not any(word in term for other in TRAIN for term in terms(other))
    return weights(text)


def test_logistic_regression_has_no_gradient_where_it_ends():
    draws = np.random.default_rng(3)
    x, labels = draws.normal(size=(40, 3)), draws.choice(["a", "b", "c"], 40).tolist()
    x[:, 0] += [2.0 * (label == "b") for label in labels]
    from scipy.optimize import minimize

    gold = np.array([[label == name for name in "abc"] for label in labels], float)

    def objective(flat, strength=2.0):
        weight = flat.reshape(4, 3)
        scores = x @ weight[:3] + weight[3]
        nll = np.log(np.exp(scores).sum(1)).sum() - (scores * gold).sum()
        return strength * nll + np.square(weight[:3]).sum() / 2

    best = minimize(objective, np.zeros(12)).x.reshape(4, 3)
    others = draws.normal(size=(50, 3))
    wanted = ["abc"[place] for place in (others @ best[:3] + best[3]).argmax(1)]
    assert logistic_regression(x, labels, others, 2.0) == wanted
    assert len(set(wanted)) > 1
    # with one label there is nothing to fit
    assert logistic_regression(x[:2], ["a", "a"], others[:3]) == ["a"] * 3


def test_ridge_regression_is_the_closed_form():
    draws = np.random.default_rng(4)
    x, y, others = draws.normal(size=(30, 4)), draws.normal(size=30) + 5, draws.normal(size=(7, 4))
    centred = x - x.mean(0)
    weight = np.linalg.solve(centred.T @ centred + 3.0 * np.eye(4), centred.T @ (y - y.mean()))
    wanted = (others - x.mean(0)) @ weight + y.mean()
    assert ridge_regression(x, y.tolist(), others, 3.0) == pytest.approx(wanted.tolist(), abs=2e-3)


def test_features_are_standardised_by_the_rows_to_learn_from():
    known, features = standardised(np.array([[1.0, 5.0], [3.0, 5.0]]), np.array([[5.0, 6.0]]))
    np.testing.assert_allclose(known, [[-1, 0], [1, 0]])
    np.testing.assert_allclose(features, [[3, 1]])


def test_samples_are_bounded_and_named():
    assert len(sample(range(50_001))) == 16_667 <= 20_000
    assert sample([1, 2]) == [1, 2]
    assert sample([]) == []
    assert named("ridge", 16_667, 50_001) == "ridge (16,667 of 50,001)"
    # of equally frequent labels the first
    assert majority(["b", "a"]).scores["accuracy"] == 0.5


def test_the_features_of_sgc_are_means_of_means_by_degrees():
    x = np.array([[1.0, 0.0], [0.0, 2.0], [4.0, 0.0], [0.0, 7.0]])
    # 0 - 1 - 2, a loop at 2 that counts once, and 3 alone
    edges = np.array([[0, 1, 1, 2, 2], [1, 0, 2, 1, 2]])
    graph = Graph(list("abcd"), SparseTable.of(x), edges)
    near = {0: (0, 1), 1: (0, 1, 2), 2: (1, 2), 3: (3,)}
    wanted = x
    for _ in range(2):
        wanted = np.array([sum(wanted[k] / math.sqrt(len(near[n]) * len(near[k])) for k in near[n]) for n in range(4)])
    np.testing.assert_allclose(feature_table(graph).toarray(), x)
    np.testing.assert_allclose(neighbourhoods(graph, feature_table(graph)).toarray(), wanted)
    # without features each node is its own
    bare = Graph(list("abcd"), SparseTable.of(np.zeros((4, 0))), edges)
    np.testing.assert_allclose(feature_table(bare).toarray(), np.eye(4))


def test_an_autoregression_finds_its_rule_and_goes_on_step_by_step():
    draws = np.random.default_rng(5)
    values = np.zeros((600, 2))
    for step in range(2, 600):
        values[step, 0] = 0.5 + 1.2 * values[step - 1, 0] - 0.6 * values[step - 2, 0] + draws.normal()
        values[step, 1] = -0.7 * values[step - 1, 1] + draws.normal()
    windows = np.stack([values[start : start + 9] for start in range(590)])
    rule = Autoregression.fitted(windows, 6, [1, 0], 3)
    # the order is that of the column that needs more, or a few more that the criterion lets pass
    assert 2 <= rule.order <= 6
    assert rule.weights[1][-3:] == pytest.approx([-0.6, 1.2, 0.5], abs=0.15)
    assert rule.weights[0][-2] == pytest.approx(-0.7, abs=0.1)
    found = rule(windows[:5, :6])
    for row in range(5):
        for number, column in enumerate([1, 0]):
            known = windows[row, :6, column].tolist()
            for step in range(3):
                latest = known[-rule.order :]
                known.append(sum(w * v for w, v in zip(rule.weights[number], [*latest, 1.0], strict=True)))
                assert found[row, step, number] == pytest.approx(known[-1])

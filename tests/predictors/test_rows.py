"""Rows of examples: scores of weighted rows against repeated examples, intervals against scipy's and against draws."""

import json
import math

import numpy as np
import pytest
from scipy import stats

from headwise import metrics
from headwise.errors import ConfigError, DataError
from headwise.predictors.intervals import compare_scores, interval, variance
from headwise.predictors.rows import FORMULAS, Formula, Rows

DRAWS = np.random.default_rng(5)
TEXTS = ["a b c d e", "c d e f g", "a a b c", "g f e d", "b c d e", "e"]
WEIGHTS = np.array([2.0, 0.0, 1.0, 3.0, 1.0, 1.0])
NUMBERS = [DRAWS.uniform(1, 2, 6).tolist() for _ in range(4)]
COLUMNS = {
    "mean": NUMBERS[:2],
    "percent": NUMBERS[:1],
    "bits": NUMBERS[:2],
    "root": NUMBERS[:2],
    "perplexity": NUMBERS[:2],
    "r2": [[0.1, 0.2, 0.3, 0.1, 0.2, 0.1], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0, 4.0, 9.0, 16.0, 25.0, 36.0], [1] * 6],
    "f1": [[1, 0, 2, 1, 0, 1], [2, 1, 2, 3, 0, 1], [1, 1, 3, 2, 1, 1]],
    "macro_f1": [[["A", "B"], ["A"], ["C"], [], ["A"], ["B"]], [["A", "A"], ["B"], ["C"], [], ["B"], ["B"]]],
    "bleu": [metrics.bleu_rows(TEXTS, TEXTS[1:] + TEXTS[:1])],
    "overlap": [[[1, 0], [2, 1], [0, 0], [1, 1], [3, 0], [1, 1]], [[2, 1]] * 6, [[1, 2], [2, 1], [2, 1]] * 2],
    "auc": [[[0.1, 0.7], [0.3], [0.2, 0.9], [0.4], [0.5], [0.3]], [[1, 0], [1], [0, 1], [0], [1], [0]]],
    "rank_correlation": NUMBERS[:2],
}


def test_every_formula_is_here():
    assert COLUMNS.keys() == FORMULAS.keys()


@pytest.mark.parametrize("name", COLUMNS)
def test_weights_are_repetitions(name):
    places = np.repeat(np.arange(6), WEIGHTS.astype(int))
    repeated = [[column[place] for place in places] for column in COLUMNS[name]]
    expected = FORMULAS[name](*repeated)(np.ones(len(places)))
    assert math.isfinite(expected)
    assert FORMULAS[name](*COLUMNS[name])(WEIGHTS) == pytest.approx(expected)


def test_counts_of_single_texts_make_the_bleu_of_the_corpus():
    references = TEXTS[1:] + TEXTS[:1]
    value = FORMULAS["bleu"](metrics.bleu_rows(TEXTS, references))(np.ones(6))
    assert value == pytest.approx(metrics.bleu(TEXTS, references).value)


def right(values, groups=None, question="same"):
    return Rows({"right": list(values)}, {"accuracy": Formula("mean", ("right",))}, question, groups=groups)


def test_a_mean_has_the_interval_of_scipy():
    first, second = DRAWS.integers(0, 2, 80), DRAWS.integers(0, 2, 80)
    found = interval(right(first).resampled(), right(second).resampled())
    expected = stats.bootstrap((first - second,), np.mean, n_resamples=9999, method="BCa", rng=0).confidence_interval
    assert found == pytest.approx((expected.low, expected.high))
    assert variance([right(first).resampled()], [right(second).resampled()]) == pytest.approx(
        np.var(first - second, ddof=1) / 80
    )


def test_equal_differences_have_an_interval_without_width():
    ones, zeros = right([1] * 5).resampled(), right([0] * 5).resampled()
    assert interval(ones, zeros) == (1.0, 1.0)
    assert interval(ones, ones) == (0.0, 0.0)
    assert compare_scores(ones, zeros)["p"] == pytest.approx(2 * 0.5**5)
    assert compare_scores(ones, ones)["p"] == 1.0


def test_one_example_has_no_spread():
    one = right([1]).resampled()
    assert all(map(math.isnan, interval(one)))
    assert math.isnan(variance([one]))
    assert compare_scores(one, one)["interval"] == "unknown: 1 of examples has no spread"


def test_groups_are_drawn_together():
    values = np.repeat(DRAWS.integers(0, 2, 20), 10)
    low, high = interval(right(values, np.repeat(np.arange(20), 10).tolist()).resampled())
    alone_low, alone_high = interval(right(values).resampled())
    # as if each example were one of its own, the interval is about the root of ten narrower
    assert high - low == pytest.approx(math.sqrt(10) * (alone_high - alone_low), rel=0.2)
    uneven = right([1, 0, 1], [0, 0, 1])
    assert uneven.each("accuracy") is None
    assert 0 <= interval(uneven.resampled())[0] <= interval(uneven.resampled())[1] <= 1


def test_a_ratio_is_computed_on_each_draw():
    errors, words = DRAWS.integers(0, 3, 40), DRAWS.integers(3, 9, 40)
    rows = Rows({"e": errors.tolist(), "w": words.tolist()}, {"wer": Formula("percent", ("e", "w"))}, "")
    low, high = interval(rows.resampled())
    assert low < 100 * errors.sum() / words.sum() < high
    assert variance([rows.resampled()]) == pytest.approx(((high - low) / (2 * 1.96)) ** 2, rel=0.2)


def test_other_examples_are_refused():
    with pytest.raises(ConfigError, match="asked different things"):
        compare_scores(right([1, 0]).resampled(), right([1, 0], question="other").resampled())
    with pytest.raises(ConfigError, match="metric 'f1'"):
        right([1, 0]).resampled("f1")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "holds no rows"),
        (["{}"], "holds no rows"),
        (["3"], ":1: must be an object"),
        (["not"], ":1: is no JSON"),
        ([{"headwise rows": 1, "metrics": {}, "question": "", "noun": ""}], "holds no rows"),
        ([{"headwise rows": 2}, {"id": 0}], "holds no rows"),
        ([{"headwise rows": 1, "metrics": {"a": ["mean", "x"]}, "question": "", "noun": ""}, {"group": 0}], "damaged"),
        (
            [{"headwise rows": 1, "metrics": {"a": ["no", "x"]}, "question": "", "noun": ""}, {"group": 0, "x": 1}],
            "dam",
        ),
        ([{"headwise rows": 1, "metrics": 1, "question": "", "noun": ""}, {"group": 0}], "damaged"),
    ],
)
def test_another_file_is_refused(tmp_path, lines, message):
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    with pytest.raises(DataError, match=message):
        Rows.read(path)

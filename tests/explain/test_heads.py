"""What heads do, in numbers equal to loops; heads that choose no key are named, and no others."""

import numpy as np
import pytest
import torch

from headwise.attention.call import Call
from headwise.attention.masks import Causal
from headwise.explain.heads import STATISTICS, Flag, HeadStatistics, describe, odd_heads, roles, similarity
from headwise.layers.attention import MultiHeadAttention
from headwise.predictors.watched_heads import count_allowed
from headwise.records import record

RNG = np.random.default_rng(0)


def drawn(count, queries, keys, spread=1.0):
    return RNG.dirichlet(np.full(keys, spread), (count, queries))


def causal(scores):
    weights = np.where(np.tri(scores.shape[-1], dtype=bool), np.exp(scores), 0)
    return weights / weights.sum(-1, keepdims=True)


def test_summaries_equal_loops():
    weights = drawn(3, 4, 5)
    table = describe(weights, one_sequence=True)
    for number, head in enumerate(weights):
        entropy = [-sum(w * np.log(w) for w in row) for row in head]
        distance = [sum(w * abs(i - j) for j, w in enumerate(row)) for i, row in enumerate(head)]
        assert table["entropy"][number] == pytest.approx(np.mean(entropy))
        assert table["first"][number] == pytest.approx(head[:, 0].mean())
        assert table["distance"][number] == pytest.approx(np.mean(distance))
        assert table["diagonal"][number] == pytest.approx(sum(head[i, i] for i in range(4)) / 4)
        assert table["previous"][number] == pytest.approx(sum(head[i, i - 1] for i in range(1, 4)) / 3)
    assert describe(np.zeros((1, 0, 0)), one_sequence=True)["entropy"] == 0
    # rows without any weight
    assert describe(np.zeros((1, 2, 3)), one_sequence=True)["distance"] == 0


def test_a_row_without_a_place_before_does_not_count():
    before = np.eye(4)[[0, 0, 1, 2]][None]
    assert describe(before, one_sequence=True)["previous"] == 1
    assert describe(before, one_sequence=True, rows=np.array([True, True, False, True]))["previous"] == 1
    # a query behind the last key has no key at its own position
    assert describe(np.eye(4, 2)[None], one_sequence=True)["diagonal"] == 1
    assert describe(np.ones((1, 1, 1)), one_sequence=True)["previous"] == 0


def test_positions_of_two_sequences_are_not_compared():
    weights = drawn(2, 4, 4)
    across = HeadStatistics.of(weights, np.full((1, 4), 4.0), one_sequence=False)
    within = HeadStatistics.of(weights, np.full((1, 4), 4.0))
    told = dict(zip(STATISTICS, across.values, strict=True))
    assert np.isnan([told["distance"], told["diagonal"]]).all()
    np.testing.assert_array_equal(across.values[[0, 3, 4]], within.values[[0, 3, 4]])
    assert odd_heads(across) == odd_heads(within)


def test_rows_without_a_choice_do_not_count():
    weights = causal(RNG.normal(size=(2, 7, 7)))
    counts = np.arange(1.0, 8.0)[None]
    found = HeadStatistics.of(weights, counts)
    assert found.rows == 6
    for head, values in enumerate(found.values.T):
        told = dict(zip(STATISTICS, values, strict=True))
        entropy = [-sum(w * np.log(w) for w in row if w) for row in weights[head, 1:]]
        assert told["entropy"] == pytest.approx(sum(entropy) / sum(np.log(n) for n in range(2, 8)))
        assert told["first"] == pytest.approx(weights[head, 1:, 0].mean())
        assert told["diagonal"] == pytest.approx(np.mean([weights[head, i, i] for i in range(1, 7)]))
        assert told["distance"] == pytest.approx(
            np.mean([sum(w * (i - j) for j, w in enumerate(weights[head, i, : i + 1])) for i in range(1, 7)])
        )
        assert told["redundancy"] == pytest.approx(found.alike[0, 1])
    assert found.alike[0, 1] == pytest.approx(similarity(weights[:, 1:])[0, 1])
    lonely = HeadStatistics.of(np.ones((3, 1, 1)), np.ones((1, 1)))
    assert (lonely.rows, odd_heads(lonely)) == (0, [])


def test_inputs_count_by_their_rows():
    long, short = drawn(2, 9, 5), drawn(2, 3, 5)
    both = HeadStatistics.mean([HeadStatistics.of(one, np.full((1, len(one[0])), 5.0)) for one in (long, short)])
    whole = HeadStatistics.of(np.concatenate([long, short], 1), np.full((1, 12), 5.0))
    np.testing.assert_allclose(both.values[[0, 3]], whole.values[[0, 3]])
    np.testing.assert_allclose(both.alike, whole.alike)
    assert both.rows == 12


def test_heads_that_choose_no_key_are_named():
    uniform = causal(np.zeros((1, 12, 12)))
    first = np.eye(12)[[0] * 12][None]
    before = np.eye(12)[np.maximum(0, np.arange(12) - 1)][None]
    sharp = causal(4 * RNG.normal(size=(1, 12, 12)))
    weights = np.concatenate([sharp, uniform, before, first, sharp, first])
    counts = np.arange(1.0, 13.0)[None]
    assert odd_heads(HeadStatistics.of(weights, counts)) == [
        Flag(1, "uniform"), Flag(3, "one key"), Flag(4, "same", 0), Flag(5, "one key")
    ]  # fmt: skip
    assert odd_heads(HeadStatistics.of(weights[:, :4], counts[:, :4])) == []


def test_a_head_that_is_uniform_over_few_keys_has_chosen_them():
    window = np.where(np.abs(np.subtract.outer(np.arange(12), np.arange(12))) < 2, 1.0, 0.0)
    window = (window / window.sum(-1, keepdims=True))[None]
    assert odd_heads(HeadStatistics.of(window, np.full((1, 12), 12.0))) == []
    # where the mask leaves no others, it has not
    assert odd_heads(HeadStatistics.of(window, (window > 0).sum(-1).astype(float))) == [Flag(0, "uniform")]


def test_keys_are_counted_by_mask_and_bias():
    layer = MultiHeadAttention(8, 2)
    with record(layer) as trace:
        layer(torch.randn(1, 5, 8), mask=Causal())
    (one,) = trace
    assert count_allowed(one).tolist() == [[1, 2, 3, 4, 5]]
    bias = torch.zeros(1, 2, 5, 5)
    bias[0, 1, :, 3:] = -torch.inf
    query = torch.randn(1, 2, 5, 4)
    one.calls[0] = type(one.calls[0])(one.calls[0].mechanism, Call(query, query, query, bias=bias), query)
    assert count_allowed(one).tolist() == [[5.0] * 5, [3.0] * 5]


@pytest.mark.parametrize("causal", [False, True])
def test_roles_are_means_over_the_rows_that_have_such_keys(causal):
    labels = ["a", "b", ".", " a", "b", "c", "<eos>"]
    separators = np.array([False, False, True, False, False, False, True])
    weights = np.random.default_rng(5).dirichlet(np.ones(7), (3, 7))
    if causal:
        weights = np.tril(weights)
        weights /= weights.sum(-1, keepdims=True)
    table = roles(weights, labels, separators, causal=causal)

    def keys(name, q):
        text = [label.strip() for label in labels]
        found = {
            "next": [q + 1],
            "separator": list(np.flatnonzero(separators)),
            "same": [k for k in range(7) if text[k] == text[q] and k != q],
            "induction": [k + 1 for k in range(q) if text[k] == text[q] and k + 1 != q],
        }[name]
        return [k for k in found if k < 7 and not (causal and k > q)]

    for name in ("next", "separator", "same", "induction"):
        rows = [q for q in range(7) if keys(name, q)]
        if not rows:
            assert name not in table
            continue
        exact = [np.mean([sum(head[q, k] for k in keys(name, q)) for q in rows]) for head in weights]
        np.testing.assert_allclose(table[name], exact)

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headwise.errors import ShapeError
from headwise.explain.alignment import bar, focus, links, merge, table, words
from headwise.explain.heads import entropy
from headwise.labels import columns

ROWS, COLUMNS = 5, 7


def weights(seed=0, shape=(ROWS, COLUMNS)):
    return np.random.default_rng(seed).dirichlet(np.ones(shape[-1]), size=shape[:-1])


def test_each_target_is_linked_to_its_strongest_source():
    values = weights()
    expected = sorted((max(range(COLUMNS), key=lambda j: values[i, j]), i) for i in range(ROWS))
    assert links(values) == expected


def test_the_first_of_equals_is_taken_and_an_empty_row_has_no_link():
    assert links(np.array([[0.5, 0.5], [0.0, 0.0]])) == [(0, 0)]


def test_mutual_links_are_strongest_both_ways():
    values = weights(3)
    expected = [
        (j, i)
        for j in range(COLUMNS)
        for i in range(ROWS)
        if values[i, j] == values[i].max() and values[i, j] == values[:, j].max()
    ]
    assert links(values, mutual=True) == sorted(expected)


def test_nothing_has_no_links():
    assert links(np.zeros((0, 3))) == []


def test_tensors_with_a_graph_are_read():
    assert links(torch.eye(3, requires_grad=True).bfloat16()) == [(0, 0), (1, 1), (2, 2)]


@pytest.mark.parametrize(
    ("text", "offsets", "expected"),
    [
        ("chez moi.", [(0, 4), (4, 8), (8, 9)], [0, 1, 1]),
        ("un  deux", [(0, 2), (2, 3), (3, 6), (6, 8)], [0, -1, 1, 1]),
        ("", [(0, 0)], [-1]),
        ("a", [(0, 1), (1, 1)], [0, -1]),
    ],
)
def test_words_are_what_stands_between_spaces(text, offsets, expected):
    assert words(text, offsets) == expected


def test_merging_sums_keys_and_averages_queries():
    values = weights()
    query_words, key_words = [0, 0, 1, 2, 2], [0, 1, 1, 2, 3, 3, 3]
    merged = merge(values, query_words, key_words)
    for query in range(3):
        for key in range(4):
            rows = [i for i in range(ROWS) if query_words[i] == query]
            expected = sum(values[i, j] for i in rows for j in range(COLUMNS) if key_words[j] == key) / len(rows)
            assert merged[query, key] == pytest.approx(expected)
    np.testing.assert_allclose(merged.sum(axis=1), 1.0)


def test_what_is_in_no_word_is_left_out():
    assert merge(np.array([[0.7, 0.3], [0.5, 0.5]]), [0, -1], [0, -1]).tolist() == [[0.7]]


def test_merge_names_what_does_not_fit():
    with pytest.raises(ShapeError, match=r"\(5, 7\).*4 queries"):
        merge(weights(), [0] * 4, [0] * 7)


def test_entropy_of_rows():
    np.testing.assert_allclose(entropy(np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 0.0]])), [0.0, math.log(2), 0.0])


@given(st.integers(0, 1000))
def test_focus_is_between_nothing_and_the_number_of_queries_or_keys(seed):
    values = weights(seed)
    assert 0.0 <= focus(values) <= math.log(min(ROWS, COLUMNS)) + 1e-9
    assert focus(values[[2, 2, 2]]) == pytest.approx(0.0, abs=1e-12)


def test_the_table_has_the_strongest_keys_with_bars():
    values = np.array([[0.75, 0.05, 0.2], [0.0, 1.0, 0.0]])
    lines = table(values, ["va", "!"], ["go", "you", "."], top=2).splitlines()
    assert lines == ["va  go  0.75 ██████    .   0.20 █▋", "!   you 1.00 ████████  go  0.00"]


def test_the_table_shows_control_characters_as_text_and_counts_wide_ones_twice():
    text = table(np.eye(2), ["\x1b[2J", "你好"], ["\n", "世界"], top=1)
    assert "\x1b" not in text
    assert r"\x1b[2J" in text
    first, second = text.splitlines()
    assert columns(first.partition("1.00")[0]) == columns(second.partition("1.00")[0])


def test_the_table_names_what_does_not_fit():
    with pytest.raises(ShapeError, match=r"\(5, 7\).*1 queries"):
        table(weights(), ["a"], list("abcdefg"))


@pytest.mark.parametrize(
    ("weight", "drawn"), [(0.0, ""), (1.0, "████████"), (0.0625, "▌"), (2.0, "████████"), (-1.0, "")]
)
def test_bars(weight, drawn):
    assert bar(weight) == drawn


def test_a_table_of_weights_below_zero_is_by_size():
    line = table(np.array([[0.2, -0.9, 0.1]]), ["hat"], ["shoe", "hat", "scarf"], top=2)
    assert line.split() == ["hat", "hat", "-0.90", "shoe", "0.20", "█▋"]

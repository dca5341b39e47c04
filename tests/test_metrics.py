import math
import subprocess
import sys

import pytest

from headwise.errors import DataError
from headwise.metrics import (
    alignment_scores,
    bleu,
    chrf,
    f1,
    macro_f1,
    perplexity,
    spearman,
    textbook_bleu,
)


@pytest.mark.parametrize(
    ("prediction", "label", "k", "value"),
    [
        # the demo translations of Dive into Deep Learning, section 10.7
        ("va !", "va !", 2, 1.0),
        ("il est riche .", "il est calme .", 2, 0.658),
        ("je suis .", "je suis chez moi .", 2, 0.4317),
        ("", "va !", 2, 0.0),
        ("va", "va !", 2, math.exp(-1)),
        # shorter than k: judged by its one- and two-grams
        ("va !", "va !", 4, 1.0),
        ("non non", "va !", 2, 0.0),
        # "the" counts twice at most: 2/7 of the one-grams, none of the two-grams but k is 1
        ("the the the the the the the", "the cat is on the mat .", 1, (2 / 7) ** 0.5),
        # a longer prediction has no brevity penalty: 2/3 and 1/2
        ("a b c", "a b", 2, (2 / 3) ** 0.5 * (1 / 2) ** 0.25),
        ("a", "", 1, 0.0),
    ],
)
def test_textbook_bleu(prediction, label, k, value):
    assert textbook_bleu(prediction, label, k) == pytest.approx(value, abs=5e-5)


def test_bleu_is_sacrebleu_s():
    hypotheses, references = ["the cat sat on a mat .", "hello there !"], ["the cat sat on the mat .", "hello there !"]
    # by hand: 6 + 3 of 10 one-grams, 4 + 2 of 8 two-grams, 2 + 1 of 6 three-grams, 1 of 4 four-grams; equal lengths
    value, signature = bleu(hypotheses, references)
    assert value == pytest.approx(100 * (9 / 10 * 6 / 8 * 3 / 6 * 1 / 4) ** 0.25, abs=1e-9)
    assert "tok:13a" in signature
    assert "nrefs:1" in signature
    assert bleu(references, references).value == 100.0
    assert bleu(["The Cat sat on the mat ."], ["the cat sat on the mat ."]).value < 100
    assert bleu(["The Cat sat on the mat ."], ["the cat sat on the mat ."], lowercase=True).value == 100.0
    assert bleu(["你好世界啊"], ["你好世界啊"], tokenize="zh").value == 100.0


def test_chrf_is_sacrebleu_s():
    assert chrf(["hello there"], ["hello there"]).value == pytest.approx(100)
    assert 0 < chrf(["hello here"], ["hello there"]).value < 100
    assert "nc:6" in chrf(["a"], ["a"]).signature


@pytest.mark.parametrize("score", [bleu, chrf])
def test_texts_must_pair(score):
    with pytest.raises(DataError, match=r"1 hypotheses .*2 references"):
        score(["a"], ["a", "b"])
    with pytest.raises(DataError, match="no hypotheses"):
        score([], [])


def test_perplexity():
    assert perplexity(5 * math.log(11), 5) == pytest.approx(11)
    assert perplexity(0.0, 3) == 1.0
    assert perplexity(1e9, 1) == math.inf
    assert math.isnan(perplexity(math.nan, 1))


def test_a_mean_over_nothing_is_an_error():
    with pytest.raises(DataError, match="0 tokens"):
        perplexity(0.0, 0)


def test_importing_metrics_imports_neither_torch_nor_sacrebleu():
    code = "import sys, headwise.metrics; sys.exit('torch' in sys.modules or 'sacrebleu' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(("right", "predicted", "gold"), [(2, 4, 3), (1, 1, 1), (0, 2, 3), (5, 7, 11)])
def test_f1_is_the_harmonic_mean_of_precision_and_recall(right, predicted, gold):
    precision, recall = right / predicted, right / gold
    expected = 2 * precision * recall / (precision + recall) if right else 0.0
    assert f1(float(right), float(predicted), float(gold)) == pytest.approx(expected)


def test_macro_f1_is_over_classes_that_occur():
    assert f1(0.0, 0.0, 0.0) == 0.0
    # the third class occurs nowhere, the fourth is only predicted
    assert macro_f1([2.0, 1.0, 0.0, 0.0], [4.0, 1.0, 0.0, 3.0], [4.0, 1.0, 0.0, 0.0]) == pytest.approx(
        (0.5 + 1 + 0) / 3
    )
    assert math.isnan(macro_f1([0.0], [0.0], [0.0]))


def test_alignment_scores_are_those_of_all_pairs_at_once():
    found, sure, possible = [[(0, 0), (1, 1), (2, 0)], [(0, 1)]], [[(0, 0), (3, 3)], []], [[(0, 0), (1, 1)], []]
    # |A| = 4, |S| = 2, |A & S| = 1, |A & P| = 2
    wanted = {"aer": 100 * (1 - 3 / 6), "precision": 50.0, "recall": 50.0}
    assert alignment_scores(found, sure, possible) == wanted


def test_links_that_are_all_sure_or_possible_have_no_error_if_no_sure_one_is_missing():
    scores = alignment_scores([[(0, 0), (1, 1)]], [[(0, 0)]], [[(0, 0), (1, 1), (5, 5)]])
    assert scores == {"aer": 0.0, "precision": 100.0, "recall": 100.0}


def test_alignment_scores_of_nothing_are_nan_and_of_other_pairs_an_error():
    assert all(math.isnan(value) for value in alignment_scores([[]], [[]], [[]]).values())
    with pytest.raises(DataError, match=r"2 pairs .*1 and 1"):
        alignment_scores([[], []], [[]], [[]])


def test_spearman_against_hand_worked_ranks():
    # around their mean the ranks are -1.5 -0.5 0.5 1.5 and 1.5 0 0 -1.5
    assert spearman([1.0, 2.0, 3.0, 4.0], [8.0, 5.0, 5.0, 1.0]) == pytest.approx(-4.5 / (5 * 4.5) ** 0.5)
    assert spearman([3.0, 1.0, 2.0], [30.0, 10.0, 20.0]) == pytest.approx(1.0)
    assert math.isnan(spearman([1.0, 1.0], [1.0, 2.0]))
    assert math.isnan(spearman([], []))
    with pytest.raises(DataError, match="2 numbers against 1"):
        spearman([1.0, 2.0], [1.0])

"""The n-gram model against its formula written out in loops, and that its probabilities are probabilities."""

import math
from collections import Counter

import numpy as np
import pytest

from headwise.data.streams import Text
from headwise.tasks.language import ngram
from headwise.tasks.language.ngram import NGrams

VOCAB = 11
DRAWN = np.random.default_rng(0)
# repeats itself, so that long n-grams occur more than once; token 10 never occurs
TRAIN = np.concatenate([[1], DRAWN.integers(3, 7, 120), DRAWN.integers(2, 10, 60), DRAWN.integers(3, 6, 90)])
OTHER = np.concatenate([[1], DRAWN.integers(3, 6, 40), [9, 10, 2, 10, 10], DRAWN.integers(2, 11, 30)])


class Loops:
    """Interpolated Kneser-Ney by dictionaries of tuples."""

    def __init__(self, tokens, order):
        tokens = tokens.tolist()
        grams = [
            tuple(tokens[end - size : end]) for size in range(1, order + 2) for end in range(size, len(tokens) + 1)
        ]
        raw = Counter(grams)
        self.order, self.counts = order, {}
        for gram, count in raw.items():
            if len(gram) == order:
                self.counts[gram] = count
            elif len(gram) < order:
                # how many different tokens stand before it
                self.counts[gram] = sum(1 for longer in raw if len(longer) == len(gram) + 1 and longer[1:] == gram)

    def discount(self, size):
        seen = Counter(count for gram, count in self.counts.items() if len(gram) == size)
        return seen[1] / (seen[1] + 2 * seen[2]) if seen[1] and seen[2] else 0.5

    def probability(self, context, token):
        if len(context) == self.order:
            return self.probability(context[1:], token)
        lower = self.probability(context[1:], token) if context else 1 / VOCAB
        size = len(context) + 1
        found = [self.counts.get((*context, other), 0) for other in range(VOCAB)]
        if not sum(found):
            return lower
        off, types = self.discount(size), sum(count > 0 for count in found)
        return (max(found[token] - off, 0) + off * types * lower) / sum(found)


@pytest.mark.parametrize("order", [1, 2, 3, 5])
@pytest.mark.parametrize("tokens", [TRAIN, OTHER])
def test_probabilities_are_those_of_the_formula(order, tokens):
    loops = Loops(TRAIN, order)
    wanted = [
        loops.probability(tuple(tokens[max(0, place - order + 1) : place].tolist()), int(tokens[place]))
        for place in range(1, len(tokens))
    ]
    found = NGrams(TRAIN.astype(np.uint16), order, VOCAB).probabilities(tokens.astype(np.uint16))
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("order", [1, 2, 4])
def test_all_tokens_together_are_certain(order):
    model = NGrams(TRAIN, order, VOCAB)
    for context in ([1], [5, 4, 3], [10, 10], [9, 10], TRAIN[-3:].tolist()):
        odds = [model.probabilities(np.array([*context, token]))[-1] for token in range(VOCAB)]
        assert sum(odds) == pytest.approx(1.0, abs=1e-12)
        assert min(odds) > 0


@pytest.mark.parametrize("order", [1, 3])
def test_a_long_text_is_scored_in_parts(order, monkeypatch):
    model, text = NGrams(TRAIN, order, VOCAB), Text(OTHER, 1)
    whole = model.nll(text)
    assert whole == pytest.approx(-np.log(model.probabilities(OTHER)).sum())
    monkeypatch.setattr(ngram, "_CHUNK", 7)
    assert model.nll(text) == pytest.approx(whole, rel=1e-12)


def test_no_more_is_counted_than_the_limit_says(monkeypatch):
    short = NGrams(TRAIN[:51], 3, VOCAB).probabilities(OTHER)
    assert not np.allclose(short, NGrams(TRAIN, 3, VOCAB).probabilities(OTHER))
    monkeypatch.setattr(ngram, "COUNTED", 50)
    np.testing.assert_array_equal(NGrams(TRAIN, 3, VOCAB).probabilities(OTHER), short)


@pytest.mark.parametrize("tokens", [[1, 4], [1, 4, 4, 4], [1, 2, 3]])
def test_the_smallest_texts_give_probabilities(tokens):
    for order in (1, 2, 5):
        model = NGrams(np.array(tokens), order, VOCAB)
        odds = [model.probabilities(np.array([1, 4, token]))[-1] for token in range(VOCAB)]
        assert sum(odds) == pytest.approx(1.0)
        assert math.isfinite(model.nll(Text(np.array([1, 10, 10]), 2)))

"""The probe of what a word looks at: shares added up by hand, words of several tokens, and what cannot be compared."""

import numpy as np
import pytest

from headwise.errors import Unsupported
from headwise.explain.explanation import Explanation, Layer
from headwise.predictors.predictor import Predictor
from headwise.predictors.pronouns import SENTENCES, lines, probe, tokens_of

TOKENS = ["The", "cat", "dr", "##ank", "mi", "##lk", "it"]


def explanation(causal=False, heads=3, layers=2):
    draws = np.random.default_rng(3)
    found = {}
    for number in range(layers):
        weights = draws.random((heads, 7, 7))
        weights = np.tril(weights) if causal else weights
        found[f"encoder.{number}"] = Layer(weights / weights.sum(-1, keepdims=True), TOKENS, TOKENS, "self", causal)
    other = Layer(np.ones((heads, 2, 7)) / 7, ["x", "y"], TOKENS, "self")
    return Explanation("", "", {**found, "decoder.0": other})


@pytest.mark.parametrize("causal", [False, True])
def test_shares_are_sums_over_the_tokens_of_a_word(causal):
    found = explanation(causal)
    result = probe(found, "it", "cat", "milk")
    assert result.layers == ["encoder.0", "encoder.1"]
    assert result.causal == causal
    more, total, best = 0.0, [0.0, 0.0], (-9.0, None)
    for name in result.layers:
        for head, weights in enumerate(found.layers[name].weights):
            cat, milk = weights[6, 1], weights[6, 4] + weights[6, 5]
            more += cat > milk
            total = [total[0] + cat / 6, total[1] + milk / 6]
            best = max(best, (cat - milk, (name, head)))
    assert result.mean == pytest.approx(tuple(total))
    assert result.score == pytest.approx(more / 6)
    assert result.best[:2] == best[1]
    assert result.even == pytest.approx((1 / 7, 2 / 7))
    # a word of several tokens looks from its last one
    assert probe(found, "drank", "the", "cat").mean[1] == pytest.approx(
        np.mean([layer.weights[:, 3, 1] for name, layer in found.layers.items() if name in result.layers])
    )


def test_even_rows_decide_nothing():
    even = Layer(np.full((2, 3, 3), 1 / 3), ["a", "b", "it"], ["a", "b", "it"], "self")
    assert probe(Explanation("", "", {"x": even}), "it", "a", "b").score == 0.5


@pytest.mark.parametrize(
    ("found", "words", "message"),
    [
        (explanation(), ("it", "dog", "milk"), "the tokens of this model do not spell 'dog'"),
        (explanation(causal=True), ("cat", "the", "milk"), "'cat' cannot see 'milk' behind it"),
        (Explanation("", "", {}), ("it", "cat", "milk"), "no self-attention over what it reads"),
    ],
)
def test_what_cannot_be_compared_is_said(found, words, message):
    with pytest.raises(Unsupported, match=message):
        probe(found, *words)


def test_labels_of_tokenizers():
    assert tokens_of(["\u0120It", "\u0120was"], "it") == [0]
    assert tokens_of(["c", "ca", "t", "cat"], "cat") == [1, 2]
    assert tokens_of([" milk", "."], "milk") == [0]
    assert tokens_of([], "it") == []


class Words(Predictor):
    """Looks at words between blanks; nine tenths of "it" on what the sentence means, where it can be known."""

    def parse(self, text):
        return text

    def predict(self, items, options=None):
        return list(items)

    def explain(self, text, target=None):
        tokens = text.lower().split()
        weights = np.full((1, len(tokens), len(tokens)), 0.1 / len(tokens))
        meant = next(sentence.meant for sentence in SENTENCES if sentence.text == text)
        weights[:, :, tokens.index(meant)] += 0.9
        return Explanation(text, "", {"encoder.0": Layer(weights, tokens, tokens, "self")})


def test_a_model_that_knows_has_the_full_score():
    shown = lines(Words())
    assert "score: 1.00 of the heads prefer the word that is meant (chance: 0.50), 5 sentences" in shown
    assert "'tired' in place of 'wide': +90.00 points of the row of 'it' for 'animal'" in shown
    assert "'hungry' in place of 'sweet': +90.00 points of the row of 'it' for 'cat'" in shown
    assert shown[0] == SENTENCES[0].text
    assert "  cat has more in 100% of 1 heads; most in encoder.0, head 0: 91.11 % to 1.11 %" in shown

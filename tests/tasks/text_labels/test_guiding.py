"""Weights that are given to a classifier of single tokens, and the adversary of a pooling."""

import numpy as np
import pytest
import torch

from headwise.data.batches import Ragged
from headwise.errors import ShapeError, Unsupported
from headwise.models.pooled_encoder import build_pooled_encoder
from headwise.models.pooling import SequencePoolingConfig
from headwise.models.token_encoders import AloneConfig
from headwise.tasks.text.labelled import TextRows
from headwise.tasks.text_labels.guiding import Guide, adversary, guided, pooled_weights

LENGTH, VOCABULARY = 5, 12


def drawn(count, seed):
    """Tokens 4 to 11 in rows of equal length; the label is the parity of the token at one place, which differs."""
    random = np.random.default_rng(seed)
    tokens, places = random.integers(4, VOCABULARY, (count, LENGTH)), random.integers(0, LENGTH, count)
    labels = tokens[np.arange(count), places] % 2
    return TextRows(Ragged.of(tokens.tolist()), labels, 0), np.eye(LENGTH)[places]


def model(kind="attention", seed=0):
    torch.manual_seed(seed)
    config = AloneConfig(d_model=8, d_ff=8, dropout=0.0)
    pooling = SequencePoolingConfig(kind=kind)
    return build_pooled_encoder(config, pooling, VOCABULARY, 2, embedding_std=1.0, token_dropout=0.0)


def test_weights_on_the_deciding_token_make_a_reader_of_single_tokens_right():
    (train, pointed), (test, asked) = drawn(600, 1), drawn(200, 2)
    right = guided(Guide(train, list(pointed)), Guide(test, list(asked)), VOCABULARY, 2)
    assert sum(right) / len(right) > 0.98
    elsewhere = guided(
        Guide(train, list(np.roll(pointed, 1, 1))), Guide(test, list(np.roll(asked, 1, 1))), VOCABULARY, 2
    )
    assert 0.35 < sum(elsewhere) / len(elsewhere) < 0.65


def test_the_same_seed_gives_the_same_answers_and_leaves_the_random_state():
    rows, weights = drawn(60, 3)
    guide, before = Guide(rows, list(weights)), torch.get_rng_state()
    assert guided(guide, guide, VOCABULARY, 2, seed=4) == guided(guide, guide, VOCABULARY, 2, seed=4)
    assert torch.equal(torch.get_rng_state(), before)


def test_weights_of_another_text_are_refused():
    rows, weights = drawn(4, 1)
    with pytest.raises(ShapeError, match="weight for each of its tokens"):
        guided(Guide(rows, [row[:-1] for row in weights]), Guide(rows, list(weights)), VOCABULARY, 2)


def test_weights_of_a_pooling_are_those_of_its_tokens():
    rows = TextRows(Ragged.of([[4, 5, 6], [], [7]]), np.zeros(3, int), 0)
    weights = pooled_weights(model(), rows)
    assert [len(row) for row in weights] == [3, 0, 1]
    assert weights[0].sum() == pytest.approx(1, abs=1e-6)
    assert weights[2] == pytest.approx([1.0])
    with pytest.raises(Unsupported, match=r"pooling\.kind=attention"):
        pooled_weights(model("mean"), rows)


def test_an_adversary_that_wants_nothing_is_the_model_and_a_strong_one_looks_elsewhere():
    rows, _ = drawn(100, 5)
    first = model()
    before = {name: value.clone() for name, value in first.state_dict().items()}

    def moved(strength):
        other = adversary(first, rows, strength=strength)
        pairs = zip(pooled_weights(first, rows), pooled_weights(other, rows), strict=True)
        return float(np.mean([np.abs(own - another).sum() / 2 for own, another in pairs]))

    # rounding alone
    assert moved(0.0) < 0.01
    assert moved(10.0) > 0.05
    assert all(torch.equal(before[name], value) for name, value in first.state_dict().items())

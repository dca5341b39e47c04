"""Additive attention over keys that are projected already: equal to the score by its definition."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from headwise.attention.call import Call
from headwise.attention.masks import Causal, Padding
from headwise.attention.mechanisms.scored import Scored
from headwise.attention.scores import Additive
from headwise.errors import ShapeError, Unsupported
from headwise.tasks.translation.recurrent import AdditiveAttention

MASKS = {
    "none": None,
    "lengths": Padding(torch.tensor([7, 3, 0])),
    "shared": Padding(torch.tensor([7, 3, 0])).shared(),
    "by query": Padding(torch.tensor([[1, 0, 7, 7, 2], [0, 0, 0, 0, 0], [5, 4, 3, 2, 1]])) & Causal(),
}


def numbers(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def parts(normalizer="softmax"):
    """The mechanism, the score with the same numbers, a query, a key and a value."""
    score = Additive(2, 5, 11).double()
    attention = AdditiveAttention(11, normalizer).double()
    attention.value = score.value
    return attention, score, numbers(3, 1, 5, 2), numbers(3, 1, 7, 5), numbers(3, 1, 7, 6)


@pytest.mark.parametrize("normalizer", ["softmax", "sparsemax", "relu"])
@pytest.mark.parametrize("name", MASKS)
def test_it_is_the_additive_score(name, normalizer):
    attention, score, query, key, value = parts(normalizer)
    plain = Scored(score, normalizer, kernel="plain")
    given = Call(query, key, value, score, mask=MASKS[name])
    projected = replace(given, query=score.query(query), key=score.key(key), score="scaled_dot")
    learned, direction = [query, key, value, *score.parameters()], torch.randn(3, 1, 5, 6, dtype=torch.float64)
    found = attention(projected)
    expected = plain(given)
    gradients = (torch.autograd.grad(output, learned, direction) for output in (found, expected))
    for one, two in [(found, expected), *zip(*gradients, strict=True)]:
        assert_close(one, two, rtol=0, atol=1e-13)
    cut = attention.weights(projected, [0], slice(1, 4), slice(2, None))
    assert_close(cut, plain.weights(given, [0], slice(1, 4), slice(2, None)), rtol=0, atol=1e-13)


def test_a_shared_mask_serves_calls_of_other_lengths():
    attention, score, query, key, value = parts()
    mask = Padding(torch.tensor([3, 2, 0])).shared()
    query, key = score.query(query), score.key(key)
    whole = attention(Call(query, key, value, mask=mask))
    part = attention(Call(query[:, :, :2], key[:, :, :3], value[:, :, :3], mask=mask))
    alone = attention(Call(query, key[:, :, :3], value[:, :, :3], mask=Padding(torch.tensor([3, 2, 0]))))
    assert_close(part, alone[:, :, :2], rtol=0, atol=0)
    assert_close(attention(Call(query, key, value, mask=mask)), whole, rtol=0, atol=0)


def test_dropout_drops_weights_while_training():
    attention = AdditiveAttention(4, dropout=0.5)
    key = torch.ones(500, 1, 1, 4)
    call = Call(key, key, key)
    assert sorted(attention(call).unique().tolist()) == [0.0, 2.0]
    assert_close(attention.weights(call), torch.ones(500, 1, 1, 1))
    assert_close(attention.eval()(call), key)


def test_what_it_refuses():
    x = torch.zeros(2, 2, 3, 4)
    with pytest.raises(ShapeError, match=r"AdditiveAttention\(4\) takes one head of that width, got 2 of width 4"):
        AdditiveAttention(4)(Call(x, x, x))
    with pytest.raises(ShapeError, match=r"AdditiveAttention\(5\) takes one head of that width, got 1 of width 4"):
        AdditiveAttention(5)(Call(x[:, :1], x[:, :1], x[:, :1]))
    with pytest.raises(Unsupported, match="AdditiveAttention has no scores that a bias could be added to"):
        AdditiveAttention(4)(Call(x[:, :1], x[:, :1], x[:, :1], bias=torch.zeros(1, 1, 1, 3)))


def test_a_shared_mask_serves_calls_from_other_positions():
    attention, score, query, key, value = parts()
    shared, query, key = Causal().shared(), score.query(query)[:, :, :1], score.key(key)
    for start in (0, 3):
        found, alone = (attention(Call(query, key, value, mask=mask, query_start=start)) for mask in (shared, Causal()))
        assert torch.equal(found, alone)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("query_len", [1, 5])
@pytest.mark.parametrize("name", ["none", "lengths"])
def test_the_output_has_the_type_of_the_values_under_autocast(name, query_len, kind):
    attention = AdditiveAttention(11)
    query, key, value = (torch.randn(3, 1, length, 11).to(kind) for length in (query_len, 7, 7))
    with torch.autocast("cpu", torch.bfloat16):
        found = attention(Call(query, key, value, mask=MASKS[name]))
    assert found.dtype == kind

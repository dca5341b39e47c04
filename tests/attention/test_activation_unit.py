"""The activation unit of deep interest networks."""

import pytest
import torch
from torch.nn import functional as F

from headwise.attention import attend
from headwise.attention.masks import Padding
from headwise.attention.scores import ActivationUnit
from headwise.errors import ConfigError


@pytest.mark.parametrize("activation", ["prelu", "sigmoid"])
@pytest.mark.parametrize("hidden", [[6], [6, 5]])
def test_the_parts_of_the_first_layer_are_the_layer_over_four_vectors_side_by_side(activation, hidden):
    unit = ActivationUnit(4, hidden, activation).double()
    with torch.no_grad():
        for parameter in unit.parameters():
            parameter.normal_()
    query, key = torch.randn(2, 3, 5, 4, dtype=torch.float64), torch.randn(2, 3, 7, 4, dtype=torch.float64)
    actual = unit(query, key)
    for i, j in torch.cartesian_prod(torch.arange(5), torch.arange(7)).tolist():
        q, k = query[:, :, i], key[:, :, j]
        expected = unit.rest(unit.first(torch.cat((q, k, q - k, q * k), -1)))[..., 0]
        torch.testing.assert_close(actual[:, :, i, j], expected)
    assert unit.pair_width(query) == 6


def test_an_item_equal_to_the_candidate_gets_the_largest_weight():
    """-|q - k|_1: two hidden numbers for each of the vector, max(q - k, 0) and max(k - q, 0)."""
    unit = ActivationUnit(4, [8])
    with torch.no_grad():
        for parameter in unit.parameters():
            parameter.zero_()
        unit.first.weight[:, 8:12] = torch.cat((torch.eye(4), -torch.eye(4)))
        unit.rest[1].weight.fill_(-1.0)
    candidate, history = torch.randn(2, 1, 1, 4), torch.randn(2, 1, 7, 4)
    history[0, 0, 3], history[1, 0, 1] = candidate[0, 0, 0], candidate[1, 0, 0]
    distances = (candidate - history).abs().sum(-1)
    torch.testing.assert_close(unit(candidate, history).squeeze(2), -distances)
    # with softmax, and without: the sum pooling of the paper
    for normalizer, weights in (("softmax", F.softmax(-distances, -1)), ("identity", -distances)):
        assert weights.argmax(-1).flatten().tolist() == [3, 1]
        pooled = attend(candidate, history, history, score=unit, normalizer=normalizer)
        torch.testing.assert_close(pooled, weights.unsqueeze(-2) @ history)


def test_sum_pooling_leaves_padding_out_and_keeps_the_size():
    """Two equal items count twice without softmax, and once with it."""
    candidate, item, unit = torch.randn(1, 1, 1, 4), torch.randn(1, 1, 1, 4), ActivationUnit(4)
    twice, padded = item.expand(1, 1, 2, 4), torch.cat((item, torch.randn(1, 1, 5, 4)), 2)
    for normalizer, factor in (("identity", 2.0), ("softmax", 1.0)):
        once = attend(candidate, item, item, score=unit, normalizer=normalizer)
        output = attend(candidate, twice, twice, score=unit, normalizer=normalizer)
        torch.testing.assert_close(output, factor * once)
        mask = Padding(torch.tensor([1]))
        output = attend(candidate, padded, padded, score=unit, normalizer=normalizer, mask=mask)
        torch.testing.assert_close(output, once)


def test_options_that_are_not_allowed():
    with pytest.raises(ConfigError, match="unknown activation 'relu'; did you mean 'prelu'"):
        ActivationUnit(4, activation="relu")
    message = r"hidden \(\) must name the width of at least one hidden layer, such as \(36,\)"
    with pytest.raises(ConfigError, match=message):
        ActivationUnit(4, [])

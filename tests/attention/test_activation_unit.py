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
    assert actual.shape == (2, 3, 5, 7)
    for i in range(5):
        for j in range(7):
            q, k = query[:, :, i], key[:, :, j]
            torch.testing.assert_close(
                actual[:, :, i, j], unit.rest(unit.first(torch.cat((q, k, q - k, q * k), -1)))[..., 0]
            )
    assert unit.pair_width(query) == 6


def _difference(dim: int) -> ActivationUnit:
    """-|q - k|_1: two hidden numbers for each of the vector, max(q - k, 0) and max(k - q, 0)."""
    unit = ActivationUnit(dim, [2 * dim])
    with torch.no_grad():
        for parameter in unit.parameters():
            parameter.zero_()
        unit.first.weight[:dim, 2 * dim : 3 * dim] = torch.eye(dim)
        unit.first.weight[dim:, 2 * dim : 3 * dim] = -torch.eye(dim)
        unit.rest[1].weight.fill_(-1.0)
    return unit


def test_an_item_equal_to_the_candidate_gets_the_largest_weight():
    candidate, history = torch.randn(2, 1, 1, 4), torch.randn(2, 1, 7, 4)
    history[0, 0, 3], history[1, 0, 1] = candidate[0, 0, 0], candidate[1, 0, 0]
    distances = (candidate - history).abs().sum(-1)
    score = _difference(4)
    torch.testing.assert_close(score(candidate, history).squeeze(2), -distances)
    # with softmax, and without: the sum pooling of the paper
    for normalizer, weights in (("softmax", F.softmax(-distances, -1)), ("identity", -distances)):
        assert weights.argmax(-1).flatten().tolist() == [3, 1]
        pooled = attend(candidate, history, history, score=score, normalizer=normalizer)
        torch.testing.assert_close(pooled, weights.unsqueeze(-2) @ history)


def test_sum_pooling_leaves_padding_out_and_keeps_the_size():
    """Two equal items count twice without softmax, and once with it."""
    candidate, item = torch.randn(1, 1, 1, 4), torch.randn(1, 1, 1, 4)
    unit = ActivationUnit(4)
    once, twice, padded = item, item.expand(1, 1, 2, 4), torch.cat((item, torch.randn(1, 1, 5, 4)), 2)
    for normalizer, factor in (("identity", 2.0), ("softmax", 1.0)):
        results = [attend(candidate, h, h, score=unit, normalizer=normalizer) for h in (once, twice)]
        torch.testing.assert_close(results[1], factor * results[0])
        mask = Padding(torch.tensor([1]))
        output = attend(candidate, padded, padded, score=unit, normalizer=normalizer, mask=mask)
        torch.testing.assert_close(output, results[0])


def test_options_that_are_not_allowed():
    with pytest.raises(ConfigError, match="unknown activation 'relu'; did you mean 'prelu'"):
        ActivationUnit(4, activation="relu")
    with pytest.raises(
        ConfigError, match=r"hidden \(\) must name the width of at least one hidden layer, such as \(36,\)"
    ):
        ActivationUnit(4, [])

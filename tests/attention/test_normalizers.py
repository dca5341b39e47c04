"""Scores to weights."""

import math

import pytest
import torch

from headwise.attention import normalizers
from headwise.attention.masks import Padding
from headwise.attention.normalizers import relu, sigmoid, softmax
from headwise.errors import ConfigError

NAN = float("nan")


def test_zero_scores_under_lengths_of_sequences():
    """Lengths 2 and 3 of four keys give halves and thirds."""
    keep = Padding(torch.tensor([2, 3])).dense(2, 1, 2, 4)
    weights = softmax(torch.zeros(2, 1, 2, 4), keep)
    third = 1 / 3
    expected = torch.tensor([[[[0.5, 0.5, 0, 0]] * 2], [[[third, third, third, 0]] * 2]])
    torch.testing.assert_close(weights, expected)


def test_zero_scores_under_lengths_of_queries():
    """Lengths [[1, 3], [2, 4]] of four keys."""
    keep = Padding(torch.tensor([[1, 3], [2, 4]])).dense(2, 1, 2, 4)
    weights = softmax(torch.zeros(2, 1, 2, 4), keep)
    third = 1 / 3
    expected = torch.tensor([[[1, 0, 0, 0], [third, third, third, 0]], [[0.5, 0.5, 0, 0], [0.25] * 4]])
    torch.testing.assert_close(weights[:, 0], expected)


def test_weights_sum_to_one_over_the_keys_and_not_over_the_queries():
    scores = torch.randn(2, 3, 5, 7)
    weights = softmax(scores, None)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 5))
    assert (weights.sum(-2) - 1).abs().max() > 0.1


def test_a_row_of_the_definition():
    scores = [0.3, -1.2, 2.0]
    powers = [math.exp(score) for score in scores]
    expected = [power / sum(powers) for power in powers]
    assert softmax(torch.tensor([[[scores]]]), None).flatten().tolist() == pytest.approx(expected, rel=1e-6)


def test_relu_and_sigmoid_rows_need_not_sum_to_one():
    scores = torch.tensor([[[[2.0, -1.0, 3.0, 9.0]]]])
    keep = torch.tensor([[[[True, True, True, False]]]])
    assert relu(scores, keep).flatten().tolist() == pytest.approx([2 / 3, 0, 1, 0])
    assert relu(scores, None).flatten().tolist() == pytest.approx([0.5, 0, 0.75, 2.25])
    expected = [1 / (1 + 3 * math.exp(-score)) for score in (2.0, -1.0, 3.0)]
    assert sigmoid(scores, keep).flatten().tolist() == pytest.approx([*expected, 0.0])
    expected = [1 / (1 + 4 * math.exp(-score)) for score in (2.0, -1.0, 3.0, 9.0)]
    assert sigmoid(scores, None).flatten().tolist() == pytest.approx(expected)


@pytest.mark.parametrize("normalizer", [softmax, relu, sigmoid])
def test_scores_are_not_changed(normalizer):
    """Masking is not done in place: the caller's scores stay."""
    scores = torch.randn(2, 1, 3, 4)
    before = scores.clone()
    normalizer(scores, Padding(torch.tensor([2, 0])).dense(2, 1, 3, 4))
    assert torch.equal(scores, before)


@pytest.mark.parametrize("normalizer", [softmax, relu, sigmoid])
def test_a_row_without_a_key_is_zero_with_zero_gradient(normalizer):
    scores = torch.tensor([[[[1.0, NAN, float("inf")], [1.0, 2.0, NAN]]]], requires_grad=True)
    keep = torch.tensor([[[[False] * 3, [True, True, False]]]])
    weights = normalizer(scores, keep)
    assert not weights[0, 0, 0].any()
    assert weights[0, 0, 1, 2] == 0
    weights.square().sum().backward()
    assert not scores.grad[0, 0, 0].any()
    assert scores.grad[0, 0, 1, 2] == 0
    assert scores.grad.isfinite().all()


def test_a_large_finite_number_in_place_of_minus_infinity_would_attend_to_padding():
    """A row without a key is zero, not uniform, whatever the size of the scores."""
    weights = softmax(torch.full((1, 1, 1, 4), -1e30), torch.zeros(1, 1, 1, 4, dtype=torch.bool))
    assert not weights.any()
    # an allowed score may be lower than any number that could stand for "hidden"
    weights = softmax(torch.tensor([[[[-1e30, 0.0]]]]), torch.tensor([[[[True, False]]]]))
    assert weights.flatten().tolist() == [1.0, 0.0]


def test_without_scaling_softmax_saturates_as_width_grows():
    """Mean entropy over 32 keys falls to 1.68, 0.51 and 0.15 nats at widths 8, 64, 512; scaled it stays near 3.02."""
    generator = torch.Generator().manual_seed(0)
    for width, entropy, largest, trace in ((8, 1.68, 0.49, 0.65), (64, 0.51, 0.81, 0.27), (512, 0.15, 0.94, 0.086)):
        query = torch.randn(2000, 1, 1, width, generator=generator, dtype=torch.float64)
        key = torch.randn(2000, 1, 32, width, generator=generator, dtype=torch.float64)
        raw, scaled = (softmax(query @ key.mT * scale, None) for scale in (1.0, width**-0.5))
        assert _entropy(raw) == pytest.approx(entropy, abs=0.06)
        assert _entropy(scaled) == pytest.approx(3.02, abs=0.03)
        assert raw.amax(-1).mean().item() == pytest.approx(largest, abs=0.02)
        assert scaled.amax(-1).mean().item() == pytest.approx(0.16, abs=0.015)
        # the trace of the Jacobian diag(w) - w w^T: what is left of the gradient
        assert (1 - raw.square().sum(-1)).mean().item() == pytest.approx(trace, abs=0.025)
        assert (1 - scaled.square().sum(-1)).mean().item() == pytest.approx(0.93, abs=0.02)


def _entropy(weights: torch.Tensor) -> float:
    return float(-torch.xlogy(weights, weights).sum(-1).mean())


def test_names():
    assert list(normalizers.catalogue()) == ["softmax", "relu", "sigmoid"]
    assert normalizers.build("relu") is relu
    with pytest.raises(ConfigError, match="unknown normalizer 'sofmax'; did you mean 'softmax'"):
        normalizers.build("sofmax")

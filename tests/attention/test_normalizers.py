"""Scores to weights."""

import math

import numpy as np
import pytest
import torch
from attention_cases import KERNELS, NORMALIZERS, Case, assert_near, run
from attention_reference import ROWS

from headwise.attention import attend, normalizers
from headwise.attention.masks import Padding
from headwise.attention.normalizers import Function, Softmax, relu, relu2, sigmoid, softmax, softmax1
from headwise.attention.scores import Dot
from headwise.errors import ConfigError

NAN, INF = float("nan"), float("inf")
every_normalizer = pytest.mark.parametrize("name", NORMALIZERS)


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


@every_normalizer
def test_scores_are_not_changed(name):
    """Masking is not done in place: the caller's scores stay."""
    scores = torch.randn(2, 1, 3, 4)
    before = scores.clone()
    normalizers.build(name)(scores, Padding(torch.tensor([2, 0])).dense(2, 1, 3, 4))
    assert torch.equal(scores, before)


@every_normalizer
def test_a_row_without_a_key_is_zero_with_zero_gradient(name):
    scores = torch.tensor([[[[1.0, NAN, INF], [1.0, 2.0, NAN], [0.5, -INF, 0.1]]]], requires_grad=True)
    keep = torch.tensor([[[[False] * 3, [True, True, False], [True, False, True]]]])
    weights = normalizers.build(name)(scores, keep)
    assert not weights[0, 0, 0].any()
    assert not weights[~keep].any()
    weights.square().sum().backward()
    assert not scores.grad[0, 0, 0].any()
    assert not scores.grad[~keep].any()
    assert scores.grad.isfinite().all()


@every_normalizer
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_weights_and_gradients_of_rows_are_those_of_the_loops(name, dtype):
    scores, keep = _scores_and_keep()
    scores = scores.to(dtype).requires_grad_()
    weights = normalizers.build(name)(scores, keep)
    d_weights = torch.randn(weights.shape, dtype=dtype)
    weights.backward(d_weights)
    expected, expected_gradient = _by_loops(name, scores, keep, d_weights)
    bound = {torch.float64: 1e-12, torch.float32: 1e-5}[dtype]
    assert_near(weights, expected, bound)
    assert_near(scores.grad, expected_gradient, bound)


@every_normalizer
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_strips_are_the_definition_in_place(name, dtype):
    normalizer = normalizers.build(name)
    if not normalizer.has_strips():
        return
    scores, keep = _scores_and_keep()
    # as a kernel holds them: batch and heads in one, minus infinity where forbidden
    strip = scores.to(dtype).masked_fill(~keep, -INF).flatten(0, 1).contiguous()
    count = keep.flatten(0, 1).sum(-1, keepdim=True).to(dtype)
    d_weights = torch.randn(scores.shape, dtype=dtype)
    expected, expected_gradient = _by_loops(name, scores.to(dtype), keep, d_weights)
    weights = normalizer.strip(strip, count)
    assert weights.data_ptr() == strip.data_ptr()
    bound = {torch.float64: 1e-12, torch.float32: 1e-5}[dtype]
    assert_near(weights.view(scores.shape), expected, bound)
    gradient = d_weights.flatten(0, 1).clone()
    result = normalizer.strip_gradient(weights, gradient, count)
    assert result.data_ptr() == gradient.data_ptr()
    assert_near(result.view(scores.shape), expected_gradient, bound)


@every_normalizer
def test_no_keys_give_no_weights(name):
    normalizer = normalizers.build(name)
    assert normalizer(torch.zeros(2, 3, 5, 0), None).shape == (2, 3, 5, 0)
    assert normalizer(torch.zeros(2, 3, 5, 0), torch.zeros(1, 1, 1, 0, dtype=torch.bool)).shape == (2, 3, 5, 0)
    if normalizer.has_strips():
        assert normalizer.strip(torch.zeros(3, 5, 0), torch.zeros(3, 5, 1)).shape == (3, 5, 0)


@pytest.mark.parametrize("name", [name for name in NORMALIZERS if name != "hard"])
@pytest.mark.parametrize("masked", [False, True])
def test_derivatives_by_differences(name, masked):
    """All but the hard choice, whose gradient is meant to differ; second derivatives too."""
    normalizer = normalizers.build(name)
    scores, keep = _scores_and_keep()
    scores = scores[..., :4, :].requires_grad_()
    given = keep[..., :4, :] if masked else None
    assert torch.autograd.gradcheck(lambda x: normalizer(x, given), scores)
    assert torch.autograd.gradgradcheck(lambda x: normalizer(x, given), scores, fast_mode=True)


def _scores_and_keep() -> tuple[torch.Tensor, torch.Tensor]:
    """Scores of several sizes; some rows have no key, one, and all."""
    sizes = torch.tensor([0.1, 1.0, 4.0, 1.0, 1.0])
    scores = torch.randn(2, 3, 5, 7, dtype=torch.float64) * sizes[:, None]
    keep = torch.rand(2, 3, 5, 7) < 0.6
    keep[0, 1], keep[1, 1] = False, True
    keep[1, 2] = torch.arange(7) == 3
    return scores, keep


def _by_loops(name, scores, keep, d_weights) -> tuple[np.ndarray, np.ndarray]:
    family, _, option = name.partition(":")
    weights, gradient = np.zeros(scores.shape), np.zeros(scores.shape)
    for index in np.ndindex(*scores.shape[:-1]):
        seen = np.flatnonzero(keep[index].numpy())
        if len(seen):
            row = scores[index][seen].tolist()
            weights[(*index, seen)], jacobian = ROWS[family](row, float(option) if option else None)
            gradient[(*index, seen)] = jacobian.T @ d_weights[index][seen].double().numpy()
    return weights, gradient


def test_softmax1_can_attend_to_nothing():
    """Four scores x give exp(x) / (1 + 4 exp(x)): nothing at -1000, a quarter at 1000, without overflow."""
    for score, weight in ((-1000.0, 0.0), (0.0, 0.2), (2.0, math.exp(2) / (1 + 4 * math.exp(2))), (1000.0, 0.25)):
        weights = softmax1(torch.full((1, 1, 1, 4), score), None)
        torch.testing.assert_close(weights, torch.full((1, 1, 1, 4), weight))
        strip = softmax1.strip(torch.full((1, 1, 4), score), torch.full((1, 1, 1), 4.0))
        torch.testing.assert_close(strip, torch.full((1, 1, 4), weight))


def test_squared_relu_divides_by_the_allowed_keys():
    scores = torch.tensor([[[[2.0, -1.0, 3.0, 9.0]]]])
    keep = torch.tensor([[[[True, True, True, False]]]])
    assert relu2(scores, keep).flatten().tolist() == pytest.approx([4 / 3, 0, 3, 0])
    assert relu2(scores, None).flatten().tolist() == pytest.approx([1, 0, 2.25, 20.25])


def test_a_bias_of_the_sigmoid_takes_the_place_of_the_length():
    scores = torch.tensor([[[[2.0, -1.0]]]])
    expected = [1 / (1 + math.exp(3.5 - score)) for score in (2.0, -1.0)]
    assert normalizers.build("sigmoid:-3.5")(scores, None).flatten().tolist() == pytest.approx(expected)


def test_the_scalable_temperature_keeps_one_weight_as_rows_grow():
    """One score of 2 among zeros: n^(s 2) / (n^(s 2) + n - 1) with s = 0.5 stays above a half; softmax falls to 0."""
    for n in (2, 10, 100, 10000):
        scores = torch.zeros(1, 1, 1, n)
        scores[..., 0] = 2.0
        weight = normalizers.build("scalable:0.5")(scores, None)[0, 0, 0, 0].item()
        assert weight == pytest.approx(n / (2 * n - 1), rel=1e-5)
        assert softmax(scores, None)[0, 0, 0, 0].item() == pytest.approx(math.exp(2) / (math.exp(2) + n - 1), rel=1e-5)


def test_ties_go_to_the_first_keys():
    scores = torch.tensor([[[[1.0, 3.0, 3.0, 2.0, 3.0, 3.0]]]])
    keep = torch.tensor([[[[True, False, True, True, True, True]]]])
    assert normalizers.build("hard")(scores, None).flatten().tolist() == [0, 1, 0, 0, 0, 0]
    assert normalizers.build("hard")(scores, keep).flatten().tolist() == [0, 0, 1, 0, 0, 0]
    two = normalizers.build("top_k:2")
    assert two(scores, None).flatten().tolist() == [0, 0.5, 0.5, 0, 0, 0]
    assert two(scores, keep).flatten().tolist() == [0, 0, 0.5, 0, 0.5, 0]
    strip = scores.masked_fill(~keep, -INF)[0]
    assert two.strip(strip, torch.full((1, 1, 1), 5.0)).flatten().tolist() == [0, 0, 0.5, 0, 0.5, 0]


def test_the_hard_choice_is_exact_and_learns_as_softmax():
    scores = torch.randn(2, 3, 5, 7, requires_grad=True)
    weights = normalizers.build("hard")(scores, None)
    assert set(weights.unique().tolist()) == {0.0, 1.0}
    assert torch.equal(weights.argmax(-1), scores.argmax(-1))
    d_weights = torch.randn(2, 3, 5, 7)
    actual = torch.autograd.grad(weights, scores, d_weights)[0]
    torch.testing.assert_close(actual, torch.autograd.grad(softmax(scores, None), scores, d_weights)[0])


@pytest.mark.parametrize("kernel", KERNELS)
def test_identity_weights_are_the_scores(kernel):
    """No normalizer at all: linear in the scores, and zero where the mask says so."""
    case = Case(spec=("query_lengths", 3), normalizer="identity")
    call = case.build(torch.float64)
    scores = 0.5 * call.query.numpy() @ call.key.numpy().swapaxes(-1, -2)
    output = run(call, kernel)
    if output is not None:
        assert_near(output, np.where(case.keep(), scores, 0.0) @ call.value.numpy(), 1e-12)


def test_a_function_is_a_normalizer_and_cannot_leak():
    def careless(scores, keep):
        # gives NaN in a row without a key, and uniform weights to what is hidden
        hidden = scores if keep is None else scores.masked_fill(~keep, -INF)
        return hidden.softmax(-1) + (0.0 if keep is None else (~keep) * 1.0)

    normalizer = normalizers.as_normalizer(careless)
    assert normalizer == Function(careless) == normalizers.build(careless)
    assert normalizer.name == "careless"
    assert not normalizer.has_strips()
    scores = torch.tensor([[[[1.0, NAN, INF], [1.0, 2.0, NAN]]]], requires_grad=True)
    keep = torch.tensor([[[[False] * 3, [True, True, False]]]])
    weights = normalizer(scores, keep)
    torch.testing.assert_close(weights, softmax(scores, keep))
    weights.square().sum().backward()
    assert scores.grad.isfinite().all()
    assert not scores.grad[~keep].any()
    query = torch.randn(2, 3, 5, 4)
    for mask in (None, Padding(torch.tensor([2, 0]))):
        outputs = [attend(query, query, query, normalizer=each, mask=mask) for each in (normalizer, softmax)]
        torch.testing.assert_close(*outputs)


def test_an_object_without_a_name_is_named_by_its_class():
    class Halves:
        def __call__(self, scores, keep):
            return scores / 2

    assert normalizers.as_normalizer(Halves()).name == "Halves"
    assert normalizers.as_normalizer(softmax) is softmax


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
    plain = ["softmax", "softmax1", "relu", "relu2", "sigmoid", "identity", "sparsemax", "entmax15", "hard"]
    assert list(normalizers.NORMALIZERS) == plain
    assert list(normalizers.catalogue()) == [*plain, "entmax", "top_k", "scalable"]
    assert all(normalizers.catalogue().values())
    assert normalizers.build("relu") is relu
    with pytest.raises(ConfigError, match="unknown normalizer 'sofmax'; did you mean 'softmax'"):
        normalizers.build("sofmax")
    with pytest.raises(ConfigError, match="unknown normalizer 'topk'; did you mean 'top_k'"):
        normalizers.build("topk:3")


@pytest.mark.parametrize("name", [*NORMALIZERS, "identity"])
def test_a_name_builds_an_equal_normalizer(name):
    normalizer = normalizers.build(name)
    assert normalizer.name == name
    assert normalizers.build(normalizer.name) == normalizer
    assert normalizer != Softmax() or name == "softmax"
    assert hash(normalizer) == hash(normalizers.build(name))


OPTIONS = {
    "entmax": "normalizer 'entmax' needs a number, alpha after a colon, such as entmax:1.3; got none",
    "entmax:": "normalizer 'entmax' needs a number, alpha after a colon, such as entmax:1.3; got none",
    "entmax:low": "normalizer 'entmax' needs a number, alpha after a colon, such as entmax:1.3; got 'low'",
    "entmax:1": r"alpha \(1.0\) of normalizer 'entmax' must lie above 1 and below 10, such as entmax:1.3; alpha 1",
    "entmax:10": r"alpha \(10.0\) of normalizer 'entmax' must lie above 1 and below 10",
    "entmax:nan": r"alpha \(nan\) of normalizer 'entmax' must lie above 1 and below 10",
    "top_k": "normalizer 'top_k' needs a whole number, k after a colon, such as top_k:8; got none",
    "top_k:2.5": "normalizer 'top_k' needs a whole number, k after a colon, such as top_k:8; got '2.5'",
    "top_k:0": r"k \(0\) of normalizer 'top_k' must be at least 1, such as top_k:8",
    "scalable": "normalizer 'scalable' needs a number, the scale after a colon, such as scalable:0.43; got none",
    "scalable:0": r"scale \(0.0\) of normalizer 'scalable' must lie above 0, such as scalable:0.43",
    "scalable:inf": r"scale \(inf\) of normalizer 'scalable' must lie above 0",
    "sigmoid:": "normalizer 'sigmoid' needs a number, the bias after a colon, such as sigmoid:-3.5; got none",
    "sigmoid:inf": r"bias \(inf\) of normalizer 'sigmoid' must be finite; without one it is -ln n",
    "softmax:2": "normalizer 'softmax' has no option, got '2'; write softmax",
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_that_are_not_allowed(name):
    with pytest.raises(ConfigError, match=OPTIONS[name]):
        normalizers.build(name)


def test_options_that_are_allowed_through_attention():
    query = torch.randn(2, 3, 5, 4)
    by_name = attend(query, query, query, normalizer="top_k:2", score=Dot())
    torch.testing.assert_close(by_name, attend(query, query, query, normalizer=normalizers.TopK(2), score=Dot()))

"""Dropout: its rate, its scale, its masks, its gradient, and that it stays out of evaluation."""

import math

import pytest
import torch
from attention_cases import GENERAL

from headwise.attention import attend
from headwise.attention.dropout import Dropout, draw, dropout_add, kept_scale, rate
from headwise.attention.masks import Padding
from headwise.attention.mechanisms.scored import Scored
from headwise.errors import ConfigError

every_kernel = pytest.mark.parametrize("kernel", GENERAL)
CPU = torch.device("cpu")


def test_rates_are_multiples_of_a_256th():
    assert rate(0.0) == 0.0
    assert rate(0.1) == 26 / 256
    assert rate(0.5) == 0.5
    assert rate(1e-9) == 1 / 256
    assert rate(0.9999) == 255 / 256
    for dropout in (0.001, 0.1, 0.3, 0.77, 0.999):
        assert kept_scale(dropout) == pytest.approx(1 / (1 - rate(dropout)))
    assert kept_scale(0.0) == 1.0


@pytest.mark.parametrize("compiling", [False, True], ids=["numpy", "torch"])
@pytest.mark.parametrize("dropout", [0.1, 0.3, 0.5, 0.9])
def test_each_element_is_dropped_as_often_as_the_rate_says(monkeypatch, dropout, compiling):
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: compiling)
    kept = draw((2000, 17), dropout, CPU)
    assert kept.dtype == torch.uint8
    assert set(kept.unique().tolist()) == {0, 1}
    # four standard deviations of a mean of 34,000 draws, and of 2,000 for each column
    spread = math.sqrt(rate(dropout) * (1 - rate(dropout)))
    dropped = 1 - kept.double()
    assert abs(dropped.mean().item() - rate(dropout)) < 4 * spread / math.sqrt(34_000)
    assert (dropped.mean(0) - rate(dropout)).abs().max().item() < 5 * spread / math.sqrt(2000)
    # neighbours, which share a draw of 64 bits, are independent
    together = (dropped[:, 1:] * dropped[:, :-1]).mean().item()
    assert together == pytest.approx(rate(dropout) ** 2, abs=0.01)


def test_the_rate_is_met_to_a_tenth_of_a_step():
    """Four million draws tell 77/256 from 76/256 and 78/256."""
    dropped = 1 - draw((1 << 22,), 0.3, CPU).sum().item() / (1 << 22)
    assert dropped == pytest.approx(77 / 256, abs=1e-3)


def test_both_ways_of_comparing_draw_the_same_mask(monkeypatch):
    masks = []
    for compiling in (False, True):
        monkeypatch.setattr(torch.compiler, "is_compiling", lambda compiling=compiling: compiling)
        torch.manual_seed(3)
        masks.append(draw((59, 61), 0.3, CPU))
    assert torch.equal(*masks)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (8,), (3, 0, 5), (2, 3, 5)])
def test_masks_have_any_shape(shape):
    assert draw(shape, 0.3, CPU).shape == shape


def test_the_same_seed_draws_the_same_mask():
    layer, x = Dropout(0.3), torch.ones(3, 5, 7)
    outputs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        outputs.append(layer(x))
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_kept_elements_are_scaled_and_the_gradient_is_the_mask(dtype):
    x = torch.randn(11, 13).to(dtype).requires_grad_()
    output = Dropout(0.3)(x)
    kept = output != 0
    scaled = (x.detach() * kept) * kept_scale(0.3)
    torch.testing.assert_close(output, scaled)
    output.backward(torch.full_like(output, 2.0))
    torch.testing.assert_close(x.grad, 2.0 * kept_scale(0.3) * kept.to(dtype))


def test_the_mean_of_many_draws_is_the_input():
    x = torch.tensor([1.0, -3.0, 0.5])
    layer = Dropout(0.3)
    mean = torch.stack([layer(x) for _ in range(2000)]).mean(0)
    deviation = x.abs() * math.sqrt(rate(0.3) / (1 - rate(0.3)) / 2000)
    assert ((mean - x).abs() < 4 * deviation).all()


def test_nothing_is_dropped_in_evaluation_nor_at_rate_zero():
    x = torch.randn(11, 13)
    assert Dropout(0.3).eval()(x) is x
    assert Dropout(0.0)(x) is x
    assert repr(Dropout(0.3)) == "Dropout(0.3)"


@pytest.mark.parametrize("dropout", [-0.1, 1.0])
def test_a_rate_outside_its_range_is_refused(dropout):
    with pytest.raises(ConfigError, match=rf"dropout \({dropout}\) must be at least 0 and below 1"):
        Dropout(dropout)


@pytest.mark.parametrize("branch_dtype", [torch.float32, torch.bfloat16], ids=str)
def test_adding_a_dropped_branch_in_one_pass(branch_dtype):
    residual = torch.randn(5, 7, requires_grad=True)
    branch = torch.randn(5, 7).to(branch_dtype).requires_grad_()
    torch.manual_seed(4)
    output = dropout_add(residual, branch, 0.3)
    torch.manual_seed(4)
    kept = draw((5, 7), 0.3, CPU)
    torch.testing.assert_close(output, residual + branch.float() * kept * kept_scale(0.3))
    assert output.dtype == torch.float32
    gradient = torch.randn(5, 7)
    output.backward(gradient)
    assert torch.equal(residual.grad, gradient)
    torch.testing.assert_close(branch.grad, (gradient * kept * kept_scale(0.3)).to(branch_dtype))
    assert torch.equal(dropout_add(residual, branch, 0.0), residual + branch)


@every_kernel
def test_dropped_weights_are_zero_and_kept_ones_scaled(kernel):
    query, key = torch.randn(2, 3, 31, 4), torch.randn(2, 3, 37, 4)
    identity = torch.eye(37).expand(2, 3, 37, 37)
    weights = attend(query, key, identity, kernel=kernel)
    dropped = attend(query, key, identity, dropout=0.5, kernel=kernel)
    kept = dropped != 0
    torch.testing.assert_close(dropped, weights * kept * 2)
    # 6,882 weights: four standard deviations
    assert abs(kept.double().mean().item() - 0.5) < 4 * 0.5 / math.sqrt(kept.numel())


@every_kernel
def test_the_mean_of_many_dropped_outputs_is_the_output(kernel):
    query, key, value = torch.randn(1, 1, 2, 4), torch.randn(1, 1, 5, 4), torch.randn(1, 1, 5, 3)
    wanted = attend(query, key, value, kernel="plain")
    # 2,000 draws at once
    many = [tensor.expand(2000, -1, -1, -1) for tensor in (query, key, value)]
    draws = attend(*many, dropout=0.25, kernel=kernel)
    error = (draws.mean(0, keepdim=True) - wanted).abs()
    assert (error < 4 * draws.std(0, keepdim=True) / math.sqrt(2000) + 1e-6).all()


@every_kernel
def test_the_gradient_of_dropped_weights(kernel):
    """The gradient is that of the output for the mask which was drawn: differences at one seed give the same."""
    tensors = [torch.randn(2, 3, n, 4, dtype=torch.float64, requires_grad=True) for n in (3, 5, 5)]
    mask = Padding(torch.tensor([3, 0]))

    def function(*inputs):
        torch.manual_seed(7)
        return attend(*inputs, mask=mask, dropout=0.4, kernel=kernel)

    assert torch.autograd.gradcheck(function, tensors, fast_mode=True)


@every_kernel
def test_a_mechanism_drops_only_in_training(kernel):
    mechanism = Scored(dropout=0.5, kernel=kernel)
    tensors = [torch.randn(2, 3, n, 4) for n in (5, 7, 7)]
    without = attend(*tensors, kernel=kernel)
    mechanism.eval()
    assert torch.equal(mechanism(*tensors), without)
    mechanism.train()
    torch.manual_seed(1)
    first = mechanism(*tensors)
    torch.manual_seed(1)
    assert torch.equal(mechanism(*tensors), first)
    assert not torch.allclose(first, without)
    assert torch.equal(Scored(dropout=0.0, kernel=kernel)(*tensors), without)

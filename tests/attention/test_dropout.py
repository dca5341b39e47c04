"""Dropout: its rate, its scale, its gradient, what governs its draws, and that it stays out of evaluation."""

import math

import pytest
import torch
from devices import not_simulated
from torch.utils.checkpoint import checkpoint

from headwise.attention.dropout import Dropout, drop, dropout_add
from headwise.errors import ConfigError

# below and above the number of elements from which eight share a draw
SIZES = [(59, 61), (129, 131)]
every_size = pytest.mark.parametrize("size", SIZES, ids=str)


@pytest.mark.parametrize("dropout", [0.001, 1 / 256, 0.1, 0.5, 0.9, 255 / 256, 0.999])
def test_each_element_is_dropped_as_often_as_the_rate_says(dropout):
    """Four million draws: the mean to four standard deviations; neighbours, which share a draw, are independent."""
    output = drop(torch.ones(2**11, 2**11), dropout)
    dropped = (output == 0).double()
    spread = math.sqrt(dropout * (1 - dropout)) / 2**11
    assert abs(dropped.mean().item() - dropout) < 4 * spread + 2**-17
    assert output.max().item() == pytest.approx(1 / (1 - dropout), rel=1e-2 if dropout == 0.999 else 1e-4)
    flat = dropped.flatten()
    for distance in (1, 2, 3, 4, 8, 2**12):
        together = (flat[distance:] * flat[:-distance]).mean().item()
        assert abs(together - dropout**2) < 6 * dropout / 2**11 + 2**-17


@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (3, 0, 5), (2, 3, 5), (8193,)], ids=str)
def test_any_shape(shape):
    assert drop(torch.ones(shape), 0.3).shape == shape


@every_size
def test_the_seed_governs_the_draws(size):
    layer, outputs = Dropout(0.3), []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        outputs.append(layer(torch.ones(size)))
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2])


@every_size
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_kept_elements_are_scaled_and_the_gradient_is_the_mask(size, dtype):
    x = torch.randn(size).to(dtype).requires_grad_()
    output = Dropout(0.3)(x)
    assert output.dtype == dtype
    kept = output != 0
    torch.testing.assert_close(output, x.detach() * kept / 0.7, rtol=1e-2 if dtype == torch.bfloat16 else 2e-5, atol=0)
    output.backward(torch.ones_like(output))
    torch.testing.assert_close(x.grad * x.detach(), output.detach())


@every_size
def test_derivatives_by_differences_at_one_seed(size):
    x = torch.randn(size, dtype=torch.float64, requires_grad=True)

    def function(x):
        torch.manual_seed(7)
        return drop(x, 0.4)

    assert torch.autograd.gradcheck(function, x, fast_mode=True)
    assert torch.autograd.gradgradcheck(function, x, fast_mode=True)


@every_size
def test_a_checkpoint_repeats_the_draws(size):
    x = torch.ones(size, requires_grad=True)
    output = checkpoint(drop, x, 0.5, use_reentrant=False)
    output.sum().backward()
    assert torch.equal(x.grad, output.detach())


@not_simulated("it has no vmap")
@every_size
def test_under_vmap_each_example_has_its_own_draws_unless_they_are_to_be_the_same(size):
    x = torch.ones(2, *size)
    for randomness in ("different", "same"):
        output = torch.vmap(lambda x: drop(x, 0.5), randomness=randomness)(x)
        assert set(output.unique().tolist()) == {0.0, 2.0}
        assert torch.equal(*output) == (randomness == "same")
    gradient = torch.func.grad(lambda x: drop(x, 0.5).sum())(x[0])
    assert set(gradient.unique().tolist()) == {0.0, 2.0}


@not_simulated("its tensors are of one device")
def test_draws_lie_where_the_elements_lie_whatever_the_default_device_is():
    x = torch.ones(129, 131, device="cpu")
    with torch.device("meta"):
        assert set(drop(x, 0.5).unique().tolist()) == {0.0, 2.0}


def test_nothing_is_dropped_in_evaluation_nor_at_rate_zero():
    x = torch.randn(11, 13)
    assert Dropout(0.3).eval()(x) is x
    assert Dropout(0.0)(x) is x
    assert repr(Dropout(0.3)) == "Dropout(0.3)"
    assert torch.equal(dropout_add(x, x, 0.0), 2 * x)


@pytest.mark.parametrize("dropout", [-0.1, 1.0, math.nan])
def test_a_rate_outside_its_range_is_refused(dropout):
    with pytest.raises(ConfigError, match=rf"dropout \({dropout}\) must be at least 0 and below 1"):
        Dropout(dropout)
    if not math.isnan(dropout):
        with pytest.raises(ConfigError, match="must be at least 0 and below 1"):
            dropout_add(torch.ones(3), torch.ones(3), dropout)


@every_size
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_adding_a_dropped_branch(size, dtype):
    residual, branch = torch.randn(size, requires_grad=True), torch.randn(size).to(dtype).requires_grad_()
    torch.manual_seed(4)
    output = dropout_add(residual, branch, 0.3)
    torch.manual_seed(4)
    dropped = drop(branch.detach().float(), 0.3)
    torch.testing.assert_close(output, residual + dropped)
    output.backward(torch.ones(size))
    assert torch.equal(residual.grad, torch.ones(size))
    torch.testing.assert_close(branch.grad, ((dropped != 0) / 0.7).to(dtype), rtol=1e-2, atol=0)

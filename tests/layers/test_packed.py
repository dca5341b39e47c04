"""Packed linear layers compute what the plain ones do, also where the machine cannot pack."""

import pytest
import torch
from torch import nn

from headwise.layers import packed
from headwise.layers.packed import SMALLEST, PackedLinear, gains


def linear(bias=True):
    torch.manual_seed(3)
    return nn.Linear(397, 521, bias=bias)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(1, 397), (7, 397), (2, 5, 397), (301, 397), (1, 1, 397)])
def test_same_product(shape, bias):
    plain = linear(bias)
    x = torch.randn(*shape)
    with torch.inference_mode():
        torch.testing.assert_close(PackedLinear(plain)(x), plain(x), rtol=1e-5, atol=1e-5)


def test_weights_are_those_of_the_layer():
    plain = linear()
    copy = PackedLinear(plain)
    assert copy.weight is plain.weight
    assert copy.bias is plain.bias
    assert {name for name, _ in copy.named_parameters()} == {"linear.weight", "linear.bias"}
    assert PackedLinear(linear(bias=False)).bias is None


def test_tells_when_the_weight_has_changed():
    plain = linear()
    copy = PackedLinear(plain)
    assert copy.is_current()
    optimizer = torch.optim.AdamW(plain.parameters(), lr=1e-4, fused=True)
    plain(torch.randn(5, 397)).sum().backward()
    optimizer.step()
    assert not copy.is_current()
    copy = PackedLinear(plain)
    plain.double()
    assert not copy.is_current()


def test_rows_that_are_not_contiguous():
    plain = linear()
    x = torch.randn(397, 5).T
    with torch.inference_mode():
        torch.testing.assert_close(PackedLinear(plain)(x), plain(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("error", [AttributeError, RuntimeError])
def test_without_the_operation_it_is_the_plain_product(monkeypatch, error):
    class Missing:
        def __getattr__(self, name):
            raise error(name)

    class Operations:
        mkldnn = Missing()

    monkeypatch.setattr(packed.torch, "ops", Operations())
    plain = linear()
    x = torch.randn(5, 397)
    assert torch.equal(PackedLinear(plain)(x), plain(x))


def test_only_large_single_precision_weights_gain():
    width = int(SMALLEST**0.5) + 1
    assert gains(torch.empty(width, width))
    assert not gains(torch.empty(width - 2, width - 2))
    assert not gains(torch.empty(width, width, dtype=torch.float64))
    assert not gains(torch.empty(width, width, dtype=torch.bfloat16))
    assert not gains(torch.empty(width, width, device="meta"))

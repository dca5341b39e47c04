"""Linear layers for decoding compute what the plain ones do, and tell when their weight has changed."""

import pytest
import torch
from devices import on_the_host
from torch import nn

from headwise.layers.packed import FEWEST, MOST, MOST_OF_NARROW, SMALLEST, WIDE, PackedLinear, RoundedLinear, gains

pytestmark = on_the_host("layers are packed for a processor")


def linear(bias=True, width=97):
    torch.manual_seed(3)
    # outputs are no multiple of a block
    return nn.Linear(width, 301, bias=bias)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [(1,), (FEWEST,), (2, 5), (MOST_OF_NARROW,), (MOST,), (MOST + 1,), (1, 1), (0,), ()])
@pytest.mark.parametrize("width", [97, WIDE])
def test_same_product(rows, width, bias):
    plain, x = linear(bias, width), torch.randn(*rows, width)
    with torch.inference_mode():
        torch.testing.assert_close(PackedLinear(plain)(x), plain(x), rtol=1e-5, atol=1e-5)
        rounded = RoundedLinear(plain)(x)
        assert rounded.dtype == torch.float32
        torch.testing.assert_close(rounded, plain(x), rtol=0, atol=3e-2)


def test_rows_that_are_not_contiguous():
    plain, x = linear(), torch.randn(97, 5).T
    with torch.inference_mode():
        torch.testing.assert_close(PackedLinear(plain)(x), plain(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", [PackedLinear, RoundedLinear])
def test_tells_when_the_weight_has_changed(kind):
    plain = linear()
    copy = kind(plain)
    assert {name for name, _ in copy.named_parameters()} == {"linear.weight", "linear.bias"}
    assert copy.is_current()
    # a fused optimizer changes weights without telling their version
    optimizer = torch.optim.AdamW(plain.parameters(), lr=1e-2, fused=True)
    plain(torch.randn(5, 97)).sum().backward()
    optimizer.step()
    assert not copy.is_current()
    copy = kind(plain)
    with torch.no_grad():
        plain.weight[100, 3] += 1.0
    assert not copy.is_current()


@pytest.mark.parametrize("change", [(300, slice(None)), (slice(None), 96), (211, 5)], ids=["row", "column", "number"])
def test_what_counts_no_version_is_noticed_in_any_place(change):
    plain = linear()
    copy = PackedLinear(plain)
    plain.weight.data[change] += 1.0
    assert not copy.is_current()


def test_a_weight_of_inference_mode_is_noticed_too():
    with torch.inference_mode():
        plain = linear()
        copy = PackedLinear(plain)
        assert copy.is_current()
        plain.weight[300, 3] += 1.0
        assert not copy.is_current()


class Adapted(nn.Linear):
    pass


def test_only_large_plain_layers_in_single_precision_gain():
    width = int(SMALLEST**0.5) + 1
    assert gains(nn.Linear(width, width))
    assert not gains(nn.Linear(width - 2, width - 2))
    assert not gains(Adapted(width, width))
    assert not gains(nn.Linear(width, width, dtype=torch.bfloat16))
    assert not gains(nn.Linear(width, width, device="meta"))
    assert not gains(nn.Identity())

"""A convolution is an attention: equality with PyTorch's, and one-hot weights."""

import pytest
import torch
from torch import nn

from headwise.attention.masks import explain
from headwise.errors import Unsupported
from headwise.models.convolution import ConvolutionAsAttention


@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 3, "padding": 1},
        {"kernel_size": 3, "padding": 0},
        {"kernel_size": (2, 3), "padding": (1, 2), "bias": False},
        {"kernel_size": 3, "padding": 2, "dilation": 2},
        {"kernel_size": 3, "padding": 1, "stride": 2},
        {"kernel_size": (3, 1), "padding": (0, 1), "stride": (1, 3), "dilation": (2, 1)},
        {"kernel_size": (5, 3), "padding": "same"},
        {"kernel_size": 3, "padding": "valid"},
        {"kernel_size": 1},
    ],
    ids=str,
)
def test_it_equals_the_convolution(options):
    """S90: on an image of 5 x 10 with 3 channels, outputs and gradients."""
    convolution = nn.Conv2d(3, 4, **options).double()
    image = torch.randn(2, 3, 5, 10, dtype=torch.float64, requires_grad=True)
    expected = convolution(image)
    gradient = torch.randn_like(expected)
    wanted = torch.autograd.grad(expected, (image, *convolution.parameters()), gradient)
    output = ConvolutionAsAttention(convolution)(image)
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-12)
    actual = torch.autograd.grad(output, (image, *convolution.parameters()), gradient)
    torch.testing.assert_close(actual, wanted, rtol=0, atol=1e-12)


def test_every_head_looks_at_one_offset():
    layer = ConvolutionAsAttention(nn.Conv2d(3, 4, 3, padding=1))
    mask = layer.mask(5, 10)
    dense = mask.dense(1, 9, 50, 50)
    assert dense.sum(-1).max() == 1
    # the middle head is the cell itself; the first one is empty along the upper and left edge
    assert torch.equal(dense[0, 4], torch.eye(50, dtype=torch.bool))
    assert int(dense[0, 0].any(-1).sum()) == 4 * 9
    assert explain(mask, 11, 0, head=0) == "query 11 may attend to key 0"
    why = "query 11 may not attend to key 1: head 0 of query 11 sees only the cell 0 down and 0 to the right"
    assert explain(mask, 11, 1, head=0) == why


@pytest.mark.parametrize("options", [{"groups": 3}, {"padding_mode": "circular"}])
def test_what_is_no_attention_of_this_form(options):
    with pytest.raises(Unsupported, match="is no attention of this form; use groups=1 and zero padding"):
        ConvolutionAsAttention(nn.Conv2d(3, 3, 3, **options))

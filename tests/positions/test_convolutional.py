"""Position from the neighbourhood."""

import pytest
import torch

from headwise.errors import ConfigError, Unsupported
from headwise.positions.convolutional import Convolutional


@pytest.mark.parametrize(("kernel_size", "causal"), [(3, False), (1, False), (3, True), (4, True)])
@pytest.mark.parametrize("length", [1, 7])
def test_the_definition_entry_by_entry(kernel_size, causal, length):
    position = Convolutional(6, kernel_size=kernel_size, causal=causal).double()
    torch.nn.init.normal_(position.shift)
    x = torch.randn(2, length, 6, dtype=torch.float64, requires_grad=True)
    before = kernel_size - 1 if causal else kernel_size // 2
    rows = []
    for i in range(length):
        total = x[:, i] + position.shift
        for tap in range(kernel_size):
            j = i - before + tap
            if 0 <= j < length:
                total = total + x[:, j] * position.weight[:, 0, tap]
        rows.append(total)
    expected = torch.stack(rows, 1)
    output = position.embed(x, 0)
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-12)
    gradient = torch.randn_like(output)
    of = [x, *position.parameters()]
    found, wanted = (torch.autograd.grad(result, of, gradient) for result in (output, expected))
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


def test_a_model_gets_a_causal_one():
    x = torch.randn(1, 7, 8)
    later = x.clone()
    later[:, 5:] = 9.0
    position = Convolutional.sized(8, 4, 2, 100)
    assert torch.equal(position.embed(x, 0)[:, :5], position.embed(later, 0)[:, :5])


def test_sequences_without_a_batch_and_without_tokens():
    position = Convolutional(6, kernel_size=3)
    x = torch.randn(2, 3, 5, 6)
    torch.testing.assert_close(position.embed(x, 0)[1, 2], position.embed(x[1, 2], 0))
    assert position.embed(x[:, :, :0], 0).shape == (2, 3, 0, 6)


def test_a_token_alone_is_refused():
    message = (
        "convolutional positions see the inputs before a token, got tokens from position 3 on without them; give the"
        " whole sequence at once, or decode step by step with another scheme"
    )
    with pytest.raises(Unsupported, match=message):
        Convolutional(6).embed(torch.zeros(1, 1, 6), 3)


@pytest.mark.parametrize(("kernel_size", "causal"), [(4, False), (0, True)])
def test_sizes_that_cannot_be_centred(kernel_size, causal):
    message = f"kernel_size of convolutional positions must be odd unless causal, got {kernel_size}"
    with pytest.raises(ConfigError, match=message):
        Convolutional(6, kernel_size=kernel_size, causal=causal)

"""What several mechanisms have to do alike: weights, padding, refusals, half precision, empty sequences."""

import pytest
import torch
from torch import Tensor

from headwise.attention.masks import Causal, Padding, Table, Window
from headwise.attention.relative import Relative
from headwise.errors import Unsupported

NAN = float("nan")


def tensors(query_len, key_len, *, heads=4, kv_heads=2, dim=6, value_dim=5, batch=3, dtype=torch.float64, seed=1):
    """Query, key and value that ask for gradients; key and value have fewer heads."""
    generator = torch.Generator().manual_seed(seed)
    shapes = (batch, heads, query_len, dim), (batch, kv_heads, key_len, dim), (batch, kv_heads, key_len, value_dim)
    return [torch.randn(*shape, generator=generator, dtype=dtype).requires_grad_() for shape in shapes]


def spread(tensor: Tensor, heads: int) -> Tensor:
    """Keys or values once for each head of the query."""
    return tensor.repeat_interleave(heads // tensor.shape[1], 1)


def near(actual, expected, tolerance=1e-10):
    torch.testing.assert_close(actual, expected, rtol=0, atol=tolerance)


def same_with_gradients(one, two, inputs, tolerance=1e-10):
    """Both functions of the inputs have equal outputs and gradients."""
    outputs = [function(*inputs) for function in (one, two)]
    near(outputs[0], outputs[1], tolerance)
    weight = torch.randn(outputs[0].shape, dtype=outputs[0].dtype)
    gradients = [torch.autograd.grad((output * weight).sum(), inputs) for output in outputs]
    for first, second in zip(*gradients, strict=True):
        near(first, second, tolerance)


def weights_are_the_function(mechanism, inputs, **options):
    """weights @ value is the output."""
    query, key, value = inputs
    weights = mechanism.effective_weights(query, key, **options)
    assert weights.shape == (*query.shape[:3], key.shape[2])
    near(weights @ spread(value, query.shape[1]), mechanism(query, key, value, **options))
    return weights


def padding_is_absence(mechanism, length, lens, *, self_attention=True, mask=None, alone=None):
    """A padded sentence, NaN in its padding, is as the sentence alone: outputs and all gradients."""
    inputs = tensors(length, length, batch=len(lens))
    padded = Padding(torch.tensor(lens)) if mask is None else mask & Padding(torch.tensor(lens))
    query, key, value = (tensor.detach().clone() for tensor in inputs)
    for row, real in enumerate(lens):
        # hidden content of every kind must not matter
        key[row, :, real:] = value[row, :, real:] = NAN
        if self_attention:
            query[row, :, real:] = NAN
    poisoned = [tensor.requires_grad_() for tensor in (query, key, value)]
    output = mechanism(*poisoned, mask=padded)
    weight = torch.randn(output.shape, dtype=output.dtype)
    rows = [min(real, length) if self_attention else length for real in lens]
    total = sum((output[row, :, :n] * weight[row, :, :n]).sum() for row, n in enumerate(rows))
    parameters = [parameter for parameter in mechanism.parameters() if parameter.requires_grad]
    d_query, d_key, d_value, *d_own = torch.autograd.grad(total, [*poisoned, *parameters])
    d_alone = [torch.zeros_like(parameter) for parameter in parameters]
    for row, (real, n) in enumerate(zip(lens, rows, strict=True)):
        cut = [inputs[0][row : row + 1, :, :n], *(t[row : row + 1, :, :real] for t in inputs[1:])]
        cut = [tensor.detach().requires_grad_() for tensor in cut]
        expected = mechanism(*cut, mask=mask)
        near(output[row : row + 1, :, :n], expected)
        found = torch.autograd.grad(
            (expected * weight[row : row + 1, :, :n]).sum(), [*cut, *parameters], allow_unused=True
        )
        near(d_query[row : row + 1, :, :n], found[0])
        for whole, part in zip((d_key, d_value), found[1:3], strict=True):
            near(whole[row : row + 1, :, :real], part)
            assert not whole[row, :, real:].any()
        d_alone = [old if new is None else old + new for old, new in zip(d_alone, found[3:], strict=True)]
    for whole, parts in zip(d_own, d_alone, strict=True):
        near(whole, parts)


def no_key_gives_zero(mechanism, length):
    """A sentence without a token is exactly zero, with zero gradients."""
    inputs = tensors(length, length, batch=2)
    output = mechanism(*inputs, mask=Padding(torch.tensor([0, length])))
    assert not output[0].any()
    assert output[1].any()
    for gradient in torch.autograd.grad(output.square().sum(), inputs):
        assert not gradient[0].any()
        assert gradient.isfinite().all()


def half_precision(mechanism, length, key_len=None, **options):
    """bfloat16 is float32 rounded; under autocast nothing is computed in less than it was given."""
    inputs = [tensor.detach().float() for tensor in tensors(length, key_len or length)]
    exact = mechanism.float()(*[tensor.bfloat16().float() for tensor in inputs], **options)
    rounded = mechanism(*[tensor.bfloat16() for tensor in inputs], **options)
    assert rounded.dtype == torch.bfloat16
    torch.testing.assert_close(rounded.float(), exact, rtol=2e-2, atol=2e-2)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(mechanism(*inputs, **options), mechanism(*inputs, **options).float())
        cast = mechanism(*inputs, **options)
    torch.testing.assert_close(cast, mechanism(*inputs, **options), rtol=0, atol=0)


def empty_sequences(mechanism):
    """No token in, no token out, and gradients of no number."""
    inputs = tensors(0, 0)
    output = mechanism(*inputs)
    assert output.shape == (3, 4, 0, 5)
    assert [g.numel() for g in torch.autograd.grad(output.sum(), inputs)] == [0, 0, 0]


def refuses(mechanism, name, *, causal=False, cross=False):
    """It says what it cannot honour and what it can."""
    inputs = tensors(5, 5, batch=2)
    table = Relative(low=0, scalar=torch.zeros(1, 1))
    with pytest.raises(Unsupported, match=f"{name} cannot honour a bias: .*use mechanism 'scored'"):
        mechanism(*inputs, bias=torch.zeros(1, 1, 5, 5, dtype=torch.float64))
    with pytest.raises(Unsupported, match=f"{name} cannot honour relative positions"):
        mechanism(*inputs, relative=table)
    with pytest.raises(Unsupported, match=f"{name} reads a sequence as a whole and cannot go on from position 3"):
        mechanism(*inputs, query_start=3)
    can = r"Causal\(\), padding of keys, and both together" if causal else "padding of keys;"
    others = [Window(1, 1), Table(torch.rand(5, 5) < 0.5), Padding(torch.ones(2, 5).long())]
    others += [] if causal else [Causal(), Causal() & Padding(torch.tensor([2, 3]))]
    for mask in others:
        with pytest.raises(Unsupported, match=f"{name} cannot honour the mask {type(mask).__name__}; .*{can}"):
            mechanism(*inputs, mask=mask)
    if not cross:
        with pytest.raises(Unsupported, match=rf"{name} is self-attention: query_len \(3\) and key_len \(5\)"):
            mechanism(*tensors(3, 5))

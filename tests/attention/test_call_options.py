"""What a call carries besides its tensors reaches every kernel: its own scale, rows without a key, bands of strips."""

import pytest
import torch
from attention_cases import KERNELS, run

from headwise.attention.call import Call
from headwise.attention.kernels import plain
from headwise.attention.kernels.rows import in_strips
from headwise.attention.masks import Edges, Padding, Window
from headwise.attention.normalizers import softmax
from headwise.attention.relative import Relative
from headwise.attention.scores import Additive, Dot


def tensors(length, heads=3):
    return (torch.randn(2, heads, n, 7, dtype=torch.float64) for n in (length, 11, 11))


@pytest.mark.parametrize("length", [1, 11])
@pytest.mark.parametrize("kind", ["dot", "additive"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_scale_of_a_call_multiplies_its_scores(kernel, kind, length):
    query, key, value = tensors(length)
    score = Dot() if kind == "dot" else Additive(7, 7, 5).double().requires_grad_(False)
    every = torch.cartesian_prod(torch.arange(11), torch.arange(11)).T
    masks = {"banded": Window(11, 11), "edges": Edges(every, 11)}
    output = run(Call(query, key, value, score, mask=masks.get(kernel), scale=0.3), kernel)
    if output is None:
        assert (kernel, kind) not in {(name, "dot") for name in ("plain", "rows", "eager", "fused", "banded", "edges")}
        assert (kernel, kind, length) not in {("decode", "dot", 1), ("additive", "additive", length)}
        return
    expected = (0.3 * score(query, key)).softmax(-1) @ value
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("length", [1, 5])
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_sequence_without_keys_is_exactly_zero_without_gradients_too(kernel, length):
    query, key, value = tensors(length)
    output = run(Call(query, key, value, Dot(), mask=Padding(torch.tensor([0, 4]))), kernel)
    if output is None:
        assert kernel not in ("auto", "plain", "rows", "eager", "fused")
        assert (kernel, length) != ("decode", 1)
        return
    assert not output[0].any()
    torch.testing.assert_close(output[1], (query[1] @ key[1, :, :4].mT).softmax(-1) @ value[1, :, :4])


def test_strips_of_a_band_take_relative_positions_by_their_place():
    query, key, value = tensors(11)
    score = Additive(7, 7, 5).double()
    relative = Relative(low=-2, scalar=torch.randn(3, 5, dtype=torch.float64))
    call = Call(query, key, value, score, softmax, Window(2, 1), relative=relative, query_start=0)
    expected = plain.compute(call)
    # one query a strip: its keys begin at its window, not at key 0
    torch.testing.assert_close(in_strips(call, 1, 1), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("length", [1, 5])
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_hidden_key_stays_hidden_however_low_the_others_score(kernel, length):
    query, key, value = tensors(length)
    query, key = query.fill_(1e6), key.fill_(0.0)
    # beside such a score a hidden one less a thousand million would still be the largest
    key[:, :, 0] = -1e6
    output = run(Call(query, key, value, Dot(), mask=Padding(torch.tensor([1, 1]))), kernel)
    if output is not None:
        torch.testing.assert_close(output, value[:, :, :1].expand_as(output), rtol=0, atol=0)

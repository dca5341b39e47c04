"""The chunked vocabulary product and loss is `cross_entropy`, in value and gradient, wherever its chunks end."""

import math

import pytest
import torch
from torch.nn import functional as F

from headwise.layers import loss
from headwise.layers.loss import vocabulary_loss

VOCAB, WIDTH = 23, 7
ROWS = [0, 1, 5, 257, 511, 512, 513, 1025]


def inputs(rows, dtype, bias=True, scale=1.0, seed=3):
    generator = torch.Generator().manual_seed(seed)
    hidden = (torch.randn(rows, WIDTH, generator=generator, dtype=torch.float64) * scale).to(dtype).requires_grad_()
    weight = torch.randn(VOCAB, WIDTH, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
    offset = torch.randn(VOCAB, generator=generator, dtype=torch.float64).to(dtype).requires_grad_() if bias else None
    return hidden, weight, offset, torch.randint(VOCAB, (rows,), generator=generator)


def expected(hidden, weight, bias, targets, smoothing):
    return F.cross_entropy(F.linear(hidden, weight, bias), targets, reduction="sum", label_smoothing=smoothing)


def gradients(value, tensors):
    return torch.autograd.grad(value * 0.7, [tensor for tensor in tensors if tensor is not None])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", ROWS)
def test_is_cross_entropy(rows, bias, smoothing, dtype):
    *tensors, targets = inputs(rows, dtype, bias)
    exact = dtype == torch.float64
    ours = vocabulary_loss(*tensors, targets, smoothing)
    theirs = expected(*tensors, targets, smoothing)
    tolerance = {"rtol": 1e-12, "atol": 1e-11} if exact else {"rtol": 1e-5, "atol": 1e-4}
    assert ours.shape == ()
    assert ours.dtype == dtype
    torch.testing.assert_close(ours, theirs, **tolerance)
    for one, two in zip(gradients(ours, tensors), gradients(theirs, tensors), strict=True):
        torch.testing.assert_close(one, two, **tolerance)
    with torch.no_grad():
        torch.testing.assert_close(vocabulary_loss(*tensors, targets, smoothing), theirs, **tolerance)


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 7])
def test_any_size_of_chunk(rows, monkeypatch):
    *tensors, targets = inputs(13, torch.float64)
    whole = vocabulary_loss(*tensors, targets, 0.1)
    monkeypatch.setattr(loss, "CHUNK_ROWS", rows)
    torch.testing.assert_close(vocabulary_loss(*tensors, targets, 0.1), whole, rtol=1e-12, atol=1e-12)


def test_gradcheck():
    hidden, weight, bias, targets = inputs(5, torch.float64)
    assert torch.autograd.gradcheck(lambda *t: vocabulary_loss(*t, targets, 0.2), (hidden, weight, bias))


@pytest.mark.parametrize("frozen", [{0}, {1}, {2}, {0, 1}, {1, 2}, {0, 2}])
def test_frozen_parts_do_not_stop_the_others(frozen):
    *tensors, targets = inputs(5, torch.float64)
    want = expected(*tensors, targets, 0.1)
    learning = [tensor for place, tensor in enumerate(tensors) if place not in frozen]
    theirs = torch.autograd.grad(want, learning)
    for place in frozen:
        tensors[place] = tensors[place].detach()
    ours = torch.autograd.grad(vocabulary_loss(*tensors, targets, 0.1), learning)
    for one, two in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-12, atol=1e-12)


def test_golden_one_hot_losses():
    # every word of six as likely: ln 6; probability 0.2: ln 5
    uniform = vocabulary_loss(torch.zeros(1, 4), torch.zeros(6, 4), None, torch.tensor([3]))
    assert uniform.item() == pytest.approx(1.7918, abs=5e-5)
    assert uniform.item() == pytest.approx(math.log(6), rel=1e-6)
    odds = torch.tensor([0.2, 0.1, 0.1, 0.1, 0.2, 0.3]).log()
    fifth = vocabulary_loss(torch.zeros(1, 4), torch.zeros(6, 4), odds, torch.tensor([0]))
    assert fifth.item() == pytest.approx(1.6094, abs=5e-5)
    assert fifth.item() == pytest.approx(math.log(5), rel=1e-6)


def test_no_tokens_give_zero_and_zero_gradient():
    *tensors, targets = inputs(0, torch.float32)
    value = vocabulary_loss(*tensors, targets, 0.1)
    assert value.item() == 0
    value.backward()
    assert tensors[0].grad.shape == (0, WIDTH)
    assert torch.equal(tensors[1].grad, torch.zeros(VOCAB, WIDTH))
    assert torch.equal(tensors[2].grad, torch.zeros(VOCAB))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_large_logits_neither_overflow_nor_vanish(smoothing):
    *tensors, targets = inputs(11, torch.float32, scale=1e4)
    value = vocabulary_loss(*tensors, targets, smoothing)
    torch.testing.assert_close(value, expected(*tensors, targets, smoothing), rtol=1e-5, atol=1.0)
    assert all(gradient.isfinite().all() for gradient in gradients(value, tensors))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_bfloat16_autocast_is_close(smoothing):
    *tensors, targets = inputs(300, torch.float32)
    wide = vocabulary_loss(*tensors, targets, smoothing)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = vocabulary_loss(*tensors, targets, smoothing)
    assert low.dtype == torch.float32
    torch.testing.assert_close(low, wide, rtol=5e-3, atol=0)
    for one, two in zip(gradients(low, tensors), gradients(wide, tensors), strict=True):
        assert one.dtype == torch.float32
        assert float((one - two).norm() / two.norm()) < 2e-2


def test_loss_is_a_sum_over_tokens():
    *tensors, targets = inputs(300, torch.float64)
    whole = vocabulary_loss(*tensors, targets, 0.1)
    parts = [vocabulary_loss(tensors[0][p], *tensors[1:], targets[p], 0.1) for p in (slice(0, 7), slice(7, 300))]
    torch.testing.assert_close(sum(parts), whole, rtol=1e-12, atol=1e-12)


def test_target_outside_the_vocabulary():
    *tensors, targets = inputs(3, torch.float32)
    targets[1] = VOCAB
    with pytest.raises(RuntimeError, match="out of bounds"):
        vocabulary_loss(*tensors, targets)

"""The chunked vocabulary product and its loss is `cross_entropy`, in value and gradient, however it is transformed."""

import math

import pytest
import torch
from devices import DEVICE, not_simulated, on_the_host, seeded
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from headwise.layers import loss
from headwise.layers.loss import output_loss, vocabulary_loss

VOCAB, WIDTH = 23, 7
EXACT = {"rtol": 1e-12, "atol": 1e-11}


def inputs(rows, dtype=torch.float64, bias=True, scale=1.0):
    generator = seeded(3)
    hidden = (torch.randn(rows, WIDTH, generator=generator, dtype=torch.float64) * scale).to(dtype).requires_grad_()
    weight = torch.randn(VOCAB, WIDTH, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
    offset = torch.randn(VOCAB, generator=generator, dtype=torch.float64).to(dtype).requires_grad_() if bias else None
    return hidden, weight, offset, torch.randint(VOCAB, (rows,), generator=generator)


def expected(hidden, weight, bias, targets, smoothing):
    return F.cross_entropy(F.linear(hidden, weight, bias), targets, reduction="sum", label_smoothing=smoothing)


def gradients(value, tensors):
    return torch.autograd.grad(value * 0.7, [tensor for tensor in tensors if tensor is not None])


def agree(ours, theirs, tensors, **tolerance):
    torch.testing.assert_close(ours, theirs, **tolerance)
    for one, two in zip(gradients(ours, tensors), gradients(theirs, tensors), strict=True):
        torch.testing.assert_close(one, two, **tolerance)


@pytest.mark.parametrize(("rows", "bias", "smoothing"), [(1, True, 0.0), (5, False, 0.1), (513, True, 0.1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_is_cross_entropy(rows, bias, smoothing, dtype):
    *tensors, targets = inputs(rows, dtype, bias)
    tolerance = EXACT if dtype == torch.float64 else {"rtol": 1e-5, "atol": 1e-4}
    ours, theirs = vocabulary_loss(*tensors, targets, smoothing), expected(*tensors, targets, smoothing)
    assert ours.dtype == dtype
    agree(ours, theirs, tensors, **tolerance)
    with torch.no_grad():
        torch.testing.assert_close(vocabulary_loss(*tensors, targets, smoothing), theirs, **tolerance)


@pytest.mark.parametrize("rows", [1, 3, 7])
def test_any_size_of_chunk(rows, monkeypatch):
    *tensors, targets = inputs(13)
    monkeypatch.setattr(loss, "CHUNK_ROWS", rows)
    agree(vocabulary_loss(*tensors, targets, 0.1), expected(*tensors, targets, 0.1), tensors, **EXACT)


def test_first_and_second_derivatives():
    hidden, weight, bias, targets = inputs(5)

    def value(*tensors):
        return vocabulary_loss(*tensors, targets, 0.2)

    # along random directions: whole Jacobians take seconds
    assert torch.autograd.gradcheck(value, (hidden, weight, bias), fast_mode=True)
    assert torch.autograd.gradgradcheck(value, (hidden, weight, bias), fast_mode=True)


@pytest.mark.parametrize("frozen", [{0}, {1, 2}])
def test_frozen_parts_do_not_stop_the_others(frozen):
    *tensors, targets = inputs(5)
    want = expected(*tensors, targets, 0.1)
    learning = [tensor for place, tensor in enumerate(tensors) if place not in frozen]
    theirs = torch.autograd.grad(want, learning)
    for place in frozen:
        tensors[place] = tensors[place].detach()
    ours = torch.autograd.grad(vocabulary_loss(*tensors, targets, 0.1), learning)
    for one, two in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, two, **EXACT)


def test_golden_one_hot_losses():
    # every word of six as likely: ln 6; probability 0.2: ln 5
    uniform = vocabulary_loss(torch.zeros(1, 4), torch.zeros(6, 4), None, torch.tensor([3]))
    assert uniform.item() == pytest.approx(math.log(6), rel=1e-6)
    odds = torch.tensor([0.2, 0.1, 0.1, 0.1, 0.2, 0.3]).log()
    fifth = vocabulary_loss(torch.zeros(1, 4), torch.zeros(6, 4), odds, torch.tensor([0]))
    assert fifth.item() == pytest.approx(math.log(5), rel=1e-6)


def test_no_tokens_give_zero_and_zero_gradient():
    *tensors, targets = inputs(0, torch.float32)
    value = vocabulary_loss(*tensors, targets, 0.1)
    assert value.item() == 0
    value.backward()
    assert all(torch.equal(tensor.grad, torch.zeros_like(tensor)) for tensor in tensors)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_large_logits_neither_overflow_nor_vanish(smoothing):
    *tensors, targets = inputs(11, torch.float32, scale=1e4)
    value = vocabulary_loss(*tensors, targets, smoothing)
    torch.testing.assert_close(value, expected(*tensors, targets, smoothing), rtol=1e-5, atol=1.0)
    assert all(gradient.isfinite().all() for gradient in gradients(value, tensors))


@not_simulated("it has no autocast")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision_autocast_is_close(dtype):
    *tensors, targets = inputs(300, torch.float32)
    wide = vocabulary_loss(*tensors, targets, 0.1)
    with torch.autocast(DEVICE, dtype=dtype):
        low = vocabulary_loss(*tensors, targets, 0.1)
    assert low.dtype == torch.float32
    torch.testing.assert_close(low, wide, rtol=5e-3, atol=0)
    for one, two in zip(gradients(low, tensors), gradients(wide, tensors), strict=True):
        assert one.dtype == torch.float32
        assert float((one - two).norm() / two.norm()) < 2e-2


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_largest_of_half_precision_numbers(dtype):
    rows = [[1.0, -2.0, 3.0], [-1.0, -0.5, -3.0], [-0.0, -1.0, -2.0], [0.0, 1e-7, -5.0], [-math.inf, 2.0, math.inf]]
    values = torch.tensor(rows).to(dtype)
    assert torch.equal(loss._largest(values), values.amax(-1))


def test_no_block_of_half_precision_logits_is_copied():
    """`scatter_` and `scatter_add_` copy all of their tensor where it is half precision."""
    *tensors, targets = inputs(5, torch.bfloat16)
    with torch.profiler.profile() as profile:
        vocabulary_loss(*tensors, targets, 0.1)
    assert not {event.name for event in profile.events()} & {"aten::scatter_", "aten::scatter_add_"}


def saved_elsewhere(hidden, weight, bias, targets):
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor.clone(), lambda tensor: tensor):
        return vocabulary_loss(hidden, weight, bias, targets, 0.1)


def checkpointed(*tensors):
    return checkpoint(vocabulary_loss, *tensors, 0.1, use_reentrant=False)


@pytest.mark.parametrize("transformed", [saved_elsewhere, checkpointed])
def test_under_transforms(transformed):
    *tensors, targets = inputs(13)
    agree(transformed(*tensors, targets), expected(*tensors, targets, 0.1), tensors, **EXACT)


# what PyTorch itself does for forward-mode derivatives
@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")
def test_under_functional_transforms():
    hidden, weight, bias, _ = (tensor.detach() for tensor in inputs(5))
    rows = torch.randn(3, 5, WIDTH, dtype=torch.float64)
    targets = torch.randint(VOCAB, (3, 5))

    def each(function):
        return torch.vmap(torch.func.grad(lambda w, h, t: function(h, w, bias, t, 0.1)), (None, 0, 0))

    torch.testing.assert_close(
        each(vocabulary_loss)(weight, rows, targets), each(expected)(weight, rows, targets), **EXACT
    )

    def twice(function):
        return torch.func.jacrev(torch.func.jacrev(lambda h: function(h, weight, bias, targets[0], 0.1)))

    torch.testing.assert_close(twice(vocabulary_loss)(hidden), twice(expected)(hidden), **EXACT)
    with pytest.raises(NotImplementedError, match="jvp"):
        torch.func.jvp(lambda h: vocabulary_loss(h, weight, bias, targets[0]), (hidden,), (hidden,))


def test_on_tensors_without_numbers():
    *tensors, targets = (tensor.detach().to("meta") for tensor in inputs(5))
    learning = [tensor.requires_grad_() for tensor in tensors]
    vocabulary_loss(*learning, targets, 0.1).backward()
    assert learning[1].grad.shape == (VOCAB, WIDTH)


class Outside(nn.Module):
    def __init__(self, output):
        super().__init__()
        self.output = output

    def forward(self, hidden, targets):
        return output_loss(self.output, hidden, targets, 0.1)


def test_parameters_given_by_functional_call_are_used():
    hidden, weight, bias, targets = inputs(5)
    model = Outside(nn.Linear(WIDTH, VOCAB).double())
    given = {"output.weight": weight, "output.bias": bias}
    found = torch.func.functional_call(model, given, (hidden, targets))
    agree(found, expected(hidden, weight, bias, targets, 0.1), (hidden, weight, bias), **EXACT)


class Adapted(nn.Linear):
    """As adapters of low rank are: a linear layer of its own class."""

    def forward(self, x):
        return super().forward(x) * 1.5


@pytest.mark.parametrize("kind", ["adapted", "wrapped", "parametrized"])
def test_an_output_layer_of_another_kind_is_called(kind, monkeypatch):
    monkeypatch.setattr(loss, "CHUNK_ROWS", 3)
    hidden, _, _, targets = inputs(5)
    output = Adapted(WIDTH, VOCAB) if kind == "adapted" else nn.Linear(WIDTH, VOCAB)
    output.double()
    if kind == "wrapped":
        output = nn.Sequential(output, nn.Tanh())
    if kind == "parametrized":
        nn.utils.parametrizations.weight_norm(output)
    tensors = [hidden, *output.parameters()]
    theirs = F.cross_entropy(output(hidden), targets, reduction="sum", label_smoothing=0.1)
    agree(output_loss(output, hidden, targets, 0.1), theirs, tensors, rtol=1e-6, atol=1e-6)


def test_gradients_are_averaged_over_processes(tmp_path):
    hidden, _, _, targets = inputs(5, torch.float32)
    model = Outside(nn.Linear(WIDTH, VOCAB))
    theirs = torch.autograd.grad(model(hidden, targets), list(model.parameters()))
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        DistributedDataParallel(model)(hidden, targets).backward()
    finally:
        torch.distributed.destroy_process_group()
    for parameter, gradient in zip(model.parameters(), theirs, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)


@on_the_host("a GPU ends the process")
def test_target_outside_the_vocabulary():
    *tensors, targets = inputs(3, torch.float32)
    targets[1] = VOCAB
    with pytest.raises((IndexError, RuntimeError), match=r"out of bounds|out of range"):
        vocabulary_loss(*tensors, targets)


@pytest.mark.parametrize("transform", ["functional_call", "grad"])
def test_an_output_layer_that_is_called_learns_the_parameters_it_was_given(transform):
    output = torch.nn.Sequential(torch.nn.Linear(4, 6)).double()
    hidden, targets = torch.randn(5, 4).double(), torch.tensor([3, 0, 5, 1, 1])
    given = {name: torch.randn_like(tensor).requires_grad_() for name, tensor in output.named_parameters()}

    def loss(parameters):
        called = lambda rows: torch.func.functional_call(output, parameters, (rows,))  # noqa: E731
        return torch.nn.functional.cross_entropy(called(hidden), targets, reduction="sum")

    wanted = torch.autograd.grad(loss(given), list(given.values()))
    holder = Holder(output)
    own = {f"output.{name}": tensor for name, tensor in given.items()}
    if transform == "grad":
        found = torch.func.grad(lambda p: torch.func.functional_call(holder, p, (hidden, targets)))(own).values()
    else:
        found = torch.autograd.grad(torch.func.functional_call(holder, own, (hidden, targets)), list(own.values()))
    for one, two in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, two)


class Holder(torch.nn.Module):
    def __init__(self, output):
        super().__init__()
        self.output = output

    def forward(self, hidden, targets):
        return output_loss(self.output, hidden, targets)


def test_targets_below_zero_are_refused_and_chunks_are_summed_unrounded():
    with pytest.raises((IndexError, RuntimeError)):
        vocabulary_loss(torch.zeros(1, 4), torch.zeros(6, 4), None, torch.tensor([-1]))
    hidden, weight = torch.randn(8192, 8), torch.randn(16, 8)
    targets = torch.randint(16, (8192,))
    errors = []
    for rows in (8192, 512):
        low, exact = (w.clone().requires_grad_() for w in (weight.bfloat16(), weight.bfloat16().float()))
        parts = zip(hidden.bfloat16().split(rows), targets.split(rows), strict=True)
        if rows == 8192:
            total = torch.nn.functional.cross_entropy(hidden.bfloat16().float() @ exact.t(), targets, reduction="sum")
            (wanted,) = torch.autograd.grad(total, exact)
        (found,) = torch.autograd.grad(sum(vocabulary_loss(part, low, None, at) for part, at in parts), low)
        errors.append(((found.float() - wanted).norm() / wanted.norm()).item())
    # all rows in one call, in chunks of 512 inside, are no worse than 1.5 times the sum of calls
    assert errors[0] < 1.5 * errors[1]

"""Additive attention without the numbers inside tanh: blocks equal the definition, transformed too."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from attention_cases import DTYPES, assert_near, numbers_like
from devices import DEVICE, not_simulated
from torch import nn
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint

from headwise.attention import planner
from headwise.attention.call import Call
from headwise.attention.kernels import additive, plain
from headwise.attention.masks import Causal, Padding, Table, Window
from headwise.attention.relative import Relative
from headwise.attention.scores import Additive, ScaledDot, SoftCap
from headwise.errors import Unsupported

# forward derivatives make PyTorch load code that warns of itself
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
ACCURACY = {torch.float64: 1e-12, torch.float32: 2e-5, torch.bfloat16: 4e-2}


@pytest.fixture(params=[2**18, 1, 40, 150])
def block(request, monkeypatch):
    """Blocks of everything, of single pairs, of a few, and of several rows and columns that leave a rest."""
    monkeypatch.setattr(additive, "_CACHED", request.param)


def a_call(dtype=torch.float64, *, query_len=5, key_len=7, kv_heads=2, hidden=11, **changes):
    def numbers(*shape):
        return torch.randn(*shape, dtype=torch.float64).to(dtype).requires_grad_()

    score = Additive(3, 13, hidden).to(dtype)
    query = numbers(2, 4, query_len, 3)
    key, value = numbers(2, kv_heads, key_len, 13), numbers(2, kv_heads, key_len, 6)
    return Call(query, key, value, score, **changes)


def learned(call):
    tensors = [call.query, call.key, call.value, *call.score.parameters()]
    return tensors if call.bias is None else [*tensors, call.bias]


def assert_plain(call):
    results = []
    for compute in (additive.compute, plain.compute):
        # the same weights are dropped
        torch.manual_seed(3)
        output = compute(call)
        results.append([output, *torch.autograd.grad(output, learned(call), numbers_like(output, 0))])
    for found, right in zip(*results, strict=True):
        assert found.dtype == right.dtype
        assert_near(found, right.detach().double().cpu().numpy(), ACCURACY[call.query.dtype])


def test_output_by_loops(block):
    call = a_call(mask=Causal() & Padding(torch.tensor([7, 0])))
    output = additive.compute(call)
    query, key, value = (tensor.detach().cpu().numpy() for tensor in (call.query, call.key, call.value))
    w_query, w_key, v = (parameter.detach().cpu().numpy() for parameter in call.score.parameters())
    expected = np.zeros(output.shape)
    for b, h, i in np.ndindex(2, 4, 5):
        seen = range(min(i + 1, (7, 0)[b]))
        powers = [math.exp(float(v[0] @ np.tanh(w_query @ query[b, h, i] + w_key @ key[b, h // 2, j]))) for j in seen]
        for j, power in zip(seen, powers, strict=True):
            expected[b, h, i] += power / sum(powers) * value[b, h // 2, j]
    assert_near(output, expected, 1e-12)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_masks_normalizers_biases_dropout_and_groups(dtype, block):
    bias = torch.randn(1, 4, 5, 7).masked_fill(torch.rand(1, 4, 5, 7) < 0.2, -math.inf).to(dtype).requires_grad_()
    for options in (
        {"kv_heads": 1, "mask": Causal(), "normalizer": "sparsemax"},
        {"kv_heads": 4, "mask": ~Padding(torch.tensor([7, 3])) | Window(1, 0), "bias": bias},
        {"mask": Table(torch.rand(2, 4, 5, 7) < 0.3), "normalizer": "relu", "dropout": 0.4},
    ):
        assert_plain(a_call(dtype, **options))


@pytest.mark.parametrize("query_len", [0, 1, 5])
@pytest.mark.parametrize("key_len", [0, 1, 7])
def test_no_tokens_and_one(query_len, key_len):
    assert_plain(a_call(query_len=query_len, key_len=key_len))
    empty = a_call(query_len=query_len, key_len=key_len, mask=Padding(torch.tensor([0, 1])))
    assert_plain(replace(empty, value=empty.value[..., :0]))


def test_odd_strides(block):
    call = a_call()
    wide = torch.randn(2, 4, 5, 6, dtype=torch.float64)
    score = Additive(3, 13, 11).double()
    for name, parameter in (
        ("query", torch.randn(3, 11)),
        ("key", torch.randn(26, 11)[::2]),
        ("value", torch.randn(11, 1)),
    ):
        getattr(score, name).weight = nn.Parameter(parameter.double().mT)
    strange = replace(
        call,
        score=score,
        query=wide[..., ::2].detach().requires_grad_(),
        key=call.key.detach().mT.contiguous().mT.requires_grad_(),
        value=call.value.detach()[:1, :1].expand(2, 2, -1, -1).requires_grad_(),
        bias=torch.randn(7, 5, dtype=torch.float64).mT[None, None].requires_grad_(),
    )
    assert_plain(strange)
    for gradient in (torch.ones(1, dtype=torch.float64).expand(2, 4, 5, 6), torch.randn(2, 4, 6, 5).double().mT):
        found, right = (
            torch.autograd.grad(run(strange), learned(strange), gradient) for run in (additive.compute, plain.compute)
        )
        for one, two in zip(found, right, strict=True):
            assert_close(one, two)


@pytest.mark.parametrize("size", [1.0, 44.0, 300.0, 1e30])
def test_numbers_of_any_size(size):
    """Exponentials of such numbers leave float32, and sums of two large ones may be small."""
    query = size * torch.tensor([[[1.0, -1.0], [0.99, 1.0]]])
    key = -size * torch.tensor([[[1.0, -1.0], [0.98, 0.0], [-1.0, -1.0]]])
    inputs = [tensor.requires_grad_() for tensor in (query, key, torch.tensor([[0.7, -1.3]]))]
    gradient = torch.randn(1, 2, 3)
    sums = query.double().unsqueeze(2) + key.double().unsqueeze(1)
    # the sum that float32 gives, since that is what is compared with
    exact = torch.tanh((query.unsqueeze(2) + key.unsqueeze(1)).double() + 0 * sums) @ inputs[2][0].double()
    scores = additive.pair_scores(*inputs)
    assert_close(scores, exact.float(), rtol=0, atol=1e-6)
    found, right = (torch.autograd.grad(output, inputs, gradient.to(output.dtype)) for output in (scores, exact))
    for one, two in zip(found, right, strict=True):
        assert_close(one, two, rtol=0, atol=2e-6)


def test_what_is_hidden_reaches_nothing():
    call = a_call(mask=Padding(torch.tensor([7, 4])))
    poisoned = [tensor.detach().clone() for tensor in (call.key, call.value)]
    for tensor in poisoned:
        tensor[1, :, 4:] = math.nan
    other = replace(call, key=poisoned[0].requires_grad_(), value=poisoned[1].requires_grad_())
    for one, two in zip(
        *([run, *torch.autograd.grad(run.sum(), learned(c))] for c in (call, other) for run in [additive.compute(c)]),
        strict=True,
    ):
        assert torch.equal(one, two)


def test_nothing_of_hidden_size_is_kept():
    call, saved = a_call(torch.float32, query_len=23, key_len=29, hidden=31), []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: saved.append(tensor) or tensor, lambda tensor: tensor):
        additive.compute(call)
    pairs, tokens = 2 * 4 * 23 * 29, 2 * 4 * 29
    assert max(tensor.numel() for tensor in saved) <= max(pairs, tokens * 31)


class Attention(nn.Module):
    """The kernel as a module."""

    def __init__(self):
        super().__init__()
        self.score = Additive(3, 4, 5).double()

    def forward(self, query, key, value, lens):
        return planner.run(Call(query, key, value, self.score, mask=Padding(lens)), "additive")


def inputs(*batch):
    shapes = ((2, 2, 5, 3), (2, 1, 7, 4), (2, 1, 7, 6))
    return [torch.randn(*batch, *shape, dtype=torch.float64) for shape in shapes], torch.tensor([7, 4])


def test_under_checkpoint_and_on_meta_tensors():
    module, (tensors, lens) = Attention(), inputs()
    tensors = [tensor.requires_grad_() for tensor in tensors]
    outputs = module(*tensors, lens), checkpoint(module, *tensors, lens, use_reentrant=False)
    for one, two in zip(*(torch.autograd.grad(output.square().sum(), tensors) for output in outputs), strict=True):
        assert_close(one, two, rtol=0, atol=0)
    on_meta = [tensor.detach().to("meta").requires_grad_() for tensor in tensors]
    assert torch.autograd.grad(module.to("meta")(*on_meta, lens.to("meta")).sum(), on_meta)[1].shape == tensors[1].shape


def test_other_parameters_and_gradients_by_transforms():
    module, (tensors, lens) = Attention(), inputs()
    other = {name: 0.5 * parameter.detach() for name, parameter in module.named_parameters()}
    loss = lambda given, *args: torch.func.functional_call(module, given, (*args, lens)).square().sum()  # noqa: E731
    found = torch.func.grad(loss, (0, 1))(other, *tensors)
    module.load_state_dict(other)
    wanted = torch.autograd.grad(
        module(tensors[0].requires_grad_(), *tensors[1:], lens).square().sum(), [*module.parameters(), tensors[0]]
    )
    for one, two in zip([*found[0].values(), found[1]], wanted, strict=True):
        assert_close(one, two)


@not_simulated("it has no autocast")
def test_autocast_changes_no_number():
    call = a_call(torch.float32)
    expected = additive.compute(call)
    with torch.autocast(DEVICE, torch.bfloat16):
        assert_close(planner.run(call, "additive"), expected, rtol=0, atol=0)


def definition(query, key, value):
    return (torch.tanh(query.unsqueeze(2) + key.unsqueeze(1)) * value[:, None, None]).sum(-1)


def trio(*batch, grad=False):
    shapes = ((2, 5, 3), (2, 4, 3), (2, 3))
    return [torch.randn(*batch, *shape, dtype=torch.float64, requires_grad=grad) for shape in shapes]


def test_gradients_of_every_order_are_derivatives(monkeypatch):
    monkeypatch.setattr(additive, "_CACHED", 40)
    tensors = trio(grad=True)
    assert torch.autograd.gradcheck(additive.pair_scores, tensors, check_forward_ad=DEVICE != "sim")
    assert torch.autograd.gradgradcheck(additive.pair_scores, tensors)


@not_simulated("it has no vmap")
@pytest.mark.parametrize(
    "transform",
    {
        "vmap": lambda f: lambda tensors: torch.func.vmap(f)(*tensors),
        "of one input": lambda f: (
            lambda tensors: torch.func.vmap(f, (None, 1, None))(
                tensors[0][0], tensors[1].transpose(0, 1), tensors[2][0]
            )
        ),
        "of v": lambda f: lambda tensors: torch.func.vmap(f, (None, None, 0))(tensors[0][0], tensors[1][0], tensors[2]),
        "gradients": lambda f: (
            lambda tensors: torch.func.vmap(torch.func.grad(lambda *x: f(*x).sin().sum(), (0, 1, 2)))(*tensors)
        ),
        "hessian": lambda f: (
            lambda tensors: torch.func.hessian(lambda *x: f(*x).sin().sum(), (0, 2))(*(x[0] for x in tensors))
        ),
        "two reverse": lambda f: (
            lambda tensors: torch.func.jacrev(
                torch.func.jacrev(lambda x: f(x, tensors[1][0], tensors[2][0]).sin().sum())
            )(tensors[0][0])
        ),
    }.items(),
    ids=lambda item: item[0],
)
def test_transforms_of_functions(transform):
    tensors = trio(3)
    found, wanted = (
        torch.utils._pytree.tree_leaves(transform[1](f)(tensors)) for f in (additive.pair_scores, definition)
    )
    for one, two in zip(found, wanted, strict=True):
        assert_close(one, two)


def test_what_it_refuses():
    call = a_call(torch.float32)
    for changes, why in (
        ({"score": SoftCap(Additive(3, 13, 2), 5.0)}, "the score is SoftCap, not Additive"),
        ({"relative": Relative(low=0, scalar=torch.zeros(1, 1))}, "there are relative positions"),
    ):
        with pytest.raises(Unsupported, match=f"kernel 'additive' cannot compute this attention exactly: {why}"):
            planner.run(replace(call, **changes), "additive")
    assert (
        additive.refusal(replace(call, query=call.query.new_zeros(2, 4, 5, 13), score=ScaledDot()))
        == "the score is ScaledDot, not Additive"
    )


def test_what_is_said_of_a_call():
    call = a_call(torch.float32)
    assert additive.refusal(call) is None
    assert additive.pairs(call) == 2 * 4 * 5 * 7
    assert additive.keeps(call) == "scores (2, 4, 5, 7), 1,120 bytes"

"""Every kernel equals the definition, forward and backward: masks, normalizers, biases, types, layouts, lengths."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from attention_cases import (
    DTYPES,
    GENERAL,
    KERNELS,
    TOLERANCE,
    Case,
    assert_near,
    cases,
    gradients,
    numbers_like,
    run,
    tolerance,
    without,
)
from hypothesis import given

from headwise.attention import attend, kernels, planner
from headwise.attention.call import Call
from headwise.attention.kernels import plain, strips
from headwise.attention.masks import Blocks, Causal, Edges, Padding, Table, Window
from headwise.attention.mechanisms.scored import Scored
from headwise.attention.relative import Relative
from headwise.attention.scores import GAT, Additive, Bilinear, Cosine, Dot, SoftCap
from headwise.errors import ShapeError, Unsupported

every_kernel = pytest.mark.parametrize("kernel", KERNELS)
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)

# a mask under which a kernel that needs one takes any call of 5 queries and 7 keys
PAIRS = torch.cartesian_prod(torch.arange(7), torch.arange(5)).T
OWN_MASKS = {"banded": Window(6, 6), "edges": Edges(PAIRS, 7), "groups": Blocks(7)}


def masked_for(kernel: str, call: Call) -> Call:
    """The call under a mask that allows everything, where the kernel needs a certain kind."""
    return replace(call, mask=OWN_MASKS.get(kernel, call.mask))


@every_dtype
@every_kernel
@given(cases())
def test_outputs_and_gradients_are_those_of_the_definition(kernel, dtype, case):
    call = case.build(dtype, grad=True)
    output = run(call, kernel)
    if output is None:
        return
    gradient = numbers_like(output, 1)
    expected = case.expected(call, gradient)
    assert output.dtype == dtype
    assert_near(output, expected.output, tolerance(dtype, case.size))
    wanted = (expected.d_query, expected.d_key, expected.d_value)
    for one, two in zip(gradients(call, output, gradient), wanted, strict=True):
        assert_near(one, two, 4 * TOLERANCE[dtype] * max(1.0, case.size))
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            # some kernels keep more digits without a gradient
            assert_near(run(call, kernel), expected.output, tolerance(dtype, case.size))


@every_kernel
@given(cases(biased=True))
def test_a_bias_that_learns_has_the_gradient_of_the_definition(kernel, case):
    call = case.build(torch.float64, grad=True)
    call = without(call, bias=call.bias.clone().requires_grad_())
    output = run(call, kernel)
    if output is None:
        return
    gradient = numbers_like(output, 2)
    actual = torch.autograd.grad(output, call.bias, gradient, materialize_grads=True)[0]
    assert_near(actual, case.expected(call, gradient).d_bias, 4e-12 * max(1.0, case.size))


@pytest.mark.parametrize("kernel", list(kernels.KERNELS))
@pytest.mark.parametrize("normalizer", ["softmax", "sigmoid"])
def test_derivatives_by_differences(kernel, normalizer):
    # the third sequence has no key, the fourth row of the second no allowed one
    mask = Padding(torch.tensor([[3, 2, 1], [3, 0, 2], [0, 0, 0]]))
    case = Case(batch=3, heads=2, kv_heads=1, query_len=3, key_len=3, normalizer=normalizer)
    call = without(case.build(torch.float64, grad=True), mask=mask)
    call = replace(call, mask=mask & OWN_MASKS[kernel]) if kernel in OWN_MASKS else call
    if kernels.KERNELS[kernel].refusal(call) is not None:
        return

    def function(query, key, value):
        return planner.run(without(call, query=query, key=key, value=value), kernel)

    inputs = (call.query, call.key, call.value)
    assert torch.autograd.gradcheck(function, inputs, fast_mode=True)
    if kernel in ("plain", "strips"):
        assert torch.autograd.gradgradcheck(function, inputs, fast_mode=True)


@pytest.mark.parametrize("score", [Bilinear(4, 4), Additive(4, 4, 3), GAT(3, 4), SoftCap(Additive(4, 4, 3), 2.0)])
@every_kernel
def test_scores_with_parameters_learn_the_same_in_every_kernel(kernel, score):
    call = replace(Case().build(torch.float64), score=score.double())
    call = masked_for(kernel, call)
    if kernel not in ("auto", "plain") and kernels.KERNELS[kernel].refusal(call) is not None:
        return
    found = []
    for name in (kernel, "plain"):
        output = planner.run(call, name)
        found.append([output, *torch.autograd.grad(output.square().sum(), list(score.parameters()))])
    for one, two in zip(*found, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-12)


class Tempered(torch.nn.Module):
    """A normalizer that learns."""

    def __init__(self):
        super().__init__()
        self.temperature = torch.nn.Parameter(torch.tensor(0.7, dtype=torch.float64))

    def forward(self, scores, keep):
        scores = scores * self.temperature
        return (scores if keep is None else scores.masked_fill(~keep, float("-inf"))).softmax(-1)


@every_kernel
def test_parameters_of_a_normalizer_learn_in_every_kernel(kernel):
    normalizer = Tempered()
    call = masked_for(kernel, replace(Case().build(torch.float64), normalizer=normalizer))
    if kernel not in ("auto", "plain") and kernels.KERNELS[kernel].refusal(call) is not None:
        return
    call.learns  # noqa: B018
    found = [
        torch.autograd.grad(planner.run(call, name).square().sum(), normalizer.temperature)[0]
        for name in (kernel, "plain")
    ]
    torch.testing.assert_close(*found)
    assert found[0] != 0


LAYOUTS = {
    "sliced": lambda t: torch.stack((t, t.flip(-1)), -1).flatten(-2)[..., ::2],
    "transposed": lambda t: t.mT.contiguous().mT,
    "heads last": lambda t: t.transpose(1, 2).contiguous().transpose(1, 2),
    "strided rows": lambda t: torch.stack((t, t), 3).flatten(2, 3)[:, :, ::2],
}


@pytest.mark.parametrize("length", [1, 97])
@pytest.mark.parametrize("layout", LAYOUTS)
@every_kernel
def test_layouts_do_not_matter(kernel, layout, length):
    """Of query, key, value, bias and the gradient that comes in: strides that no kernel may take for granted."""
    turned = LAYOUTS[layout]
    query, key, value = (torch.randn(2, 2, n, 16, dtype=torch.float64) for n in (length, 101, 101))
    index = torch.arange(97)
    masks = {
        "banded": Window(3, 5),
        "edges": Edges(torch.stack((index, (7 * index) % 97)), 101),
        "groups": Blocks(40),
    }
    mask = masks.get(kernel, Padding(torch.tensor([101, 53])))
    gradient = torch.randn(2, 2, length, 16, dtype=torch.float64)
    results = []
    for change in (lambda t: t, turned):
        for bias in (None, torch.linspace(-1, 1, 2 * length * 101, dtype=torch.float64).view(1, 2, length, 101)):
            tensors = [change(tensor).detach().requires_grad_() for tensor in (query, key, value)]
            torch.manual_seed(1)
            call = Call(*tensors, mask=mask, bias=None if bias is None else change(bias))
            with torch.set_grad_enabled(kernel != "decode"):
                output = run(call, kernel)
            if output is not None:
                grads = [] if kernel == "decode" else torch.autograd.grad(output, tensors, change(gradient))
                expected = plain.compute(call)
                torch.testing.assert_close(output, expected, rtol=0, atol=1e-12)
                wanted = [] if kernel == "decode" else torch.autograd.grad(expected, tensors, gradient)
                results.append(output)
                for one, two in zip(grads, wanted, strict=True):
                    torch.testing.assert_close(one, two, rtol=0, atol=1e-12)
    assert results or (kernel == "decode" and length != 1)


@pytest.mark.parametrize("kernel", GENERAL)
def test_expanded_keys_get_the_summed_gradient(kernel):
    case = Case(spec=("query_lengths", 3))
    key = torch.randn(1, 1, 7, 4, dtype=torch.float64, requires_grad=True)
    value = torch.randn(1, 1, 1, 3, dtype=torch.float64, requires_grad=True)
    call = without(case.build(torch.float64), key=key.expand(2, 3, 7, 4), value=value.expand(2, 3, 7, 3))
    output = run(call, kernel)
    gradient = numbers_like(output, 4)
    expected = case.expected(call, gradient)
    d_key, d_value = torch.autograd.grad(output, (key, value), gradient)
    assert_near(output, expected.output, 1e-12)
    assert_near(d_key, expected.d_key.sum((0, 1), keepdims=True), 1e-12)
    assert_near(d_value, expected.d_value.sum((0, 1, 2), keepdims=True), 1e-12)


@every_kernel
@pytest.mark.parametrize(
    ("batch", "query_len", "key_len", "dim", "value_dim"),
    [(0, 5, 7, 4, 3), (2, 0, 7, 4, 3), (2, 5, 0, 4, 3), (2, 5, 7, 0, 3), (2, 5, 7, 4, 0)],
)
@pytest.mark.parametrize("normalizer", ["softmax", "sparsemax", "top_k:3"])
def test_empty_axes_give_empty_outputs_or_zeros(kernel, normalizer, batch, query_len, key_len, dim, value_dim):
    sizes = {"batch": batch, "query_len": query_len, "key_len": key_len, "dim": dim, "value_dim": value_dim}
    for spec in (None, ("causal",), ("lengths", 1)):
        case = Case(**sizes, spec=spec, normalizer=normalizer)
        call = case.build(torch.float32, grad=True)
        output = run(call, kernel)
        if output is None:
            continue
        assert output.shape == (batch, 3, query_len, value_dim)
        assert_near(output, case.expected(call).output, 1e-5)
        output.sum().backward()
        if key_len == 0:
            assert not output.any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@every_kernel
def test_large_scores_in_half_precision_are_not_rounded(kernel, dtype):
    # scores of hundreds: rounded to bfloat16 they are wrong by a whole unit
    case = Case(size=100.0, dim=8, key_len=7)
    call = masked_for(kernel, case.build(dtype))
    output = run(call, kernel)
    if output is not None:
        assert output.dtype == dtype
        assert_near(output, case.expected(call).output, 2e-2)


def refusals(**changes) -> dict[str, str | None]:
    call = replace(Case().build(torch.float32), **changes)
    return {name: kernels.KERNELS[name].refusal(call) for name in ("fused", "strips", "plain")}


def test_refusals_say_what_of_the_call_prevents_them():
    assert set(refusals().values()) == {None}
    assert refusals(normalizer="relu")["fused"] == "the normalizer is relu, not softmax"
    assert refusals(score=Additive(4, 4, 2))["fused"] == "the score Additive is no dot product"
    relative = Relative(low=-1, value_table=torch.zeros(1, 3, 3))
    assert refusals(relative=relative)["fused"] == "its relative positions are more than one number for each distance"
    call = Case(key_len=0).build(torch.float32)
    assert {kernels.KERNELS[name].refusal(call) for name in ("fused", "strips")} == {"an axis is empty"}
    with pytest.raises(Unsupported, match="kernel 'fused' cannot compute this attention exactly: an axis is empty"):
        planner.run(call, "fused")
    bias = torch.zeros(1, 1, 5, 7)
    half = replace(Case().build(torch.bfloat16), bias=bias)
    assert kernels.KERNELS["fused"].refusal(half) == "the bias would be rounded to torch.bfloat16"


@pytest.mark.parametrize("kernel", ["plain", "strips"])
def test_relative_positions_enter_scores_and_values(kernel, monkeypatch):
    # a few rows in a strip, so that there are several
    monkeypatch.setattr(strips, "_NUMBERS", 1)
    monkeypatch.setattr(strips, "_ROWS", 2)
    case = Case(spec=("query_lengths", 5))
    call = case.build(torch.float64)
    table, scalar = torch.randn(3, 5, 3, dtype=torch.float64), torch.randn(3, 5, dtype=torch.float64)
    output = planner.run(replace(call, relative=Relative(low=-2, value_table=table)), kernel)
    rows = np.clip(np.arange(7) - np.arange(5)[:, None], -2, 2) + 2
    extra = np.broadcast_to(table.cpu().numpy()[None, :, rows], (2, 3, 5, 7, 3))
    expected = case.expected(call)
    assert_near(output, expected.output + np.einsum("bhqk,bhqkd->bhqd", expected.weights, extra), 1e-12)
    biased = planner.run(replace(call, relative=Relative(low=-2, scalar=scalar)), kernel)
    assert_near(biased, planner.run(replace(call, bias=scalar[:, rows][None]), "plain").cpu().numpy(), 1e-12)
    # keys before a band, which no strip reads, count
    near = planner.run(replace(call, mask=Window(1, 1), relative=Relative(low=-2, scalar=scalar)), kernel)
    expected = planner.run(replace(call, mask=Window(1, 1), bias=scalar[:, rows][None]), "plain")
    assert_near(near, expected.cpu().numpy(), 1e-12)


@pytest.mark.parametrize("start", [0, 4])
@pytest.mark.parametrize("mask", [Causal(), Window(2, 1), Window(2, 1) & Causal()], ids=["causal", "window", "both"])
@every_kernel
def test_what_a_mask_hides_counts_from_the_place_of_the_first_query(kernel, mask, start, monkeypatch):
    monkeypatch.setattr(strips, "_NUMBERS", 1)
    monkeypatch.setattr(strips, "_ROWS", 2)
    query, key, value = (torch.randn(2, 3, n, 7, dtype=torch.float64) for n in (5, 11, 11))
    output = run(Call(query, key, value, mask=mask, query_start=start), kernel)
    if output is None:
        assert kernel not in ("auto", "plain", "strips", "fused")
        return
    table = torch.tensor([[mask.allows(0, 0, start + i, j) for j in range(11)] for i in range(5)])
    torch.testing.assert_close(output, attend(query, key, value, mask=Table(table), kernel="plain"))


@every_kernel
def test_dropout_drops_what_it_should_and_the_same_going_back(kernel):
    """The rate in the mean, and a gradient that is that of the very mask that was drawn."""
    query, key = torch.zeros(1, 2, 64, 4), torch.zeros(1, 2, 64, 4)
    value = torch.ones(1, 2, 64, 64, requires_grad=True)
    mask = {"banded": Window(63, 63), "edges": Edges(torch.cartesian_prod(*[torch.arange(64)] * 2).T, 64)}.get(kernel)
    for rate in (0.3, 0.001):
        call = Call(query, key, value, mask=mask, dropout=rate)
        if kernel != "auto" and kernels.KERNELS[kernel].refusal(call) is not None:
            return
        torch.manual_seed(3)
        output = planner.run(call, kernel)
        (gradient,) = torch.autograd.grad(output[..., 0].sum(), value)
        # linear in the value: the gradient knows the weights that were kept
        torch.testing.assert_close(gradient[..., 0].sum(), output[..., 0].sum().detach(), rtol=1e-5, atol=1e-4)
        kept = output.detach()[..., 0].mean() * (1 - rate)
        # 8,192 weights: four standard deviations
        assert abs(float(kept) - (1 - rate)) < 4 * (rate * (1 - rate) / 8192) ** 0.5 + 1e-6
    with torch.no_grad():
        assert torch.equal(
            planner.run(replace(call, dropout=0.0), kernel), planner.run(replace(call, dropout=0.0), kernel)
        )


def test_strips_read_only_the_keys_of_their_band(monkeypatch):
    monkeypatch.setattr(strips, "_NUMBERS", 1)
    x = torch.randn(1, 2, 64, 4)
    assert strips.num_pairs(Call(x, x, x, mask=Causal())) == 2 * sum(16 * last for last in (16, 32, 48, 64))
    assert strips.num_pairs(Call(x, x, x, mask=Window(1, 1))) == 2 * 16 * (17 + 18 + 18 + 17)
    assert strips.num_pairs(Call(x, x, x)) == 2 * 64 * 64
    torch.testing.assert_close(
        strips.compute(Call(x, x, x, mask=Window(1, 1))), plain.compute(Call(x, x, x, mask=Window(1, 1)))
    )


def test_strips_made_again_take_the_parameters_given_for_the_call():
    """Under `functional_call` a module holds them only until the call returns."""
    module, inputs = Scored(Additive(4, 4, 3), kernel="strips"), [torch.randn(2, 3, 5, 4) for _ in range(3)]
    given = {name: torch.randn_like(p).requires_grad_() for name, p in module.named_parameters()}
    output = torch.func.functional_call(module, given, (Call(*inputs),))
    found = torch.autograd.grad(output.square().sum(), list(given.values()))
    module.load_state_dict({name: p.detach() for name, p in given.items()})
    expected = torch.autograd.grad(module(Call(*inputs)).square().sum(), list(module.parameters()))
    torch.testing.assert_close(found, expected)


def test_scale_is_one_over_the_root_of_the_width():
    for kernel in GENERAL[1:]:
        query, key, value = (torch.randn(2, 3, n, 11, dtype=torch.float64) for n in (5, 7, 7))
        default = attend(query, key, value, kernel=kernel)
        assert_near(default, attend(query, key, value, scale=11**-0.5, kernel=kernel).cpu().numpy(), 1e-13)
        assert_near(default, attend(3 * query, key, value, score=Dot(11**-0.5 / 3), kernel=kernel).cpu().numpy(), 1e-13)


@pytest.mark.parametrize("score", [Bilinear(32, 32), Cosine(2, scale=100.0)], ids=["bilinear", "cosine"])
@pytest.mark.parametrize("kernel", ["fused", "strips", "banded"])
def test_what_a_score_makes_of_half_precision_is_not_rounded(kernel, score):
    tensors = [3 * torch.randn(1, 2, 96, 32).bfloat16() for _ in range(3)]
    mask = Window(8, 8) if kernel == "banded" else None
    exact = planner.run(Call(*(t.double() for t in tensors), copy.deepcopy(score).double(), mask=mask), "plain")
    found = planner.run(Call(*tensors, score, mask=mask), kernel)
    assert found.dtype == torch.bfloat16
    assert (found.double() - exact).abs().max() < 0.05


def test_a_bias_of_another_half_precision_is_not_rounded():
    query, key, value = (torch.randn(1, 1, 4, 8).half() for _ in range(3))
    bias = torch.tensor([7e4, 8e4, 0.0, 0.0]).bfloat16().view(1, 1, 1, 4)
    torch.testing.assert_close(attend(query, key, value, bias=bias), value[:, :, 1:2].expand(-1, -1, 4, -1))


def test_strips_of_keys_under_an_inverted_table():
    table = torch.rand(400, 400) < 0.2
    tensors = [torch.randn(1, 2, 400, 8) for _ in range(3)]
    mask = ~Table(table) & Window(30, 30)
    found, wanted = (planner.run(Call(*tensors, normalizer="relu", mask=mask), name) for name in ("strips", "plain"))
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("start", [-5, 1.5])
def test_positions_of_queries_count_from_zero(start, untyped):
    x = torch.randn(1, 1, 8, 4)
    with pytest.raises(ShapeError, match="query_start must be a position from 0 on"):
        attend(x[:, :, :3], x, x, mask=Table(torch.ones(8, 8, dtype=torch.bool)), query_start=start)


def test_functions_are_differentiated_by_any_of_their_tensors():
    query, key, value = (torch.randn(1, 1, 40, 4) for _ in range(3))
    run = lambda value: planner.run(Call(query, key, value, normalizer="relu"), "strips").square().sum()  # noqa: E731
    found = torch.func.grad(run)(value)
    torch.testing.assert_close(found, torch.autograd.grad(run(value.requires_grad_()), value)[0])

"""Every kernel equals the definition, forward and backward, for every mask, normalizer, bias, dtype and shape."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from attention_cases import (
    DTYPES,
    GENERAL,
    KERNELS,
    NORMALIZERS,
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
from hypothesis import strategies as st

from headwise.attention import attend, kernels, planner, scores
from headwise.attention.call import Call
from headwise.attention.kernels import plain
from headwise.attention.masks import Causal, Padding
from headwise.attention.relative import Relative
from headwise.attention.scores import Additive, Bilinear, ScaledDot
from headwise.errors import Unsupported

every_kernel = pytest.mark.parametrize("kernel", KERNELS)
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


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
    for actual, wanted in zip(
        gradients(call, output, gradient), (expected.d_query, expected.d_key, expected.d_value), strict=True
    ):
        assert_near(actual, wanted, 4 * TOLERANCE[dtype] * max(1.0, case.size))


@every_kernel
@given(cases())
def test_nothing_depends_on_whether_gradients_are_asked_for(kernel, case):
    expected = case.expected(case.build(torch.float32)).output
    for mode in (torch.no_grad, torch.inference_mode, torch.enable_grad):
        with mode():
            output = run(case.build(torch.float32), kernel)
        if output is not None:
            assert_near(output, expected, tolerance(torch.float32, case.size))


@every_dtype
@every_kernel
@given(cases(biased=True))
def test_a_bias_that_learns_has_the_gradient_of_the_definition(kernel, dtype, case):
    call = case.build(dtype, grad=True)
    call = without(call, bias=call.bias.clone().requires_grad_())
    output = run(call, kernel)
    if output is None:
        return
    gradient = numbers_like(output, 2)
    actual = torch.autograd.grad(output, call.bias, gradient, materialize_grads=True)[0]
    assert_near(actual, case.expected(call, gradient).d_bias, 4 * TOLERANCE[dtype] * max(1.0, case.size))


def test_a_plan_made_without_a_bias_does_not_serve_a_bias_that_learns(monkeypatch):
    case = Case(query_len=23, key_len=29, dim=32)
    call = case.build(torch.bfloat16, grad=True)
    # the kernel of this choice has no gradient for a bias
    monkeypatch.setattr(planner, "_chosen", {planner.signature(call): kernels.kernel("eager").compute})
    planner.run(call)
    bias = torch.zeros(1, 3, 23, 29, dtype=torch.bfloat16, requires_grad=True)
    output = planner.run(without(call, bias=bias))
    gradient = numbers_like(output, 3)
    output.backward(gradient)
    assert bias.grad is not None
    expected = replace(case, bias=(False, True, True)).expected(without(call, bias=bias), gradient)
    assert_near(bias.grad, expected.d_bias, 4e-2)


@pytest.mark.parametrize("kernel", kernels.names())
@pytest.mark.parametrize("normalizer", ["softmax", "relu", "sigmoid"])
def test_derivatives_by_differences(kernel, normalizer):
    # the third sequence has no key, the fourth row of the second no allowed one
    mask = Padding(torch.tensor([[3, 2, 1], [3, 0, 2], [0, 0, 0]]))
    case = Case(batch=3, heads=2, kv_heads=1, query_len=3, key_len=3, normalizer=normalizer, bias=(False, True, True))
    call = without(case.build(torch.float64, grad=True), mask=mask)
    if kernels.kernel(kernel).refusal(call) is not None:
        return

    def function(query, key, value):
        return planner.run(without(call, query=query, key=key, value=value), kernel)

    inputs = (call.query, call.key, call.value)
    assert torch.autograd.gradcheck(function, inputs)
    if kernel == "plain" and normalizer != "relu":
        assert torch.autograd.gradgradcheck(function, inputs, fast_mode=True)


@pytest.mark.parametrize("kind", ["bilinear", "additive"])
@pytest.mark.parametrize("kernel", kernels.names())
def test_derivatives_of_a_score_by_differences(kernel, kind):
    score = scores.build(kind, 4, 5, 3, 1).double()
    query, key, value = (torch.randn(2, 1, n, d, dtype=torch.float64) for n, d in ((2, 4), (3, 5), (3, 2)))
    call = Call(query, key, value, score, mask=Padding(torch.tensor([2, 0])))
    if kernels.kernel(kernel).refusal(call) is not None:
        return
    parameters = dict(score.named_parameters())

    # no tensor of the call learns, only the score
    planner.run(call, kernel).sum().backward()
    by_hand = {name: p.grad.clone() for name, p in parameters.items()}
    for name, parameter in parameters.items():
        for index in np.ndindex(*parameter.shape):
            with torch.no_grad():
                parameter[index] += 1e-6
                above = planner.run(call, kernel).sum()
                parameter[index] -= 2e-6
                below = planner.run(call, kernel).sum()
                parameter[index] += 1e-6
            torch.testing.assert_close(by_hand[name][index], (above - below) / 2e-6, rtol=1e-4, atol=1e-8)


def test_the_hand_written_gradient_says_that_it_has_no_derivative():
    query = torch.randn(1, 1, 2, 3, requires_grad=True)
    output = attend(query, query, query, kernel="eager")
    with pytest.raises(Unsupported, match="kernel 'eager' has no second derivative; use kernel='plain'"):
        torch.autograd.grad(output.square().sum(), query, create_graph=True)


@every_kernel
@pytest.mark.parametrize(
    ("batch", "query_len", "key_len", "dim", "value_dim"),
    [(0, 5, 7, 4, 3), (2, 0, 7, 4, 3), (2, 5, 0, 4, 3), (2, 0, 0, 4, 3), (2, 5, 7, 0, 3), (2, 5, 7, 4, 0)],
)
@pytest.mark.parametrize("normalizer", NORMALIZERS)
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
            assert not call.query.grad.any()


@every_kernel
@given(cases(least=1))
def test_strides_do_not_matter(kernel, case):
    call = case.build(torch.float32)
    turned = {
        "query": call.query.transpose(1, 2).contiguous().transpose(1, 2),
        "key": torch.stack((call.key, call.key), -1)[..., 0],
        "value": call.value.mT.contiguous().mT,
    }
    strided = without(call, **turned)
    assert not any(t.is_contiguous() and t.numel() > 1 and min(t.shape) > 1 for t in [strided.value])
    output = run(strided, kernel)
    if output is not None:
        assert_near(output, case.expected(call).output, tolerance(torch.float32, case.size))


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
@given(cases(biased=False))
def test_grouped_queries_are_attention_with_repeated_keys_and_values(kernel, case):
    call = case.build(torch.float32)
    grouped = run(call, kernel)
    if grouped is None:
        return
    repeated = without(
        call, key=call.key.repeat_interleave(call.group, 1), value=call.value.repeat_interleave(call.group, 1)
    )
    torch.testing.assert_close(grouped, run(repeated, "plain"), rtol=1e-6, atol=3e-6 * max(1.0, case.size))


def test_one_key_head_and_as_many_as_queries_are_the_ends_of_grouping():
    """Multi-query attention is grouping by all heads, multi-head attention grouping by one."""
    for kv_heads in (1, 2, 3, 6):
        case = Case(heads=6, kv_heads=kv_heads)
        call = case.build(torch.float64)
        assert call.group == 6 // kv_heads
        for kernel in GENERAL[1:]:
            assert_near(run(call, kernel), case.expected(call).output, 1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kernel", GENERAL)
def test_autocast_changes_no_type(kernel, dtype):
    case = Case(spec=("lengths", 2))
    call = case.build(dtype)
    with torch.autocast("cpu", torch.bfloat16):
        output = run(call, kernel)
    assert output.dtype == dtype
    assert_near(output, case.expected(call).output, tolerance(dtype, 1.0))


@pytest.mark.parametrize("kernel", GENERAL)
def test_large_scores_in_bfloat16_are_not_rounded(kernel):
    # scores of hundreds: rounded to bfloat16 they are wrong by a whole unit
    case = Case(size=100.0, dim=8, key_len=31)
    call = case.build(torch.bfloat16)
    assert_near(run(call, kernel), case.expected(call).output, 2e-2)


class Unlike(Additive):
    """A score that is no dot product, under another name."""


REFUSALS = {
    "softmax of a dot product": (Case(), {}, {}),
    "relu": (
        Case(normalizer="relu"),
        {},
        {"fused": "its normalizer is softmax, not relu", "eager": "its normalizer is softmax, not relu"},
    ),
    "sigmoid": (
        Case(normalizer="sigmoid"),
        {},
        {"fused": "its normalizer is softmax, not sigmoid", "eager": "its normalizer is softmax, not sigmoid"},
    ),
    "additive": (
        Case(),
        {"score": Unlike(4, 4, 2)},
        {"fused": "its score is a dot product, not Unlike", "eager": "its score is a dot product, not Unlike"},
    ),
    "bilinear": (Case(), {"score": Bilinear(4, 4)}, {}),
    "bias that learns": (
        Case(),
        {"bias": torch.zeros(1, 1, 5, 7, requires_grad=True)},
        {"eager": "its gradient has no part for a bias that learns"},
    ),
    "relative positions": (
        Case(),
        {"relative": Relative(low=-1, value_table=torch.zeros(1, 3, 3))},
        {"fused": "it has no relative positions", "eager": "it has no relative positions"},
    ),
    "no keys": (Case(key_len=0), {}, {"fused": "an axis is empty", "eager": "an axis is empty"}),
    "no width": (Case(value_dim=0), {}, {"fused": "an axis is empty", "eager": "an axis is empty"}),
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_the_list_of_refusals(kind):
    case, changes, refused = REFUSALS[kind]
    call = replace(case.build(torch.float32), **changes)
    actual = {name: kernels.kernel(name).refusal(call) for name in ("eager", "fused", "plain")}
    assert {name: why for name, why in actual.items() if why is not None} == refused
    for name, why in refused.items():
        with pytest.raises(Unsupported, match=f"kernel '{name}' cannot compute this attention exactly: {why}"):
            planner.run(call, name)


def test_half_precision_is_refused_where_it_would_be_slow():
    call = Case().build(torch.float16)
    assert kernels.kernel("eager").refusal(call) == "half-precision products are slow here"
    for kernel in ("auto", "fused", "plain"):
        assert_near(run(call, kernel), Case().expected(call).output, 5e-3)


def test_a_table_of_values_enters_with_the_weights():
    case = Case(spec=("query_lengths", 5))
    call = case.build(torch.float64)
    table = torch.randn(3, 5, 3, dtype=torch.float64)
    output = planner.run(replace(call, relative=Relative(low=-2, value_table=table)))
    rows = np.clip(np.arange(7) - np.arange(5)[:, None], -2, 2) + 2
    extra = table.numpy()[None, :, rows]
    expected = case.expected(call)
    wanted = expected.output + np.einsum("bhqk,bhqkd->bhqd", expected.weights, np.broadcast_to(extra, (2, 3, 5, 7, 3)))
    assert_near(output, wanted, 1e-12)


@given(cases(), st.sampled_from(DTYPES))
def test_weights_are_those_of_the_definition(case, dtype):
    call = case.build(dtype)
    weights = plain.weights(call)
    assert weights.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert_near(weights, case.expected(call).weights, (1e-12 if dtype == torch.float64 else 2e-5) * max(1.0, case.size))
    keep = torch.from_numpy(case.keep())
    assert not weights[~keep].any()
    assert (weights >= 0).all()
    if case.normalizer == "softmax":
        sums = weights.sum(-1).double()
        torch.testing.assert_close(sums, keep.any(-1).double(), rtol=0, atol=1e-6)


def test_causal_attention_of_more_queries_than_keys_and_fewer():
    """Position t sees keys 0 to t, whatever the other length is: the diagonal starts at the first key."""
    for query_len, key_len in ((5, 7), (7, 5), (1, 7), (97, 101)):
        case = Case(batch=1, heads=1, kv_heads=1, query_len=query_len, key_len=key_len, spec=("causal",))
        call = case.build(torch.float64, grad=True)
        for kernel in GENERAL:
            output = run(call, kernel)
            assert_near(output, case.expected(call).output, 1e-12)
    assert Causal().is_causal()


def test_a_step_with_a_cache_sees_all_earlier_keys():
    case = Case(query_len=1, key_len=7, start=6, spec=("causal",))
    call = case.build(torch.float64)
    for kernel in [*GENERAL, "decode"]:
        assert_near(run(call, kernel), replace(case, spec=None, start=0).expected(call).output, 1e-12)


def test_scale_is_one_over_the_root_of_the_width():
    for kernel in GENERAL[1:]:
        query, key, value = (torch.randn(2, 3, n, 11, dtype=torch.float64) for n in (5, 7, 7))
        default = attend(query, key, value, kernel=kernel)
        assert_near(default, attend(query, key, value, scale=11**-0.5, kernel=kernel).numpy(), 1e-13)
        # a query of a times the size with a scale of 1/a times is the same call
        assert_near(default, attend(3 * query, key, value, scale=11**-0.5 / 3, kernel=kernel).numpy(), 1e-13)
    assert ScaledDot().as_dot(*[torch.zeros(1, 1, 1, 16)] * 2)[2] == 0.25

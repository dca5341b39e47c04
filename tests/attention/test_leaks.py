"""What stands under a mask, NaN and infinity included, reaches no output and no gradient, bit for bit."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from attention_cases import (
    DTYPES,
    GENERAL,
    INF,
    KERNELS,
    NAN,
    Case,
    assert_near,
    cases,
    gradients,
    numbers_like,
    run,
    without,
)
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from headwise.attention import attend, kernels, planner
from headwise.attention.masks import Causal, Padding, Table, Window
from headwise.attention.scores import Additive, Bilinear

every_kernel = pytest.mark.parametrize("kernel", KERNELS)
every_general_kernel = pytest.mark.parametrize("kernel", GENERAL)
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)
JUNK = [1e30, -1e30, NAN, INF, -INF]


def computed(call, kernel, rows: Tensor, *, grad: bool) -> list[Tensor] | None:
    """Output, and with `grad` the gradients of a loss over these rows, from one random state."""
    torch.manual_seed(5)
    with torch.set_grad_enabled(grad):
        output = run(call, kernel)
    if output is None:
        return None
    if not grad:
        return [output]
    gradient = numbers_like(output, 6).masked_fill(~rows.unsqueeze(-1), 0.0)
    return [output, *gradients(call, output, gradient)]


def chosen_keys(case: Case) -> Tensor:
    """Some keys (batch, kv_heads, key_len), drawn from the seed of the case."""
    generator = torch.Generator().manual_seed(case.seed)
    return torch.rand(case.batch, case.kv_heads, case.key_len, generator=generator) < 0.3


def seeing(case: Case, keys: Tensor) -> Tensor:
    """The queries (batch, heads, query_len) that are allowed to see one of these keys."""
    keep = torch.from_numpy(case.keep())
    return (keep & keys.repeat_interleave(case.heads // case.kv_heads, 1).unsqueeze(2)).any(-1)


@every_dtype
@every_kernel
@given(cases(masked=True, biased=False), st.sampled_from(JUNK), st.sampled_from([0.0, 0.3]), st.booleans())
def test_rows_that_may_not_see_a_key_do_not_depend_on_it(kernel, dtype, case, junk, dropout, grad):
    keys = chosen_keys(case)
    safe = ~seeing(case, keys)
    idle = ~torch.from_numpy(case.keep()).any(-1)
    call = case.build(dtype, grad=grad, dropout=dropout)
    before = computed(call, kernel, safe, grad=grad)
    if before is None:
        return
    poisoned = without(
        call,
        query=call.query.detach().masked_fill(idle.unsqueeze(-1), junk).requires_grad_(grad),
        key=call.key.detach().masked_fill(keys.unsqueeze(-1), junk).requires_grad_(grad),
        value=call.value.detach().masked_fill(keys.unsqueeze(-1), junk).requires_grad_(grad),
    )
    after = computed(poisoned, kernel, safe, grad=grad)
    assert torch.equal(before[0][safe], after[0][safe])
    assert not after[0][idle].any()
    if grad:
        _, d_query, d_key, d_value = after
        assert not d_query[idle].any()
        assert not d_key[keys].any()
        assert not d_value[keys].any()
        for one, two in zip(before[1:], after[1:], strict=True):
            assert torch.equal(one, two)


@every_dtype
@every_kernel
@given(cases(), st.booleans())
def test_rows_that_may_see_a_nan_are_nan_and_no_others(kernel, dtype, case, grad):
    keys = chosen_keys(case)
    call = case.build(dtype, grad=grad)
    for name in ("query", "key", "value"):
        tensor = getattr(call, name).detach()
        place = (
            torch.rand(tensor.shape[:3], generator=torch.Generator().manual_seed(1)) < 0.3 if name == "query" else keys
        )
        output = run(without(call, **{name: tensor.masked_fill(place.unsqueeze(-1), NAN).requires_grad_(grad)}), kernel)
        if output is None:
            return
        seen = torch.from_numpy(case.keep()).any(-1) & place if name == "query" else seeing(case, keys)
        assert torch.equal(output.isnan().all(-1), seen)
        assert torch.equal(output.isnan().any(-1), seen)


@every_dtype
@every_kernel
@given(cases(masked=True), st.sampled_from([0.0, 0.3]))
def test_a_row_without_a_key_is_exactly_zero(kernel, dtype, case, dropout):
    keep = torch.from_numpy(case.keep())
    idle = ~keep.any(-1)
    # (batch, kv_heads, key_len): keys that no query sees
    unseen = ~keep.unflatten(1, (case.kv_heads, -1)).any(3).any(2)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            output = run(case.build(dtype, dropout=dropout), kernel)
            assert output is None or not output[idle].any()
    call = case.build(dtype, grad=True, dropout=dropout)
    output = run(call, kernel)
    if output is None:
        return
    d_query, d_key, d_value = gradients(call, output, numbers_like(output, 1))
    assert not output[idle].any()
    assert not d_query[idle].any()
    assert not d_key[unseen].any()
    assert not d_value[unseen].any()
    assert all(tensor.isfinite().all() for tensor in (output, d_query, d_key, d_value))


@every_kernel
@given(cases(masked=True, normalizer="softmax"), st.booleans())
def test_a_bias_of_minus_infinity_forbids_as_a_mask_does(kernel, case, grad):
    """Rows that it leaves without a key are zero with zero gradient as well."""
    call = case.build(torch.float64, grad=grad)
    keep = torch.from_numpy(case.keep())
    forbidding = torch.zeros(keep.shape, dtype=torch.float64).masked_fill(~keep, -INF)
    bias = forbidding if call.bias is None else call.bias + forbidding
    output = run(replace(call, mask=None, bias=bias), kernel)
    if output is None:
        return
    gradient = numbers_like(output, 1)
    expected = case.expected(call, gradient)
    bound = 1e-12 * max(1.0, case.size)
    assert_near(output, expected.output, bound)
    assert not output[~keep.any(-1)].any()
    if grad:
        d_query, d_key, d_value = gradients(call, output, gradient)
        assert_near(d_query, expected.d_query, 4 * bound)
        assert_near(d_key, expected.d_key, 4 * bound)
        assert_near(d_value, expected.d_value, 4 * bound)


@every_kernel
@given(cases(masked=True, biased=False, least=1, normalizer="softmax"), st.sampled_from(JUNK))
def test_a_bias_under_the_mask_does_not_matter(kernel, case, junk):
    call = case.build(torch.float64, grad=True)
    hidden = ~torch.from_numpy(case.keep())
    bias = torch.randn(hidden.shape, dtype=torch.float64)
    output = run(replace(call, bias=bias.masked_fill(hidden, junk)), kernel)
    if output is None:
        return
    gradient = numbers_like(output, 1)
    expected = replace(case, bias=(True, True, True)).expected(replace(call, bias=bias), gradient)
    bound = 1e-12 * max(1.0, case.size)
    assert_near(output, expected.output, bound)
    for actual, wanted in zip(
        gradients(call, output, gradient), (expected.d_query, expected.d_key, expected.d_value), strict=True
    ):
        assert_near(actual, wanted, 4 * bound)


@every_dtype
@pytest.mark.parametrize("junk", JUNK)
@every_general_kernel
def test_what_a_row_without_a_key_would_have_scored_does_not_matter(kernel, junk, dtype):
    """Its query, its bias, and hidden keys so large that the score overflows: no gradient becomes NaN."""
    mask = Padding(torch.tensor([3, 0]))
    query, key, value = (torch.randn(2, 1, n, 4).to(dtype) for n in (3, 5, 5))
    results = []
    for content in (0.5, junk):
        bias = torch.zeros(2, 1, 3, 5, dtype=dtype)
        bias[1] = content
        # a product of 1e30 and 1e15 overflows where 1e15 does not
        query[1], key[1] = min(content, 1e15), content
        tensors = [tensor.clone().requires_grad_() for tensor in (query, key, value)]
        for added in (bias, None):
            output = attend(*tensors, mask=mask, bias=added, kernel=kernel)
            results.append([output, *torch.autograd.grad(output.square().sum(), tensors)])
    for one, two in zip(results[:2], results[2:], strict=True):
        for before, after in zip(one, two, strict=True):
            assert torch.equal(before, after)


@every_general_kernel
@pytest.mark.parametrize("mask", [Causal(), Window(1, 2), Causal() & Window(1, 0)], ids=["causal", "window", "both"])
def test_derivatives_lie_exactly_where_the_mask_allows(kernel, mask):
    """The Jacobian is zero where the mask forbids, and not zero in every place that it allows."""
    query, key, value = (torch.randn(1, 1, 5, 3, dtype=torch.float64) for _ in range(3))
    allowed = mask.dense(1, 1, 5, 5)[0, 0]
    for position, name in enumerate(("key", "value"), start=1):

        def function(tensor, position=position):
            return attend(
                *[tensor if n == position else t for n, t in enumerate((query, key, value))], mask=mask, kernel=kernel
            )

        # (query, value_dim, key, dim)
        jacobian = torch.autograd.functional.jacobian(function, (query, key, value)[position])[0, 0, :, :, 0, 0]
        reached = jacobian.abs().amax((1, 3)) > 0
        # a row of one key has weight 1 whatever its score is
        expected = allowed if name == "value" else allowed & (allowed.sum(-1, keepdim=True) > 1)
        assert torch.equal(reached, expected)


@every_general_kernel
def test_no_position_depends_on_what_comes_later(kernel):
    """Changing positions from t on, to NaN too, leaves all outputs before t as they were to the last bit."""
    tensors = [torch.randn(2, 3, 31, 8) for _ in range(3)]
    before = attend(*tensors, mask=Causal(), kernel=kernel)
    for later in (7.0, 1e30, NAN, INF):
        changed = [tensor.clone() for tensor in tensors]
        for tensor in changed:
            tensor[:, :, 17:] = later
        after = attend(*changed, mask=Causal(), kernel=kernel)
        assert torch.equal(before[:, :, :17], after[:, :, :17])
        assert bool(after[:, :, 17:].isnan().all()) == (not np.isfinite(later))


@every_general_kernel
def test_sentences_of_a_batch_do_not_see_each_other(kernel):
    query, key, value = (torch.randn(3, 2, n, 4) for n in (5, 7, 7))
    mask = Padding(torch.tensor([3, 7, 0]))
    before = attend(query, key, value, mask=mask, kernel=kernel)
    for junk in JUNK:
        others = [tensor.clone() for tensor in (query, key, value)]
        for tensor in others:
            tensor[1] = junk
        after = attend(*others, mask=mask, kernel=kernel)
        assert torch.equal(before[[0, 2]], after[[0, 2]])


@pytest.mark.parametrize("score", [Bilinear(4, 4), Additive(4, 4, 3)], ids=["bilinear", "additive"])
@every_general_kernel
def test_hidden_content_does_not_reach_the_parameters_of_a_score(kernel, score):
    case = Case(spec=("lengths", 1))
    call = replace(case.build(torch.float32, grad=True), score=score)
    if kernel != "auto" and kernels.kernel(kernel).refusal(call):
        return
    hidden = ~torch.from_numpy(case.keep())[:, :, 0]
    results = []
    for junk in (0.0, *JUNK):
        score.zero_grad()
        filled = [t.detach().masked_fill(hidden.unsqueeze(-1), junk) for t in (call.key, call.value)]
        output = planner.run(without(call, key=filled[0], value=filled[1]), kernel)
        output.square().sum().backward()
        results.append([output, *(parameter.grad.clone() for parameter in score.parameters())])
    for result in results[1:]:
        for one, two in zip(results[0], result, strict=True):
            assert torch.equal(one, two)


def test_dropping_out_goes_on_as_if_nothing_was_hidden():
    """The random numbers of a call and of what follows it do not depend on hidden content."""
    case = Case(spec=("table", 1, 3, 0.5))
    states = []
    for junk in (1.0, NAN):
        call = case.build(torch.float32, dropout=0.5)
        hidden = ~torch.from_numpy(case.keep()).any(2)
        torch.manual_seed(3)
        planner.run(without(call, value=call.value.masked_fill(hidden.unsqueeze(-1), junk)))
        states.append(torch.get_rng_state())
    assert torch.equal(*states)


@pytest.mark.parametrize("kernel", kernels.names())
@given(cases(masked=True, biased=False, normalizer="softmax", least=1, sizes=(1.0,)), st.sampled_from([NAN, INF, -INF]))
def test_where_looking_at_numbers_is_too_slow_they_are_always_hidden(kernel, case, junk):
    """On an accelerator and under the compiler, no branch may depend on what a tensor holds."""
    keys = chosen_keys(case)
    safe = ~seeing(case, keys)
    call = case.build(torch.float64, grad=True)
    filled = {
        name: getattr(call, name).detach().masked_fill(keys.unsqueeze(-1), junk).requires_grad_()
        for name in ("key", "value")
    }
    poisoned = without(call, **filled)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.compiler, "is_compiling", lambda: True)
        output = run(poisoned, kernel)
    if output is None:
        return
    gradient = numbers_like(output, 1).masked_fill(~safe.unsqueeze(-1), 0.0)
    expected = case.expected(call, gradient)
    assert_near(output[safe], expected.output[safe.numpy()], 1e-12)
    assert output[~safe].isnan().all()
    for actual, wanted in zip(
        gradients(poisoned, output, gradient), (expected.d_query, expected.d_key, expected.d_value), strict=True
    ):
        assert_near(actual, wanted, 1e-11)


@every_general_kernel
def test_a_mask_made_without_gradients_serves_a_call_that_learns(kernel):
    mask = Padding(torch.tensor([3, 0])) & ~Table(torch.eye(5, 7, dtype=torch.bool))
    query, key, value = (torch.randn(2, 3, n, 4) for n in (5, 7, 7))
    with torch.inference_mode():
        attend(query, key, value, mask=mask, kernel=kernel)
    attend(query.requires_grad_(), key, value, mask=mask, kernel=kernel).sum().backward()
    assert query.grad.isfinite().all()

"""Numbers near the end of their range: finite inputs give finite, exact results."""

import numpy as np
import pytest
import torch
from attention_cases import KERNELS, Case, assert_near, cases, gradients, numbers_like, run, without
from hypothesis import given
from hypothesis import strategies as st

from headwise.attention import attend, kernels
from headwise.attention.masks import Causal, Padding

every_kernel = pytest.mark.parametrize("kernel", KERNELS)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@every_kernel
@given(cases(sizes=(1.0,)), st.sampled_from([1e18, 1e19, 1e20, 1e30]))
def test_scores_that_overflow_are_computed_all_the_same(kernel, dtype, case, large):
    call = case.build(dtype)
    call = without(call, query=call.query * large, key=call.key * large)
    output = run(call, kernel)
    if output is None or (case.normalizer == "relu" and large > 1e19):
        # relu has no upper end: such outputs are beyond float32
        return
    expected = case.expected(call).output
    if float(np.abs(expected).max(initial=0.0)) < 1e37:
        assert output.isfinite().all()
        assert_near(output, expected, 2e-2 if dtype == torch.bfloat16 else 2e-5)


@every_kernel
@pytest.mark.parametrize("key_len", [1, 2, 7, 15, 16, 17, 33])
def test_every_score_of_a_row_may_overflow(kernel, key_len):
    # sums of plus and minus infinity in each score: NaN, which SDPA takes for a row without a key when keys are few
    case = Case(key_len=key_len, dim=8)
    for spec in (None, ("causal",), ("lengths", 1)):
        call = Case(key_len=key_len, dim=8, spec=spec).build(torch.float32, grad=True)
        call = without(call, query=call.query.detach() * 1e20, key=(call.key.detach() * 1e20).requires_grad_())
        output = run(call, kernel)
        expected = Case(key_len=key_len, dim=8, spec=spec).expected(call)
        assert_near(output, expected.output, 1e-6)
        output.sum().backward()
        assert call.key.grad.isfinite().all()
    assert case.spec is None


@every_kernel
def test_a_row_that_overflows_changes_no_bit_of_the_others(kernel):
    query, key, value = (torch.randn(2, 3, n, 4) for n in (5, 7, 7))
    key[1] *= 1e10
    before = attend(query, key, value, mask=Padding(torch.tensor([3, 7])), kernel=kernel)
    query[1, 2, 3] *= 1e35
    after = attend(query, key, value, mask=Padding(torch.tensor([3, 7])), kernel=kernel)
    rows = torch.ones(2, 3, 5, dtype=torch.bool)
    rows[1, 2, 3] = False
    assert after.isfinite().all()
    assert torch.equal(before[rows], after[rows])
    # the largest score takes it all
    wide = query[1, 2, 3].double() @ key[1, 2].double().T
    torch.testing.assert_close(after[1, 2, 3], value[1, 2, wide.argmax()])


@every_kernel
def test_values_of_any_size_pass_through(kernel):
    # one key: its weight is 1, so the value comes out as it is
    value = torch.tensor([1e38, -1e38, 1e-38, 0.0]).reshape(1, 1, 1, 4)
    output = attend(torch.randn(1, 1, 3, 4), torch.randn(1, 1, 1, 4), value, kernel=kernel)
    assert torch.equal(output, value.expand(1, 1, 3, 4))


@pytest.mark.parametrize("kernel", kernels.names())
@pytest.mark.parametrize("key_len", [1, 5, 15, 16, 40])
def test_a_query_that_is_nan_is_never_taken_for_a_row_without_a_key(kernel, key_len):
    tensors = [torch.full((1, 1, 3, 4), float("nan")), *(torch.randn(1, 1, key_len, 4) for _ in range(2))]
    for mask in (None, Causal()):
        assert attend(*tensors, mask=mask, kernel=kernel).isnan().all()


def test_a_promise_of_finite_numbers_saves_looking(monkeypatch):
    """With `finite` the kernel's output is returned as it is."""
    import headwise.attention.guard as guard

    call = Case().build(torch.float32)
    seen = []
    output = guard.guarded(call, lambda c: seen.append(c) or torch.full((2, 3, 5, 3), 7.0))
    assert len(seen) == 1
    assert output.isfinite().all()
    nan = torch.full((2, 3, 5, 3), float("nan"))
    from dataclasses import replace

    assert guard.guarded(replace(call, finite=True), lambda c: nan) is nan


def test_gradients_at_overflow_are_those_of_float64():
    call = Case(spec=("query_lengths", 1)).build(torch.float32, grad=True)
    for kernel in KERNELS:
        large = without(call, query=call.query.detach() * 1e25, key=call.key.detach() * 1e15)
        tensors = [t.detach().clone().requires_grad_() for t in (large.query, large.key, large.value)]
        large = without(large, query=tensors[0], key=tensors[1], value=tensors[2])
        output = run(large, kernel)
        gradient = numbers_like(output, 1)
        expected = Case(spec=("query_lengths", 1)).expected(large, gradient)
        assert_near(output, expected.output, 1e-6)
        for actual, wanted in zip(
            gradients(large, output, gradient), (expected.d_query, expected.d_key, expected.d_value), strict=True
        ):
            assert_near(actual, wanted, 1e-5)

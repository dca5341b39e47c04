"""Numbers near the end of their range: finite inputs give finite, exact results."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from attention_cases import INF, KERNELS, NAN, Case, assert_near, cases, gradients, numbers_like, run, without
from hypothesis import given
from hypothesis import strategies as st

from headwise.attention import attend, guard, kernels, planner
from headwise.attention.call import Call, check
from headwise.attention.kernels import plain
from headwise.attention.masks import Causal, Edges, Padding, Table, Window
from headwise.attention.relative import Relative
from headwise.attention.scores import ScaledDot

every_kernel = pytest.mark.parametrize("kernel", KERNELS)
# whose outputs stay finite for scores of any size
BOUNDED = ["softmax", "softmax1", "sigmoid", "relu"]


def computes(kernel: str, *tensors: torch.Tensor, mask=None) -> bool:
    """Whether the kernel takes scaled dot products of these tensors."""
    call = check(Call(*tensors, ScaledDot(), mask=mask))
    return kernel == "auto" or kernels.kernel(kernel).refusal(call) is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@every_kernel
@given(cases(sizes=(1.0,)), st.sampled_from(BOUNDED), st.sampled_from([1e18, 1e19, 1e20, 1e30]))
def test_scores_that_overflow_are_computed_all_the_same(kernel, dtype, case, normalizer, large):
    case = replace(case, normalizer=normalizer)
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
        if output is None:
            continue
        expected = Case(key_len=key_len, dim=8, spec=spec).expected(call)
        assert_near(output, expected.output, 1e-6)
        output.sum().backward()
        assert call.key.grad.isfinite().all()
    assert case.spec is None


@every_kernel
def test_a_row_that_overflows_changes_no_bit_of_the_others(kernel):
    query, key, value = (torch.randn(2, 3, n, 4) for n in (5, 7, 7))
    key[1] *= 1e10
    if not computes(kernel, query, key, value, mask=Padding(torch.tensor([3, 7]))):
        return
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
    query, key = torch.randn(1, 1, 3, 4), torch.randn(1, 1, 1, 4)
    if not computes(kernel, query, key, value):
        return
    output = attend(query, key, value, kernel=kernel)
    assert torch.equal(output, value.expand(1, 1, 3, 4))


@pytest.mark.parametrize("kernel", kernels.names())
@pytest.mark.parametrize("key_len", [1, 5, 15, 16, 40])
def test_a_query_that_is_nan_is_never_taken_for_a_row_without_a_key(kernel, key_len):
    tensors = [torch.full((1, 1, 3, 4), float("nan")), *(torch.randn(1, 1, key_len, 4) for _ in range(2))]
    for mask in (None, Causal()):
        if computes(kernel, *tensors, mask=mask):
            assert attend(*tensors, mask=mask, kernel=kernel).isnan().all()


def test_a_promise_of_finite_numbers_saves_looking(monkeypatch):
    """With `finite` the kernel's output is returned as it is."""
    call = Case().build(torch.float32)
    seen = []
    output = guard.guarded(call, lambda c: seen.append(c) or torch.full((2, 3, 5, 3), 7.0))
    assert len(seen) == 1
    assert output.isfinite().all()
    nan = torch.full((2, 3, 5, 3), float("nan"))
    assert guard.guarded(replace(call, finite=True), lambda c: nan) is nan


def test_gradients_at_overflow_are_those_of_float64():
    call = Case(spec=("query_lengths", 1)).build(torch.float32, grad=True)
    for kernel in KERNELS:
        large = without(call, query=call.query.detach() * 1e25, key=call.key.detach() * 1e15)
        tensors = [t.detach().clone().requires_grad_() for t in (large.query, large.key, large.value)]
        large = without(large, query=tensors[0], key=tensors[1], value=tensors[2])
        output = run(large, kernel)
        if output is None:
            continue
        gradient = numbers_like(output, 1)
        expected = Case(spec=("query_lengths", 1)).expected(large, gradient)
        assert_near(output, expected.output, 1e-6)
        for actual, wanted in zip(
            gradients(large, output, gradient), (expected.d_query, expected.d_key, expected.d_value), strict=True
        ):
            assert_near(actual, wanted, 1e-5)


MASKS = {
    "causal": Causal(),
    "window": Window(2, 1) & Padding(torch.tensor([11, 4])),
    "padding": Padding(torch.tensor([9, 0])),
    "table": ~Table(torch.rand(2, 3, 13, 13, generator=torch.Generator().manual_seed(1)) < 0.6),
    "none": None,
}


@pytest.mark.parametrize("name", MASKS)
def test_long_masks_are_looked_at_in_strips(name, monkeypatch):
    """The same rows are poisoned and the same rows computed again whether the mask is one table or many strips."""
    query, key, value = (torch.randn(2, 3, 13, 4) for _ in range(3))
    key[0, 1, 2] = NAN
    value[1, 2, 5, 3] = INF
    query[0, 0, 1] = NAN
    query[1, 1, 2] *= 1e30
    key[1, 1] *= 1e20
    outputs = []
    for table in (1 << 24, 20):
        monkeypatch.setattr(guard, "_TABLE", table)
        tensors = [t.clone().requires_grad_() for t in (query, key, value)]
        output = attend(*tensors, mask=MASKS[name], kernel="plain")
        rows = output.isfinite().all(-1, keepdim=True)
        gradients = torch.autograd.grad(output.masked_fill(~rows, 0.0).sum(), tensors)
        outputs.append([output, *gradients])
    for one, two in zip(*outputs, strict=True):
        torch.testing.assert_close(one, two, equal_nan=True)
    if name == "none":
        assert outputs[0][0][0, 1].isnan().all()
    assert outputs[0][0].isfinite().any()


def test_blocks_in_float64_keep_their_bias_and_relative_positions(monkeypatch):
    query, key, value = (torch.randn(1, 2, 7, 4) for _ in range(3))
    query[0, 1, 5] *= 1e30
    key[0, 1] *= 1e20
    bias, table = torch.randn(1, 2, 7, 7), torch.randn(2, 5, 4)
    relative = Relative(low=-2, scalar=torch.randn(2, 5), value_table=table)
    call = check(Call(query, key, value, ScaledDot(), mask=Window(3, 2), bias=bias, relative=relative))
    whole = planner.run(call, "plain")
    monkeypatch.setattr(guard, "_TABLE", 20)
    torch.testing.assert_close(planner.run(call, "plain"), whole)
    wide = call.replaced(*(tensor.double() for tensor in (query, key, value)))
    torch.testing.assert_close(whole, plain.compute(wide).float())


@given(st.integers(0, 2**16), st.booleans())
def test_graphs_are_looked_at_by_their_edges(seed, padded):
    generator = torch.Generator().manual_seed(seed)
    mask = Edges(torch.randint(0, 11, (2, 17), generator=generator), 11)
    if padded:
        mask = mask & Padding(torch.tensor([7, 10]))
    numbers = torch.rand(2, 3, 11, generator=generator)
    call = check(Call(*(torch.randn(2, 3, 11, 4) for _ in range(3)), ScaledDot(), mask=mask))
    expected = torch.where(mask.dense(2, 3, 11, 11), numbers.unsqueeze(2), 0.0).amax(-1)
    assert torch.equal(guard.largest_seen(call, numbers), expected)


def test_a_large_graph_with_a_nan_makes_no_table(monkeypatch):
    """A hundred thousand nodes: a table of all pairs would hold ten thousand million numbers."""
    nodes = 100_000
    edges = torch.stack((torch.arange(nodes), (torch.arange(nodes) + 1) % nodes))
    monkeypatch.setattr(Edges, "_table", None)
    query, key, value = (torch.randn(1, 1, nodes, 2) for _ in range(3))
    key[0, 0, 7] = NAN
    query[0, 0, 21], key[0, 0, 20] = 1e30, 1e30
    output = attend(query, key, value, mask=Edges(edges, nodes), kernel="edges")
    # node 8 sees node 7, node 21 sees node 20, each sees one: the value comes out as it is
    assert output[0, 0, 8].isnan().all()
    others = torch.arange(nodes) != 8
    torch.testing.assert_close(output[0, 0, others], value[0, 0].roll(1, 0)[others])

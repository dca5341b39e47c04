"""Strips equal the definition wherever they are cut, in memory that grows with length, not with its square."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from attention_cases import Case, assert_near, cases, numbers_like
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from headwise.attention import normalizers
from headwise.attention.call import Call
from headwise.attention.kernels import _strips, plain, rows
from headwise.attention.masks import Causal, Mask, Padding, Window
from headwise.attention.normalizers import Normalizer
from headwise.attention.relative import Relative
from headwise.attention.scores import Additive, Bilinear, ScaledDot
from headwise.errors import ShapeError, Unsupported

TABLES = ("scalar", "query", "query_table", "key", "key_table", "value_table")


def learned(call):
    """Every tensor of the call that learns, and the parameters of its score."""
    own = [call.query, call.key, call.value, *([] if call.bias is None else [call.bias]), *call.relative_tensors]
    return [tensor for tensor in (*own, *call.score.parameters()) if tensor.requires_grad]


def assert_strips_are_plain(call, pairs, least_rows, tolerance=1e-11):
    """Equal outputs and gradients of everything that learns."""
    inputs = learned(call)
    actual, expected = rows.in_strips(call, pairs, least_rows), plain.compute(call)
    assert_near(actual, expected.detach().numpy(), tolerance)
    gradient = numbers_like(expected, 5)
    found, wanted = (
        torch.autograd.grad(output, inputs, gradient, allow_unused=True, materialize_grads=True)
        for output in (actual, expected)
    )
    for one, two in zip(found, wanted, strict=True):
        assert one.dtype == two.dtype
        assert_near(one, two.numpy(), 4 * tolerance)


def relative_of(call, names, *, low, size, shared=False, dtype=torch.float64):
    """Random tables of these names that learn; `shared` tables serve all heads."""
    batch, heads, query_len, key_len = call.shape
    table_heads = 1 if shared else heads
    shapes = {
        "scalar": (table_heads, size),
        "query": (batch, heads, query_len, 3),
        "query_table": (table_heads, size, 3),
        "key": (batch, heads, key_len, 3),
        "key_table": (table_heads, size, 3),
        "value_table": (table_heads, size, call.value.shape[-1]),
    }
    tensors = {name: torch.randn(shapes[name], dtype=dtype).requires_grad_() for name in names}
    return Relative(low=low, **tensors)


cuts = {"pairs": st.integers(1, 99), "least_rows": st.integers(1, 4)}


@given(case=cases(sizes=(1.0,)), by_predicate=st.booleans(), **cuts)
def test_any_cut_gives_the_definition(case, by_predicate, pairs, least_rows):
    call = case.build(torch.float64, grad=True)
    if call.bias is not None:
        call = replace(call, bias=call.bias.clone().requires_grad_())
    with pytest.MonkeyPatch.context() as patch:
        if by_predicate:
            patch.setattr(_strips, "_SMALL_TABLE", -1)
        assert_strips_are_plain(call, pairs, least_rows, 1e-9)


@given(
    case=cases(sizes=(1.0,), least=1, normalizer="softmax"),
    kinds=st.sets(st.sampled_from(["scalar", "by query", "by key", "value_table"]), min_size=1),
    low=st.integers(-12, 9),
    size=st.integers(1, 19),
    shared=st.booleans(),
    **cuts,
)
def test_tables_of_every_kind_and_reach(case, kinds, low, size, shared, pairs, least_rows):
    call = case.build(torch.float64, grad=True)
    of_kind = {"by query": ["query", "query_table"], "by key": ["key", "key_table"]}
    names = [name for kind in sorted(kinds) for name in of_kind.get(kind, [kind])]
    relative = relative_of(call, names, low=low, size=size, shared=shared)
    assert_strips_are_plain(replace(call, relative=relative), pairs, least_rows)


@pytest.mark.parametrize("normalizer", ["relu", "softmax"])
@pytest.mark.parametrize("shared", [False, True])
def test_tables_of_relative_positions_are_those_of_two_loops(normalizer, shared):
    case = Case(heads=4, kv_heads=2, query_len=7, key_len=11, start=2, spec=("causal",), normalizer=normalizer)
    call = case.build(torch.float64, grad=True)
    relative = relative_of(call, TABLES, low=-3, size=6, shared=shared)
    call = replace(call, relative=relative)
    inputs = learned(call)
    output, expected = rows.in_strips(call, 50, 3), attend_by_loops(call, normalizer)
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-13)
    gradient = numbers_like(output, 6)
    found, wanted = (torch.autograd.grad(result, inputs, gradient) for result in (output, expected))
    for one, two in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=1e-12)


def attend_by_loops(call, normalizer):
    """Causal attention with all four tables, one pair at a time."""
    relative, size = call.relative, call.relative.size
    outputs = []
    for b, h, i in np.ndindex(*call.shape[:3]):
        g = h // call.group
        seen = range(min(call.query_start + i + 1, call.shape[3]))
        rows_of_table = [min(max(j - call.query_start - i - relative.low, 0), size - 1) for j in seen]
        scalar, by_query, by_key, values = (
            table[h % table.shape[0]]
            for table in (relative.scalar, relative.query_table, relative.key_table, relative.value_table)
        )
        scores = [
            call.query[b, h, i] @ call.key[b, g, j] / call.query.shape[-1] ** 0.5
            + scalar[n]
            + relative.query[b, h, i] @ by_query[n]
            + relative.key[b, h, j] @ by_key[n]
            for j, n in zip(seen, rows_of_table, strict=True)
        ]
        row = torch.stack(scores)
        weights = row.softmax(0) if normalizer == "softmax" else row.relu() / len(seen)
        own = zip(weights, seen, rows_of_table, strict=True)
        outputs.append(sum(w * (call.value[b, g, j] + values[n]) for w, j, n in own))
    return torch.stack(outputs).view(*call.shape[:3], -1)


def test_distances_of_pairs_that_are_not_consecutive():
    call = Case(heads=4, kv_heads=2, query_len=7, key_len=11, spec=("query_lengths", 1)).build(torch.float64, grad=True)
    relative = relative_of(call, TABLES, low=-3, size=5).placed(torch.randint(-5, 5, (7, 11)))
    assert_strips_are_plain(replace(call, relative=relative), 60, 2)


@dataclass(frozen=True)
class Halves(Normalizer):
    """A user's own normalizer, without strips: half the softmax."""

    def __call__(self, scores, keep):
        return normalizers.softmax(scores, keep) / 2


@pytest.mark.parametrize("normalizer", [Halves(), *normalizers.NORMALIZERS.values()], ids=lambda n: n.name)
def test_every_normalizer_by_strips(normalizer):
    case = Case(heads=4, kv_heads=2, query_len=13, key_len=11, spec=("and", ("causal",), ("query_lengths", 4)))
    call = replace(case.build(torch.float64, grad=True), normalizer=normalizer)
    assert_strips_are_plain(call, 60, 3, 1e-9)
    relative = relative_of(call, TABLES, low=-2, size=7)
    assert_strips_are_plain(replace(call, relative=relative), 60, 3, 1e-9)


@pytest.mark.parametrize("normalizer", ["softmax", "relu", "sigmoid"])
def test_a_bias_of_minus_infinity_forbids(normalizer):
    call = Case(query_len=7, key_len=5, spec=("lengths", 3), normalizer=normalizer).build(torch.float64, grad=True)
    bias = torch.randn(1, 3, 7, 5, dtype=torch.float64).masked_fill(torch.rand(1, 3, 7, 5) < 0.4, float("-inf"))
    bias[:, :, 2] = float("-inf")
    call = replace(call, bias=bias)
    inputs = [call.query, call.key, call.value]
    output, expected = rows.in_strips(call, 20, 2), plain.compute(call)
    assert not output[:, :, 2].any()
    torch.testing.assert_close(output, expected)
    found, wanted = (torch.autograd.grad(result.square().sum(), inputs) for result in (output, expected))
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("shape", [(2, 6, 7, 11), (1, 6, 7, 11), (2, 1, 7, 11), (1, 1, 1, 11)])
def test_a_learned_bias_of_any_shape(shape):
    call = Case(heads=6, kv_heads=2, query_len=7, key_len=11, spec=("window", 2, 1)).build(torch.float64, grad=True)
    bias = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    assert_strips_are_plain(replace(call, bias=bias), 40, 2)


@pytest.mark.parametrize("score", [Additive(4, 4, 3), Bilinear(4, 4)], ids=["additive", "bilinear"])
def test_parameters_of_a_score_learn_over_strips(score):
    call = Case(heads=4, kv_heads=2, query_len=7, key_len=11, spec=("query_lengths", 4), bias=(True, False, True))
    assert_strips_are_plain(replace(call.build(torch.float64, grad=True), score=score.double()), 40, 3)


def test_only_what_learns_gets_a_gradient():
    for score in (Additive(4, 4, 3).requires_grad_(False), ScaledDot()):
        call = replace(Case().build(torch.float32), score=score)
        assert not rows.in_strips(call, 20, 2).requires_grad
        value = call.value.clone().requires_grad_()
        rows.in_strips(replace(call, value=value), 20, 2).sum().backward()
        assert value.grad is not None
        assert all(tensor.grad is None for tensor in (call.query, call.key, *score.parameters()))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("score", [Additive(4, 4, 3), ScaledDot()], ids=["additive", "dot"])
def test_half_precision_over_strips(dtype, score):
    case = Case(heads=4, kv_heads=2, query_len=7, key_len=11, spec=("causal",), start=1)
    call = replace(case.build(dtype, grad=True), score=score)
    call = replace(call, relative=relative_of(call, TABLES, low=-2, size=5, dtype=dtype))
    inputs = learned(call)
    output, expected = rows.in_strips(call, 40, 3), plain.compute(call)
    assert output.dtype == dtype
    torch.testing.assert_close(output, expected, rtol=0, atol=3e-2)
    found, wanted = (torch.autograd.grad(result.sum(), inputs) for result in (output, expected))
    for one, two in zip(found, wanted, strict=True):
        assert one.dtype == two.dtype
        torch.testing.assert_close(one, two, rtol=0, atol=3e-2 * max(1.0, float(two.abs().max())))


# dropout


def dropping(score, normalizer="softmax"):
    case = Case(heads=2, kv_heads=1, query_len=5, key_len=4, spec=("lengths", 3), normalizer=normalizer)
    call = replace(case.build(torch.float64, grad=True, dropout=0.4), score=score)
    return replace(call, relative=relative_of(call, TABLES, low=-1, size=3))


@pytest.mark.parametrize(
    ("score", "normalizer"),
    [(ScaledDot(), "softmax"), (ScaledDot(), "sigmoid"), (Additive(4, 4, 3).double(), "softmax")],
    ids=["dot", "sigmoid", "any"],
)
def test_the_gradient_sees_the_weights_that_were_dropped(score, normalizer):
    call = dropping(score, normalizer)

    def function(query, key, value, *tables):
        torch.manual_seed(3)
        relative = replace(call.relative, **dict(zip(TABLES, tables, strict=True)))
        return rows.in_strips(replace(call, query=query, key=key, value=value, relative=relative), 12, 2)

    assert torch.autograd.gradcheck(
        function, (call.query, call.key, call.value, *call.relative.tensors), fast_mode=True
    )


@pytest.mark.parametrize("score", [ScaledDot(), Additive(4, 4, 3).double()], ids=["dot", "any"])
def test_the_gradient_draws_no_random_numbers(score):
    output = rows.in_strips(dropping(score), 12, 2)
    state = torch.get_rng_state()
    output.sum().backward()
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(7)
    with torch.no_grad():
        assert not torch.equal(rows.in_strips(dropping(score), 12, 2), output)


def test_dropped_weights_are_zero_and_the_others_scaled():
    call = Case(query_len=31, key_len=37, value_dim=37).build(torch.float64)
    call = replace(call, value=torch.eye(37, dtype=torch.float64).expand(2, 3, 37, 37))
    ratio = rows.in_strips(replace(call, dropout=0.25), 300, 8) / rows.in_strips(call, 300, 8)
    kept = ratio != 0
    torch.testing.assert_close(ratio[kept], torch.full_like(ratio[kept], 4 / 3))
    # 6882 weights: the standard deviation of the share is 0.005
    assert abs(kept.double().mean() - 0.75) < 0.02


# work and memory


class Largest(TorchDispatchMode):
    """Remembers the size in bytes of the largest memory that any operation made."""

    size = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(tensor, torch.Tensor):
                self.size = max(self.size, tensor.untyped_storage().nbytes())
        return result


class Even(Mask):
    """A mask of a user's own, known by its pairs alone: even distances."""

    def __call__(self, batch, head, query, key):
        return (query - key) % 2 == 0


def long_call(length, *, mask=None, score=None, tables=(), normalizer="softmax"):
    query, key, value = (torch.randn(1, 2, length, 4, requires_grad=True) for _ in range(3))
    call = Call(query, key, value, score or ScaledDot(), normalizers.build(normalizer), mask, dropout=0.1)
    if tables:
        relative = relative_of(call, tables, low=1 - length, size=2 * length - 1, dtype=torch.float32)
        call = replace(call, relative=relative)
    return call


@pytest.mark.parametrize(
    "options",
    [
        {"tables": ("scalar", "query", "query_table", "value_table")},
        {"tables": ("key", "key_table"), "mask": Causal() & Padding(torch.tensor([100]))},
        {"mask": Even() & Window(17, 17), "normalizer": "relu"},
        {"mask": Even(), "normalizer": "sigmoid"},
        {"score": Additive(4, 4, 3)},
    ],
    ids=["tables", "keys", "band", "predicate", "additive"],
)
def test_no_tensor_grows_with_the_square_of_the_length(options, monkeypatch):
    monkeypatch.setattr(_strips, "_SMALL_TABLE", 2**12)
    sizes = []
    for length in (128, 256):
        with Largest() as largest:
            rows.in_strips(long_call(length, **options), 2**10, 8).sum().backward()
        sizes.append(largest.size)
    assert sizes[1] <= 2.1 * sizes[0]
    # a quarter of the scores of the longer one in float32, of one head
    assert sizes[1] <= 256 * 256


def test_a_band_costs_only_the_keys_inside():
    def work(mask):
        with FlopCounterMode(display=False) as counter:
            rows.in_strips(replace(long_call(512, mask=mask), dropout=0.0), 2**14, 16).sum().backward()
        return counter.get_total_flops()

    dense = work(None)
    assert work(Causal()) < 0.6 * dense
    assert work(Window(10, 10)) < 0.15 * dense
    # padding beside the band does not hide it
    assert work(Causal() & Padding(torch.tensor([500]))) < 0.6 * dense
    # scores twice, weighted values, and the four products of the gradient
    assert dense == 7 * 2 * 2 * 512 * 512 * 4


def test_a_mask_that_does_not_fit_says_so():
    call = Case(query_len=7).build(torch.float32)
    with pytest.raises(ShapeError, match=r"valid_lens \(3,\) do not fit; expected \(2\)"):
        rows.compute(replace(call, mask=Causal() & Padding(torch.tensor([1, 2, 3]))))


@pytest.mark.parametrize("score", [ScaledDot(), Additive(4, 4, 3)], ids=["dot", "any"])
def test_the_gradient_has_no_derivative(score):
    call = replace(Case().build(torch.float32, grad=True), score=score)
    output = rows.compute(call)
    with pytest.raises(Unsupported, match="kernel 'rows' has no second derivative; use kernel='plain'"):
        torch.autograd.grad(output.square().sum(), call.query, create_graph=True)

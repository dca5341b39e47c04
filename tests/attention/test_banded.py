"""Masks within a band: blocks with overlapping keys give the definition, in memory linear in the length."""

from dataclasses import replace
from unittest.mock import patch

import pytest
import torch
from attention_cases import DTYPES, TOLERANCE, Case, assert_near, gradients, mask_specs, numbers_like, tolerance
from hypothesis import given
from hypothesis import strategies as st

from headwise.attention import normalizers, planner
from headwise.attention.call import Call
from headwise.attention.dropout import draw, kept_scale
from headwise.attention.kernels import _banded_layout, banded, plain
from headwise.attention.masks import Causal, Padding, Table, Window
from headwise.attention.relative import Relative
from headwise.attention.scores import Additive, ScaledDot
from headwise.errors import ShapeError, Unsupported

# small blocks, so that short sequences have edges, inner blocks and a rest
small_blocks = patch.object(_banded_layout, "BLOCK", 3)


@st.composite
def banded_cases(draw_):
    window = ("window", draw_(st.integers(0, 5)), draw_(st.integers(0, 5)))
    other = draw_(st.one_of(st.none(), mask_specs()))
    kv_heads, group = draw_(st.integers(1, 2)), draw_(st.integers(1, 2))
    dim = draw_(st.integers(1, 5))
    return Case(
        batch=draw_(st.integers(1, 2)),
        heads=kv_heads * group,
        kv_heads=kv_heads,
        query_len=draw_(st.integers(1, 17)),
        key_len=draw_(st.integers(1, 17)),
        dim=dim,
        value_dim=draw_(st.sampled_from([dim, dim, 7])),
        size=draw_(st.sampled_from([1.0, 10.0])),
        seed=draw_(st.integers(0, 2**16)),
        start=draw_(st.sampled_from([0, 0, 2, 9, 40])),
        spec=window if other is None else draw_(st.sampled_from([("and", window, other), ("and", other, window)])),
        normalizer=draw_(st.sampled_from(["softmax", "softmax", "relu", "sigmoid"])),
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@given(case=banded_cases(), piece=st.sampled_from([1, 2**19]))
def test_outputs_and_gradients_are_those_of_the_definition(dtype, case, piece):
    call = case.build(dtype, grad=True)
    with small_blocks, patch.object(_banded_layout, "_PIECE", piece):
        output = planner.run(call, "banded")
        gradient = numbers_like(output, 1)
        actual = gradients(call, output, gradient)
    expected = case.expected(call, gradient)
    assert output.dtype == dtype
    assert_near(output, expected.output, tolerance(dtype, case.size))
    wanted = (expected.d_query, expected.d_key, expected.d_value)
    for found, right in zip(actual, wanted, strict=True):
        assert_near(found, right, 4 * TOLERANCE[dtype] * max(1.0, case.size))


def _call(mask, *, query_len=193, key_len=193, value_dim=11, start=0, heads=3, kv_heads=1, **changes):
    def numbers(*shape):
        return torch.randn(*shape, dtype=torch.float64, requires_grad=True)

    query, key = numbers(2, heads, query_len, 11), numbers(2, kv_heads, key_len, 11)
    value = numbers(2, kv_heads, key_len, value_dim)
    return Call(query, key, value, ScaledDot(), mask=mask, query_start=start, **changes)


def _assert_plain(call):
    output, expected = banded.compute(call), plain.compute(call)
    gradient = torch.randn_like(expected)
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-12)
    for found, right in zip(gradients(call, output, gradient), gradients(call, expected, gradient), strict=True):
        torch.testing.assert_close(found, right, rtol=0, atol=1e-12)


@pytest.mark.parametrize("value_dim", [11, 5])
@pytest.mark.parametrize(
    ("query_len", "key_len", "start"),
    [(1, 1, 0), (64, 64, 0), (65, 63, 0), (257, 257, 0), (300, 211, 0), (211, 300, 0), (71, 400, 329), (70, 80, 1000)],
)
def test_blocks_of_the_real_size_at_every_length(query_len, key_len, start, value_dim):
    for mask in (Window(70, 0), Window(3, 80), Window(9, 4) & Causal(), Window(0, 0)):
        _assert_plain(_call(mask, query_len=query_len, key_len=key_len, start=start, value_dim=value_dim))


def test_any_other_mask_beside_the_band():
    lengths = Padding(torch.tensor([193, 101]))
    by_query = Padding(torch.randint(0, 194, (2, 193)))
    tables = [Table(torch.rand(shape) < 0.4) for shape in ((193, 193), (2, 193, 193), (1, 3, 193, 193), (2, 1, 1, 193))]
    for other in (lengths, by_query, *tables, ~lengths, lengths | Causal()):
        _assert_plain(_call(Window(33, 20) & other))
        _assert_plain(_call(other & Window(33, 20), value_dim=5))


def test_rows_without_a_key_are_zero_and_have_no_gradient():
    call = _call(Window(2, 2) & Padding(torch.tensor([193, 50])), heads=1)
    output = banded.compute(call)
    output.square().sum().backward()
    # the last key is 49, which the queries up to 51 can see
    assert not output[1, :, 52:].any()
    assert output[1, :, :52].all()
    assert not call.query.grad[1, :, 52:].any()
    assert not call.key.grad[1, :, 50:].any()
    assert not call.value.grad[1, :, 50:].any()


def test_memory_is_linear_in_the_length():
    def numbers_of_tables(mask, length):
        call = _call(mask, query_len=length, key_len=length, heads=1)
        pieces = _banded_layout.pieces(call, _banded_layout.Layout.of(call))
        storages = [piece.keep.untyped_storage() for piece in pieces]
        return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())

    # inner blocks share one table, edges have theirs
    assert numbers_of_tables(Window(64, 64), 8192) == numbers_of_tables(Window(64, 64), 2048)
    lengths = Padding(torch.tensor([2000, 2000]))
    short, long = (numbers_of_tables(Window(64, 64) & lengths, length) for length in (2048, 4096))
    assert long <= 2.1 * short

    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: saved.append(tensor) or tensor, lambda tensor: tensor):
        banded.compute(_call(Window(64, 0), query_len=2048, key_len=2048, heads=1))
    assert max(tensor.numel() for tensor in saved) <= 2 * (2048 + 64) * 11


def test_a_mask_is_laid_out_once():
    mask = Window(3, 2) & Padding(torch.tensor([193, 100]))
    call = _call(mask)
    layout = _banded_layout.Layout.of(call)
    pieces = _banded_layout.pieces(call, layout)
    assert _banded_layout.pieces(_call(mask), layout) is pieces
    assert _banded_layout.pieces(_call(mask, start=1), layout) is not pieces
    for length in range(1, 2 * _banded_layout._SHAPES):
        banded.compute(_call(mask, query_len=1, key_len=length, start=length - 1))
        assert len(_banded_layout._memo[mask]) <= _banded_layout._SHAPES
    # what inference made must serve training
    fresh = Window(3, 2)
    with torch.inference_mode():
        banded.compute(_call(fresh))
    _assert_plain(_call(fresh))


def test_a_mask_that_does_not_fit_says_so():
    with pytest.raises(ShapeError, match=r"valid_lens \(3,\) do not fit; expected \(2\)"):
        banded.compute(_call(Window(2, 2) & Padding(torch.tensor([1, 2, 3]))))
    with pytest.raises(ShapeError, match=r"Table \(193, 192\) does not fit"):
        banded.compute(_call(Window(2, 2) & Table(torch.ones(193, 192, dtype=torch.bool))))


@pytest.mark.parametrize("normalizer", ["softmax", "sigmoid"])
def test_dropout_drops_weights(normalizer):
    call = _call(Window(5, 3), query_len=29, key_len=29, dropout=0.3, normalizer=normalizers.build(normalizer))
    call = replace(call, query=call.query[:, :1], key=call.key[:, :1], value=call.value[:, :1])
    torch.manual_seed(5)
    output = banded.compute(call)
    # one block of 29 queries sees keys -5 to 31
    torch.manual_seed(5)
    kept = draw((2, 1, 29, 29 + 8), 0.3, call.query.device)[..., 5 : 5 + 29]
    used = plain.weights(call) * kept * kept_scale(0.3)
    expected = used @ call.value
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-12)
    gradient = torch.randn_like(output)
    for found, right in zip(gradients(call, output, gradient), gradients(call, expected, gradient), strict=True):
        torch.testing.assert_close(found, right, rtol=0, atol=1e-12)


def test_half_the_precision_is_enough_of_it():
    call = Case(query_len=97, key_len=97, dim=8, value_dim=8, size=100.0, spec=("window", 20, 9))
    built = call.build(torch.bfloat16)
    for changed in (built, replace(built, value=built.value[..., :5])):
        wide = changed.replaced(changed.query.double(), changed.key.double(), changed.value.double())
        assert_near(banded.compute(changed), plain.compute(wide).numpy(), 2e-2)


def test_nan_under_the_mask_stays_there():
    call = _call(Window(1, 1) & Padding(torch.tensor([193, 90])), heads=1)
    value = call.value.detach().clone()
    value[1, :, 90:] = float("nan")
    clean = planner.run(call, "banded")
    torch.testing.assert_close(planner.run(replace(call, value=value), "banded"), clean, rtol=0, atol=0)


def test_what_a_row_without_a_key_would_have_scored_does_not_matter():
    # the second sequence has no key, so its queries and hidden keys may be of any size
    results = []
    for size in (1.0, 1e25):
        torch.manual_seed(0)
        call = _call(Window(1, 1) & Padding(torch.tensor([193, 0])), heads=1)
        query, key = call.query.detach().float(), call.key.detach().float()
        query[1] *= size
        key[1] *= size
        tensors = [query.requires_grad_(), key.requires_grad_(), call.value.detach().float().requires_grad_()]
        output = planner.run(replace(call.replaced(*tensors), finite=True), "banded")
        results.append([output, *torch.autograd.grad(output.square().sum(), tensors)])
    assert all(map(torch.equal, *results))
    assert not any(tensor[1].any() for tensor in results[1])


NO_BAND = "its mask lies within a band of bounded width"
REFUSALS = {
    "no mask": ({"mask": None}, NO_BAND),
    "open to the left": ({"mask": Causal()}, NO_BAND),
    "one of two": ({"mask": Window(1, 1) | Causal()}, NO_BAND),
    "score": ({"score": Additive(4, 4, 2)}, "its score is a dot product, not Additive"),
    "bias": ({"bias": torch.zeros(1, 1, 1, 7)}, "it has no bias and no relative positions"),
    "relative": ({"relative": Relative(low=0, scalar=torch.zeros(1, 1))}, "it has no bias and no relative positions"),
    "no width": ({"value": torch.zeros(2, 3, 7, 0)}, "an axis is empty"),
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_what_it_refuses(kind):
    changes, why = REFUSALS[kind]
    call = replace(Case(spec=("window", 1, 2)).build(torch.float32), **changes)
    with pytest.raises(Unsupported, match=f"kernel 'banded' cannot compute this attention exactly: {why}"):
        planner.run(call, "banded")


def test_it_refuses_half_precision_and_normalizers_of_whole_tables():
    class Whole(normalizers.Normalizer):
        def __call__(self, scores, keep):
            return scores

    case = Case(spec=("window", 1, 2))
    assert banded.refusal(case.build(torch.float16)) == "half-precision products are slow here"
    whole = replace(case.build(torch.float32), normalizer=Whole())
    assert banded.refusal(whole) == "its normalizer works row by row in place, which whole cannot"


def test_its_gradient_has_no_gradient():
    call = _call(Window(1, 1))
    with pytest.raises(Unsupported, match="kernel 'banded' has no second derivative; use kernel='plain'"):
        torch.autograd.grad(banded.compute(call).square().sum(), call.query, create_graph=True)


def test_work_is_length_times_width():
    call = _call(Window(7, 4), query_len=128, key_len=100, heads=3)
    pairs = 2 * 3 * 128 * (64 + 11)
    assert banded.terms(call) == {"calls": 1, "products": pairs * 22, "rows": 2 * 3 * 228}
    assert banded.terms(replace(call, dropout=0.1)) == {
        "calls": 1,
        "batched": pairs * 22,
        "pairs": pairs,
        "rows": 2 * 3 * 228,
    }


def test_a_window_over_everything_is_attention_without_a_mask():
    call = _call(Window(200, 200))
    torch.testing.assert_close(banded.compute(call), plain.compute(replace(call, mask=None)), rtol=0, atol=1e-12)

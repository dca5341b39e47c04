"""One query a sequence: equal to the definition with every mask, bias, group, normalizer and type."""

from dataclasses import replace
from unittest.mock import patch

import pytest
import torch
from attention_cases import DTYPES, Case, assert_near, cases, tolerance
from hypothesis import given
from hypothesis import strategies as st

from headwise.attention import planner
from headwise.attention.kernels import decode, plain
from headwise.attention.masks import Padding
from headwise.attention.relative import Relative
from headwise.attention.scores import Additive, Bilinear
from headwise.errors import Unsupported

one_query = cases().map(lambda case: replace(case, query_len=1))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@given(case=one_query, cached=st.sampled_from([1, 40, 2**20]))
def test_the_output_is_that_of_the_definition(dtype, case, cached):
    call = case.build(dtype)
    if decode.refusal(call) is not None:
        assert case.key_len == 0
        return
    # keys in bfloat16 are widened head by head, a few at a time, or all at once
    with patch.object(decode, "_CACHED", cached):
        output = planner.run(call, "decode")
    assert output.dtype == dtype
    assert_near(output, case.expected(call).output, tolerance(dtype, case.size))


def test_scores_of_many_heads_in_bfloat16_are_not_rounded():
    # scores of hundreds, which bfloat16 would round to whole units
    case = Case(batch=5, heads=6, kv_heads=2, query_len=1, key_len=31, dim=8, size=100.0)
    call = case.build(torch.bfloat16)
    with patch.object(decode, "_CACHED", 31 * 8 * 3):
        assert_near(decode.compute(call), case.expected(call).output, 2e-2)


def test_a_learned_product_is_a_dot_product():
    case = Case(query_len=1)
    call = replace(case.build(torch.float64), score=Bilinear(4, 4).double())
    with torch.no_grad():
        torch.testing.assert_close(decode.compute(call), plain.compute(call))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_relative_positions_of_one_query(dtype):
    call = Case(query_len=1, heads=3, kv_heads=1, start=4, spec=("query_lengths", 3)).build(dtype)
    tables = [torch.randn(3, 5, width, dtype=dtype) for width in (4, 4, 3)]
    relative = Relative(
        low=-2,
        scalar=torch.randn(3, 5, dtype=dtype),
        query=call.query,
        query_table=tables[0],
        key=call.key.expand(2, 3, 7, 4),
        key_table=tables[1],
        value_table=tables[2],
    )
    for chosen in (relative, replace(relative, value_table=None), Relative(low=-2, value_table=tables[2])):
        with_tables = replace(call, relative=chosen)
        expected = plain.compute(with_tables)
        accuracy = 1e-12 if dtype == torch.float64 else 2e-2
        torch.testing.assert_close(decode.compute(with_tables), expected, rtol=accuracy, atol=accuracy)


def test_a_row_that_a_bias_or_a_mask_forbids_is_zero():
    call = Case(query_len=1, bias=(True, True, True)).build(torch.float32)
    call.bias[1] = float("-inf")
    for forbidden in (call, replace(call, bias=None, mask=Padding(torch.tensor([7, 0])))):
        # nobody looks for NaN afterwards when the numbers are promised to be finite
        output = planner.run(replace(forbidden, finite=True), "decode")
        assert not output[1].any()
        assert output[0].all()


REFUSALS = {
    "more queries": ({"query_len": 2}, {}, "it takes one query a sequence, not 2"),
    "score": ({}, {"score": Additive(4, 4, 2)}, "its score is a dot product, not Additive"),
    "dropout": ({}, {"dropout": 0.1}, "it has no gradients and no dropout"),
    "no keys": ({"key_len": 0}, {}, "an axis is empty"),
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_what_it_refuses(kind):
    sizes, changes, why = REFUSALS[kind]
    with torch.no_grad():
        call = replace(Case(**{"query_len": 1, **sizes}).build(torch.float32), **changes)
        with pytest.raises(Unsupported, match=f"kernel 'decode' cannot compute this attention exactly: {why}"):
            planner.run(call, "decode")


def test_it_refuses_gradients_and_half_precision():
    case = Case(query_len=1)
    assert decode.refusal(case.build(torch.float32, grad=True)) == "it has no gradients and no dropout"
    assert decode.refusal(case.build(torch.float16)) == "half-precision products are slow here"
    with torch.no_grad():
        assert decode.refusal(case.build(torch.float32, grad=True)) is None


def test_the_work_is_what_is_read():
    call = Case(batch=2, heads=6, kv_heads=2, query_len=1, key_len=7, dim=4, value_dim=3).build(torch.bfloat16)
    keys, values = 2 * 2 * 7 * 4, 2 * 2 * 7 * 3
    assert decode.terms(call) == {"calls": 1, "read": keys + values, "widened": keys, "pairs": 2 * 6 * 7}
    assert decode.terms(call.replaced(call.query.float(), call.key.float(), call.value.float()))["widened"] == 0

"""Exact weights of a part of a call equal the same cut out of the whole table."""

import sys
from dataclasses import replace

import pytest
import torch
from attention_cases import Case, cases
from hypothesis import given
from hypothesis import strategies as st

from headwise import attention
from headwise.attention.call import Call
from headwise.attention.kernels import plain
from headwise.attention.masks import Causal, Edges, Padding, Window
from headwise.attention.mechanisms.linear import Linear
from headwise.attention.mechanisms.scored import Scored
from headwise.attention.mechanisms.talking_heads import TalkingHeads
from headwise.attention.normalizers import Sinks
from headwise.attention.relative import Relative
from headwise.attention.scores import GAT, Additive, Dot
from headwise.attention.weights import weights
from headwise.errors import ShapeError

# the module, whose name the function has too
MODULE = sys.modules["headwise.attention.weights"]


def positions(length: int) -> st.SearchStrategy[slice]:
    bound = st.integers(-length - 1, length + 1)
    return st.builds(slice, bound, bound) | st.just(slice(None))


@given(cases(), st.data())
def test_a_part_is_cut_out_of_the_table(case, data):
    call = case.build(torch.float64)
    heads = data.draw(st.lists(st.integers(0, case.heads - 1), min_size=1, max_size=3) | st.none())
    queries, keys = data.draw(positions(case.query_len)), data.draw(positions(case.key_len))
    with pytest.MonkeyPatch.context() as patch:
        # blocks of a few keys
        patch.setattr(MODULE, "_AT_ONCE", 8)
        part = weights(call, heads, queries, keys)
    whole = plain.weights(call)
    expected = (whole if heads is None else whole[:, heads])[:, :, queries, keys]
    torch.testing.assert_close(part, expected, rtol=0, atol=1e-12 * max(1.0, case.size))


@given(cases(), st.data())
def test_rows_of_what_is_allowed_are_cut_out_of_the_table(case, data):
    call = case.build(torch.float64)
    first = data.draw(st.integers(0, case.query_len))
    last = data.draw(st.integers(first, case.query_len))
    whole, part = call.keep(), call.part(queries=(first, last)).keep()
    if whole is None:
        assert part is None
        return
    shape = (*call.shape[:2], last - first, call.shape[3])
    assert torch.equal(part.expand(shape), whole.expand(call.shape)[:, :, first:last])


@pytest.mark.parametrize("part", ["additive", "gat", "sinks"])
def test_any_score_and_normalizer_has_parts(part):
    scores = {"additive": Additive(4, 4, 3), "gat": GAT(3, 4)}
    call = Case(spec=("causal",)).build(torch.float64)
    if part == "sinks":
        sinks = Sinks(3).double()
        torch.nn.init.normal_(sinks.logits)
        call = replace(call, normalizer=sinks)
    else:
        call = replace(call, score=scores[part].double())
    found = weights(call, [2, 0], slice(1, 4), slice(2, 5))
    torch.testing.assert_close(found, plain.weights(call)[:, [2, 0], 1:4, 2:5])


@pytest.mark.parametrize("placed", [False, True])
def test_relative_positions_and_bias_are_those_of_the_part(placed, monkeypatch):
    monkeypatch.setattr(MODULE, "_AT_ONCE", 8)
    query, key = (torch.randn(2, 3, n, 4, dtype=torch.float64) for n in (5, 7))
    relative = Relative(
        low=-2,
        scalar=torch.randn(3, 5).double(),
        query=query + 1,
        query_table=torch.randn(3, 5, 4).double(),
        key=key + 1,
        key_table=torch.randn(1, 5, 4).double(),
    )
    if placed:
        relative = relative.placed(torch.randint(-4, 4, (5, 7)))
    bias = torch.randn(1, 3, 5, 7, dtype=torch.float64).masked_fill(torch.rand(1, 3, 5, 7) < 0.2, float("-inf"))
    mask = Window(3, 2) & Padding(torch.tensor([6, 0]))
    call = Call(query, key, key, mask=mask, bias=bias, relative=relative, query_start=1)
    for heads in ([1, 2], None):
        part = weights(call, heads, slice(2, 5), slice(1, 6))
        whole = plain.weights(call)[:, heads or slice(None)]
        torch.testing.assert_close(part, whole[:, :, 2:5, 1:6], rtol=0, atol=1e-14)
    assert not part[1].any()


def test_a_part_of_a_long_call_needs_no_table():
    """A million keys: the table would hold a million million weights."""
    length = 1_000_000
    query, key = (torch.randn(1, 1, length, 2) for _ in range(2))
    tile = attention.weights(query, key, mask=Causal(), queries=slice(length - 2, length), keys=slice(3, 5))
    scores = query[0, 0, -2:].double() @ key[0, 0].double().T * 2**-0.5
    scores[0, -1] = -float("inf")
    torch.testing.assert_close(tile[0, 0].double(), scores.softmax(-1)[:, 3:5], rtol=1e-4, atol=0)


def test_a_part_has_the_gradients_of_the_table(monkeypatch):
    monkeypatch.setattr(MODULE, "_AT_ONCE", 8)
    call = Case(spec=("causal",)).build(torch.float64, grad=True)
    tensors, chosen = (call.query, call.key), (slice(None), [1], slice(1, 4), slice(2, 4))
    part = weights(call, *chosen[1:]).square().sum()
    whole = plain.weights(call)[chosen].square().sum()
    for one, two in zip(torch.autograd.grad(part, tensors), torch.autograd.grad(whole, tensors), strict=True):
        torch.testing.assert_close(one, two)


def test_the_function_shows_what_attend_gives_the_values():
    query, key = torch.randn(2, 4, 5, 6), torch.randn(2, 2, 7, 6)
    value = torch.randn(2, 2, 7, 3)
    mask = Edges(torch.tensor([[0, 2, 4, 4], [1, 1, 1, 3]]), 7)
    options = {"mask": mask, "scale": 0.3, "normalizer": "sigmoid"}
    found = attention.weights(query, key, **options)
    expected = attention.attend(query, key, value, **options)
    torch.testing.assert_close(found @ value.repeat_interleave(2, 1), expected)
    torch.testing.assert_close(found, plain.weights(Call(query, key, key, Dot(0.3), "sigmoid", mask)))
    torch.testing.assert_close(attention.weights(query, key, **options, heads=[3, 1]), found[:, [3, 1]])


def test_what_there_is_not_is_told():
    call = Case().build(torch.float32)
    for name in ("queries", "keys"):
        with pytest.raises(ShapeError, match=f"{name} must be a range with step 1, got step 2"):
            weights(call, [0], **{name: slice(0, 4, 2)})
    with pytest.raises(ShapeError, match="heads run from 0 to 2, got 3"):
        weights(call, [0, 3])
    assert weights(call, [], keys=slice(2)).shape == (2, 0, 5, 2)


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize("mechanism", [Scored(), TalkingHeads(3), Linear()])
def test_every_mechanism_refuses_the_same_parts(mechanism):
    call = Case().build(torch.float32)
    for part, message in (
        ({"heads": [-1]}, "heads run from 0 to 2, got -1"),
        ({"heads": 1}, "heads must be a list of numbers, such as"),
        ({"queries": slice(0, 4, 2)}, "queries must be a range with step 1, got step 2"),
        ({"keys": 3}, "keys must be a range, such as"),
    ):
        with pytest.raises(ShapeError, match=message):
            mechanism.weights(call, **part)

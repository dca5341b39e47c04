"""Tiles of the weights equal the same cut out of the whole table."""

from dataclasses import replace

import pytest
import torch
from attention_cases import Case, cases
from hypothesis import given
from hypothesis import strategies as st

from headwise.attention import tiles
from headwise.attention.call import Call, check
from headwise.attention.kernels import plain
from headwise.attention.masks import Causal, Edges, Padding, Window
from headwise.attention.relative import Relative
from headwise.attention.scores import GAT, Additive, ScaledDot
from headwise.errors import ShapeError


def positions(length: int) -> st.SearchStrategy[slice]:
    bound = st.integers(-length - 1, length + 1)
    return st.builds(slice, bound, bound) | st.just(slice(None))


@given(cases(), st.data())
def test_a_tile_is_cut_out_of_the_table(case, data):
    call = case.build(torch.float64)
    heads = data.draw(st.lists(st.integers(0, case.heads - 1), min_size=1, max_size=3))
    queries, keys = data.draw(positions(case.query_len)), data.draw(positions(case.key_len))
    with pytest.MonkeyPatch.context() as patch:
        # blocks of a few keys
        patch.setattr(tiles, "_AT_ONCE", 8)
        tile = tiles.weights(call, heads, queries, keys)
    expected = plain.weights(call)[:, heads][:, :, queries, keys]
    torch.testing.assert_close(tile, expected, rtol=0, atol=1e-12 * max(1.0, case.size))


@pytest.mark.parametrize("score", [Additive(4, 4, 3), GAT(3, 4)], ids=["additive", "gat"])
def test_any_score_has_tiles(score):
    call = replace(Case(spec=("causal",)).build(torch.float64), score=score.double())
    tile = tiles.weights(call, [2, 0], slice(1, 4), slice(2, 5))
    torch.testing.assert_close(tile, plain.weights(call)[:, [2, 0], 1:4, 2:5].detach())
    assert not tile.requires_grad


@pytest.mark.parametrize("placed", [False, True])
def test_relative_positions_and_bias_are_those_of_the_tile(placed, monkeypatch):
    monkeypatch.setattr(tiles, "_AT_ONCE", 8)
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
    bias = torch.randn(1, 3, 5, 7, dtype=torch.float64)
    mask = Window(3, 2) & Padding(torch.tensor([6, 0]))
    call = check(Call(query, key, key, ScaledDot(), mask=mask, bias=bias, relative=relative, query_start=1))
    tile = tiles.weights(call, [1, 2], slice(2, 5), slice(1, 6))
    torch.testing.assert_close(tile, plain.weights(call)[:, 1:3, 2:5, 1:6], rtol=0, atol=1e-14)
    assert not tile[1].any()


def test_a_tile_of_a_long_call_needs_no_table(monkeypatch):
    """A million keys: the table would hold a million million weights."""
    length = 1_000_000
    query, key = (torch.randn(1, 1, length, 2) for _ in range(2))
    monkeypatch.setattr(Causal, "_table", None)
    call = Call(query, key, key, ScaledDot(), mask=Causal())
    tile = tiles.weights(call, [0], slice(length - 2, length), slice(3, 5))
    scores = query[0, 0, -2:].double() @ key[0, 0].double().T * 2**-0.5
    scores[0, -1] = -float("inf")
    torch.testing.assert_close(tile[0, 0].double(), scores.softmax(-1)[:, 3:5], rtol=1e-4, atol=0)


def test_a_graph_has_tiles():
    mask = Edges(torch.tensor([[0, 2, 4, 4], [1, 1, 1, 3]]), 5)
    x = torch.randn(1, 2, 5, 4)
    call = Call(x, x, x, ScaledDot(), mask=mask)
    torch.testing.assert_close(tiles.weights(call, [0, 1], slice(0, 4), slice(2, 5)), plain.weights(call)[:, :, :4, 2:])


@pytest.mark.parametrize("name", ["queries", "keys"])
def test_ranges_have_no_gaps(name):
    call = Case().build(torch.float32)
    with pytest.raises(ShapeError, match=f"{name} must be a range with step 1, got step 2"):
        tiles.weights(call, [0], **{name: slice(0, 4, 2)})

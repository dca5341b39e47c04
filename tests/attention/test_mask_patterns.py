"""Patterns of the literature and masks of a batch's content, each against its definition as a condition on one pair."""

import sys
from collections.abc import Callable

import pytest
import torch
from devices import DEVICE
from hypothesis import given
from hypothesis import strategies as st

from headwise.attention import attend
from headwise.attention.masks import (
    BigBird,
    Blocks,
    Causal,
    Dilated,
    Documents,
    Edges,
    Global,
    Mask,
    Padding,
    Place,
    Prefix,
    Shifts,
    Strided,
    Table,
    Window,
    empty_rows,
    explain,
)
from headwise.errors import ShapeError

IDS = [[0, 0, 1, 1, 1, -1, -1], [3, 3, 3, 0, 0, 0, 0]]
SOURCES, TARGETS = [4, 5, 6, 2, 0, 4], [0, 0, 0, 1, 3, 0]
EDGES = set(zip(TARGETS, SOURCES, strict=True))

CASES: dict[str, tuple[Mask, Callable[[int, int, int], bool]]] = {
    "dilated": (Dilated(2, 1, 3), lambda b, i, j: j - i in (-6, -3, 0, 3)),
    "strided": (Strided(3), lambda b, i, j: abs(j - i) in (0, 1, 2, 3, 6)),
    "blocks": (Blocks(3), lambda b, i, j: i // 3 == j // 3),
    "global": (Global(2), lambda b, i, j: i < 2 or j < 2),
    "longformer": (Global(1) | Window(1, 1), lambda b, i, j: i < 1 or j < 1 or abs(i - j) <= 1),
    "prefix": (Prefix(torch.tensor([2, 5])), lambda b, i, j: j <= i or j < (2, 5)[b]),
    "documents": (Documents(torch.tensor(IDS)), lambda b, i, j: IDS[b][i] == IDS[b][j] and IDS[b][j] >= 0),
    "edges": (Edges(torch.tensor([SOURCES, TARGETS]), 7), lambda b, i, j: (i, j) in EDGES),
    "edges before": (Edges(torch.tensor([SOURCES, TARGETS]), 7) & Causal(), lambda b, i, j: (i, j) in EDGES and j <= i),
    "edges or the same": (
        Edges(torch.tensor([SOURCES, TARGETS]), 7) | Edges(torch.arange(7).expand(2, 7), 7),
        lambda b, i, j: (i, j) in EDGES or i == j,
    ),
    "no edges": (Edges(torch.zeros(2, 0, dtype=torch.long), 7), lambda b, i, j: False),
}


def conditions(allowed, start: int, query_len: int) -> torch.Tensor:
    rows = [[[allowed(b, start + i, j) for j in range(7)] for i in range(query_len)] for b in range(2)]
    return torch.tensor(rows).unsqueeze(1)


@pytest.mark.parametrize(("start", "query_len"), [(0, 7), (2, 5), (6, 1)])
@pytest.mark.parametrize("name", CASES)
def test_a_pattern_allows_the_pairs_of_its_definition(name, start, query_len):
    mask, allowed = CASES[name]
    expected = conditions(allowed, start, query_len)
    dense = mask.dense(2, 1, query_len, 7, query_start=start)
    assert torch.equal(dense.expand(2, 1, query_len, 7), expected)
    index = torch.meshgrid(torch.arange(2), torch.arange(1), torch.arange(query_len), torch.arange(7), indexing="ij")
    pairs = mask(index[0], index[1], index[2] + start, index[3])
    assert torch.equal(pairs.expand(expected.shape), expected)


@pytest.mark.parametrize("name", CASES)
def test_what_planners_derive_holds(name):
    """Nothing is allowed outside `within`, nor outside the candidates, which are sorted and each there once."""
    mask, allowed = CASES[name]
    expected = conditions(allowed, 2, 5)
    structure = mask.structure(Place(2, 1, 5, 7, 2, torch.device(DEVICE)))
    far = torch.arange(7) - torch.arange(2, 7)[:, None]
    left, right = (1000 if width is None else width for width in structure.within)
    assert not (expected & ((far < -left) | (far > right))).any()
    pairs = structure.pairs
    assert (pairs is not None) == ("edges" in name and " or " not in name)
    if pairs is not None:
        codes = (pairs.query * 7 + pairs.key).tolist()
        assert codes == sorted(set(codes))
        listed = torch.zeros(7, 7, dtype=torch.bool)
        listed[pairs.query, pairs.key] = True
        assert not (expected & ~listed[2:]).any()


def test_bands():
    assert Dilated(2, 1, 3).structure().within == (6, 3)
    assert Dilated(2, 1, 3).structure().band is None
    assert Blocks(4).structure().within == (3, 3)
    assert (Window(5, 1) & Strided(2)).structure().within == (5, 1)
    assert (Window(5, 1) | Window(2, 4)).structure().within == (5, 4)
    assert (Window(5, 1) | Causal()).structure().within == (None, 1)
    assert (Window(5, 1) | Global(1)).structure().within == (None, None)
    assert (~Window(5, 1)).structure().within == (None, None)
    assert (Window(5, 9) & Causal()).structure().band == (5, 0)


@given(st.integers(1, 70), st.integers(1, 9), st.sampled_from([1, 3]), st.integers(0, 2), st.integers(0, 3))
def test_bigbird_sees_neighbours_global_blocks_and_as_many_drawn_ones_as_asked(length, block, window, front, random):
    mask = BigBird(length, block=block, window=window, global_blocks=front, random=random, seed=7)
    dense = mask.dense(1, 1, length, length)[0, 0]
    count = -(-length // block)
    seen = dense[::block, ::block]
    for i in range(count):
        sure = {j for j in range(count) if abs(i - j) <= window // 2 or i < front or j < front}
        got = {j for j in range(count) if seen[i, j]}
        assert sure <= got
        assert len(got) == min(count, len(sure) + random)
    # whole blocks
    assert torch.equal(dense, seen.repeat_interleave(block, 0).repeat_interleave(block, 1)[:length, :length])


def test_bigbird_is_drawn_from_its_seed():
    tables = [BigBird(256, block=8, seed=seed).dense(1, 1, 256, 256) for seed in (0, 0, 1)]
    assert torch.equal(tables[0], tables[1])
    assert not torch.equal(tables[0], tables[2])


def test_strided_and_causal_reach_every_earlier_key_in_two_layers():
    """The claim of Child et al. 2019, section 4.2."""
    one = (Strided(4) & Causal()).dense(1, 1, 16, 16)[0, 0].float()
    assert torch.equal((one @ one) > 0, torch.ones(16, 16).tril().bool())


def test_the_graph_of_the_lecture_notes():
    """Node 1 sees 5, 6 and 8, node 2 sees 3: counted from one, as in the figure; others are isolated."""
    mask = Edges(torch.tensor([[4, 5, 7, 2], [0, 0, 0, 1]]), 8)
    x = torch.randn(1, 1, 8, 4, dtype=torch.float64, requires_grad=True)
    output = attend(x, x, torch.eye(8, dtype=torch.float64).view(1, 1, 8, 8), mask=mask)[0, 0]
    assert output[0].nonzero().flatten().tolist() == [4, 5, 7]
    assert output[1].tolist() == [0, 0, 1, 0, 0, 0, 0, 0]
    assert not output[2:].any()
    (gradient,) = torch.autograd.grad(output.square().sum(), x)
    assert gradient.isfinite().all()
    assert not gradient[0, 0, 6].any()
    looped = mask.with_self_loops().dense(1, 1, 8, 8)[0, 0]
    assert torch.equal(looped, mask.dense(1, 1, 8, 8)[0, 0] | torch.eye(8, dtype=torch.bool))


def test_an_edge_given_twice_counts_once_and_order_does_not_matter():
    one = Edges(torch.tensor([[0, 1, 0], [2, 2, 2]]), 3)
    two = Edges(torch.tensor([[1, 0], [2, 2]]), 3)
    pairs = [mask.structure().pairs for mask in (one, two)]
    assert torch.equal(pairs[0].query, pairs[1].query)
    assert torch.equal(pairs[0].key, pairs[1].key)


@pytest.mark.parametrize(
    ("mask", "query", "key", "why"),
    [
        (Causal(), 2, 5, "key 5 comes after query 2"),
        (Window(1, 1), 2, 5, "key 5 is 3 after query 2; it allows 1 before and 1 after"),
        (Dilated(2, 2, 2), 4, 3, "key 3 is 1 before query 4; it allows 2 steps of 2 before and 2 after"),
        (Strided(2), 0, 3, "key 3 is 3 after query 0, more than 2 and no multiple of it"),
        (Blocks(2), 1, 2, "query 1 is in block 0 of 2 positions, key 2 in 1"),
        (Global(2), 3, 4, "neither query 3 nor key 4 is among the first 2 positions"),
        (Padding(torch.tensor([4, 2])), 0, 3, "key 3 is padding: sequence 1 has 2 keys"),
        (Padding(torch.tensor([[4, 4], [4, 1]])), 1, 3, "key 3 is padding: sequence 1 has 1 keys for query 1"),
        (Prefix(torch.tensor([4, 2])), 1, 3, "key 3 comes after query 1 and after the prefix of 2"),
        (Documents(torch.tensor(IDS)), 1, 4, "query 1 is in document 3, key 4 in document 0"),
        (Documents(torch.tensor([IDS[1], IDS[0]])), 6, 5, "key 5 is padding"),
        (Edges(torch.tensor([SOURCES, TARGETS]), 7), 4, 0, "no edge leads from node 0 to node 4"),
        (Table(torch.zeros(7, 7, dtype=torch.bool)), 1, 2, "the table does not allow query 1 to attend to key 2"),
        (
            Causal() & Window(9, 9) & Padding(torch.tensor([1, 1])),
            0,
            3,
            "key 3 comes after query 0; and key 3 is padding: sequence 1 has 1 keys",
        ),
        (
            Causal() | Blocks(2),
            0,
            3,
            "no part allows it: key 3 comes after query 0, nor: query 0 is in block 0 of 2 positions, key 3 in 1",
        ),
        (~Causal(), 3, 3, "query 3 and key 3 are what Causal allows, which is inverted"),
    ],
)
def test_an_explanation_names_the_part_that_forbids(mask, query, key, why):
    assert explain(mask, query, key, batch=1) == f"query {query} may not attend to key {key}: {why}"


def test_an_explanation_of_what_is_allowed_and_of_what_does_not_exist():
    assert explain(Causal(), 3, 2) == "query 3 may attend to key 2"
    with pytest.raises(
        ShapeError, match="no entry for batch 2, head 0, query 0, key 0; it was made for a smaller input"
    ):
        explain(Padding(torch.tensor([1, 1])), 0, 0, batch=2)


def test_queries_without_a_key_are_reported():
    mask = Window(1, 0) & Padding(torch.tensor([7, 3]))
    assert empty_rows(mask, 2, 3, 5, 7, query_start=1).tolist() == [[1, 0, 4], [1, 0, 5]]
    assert empty_rows(Causal(), 2, 3, 5, 7).tolist() == []


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Window(-1, 2), r"Window\(left=-1, right=2\): left must be a whole number, 0 or more"),
        (lambda: Window(None, 3), r"Window\(left=None, right=3\): left must be a whole number, 0 or more"),
        (lambda: Window(2, 0.5), "right must be a whole number, 0 or more"),
        (lambda: Window(2, sys.maxsize), "right must be a whole number, 0 or more"),
        (lambda: Global((2**31,)), "positions must be 0 or more"),
        (lambda: Dilated(1, 1, 0), "step must be a whole number, 1 or more"),
        (lambda: Strided(0), "step must be a whole number, 1 or more"),
        (lambda: Blocks(0), "size must be a whole number, 1 or more"),
        (lambda: Shifts((1, None)), "Shifts needs a whole number of steps for each head"),
        (lambda: Shifts(3), "Shifts needs a whole number of steps for each head"),
        (lambda: Global(-1), r"Global\(-1\): the number of tokens and their positions must be 0 or more"),
        (lambda: Global(2.5), "the number of tokens and their positions must be 0 or more"),
        (lambda: Global((1.5,)), "the number of tokens and their positions must be 0 or more"),
        (lambda: BigBird(8, window=2), "window must be an odd number of blocks"),
        (lambda: BigBird(8, random=-1), "random must be a whole number, 0 or more"),
        (lambda: BigBird(8, global_blocks=-1), "global_blocks must be a whole number, 0 or more"),
        (lambda: BigBird(128, global_blocks=(2,)), "global_blocks must be a number of blocks, or blocks from 0 to 1"),
        (lambda: BigBird(None), "length must be a whole number, 1 or more"),
        (lambda: BigBird(8).dense(1, 1, 9, 8), "BigBird was built for 8 positions, got 9"),
        (lambda: Prefix(torch.ones(2, 2, dtype=torch.long)), r"Prefix needs whole lengths \(batch\), got \(2, 2\)"),
        (lambda: Prefix(torch.tensor([1])).dense(2, 1, 3, 3), r"Prefix: prefix_lens \(1,\) do not fit; expected \(2\)"),
        (lambda: Documents(torch.ones(3)), r"Documents needs whole numbers \(batch, length\), got \(3,\)"),
        (lambda: Documents(torch.tensor(IDS)).dense(2, 1, 8, 7), r"ids \(2, 7\) do not fit; expected \(2, 8\)"),
        (
            lambda: Edges(torch.zeros(3, 2, dtype=torch.long), 4),
            r"Edges needs whole numbers \(2, edges\), got \(3, 2\)",
        ),
        (lambda: Edges(torch.tensor([[0], [4]]), 4), "node numbers run from 0 to 4, but there are 4 nodes"),
    ],
)
def test_what_a_mask_cannot_be(make, message, untyped):
    with pytest.raises(ShapeError, match=message):
        make()

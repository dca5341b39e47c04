"""Masks: what each allows, how they combine, what they refuse."""

import pytest
import torch
from attention_cases import Case, cases
from devices import DEVICE, on_the_host
from hypothesis import given

from headwise.attention import attend, masks
from headwise.attention.masks import Causal, Documents, Edges, Mask, Padding, Place, Prefix, Table, Window
from headwise.errors import ShapeError, Unsupported


def table(mask: Mask, query_len: int, key_len: int, **options) -> list:
    return mask.dense(1, 1, query_len, key_len, **options)[0, 0].int().tolist()


@given(cases(masked=True))
def test_every_mask_and_combination_allows_the_pairs_of_its_definition(case: Case):
    keep = torch.tensor(case.keep())
    dense = case.mask().dense(case.batch, case.heads, case.query_len, case.key_len, query_start=case.start)
    assert dense.dtype == torch.bool
    assert torch.equal(dense.expand(keep.shape), keep)


@given(cases(masked=True))
def test_the_predicate_and_the_table_agree(case: Case):
    axes = (case.batch, case.heads, case.query_len, case.key_len)
    index = torch.meshgrid(*[torch.arange(n) for n in axes], indexing="ij")
    pairs = case.mask()(index[0], index[1], index[2] + case.start, index[3])
    assert torch.equal(pairs, torch.tensor(case.keep()))


def test_causal_is_the_lower_triangle_from_the_first_key():
    assert table(Causal(), 3, 4) == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0]]
    assert table(Causal(), 1, 4, query_start=2) == [[1, 1, 1, 0]]


SEEN = {
    "lengths of queries": Padding(torch.tensor([[4, 3, 0, 1, 2], [0, 4, 4, 0, 0]])),
    "documents": Documents(torch.tensor([[0, 0, 1, 1, -1], [2, 2, 2, 3, -1]])),
    "prefix": Prefix(torch.tensor([1, 5])),
    "graph": Edges(torch.tensor([[0, 1, 4, 2, 3], [0, 1, 2, 3, 4]]), 5),
    "table": Table(torch.eye(5, dtype=torch.bool).flip(0)),
}


@pytest.mark.parametrize("start", [0, 2])
@pytest.mark.parametrize("kind", SEEN)
def test_what_is_seen_is_seen_by_the_queries_that_are_asked(kind, start):
    mask = SEEN[kind]
    seen = mask.structure(Place(2, 1, 2, 5, start, torch.device(DEVICE))).key_mask()
    assert torch.equal(seen.expand(2, 1, 5), mask.dense(2, 1, 2, 5, query_start=start).expand(2, 1, 2, 5).any(2))


def test_a_graph_in_which_each_node_is_seen_says_so():
    """Nodes 0 to 4 in a ring: all are seen where all of them ask, and those beyond the graph are not."""

    def told(graph, query_len, key_len):
        structure = graph.structure(Place(2, 1, query_len, key_len, 0, torch.device(DEVICE)))
        return [None if mask is None else mask.flatten().int().tolist() for mask in _both(structure)]

    ring, alone = SEEN["graph"], Edges(torch.tensor([[0, 1], [1, 0]]), 3)
    assert told(ring, 5, 5) == [None, None]
    assert told(ring, 5, 7) == [[1, 1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]
    assert told(ring, 6, 5) == [[1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0]]
    assert told(alone, 3, 3) == [[1, 1, 0], [1, 1, 0]]


def _both(structure):
    return structure.key_mask(), structure.query_mask()


def test_lengths_of_sequences():
    """Lengths 2 and 3 of four keys."""
    dense = Padding(torch.tensor([2, 3])).dense(2, 1, 2, 4).expand(2, 1, 2, 4)
    assert dense[:, 0].int().tolist() == [[[1, 1, 0, 0]] * 2, [[1, 1, 1, 0]] * 2]


def test_lengths_of_queries():
    """Lengths [[1, 3], [2, 4]] of four keys."""
    dense = Padding(torch.tensor([[1, 3], [2, 4]])).dense(2, 1, 2, 4)
    assert dense[:, 0].int().tolist() == [[[1, 0, 0, 0], [1, 1, 1, 0]], [[1, 1, 0, 0], [1, 1, 1, 1]]]


def test_lengths_serve_every_head_as_if_they_were_repeated():
    """With batch and heads in one axis, lengths [2, 3] are [2, 2, 3, 3], and rows of lengths repeat alike."""
    flat = Padding(torch.tensor([2, 3])).dense(2, 2, 1, 4).expand(2, 2, 1, 4).flatten(0, 1)
    assert flat.sum(-1).flatten().tolist() == [2, 2, 3, 3]
    flat = Padding(torch.tensor([[2, 2, 1], [3, 3, 2]])).dense(2, 2, 3, 4).expand(2, 2, 3, 4).flatten(0, 1)
    assert flat.sum(-1).tolist() == [[2, 2, 1], [2, 2, 1], [3, 3, 2], [3, 3, 2]]


def test_a_window_of_five_to_each_side_of_a_thousand_has_10970_pairs():
    dense = Window(5, 5).dense(1, 1, 1000, 1000)[0, 0]
    assert int(dense.sum()) == 10_970
    distance = torch.arange(1000) - torch.arange(1000)[:, None]
    assert torch.equal(dense, distance.abs() <= 5)


def band(mask: Mask):
    structure = mask.structure()
    return structure.band if structure.lens is None else None


def test_bands_are_known_where_the_mask_is_exactly_one():
    assert band(Causal()) == (None, 0)
    assert band(Window(3, 2)) == (3, 2)
    assert band(Causal() & Window(3, 2)) == (3, 0)
    assert band(Window(3, 2) & Window(1, 5)) == (1, 2)
    assert band(Causal() | Window(3, 2)) is None
    assert band(~Causal()) is None
    assert band(Causal() & Padding(torch.tensor([1]))) is None
    assert (Causal() & Causal()).structure().causal
    assert not (Causal() & Window(3, 0)).structure().causal


@given(cases(masked=True))
def test_a_band_says_what_the_table_says(case: Case):
    left, right = band(case.mask()) or (0, 0)
    if band(case.mask()) is None:
        return
    distance = torch.arange(case.key_len) - (torch.arange(case.query_len) + case.start)[:, None]
    inside = torch.ones_like(distance, dtype=torch.bool)
    if left is not None:
        inside &= distance >= -left
    if right is not None:
        inside &= distance <= right
    assert torch.equal(torch.tensor(case.keep()), inside.expand(case.batch, case.heads, -1, -1))


def test_an_axis_that_does_not_matter_has_size_one():
    assert Causal().dense(2, 3, 5, 7).shape == (1, 1, 5, 7)
    assert Padding(torch.tensor([1, 2])).dense(2, 3, 5, 7).shape == (2, 1, 1, 7)
    assert (Causal() & Padding(torch.tensor([1, 2]))).dense(2, 3, 5, 7).shape == (2, 1, 5, 7)


def test_a_shared_mask_makes_its_table_once_for_a_shape_and_nothing_else_remembers():
    mask = Causal() & Padding(torch.tensor([3, 0]))
    assert mask.dense(2, 3, 5, 7) is not mask.dense(2, 3, 5, 7)
    assert set(vars(mask)) == {"left", "right"}
    shared, place = mask.shared(), Place(2, 3, 5, 7)
    first = shared.structure(place).table()
    assert shared.structure(Place(2, 3, 5, 7)).table() is first
    assert torch.equal(first, mask.dense(2, 3, 5, 7))
    # cached steps: a new place takes that of the last one
    for length in range(1, 9):
        step = Place(2, 3, 1, length, length - 1)
        assert shared.structure(step).table().shape == (2, 1, 1, length)
    assert len(shared._latest) == 1
    assert shared.shared() is shared
    assert shared.structure().within == mask.structure().within


def test_masks_are_distinct_values():
    """Two masks of equal lengths are two masks: neither answers for the tensors of the other."""
    one, two = Padding(torch.tensor([1])), Padding(torch.tensor([2]))
    assert one != two
    assert one.dense(1, 1, 1, 2).tolist() != two.dense(1, 1, 1, 2).tolist()


@pytest.mark.parametrize("mask", [Padding(torch.tensor([0, 3])), Causal() & Padding(torch.tensor([0, 3]))])
def test_queries_of_a_sequence_without_keys_see_nothing(mask):
    queries = mask.structure(Place(2, 1, 3, 3)).query_mask()
    assert queries.expand(2, 1, 3).tolist() == [[[False] * 3], [[True] * 3]]


@on_the_host("elsewhere lengths are not read: the host would wait for the device")
def test_lengths_that_change_in_place_are_read_anew():
    lens = torch.tensor([3, 3])
    mask = Padding(lens)
    assert mask.structure(Place(2, 1, 3, 3)).open
    lens[1] = 2
    structure = mask.structure(Place(2, 1, 3, 3))
    assert not structure.open
    assert torch.equal(structure.table(), mask.dense(2, 1, 3, 3))


def test_lengths_that_do_not_fit_are_named():
    message = r"Padding: valid_lens \(3,\) do not fit; expected \(2\)"
    with pytest.raises(ShapeError, match=message):
        Padding(torch.tensor([1, 2, 3])).dense(2, 1, 4, 5)
    message = r"Padding: valid_lens \(2, 3\) do not fit; expected \(2, 4\)"
    with pytest.raises(ShapeError, match=message):
        Padding(torch.ones(2, 3, dtype=torch.long)).dense(2, 1, 4, 5)


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize("kind", [Padding, Prefix, Documents, lambda index: Edges(index, 5)])
def test_whole_numbers_are_no_bools_and_have_one_part(kind):
    for wrong in (torch.ones(2, 4, dtype=torch.bool), torch.ones(2, 4) + 0j, torch.ones(2, 4, dtype=torch.uint16)):
        with pytest.raises(ShapeError, match="needs whole"):
            kind(wrong)
    with pytest.raises(ShapeError, match=r"torch.bool; which keys are real is said by Table\(...\)"):
        Padding(torch.ones(2, 4, dtype=torch.bool))
    with pytest.raises(Unsupported, match="edge_index has to hold numbers; it is on meta"):
        Edges(torch.zeros(2, 3, dtype=torch.long, device="meta"), 5)


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize("lens", [torch.tensor([1.0, 2.0]), torch.ones(2, 2, 2, dtype=torch.long), torch.tensor(3)])
def test_lengths_of_a_wrong_kind_are_refused(lens):
    with pytest.raises(ShapeError, match=r"Padding needs whole lengths \(batch\) or \(batch, query_len\), got"):
        Padding(lens)


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize("allowed", [torch.ones(3, 4), torch.ones(4, dtype=torch.bool)])
def test_a_table_of_a_wrong_kind_is_refused(allowed):
    with pytest.raises(ShapeError, match="Table needs a bool tensor of 2 to 4 axes, True = may attend; got"):
        Table(allowed)


def test_a_table_that_does_not_fit_is_named():
    allowed = torch.ones(3, 4, dtype=torch.bool)
    message = r"Table \(3, 4\) does not fit \(batch, heads, query_len, key_len\) = \(2, 1, 5, 4\)"
    with pytest.raises(ShapeError, match=message):
        Table(allowed).dense(2, 1, 5, 4)
    with pytest.raises(ShapeError, match=r"= \(2, 1, 2, 4\) from query 2"):
        Table(allowed).dense(2, 1, 2, 4, query_start=2)


def test_a_table_is_asked_as_every_mask_is():
    allowed = torch.tensor([[True, False, True], [False, True, True]])
    sizes = {"batch": 1, "heads": 1, "query_len": 1, "key_len": 2}
    for mask in (Table(allowed), Table(allowed) & Table(allowed), Table(allowed).shared()):
        assert mask.dense(**sizes, query_start=1, key_start=1).tolist() == [[[[True, True]]]]
        with pytest.raises(TypeError, match="query_strat"):
            mask.dense(1, 1, 2, 3, query_strat=1)


def test_the_catalogue_names_every_mask():
    assert list(masks.catalogue()) == list(masks.MASKS)
    assert len(masks.MASKS) == 18
    assert all(masks.catalogue().values())


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: Padding([3, 4]), r"Padding: valid_lens must be a tensor, got list; pass torch.tensor\(...\)"),
        (lambda: Prefix([3, 4]), "Prefix: prefix_lens must be a tensor, got list"),
        (lambda: Documents([[0, 1]]), "Documents: ids must be a tensor, got list"),
        (lambda: Table([[True]]), "Table: allowed must be a tensor, got list"),
        (lambda: Edges([[0], [1]], 2), "Edges: edge_index must be a tensor, got list"),
    ],
)
def test_what_is_no_tensor_is_refused_by_name(made, message):
    with pytest.raises(ShapeError, match=message):
        made()


@on_the_host("elsewhere lengths are not read: the host would wait for the device")
def test_lengths_beyond_the_keys_are_refused():
    x, lens = torch.randn(2, 1, 7, 4), torch.tensor([3, 9])
    message = "Padding: valid_lens of up to 9, but there are 7 keys"
    with pytest.raises(ShapeError, match=message):
        attend(x, x, x, mask=Padding(lens) & Causal())
    with pytest.raises(ShapeError, match=message):
        attend(x[:, :, :2], x, x, mask=Padding(lens), query_start=3)
    # the keys so far of a sequence that is read step by step
    for row in range(7):
        attend(x[:, :, row : row + 1], x[:, :, : row + 1], x[:, :, : row + 1], mask=Padding(lens), query_start=row)

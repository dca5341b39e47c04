"""NaN in a key that no query sees under two masks together: nowhere in outputs or gradients, whatever computes them."""

import pytest
import torch
from attention_cases import NAN, run
from devices import DEVICE, seeded

from headwise.attention import attend, kernels
from headwise.attention.call import Call
from headwise.attention.masks import (
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
    Structure,
    Table,
    Window,
)
from headwise.attention.scores import Additive, Cosine

BATCH, HEADS = 2, 2


class Sparse(Mask):
    """A predicate of a user's own that knows a band around it."""

    def __call__(self, batch, head, query, key):
        return (key <= query) & (key >= query - 3) & (key % 3 != 1)

    def structure(self, place=None):
        return Structure(self, place, within=(3, 0))


def masks(n):
    """A mask of each kind for two sequences of n positions, each with keys that few queries see."""
    generator = seeded(n)
    table = torch.rand(BATCH, 1, n, n, generator=generator) < 0.1
    by_head = torch.rand(BATCH, HEADS, n, n, generator=generator) < 0.1
    return {
        "causal": Causal(),
        "lengths": Padding(torch.tensor([n - 2, 0])),
        "lengths of queries": Padding(torch.randint(0, n, (BATCH, n), generator=generator)),
        "window": Window(2, 1),
        "dilated": Dilated(1, 2, 2),
        "strided": Strided(3),
        "blocks": Blocks(3),
        "global": Global((0, 2)),
        "shifts": Shifts((-1, 2)),
        "prefix": Prefix(torch.tensor([1, 4])),
        "documents": Documents(torch.where(torch.arange(n) >= n - 2, -1, torch.arange(n) // 3).expand(BATCH, n)),
        "edges": Edges(torch.randint(0, n, (2, 2 * n), generator=generator), n),
        "table": Table(table.to(DEVICE)),
        "table by head": Table(by_head.to(DEVICE)),
        "inverted": ~Table(~table.to(DEVICE)),
        "own": Sparse(),
    }


PAIRS = list(masks(3))


def results(mask, kernel, normalizer, lengths, content):
    """Output and gradients with this content in the keys, values and queries that see and are seen by nothing."""
    keep = mask.dense(BATCH, HEADS, *lengths, device=DEVICE).expand(BATCH, HEADS, *lengths)
    blind, hidden = ~keep.any(3), ~keep.any((1, 2)).unsqueeze(1)
    # one key head for both heads of the query
    shapes = ((HEADS, lengths[0]), (1, lengths[1]), (1, lengths[1]))
    generator = seeded(3)
    tensors = [torch.randn(BATCH, *shape, 4, generator=generator).to(DEVICE) for shape in shapes]
    places = zip(tensors, (blind, hidden, hidden), strict=True)
    filled = [tensor.masked_fill(where.unsqueeze(-1), content).requires_grad_() for tensor, where in places]
    output = run(Call(*filled, normalizer=normalizer, mask=mask), kernel)
    return [] if output is None else [output, *torch.autograd.grad(output.square().sum(), filled)]


@pytest.mark.parametrize("first", PAIRS)
def test_a_key_that_two_masks_hide_together_reaches_nothing(first):
    """Every other mask beside this one, in every kernel, under softmax and a normalizer with exact zeros in turn."""
    wrong = []
    for number, second in enumerate(PAIRS[PAIRS.index(first) :]):
        # self-attention, where structure tells most, and keys beyond the last query in turn
        lengths, normalizer = ((11, 11), (10, 12))[number % 2], ("softmax", "sparsemax")[number // 2 % 2]
        made = masks(max(lengths))
        mask = made[first] & made[second]
        expected = results(mask, "plain", normalizer, lengths, 0.0)
        for kernel in ("strips", "banded", "edges", ("plain", "fused")[number % 2]):
            found = results(mask, kernel, normalizer, lengths, NAN)
            if not all(tensor.isfinite().all() for tensor in found):
                wrong.append((first, second, kernel, normalizer))
            if found:
                torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)
    assert not wrong


@pytest.mark.parametrize("second", PAIRS)
def test_what_a_mask_says_is_seen_is_what_its_table_shows(second):
    for query_len, key_len, start in ((5, 7, 0), (7, 7, 0), (2, 9, 4), (6, 9, 3)):
        made = masks(key_len)
        for mask in (part for one in made.values() for part in (one & made[second], one | made[second], ~one)):
            shape = (BATCH, HEADS, query_len, key_len)
            table = mask.dense(*shape, query_start=start, device=DEVICE).expand(shape)
            structure = mask.structure(Place(*shape, start, torch.device(DEVICE)))
            assert torch.equal(structure.table().expand(shape), table)
            for shown, told in ((table.any(2), structure.key_mask()), (table.any(3), structure.query_mask())):
                assert torch.equal(torch.ones_like(shown) if told is None else told.expand_as(shown), shown)


class Shifted(Mask):
    """A band of a user's own that lies wholly before or behind the query."""

    def __init__(self, left, right):
        self.left, self.right = left, right

    def __call__(self, batch, head, query, key):
        within = key == key
        within = within if self.left is None else within & (key >= query - self.left)
        return within if self.right is None else within & (key <= query + self.right)

    def structure(self, place=None):
        return Structure(self, place, (self.left, self.right), within=(self.left, self.right))


@pytest.mark.parametrize("kernel", ["plain", "fused", "strips", "banded"])
@pytest.mark.parametrize("mask", [Shifted(None, -1) & Shifted(-1, None), Shifted(None, -2) & Window(1, 70)])
def test_two_bands_that_do_not_meet_show_nothing(kernel, mask):
    shape = (BATCH, HEADS, 7, 9)
    structure = mask.structure(Place(*shape, 0, torch.device(DEVICE)))
    assert not structure.key_mask().any()
    assert not structure.query_mask().any()
    for tensor in results(mask, kernel, "softmax", shape[2:], NAN):
        assert not tensor.any()


@pytest.mark.parametrize("score", [Additive(4, 4, 3), Cosine(HEADS)])
def test_without_queries_nothing_is_seen(score):
    key = torch.full((BATCH, HEADS, 5, 4), NAN, device=DEVICE, requires_grad=True)
    query, score = key.detach()[:, :, :0], score.to(DEVICE)
    for mask in (Causal(), Padding(torch.tensor([4, 2]))):
        output = attend(query, key, key, score=score, mask=mask, query_start=3)
        for gradient in torch.autograd.grad(output.sum(), [key, *score.parameters()], allow_unused=True):
            assert gradient is None or not gradient.any()


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8])
def test_numbers_of_a_small_type_reach_as_far_as_there_are_keys(dtype):
    """300 positions, which neither of these types can count."""
    ids = (torch.arange(300) // 9).expand(BATCH, -1)
    for mask, wide in ((Documents(ids.to(dtype)), Documents(ids)), (Prefix(ids[:, 99].to(dtype)), Prefix(ids[:, 99]))):
        place = Place(BATCH, HEADS, 280, 300, 0, torch.device(DEVICE))
        seen = [one.structure(place).key_mask() for one in (mask, wide)]
        assert torch.equal(*seen)


@pytest.mark.parametrize(
    ("kernel", "length", "normalizer"),
    [("banded", 2048, "softmax"), ("strips", 1100, "sparsemax"), ("edges", 40, "softmax")],
)
def test_the_reported_intersections(kernel, length, normalizer):
    """A key that a table shows to distant queries alone, beside a window, a causal mask and a graph."""
    far = torch.zeros(length, length, dtype=torch.bool, device=DEVICE)
    far.fill_diagonal_(True)
    lost = length // 2
    far[:, lost] = False
    far[0 if kernel == "strips" else length - 1, lost] = True
    ring = torch.arange(length)
    other = {"banded": Window(8, 8), "strips": Causal(), "edges": Edges(torch.stack((ring, ring)), length)}[kernel]
    x = torch.randn(1, 1, length, 4, device=DEVICE)
    x[:, :, lost] = NAN
    query = torch.randn_like(x).requires_grad_()
    mask = Table(far) & other
    assert kernels.KERNELS[kernel].refusal(Call(query, x, x, normalizer=normalizer, mask=mask)) is None
    output = attend(query, x, x, mask=mask, normalizer=normalizer, kernel=kernel)
    assert output.isfinite().all()
    assert torch.autograd.grad(output.sum(), query)[0].isfinite().all()

"""Wrong masks and wrong positions are found."""

import pytest
import torch

from headwise.attention.masks import Causal, Window
from headwise.attention.relative import Relative
from headwise.certify import MaskSubject, PositionSubject, certify, invariants
from headwise.positions.position import Position
from headwise.positions.rotary import Rotary
from headwise.positions.sinusoidal import Sinusoidal


class TableOfOthers(Window):
    def _table(self, batch, heads, query_len, key_len, start, device):
        return ~super()._table(batch, heads, query_len, key_len, start, device)


class SaysTheOpposite(Window):
    def allows(self, batch, head, query, key):
        return not super().allows(batch, head, query, key)


class AndIsOr(Window):
    def __and__(self, other):
        return self | other


class TooNarrow(Window):
    def within(self):
        return (self.left, self.right - 1)


class CountsFromZero(Window):
    def _table(self, batch, heads, query_len, key_len, start, device):
        return super()._table(batch, heads, query_len, key_len, 0, device)


class WrongBand(Window):
    def band(self):
        return (self.left, self.right + 1)


MASKS = {
    TableOfOthers: ("N1",),
    SaysTheOpposite: ("N2",),
    AndIsOr: ("N3",),
    TooNarrow: ("N4",),
    CountsFromZero: ("N5",),
    WrongBand: ("N4", "N6"),
}


@pytest.mark.parametrize(("kind", "ids"), MASKS.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_wrong_masks_fail(kind, ids):
    for verdict in certify(MaskSubject("mine", lambda batch, n: kind(2, 1)), only=ids, quick=True):
        assert verdict.state == "fails", verdict.id
        assert verdict.example.startswith("batch ")


class Sized(Position):
    @classmethod
    def sized(cls, d_model, head_dim, num_heads, max_len):
        return cls()


class OtherPeriods(Sinusoidal):
    def embed(self, x, start):
        return x + (super().embed(torch.zeros_like(x), start)) ** 3


class TurnedTwice(Rotary):
    """Angles grow with the square of the position."""

    def rotate(self, heads, start):
        parts = [
            super(TurnedTwice, self).rotate(heads[:, :, i : i + 1], (start + i) ** 2) for i in range(heads.shape[2])
        ]
        return torch.cat(parts, 2)


class ByPlace(Sized):
    """What is added depends on where the query stands."""

    where = "scores"

    def bias(self, query, key, start):
        rows = torch.arange(start, start + query.shape[2], dtype=query.dtype)
        return (rows[:, None] * torch.arange(key.shape[2], dtype=query.dtype)).expand(1, 1, -1, -1) / 10


class Wraps(Sized):
    where = "embeddings"

    def embed(self, x, start):
        table = torch.randn(49, x.shape[-1], generator=torch.Generator().manual_seed(1)).to(x.dtype)
        return x + table[torch.arange(start, start + x.shape[-2]) % 49]


class StartForgotten(Wraps):
    def embed(self, x, start):
        return super().embed(x, 0)


class Widens(Sized):
    def embed(self, x, start):
        return x.double()


class StepsForgotten(Sized):
    """In a step with a cache, distances are counted from the first key."""

    where = "scores"

    def relative(self, query, key, low, high):
        scalar = torch.arange(high - low + 1, dtype=torch.float64).square()[None].to(query.dtype)
        return Relative(low=low, scalar=scalar / 5)


POSITIONS = {
    OtherPeriods: ("P1",),
    TurnedTwice: ("P2", "P5"),
    ByPlace: ("P3", "P5"),
    Wraps: ("P4",),
    StartForgotten: ("slices",),
    Widens: ("types",),
    StepsForgotten: ("P3", "layer"),
}


def made(kind):
    if issubclass(kind, Rotary):
        return kind(4)
    return kind(16) if issubclass(kind, Sinusoidal) else kind()


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize(("kind", "ids"), POSITIONS.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_wrong_positions_fail(kind, ids):
    name = "sinusoidal" if issubclass(kind, Sinusoidal) else "mine"
    for verdict in certify(PositionSubject(name, lambda: made(kind)), only=ids, quick=True):
        assert verdict.state == "fails", verdict.id
        assert verdict.example.startswith("length ")


def test_every_invariant_of_a_family_can_fail():
    for subject, wrong in (
        (MaskSubject("m", lambda batch, n: Causal()), MASKS),
        (PositionSubject("p", Widens), POSITIONS),
    ):
        assert {one.id for one in invariants(subject)} == {id for ids in wrong.values() for id in ids}

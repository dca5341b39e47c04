"""Invariants of masks: the predicate, the table, the words and what planners are told say the same."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from headwise.attention import kernels
from headwise.attention.call import Call
from headwise.attention.kernels import plain
from headwise.attention.masks import MASKS, Causal, Mask, Padding, Table, Window, explain
from headwise.attention.scores import ScaledDot
from headwise.certify.invariant import Invariant
from headwise.certify.numbers import apart, drawn, first, nonzero

_SCORE = ScaledDot()

# one of each kind for a batch of sequences of n positions
SAMPLES: dict[str, Callable[[int, int], Mask]] = {
    "causal": lambda batch, n: Causal(),
    "padding": lambda batch, n: Padding(torch.arange(batch) * 2 % (n + 1)),
    "window": lambda batch, n: Window(2, 1),
    "dilated": lambda batch, n: MASKS["dilated"](1, 2, 2),  # type: ignore[call-arg]
    "strided": lambda batch, n: MASKS["strided"](2),  # type: ignore[call-arg]
    "blocks": lambda batch, n: MASKS["blocks"](3),  # type: ignore[call-arg]
    "global": lambda batch, n: MASKS["global"](1),  # type: ignore[call-arg]
    "bigbird": lambda batch, n: MASKS["bigbird"](n, 2, 1, 1, 1),  # type: ignore[call-arg]
    "prefix": lambda batch, n: MASKS["prefix"](torch.arange(batch) + 1),  # type: ignore[call-arg]
    "documents": lambda batch, n: MASKS["documents"](_documents(batch, n)),  # type: ignore[call-arg]
    "edges": lambda batch, n: MASKS["edges"](torch.arange(2 * n).reshape(2, n) * 5 % n, n),  # type: ignore[call-arg]
    "table": lambda batch, n: Table(drawn((batch, 1, n, n), torch.float64, 1) > 0),
}


def _documents(batch: int, n: int) -> Tensor:
    """Documents of three tokens, with padding behind the last."""
    ids = torch.arange(n).expand(batch, n) // 3
    return torch.where(torch.arange(n) == n - 1, -1, ids)


class MaskSubject:
    """A mask to be tried.

    Args:
        name: for messages.
        make: (batch, positions) -> the mask.
    """

    def __init__(self, name: str, make: Callable[[int, int], Mask]):
        self.name, self.make = name, make


@dataclass(frozen=True)
class Pattern:
    """One trial: queries `start` to `start + query_len - 1` over keys from 0 on."""

    batch: int
    heads: int
    query_len: int
    key_len: int
    start: int = 0

    def mask(self, subject: MaskSubject) -> Mask:
        """The mask for these positions."""
        return subject.make(self.batch, max(self.start + self.query_len, self.key_len))

    def table(self, mask: Mask) -> Tensor:
        """The mask as a table of full size."""
        shape = (self.batch, self.heads, self.query_len, self.key_len)
        return mask.dense(*shape, query_start=self.start).expand(shape)

    def index(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Batch, head, query and key of every pair."""
        queries = torch.arange(self.start, self.start + self.query_len)
        axes = torch.meshgrid(
            torch.arange(self.batch), torch.arange(self.heads), queries, torch.arange(self.key_len), indexing="ij"
        )
        return axes[0], axes[1], axes[2], axes[3]

    def __str__(self) -> str:
        return (
            f"batch {self.batch}, heads {self.heads}, query_len {self.query_len} from position {self.start},"
            f" key_len {self.key_len}"
        )


def _patterns(subject: MaskSubject, quick: bool) -> Iterator[Pattern]:
    yield Pattern(1, 1, 1, 1)
    yield Pattern(1, 1, 2, 3)
    yield Pattern(2, 3, 5, 7)
    yield Pattern(2, 2, 2, 7, start=5)
    if not quick:
        yield Pattern(3, 2, 7, 7)
        yield Pattern(2, 2, 11, 13, start=2)


def _always(subject: MaskSubject) -> str | None:
    return None


def _differs(what: str, actual: Tensor, expected: Tensor) -> str | None:
    return apart(what, actual.float(), expected.float(), 0.0)


def _predicate(subject: MaskSubject, case: Pattern) -> str | None:
    mask = case.mask(subject)
    allowed = mask(*case.index()).expand(case.batch, case.heads, case.query_len, case.key_len)
    return _differs("table against the predicate", case.table(mask), allowed)


def _words(subject: MaskSubject, case: Pattern) -> str | None:
    mask = case.mask(subject)
    table = case.table(mask)
    for place in table[:, :1].nonzero().tolist() + (~table[:, :1]).nonzero().tolist():
        batch, head, row, key = place
        said = explain(mask, row + case.start, key, batch=batch, head=head)
        if ("may not attend" in said) == bool(table[batch, head, row, key]):
            return f"it says '{said}', the table says the opposite at {tuple(place)}"
    return None


def _combined(subject: MaskSubject, case: Pattern) -> str | None:
    mask, other = case.mask(subject), Window(1, 1) & Causal()
    one, two = case.table(mask), case.table(other)
    return first(
        _differs("mask & other", case.table(mask & other), one & two),
        _differs("mask | other", case.table(mask | other), one | two),
        _differs("~mask", case.table(~mask), ~one),
        _differs("~(mask & ~other)", case.table(~(mask & ~other)), ~one | two),
    )


def _covered(subject: MaskSubject, case: Pattern) -> str | None:
    """What planners are told: `band` is exact, `within` and `candidates` leave nothing out."""
    mask = case.mask(subject)
    for part in (mask, mask & Window(2, 1), mask | Window(1, 0)):
        table = case.table(part)
        far = case.index()[3] - case.index()[2]
        band, within = part.band(), part.within()
        pairs = part.candidates(case.query_len, case.key_len, case.start, torch.device("cpu"))
        found = None
        if band is not None:
            found = _differs("band", _inside(far, band), table)
        if within is not None:
            found = found or _differs("pairs outside of within", table & ~_inside(far, within), torch.zeros_like(table))
        if pairs is not None:
            listed = torch.zeros(case.query_len, case.key_len, dtype=torch.bool)
            listed[pairs.query, pairs.key] = True
            found = found or _differs("pairs that candidates lack", table & ~listed, torch.zeros_like(table))
        if found is not None:
            return found
    return None


def _inside(far: Tensor, band: tuple[int | None, int | None]) -> Tensor:
    left, right = band
    inside = torch.ones_like(far, dtype=torch.bool)
    inside = inside if left is None else inside & (far >= -left)
    return inside if right is None else inside & (far <= right)


def _later(subject: MaskSubject, case: Pattern) -> str | None:
    """Queries from a later position are the later rows of the whole table."""
    mask = case.mask(subject)
    whole = Pattern(case.batch, case.heads, case.start + case.query_len, case.key_len)
    return _differs("rows from a later start", case.table(mask), whole.table(mask)[:, :, case.start :])


def _honoured(subject: MaskSubject, case: Pattern) -> str | None:
    """Every kernel that accepts the mask gives what the written-out table gives, and 0 to rows without a key."""
    mask = case.mask(subject)
    table = case.table(mask)
    shape = (case.batch, case.heads)
    query = drawn((*shape, case.query_len, 4), torch.float64, 1)
    key, value = (drawn((*shape, case.key_len, 4), torch.float64, seed) for seed in (2, 3))
    expected = plain.compute(Call(query, key, value, _SCORE, mask=Table(table)))
    for name in kernels.names():
        call = Call(query, key, value, _SCORE, mask=mask, query_start=case.start)
        if kernels.kernel(name).refusal(call) is not None:
            continue
        output = kernels.kernel(name).compute(call)
        empty = ~table.any(-1, keepdim=True)
        found = first(
            apart(f"output of kernel {name}", output, expected, 1e-12),
            nonzero(f"output of kernel {name} for a query without a key", output.masked_fill(~empty, 0.0)),
        )
        if found is not None:
            return found
    return None


INVARIANTS = (
    Invariant("N1", "the predicate is the table", _always, _patterns, _predicate),
    Invariant("N2", "explain says allowed exactly where it is", _always, _patterns, _words),
    Invariant("N3", "and, or, not mean what they say", _always, _patterns, _combined),
    Invariant("N4", "what planners are told leaves no pair out", _always, _patterns, _covered),
    Invariant("N5", "later queries have the later rows", _always, _patterns, _later),
    Invariant("N6", "every kernel honours it", _always, _patterns, _honoured),
)

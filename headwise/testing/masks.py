"""Invariants of masks: the predicate, the table, the words and what planners are told say the same."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from headwise.attention import masks, planner
from headwise.attention.call import Call
from headwise.attention.kernels import KERNELS
from headwise.attention.masks import Causal, Mask, Place, Table, Window, explain
from headwise.testing.invariant import Invariant
from headwise.testing.numbers import apart, drawn, nonzero

# one of each kind for a batch of sequences of n positions
SAMPLES: dict[str, Callable[[int, int], Mask]] = {
    "causal": lambda batch, n: Causal(),
    "padding": lambda batch, n: masks.Padding(torch.arange(batch) * 2 % (n + 1)),
    "window": lambda batch, n: Window(2, 1),
    "dilated": lambda batch, n: masks.Dilated(1, 2, 2),
    "strided": lambda batch, n: masks.Strided(2),
    "blocks": lambda batch, n: masks.Blocks(3),
    "groups": lambda batch, n: masks.Groups(torch.arange(n) * 5 % 3),
    "grid_windows": lambda batch, n: masks.GridWindows(3, 2, 1),
    "rows": lambda batch, n: masks.Rows(3),
    "columns": lambda batch, n: masks.Columns(3),
    "lattice": lambda batch, n: masks.Lattice(4, 2),
    "global": lambda batch, n: masks.Global((0, 2)),
    "bigbird": lambda batch, n: masks.BigBird(n, 2, 1, 1, 1),
    "shifts": lambda batch, n: masks.Shifts((-1, 0, 2)),
    "prefix": lambda batch, n: masks.Prefix(torch.arange(batch) + 1),
    # documents of three tokens, with padding behind the last
    "documents": lambda batch, n: masks.Documents(
        torch.where(torch.arange(n) == n - 1, -1, torch.arange(n) // 3).expand(batch, n)
    ),
    "edges": lambda batch, n: masks.Edges(torch.arange(2 * n).reshape(2, n) * 5 % n, n),
    "table": lambda batch, n: Table(drawn((batch, 1, n, n), torch.float64, 1) > 0),
}


class MaskSubject(NamedTuple):
    """A mask to be tried; `make` is (batch, positions) -> the mask."""

    name: str
    make: Callable[[int, int], Mask]


def _mask(subject: MaskSubject, place: Place) -> Mask:
    return subject.make(place.batch, max(place.query_start + place.query_len, place.key_len))


def _table(mask: Mask, place: Place) -> Tensor:
    """The mask as a table of full size."""
    return mask.dense(*place.shape, query_start=place.query_start).expand(place.shape)


def _patterns(subject: MaskSubject, quick: bool) -> Iterator[Place]:
    yield Place(1, 1, 1, 1)
    yield Place(1, 1, 2, 3)
    yield Place(2, 3, 5, 7)
    yield Place(2, 2, 2, 7, query_start=5)
    if not quick:
        yield Place(3, 2, 7, 7)
        yield Place(2, 2, 11, 13, query_start=2)


def _predicate(subject: MaskSubject, case: Place) -> str | None:
    mask = _mask(subject, case)
    table = _table(mask, case)
    for batch, head, row, key in torch.cartesian_prod(*map(torch.arange, case.shape)).view(-1, 4).tolist():
        place = (batch, head, row + case.query_start, key)
        allowed = bool(mask(*(torch.tensor(index) for index in place)))
        if allowed != bool(table[batch, head, row, key]):
            return f"at (batch, head, query, key) {place} the predicate says {allowed}, the table {not allowed}"
        explanation = explain(mask, place[2], key, batch=batch, head=head)
        if ("may not attend" in explanation) == allowed:
            return f"at (batch, head, query, key) {place} it says '{explanation}', the predicate says {allowed}"
    return None


def _structure(subject: MaskSubject, case: Place) -> str | None:
    """Bands, `key_mask` and `query_mask` are exact; `within` and `pairs` leave nothing out."""
    mask = _mask(subject, case)
    for part in (mask, mask & Window(2, 1), mask | Window(1, 0)):
        table, no = _table(part, case), torch.zeros(case.shape, dtype=torch.bool)
        structure = part.structure(case._replace(device=table.device))
        fault = apart("pairs outside of within", table & ~_inside(case, structure.within), no)
        if structure.band is not None and structure.lens is None:
            fault = fault or apart("band", _inside(case, structure.band), table)
        if structure.pairs is not None:
            listed = set(zip(structure.pairs.query.tolist(), structure.pairs.key.tolist(), strict=True))
            places = table.any(1).any(0).nonzero().tolist()
            lost = [(row + case.query_start, key) for row, key in places if (row + case.query_start, key) not in listed]
            fault = fault or (f"pairs that are not listed: {lost[0]}" if lost else None)
        for name, shown, claim in (
            ("key", table.any(2), structure.key_mask()),
            ("query", table.any(3), structure.query_mask()),
        ):
            exact = torch.ones_like(shown) if claim is None else claim.expand_as(shown)
            fault = fault or apart(f"`{name}_mask`", exact, shown)
        if fault is not None:
            return fault
    return None


def _inside(case: Place, band: tuple[int | None, int | None]) -> Tensor:
    far = torch.arange(case.key_len) - torch.arange(case.query_start, case.query_start + case.query_len)[:, None]
    left, right = (1000 if bound is None else bound for bound in band)
    return ((far >= -left) & (far <= right)).expand(case.shape)


def _honoured(subject: MaskSubject, case: Place) -> str | None:
    """Every kernel that takes the mask gives what the written-out table gives, and 0 to rows without a key."""
    mask = _mask(subject, case)
    table = _table(mask, case)
    query = drawn((*case.shape[:3], 4), torch.float64, 1)
    key, value = (drawn((*case.shape[:2], case.key_len, 4), torch.float64, seed) for seed in (2, 3))
    expected = planner.run(Call(query, key, value, mask=Table(table)), "plain")
    call = Call(query, key, value, mask=mask, query_start=case.query_start)
    for name, kernel in KERNELS.items():
        if kernel.refusal(call) is not None:
            continue
        output = kernel.compute(call)
        fault = apart(f"output of kernel {name}", output, expected, 1e-12)
        if fault := fault or nonzero(f"output of kernel {name} without a key", output, ~table.any(-1, keepdim=True)):
            return fault
    return None


INVARIANTS = (
    Invariant("predicate", "predicate, table and words say the same", _patterns, _predicate),
    Invariant("told", "what planners are told leaves no pair out", _patterns, _structure),
    Invariant("kernels", "every kernel honours it", _patterns, _honoured),
)

"""Invariants of what must not matter: order, grouping, memory layout, and in how many pieces queries come."""

from collections.abc import Iterator
from dataclasses import replace

import torch

from headwise.attention.masks import Mask, Table
from headwise.certify.case import Case, cases
from headwise.certify.definition import per_head
from headwise.certify.invariant import Invariant
from headwise.certify.numbers import TOLERANCE, apart, first, gradients
from headwise.certify.subject import Subject

# these see a set of keys, not a sequence
_SETS = ("definition", "kernel")


def _order_matters(subject: Subject) -> str | None:
    return None if subject.facts.family in _SETS else f"order matters to a mechanism of family '{subject.facts.family}'"


def _all(subject: Subject, quick: bool) -> Iterator[Case]:
    return cases(subject.masks, quick, square=not subject.facts.cross)


def _wide(subject: Subject, quick: bool) -> Iterator[Case]:
    types = (torch.float64, torch.float32)
    return cases(subject.masks, quick, square=not subject.facts.cross, dtypes=types, modes=(False,))


def _unordered(subject: Subject, quick: bool) -> Iterator[Case]:
    masks = [mask for mask in subject.masks if mask in ("none", "table")]
    return cases(masks, quick, square=not subject.facts.cross, dtypes=(torch.float64, torch.float32))


def _moved(case: Case, queries: torch.Tensor, keys: torch.Tensor) -> Mask | None:
    """The mask of a case as moved queries and keys meet it."""
    if case.mask == "none":
        return None
    return Table(case.keep()[:, :, queries][:, :, :, keys])


def _keys(subject: Subject, case: Case) -> str | None:
    query, key, value = case.tensors()
    order, stay = torch.arange(case.key_len).roll(1), torch.arange(case.query_len)
    mask = _moved(case, stay, order)
    moved = subject.run(case, query, key[:, :, order], value[:, :, order], mask=mask)
    return apart("output for moved keys", moved, subject.run(case, query, key, value), TOLERANCE[case.dtype])


def _queries(subject: Subject, case: Case) -> str | None:
    query, key, value = case.tensors()
    order, stay = torch.arange(case.query_len).roll(1), torch.arange(case.key_len)
    mask = _moved(case, order, stay)
    moved = subject.run(case, query[:, :, order], key, value, mask=mask)
    expected = subject.run(case, query, key, value)[:, :, order]
    return apart("output for moved queries", moved, expected, TOLERANCE[case.dtype])


def _heads_differ(subject: Subject) -> str | None:
    name = subject.head_state
    return None if name is None else f"heads differ by its parameter or buffer '{name}'"


def _by_head(subject: Subject, quick: bool) -> Iterator[Case]:
    # a table differs by head, which the mask of one head does not say
    masks = [mask for mask in subject.masks if mask != "table"]
    types = (torch.float64, torch.float32)
    found = cases(masks, quick, square=not subject.facts.cross, dtypes=types, modes=(False,))
    return (replace(case, kv_heads=case.heads) for case in found if case.heads > 1)


def _heads(subject: Subject, case: Case) -> str | None:
    inputs = case.tensors()
    output = subject.run(case, *inputs)
    order = torch.arange(case.heads).roll(1)
    moved = subject.run(case, *(tensor[:, order] for tensor in inputs))
    found = apart("output for moved heads", moved, output[:, order], TOLERANCE[case.dtype])
    module = subject.module(case.heads, case.dtype, case.training)
    mask = case.made_mask()
    for head in range(case.heads):
        # the same callable: parameters that it drew are its own
        alone = module(*(tensor[:, head : head + 1] for tensor in inputs), **({} if mask is None else {"mask": mask}))
        wanted = output[:, head : head + 1]
        found = found or apart(f"output of head {head} alone", alone, wanted, TOLERANCE[case.dtype])
    return found


def _grouping(subject: Subject) -> str | None:
    return None if subject.grouped else "it takes as many heads of key and value as of the query"


def _grouped(subject: Subject, quick: bool) -> Iterator[Case]:
    return (case for case in _wide(subject, quick) if case.kv_heads < case.heads)


def _groups(subject: Subject, case: Case) -> str | None:
    inputs = case.tensors(learns=True)
    output = subject.run(case, *inputs)
    query, key, value = inputs
    whole = replace(case, kv_heads=case.heads)
    repeated = subject.run(whole, query, per_head(key, case.heads), per_head(value, case.heads))
    found = apart("output against repeated keys and values", output, repeated, TOLERANCE[case.dtype])
    for name, one, two in zip(
        ("query", "key", "value"), gradients(output, inputs), gradients(repeated, inputs), strict=True
    ):
        found = found or apart(f"gradient of {name} against repeated ones", one, two, 4 * TOLERANCE[case.dtype])
    return found


def _not_later(subject: Subject) -> str | None:
    if not subject.takes("query_start"):
        return "it takes no query_start"
    return None if subject.starts_later else "it reads sequences as a whole, and says so"


def _parts(subject: Subject, case: Case) -> str | None:
    query, key, value = case.tensors()
    whole = subject.run(case, query, key, value)
    mask = case.made_mask()
    for cut in {1, case.query_len // 2, case.query_len - 1} - {0, case.query_len}:
        # the same mask object: it counts queries from the start
        parts = [
            subject.run(case, query[:, :, a:b], key, value, mask=mask, query_start=a)
            for a, b in ((0, cut), (cut, case.query_len))
        ]
        found = apart(f"output in parts of {cut} and the rest", torch.cat(parts, 2), whole, TOLERANCE[case.dtype])
        if found is not None:
            return found
    return None


def _layout(subject: Subject, case: Case) -> str | None:
    query, key, value = case.tensors()
    output = subject.run(case, query, key, value)
    turned = (
        query.transpose(1, 2).contiguous().transpose(1, 2),
        torch.stack((key, key), -1)[..., 0],
        value.mT.contiguous().mT,
    )
    one = [tensor[:1, :1].expand_as(tensor) for tensor in (query, key, value)]
    copied = [tensor.clone(memory_format=torch.contiguous_format) for tensor in one]
    tolerance = max(1e-6, TOLERANCE[case.dtype]) if case.dtype != torch.float64 else 1e-12
    return first(
        apart("output for other strides", subject.run(case, *turned), output, tolerance),
        apart("output for expanded inputs", subject.run(case, *one), subject.run(case, *copied), tolerance),
    )


def _always(subject: Subject) -> str | None:
    return None


INVARIANTS = (
    Invariant("A6", "the order of the keys does not matter", _order_matters, _unordered, _keys),
    Invariant("A7", "the order of the queries is that of the outputs", _order_matters, _unordered, _queries),
    Invariant("A15", "heads are alike, and each is by itself", _heads_differ, _by_head, _heads),
    Invariant("A16", "fewer heads of key and value: the same as repeating them", _grouping, _grouped, _groups),
    Invariant("A17", "queries in parts give what they give together", _not_later, _wide, _parts),
    Invariant("A25", "strides and expanded inputs do not matter", _always, _all, _layout),
)

"""Invariants of a normalizer by itself: the forms that kernels use are its definition."""

from collections.abc import Iterator

import torch

from headwise.attention.mechanisms.scored import Scored
from headwise.certify.case import Case, cases
from headwise.certify.invariant import Invariant
from headwise.certify.numbers import apart, drawn, first, nonzero
from headwise.certify.subject import Subject


def _no_strips(subject: Subject) -> str | None:
    module = subject.module(1)
    if not isinstance(module, Scored):
        return "it has no normalizer of its own"
    return None if module.normalizer.has_strips() else "its normalizer has no form for whole rows"


def _rows(subject: Subject, quick: bool) -> Iterator[Case]:
    types = (torch.float64, torch.float32)
    return cases(subject.masks, quick, longest=71 if not quick else 9, dtypes=types, modes=(False,))


def _strips(subject: Subject, case: Case) -> str | None:
    module = subject.module(case.heads)
    assert isinstance(module, Scored)
    normalizer = module.normalizer
    scores = drawn((case.batch, case.heads, case.query_len, case.key_len), case.dtype, case.seed + 40, 2.0)
    learning = scores.clone().requires_grad_()
    keep = case.keep()
    weights = normalizer(learning, keep)
    above = drawn(weights.shape, case.dtype, 41)
    (expected,) = torch.autograd.grad(weights, learning, above)
    count = keep.sum(-1, keepdim=True).to(case.dtype)
    strip = normalizer.strip(scores.masked_fill(~keep, float("-inf")), count)
    tolerance = 1e-9 if case.dtype == torch.float64 else 1e-4
    found = first(
        nonzero("weight of a forbidden pair", weights.masked_fill(keep, 0.0)),
        nonzero("strip of a forbidden pair", strip.masked_fill(keep, 0.0)),
        apart("strip", strip, weights, tolerance),
    )
    gradient = normalizer.strip_gradient(strip, above.clone(), count)
    return found or apart("strip_gradient", gradient.masked_fill(~keep, 0.0), expected, tolerance)


INVARIANTS = (Invariant("strips", "its form for whole rows is its definition", _no_strips, _rows, _strips),)

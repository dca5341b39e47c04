"""Invariants that hold attention to its formula: outputs, weights, and what a shift of the scores changes."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from headwise.attention import normalizers
from headwise.attention.call import Call, per_head
from headwise.attention.masks import Table
from headwise.attention.normalizers import Softmax
from headwise.testing.case import EVAL, WIDE, Case, over
from headwise.testing.invariant import Invariant, where
from headwise.testing.numbers import TOLERANCE, apart, drawn, gradients, nonzero, results_apart
from headwise.testing.subject import Subject, inputs

# these see a set of keys, not a sequence
_SETS = ("definition", "kernel")


# weights of a row sum to 1
_SPARSE = (normalizers.Sparsemax, normalizers.Entmax, normalizers.Entmax15, normalizers.Hard, normalizers.TopK)
_SIMPLEX = (Softmax, normalizers.Scalable, *_SPARSE)
_POSITIVE = (*_SIMPLEX, normalizers.Softmax1, normalizers.ReLU, normalizers.ReLU2, normalizers.Sigmoid)


def expected(subject: Subject, case: Case, call: Call) -> Tensor:
    """The output by the definition, in float64; zeros in rows without a key."""
    definition = subject.definition(case.heads)
    assert definition is not None
    score, normalizer = definition
    scores = score(call.query.double(), per_head(call.key, case.heads).double())
    if call.bias is not None:
        scores = scores + call.bias.double()
    keep = case.keep()
    if not isinstance(normalizer, Softmax):
        weights = normalizer(scores, keep)
    else:
        scores = scores.masked_fill(~keep, float("-inf"))
        top = scores.amax(-1, keepdim=True)
        powers = (scores - top.masked_fill(top.isinf(), 0.0)).exp()
        total = powers.sum(-1, keepdim=True)
        weights = powers / total.masked_fill(total == 0, 1.0)
    return weights @ per_head(call.value, case.heads).double()


def biased(case: Case, call: Call) -> Call:
    """The same call with a bias on its scores."""
    return replace(call, bias=drawn((1, case.heads, *call.shape[2:]), case.dtype, case.seed + 5))


def _undefined(subject: Subject) -> str | None:
    return None if subject.definition() is not None else f"it computes another function ({subject.facts.exact})"


def _large_too(subject: Subject, quick: bool) -> Iterator[Case]:
    """With scores of some units, and of hundreds, where the best key wins."""
    for case in over()(subject, quick):
        yield case
        if case.dtype == torch.float64:
            yield replace(case, size=8.0)


def _defined(subject: Subject, case: Case) -> str | None:
    call = case.call()
    for variant in (call, biased(case, call)) if subject.facts.bias else (call,):
        output = subject.run(case, variant)
        if output.dtype != case.dtype:
            return f"output is {output.dtype}, inputs are {case.dtype}"
        what = "output" if variant.bias is None else "output under a bias"
        if fault := apart(what, output, expected(subject, case, variant), TOLERANCE[case.dtype] * case.size**2):
            return fault
    return None


def _weights(subject: Subject, case: Case) -> str | None:
    """Zero where forbidden, as promised elsewhere, those that are used, and the same in parts."""
    call, keep, mechanism = case.call(), case.keep(), subject.of(case)
    shown = mechanism.weights(call)
    fault = nonzero("weight of a forbidden pair", shown, ~keep)
    if subject.normalizes_as(_POSITIVE):
        fault = fault or nonzero("a weight below 0", shown.clamp(max=0.0))
    if subject.normalizes_as(_SIMPLEX):
        sums, tolerance = keep.any(-1).double(), max(1e-6, TOLERANCE[case.dtype])
        fault = fault or apart("sum of the weights of a row", shown.double().sum(-1), sums, tolerance)
    head, row, tolerance = case.heads - 1, case.query_len // 2, 4 * TOLERANCE[case.dtype]
    part = mechanism.weights(call, heads=[head], queries=slice(row, None), keys=slice(1, None))
    used = shown.double() @ per_head(call.value, case.heads).double()
    return (
        fault
        or apart("weights of one head, some rows and keys", part, shown[:, head:, row:, 1:], tolerance)
        or apart("weights @ value", used, subject.run(case, call), tolerance)
    )


def _forbids(subject: Subject, case: Case) -> str | None:
    call = biased(case, case.call())
    assert call.bias is not None
    hidden = call.bias.masked_fill(~case.keep(), float("-inf"))
    forbidden = subject.run(case, replace(call, mask=None, bias=hidden))
    return apart("output under minus infinity", forbidden, subject.run(case, call), TOLERANCE[case.dtype])


def _ordered(subject: Subject) -> str | None:
    return None if subject.facts.family in _SETS else f"order matters to a mechanism of family '{subject.facts.family}'"


def _order(subject: Subject, case: Case) -> str | None:
    call = case.call()
    queries, keys = torch.arange(case.query_len).roll(1), torch.arange(case.key_len).roll(1)
    table = None if call.mask is None else Table(case.keep()[:, :, queries][:, :, :, keys])
    moved = Call(call.query[:, :, queries], call.key[:, :, keys], call.value[:, :, keys], mask=table)
    expected = subject.run(case, call)[:, :, queries]
    return apart("output for moved queries and keys", subject.run(case, moved), expected, TOLERANCE[case.dtype])


def _grouped(subject: Subject, quick: bool) -> Iterator[Case]:
    return (case for case in over(dtypes=WIDE, modes=EVAL)(subject, quick) if case.kv_heads < case.heads)


def _groups(subject: Subject, case: Case) -> str | None:
    call = case.call(learns=True)
    key, value = (per_head(tensor, case.heads) for tensor in (call.key, call.value))
    output = subject.run(case, replace(call, key=key, value=value))
    repeated = (output, *gradients(output, inputs(call)))
    return results_apart("against repeated heads", subject.results(case, call), repeated, TOLERANCE[case.dtype])


_BIASED = where(lambda subject: subject.facts.bias, "it takes no bias on scores")
INVARIANTS = (
    Invariant(
        "definition", "equals the definition, with large scores and a bias too", _large_too, _defined, _undefined
    ),
    Invariant("weights", "weights shown: used, zero where forbidden, sums as promised", over(), _weights),
    Invariant(
        "bias", "a bias of minus infinity forbids as a mask does", over(("table",), dtypes=WIDE), _forbids, _BIASED
    ),
    Invariant(
        "order", "keys in any order, queries in that of outputs", over(("none", "table"), dtypes=WIDE), _order, _ordered
    ),
    Invariant("groups", "fewer heads of key and value: as if repeated", _grouped, _groups),
)

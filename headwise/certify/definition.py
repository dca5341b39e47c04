"""Invariants that hold attention to its formula: the weights, their sum, their limits."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.attention.normalizers import Softmax
from headwise.certify.case import Case, cases
from headwise.certify.invariant import Invariant
from headwise.certify.numbers import TOLERANCE, apart, drawn, first, nonzero, not_finite, unequal
from headwise.certify.subject import Subject


def weights(subject: Subject, case: Case, query: Tensor, key: Tensor, bias: Tensor | None = None) -> Tensor:
    """The definition: weights in float64, (batch, heads, query_len, key_len); zeros in rows without a key."""
    score, normalizer = subject.scored_in(case)
    scores = score(query.double(), per_head(key, case.heads).double())
    if bias is not None:
        scores = scores + bias.double()
    if not isinstance(normalizer, Softmax):
        return normalizer(scores, case.keep())
    scores = scores.masked_fill(~case.keep(), float("-inf"))
    top = scores.amax(-1, keepdim=True) if scores.shape[-1] else scores.new_zeros(*scores.shape[:-1], 1)
    powers = (scores - top.masked_fill(top.isinf(), 0.0)).exp()
    total = powers.sum(-1, keepdim=True)
    return powers / total.masked_fill(total == 0, 1.0)


def per_head(tensor: Tensor, heads: int) -> Tensor:
    """Keys or values once for each head of the query: head h takes that of its group."""
    return tensor.repeat_interleave(heads // tensor.shape[1], 1)


def _by_definition(subject: Subject) -> str | None:
    return None if subject.definition else f"it computes another function ({subject.facts.exact})"


def _all(subject: Subject, quick: bool) -> Iterator[Case]:
    return cases(subject.masks, quick, square=not subject.facts.cross)


def _exact(subject: Subject, quick: bool) -> Iterator[Case]:
    return cases(subject.masks, quick, square=not subject.facts.cross, longest=9, dtypes=(torch.float64,))


def _open(subject: Subject, quick: bool) -> Iterator[Case]:
    masks = [mask for mask in subject.masks if mask == subject.open_mask]
    return cases(masks, quick, square=not subject.facts.cross)


def _equals_formula(subject: Subject, case: Case) -> str | None:
    query, key, value = case.tensors()
    expected = weights(subject, case, query, key) @ per_head(value, case.heads).double()
    output = subject.run(case, query, key, value)
    if output.dtype != case.dtype:
        return f"output is {output.dtype}, inputs are {case.dtype}"
    return apart("output", output, expected, TOLERANCE[case.dtype])


def _shows_weights(subject: Subject) -> str | None:
    module = subject.module(1)
    if not isinstance(module, Mechanism):
        return "it has no effective_weights: it is no headwise Mechanism"
    return None


def _shown(subject: Subject, case: Case) -> Tensor:
    query, key, _ = case.tensors()
    module = subject.module(case.heads, case.dtype, case.training)
    assert isinstance(module, Mechanism)
    return module.effective_weights(query, key, mask=case.made_mask())


def _weights_fit(subject: Subject, case: Case) -> str | None:
    shown = _shown(subject, case)
    found = first(
        not_finite("weights", shown),
        nonzero("weight of a forbidden pair", shown.masked_fill(case.keep(), 0.0)),
    )
    if not subject.positive() or found is not None:
        return found
    found = nonzero("a weight below 0", shown.clamp(max=0.0))
    if subject.simplex() and found is None:
        sums = case.keep().any(-1).double()
        return apart("sum of the weights of a row", shown.double().sum(-1), sums, max(1e-6, TOLERANCE[case.dtype]))
    return found


def _shown_are_used(subject: Subject, case: Case) -> str | None:
    query, key, value = case.tensors()
    expected = _shown(subject, case).double() @ per_head(value, case.heads).double()
    return apart("output", subject.run(case, query, key, value), expected, 4 * TOLERANCE[case.dtype])


def _no_shift(subject: Subject) -> str | None:
    if not subject.bias():
        return "it takes no bias on scores"
    if subject.definition is not None and not subject.simplex():
        return f"{subject.definition[1].name} depends on the size of scores"
    return None


def _shift(subject: Subject, case: Case) -> str | None:
    query, key, value = case.tensors()
    bias = drawn((1, case.heads, case.query_len, case.key_len), case.dtype, case.seed + 5)
    tolerance = {torch.float64: 1e-9, torch.float32: 1e-3}[case.dtype]
    output = subject.run(case, query, key, value, bias=bias)
    shift = 100.0 * drawn((1, case.heads, case.query_len, 1), case.dtype, case.seed + 6)
    shifted = subject.run(case, query, key, value, bias=bias + shift)
    found = apart("output under shifted scores", shifted, output, tolerance)
    if found is not None or subject.definition is None:
        return found
    expected = weights(subject, case, query, key, bias) @ per_head(value, case.heads).double()
    return apart("output under a bias", output, expected, TOLERANCE[case.dtype])


def _wide(subject: Subject, quick: bool) -> Iterator[Case]:
    # a shifted bias in half precision is another bias
    types = (torch.float64, torch.float32)
    return cases(subject.masks, quick, square=not subject.facts.cross, dtypes=types)


def _no_scale(subject: Subject) -> str | None:
    return None if subject.dot() else _by_definition(subject) or "its score is no product of query and key"


def _scale(subject: Subject, case: Case) -> str | None:
    query, key, value = case.tensors()
    # a power of two rounds nothing
    scaled = subject.run(case, 4.0 * query, key / 4.0, value)
    return apart("output for 4 q and k / 4", scaled, subject.run(case, query, key, value), TOLERANCE[case.dtype])


def _linear(subject: Subject, case: Case) -> str | None:
    query, key, value = case.tensors()
    other = drawn(value.shape, case.dtype, case.seed + 9)
    mixed = (value.double() + 0.5 * other.double()).to(case.dtype)
    one, two, both = (subject.run(case, query, key, v) for v in (value, other, mixed))
    expected = one.double() + 0.5 * two.double()
    found = apart("output for v + w / 2", both, expected, 4 * TOLERANCE[case.dtype])
    if found is not None or not subject.simplex() or case.key_len == 0:
        return found
    # within the values that some query of the head sees, where a row without a key gives 0
    seen = per_head(value, case.heads).double()
    low, high = seen.amin(2, keepdim=True).clamp(max=0), seen.amax(2, keepdim=True).clamp(min=0)
    if bool(case.keep().all()):
        low, high = seen.amin(2, keepdim=True), seen.amax(2, keepdim=True)
    inside = one.double().minimum(high).maximum(low)
    return apart("output beyond the values", one, inside, TOLERANCE[case.dtype])


def _no_mean(subject: Subject) -> str | None:
    return None if subject.simplex() else _by_definition(subject) or "weights of a row need not sum to 1"


def _mean(subject: Subject, case: Case) -> str | None:
    query, key, value = case.tensors()
    single = replace(case, key_len=1, query_len=1 if not subject.facts.cross else case.query_len, mask="none")
    one = subject.run(single, query[:, :, : single.query_len], key[:, :, :1], value[:, :, :1])
    wanted = per_head(value, case.heads)[:, :, :1].expand_as(one)
    found = unequal("output of a single key", one, wanted)
    if found is not None or not subject.dense():
        return found
    alike = subject.run(case, query, key[:, :, :1].expand_as(key).contiguous(), value)
    share = case.keep().double()
    share = share / share.sum(-1, keepdim=True).clamp(min=1)
    expected = share @ per_head(value, case.heads).double()
    return apart("output of identical keys", alike, expected, TOLERANCE[case.dtype])


def _sharp(subject: Subject, case: Case) -> str | None:
    query, key, value = case.tensors()
    score, _ = subject.scored_in(case)
    scores = score(query.double(), per_head(key, case.heads).double()).masked_fill(~case.keep(), float("-inf"))
    # rows whose best key is clearly the best
    best = scores.topk(min(2, case.key_len), -1).values
    clear = (best[..., :1] - best[..., -1:] > 1e-2) if case.key_len > 1 else torch.ones_like(best, dtype=torch.bool)
    clear = clear & case.keep().any(-1, keepdim=True)
    chosen = torch.zeros_like(scores).scatter(-1, scores.argmax(-1, keepdim=True), 1.0)
    output = subject.run(case, 1e4 * query, key, value)
    expected = chosen @ per_head(value, case.heads).double()
    return apart("output at temperature 1e-4", output.masked_fill(~clear, 0.0), expected.masked_fill(~clear, 0.0), 1e-4)


def _no_limit(subject: Subject) -> str | None:
    return _no_scale(subject) or (None if subject.simplex() else "weights of a row need not sum to 1")


INVARIANTS = (
    Invariant("A1", "equals the definition in float64", _by_definition, _all, _equals_formula),
    Invariant("A2", "weights: zero where forbidden, else as promised", _shows_weights, _all, _weights_fit),
    Invariant("A8", "a number added to all scores of a row changes nothing", _no_shift, _wide, _shift),
    Invariant("A9", "a factor may move from query to key", _no_scale, _open, _scale),
    Invariant("A10", "linear in the value", lambda subject: None, _all, _linear),
    Invariant("A11", "identical keys give the mean, one key gives its value", _no_mean, _all, _mean),
    Invariant("A22", "at temperature 0 the best key wins", _no_limit, _exact, _sharp),
    Invariant("weights", "the weights shown are those used", _shows_weights, _all, _shown_are_used),
)

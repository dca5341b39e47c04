"""Invariants of what a mask hides: nothing of it reaches an output or a gradient, exactly."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from headwise.attention.call import Call
from headwise.attention.masks import And, Causal, Mask, Padding
from headwise.attention.mechanisms.scored import Scored
from headwise.attention.relative import Relative
from headwise.attention.scores import Dot
from headwise.errors import Unsupported
from headwise.testing.case import CAUSAL, EVAL, MASKS, PATTERNS, WIDE, Case, over
from headwise.testing.invariant import Invariant, where
from headwise.testing.numbers import RESULTS, TOLERANCE, apart, drawn, gradients, nonzero, not_finite, results_apart
from headwise.testing.subject import Subject, inputs

_NAN = float("nan")


def _with(call: Call, tensors: Iterable[Tensor]) -> Call:
    """The same call of another query, key and value, which learn."""
    query, key, value = (tensor.detach().requires_grad_() for tensor in tensors)
    return replace(call, query=query, key=key, value=value)


def _filled(call: Call, where: Tensor, content: float) -> Call:
    """The same call with this content in some of its keys and values."""
    return _with(call, (call.query, call.key.masked_fill(where, content), call.value.masked_fill(where, content)))


def _empty(subject: Subject, case: Case) -> str | None:
    call, filled = case.call(learns=True), case.keep().any(-1, keepdim=True)
    output, *grads = subject.results(case, call)
    with torch.no_grad():
        inference_output = subject.run(case, call)
    fault = nonzero("output of a query without a key", output, ~filled)
    fault = fault or nonzero("the same without gradients", inference_output, ~filled)
    for name, alone, of_all in zip(
        RESULTS[1:], gradients(output.masked_fill(filled, 0.0), inputs(call)), grads, strict=True
    ):
        fault = fault or nonzero(f"{name} from a query without a key", alone) or not_finite(name, of_all)
    return fault


def _hidden(subject: Subject, case: Case) -> str | None:
    call, hidden = case.call(learns=True), ~case.seen()
    expected = subject.results(case, call)
    fault = nonzero("gradient of a hidden key", expected[2], hidden)
    fault = fault or nonzero("gradient of a hidden value", expected[3], hidden)
    for content in (1e30, _NAN, float("-inf")):
        changed = subject.results(case, _filled(call, hidden, content))
        fault = fault or results_apart(f"with {content:g} under the mask", changed, expected, 0.0)
    return fault


def _alone(subject: Subject, case: Case) -> str | None:
    """A NaN stays in its sequence, and in its head if heads are alike."""
    call = case.call(learns=True)
    before = subject.results(case, call)
    for axis in (0, 1) if subject.facts.apart and subject.head_state() is None else (0,):
        count = call.key.shape[axis]
        last = (torch.arange(count) == count - 1).view([-1 if axis == at else 1 for at in range(4)])
        after = subject.results(case, _filled(call, last, _NAN))
        rest = [[t.narrow(axis, 0, t.shape[axis] // count * (count - 1)) for t in some] for some in (after, before)]
        if fault := results_apart("beside a NaN", rest[0], rest[1], 0.0):
            return fault
    return None


def _several(subject: Subject, quick: bool) -> Iterator[Case]:
    return (case for case in over(dtypes=WIDE, modes=EVAL)(subject, quick) if case.batch > 1)


def _padding(subject: Subject, case: Case) -> str | None:
    call = replace(case.call(), mask=Causal() if "causal" in case.mask else None)
    junk = [drawn((*t.shape[:2], 3, t.shape[3]), case.dtype, case.seed + 20) for t in inputs(call)]
    query, key, value = (torch.cat(pair, 2) for pair in zip(inputs(call), junk, strict=True))
    lens = Padding(torch.full((case.batch,), case.key_len))
    mask: Mask = lens if call.mask is None else And(call.mask, lens)
    longer = Call(call.query if subject.facts.cross else query, key, value, mask=mask)
    output = subject.run(case, longer)[:, :, : case.query_len]
    return apart("output with 3 hidden keys behind", output, subject.run(case, call), max(TOLERANCE[case.dtype], 1e-10))


def _patterned(subject: Subject, quick: bool) -> Iterator[Case]:
    # what a query sees may change the next one where an output is fed to it
    masks = (*CAUSAL, *PATTERNS) if subject.facts.family == "definition" else CAUSAL
    return over(masks, square=True, longest=9, dtypes=WIDE, modes=EVAL)(subject, quick)


def _support(subject: Subject, case: Case) -> str | None:
    """A query that may not see a key neither depends on it, up to 1e30, nor on other queries."""
    call = case.call(learns=True)
    output = subject.run(case, call)
    keep = case.keep() if subject.head_state() is None else case.keep().any(1, keepdim=True).expand(case.keep().shape)
    for key in range(case.key_len):
        sees, at = keep[..., key : key + 1], torch.arange(case.key_len).view(1, 1, -1, 1) == key
        what, fault = f"of queries that may not see key {key}", None
        for content in (3.0, 1e30):
            changed = subject.run(case, _filled(call, at, content))
            actual, reference = (tensor.masked_fill(sees, 0.0) for tensor in (changed, output))
            fault = fault or apart(f"output {what}, which becomes {content:g},", actual, reference, 1e-6)
        d_query, d_key, d_value = gradients(output.masked_fill(sees, 0.0), inputs(call))
        fault = fault or nonzero(f"gradient of other queries, {what}", d_query, sees)
        if fault := fault or nonzero(f"gradient of the key, {what}", d_key, at) or nonzero("of its value", d_value, at):
            return fault
    return None


def _promise_cases(subject: Subject, quick: bool) -> Iterator[Case]:
    return (Case(2, 2, 2, 4, 4, mask=mask, dtype=torch.float32) for mask in MASKS)


def _honest(subject: Subject, case: Case) -> str | None:
    """Promised masks run; others, if they forbid anything, raise Unsupported, and so does what else is not honoured."""
    if case.mask in subject.masks:
        subject.run(case, case.call())
        return _others(subject, case) if case.mask == subject.open_mask else None
    keep = case.keep()
    of_keys = torch.equal(keep, keep[:, :, :1].expand_as(keep)) and subject.facts.honours != "none"
    if case.mask != "none" and (of_keys or keep.all()):
        # the same keys for every query: no more than padding, whatever the mask is called
        return None
    try:
        subject.run(case, case.call())
    except Unsupported as refusal:
        return None if str(refusal) else "it refuses the mask without saying why"
    return f"it takes a mask that it does not promise to honour (facts.masks: {subject.facts.masks})"


def _others(subject: Subject, case: Case) -> str | None:
    """What else a call may ask for changes the output, or is refused."""
    call, mechanism, facts = case.call(), subject.of(case), subject.facts
    # large enough to change which key is the best
    bias = drawn((1, case.heads, *call.shape[2:]), case.dtype, 3, 10.0)
    relative = Relative(low=-1, scalar=drawn((case.heads, 3), case.dtype, 4, 10.0))
    options: dict[str, Any] = {
        "bias": bias,
        "relative": relative,
        "score": Dot(-3.0),
        "normalizer": "relu",
        "dropout": 0.9,
    }
    if isinstance(mechanism, Scored):
        # its own score and normalizer come before those of a call
        options = {name: value for name, value in options.items() if getattr(mechanism, name, None) is None}
    plain = subject.run(case, call)
    for name, option in options.items():
        try:
            changed = subject.run(case, replace(call, **{name: option}))
        except Unsupported:
            if getattr(facts, name, False) and subject.states_facts:
                return f"it refuses {name}, which its facts promise"
            continue
        if torch.equal(changed, plain):
            return f"it takes {name} and ignores it"
    return None


_HIDING = tuple(mask for mask in MASKS if mask not in ("none", "causal"))

_MASKED = where(lambda subject: len(subject.masks) > 1, "it takes no mask")
INVARIANTS = (
    Invariant("empty", "a query without a key gives 0 with zero gradients", over(_HIDING), _empty, _MASKED),
    Invariant("hidden", "what is hidden never matters, NaN and infinity included", over(_HIDING), _hidden, _MASKED),
    Invariant("alone", "a NaN stays in its sequence and its head", _several, _alone),
    Invariant(
        "padding",
        "hidden keys behind the sequence change nothing",
        over(("padding", "causal padding"), dtypes=WIDE),
        _padding,
        _MASKED,
    ),
    Invariant("support", "an output depends on no key that is forbidden, nor later", _patterned, _support),
    Invariant("honest", "honours or refuses masks, biases and the rest as it says", _promise_cases, _honest),
)

"""Invariants of a mechanism inside a layer: gradients, records, and decoding step by step."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from headwise.attention.call import Call
from headwise.attention.masks import Causal
from headwise.attention.mechanisms.mechanism import Recurrent, State
from headwise.caches import AttentionStep
from headwise.layers.attention import MultiHeadAttention
from headwise.records import record
from headwise.testing.case import EVAL, HEAD_DIM, WIDE, Case, over
from headwise.testing.invariant import Invariant, where
from headwise.testing.numbers import TOLERANCE, apart, drawn, gradients, not_finite, seeded
from headwise.testing.subject import Subject, own_mechanism

# beyond the blocks and chunks of most mechanisms; the longest of the cases
_LONG = 71


def layer(subject: Subject, case: Case) -> MultiHeadAttention:
    """The layer around the mechanism of a case, the same at each call."""
    with seeded(case.seed):
        mechanism = own_mechanism(subject.of(case))
        attention = MultiHeadAttention(case.heads * HEAD_DIM, case.heads, mechanism, num_kv_heads=case.kv_heads)
    return attention.to(case.dtype).train(case.training)


def _input(case: Case) -> Tensor:
    return drawn((case.batch, case.key_len, case.heads * HEAD_DIM), case.dtype, case.seed + 30)


def _square(subject: Subject, quick: bool) -> Iterator[Case]:
    masks = (subject.open_mask, "padding", "empty", "causal", "causal empty")
    yield from over(masks, square=True, dtypes=WIDE)(subject, quick)
    if quick:
        yield Case(1, 2, 1, _LONG, _LONG, mask=subject.open_mask, dtype=torch.float32, training=True)


def _learns(subject: Subject, case: Case) -> str | None:
    """Every parameter of layer and mechanism gets a finite gradient, and some number of it is not 0."""
    attention, x = layer(subject, case), _input(case).requires_grad_()
    output = attention(x, mask=case.call().mask)
    names, parameters = zip(*attention.named_parameters(), strict=True)
    fault = not_finite("output of the layer", output)
    above = drawn(output.shape, output.dtype, 7)
    gained = torch.autograd.grad((output * above).sum(), parameters, allow_unused=True)
    for name, gradient in zip(names, gained, strict=True):
        if gradient is None:
            return f"parameter {name} has no gradient"
        fault = fault or not_finite(f"gradient of parameter {name}", gradient)
        # a short sequence need not reach every part: one block has no neighbour to be sorted to
        if fault is None and case.key_len == _LONG and case.mask == subject.open_mask and not bool(gradient.any()):
            fault = f"gradient of parameter {name} is 0 everywhere"
    return fault


def _recorded(subject: Subject, case: Case) -> str | None:
    """Recorded or not, outputs and gradients are the same, and what is shown are the weights of the call."""
    attention, x, mask = layer(subject, case), _input(case).requires_grad_(), case.call().mask
    alone = attention(x, mask=mask)
    (d_alone,) = gradients(alone, [x])
    with record(attention) as trace:
        watched = attention(x, mask=mask)
    (layer_record,) = trace
    call, head, row = layer_record.calls[0].call, case.heads - 1, case.key_len // 2
    expected, tolerance = attention.mechanism.weights(call), TOLERANCE[case.dtype]
    some = layer_record.weights(head=head, queries=slice(row, None))
    return (
        apart("output while recorded", watched, alone)
        or apart("gradient while recorded", gradients(watched, [x])[0], d_alone)
        or apart("recorded weights", layer_record.weights(), expected, tolerance)
        or apart("recorded weights of one head and some rows", some, expected[:, head:, row:], tolerance)
    )


def _no_steps(subject: Subject) -> str | None:
    if not subject.facts.causal or "causal" not in subject.masks:
        return "it cannot hide later keys, and says so"
    return "it reads sequences as a whole, and says so" if subject.facts.cache == "none" else None


@torch.no_grad()
def _steps(subject: Subject, case: Case) -> str | None:
    attention, x = layer(subject, case), _input(case)
    full = attention(x, mask=Causal())
    memory = attention.new_cache()
    steps = [
        attention(x[:, t : t + 1], mask=Causal(), cache=AttentionStep(memory, position=t)) for t in range(case.key_len)
    ]
    return apart("output step by step with a cache", torch.cat(steps, 1), full, 4 * TOLERANCE[case.dtype])


def _and_long(subject: Subject, quick: bool) -> Iterator[Case]:
    yield from over(("causal",), square=True, modes=EVAL)(subject, quick)
    if quick:
        yield Case(1, 2, 1, _LONG, _LONG, mask="causal", dtype=torch.float32)


def _forms(subject: Subject, case: Case) -> str | None:
    """Going on from a state, in pieces of any size, is the causal form."""
    call, mechanism = case.call(), subject.of(case)
    assert isinstance(mechanism, Recurrent)
    full, length = subject.run(case, call), case.key_len
    for piece in {1, 2, max(1, length - 1), length}:
        state: State | None = None
        outputs = []
        for at in range(0, length, piece):
            output, state = mechanism.resume(_part(call, at, at + piece), state)
            outputs.append(output)
        fault = apart(f"output in pieces of {piece}", torch.cat(outputs, 2), full, 4 * TOLERANCE[case.dtype])
        shapes = [tuple(tensor.shape) for tensor in state or ()]
        if fault is None and any(shape[0] != case.batch for shape in shapes):
            fault = f"the tensors of the state have shapes {shapes}; the first axis must be the batch"
        if fault is not None:
            return fault
    return None


def _part(call: Call, first: int, last: int) -> Call:
    part = slice(first, last)
    query, key, value = (tensor[:, :, part] for tensor in (call.query, call.key, call.value))
    return replace(call, query=query, key=key, value=value, mask=None, query_start=first)


_RECURRENT = where(lambda subject: isinstance(subject.module(1), Recurrent), "it has no recurrent form")
INVARIANTS = (
    Invariant("layer", "in a layer every parameter learns", _square, _learns),
    Invariant("record", "recorded or not the same; shown are the weights of the call", _square, _recorded),
    Invariant(
        "steps",
        "step by step with a cache is all at once",
        over(("causal",), square=True, modes=EVAL),
        _steps,
        _no_steps,
    ),
    Invariant("resume", "going on from a state is the causal form", _and_long, _forms, _RECURRENT),
)

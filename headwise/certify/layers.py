"""Invariants of a mechanism inside a layer: gradients, records, and decoding step by step."""

from collections.abc import Iterator

import torch
from torch import Tensor

from headwise.attention.masks import Causal
from headwise.attention.mechanisms.mechanism import Mechanism, Recurrent, State
from headwise.caches import AttentionStep
from headwise.certify.case import HEAD_DIM, Case, cases
from headwise.certify.invariant import Invariant
from headwise.certify.numbers import TOLERANCE, apart, drawn, first, gradients, not_finite, unequal
from headwise.certify.subject import Subject
from headwise.layers.attention import MultiHeadAttention
from headwise.records import record

# beyond the blocks and chunks of most mechanisms; the longest of the cases
_LONG = 71


def _no_layer(subject: Subject) -> str | None:
    return None if subject.is_mechanism else "it is no headwise Mechanism, which layers are made of"


def layer(subject: Subject, case: Case) -> MultiHeadAttention:
    """The layer around the mechanism of a case, the same at each call."""
    mechanism = subject.module(case.heads, case.dtype, case.training)
    assert isinstance(mechanism, Mechanism)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(case.seed)
        made = MultiHeadAttention(case.heads * HEAD_DIM, case.heads, mechanism, num_kv_heads=case.kv_heads)
    return made.to(case.dtype).train(case.training)


def _input(case: Case) -> Tensor:
    return drawn((case.batch, case.key_len, case.heads * HEAD_DIM), case.dtype, case.seed + 30)


def _square(subject: Subject, quick: bool) -> Iterator[Case]:
    masks = [
        mask for mask in subject.masks if mask in (subject.open_mask, "padding", "empty", "causal", "causal empty")
    ]
    yield from cases(masks, quick, square=True, dtypes=(torch.float64, torch.float32))
    if quick:
        yield Case(1, 2, 1, _LONG, _LONG, mask=subject.open_mask, dtype=torch.float32, training=True)


def _learns(subject: Subject, case: Case) -> str | None:
    """Every parameter of layer and mechanism gets a finite gradient, and some number of it is not 0."""
    made, x = layer(subject, case), _input(case).requires_grad_()
    output = made(x, mask=case.made_mask())
    if output.shape != x.shape:
        return f"the layer returns {tuple(output.shape)} for {tuple(x.shape)}"
    names, parameters = zip(*made.named_parameters(), strict=True)
    found = not_finite("output of the layer", output)
    weights = drawn(output.shape, output.dtype, 7)
    gained = torch.autograd.grad((output * weights).sum(), parameters, allow_unused=True)
    for name, gradient in zip(names, gained, strict=True):
        if gradient is None:
            return f"parameter {name} has no gradient"
        found = found or not_finite(f"gradient of parameter {name}", gradient)
        # a short sequence need not reach every part: one block has no neighbour to be sorted to
        if found is None and case.key_len == _LONG and case.mask == subject.open_mask and not bool(gradient.any()):
            found = f"gradient of parameter {name} is 0 everywhere"
    return found


def _recorded(subject: Subject, case: Case) -> str | None:
    made, x = layer(subject, case), _input(case).requires_grad_()
    mask = case.made_mask()
    alone = made(x, mask=mask)
    with record(made):
        watched = made(x, mask=mask)
    return first(
        unequal("output while recorded", watched, alone),
        unequal("gradient while recorded", *(gradients(output, [x])[0] for output in (watched, alone))),
    )


def _shown(subject: Subject, case: Case) -> str | None:
    """What a record shows are the weights of the call: all of them, or those of a head and some rows."""
    made, x = layer(subject, case), _input(case)
    with record(made) as trace:
        made(x, mask=case.made_mask())
    (seen,) = trace
    call = seen.calls[0]
    mechanism = subject.module(case.heads, case.dtype, case.training)
    assert isinstance(mechanism, Mechanism)
    expected = mechanism.effective_weights(call.query, call.key, mask=call.mask)
    head, row = case.heads - 1, case.key_len // 2
    some = seen.weights(head=head, queries=slice(row, None))
    return first(
        apart("recorded weights", seen.weights(), expected, TOLERANCE[case.dtype]),
        apart("recorded weights of one head and some rows", some, expected[:, head:, row:], TOLERANCE[case.dtype]),
    )


def _no_steps(subject: Subject) -> str | None:
    if not subject.is_mechanism:
        return _no_layer(subject)
    if not subject.facts.causal:
        return "it cannot hide later keys, and says so"
    if subject.starts_later or isinstance(subject.module(1), Recurrent):
        return None
    return "it reads sequences as a whole, and says so"


def _causal(subject: Subject, quick: bool) -> Iterator[Case]:
    masks = [mask for mask in subject.masks if mask == "causal"]
    return cases(masks, quick, square=True, modes=(False,))


@torch.no_grad()
def _steps(subject: Subject, case: Case) -> str | None:
    made, x = layer(subject, case), _input(case)
    whole = made(x, mask=Causal())
    memory = made.kept()
    steps = [made(x[:, t : t + 1], mask=Causal(), cache=AttentionStep(memory, position=t)) for t in range(case.key_len)]
    return apart("output step by step with a cache", torch.cat(steps, 1), whole, 4 * TOLERANCE[case.dtype])


def _no_state(subject: Subject) -> str | None:
    return None if isinstance(subject.module(1), Recurrent) else "it has no recurrent form"


def _forms(subject: Subject, case: Case) -> str | None:
    """Going on from a state, in pieces of any size, is the causal form."""
    query, key, value = case.tensors()
    module = subject.module(case.heads, case.dtype, case.training)
    assert isinstance(module, Recurrent)
    whole = subject.run(case, query, key, value, mask=Causal())
    length = case.key_len
    for piece in {1, 2, max(1, length - 1), length}:
        state: State | None = None
        outputs = []
        for at in range(0, length, piece):
            part = slice(at, at + piece)
            output, state = module.resume(query[:, :, part], key[:, :, part], value[:, :, part], state)
            outputs.append(output)
        found = apart(f"output in pieces of {piece}", torch.cat(outputs, 2), whole, 4 * TOLERANCE[case.dtype])
        if found is None and state is not None and any(tensor.shape[0] != case.batch for tensor in state):
            found = (
                f"a tensor of the state has shape {[tuple(t.shape) for t in state]}; its first axis must be the batch"
            )
        if found is not None:
            return found
    return None


def _with_groups(subject: Subject, quick: bool) -> Iterator[Case]:
    # one long sequence, beyond the chunks in which linear forms work
    yield from _causal(subject, quick)
    if quick and "causal" in subject.masks:
        yield Case(1, 2, 1, _LONG, _LONG, mask="causal", dtype=torch.float32)


INVARIANTS = (
    Invariant("A18", "going on from a state is the causal form", _no_state, _with_groups, _forms),
    Invariant("layer", "in a layer every parameter learns", _no_layer, _square, _learns),
    Invariant("record", "recorded or not, the same to the bit", _no_layer, _square, _recorded),
    Invariant("shown", "a record shows the weights of the call", _no_layer, _square, _shown),
    Invariant("steps", "step by step with a cache is all at once", _no_steps, _causal, _steps),
)

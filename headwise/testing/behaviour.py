"""Invariants of how it behaves: gradients, kernels, empty and huge inputs, types, dropout, saving."""

import copy
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor
from torch.autograd.gradcheck import GradcheckError, gradcheck
from torch.func import functional_call

from headwise.attention.call import Call
from headwise.attention.kernels import KERNELS, plain
from headwise.attention.mechanisms.scored import Scored
from headwise.attention.normalizers import Hard
from headwise.testing.case import DTYPES, EVAL, EXACT, Case, called, over
from headwise.testing.invariant import Invariant, where
from headwise.testing.numbers import (
    RESULTS,
    TOLERANCE,
    apart,
    drawn,
    gradients,
    nonzero,
    not_finite,
    results_apart,
    seeded,
)
from headwise.testing.subject import Subject, inputs, own_mechanism


def _jumps(subject: Subject) -> str | None:
    if own_mechanism(subject.module(1)).teaches:
        return "its parameters learn from a loss of their own, which the output does not show"
    jumps = subject.normalizes_as((Hard,))
    return "its gradient stands in for that of a step, which has none" if jumps else None


def _short(subject: Subject, quick: bool) -> Iterator[Case]:
    return over(dtypes=EXACT, longest=3 if quick else 7)(subject, quick)


def _differences(subject: Subject, case: Case) -> str | None:
    """Gradients by autograd are those by differences, of inputs and of the parameters given for the call."""
    call, module = case.call(learns=True), subject.of(case)
    own = {name: p.detach().clone().requires_grad_() for name, p in module.named_parameters()}

    def function(*tensors: Tensor) -> Tensor:
        inner = called(tensors[:3], call.mask)
        return functional_call(module, dict(zip(own, tensors[3:], strict=True)), (inner,))

    try:
        gradcheck(function, (*inputs(call), *own.values()), fast_mode=True)
    except GradcheckError as error:
        which = ", ".join(("query", "key", "value", *own))
        return f"gradients of {which}: {' '.join(str(error).split())[:200]}"
    return None


def _all_and_one(subject: Subject, quick: bool) -> Iterator[Case]:
    # one node without an edge: a graph that lists nothing
    yield from (Case(mask=mask) for mask in subject.masks if mask == "graph")
    yield from over()(subject, quick)


def _kernels(subject: Subject, case: Case) -> str | None:
    definition = subject.definition(case.heads)
    assert definition is not None
    score, normalizer = (copy.deepcopy(module).to(case.dtype) for module in definition)
    expected: tuple[Tensor, ...] = ()
    for name, kernel in {"plain": plain, **KERNELS}.items():
        call = replace(case.call(learns=True), score=score, normalizer=normalizer)
        if kernel.refusal(call) is not None:
            continue
        output = kernel.compute(call)
        results = (output, *gradients(output, inputs(call)))
        expected = expected or results
        if wrong := results_apart(f"of kernel {name} against plain", results, expected, 4 * TOLERANCE[case.dtype]):
            return wrong
    return None


def _layout(subject: Subject, case: Case) -> str | None:
    """Every other number of twice as many, turned axes, expanded ones: as a copy of them, for turned gradients too."""
    call, tolerance = case.call(), max(1e-6, TOLERANCE[case.dtype]) if case.dtype != torch.float64 else 1e-12
    query, key, value = inputs(call)
    # what lies between is not to be read
    spread = torch.stack((query, torch.full_like(query, float("nan"))), -1).flatten(-2)[..., ::2]
    expanded = (tensor[:1, :1].expand_as(tensor) for tensor in (query, key, value))
    for strange in (
        (spread, key.mT.contiguous().mT, value.transpose(1, 2).contiguous().transpose(1, 2)),
        tuple(expanded),
    ):
        results = []
        for tensors in (strange, [tensor.clone(memory_format=torch.contiguous_format) for tensor in strange]):
            leaves = [tensor.detach().requires_grad_() for tensor in tensors]
            # the gradient that comes back is turned as well
            output = subject.run(case, called(leaves, call.mask)).mT
            results.append((output, *gradients(output, leaves)))
        if fault := results_apart("for other strides", results[0], results[1], tolerance):
            return fault
    return None


def _no_axes(subject: Subject, quick: bool) -> Iterator[Case]:
    sizes = ((0, 3, 2), (3, 0, 2), (0, 0, 2), (3, 3, 0)) if subject.facts.cross else ((0, 0, 2), (3, 3, 0))
    for query_len, key_len, batch in sizes:
        yield Case(batch, 2, 2, query_len, key_len, mask=subject.open_mask)


def _empty_axes(subject: Subject, case: Case) -> str | None:
    results = subject.results(case, case.call(learns=True))
    wrong = nonzero("output", results[0]) if case.key_len == 0 else None
    for name, tensor in zip(RESULTS, results, strict=True):
        wrong = wrong or not_finite(name, tensor)
    return wrong


def _sized(subject: Subject, quick: bool) -> Iterator[Case]:
    for case in over(("none", "causal", "padding", "table"), dtypes=(torch.float32,), modes=EVAL)(subject, quick):
        yield from (replace(case, size=size) for size in (1e3, 1e15))


def _huge(subject: Subject, case: Case) -> str | None:
    wrong = None
    for name, tensor in zip(RESULTS, subject.results(case, case.call(learns=True)), strict=True):
        wrong = wrong or not_finite(name, tensor, infinite=True)
    return wrong


def _types(subject: Subject, case: Case) -> str | None:
    """Of numbers that every type has, each type computes what float64 does."""
    results = []
    for dtype in (case.dtype, torch.float64):
        exact = replace(case, dtype=torch.float64).call()
        leaves = [tensor.bfloat16().to(dtype).requires_grad_() for tensor in inputs(exact)]
        output = subject.run(replace(case, dtype=dtype), called(leaves, exact.mask))
        if output.dtype != dtype:
            return f"output is {output.dtype}, inputs are {dtype}"
        above = drawn(output.shape, torch.bfloat16, 7).to(dtype)
        grads = torch.autograd.grad(output, leaves, above, allow_unused=True)
        results.append((output, *(torch.zeros(()) if gradient is None else gradient for gradient in grads)))
    return results_apart("against float64", results[0], results[1], TOLERANCE[case.dtype])


def _once(subject: Subject, quick: bool) -> Iterator[Case]:
    cases = over([subject.open_mask], dtypes=(torch.float32,), modes=(True,))(subject, quick)
    return (case for case in cases if case.key_len > 1)


def _dropped(subject: Subject, case: Case, call: Call) -> Tensor:
    with seeded(1):
        return subject.run(case, call, dropout=0.5)


def _dropout(subject: Subject, case: Case) -> str | None:
    """Without dropout no mode changes a number; with it none drops in eval, one seed drops the same, and on average
    over 300 draws nothing changes, within five standard errors."""
    call, quiet = case.call(), replace(case, training=False)
    output = subject.run(quiet, call)
    fault = (
        apart("output in train without dropout", subject.run(case, call), output)
        or apart("output in eval with dropout 0.5", _dropped(subject, quiet, call), output)
        or apart("output of the same seed", _dropped(subject, case, call), _dropped(subject, case, call))
    )
    if fault is not None or case.heads > 2:
        return fault
    many = called((tensor[:1].repeat(300, 1, 1, 1) for tensor in inputs(call)), call.mask)
    dropped = _dropped(subject, replace(case, batch=300), many).double()
    error, mean = dropped.std(0, keepdim=True) / 300**0.5, dropped.mean(0, keepdim=True)
    beyond = ((mean - output[:1].double()).abs() - 5 * error).clamp(min=0)
    return apart("mean of 300 draws, beyond 5 standard errors,", beyond, torch.zeros_like(beyond), 1e-5)


def _saved(subject: Subject, case: Case) -> str | None:
    """What is in the state is all that counts, and so is what is given for a call, for its gradients too."""
    call, other = case.call(), subject.of(case, seed=1)
    state = {
        name: tensor.clone().requires_grad_(tensor.is_floating_point())
        for name, tensor in subject.of(case).state_dict().items()
    }
    before = functional_call(other, state, (call,))
    other.load_state_dict(state)
    after = other(call)
    own = {name: parameter for name, parameter in other.named_parameters() if parameter.requires_grad}
    d_before, d_after = gradients(before, [state[name] for name in own]), gradients(after, list(own.values()))
    fault = apart("output after saving and loading", after, subject.run(case, call))
    fault = fault or apart("output with parameters given for the call", before, after)
    for name, d_state, d_own in zip(own, d_before, d_after, strict=True):
        fault = fault or apart(f"gradient of {name} given for the call", d_state, d_own)
    return fault


_PLANNED = where(lambda subject: isinstance(subject.module(1), Scored), "it has one way to compute")
INVARIANTS = (
    Invariant("gradients", "gradients are those of differences, of parameters too", _short, _differences, _jumps),
    Invariant("kernels", "every kernel equals the plain one, forward and backward", _all_and_one, _kernels, _PLANNED),
    Invariant("dropout", "dropout: off in eval, repeatable, right on average", _once, _dropout),
    Invariant("axes", "empty axes give empty outputs or zeros", _no_axes, _empty_axes),
    Invariant("huge", "huge finite inputs never give NaN", _sized, _huge),
    Invariant(
        "types", "every type agrees with float64, gradients too", over(dtypes=DTYPES[1:], modes=EVAL, longest=9), _types
    ),
    Invariant("state", "saved and loaded, or given for a call, it is the same", _once, _saved),
    Invariant("layout", "strides and expanded inputs do not matter", over(), _layout),
)

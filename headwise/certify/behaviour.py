"""Invariants of how it behaves: gradients, empty and huge inputs, types, modes, dropout, saving."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from headwise.attention import kernels
from headwise.attention.call import Call
from headwise.attention.mechanisms.scored import Scored
from headwise.certify.case import Case, cases
from headwise.certify.invariant import Invariant
from headwise.certify.numbers import TOLERANCE, apart, drawn, first, gradients, not_finite, unequal
from headwise.certify.subject import Subject


def _always(subject: Subject) -> str | None:
    return None


def _wide(subject: Subject, quick: bool) -> Iterator[Case]:
    types = (torch.float64, torch.float32)
    return cases(subject.masks, quick, square=not subject.facts.cross, dtypes=types)


def _exact(subject: Subject, quick: bool) -> Iterator[Case]:
    types = (torch.float64,)
    return cases(subject.masks, quick, square=not subject.facts.cross, longest=3 if quick else 7, dtypes=types)


def _once(subject: Subject, quick: bool) -> Iterator[Case]:
    found = cases([subject.open_mask], quick, square=not subject.facts.cross, dtypes=(torch.float32,), modes=(True,))
    return (case for case in found if case.key_len > 1)


def _no_gradient(subject: Subject) -> str | None:
    return "its gradient stands in for that of a step, which has none" if subject.step() else None


def _gradcheck(subject: Subject, case: Case) -> str | None:
    inputs = case.tensors(learns=True)
    module = subject.module(case.heads, case.dtype, case.training)
    own = dict(module.named_parameters()) if isinstance(module, nn.Module) else {}
    mask = case.made_mask()
    options: dict[str, Any] = {} if mask is None else {"mask": mask}

    def function(*tensors: Tensor) -> Any:
        if not isinstance(module, nn.Module):
            return module(*tensors, **options)
        parameters = dict(zip(own, tensors[3:], strict=True))
        return torch.func.functional_call(module, parameters, tensors[:3], options)

    values = [parameter.detach().clone().requires_grad_() for parameter in own.values()]
    if torch.autograd.gradcheck(function, (*inputs, *values), raise_exception=False, fast_mode=True):
        return None
    return _which(function, [*inputs, *values], ["query", "key", "value", *own])


def _which(function: Callable[..., Any], tensors: list[Tensor], names: list[str]) -> str | None:
    """The tensor whose gradient is furthest from differences."""
    for index, (name, tensor) in enumerate(zip(names, tensors, strict=True)):

        def one(x: Tensor, index: int = index) -> Any:
            return function(*tensors[:index], x, *tensors[index + 1 :])

        try:
            torch.autograd.gradcheck(one, (tensor,))
        except RuntimeError as error:
            return f"gradient of {name}: {' '.join(str(error).split())[:200]}"
    return "gradients differ from differences"


def _nothing(subject: Subject, quick: bool) -> Iterator[Case]:
    mask = subject.open_mask
    if subject.facts.cross:
        for query_len, key_len, batch in ((0, 3, 2), (3, 0, 2), (0, 0, 2), (3, 3, 0)):
            yield Case(batch, 2, 2, query_len, key_len, mask=mask)
    else:
        yield Case(2, 2, 2, 0, 0, mask=mask)
        yield Case(0, 2, 2, 3, 3, mask=mask)


def _empty_axes(subject: Subject, case: Case) -> str | None:
    inputs = case.tensors(learns=True)
    output = subject.run(case, *inputs)
    found = apart("output", output, torch.zeros_like(output), 0.0) if case.key_len == 0 else None
    for name, gradient in zip(("query", "key", "value"), gradients(output, inputs), strict=True):
        found = found or not_finite(f"gradient of {name}", gradient)
    return found


def _huge(subject: Subject, quick: bool) -> Iterator[Case]:
    masks = [mask for mask in subject.masks if mask in ("none", "causal", "padding", "table")]
    for case in cases(masks, quick, square=not subject.facts.cross, dtypes=(torch.float32,), modes=(False,)):
        for size in (1e3, 1e15):
            yield replace(case, size=size)


def _no_overflow(subject: Subject, case: Case) -> str | None:
    inputs = case.tensors(learns=True)
    output = subject.run(case, *inputs)
    found = _nan("output", output)
    for name, gradient in zip(("query", "key", "value"), gradients(output, inputs), strict=True):
        found = found or _nan(f"gradient of {name}", gradient)
    return found


def _nan(what: str, tensor: Tensor) -> str | None:
    return not_finite(what, torch.where(tensor.isinf(), 0.0, tensor))


def _types(subject: Subject, quick: bool) -> Iterator[Case]:
    types = (torch.float32, torch.bfloat16)
    return cases(subject.masks, quick, square=not subject.facts.cross, longest=9, dtypes=types, modes=(False,))


def _types_agree(subject: Subject, case: Case) -> str | None:
    # numbers that every type has
    rounded = [tensor.to(torch.bfloat16) for tensor in replace(case, dtype=torch.float64).tensors()]
    exact = [tensor.double().requires_grad_() for tensor in rounded]
    inputs = [tensor.to(case.dtype).requires_grad_() for tensor in rounded]
    expected = subject.run(replace(case, dtype=torch.float64), *exact)
    output = subject.run(case, *inputs)
    if output.dtype != case.dtype:
        return f"output is {output.dtype}, inputs are {case.dtype}"
    found = apart("output against float64", output, expected, TOLERANCE[case.dtype])
    weights = drawn(output.shape, torch.bfloat16, 7)
    d_exact = torch.autograd.grad((expected * weights.double()).sum(), exact, allow_unused=True)
    d_found = torch.autograd.grad(output, inputs, weights.to(case.dtype), allow_unused=True)
    for name, one, two in zip(("query", "key", "value"), d_found, d_exact, strict=True):
        if one is not None and two is not None:
            found = found or apart(f"gradient of {name} against float64", one, two, 4 * TOLERANCE[case.dtype])
    return found


def _modes(subject: Subject, case: Case) -> str | None:
    """Without dropout no mode changes a number; with it none drops in eval, and one seed drops the same."""
    inputs = case.tensors()
    output = subject.run(replace(case, training=False), *inputs)
    found = first(
        unequal("output in train without dropout", subject.run(replace(case, training=True), *inputs), output),
        unequal("output in eval with dropout 0.5", _dropped(subject, case, False, inputs), output),
    )
    draws = [_dropped(subject, case, True, inputs) for _ in range(2)]
    return found or unequal("output of the same seed", *draws)


def _dropped(subject: Subject, case: Case, training: bool, inputs: list[Tensor], seed: int = 1) -> Tensor:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return subject.run(replace(case, training=training), *inputs, dropout=0.5)


def _expected_dropout(subject: Subject, case: Case) -> str | None:
    """The mean of many draws is the output without dropout, within five standard errors."""
    found = _modes(subject, case)
    if found is not None or case.heads > 2:
        return found
    draws = 1000
    single = [tensor[:1] for tensor in case.tensors()]
    many = [tensor.repeat(draws, 1, 1, 1) for tensor in single]
    one = replace(case, batch=1)
    expected = subject.run(replace(one, training=False), *single).double()
    dropped = _dropped(subject, replace(case, batch=draws), True, many).double()
    error = dropped.std(0, keepdim=True) / draws**0.5
    mean = dropped.mean(0, keepdim=True)
    beyond = ((mean - expected).abs() - 5 * error).clamp(min=0)
    return apart("mean of 1000 draws, beyond 5 standard errors,", beyond, torch.zeros_like(beyond), 1e-5)


def _other_kernels(subject: Subject) -> str | None:
    return None if isinstance(subject.module(1), Scored) else "it has one way to compute"


def _kernels_agree(subject: Subject, case: Case) -> str | None:
    module = subject.module(case.heads, case.dtype, case.training)
    assert isinstance(module, Scored)
    results: dict[str, list[Tensor]] = {}
    for name in ("plain", *kernels.names()):
        inputs = case.tensors(learns=True)
        query, key, value = inputs
        call = Call(query, key, value, module.score, module.normalizer, case.made_mask())
        if kernels.kernel(name).refusal(call) is None:
            output = kernels.kernel(name).compute(call)
            results[name] = [output, *gradients(output, inputs)]
    for name, tensors in results.items():
        for what, one, two in zip(("output", "d_query", "d_key", "d_value"), tensors, results["plain"], strict=True):
            found = apart(f"{what} of kernel {name} against plain", one, two, 4 * TOLERANCE[case.dtype])
            if found is not None:
                return found
    return None


def _all(subject: Subject, quick: bool) -> Iterator[Case]:
    return cases(subject.masks, quick, square=not subject.facts.cross)


def _none_too(subject: Subject, quick: bool) -> Iterator[Case]:
    # one node without an edge: a graph that lists nothing
    yield from (Case(mask=mask) for mask in subject.masks if mask == "graph")
    yield from _all(subject, quick)


def _stateless(subject: Subject) -> str | None:
    module = subject.module(1)
    return None if isinstance(module, nn.Module) else "it is a function, which has no state"


def _saved(subject: Subject, case: Case) -> str | None:
    inputs = case.tensors()
    module = subject.module(case.heads, case.dtype, case.training)
    other = subject.module(case.heads, case.dtype, case.training, seed=1)
    assert isinstance(module, nn.Module)
    assert isinstance(other, nn.Module)
    other.load_state_dict(module.state_dict())
    mask = case.made_mask()
    restored = other(*inputs, **({} if mask is None else {"mask": mask}))
    return unequal("output after saving and loading", restored, subject.run(case, *inputs))


INVARIANTS = (
    Invariant("A19", "gradients are those of differences, empty rows included", _no_gradient, _exact, _gradcheck),
    Invariant(
        "A20", "every kernel equals the plain one, forward and backward", _other_kernels, _none_too, _kernels_agree
    ),
    Invariant("A21", "dropout: off in eval, repeatable, right on average", _always, _once, _expected_dropout),
    Invariant("A23", "empty axes give empty outputs or zeros", _always, _nothing, _empty_axes),
    Invariant("A24", "huge finite inputs never give NaN", _always, _huge, _no_overflow),
    Invariant("types", "float32 and bfloat16 agree with float64, gradients too", _always, _types, _types_agree),
    Invariant("state", "saved and loaded it is the same", _stateless, _once, _saved),
)

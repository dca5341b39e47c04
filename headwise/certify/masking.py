"""Invariants of what a mask hides: nothing of it reaches an output or a gradient, exactly."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from headwise.attention.masks import And, Causal, Edges, Mask, Padding
from headwise.attention.relative import Relative
from headwise.certify.case import MASKS, PATTERNS, Case, cases
from headwise.certify.invariant import Invariant
from headwise.certify.numbers import TOLERANCE, apart, drawn, first, gradients, nonzero, not_finite, unequal
from headwise.certify.subject import Subject
from headwise.errors import Unsupported

# longest sequence of which every row is differentiated by itself
_ROWS = 9


def _takes_masks(subject: Subject) -> str | None:
    return None if subject.takes("mask") else "it takes no mask"


def _hiding(subject: Subject, quick: bool) -> Iterator[Case]:
    masks = [mask for mask in subject.masks if mask not in ("none", "causal")]
    return cases(masks, quick, square=not subject.facts.cross)


def _no_empty_rows(subject: Subject, quick: bool) -> Iterator[Case]:
    masks = [mask for mask in subject.masks if mask in ("empty", "causal empty", "table", "graph")]
    return cases(masks, quick, square=not subject.facts.cross)


def _empty_rows(subject: Subject, case: Case) -> str | None:
    inputs = case.tensors(learns=True)
    output = subject.run(case, *inputs)
    empty = ~case.keep().any(-1, keepdim=True)
    with torch.no_grad():
        looked = subject.run(case, *inputs)
    found = first(
        nonzero("output of a query without a key", output.masked_fill(~empty, 0.0)),
        nonzero("output of a query without a key, without gradients", looked.masked_fill(~empty, 0.0)),
    )
    if found is not None:
        return found
    for name, alone, whole in zip(
        ("query", "key", "value"),
        gradients(output.masked_fill(~empty, 0.0), inputs),
        gradients(subject.run(case, *inputs), inputs),
        strict=True,
    ):
        wrong = nonzero(f"gradient of {name} from a query without a key", alone)
        found = found or wrong or not_finite(f"gradient of {name}", whole)
    return found


def _with_content(case: Case, content: float) -> list[Tensor]:
    query, key, value = case.tensors()
    hidden = ~case.seen().unsqueeze(-1)
    return [t.requires_grad_() for t in (query, key.masked_fill(hidden, content), value.masked_fill(hidden, content))]


def _content(subject: Subject, case: Case) -> str | None:
    inputs = case.tensors(learns=True)
    output = subject.run(case, *inputs)
    expected = gradients(output, inputs)
    hidden = ~case.seen().unsqueeze(-1)
    for name, gradient in zip(("key", "value"), expected[1:], strict=True):
        found = nonzero(f"gradient of a hidden {name}", gradient.masked_fill(~hidden, 0.0))
        if found is not None:
            return found
    for content in (1e30, float("nan"), float("inf"), float("-inf")):
        others = _with_content(case, content)
        changed = subject.run(case, *others)
        found = unequal(f"output with {content:g} under the mask", changed, output)
        # an infinity takes the path of NaN
        learned = () if content in (float("inf"), float("-inf")) else gradients(changed, others)
        for name, one, two in zip(("query", "key", "value"), learned, expected, strict=False):
            found = found or unequal(f"gradient of {name} with {content:g} under the mask", one, two)
        if found is not None:
            return found
    return None


def _padded(subject: Subject, quick: bool) -> Iterator[Case]:
    masks = [mask for mask in subject.masks if mask in ("padding", "causal padding")]
    return cases(masks, quick, square=not subject.facts.cross, dtypes=(torch.float64, torch.float32))


def _padding(subject: Subject, case: Case) -> str | None:
    query, key, value = case.tensors()
    causal = case.mask == "causal padding"
    alone = subject.run(replace(case, mask="causal" if causal else "none"), query, key, value)
    junk = [drawn((*t.shape[:2], 3, t.shape[3]), case.dtype, case.seed + 20) for t in (query, key, value)]
    longer = [torch.cat(pair, 2) for pair in zip((query, key, value), junk, strict=True)]
    if subject.facts.cross:
        longer[0] = query
    lens = Padding(torch.full((case.batch,), case.key_len))
    mask: Mask = And(Causal(), lens) if causal else lens
    output = subject.run(case, *longer, mask=mask)[:, :, : case.query_len]
    return apart("output with 3 hidden keys behind", output, alone, max(TOLERANCE[case.dtype], 1e-10))


def _causal_cases(subject: Subject, quick: bool) -> Iterator[Case]:
    masks = [mask for mask in subject.masks if mask in ("causal", "causal padding")]
    return cases(masks, quick, square=True, longest=_ROWS)


def _not_causal(subject: Subject) -> str | None:
    return _takes_masks(subject) or (None if subject.facts.causal else "it cannot hide later keys, and says so")


def _no_future(subject: Subject, case: Case) -> str | None:
    inputs = case.tensors(learns=True)
    output = subject.run(case, *inputs)
    length = case.query_len
    for row in range(length - 1):
        later = (torch.arange(length) > row).view(1, 1, -1, 1)
        others = [torch.where(later, drawn(t.shape, t.dtype, 40 + i), t) for i, t in enumerate(inputs)]
        changed = subject.run(case, *others)
        found = unequal(f"output {row} after a change behind it", changed[:, :, : row + 1], output[:, :, : row + 1])
        for name, gradient in zip(("query", "key", "value"), gradients(output[:, :, : row + 1], inputs), strict=True):
            found = found or nonzero(f"derivative of output {row} by a later {name}", gradient.masked_fill(~later, 0.0))
        if found is not None:
            return found
    return None


def _patterned(subject: Subject, quick: bool) -> Iterator[Case]:
    masks = [mask for mask in subject.masks if mask in (*PATTERNS, "causal", "padding")]
    return cases(masks, quick, square=not subject.facts.cross, longest=_ROWS, dtypes=(torch.float64,), modes=(False,))


def _support(subject: Subject, case: Case) -> str | None:
    inputs = case.tensors(learns=True)
    output = subject.run(case, *inputs)
    grouped = case.keep().unflatten(1, (case.kv_heads, case.heads // case.kv_heads)).any(2)
    for row in range(case.query_len):
        seen = grouped[:, :, row].unsqueeze(-1)
        d_query, d_key, d_value = gradients(output[:, :, row : row + 1], inputs)
        found = nonzero(f"derivative of output {row} by a forbidden value", d_value.masked_fill(seen, 0.0))
        if found is None and subject.facts.family == "definition":
            others = (torch.arange(case.query_len) != row).view(1, 1, -1, 1)
            found = first(
                nonzero(f"derivative of output {row} by a forbidden key", d_key.masked_fill(seen, 0.0)),
                nonzero(f"derivative of output {row} by another query", d_query.masked_fill(~others, 0.0)),
            )
        missed = seen.squeeze(-1) & (d_value == 0).all(-1)
        if found is None and subject.dense() and bool(missed.any()):
            place = tuple(missed.nonzero()[0].tolist())
            found = f"output {row} does not depend on the value at (batch, head, key) {place}, which is allowed"
        if found is not None:
            return found
    return None


def _graphs(subject: Subject, quick: bool) -> Iterator[Case]:
    masks = [mask for mask in subject.masks if mask == "graph"]
    return cases(masks, quick, square=True, dtypes=(torch.float64, torch.float32))


def _no_graph(subject: Subject) -> str | None:
    refused = None if "graph" in subject.masks else "it honours no graph, and says so"
    return _takes_masks(subject) or refused


def _graph(subject: Subject, case: Case) -> str | None:
    query, key, value = case.tensors()
    edges = case.made_mask()
    assert isinstance(edges, Edges)
    output = subject.run(case, query, key, value)
    doubled = Edges(torch.cat((edges.edge_index.flip(1), edges.edge_index), 1), edges.nodes)
    found = first(
        nonzero("output of an isolated node", output[:, :, -1:]),
        unequal("output with each edge listed twice", subject.run(case, query, key, value, mask=doubled), output),
    )
    if found is not None or subject.facts.family != "definition":
        return found
    order = torch.arange(case.query_len).flip(0)
    # node order[i] becomes node i
    renamed = Edges(order.argsort()[edges.edge_index], edges.nodes)
    turned = subject.run(case, *(tensor[:, :, order] for tensor in (query, key, value)), mask=renamed)
    return apart("output of renamed nodes", turned, output[:, :, order], TOLERANCE[case.dtype])


def _asked(subject: Subject, quick: bool) -> Iterator[Case]:
    return cases(list(MASKS), quick, square=True, longest=_ROWS, dtypes=(torch.float32,), modes=(False,))


def _honest(subject: Subject, case: Case) -> str | None:
    """Promised masks run; others, if they forbid anything, raise Unsupported."""
    inputs = case.tensors()
    if case.mask in subject.masks:
        subject.run(case, *inputs)
        return _added(subject, case, inputs) if case.mask == subject.open_mask else None
    keep = case.keep()
    if case.mask != "none" and torch.equal(keep, keep[:, :, :1].expand_as(keep)):
        # the same keys for every query: no more than padding, whatever the mask is called
        return None
    try:
        subject.run(case, *inputs)
    except Unsupported as refusal:
        return None if str(refusal) else "it refuses the mask without saying why"
    if case.mask == "none":
        return None
    return f"it takes a mask that it does not promise to honour (facts.masks: {subject.facts.masks})"


def _added(subject: Subject, case: Case, inputs: list[Tensor]) -> str | None:
    # large enough to change which key is the best
    bias = drawn((1, case.heads, case.query_len, case.key_len), case.dtype, 3, 10.0)
    relative = Relative(low=-1, scalar=drawn((case.heads, 3), case.dtype, 4, 10.0))
    plain = subject.run(case, *inputs)
    for name, given, promised in (("bias", bias, subject.facts.bias), ("relative", relative, subject.facts.relative)):
        if not subject.takes(name):
            continue
        try:
            options: dict[str, Any] = {name: given}
            changed = subject.run(case, *inputs, **options)
        except Unsupported:
            if promised and subject.states_facts:
                return f"it refuses {name}, which its facts promise"
            continue
        if case.batch > 1 and torch.equal(changed, plain):
            return f"it takes {name} and ignores it"
    return None


INVARIANTS = (
    Invariant("A3", "a query without a key gives 0 with zero gradients", _takes_masks, _no_empty_rows, _empty_rows),
    Invariant("A4", "what is hidden never matters, NaN and infinity included", _takes_masks, _hiding, _content),
    Invariant("A5", "hidden keys behind the sequence change nothing", _takes_masks, _padded, _padding),
    Invariant("A12", "causal: no output depends on what comes later", _not_causal, _causal_cases, _no_future),
    Invariant("A13", "an output depends on the allowed keys and on no other", _takes_masks, _patterned, _support),
    Invariant("A14", "graph: isolated nodes, names and repeated edges", _no_graph, _graphs, _graph),
    Invariant("honest", "honours or refuses masks and biases as it says", _takes_masks, _asked, _honest),
)

"""Strips of any score and normalizer: the definition on a few rows at a time, whose graph is built again backwards."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from headwise.attention.call import Call
from headwise.attention.dropout import restored
from headwise.attention.kernels import plain
from headwise.attention.kernels._rows_relative import NAMES
from headwise.attention.kernels._strips import Strip, StripMask, heads_of, part, rows_of, strips
from headwise.attention.masks import Table
from headwise.errors import Unsupported

# every tensor of a call, by the name of its field; those of relative positions have a prefix
Tensors = dict[str, Tensor]
_PREFIX = "relative."


def attend_any(call: Call, pairs: int, least_rows: int) -> Tensor:
    """The output of any call; gradients reach the inputs, bias, relative positions and parameters of the score."""
    tensors, parameters = _tensors(call), list(call.score.parameters())
    if not call.learns:
        return _forward(call, tensors, pairs, least_rows)
    output: Tensor = _Strips.apply(call, pairs, least_rows, tuple(tensors), *tensors.values(), *parameters)
    return output


def _forward(call: Call, tensors: Tensors, pairs: int, least_rows: int) -> Tensor:
    output = call.value.new_zeros(*call.shape[:3], call.value.shape[-1])
    mask = StripMask(call, torch.float32)
    for strip in strips(call, pairs, least_rows):
        if strip.pairs:
            rows_of(output, strip).copy_(plain.compute(_cut(call, mask, strip, _at(tensors, strip))))
    return output


class _Strips(torch.autograd.Function):
    @staticmethod
    def forward(ctx, call, pairs, least_rows, names, *inputs):
        ctx.random_state = torch.get_rng_state() if call.dropout else None
        ctx.save_for_backward(*inputs)
        ctx.call, ctx.names, ctx.options = call, names, (pairs, least_rows)
        return _forward(call, dict(zip(names, inputs, strict=False)), pairs, least_rows)

    @staticmethod
    def backward(ctx, gradient):
        if torch.is_grad_enabled():
            # it would be taken as if the inputs did not depend on anything
            raise Unsupported("kernel 'rows' has no second derivative; use kernel='plain'")
        tensors = dict(zip(ctx.names, ctx.saved_tensors, strict=False))
        needed = ctx.needs_input_grad[4:]
        learned = [name for name, wanted in zip(ctx.names, needed, strict=False) if wanted]
        with restored(ctx.random_state):
            gradients = _backward(ctx.call, tensors, learned, gradient, ctx.options)
        return None, None, None, None, *(next(gradients) if wanted else None for wanted in needed)


def _backward(
    call: Call, tensors: Tensors, learned: list[str], gradient: Tensor, options: tuple[int, int]
) -> Iterator[Tensor]:
    """The gradients of the tensors named in `learned`, then those of the parameters of the score that learn."""
    parameters = [parameter for parameter in call.score.parameters() if parameter.requires_grad]
    totals = {name: torch.zeros_like(tensors[name], dtype=_wide(tensors[name])) for name in learned}
    of_score = [torch.zeros_like(parameter) for parameter in parameters]
    mask = StripMask(call, torch.float32)
    for strip in strips(call, *options):
        if not strip.pairs:
            continue
        leaves = {name: tensor.detach().to(_wide(tensor)) for name, tensor in _at(tensors, strip).items()}
        with torch.enable_grad():
            wanted = [leaves[name].requires_grad_() for name in learned]
            output = plain.compute(_cut(call, mask, strip, leaves))
        rows = rows_of(gradient, strip).to(output.dtype)
        found = torch.autograd.grad(output, [*wanted, *parameters], rows, allow_unused=True, materialize_grads=True)
        for total, more in zip([*_at(totals, strip).values(), *of_score], found, strict=True):
            total.add_(more)
    return iter([*(total.to(tensors[name].dtype) for name, total in totals.items()), *of_score])


def _cut(call: Call, mask: StripMask, strip: Strip, tensors: Tensors) -> Call:
    """The strip as a call of its own, whose first row and key count as 0."""
    own: dict[str, Any] = {name: tensor for name, tensor in tensors.items() if not name.startswith(_PREFIX)}
    relative = call.relative
    if relative is not None:
        parts: dict[str, Any] = {name: tensors[_PREFIX + name] for name in NAMES if _PREFIX + name in tensors}
        if relative.distances is None:
            parts["low"] = relative.low + call.query_start + strip.rows.start - strip.keys.start
        else:
            parts["distances"] = relative.distances[strip.rows, strip.keys]
        relative = replace(relative, **parts)
    table = None if call.mask is None else Table(mask.hidden(strip) == 0)
    return replace(call, mask=table, relative=relative, query_start=0, **own)


def _tensors(call: Call) -> Tensors:
    """The tensors of a call by name."""
    own = {name: getattr(call, name) for name in ("query", "key", "value", "bias")}
    if call.relative is not None:
        own |= {_PREFIX + name: getattr(call.relative, name) for name in NAMES}
    return {name: tensor for name, tensor in own.items() if tensor is not None}


def _at(tensors: Tensors, strip: Strip) -> Tensors:
    """The part of each tensor that a strip needs."""
    cuts = {
        "query": rows_of,
        "key": lambda tensor, strip: tensor[strip.batches, strip.groups, strip.keys],
        "value": lambda tensor, strip: tensor[strip.batches, strip.groups, strip.keys],
        "bias": part,
        "relative.query": rows_of,
        "relative.key": lambda tensor, strip: tensor[strip.batches, strip.heads, strip.keys],
    }
    return {name: cuts.get(name, heads_of)(tensor, strip) for name, tensor in tensors.items()}


def _wide(tensor: Tensor) -> torch.dtype:
    return torch.promote_types(tensor.dtype, torch.float32)

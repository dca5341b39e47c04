"""What stands under a mask never leaks, NaN and infinity included, and finite inputs never give NaN.

A weight of 0 times NaN is NaN, so no kernel hides non-finite content by weights alone; and a product of large finite
numbers may overflow inside one. Both are rare. So a kernel runs first and a sum over what it read and wrote tells
whether to look closer. Only then it runs again over zeros in place of what is not finite, which gives the same bits as
any other hidden content; and rows that still overflowed are computed by the definition in float64. Looking closer takes
memory that is linear in the lengths, and in the edges of a graph.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headwise.attention.call import Call
from headwise.attention.kernels import edges, plain
from headwise.attention.kernels._edges_graph import graphs
from headwise.attention.kernels._strips import StripMask, strips

Compute = Callable[[Call], Tensor]

# pairs (query, key) of one head up to which a mask is looked at as one table, and of all heads that a strip holds
_TABLE = 1 << 24


def guarded(call: Call, compute: Compute) -> Tensor:
    """The output of `compute`, right also when the tensors hold NaN or infinity.

    A query that is not finite, or that may see a key or value that is not, gets NaN.
    """
    if call.finite:
        return compute(call)
    if call.query.device.type != "cpu" or torch.compiler.is_compiling():
        # looking at values would wait for the device; hiding them always costs two passes instead
        return compute(call) if call.mask is None else _hidden(call, compute)
    random_state = torch.get_rng_state() if call.dropout else None
    output = compute(call)
    if _finite(call, output):
        return output

    def repeated(clean: Call) -> Tensor:
        if random_state is not None:
            torch.set_rng_state(random_state)
        return compute(clean)

    return _hidden(call, lambda clean: _exact(clean, repeated))


# queries and keys whose sums multiply to this may overflow in a score; ordinary ones stay below 1e15
_LARGE = 1e36


def _finite(call: Call, output: Tensor) -> bool:
    # looking at queries and keys too finds what an output can hide: an infinity that spoils only the gradient, a
    # partial sum that overflowed to a weight of 0, and a row of NaN, which SDPA takes for one without a key
    tensors = (output.detach(), call.query.detach(), call.key.detach())
    total, query, key = (tensor.sum(dtype=torch.float32).item() for tensor in tensors)
    return math.isfinite(total) and abs(query * key) < _LARGE


def _exact(call: Call, compute: Compute) -> Tensor:
    """Rows in which numbers may overflow, or a bias is not finite, come from float64; no bit of the others changes."""
    output = compute(call)
    spoiled = ~output.isfinite().all(-1, keepdim=True) | _overflowing(call)
    if not bool(spoiled.any()):
        return output
    bias = None if call.bias is None else call.bias.masked_fill(spoiled, 0.0)
    others = compute(replace(call, query=call.query.masked_fill(spoiled, 0.0), bias=bias))
    return torch.where(spoiled, _in_float64(call, spoiled).to(output.dtype), others)


def _in_float64(call: Call, rows: Bool[Tensor, "#batch #heads #query_len 1"]) -> Float[Tensor, "b h q d"]:
    """The definition in float64 for these rows, in blocks of queries; other rows may hold anything."""
    wide = call.replaced(call.query.double(), call.key.double(), call.value.double())
    if graphs(call) is not None and edges.refusal(wide) is None:
        return edges.compute(wide)
    batch, heads, query_len, key_len = call.shape
    step = max(1, _TABLE // max(1, batch * heads * key_len))
    if step >= query_len:
        return plain.compute(wide)
    wanted = rows.expand(batch, heads, query_len, 1).any(1).any(0).flatten()
    blocks = []
    for first in range(0, query_len, step):
        last = min(first + step, query_len)
        if bool(wanted[first:last].any()):
            blocks.append(plain.compute(_block(wide, first, last)))
        else:
            blocks.append(wide.value.new_zeros(batch, heads, last - first, call.value.shape[-1]))
    return torch.cat(blocks, dim=2)


def _block(call: Call, first: int, last: int) -> Call:
    """The same attention of the queries first .. last - 1."""
    bias = call.bias if call.bias is None or call.bias.shape[2] == 1 else call.bias[:, :, first:last]
    heads = list(range(call.query.shape[1]))
    relative = None if call.relative is None else call.relative.part(heads, first, last)
    start = call.query_start + first
    return replace(call, query=call.query[:, :, first:last], bias=bias, relative=relative, query_start=start)


def _overflowing(call: Call) -> Tensor:
    """Rows of which a score, or a partial sum of one, may be too large: none is beyond the product of two norms."""
    keys = _norm(call.key).repeat_interleave(call.group, dim=1)
    return ~(_norm(call.query) * largest_seen(call, keys)).isfinite().unsqueeze(-1)


def _norm(tensor: Tensor) -> Tensor:
    return torch.linalg.vector_norm(tensor, dim=-1, dtype=torch.promote_types(tensor.dtype, torch.float32))


def _hidden(call: Call, compute: Compute) -> Tensor:
    """Computes over zeros in place of non-finite vectors, then gives NaN to the rows that are allowed to see one."""
    key_ok, value_ok = call.key.isfinite().all(-1), call.value.isfinite().all(-1)
    query_ok = call.query.isfinite().all(-1)
    clean = call.replaced(
        call.query.masked_fill(~query_ok.unsqueeze(-1), 0.0),
        call.key.masked_fill(~key_ok.unsqueeze(-1), 0.0),
        call.value.masked_fill(~value_ok.unsqueeze(-1), 0.0),
    )
    # 2: a key that poisons who sees it, 1: any other, 0: what a row without a key sees
    kind = torch.where(key_ok & value_ok, 1.0, 2.0).repeat_interleave(call.group, dim=1)
    seen = largest_seen(call, kind)
    poisoned = (seen == 2) | (~query_ok & (seen > 0))
    return compute(clean).masked_fill(poisoned.unsqueeze(-1), float("nan"))


def largest_seen(call: Call, numbers: Float[Tensor, "batch heads key_len"]) -> Float[Tensor, "batch heads query_len"]:
    """For each query the largest of these numbers, none negative, over the keys that the mask allows; 0 if none."""
    batch, heads, query_len, key_len = call.shape
    if 0 in call.shape:
        return numbers.new_zeros(batch, heads, query_len)
    if call.mask is None:
        return numbers.amax(-1, keepdim=True).expand(-1, -1, query_len)
    found = graphs(call)
    if found is not None:
        return found.largest(numbers)
    if query_len * key_len <= _TABLE:
        prepared = call.prepared()
        assert prepared is not None
        return torch.where(prepared.keep, numbers.unsqueeze(2), 0.0).amax(-1).expand(-1, -1, query_len)
    largest = numbers.new_zeros(batch, heads, query_len)
    mask = StripMask(call, numbers.dtype)
    for strip in strips(call, _TABLE, 1):
        if strip.pairs:
            part = numbers[strip.batches, strip.heads, None, strip.keys]
            seen = torch.where(mask.hidden(strip) == 0, part, 0.0).amax(-1)
            largest[strip.batches, strip.heads, strip.rows] = seen
    return largest

"""What stands under a mask never leaks, NaN and infinity included, and finite inputs never give NaN.

A weight of 0 times NaN is NaN, so no kernel hides non-finite content by weights alone; and a product of large finite
numbers may overflow inside one. Both are rare. So a kernel runs first and a sum over what it read and wrote tells
whether to look closer. Only then it runs again over zeros in place of what is not finite, which gives the same bits as
any other hidden content; and rows that still overflowed are computed by the definition in float64.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from headwise.attention.call import Call
from headwise.attention.kernels import plain

Compute = Callable[[Call], Tensor]


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
    wide = plain.compute(call.replaced(call.query.double(), call.key.double(), call.value.double()))
    return torch.where(spoiled, wide.to(output.dtype), others)


def _overflowing(call: Call) -> Tensor:
    """Rows of which a score, or a partial sum of one, may be too large: none is beyond the product of two norms."""
    if call.key.shape[2] == 0:
        return torch.zeros(1, 1, 1, 1, dtype=torch.bool)
    keys = _norm(call.key).repeat_interleave(call.group, dim=1).unsqueeze(2)
    prepared = call.prepared()
    seen = keys if prepared is None else torch.where(prepared.keep, keys, 0.0)
    return ~(_norm(call.query).unsqueeze(-1) * seen.amax(-1, keepdim=True)).isfinite()


def _norm(tensor: Tensor) -> Tensor:
    return torch.linalg.vector_norm(tensor, dim=-1, dtype=torch.promote_types(tensor.dtype, torch.float32))


def _hidden(call: Call, compute: Compute) -> Tensor:
    """Computes over zeros in place of non-finite vectors, then gives NaN to the rows that are allowed to see one."""
    key_ok, value_ok = call.key.isfinite().all(-1), call.value.isfinite().all(-1)
    query_ok = call.query.isfinite().all(-1, keepdim=True)
    clean = call.replaced(
        call.query.masked_fill(~query_ok, 0.0),
        call.key.masked_fill(~key_ok.unsqueeze(-1), 0.0),
        call.value.masked_fill(~value_ok.unsqueeze(-1), 0.0),
    )
    # (batch, heads, 1, key_len): keys that poison who sees them
    bad = ~(key_ok & value_ok).repeat_interleave(call.group, dim=1).unsqueeze(2)
    prepared = call.prepared()
    if prepared is None:
        poisoned = bad.any(-1, keepdim=True) | (~query_ok & (call.key.shape[2] > 0))
    else:
        poisoned = (bad & prepared.keep).any(-1, keepdim=True) | (~query_ok & prepared.keep.any(-1, keepdim=True))
    return compute(clean).masked_fill(poisoned, float("nan"))

"""Chooses the kernel for a call: the one with the least estimated cost among those that compute it exactly."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from headwise.attention import costs as prices
from headwise.attention import kernels
from headwise.attention.call import Call
from headwise.attention.guard import guarded
from headwise.attention.scores import Score
from headwise.errors import ConfigError, Unsupported, unknown

Compute = Callable[[Call], Tensor]


@dataclass(frozen=True)
class Plan:
    """How a call will be computed, and why each other kernel will not.

    `flops` counts multiplications and additions of the forward pass, `bytes` what is read and written at least once,
    `materialises` names the largest tensor kept in memory.
    """

    kernel: str
    reason: str
    refusals: dict[str, str]
    flops: int
    bytes: int
    materialises: str

    def __str__(self) -> str:
        lines = [f"kernel   {self.kernel}: {self.reason}"]
        lines += [f"not      {name}: {why}" for name, why in self.refusals.items()]
        lines.append(f"work     {self.flops:,} floating-point operations, {self.bytes:,} bytes moved")
        lines.append(f"keeps    {self.materialises}")
        return "\n".join(lines)


_chosen: dict[tuple[object, ...], Compute] = {}


def run(call: Call, kernel: str = "auto") -> Tensor:
    """Computes the call with the named kernel, or with the planned one.

    Inputs keep the type that autocast gave them; inside, each kernel chooses its own.
    """
    if torch.is_autocast_enabled(call.query.device.type):
        with torch.autocast(call.query.device.type, enabled=False):
            return run(call, kernel)
    if kernel != "auto":
        return guarded(call, _named(call, kernel))
    # a choice is made once per kind and shape of call
    seen = signature(call)
    compute = _chosen.get(seen)
    if compute is None:
        if len(_chosen) > 4096:
            _chosen.clear()
        compute = _chosen[seen] = kernels.kernel(plan(call).kernel).compute
    return guarded(call, compute)


def plan(call: Call, kernel: str = "auto") -> Plan:
    """The plan for a call. Raises: Unsupported if the named kernel cannot compute it."""
    refusals: dict[str, str] = {}
    costs: dict[str, float] = {}
    for name in kernels.names():
        module = kernels.kernel(name)
        why = module.refusal(call)
        if why is None:
            costs[name] = prices.seconds(name, call)
        else:
            refusals[name] = why
    if kernel != "auto":
        _named(call, kernel)
    best = kernel if kernel != "auto" else _best(call, costs)
    slower = {
        name: f"exact, but estimated {cost / costs[best]:.1f} times as slow ({_milliseconds(cost)})"
        for name, cost in costs.items()
        if name != best
    }
    fastest = costs[best] == min(costs.values())
    found = "the fastest that is exact" if fastest else "nearly the fastest, and keeps no table of scores"
    asked = "asked for" if kernel != "auto" else found
    return Plan(
        kernel=best,
        reason=f"{asked}, estimated {_milliseconds(costs[best])} {'with gradients' if call.learns else 'forward'}",
        refusals={**slower, **refusals},
        flops=_flops(call),
        bytes=_bytes(call, best),
        materialises=_materialises(call, best),
    )


# pairs whose table is worth sparing, and how much slower a kernel may be estimated that spares it
_LARGE_TABLE, _SPARING = 2**23, 1.25


def _best(call: Call, costs: dict[str, float]) -> str:
    """The cheapest kernel, or one that is nearly as cheap and keeps no large table."""
    fastest = min(costs, key=lambda name: costs[name])
    if math.prod(call.shape) < _LARGE_TABLE:
        return fastest
    near = {name: cost for name, cost in costs.items() if cost <= _SPARING * costs[fastest]}
    sparing = [name for name in near if _spares(name, call)]
    return min(sparing or near, key=lambda name: costs[name])


def _spares(name: str, call: Call) -> bool:
    module = kernels.kernel(name)
    return hasattr(module, "spares") and bool(module.spares(call))


def _named(call: Call, kernel: str) -> Compute:
    if kernel not in kernels.names():
        raise ConfigError(unknown("kernel", kernel, kernels.names()))
    module = kernels.kernel(kernel)
    why = module.refusal(call)
    if why is not None:
        raise Unsupported(f"kernel '{kernel}' cannot compute this attention exactly: {why}")
    compute: Compute = module.compute
    return compute


def signature(call: Call) -> tuple[object, ...]:
    """What a choice depends on: calls of one signature are computed by one kernel."""
    query = call.query
    return (
        query.shape,
        call.key.shape,
        call.value.shape[-1],
        query.dtype,
        query.device.type,
        type(call.score),
        call.normalizer,
        None if call.mask is None else call.mask.structure(),
        call.bias is None,
        call.bias_learns,
        None if call.relative is None else (call.relative.has_bias(), call.relative.value_table is None),
        call.dropout > 0.0,
        call.learns,
        # products take another path, which favours other kernels
        torch.get_float32_matmul_precision(),
        torch.compiler.is_compiling(),
    )


def _flops(call: Call) -> int:
    batch, heads, query_len, key_len = call.shape
    return 2 * batch * heads * query_len * key_len * (call.score.pair_width(call.query) + call.value.shape[-1])


def _bytes(call: Call, kernel: str) -> int:
    batch, heads, query_len, key_len = call.shape
    moved = (
        call.query.numel() + call.key.numel() + call.value.numel() + batch * heads * query_len * call.value.shape[-1]
    )
    pairs = 0 if hasattr(kernels.kernel(kernel), "keeps") else 2 * batch * heads * query_len * key_len * 4
    return moved * call.query.element_size() + pairs


def _materialises(call: Call, kernel: str) -> str:
    batch, heads, query_len, key_len = call.shape
    module = kernels.kernel(kernel)
    if hasattr(module, "keeps"):
        keeps: str = module.keeps(call)
        return keeps
    size = batch * heads * query_len * key_len * 4
    if type(call.score).as_dot is Score.as_dot:
        width = call.score.pair_width(call.query)
        return f"features ({batch}, {heads}, {query_len}, {key_len}, {width}), {size * width:,} bytes"
    return f"scores ({batch}, {heads}, {query_len}, {key_len}), {size:,} bytes"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"

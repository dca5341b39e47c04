"""Chooses the kernel for a call: the first row of one table whose condition holds and whose kernel computes it exactly.

Conditions read shapes, types, the device, the structure of the mask and how the device multiplies; nothing is measured.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from headwise.attention.call import Call
from headwise.attention.kernels import KERNELS, edges, fused, groups
from headwise.attention.masks import Shared
from headwise.attention.precision import uncast
from headwise.errors import ConfigError, Unsupported, unknown

# typed as a module, which says nothing of its settings
_mkldnn: Any = torch.backends.mkldnn


class Rule(NamedTuple):
    """A row of the table: this kernel, where this holds, for this reason."""

    kernel: str
    condition: Callable[[Call], bool]
    reason: str


def _always(call: Call) -> bool:
    return True


def _is_banded(call: Call) -> bool:
    """A band that spares two thirds of the pairs. On a GPU SDPA computes all pairs of 4,096 keys sooner."""
    if call.query.device.type != "cpu" and call.shape[3] < 8192 and fused.refusal(call) is None:
        return False
    left, right = call.structure.within
    return left is not None and right is not None and 3 * (left + right + 64) <= call.shape[3]


def _is_sparse(call: Call) -> bool:
    """A graph with an edge for one pair in sixteen at most."""
    pairs = call.structure.pairs
    return pairs is not None and 16 * pairs.query.shape[0] <= call.shape[2] * call.shape[3]


def _is_grouped(call: Call) -> bool:
    """Groups that spare two thirds of the pairs, the room that smaller ones leave included."""
    return groups.refusal(call) is None and groups.sorts(call) and 3 * groups.num_pairs(call) <= math.prod(call.shape)


def _has_blocks(call: Call) -> bool:
    """A mask that is not causal, over so many blocks of 128 x 128 that skipping some repays finding which.

    That takes as long as attention to 16,384 keys; calls of one shared mask do it once.
    """
    fewest = 4096 if isinstance(call.mask, Shared) else 16384
    return not (call.structure.open or call.structure.causal) and min(call.shape[2:]) >= fewest


def _is_tiled_well(call: Call) -> bool:
    """Whether SDPA keeps no table, and its tiles are not slower than the table of `plain`, as they can be on a CPU."""
    if fused.keeps_scores(call) or fused.biases(call) >= _LONG:
        return False
    return call.query.device.type != "cpu" or call.shape[2] * call.shape[3] > _most_pairs_untiled(call)


def _most_pairs_untiled(call: Call) -> float:
    """Pairs of a head up to which `plain` is faster than SDPA on a CPU; `python -m benchmarks.planner` checks them.

    oneDNN prepares each product of a tile anew, some 20 us of it. For one query in half precision SDPA is up to 4 times
    slower on AMD, and up to 3.5 times faster on Intel. Without AVX-512, SDPA's gradient in half precision is 3 to 7
    times slower than the definition, which computes in float32.
    """
    vectors, through_onednn, intel = _products()
    # enough numbers to repay the dozen operators of the definition
    many = math.prod(call.shape) >= 2 * _SHORT
    if call.query.element_size() == 2:
        if call.shape[2] == 1:
            return 0.0 if intel else math.inf
        if vectors == "AVX2" and call.learns:
            return math.inf
        if through_onednn and (many or call.learns):
            return _MIDDLE
        return _SHORT if call.learns else 0.0
    # PyTorch hands products of more than 16 x 16 x 16 numbers to oneDNN, where it may
    large = call.shape[2] * call.shape[3] * call.query.shape[-1] > 16**3
    if through_onednn and call.query.dtype == torch.float32 and large:
        return _MIDDLE
    return _FEW if many and call.learns else 0.0


def _products() -> tuple[str, bool, bool]:
    """How a CPU multiplies matrices: its vector instructions, whether oneDNN takes float32's, whether it is Intel's."""
    through_onednn = _mkldnn.matmul.fp32_precision not in ("none", "ieee")
    intel = str(torch.cpu.get_capabilities().get("cpu_name", "")).startswith("Intel")
    return torch.backends.cpu.get_cpu_capability(), through_onednn, intel


# what `torch.compiler.assume_constant_result` does, and that imports the compiler, which takes as long as PyTorch
_products._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _is_long(call: Call) -> bool:
    """A table of scores that is better not kept: 64 MiB or more; without a gradient, which computes it twice, half.

    A score that is made in several steps makes several tables, which strips have in the cache: then a quarter.
    """
    limit = _LONG if call.learns else _LONG // (2 if call.score.is_dot() else 4)
    return math.prod(call.shape) * call.score.kept_width(call.query) >= limit


_FEW, _SHORT, _MIDDLE, _LONG = 32.0 * 32, 128.0 * 128, 512.0 * 512, 1 << 24


TABLE: tuple[Rule, ...] = (
    Rule("edges", _is_sparse, "the mask is a graph with few edges: only they are computed"),
    Rule("groups", _is_grouped, "positions are in groups that see only themselves: each group is a sequence"),
    Rule("flex", _has_blocks, "one compiled program skips blocks of pairs that the mask forbids"),
    Rule("banded", _is_banded, "the mask lies within a narrow band: only the band is computed"),
    Rule("fused", _is_tiled_well, "softmax of a dot product in tiles: no table of scores is kept"),
    Rule("strips", _is_long, "no table of all pairs is kept: strips of query rows are computed again for the gradient"),
    Rule("plain", _always, "the definition, for a table of scores that is small enough to keep"),
)
# lengths of an exported program may vary: no choice by size, no loop over them
EXPORTED: tuple[Rule, ...] = (
    Rule("fused", lambda call: not fused.keeps_scores(call), "softmax of a dot product, of any length"),
    Rule("plain", _always, "the definition, of any length"),
)


@dataclass(frozen=True)
class Plan:
    """How a call will be computed, and why each other kernel will not.

    `flops` counts multiplications and additions of the forward pass that are really done, under the mask as the kernel
    honours it; `bytes` what is in memory at the height of the forward pass, inputs and output included, within a factor
    of 2 from a mebibyte on, without what a mask needs to make its table; `keeps` says what that is besides.
    """

    kernel: str
    reason: str
    refusals: dict[str, str]
    flops: int
    bytes: int
    keeps: str

    def __str__(self) -> str:
        lines = [f"kernel   {self.kernel}: {self.reason}"]
        lines += [f"not      {name}: {why}" for name, why in self.refusals.items()]
        lines.append(f"work     {self.flops:,} floating-point operations, {self.bytes:,} bytes in memory")
        lines.append(f"keeps    {self.keeps}")
        return "\n".join(lines)


def run(call: Call, kernel: str = "auto") -> Tensor:
    """Computes the call with the named kernel, or with the planned one, which no NaN reaches that the mask hides.

    Inputs keep the type that autocast gave them; inside, each kernel chooses its own.
    """
    chosen = _choose(call)[0].kernel if kernel == "auto" else _check_kernel(call, kernel)
    with uncast(call.query):
        unread = chosen == "edges" and edges.reads_listed_alone(call)
        output: Tensor = KERNELS[chosen].compute(call if unread else call.zero_unseen())
    return output


def plan(call: Call, kernel: str = "auto") -> Plan:
    """The plan for a call. Raises: Unsupported if the named kernel cannot compute it."""
    rule, passed = _choose(call)
    name, reason = rule.kernel, rule.reason
    if kernel != "auto":
        name, reason = _check_kernel(call, kernel), "asked for"
    others = [other for other in KERNELS if other != name]
    first = f"{name} comes first" if kernel == "auto" else f"{name} is asked for"
    refusals = {other: KERNELS[other].refusal(call) or passed.get(other, first) for other in others}
    module = KERNELS[name]
    pairs, width = module.num_pairs(call), call.score.pair_width(call.query)
    batch, heads, query_len, _ = call.shape
    numbers = call.query.numel() + call.key.numel() + call.value.numel()
    numbers += batch * heads * query_len * call.value.shape[-1]
    return Plan(
        kernel=name,
        reason=reason,
        refusals=refusals,
        flops=2 * pairs * (width + call.value.shape[-1]),
        bytes=numbers * call.query.element_size() + module.peak_bytes(call),
        keeps=module.memory_summary(call),
    )


def _choose(call: Call) -> tuple[Rule, dict[str, str]]:
    """The rule that a call meets first, and why exact kernels before it were passed over."""
    passed: dict[str, str] = {}
    for rule in EXPORTED if torch.compiler.is_exporting() else TABLE:
        if not rule.condition(call):
            passed[rule.kernel] = f"exact, but only for calls of another kind: {rule.reason}"
        elif KERNELS[rule.kernel].refusal(call) is None:
            return rule, passed
    raise AssertionError("the definition computes every call")


def _check_kernel(call: Call, kernel: str) -> str:
    if not isinstance(kernel, str) or kernel not in KERNELS:
        raise ConfigError(unknown("kernel", str(kernel), KERNELS))
    why = KERNELS[kernel].refusal(call)
    serving = [rule.kernel for rule in EXPORTED]
    if torch.compiler.is_exporting() and kernel not in serving:
        why = f"the program is exported, and its lengths may vary; {' and '.join(serving)} serve any"
    if why is not None:
        raise Unsupported(f"kernel '{kernel}' cannot compute this attention exactly: {why}")
    return kernel

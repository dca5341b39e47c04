"""The chunked kernels of flash-linear-attention (fla) on a GPU in place of `_scan.scan`, and which of the two computes.

fla rounds what it multiplies to the type of the call, and float32 to TF32, where `scan` computes in float32. Decays and
shares stay float32. There is no second derivative. Yang and Zhang 2024, github.com/fla-org/flash-linear-attention.
"""

import warnings
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from headwise.attention.call import per_head
from headwise.attention.mechanisms._scan import CHUNK, Output, Sums, Terms
from headwise.errors import ConfigError, Unsupported, unknown

# fla's 16-bit kernels read odd widths beside their rows
_STEP = 16
# of a key
_WIDEST = 256
# what is left behind a stronger decay is nothing, and float32 sums of a chunk keep the digits of weak ones beside it
_GONE = -50.0

# (terms, S before them) -> (outputs, S behind them)
Run = Callable[[Terms, Sums | None], tuple[Output, Sums]]


class Operator(NamedTuple):
    """A function of fla, and what it takes beside q, k and v.

    Args:
        module, name: where it lies in fla.ops.
        float32: whether it takes float32.
        fewest: tokens from which it is faster than chunks, of those that `python -m benchmarks.recurrences --device
            cuda` measured on one H100: 64, 256, 1,024, 4,096.
        fades_by_head: whether its gradient is that of one decay for each head.
    """

    module: str
    name: str
    fewest: int
    float32: bool = True
    fades_by_head: bool = False


_DPLR = Operator("generalized_delta_rule.dplr", "chunk_dplr_delta_rule", 256, float32=False)
# by what fades (nothing, a head, each feature) and what is erased (nothing, under the key, along another vector)
TABLE: dict[tuple[str, str], Operator] = {
    ("nothing", "nothing"): Operator("simple_gla", "chunk_simple_gla", 4096),
    ("head", "nothing"): Operator("simple_gla", "chunk_simple_gla", 256, fades_by_head=True),
    ("features", "nothing"): Operator("gla", "chunk_gla", 64),
    ("nothing", "key"): Operator("delta_rule", "chunk_delta_rule", 1024, float32=False),
    ("head", "key"): Operator("gated_delta_rule", "chunk_gated_delta_rule", 256, fades_by_head=True),
    ("features", "key"): Operator("kda", "chunk_kda", 64),
    ("nothing", "vector"): _DPLR,
    ("head", "vector"): _DPLR,
    ("features", "vector"): _DPLR,
}
# inputs that are rounded to the type of the call
_ROUNDED = {"q", "k", "v", "a", "b"}


def transition(terms: Terms) -> tuple[str, str]:
    """What fades and what is erased, as `TABLE` names it."""
    decay, features = terms.log_decay, terms.query.shape[-1]
    fades = "nothing" if decay is None else "features" if decay.shape[-1] == features else "head"
    return fades, "nothing" if terms.read is None else "key" if terms.erase is None else "vector"


def _inputs(terms: Terms, floor: float) -> dict[str, Any]:
    """What a function takes beside q, k and v, of padded terms: gates and vectors, (batch, heads, length, ...)."""
    decay = None if terms.log_decay is None else terms.log_decay.clamp(min=_GONE)
    if terms.read is not None and terms.erase is not None:
        # S_i = diag(a) S_(i-1) + b_i (a_i^T S_(i-1)) + k_i v_i^T there, where ours reads the decayed state
        decay = torch.zeros_like(terms.key) if decay is None else decay.expand_as(terms.key)
        bound = {"lower_bound": floor} if float("-inf") < floor < 0 else {}
        return {"a": -terms.read * decay.exp(), "b": terms.erase, "gk": decay} | bound
    gates = {} if decay is None else {"g": decay.squeeze(-1) if transition(terms)[0] == "head" else decay}
    if terms.read is None:
        return gates
    # the read vectors as keys, and b of a key that is b r; 0 where r is
    share = (terms.key * terms.read).sum(-1) / (terms.read * terms.read).sum(-1).clamp(min=1e-30)
    return {"k": terms.read, "beta": share} | gates


class Choice(NamedTuple):
    """The kernel that computes a recurrence, and why the other does not.

    >>> print(Choice("chunks", "products in chunks of 64 tokens", {"fla": "the tensors are on cpu"}))
    kernel   chunks: products in chunks of 64 tokens
    not      fla: the tensors are on cpu
    """

    kernel: str
    reason: str
    refusals: dict[str, str]

    def __str__(self) -> str:
        return "\n".join(
            [f"kernel   {self.kernel}: {self.reason}", *(f"not      {k}: {why}" for k, why in self.refusals.items())]
        )


REASONS = {"chunks": f"products of matrices in chunks of {CHUNK} tokens", "fla": "fla's chunked kernel, {}"}


def choose(kernel: str, terms: Terms, length: int, dtype: torch.dtype, why: str | None) -> Choice:
    """The kernel for a call of this length and type.

    Args:
        kernel: "auto", or the one to insist on.
        terms: of any length.
        why: fla computes no call of the mechanism; None: it may.
    Raises:
        ConfigError: an unknown kernel.
        Unsupported: fla is insisted on and cannot compute this.
    """
    if kernel not in ("auto", *REASONS):
        raise ConfigError(unknown("kernel", str(kernel), ("auto", *REASONS)))
    why, operator = why or refusal(terms, dtype), TABLE[transition(terms)]
    if kernel == "fla" and why is not None:
        raise Unsupported(f"kernel 'fla' cannot compute this recurrence: {why}")
    if kernel == "auto" and why is None and length < operator.fewest:
        why = f"exact, but faster only from {operator.fewest:,} tokens on"
    chosen = kernel if kernel != "auto" else "fla" if why is None else "chunks"
    other = "chunks" if chosen == "fla" else "fla"
    first = f"{chosen} comes first" if kernel == "auto" else f"{chosen} is asked for"
    return Choice(chosen, REASONS[chosen].format(operator.name), {other: why or first})


def refusal(terms: Terms, dtype: torch.dtype) -> str | None:
    """What of a call of this type fla cannot compute here, or None."""
    if torch.compiler.is_compiling():
        return "the program is traced, which fla's kernels are not"
    if terms.query.device.type != "cuda":
        return f"the tensors are on {terms.query.device.type}, and fla's kernels are for a GPU"
    return _missing() or unfit(terms, dtype) or _miscompiled(terms)


def unfit(terms: Terms, dtype: torch.dtype) -> str | None:
    """The same wherever the tensors are and whatever is installed."""
    operator, features = TABLE[transition(terms)], terms.query.shape[-1]
    # sums of a long sequence overflow in float16
    if dtype not in (torch.bfloat16, torch.float32) or (dtype == torch.float32 and not operator.float32):
        return f"it is in {str(dtype).removeprefix('torch.')}, which {operator.name} does not take"
    if dtype == torch.float32 and torch.backends.cuda.matmul.fp32_precision in ("none", "ieee"):
        return (
            "it is in float32, which fla rounds to TF32 in products; allow it by"
            ' torch.backends.cuda.matmul.fp32_precision = "tf32"'
        )
    if features > _WIDEST:
        return f"its keys have {features} features, and fla takes {_WIDEST} at most"
    if 0 in (*terms.query.shape[:2], features, terms.value.shape[-1]):
        return "an axis is empty"
    return None


@cache
def _missing() -> str | None:
    missing = [name for name in ("fla", "triton") if find_spec(name) is None]
    return f"{' and '.join(missing)} cannot be imported: pip install 'headwise[fla]'" if missing else None


def _miscompiled(terms: Terms) -> str | None:
    """fla refuses the gradient of a decay for each head where Triton computes it wrongly."""
    learns = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in terms)
    if not learns or not TABLE[transition(terms)].fades_by_head:
        return None
    release = tuple(int(number) for number in import_module("triton").__version__.split("+")[0].split(".")[:3])
    if torch.cuda.get_device_capability(terms.query.device)[0] == 9 and (3, 4) <= release < (3, 7, 1):
        return "Triton 3.4 to 3.7.0 compiles this gradient wrongly for a Hopper GPU: update Triton"
    return None


def scan(terms: Terms, sums: Sums | None, floor: float, dtype: torch.dtype) -> tuple[Output, Sums]:
    """What `_scan.scan` computes, by the function of fla for this transition, rounded to this type."""
    operator = TABLE[transition(terms)]
    return scan_with(_function(operator.module, operator.name), terms, sums, floor, dtype)


def scan_with(
    function: Callable[..., Any], terms: Terms, sums: Sums | None, floor: float, dtype: torch.dtype
) -> tuple[Output, Sums]:
    """The recurrence as fla takes it: `function` is the one that `TABLE` names, or one of the same definition."""
    (heads, _, features), wide = terms.query.shape[1:], terms.value.shape[-1]
    padded = _padded(terms)
    inputs = {"q": padded.query, "k": padded.key, "v": padded.value}
    inputs |= _inputs(padded, floor)
    for name, x in inputs.items():
        if isinstance(x, Tensor):
            # (batch, length, heads, ...) there
            inputs[name] = x.transpose(1, 2).to(dtype if name in _ROUNDED else torch.float32)
    state = None if sums is None else per_head(F.pad(sums, (0, -wide % _STEP, 0, -features % _STEP)), heads)
    output, last = function(**inputs, scale=1.0, initial_state=state, output_final_state=True)
    if output.requires_grad:
        output.register_hook(_refuse_second_derivative)
    # the states of heads that share a key are equal
    last = last[:, :: heads // terms.key.shape[1], :features, :wide]
    return output.transpose(1, 2)[..., :wide].to(terms.value.dtype), last


def _padded(terms: Terms) -> Terms:
    """The terms per head, with zeros up to a width that the kernels take; a decay of a head stays one number."""
    heads, decay = terms.query.shape[1], terms.log_decay

    def pad(x: Tensor) -> Tensor:
        return F.pad(per_head(x, heads), (0, -x.shape[-1] % _STEP))

    padded = terms._replace(log_decay=None, aside=None).map(pad)
    return padded._replace(log_decay=pad(decay) if decay is not None and transition(terms)[0] == "features" else decay)


def _refuse_second_derivative(gradient: Tensor) -> None:
    if torch.is_grad_enabled():
        raise Unsupported("fla's kernels have no second derivative: set mechanism.kernel = 'chunks'")


@cache
def _function(module: str, name: str) -> Callable[..., Any]:
    # imported here, since it imports Triton; it warns of packages that other functions of it need
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        function: Callable[..., Any] = getattr(import_module(f"fla.ops.{module}"), name)
    return function

"""Additive attention on a GPU as one fused Triton program: two hidden numbers share one reciprocal, softmax included.

Keeps the output and one number a row; the (query, key, hidden) numbers exist in registers only. Projections, scores and
weights are float32.
"""

import importlib.util

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from headwise.attention.call import Call
from headwise.attention.kernels import _triton_additive as programs
from headwise.attention.normalizers import Softmax
from headwise.attention.scores import Additive
from headwise.attention.scores.score import times
from headwise.errors import Unsupported

# query rows and keys of one tile
_ROWS, _KEYS = 16, 64
# beyond this the exponential of twice a projection is not finite in float32
_LARGEST = 43.0


def refusal(call: Call) -> str | None:
    """Why this kernel cannot compute the call exactly, or None."""
    if call.query.device.type != "cuda":
        return f"it runs on a CUDA device, not on {call.query.device.type}"
    return _unfit(call)


def _unfit(call: Call) -> str | None:
    if importlib.util.find_spec("triton") is None:
        return "it needs the package triton"
    if type(call.score) is not Additive:
        return f"its score is Additive, not {type(call.score).__name__}"
    if not isinstance(call.normalizer, Softmax):
        return f"its normalizer is softmax, not {call.normalizer.name}"
    if call.relative is not None:
        return "it has no relative positions"
    if call.dropout:
        return "it drops no weights out"
    if call.bias_learns:
        return "its gradient has no part for a bias that learns"
    if call.query.dtype == torch.float64:
        return "it computes in float32"
    if 0 in call.query.shape or 0 in call.key.shape or 0 in call.value.shape:
        return "an axis is empty"
    if call.value.shape[-1] > 256:
        return f"values are at most 256 wide, got {call.value.shape[-1]}"
    return None


def terms(call: Call) -> dict[str, float]:
    """Amounts of work: hidden numbers of all pairs."""
    batch, heads, query_len, key_len = call.shape
    pairs = float(batch * heads * query_len * key_len)
    return {"calls": 1.0, "compiled": pairs * call.score.pair_width(call.query), "pairs": pairs}


def compute(call: Call) -> Float[Tensor, "batch heads query_len value_dim"]:
    """The output of the call."""
    assert isinstance(call.score, Additive)
    query, key = times(call.score.query, call.query.float()), times(call.score.key, call.key.float())
    weight = call.score.value.weight[0].float() * call.scale
    odd = weight.shape[0] % 2
    if odd:
        # hidden numbers are taken in pairs
        query, key, weight = (F.pad(tensor, (0, odd)) for tensor in (query, key, weight))
    causal = call.mask is not None and call.mask.is_causal()
    prepared = None if causal else call.prepared()
    bias = None if call.bias is None else call.bias.float()
    if prepared is not None:
        bias = prepared.bias if bias is None else prepared.bias + bias
    if bias is not None:
        bias = bias.expand(call.shape)
    start = call.query_start if causal else None
    output: Tensor = _Fused.apply(query, key, weight, call.value, bias, start)
    if prepared is not None and prepared.empty is not None:
        output = output.masked_fill(prepared.empty, 0.0)
    return output.to(call.value.dtype)


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query, key, weight, value, bias, start):
        tables = _tables(query, key)
        value, weight = value.contiguous(), weight.contiguous()
        batch, heads, query_len, _ = query.shape
        output = query.new_empty(batch, heads, query_len, value.shape[-1])
        lse = query.new_empty(batch, heads, query_len)
        grid = (-(-query_len // _ROWS), batch * heads)
        one, two, extreme = tables
        arguments = (one, two, weight, value, one if bias is None else bias, extreme, output, lse)
        programs._forward[grid](*arguments, **_sizes(query, key, value, bias, start))
        ctx.save_for_backward(query, key, weight, value, output, lse)
        ctx.bias, ctx.start = bias, start
        return output

    @staticmethod
    def backward(ctx, gradient):
        if torch.is_grad_enabled():
            raise Unsupported("kernel 'triton_additive' has no second derivative; use kernel='plain'")
        query, key, weight, value, output, lse = ctx.saved_tensors
        one, two, extreme = _tables(query, key)
        gradient = gradient.contiguous()
        delta = (gradient.float() * output).sum(-1)
        batch, heads, query_len, hidden = query.shape
        kv_heads, key_len = key.shape[1:3]
        row_blocks, key_blocks = -(-query_len // _ROWS), -(-key_len // _KEYS)
        bias = one if ctx.bias is None else ctx.bias
        d_query, d_key = (torch.zeros_like(x, memory_format=torch.contiguous_format) for x in (query, key))
        d_weight = query.new_zeros(batch * heads * row_blocks, hidden)
        d_value = query.new_empty(value.shape)
        read = (one, two, weight, value, bias, extreme, lse, delta, gradient)
        sizes = _sizes(query, key, value, ctx.bias, ctx.start)
        programs._backward_queries[(row_blocks, batch * heads)](*read, d_query, d_weight, **sizes)
        programs._backward_keys[(key_blocks, batch * kv_heads)](*read, d_key, d_value, **sizes)
        return d_query, d_key, d_weight.sum(0), d_value.to(value.dtype), None, None


def _tables(query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Exponentials of the projections, or the projections where some are too large, and whether they are."""
    largest = torch.maximum(query.detach().abs().amax(), key.detach().abs().amax())
    # chosen without waiting for the device
    extreme = largest > _LARGEST
    one, two = (
        torch.where(extreme, tensor, (2.0 * tensor.clamp(-_LARGEST, _LARGEST)).exp()).contiguous()
        for tensor in (query.detach(), key.detach())
    )
    return one, two, extreme.int()


def _sizes(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, start: int | None) -> dict[str, int]:
    """Arguments of the programs by name; `start` is None if nothing is causal."""
    heads, query_len, hidden = query.shape[1:]
    batch_stride, head_stride, row_stride, col_stride = (0, 0, 0, 0) if bias is None else bias.stride()
    return {
        "heads": heads,
        "group": heads // key.shape[1],
        "query_len": query_len,
        "key_len": key.shape[2],
        "start": start or 0,
        "bias_batch": batch_stride,
        "bias_head": head_stride,
        "bias_row": row_stride,
        "bias_col": col_stride,
        "hidden": hidden,
        "dim": value.shape[-1],
        # a power of two, and no less than a matrix product takes
        "width": max(16, 1 << (value.shape[-1] - 1).bit_length()),
        "causal": int(start is not None),
        "biased": int(bias is not None),
        "rows": _ROWS,
        "cols": _KEYS,
    }

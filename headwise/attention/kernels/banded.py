"""Masks within a band: blocks of queries over the keys they can reach, in time and memory linear in the length.

Each block of 64 queries sees `64 + left + right` keys through an overlapping view, without a copy. Softmax in float32
and wider runs in SDPA's CPU operator; dropout, other normalizers and bfloat16 by batched products.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.attention.call import Call
from headwise.attention.kernels._banded_attention import Plan, banded
from headwise.attention.kernels._banded_layout import BLOCK, Layout, pieces
from headwise.attention.normalizers import Softmax
from headwise.attention.scores import Score


def refusal(call: Call) -> str | None:
    """Why this kernel cannot compute the call exactly, or None."""
    within = None if call.mask is None else call.mask.within()
    if within is None or within[0] is None or within[1] is None:
        return "its mask lies within a band of bounded width"
    if type(call.score).as_dot is Score.as_dot:
        return f"its score is a dot product, not {type(call.score).__name__}"
    if not call.normalizer.has_strips():
        return f"its normalizer works row by row in place, which {call.normalizer.name} cannot"
    if call.bias is not None or call.relative is not None:
        return "it has no bias and no relative positions"
    if 0 in call.query.shape or 0 in call.key.shape or 0 in call.value.shape:
        return "an axis is empty"
    if call.query.dtype == torch.float16:
        return "half-precision products are slow here"
    if torch.compiler.is_compiling():
        return "its blocks are laid out outside a compiled model"
    return None


def terms(call: Call) -> dict[str, float]:
    """Amounts of work: multiplications of blocks with their bands, in the flash operator or batched."""
    batch, heads, query_len, key_len = call.shape
    layout = Layout.of(call)
    pairs = float(batch * heads * query_len * (BLOCK + layout.reach))
    products = pairs * (call.query.shape[-1] + call.value.shape[-1])
    rows = float(batch * heads * (query_len + key_len))
    if _flashes(call):
        return {"calls": 1.0, "products": products, "rows": rows}
    return {"calls": 1.0, "batched": products, call.normalizer.work: pairs, "rows": rows}


def spares(call: Call) -> bool:
    """Whether no table of all pairs is kept: none is."""
    return True


def keeps(call: Call) -> str:
    """What is kept for the gradient."""
    batch, heads, query_len, key_len = call.shape
    numbers = batch * heads * (2 * key_len + query_len) * call.key.shape[-1]
    return f"padded keys and values, the output and one number a row ({numbers * call.key.element_size():,} bytes)"


def compute(call: Call) -> Float[Tensor, "batch heads query_len value_dim"]:
    """The output of the call."""
    as_dot = call.score.as_dot(call.query, call.key)
    assert as_dot is not None
    query, key, scale = as_dot
    layout, value = Layout.of(call), call.value
    if call.group > 1:
        key, value = key.repeat_interleave(call.group, 1), value.repeat_interleave(call.group, 1)
    query, key, value = (tensor.flatten(0, 1) for tensor in (query, key, value))
    normalizer = None if _flashes(call) else call.normalizer
    if normalizer is None and query.dtype == torch.bfloat16:
        # faster there, and its scores are not rounded
        query, key, value = query.float(), key.float(), value.float()
    plan = Plan(layout, pieces(call, layout), normalizer, scale * call.scale, call.dropout)
    return banded(query, key, value, plan).view(*call.shape[:3], -1).to(call.value.dtype)


def _flashes(call: Call) -> bool:
    # dropout makes the operator keep all scores, and it wants one width
    return (
        isinstance(call.normalizer, Softmax)
        and call.dropout == 0.0
        and call.query.device.type == "cpu"
        and call.query.shape[-1] == call.value.shape[-1]
    )

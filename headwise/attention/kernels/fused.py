"""PyTorch's scaled dot product attention (SDPA): tiled, no score is kept; softmax over a dot product, mask and bias."""

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from headwise.attention.call import Call
from headwise.attention.normalizers import Softmax
from headwise.attention.scores import Score


def refusal(call: Call) -> str | None:
    """Why SDPA cannot compute this call exactly, or None."""
    if not isinstance(call.normalizer, Softmax):
        return f"its normalizer is softmax, not {call.normalizer.name}"
    # comparing functions costs nothing; asking the score may multiply matrices
    if type(call.score).as_dot is Score.as_dot:
        return f"its score is a dot product, not {type(call.score).__name__}"
    if call.relative is not None:
        return "it has no relative positions"
    if call.bias is not None and call.bias.element_size() > call.query.element_size():
        return "it would round the bias to the type of the query"
    if 0 in call.query.shape or 0 in call.key.shape or 0 in call.value.shape:
        return "an axis is empty"
    return None


def terms(call: Call) -> dict[str, float]:
    """Amounts of work. On a CPU, dropout and a learned bias make SDPA materialise the scores, slowly."""
    batch, heads, query_len, key_len = call.shape
    products = float(batch * heads * query_len * key_len * (call.query.shape[-1] + call.value.shape[-1]))
    rows = float(batch * heads * (query_len + key_len))
    read = float(call.key.numel() + call.value.numel())
    # SDPA multiplies tile by tile, and each product that is not tiny has a price of its own
    high = 32 if query_len < 192 else 64 if query_len < 768 else 256
    priced = query_len > 1 and min(query_len, high) * min(key_len, 512) * call.query.shape[-1] > 4096
    tiles = float(batch * heads * -(-query_len // high) * -(-key_len // 512)) if priced else 0.0
    kind = "dropped" if call.dropout else "materialised" if call.bias_learns else "products"
    return {"calls": 1.0, kind: products, "rows": rows, "read": read, "tiles": tiles}


def spares(call: Call) -> bool:
    """Whether no table of all pairs is kept."""
    return not call.dropout and not call.bias_learns


def keeps(call: Call) -> str:
    """What stays in memory for the gradient besides inputs."""
    batch, heads, query_len, _ = call.shape
    return f"the output and one number a row ({batch * heads * query_len * 4:,} bytes)"


def compute(call: Call) -> Float[Tensor, "batch heads query_len value_dim"]:
    """The output of the call."""
    as_dot = call.score.as_dot(call.query, call.key)
    assert as_dot is not None
    query, key, scale = as_dot
    causal = call.mask is not None and call.bias is None and call.query_start == 0 and call.mask.is_causal()
    prepared = None if causal else call.prepared()
    bias = call.bias
    if prepared is not None:
        bias = prepared.bias if bias is None else prepared.bias + bias
        if prepared.empty is not None:
            # scores of a row that is zeroed afterwards must be finite: as NaN they would reach the gradient of the keys
            query = query.masked_fill(prepared.empty, 0.0)
            bias = bias if call.bias is None else bias.masked_fill(prepared.empty, 0.0)
    width, value = call.value.shape[-1], call.value
    if query.shape[-1] != width:
        # unequal widths would make SDPA keep the scores, on a CPU
        more = query.shape[-1] - width
        query, key, value = (F.pad(t, (0, max(0, n))) for t, n in ((query, -more), (key, -more), (value, more)))
    output = F.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=None if bias is None else bias.to(query.dtype),
        dropout_p=call.dropout,
        is_causal=causal,
        scale=scale * call.scale,
        enable_gqa=call.group > 1,
    )
    output = output[..., :width]
    if prepared is not None and prepared.empty is not None:
        return output.masked_fill(prepared.empty, 0.0)
    return output

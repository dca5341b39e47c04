"""PyTorch's scaled dot product attention (SDPA): tiled, no score is kept; softmax over a dot product, mask and bias."""

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from headwise.attention.call import Call
from headwise.attention.normalizers import Softmax
from headwise.attention.scores import Score

# keys of a tile
_TILE = 512


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
    found = {
        "calls": 1.0,
        "rows": float(batch * heads * (query_len + key_len)),
        "read": float(call.key.numel() + call.value.numel()),
    }
    width = call.query.shape[-1] + call.value.shape[-1]
    if call.dropout or call.bias_learns:
        kind = "dropped" if call.dropout else "materialised"
        return found | {kind: float(batch * heads * query_len * key_len * width)}
    # SDPA multiplies tile by tile, and each product that is not tiny has a price of its own
    high = 32 if query_len < 192 else 64 if query_len < 768 else 256
    tiles, pairs = _tiles(query_len, key_len, high, _is_causal(call))
    found["products"] = float(batch * heads * pairs * width)
    if query_len == 1:
        return found | {"row tiles": float(batch * heads * tiles)}
    priced = min(query_len, high) * min(key_len, _TILE) * call.query.shape[-1] > 4096
    return found | {"tiles": float(batch * heads * tiles) if priced else 0.0}


def _tiles(query_len: int, key_len: int, high: int, causal: bool) -> tuple[int, int]:
    """(tiles, pairs in them) of a head: a causal call leaves out tiles above the diagonal, and no part of a tile."""
    blocks = [(min(first + high, query_len), first) for first in range(0, query_len, high)]
    across = -(-key_len // _TILE)
    seen = [min(across, -(-end // _TILE)) if causal else across for end, _ in blocks]
    pairs = sum((end - first) * min(key_len, n * _TILE) for (end, first), n in zip(blocks, seen, strict=True))
    return sum(seen), pairs


def _is_causal(call: Call) -> bool:
    return call.mask is not None and call.bias is None and call.query_start == 0 and call.mask.is_causal()


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
    causal = _is_causal(call)
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

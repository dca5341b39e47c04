"""FlashAttention on a GPU in half precision: no mask, causal, or a window if the package flash_attn is there.

Runs PyTorch's own FlashAttention (or cuDNN's) and refuses what those do not compute, where SDPA would silently take a
slower form. Dao 2023, arXiv:2307.08691.
"""

import importlib
import importlib.util

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from headwise.attention.call import Call
from headwise.attention.kernels import fused
from headwise.attention.masks import Band


def refusal(call: Call) -> str | None:
    """Why this kernel cannot compute the call exactly, or None."""
    if call.query.device.type != "cuda":
        return f"it runs on a CUDA device, not on {call.query.device.type}"
    return _unfit(call)


def _unfit(call: Call) -> str | None:
    why = fused.refusal(call)
    if why is not None:
        return why
    if call.query.dtype not in (torch.float16, torch.bfloat16):
        return f"it computes in half precision, not in {str(call.query.dtype).removeprefix('torch.')}"
    width = call.query.shape[-1]
    if not width == call.key.shape[-1] == call.value.shape[-1] <= 256 or width % 8:
        return "vectors have one width, a multiple of 8 up to 256"
    if call.bias is not None:
        return "it adds no bias"
    if call.mask is None:
        return None
    band = call.mask.band()
    if band is None:
        return "its mask is causal or a window"
    if call.query_start or call.shape[2] != call.shape[3]:
        return "under a mask, queries and keys are the same positions"
    if not call.mask.is_causal() and importlib.util.find_spec("flash_attn") is None:
        return "a window needs the package flash_attn"
    return None


def terms(call: Call) -> dict[str, float]:
    """Amounts of work: the products of the pairs that the mask allows."""
    batch, heads, query_len, key_len = call.shape
    left, right = (None, None) if call.mask is None else call.mask.band() or (None, None)
    seen = min(key_len, (key_len if left is None else left) + (key_len if right is None else right) + 1)
    pairs = batch * heads * query_len * seen * (0.5 if left is None and right == 0 else 1.0)
    return {"calls": 1.0, "half products": pairs * 2.0 * call.query.shape[-1]}


def compute(call: Call) -> Float[Tensor, "batch heads query_len value_dim"]:
    """The output of the call."""
    as_dot = call.score.as_dot(call.query, call.key)
    assert as_dot is not None
    query, key, scale = as_dot[0], as_dot[1], as_dot[2] * call.scale
    causal = call.mask is not None and call.mask.is_causal()
    if call.mask is not None and not causal:
        flash_attn = importlib.import_module("flash_attn")
        # (batch, length, heads, dim)
        turned = (tensor.transpose(1, 2) for tensor in (query, key, call.value))
        output: Tensor = flash_attn.flash_attn_func(
            *turned, dropout_p=call.dropout, softmax_scale=scale, window_size=window(call.mask.band())
        )
        return output.transpose(1, 2)
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION]):
        return F.scaled_dot_product_attention(
            query,
            key,
            call.value,
            dropout_p=call.dropout,
            is_causal=causal,
            scale=scale,
            enable_gqa=call.group > 1,
        )


def window(band: Band | None) -> tuple[int, int]:
    """The band as flash_attn takes it, where -1 is no bound.

    >>> window((64, None))
    (64, -1)
    """
    left, right = (None, None) if band is None else band
    return (-1 if left is None else left, -1 if right is None else right)

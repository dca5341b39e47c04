"""Attention modules of transformers that do not look into its attention interface, computed by their mechanism.

Each function is the forward of a module in all but its attention: projections, rotations and biases are the module's.
What stands in a mask as the smallest number is forbidden; rows of padding, which may attend to nothing, are zero.
"""

import math
from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from headwise.adoption.calls import attention
from headwise.adoption.masks import Moved, Pattern
from headwise.attention.masks import Table


def bloom(
    module: Any,
    hidden_states: Tensor,
    residual: Tensor,
    alibi: Tensor,
    attention_mask: Tensor | None,
    layer_past: Any = None,
    use_cache: bool = False,
    output_attentions: bool = False,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """ALiBi: slopes times the position of the key."""
    query, key, value = module._reshape(module.query_key_value(hidden_states))
    if layer_past is not None:
        key, value = layer_past.update(key, value, module.layer_idx)
    bias = alibi.view(len(query), module.num_heads, 1, -1)
    dropout = module.attention_dropout.p
    output = _attended(module, query, key, value, module.inv_norm_factor, attention_mask, bias, dropout)
    return residual + F.dropout(module.dense(output), module.hidden_dropout, module.training), None


def mpt(
    module: Any,
    hidden_states: Tensor,
    position_bias: Tensor | None,
    cache: Any = None,
    attention_mask: Tensor | None = None,
    past_key_values: Any = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """ALiBi: slopes times the distance to the last key; its mask is True where a pair is forbidden."""
    mixed = module.Wqkv(hidden_states)
    if module.clip_qkv:
        mixed = mixed.clamp(min=-module.clip_qkv, max=module.clip_qkv)
    query, key, value = (part.unflatten(2, (module.n_heads, -1)).transpose(1, 2) for part in mixed.chunk(3, dim=2))
    if (store := cache if cache is not None else past_key_values) is not None:
        key, value = store.update(key, value, module.layer_idx)
    bias = None if position_bias is None else position_bias[None, :, :, -key.shape[2] :]
    keep = None if attention_mask is None else ~attention_mask
    output = _attended(module, query, key, value, module.softmax_scale, keep, bias, module.attn_dropout_p)
    return module.out_proj(output), None


def falcon(
    module: Any,
    hidden_states: Tensor,
    alibi: Tensor | None,
    attention_mask: Tensor | None,
    position_ids: Tensor | None = None,
    layer_past: Any = None,
    use_cache: bool = False,
    output_attentions: bool = False,
    position_embeddings: tuple[Tensor, Tensor] | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Rotary positions, or ALiBi, which its mask holds and its eager path adds once more; one head of keys, or several.

    Only with ALiBi does it drop weights in training.
    """
    split = module._split_heads(module.query_key_value(hidden_states))
    query, key, value = (part.transpose(1, 2) for part in split)
    bias, dropout = None, 0.0
    if alibi is None:
        assert position_embeddings is not None, "without ALiBi it turns queries and keys"
        rotated = import_module(type(module).__module__).apply_rotary_pos_emb
        query, key = rotated(query, key, *position_embeddings)
    else:
        dropout = module.attention_dropout.p
        if module.config._attn_implementation != "sdpa":
            bias = alibi.view(len(query), module.num_heads, 1, -1) * module.inv_norm_factor
    if layer_past is not None:
        key, value = layer_past.update(key, value, module.layer_idx)
    output = _attended(module, query, key, value, module.inv_norm_factor, attention_mask, bias, dropout)
    return module.dense(output), None


def mpnet(
    module: Any,
    hidden_states: Tensor,
    attention_mask: Tensor | None = None,
    position_bias: Tensor | None = None,
    output_attentions: bool = False,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """A learned bias for each bucket of distances."""
    shape = (*hidden_states.shape[:-1], -1, module.attention_head_size)
    query, key, value = (layer(hidden_states).view(shape).transpose(1, 2) for layer in (module.q, module.k, module.v))
    scale = module.attention_head_size**-0.5
    return module.o(_attended(module, query, key, value, scale, attention_mask, position_bias, module.dropout.p)), None


def deberta_v2(
    module: Any,
    hidden_states: Tensor,
    attention_mask: Tensor,
    output_attentions: bool = False,
    query_states: Tensor | None = None,
    relative_pos: Tensor | None = None,
    rel_embeddings: Tensor | None = None,
) -> tuple[Tensor, None]:
    """Disentangled attention: content to position and position to content are a bias that depends on the input."""
    heads = module.num_attention_heads
    inputs = (hidden_states if query_states is None else query_states, hidden_states, hidden_states)
    projections = (module.query_proj, module.key_proj, module.value_proj)
    flat = [module.transpose_for_scores(layer(x), heads) for layer, x in zip(projections, inputs, strict=True)]
    query, key, value = (part.unflatten(0, (-1, heads)) for part in flat)
    parts = 1 + ("c2p" in module.pos_att_type) + ("p2c" in module.pos_att_type)
    bias = None
    if module.relative_attention:
        position = module.pos_dropout(rel_embeddings)
        bias = module.disentangled_attention_bias(flat[0], flat[1], relative_pos, position, parts)
        bias = bias.unflatten(0, (-1, heads)) if isinstance(bias, Tensor) else None
    scale = 1 / math.sqrt(query.shape[-1] * parts)
    return _attended(module, query, key, value, scale, attention_mask.bool(), bias, module.dropout.p), None


# by the names of their modules and classes
FORWARDS: dict[str, Callable[..., Any]] = {
    "modeling_bloom.BloomAttention": bloom,
    "modeling_mpt.MptAttention": mpt,
    "modeling_falcon.FalconAttention": falcon,
    "modeling_mpnet.MPNetSelfAttention": mpnet,
    "modeling_deberta_v2.DisentangledSelfAttention": deberta_v2,
}


def _attended(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scale: float | int,
    mask: Tensor | None,
    bias: Tensor | None,
    dropout: float | int,
) -> Tensor:
    """What the mechanism of a module computes, heads side by side: (batch, queries, width).

    Args:
        mask: True where a pair may meet, or added to the scores; None: all may.
        dropout: in training.
    """
    keep = None
    if mask is not None:
        mask = mask[..., : key.shape[2]]
        if mask.dtype == torch.bool:
            keep = Table(mask)
        else:
            keep = Table(mask > torch.finfo(mask.dtype).min / 2)
            bias = mask if bias is None else bias + mask
    # the last queries of the sequence, whose rows are those of the mask
    start = key.shape[2] - query.shape[2]
    pattern = Pattern(keep if keep is None or start == 0 else Moved(keep, -start), start)
    dropout = float(dropout) if module.training else 0.0
    output, _ = attention(module, query, key, value, pattern, scaling=float(scale), dropout=dropout, position_bias=bias)
    return output.flatten(2)

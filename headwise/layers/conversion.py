"""From many key and value heads to few, and back: multi-head, grouped-query and multi-query attention."""

import copy

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.errors import ConfigError
from headwise.layers.attention import MultiHeadAttention, check_heads


def with_kv_heads(attention: MultiHeadAttention, num_kv_heads: int) -> MultiHeadAttention:
    """A copy of the layer with another number of key and value heads; query and output projections stay as they are.

    More heads are copies of those there are, so the layer computes the same; fewer are the means of their groups,
    which is exact where the heads of a group are equal, and a start for further training elsewhere.

    Raises:
        ConfigError: numbers that do not divide each other, or a layer that shares queries and keys.
    Source: Ainslie et al. 2023, arXiv:2305.13245, section 2.1 (mean pooling is the best of the ways they compare).

    >>> from headwise.attention.mechanisms.scored import Scored
    >>> with_kv_heads(MultiHeadAttention(8, 4, Scored()), 1).num_kv_heads
    1
    """
    if attention.shared in ("qk", "qkv"):
        raise ConfigError(f"a layer with shared='{attention.shared}' has as many key heads as query heads")
    check_heads(attention.d_model, attention.num_heads, num_kv_heads, attention.head_dim)
    old = attention.num_kv_heads
    if old % num_kv_heads and num_kv_heads % old:
        raise ConfigError(f"num_kv_heads ({num_kv_heads}) must divide or be a multiple of the present {old}")
    converted = copy.deepcopy(attention)
    converted.num_kv_heads = num_kv_heads
    width = attention.head_dim
    query = attention.num_heads * width if attention.memory_projection is None else 0
    name = "projection" if attention.memory_projection is None else "memory_projection"
    setattr(converted, name, _regrouped(getattr(attention, name), query, old, num_kv_heads, width))
    return converted


def _regrouped(linear: nn.Linear, query: int, old: int, new: int, width: int) -> nn.Linear:
    def changed(rows: Float[Tensor, "rows *columns"]) -> Float[Tensor, "others *columns"]:
        # (keys and values, heads, head_dim, ...)
        heads = rows[query:].unflatten(0, (-1, old, width))
        if new < old:
            heads = heads.unflatten(1, (new, old // new)).mean(2)
        else:
            heads = heads.repeat_interleave(new // old, dim=1)
        return torch.cat((rows[:query], heads.flatten(0, 2)))

    with torch.no_grad():
        weight = changed(linear.weight)
        bias = None if linear.bias is None else changed(linear.bias)
        # on the meta device nothing is drawn
        result = nn.Linear(linear.in_features, weight.shape[0], bias is not None, device="meta")
        result.weight = nn.Parameter(weight.contiguous(), requires_grad=linear.weight.requires_grad)
        if bias is not None:
            result.bias = nn.Parameter(bias.contiguous(), requires_grad=linear.bias.requires_grad)
    return result

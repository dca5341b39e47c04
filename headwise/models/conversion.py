"""From many key and value heads to few, and back: multi-head, grouped-query and multi-query attention."""

import copy

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.errors import ConfigError
from headwise.layers.attention import Factored, MultiHeadAttention, check_heads
from headwise.layers.latent import LatentProjection


def with_kv_heads(attention: MultiHeadAttention, num_kv_heads: int) -> MultiHeadAttention:
    """A copy of the layer with another number of key and value heads; query and output projections stay as they are.

    More heads are copies of those there are, so the layer computes the same; fewer are the means of their groups,
    which is exact where the heads of a group are equal, and a start for further training elsewhere.

    Raises: ConfigError: numbers that do not divide each other, or a layer that shares queries and keys or factors its
        projections or convolves them.
    Source: Ainslie et al. 2023, arXiv:2305.13245, section 2.1 (mean pooling is the best of the ways they compare).

    >>> with_kv_heads(MultiHeadAttention(8, 4), 1).num_kv_heads
    1
    """
    if attention.shared in ("qk", "qkv"):
        raise ConfigError(f"a layer with shared='{attention.shared}' has as many key heads as query heads")
    projection = attention.projection if attention.memory_projection is None else attention.memory_projection
    if isinstance(projection, Factored | LatentProjection):
        raise ConfigError(f"a layer with rank={projection.rank} has no matrix of its key heads; leave rank out")
    if attention.convolution is not None:
        raise ConfigError("a layer with a convolution has taps for each of its key heads; leave conv out")
    check_heads(attention.d_model, attention.num_heads, num_kv_heads, attention.head_dim)
    old = attention.num_kv_heads
    if old % num_kv_heads and num_kv_heads % old:
        raise ConfigError(f"num_kv_heads ({num_kv_heads}) must divide or be a multiple of the present {old}")
    converted = copy.deepcopy(attention)
    converted.num_kv_heads = num_kv_heads
    query, key, value = attention.widths()
    if attention.memory_projection is None:
        converted.projection = _regrouped(projection, (query, key, value), old, num_kv_heads)
    else:
        converted.memory_projection = _regrouped(projection, (0, key, value), old, num_kv_heads)
    return converted


def _regrouped(linear: nn.Linear, widths: tuple[int, int, int], old: int, new: int) -> nn.Linear:
    def shared(rows: Float[Tensor, "rows *columns"]) -> Float[Tensor, "others *columns"]:
        heads = rows.unflatten(0, (old, rows.shape[0] // old))
        if new < old:
            return heads.unflatten(0, (new, old // new)).mean(1).flatten(0, 1)
        return heads.repeat_interleave(new // old, dim=0).flatten(0, 1)

    def changed(rows: Float[Tensor, "rows *columns"]) -> Float[Tensor, "others *columns"]:
        query, *others = rows.split(list(widths))
        return torch.cat((query, *(shared(part) for part in others)))

    with torch.no_grad():
        weight = changed(linear.weight)
        bias = None if linear.bias is None else changed(linear.bias)
        # on the meta device nothing is drawn
        result = nn.Linear(linear.in_features, weight.shape[0], bias is not None, device="meta")
        result.weight = nn.Parameter(weight.contiguous(), requires_grad=linear.weight.requires_grad)
        if bias is not None:
            result.bias = nn.Parameter(bias.contiguous(), requires_grad=linear.bias.requires_grad)
    return result

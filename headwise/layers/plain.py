"""Sublayers as inference runs them: weights are looked up once, and nothing that only training needs stands between."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.masks import Mask, Place, Structure
from headwise.attention.mechanisms.scored import Scored
from headwise.attention.normalizers import Softmax
from headwise.attention.scores import ScaledDot
from headwise.layers.attention import MultiHeadAttention
from headwise.layers.blocks import DecoderBlock, EncoderBlock, Residual
from headwise.layers.feed_forward import FeedForward
from headwise.layers.norms import TokenBatchNorm

Product = Callable[[Tensor], Tensor]


@dataclass(slots=True)
class Part:
    """Rows that several batches share products with: those of one batch, so many for each of its sentences."""

    sentences: int
    width: int


P = TypeVar("P", bound=Part)


class PlainAttention:
    """A plain attention inside its residual: products over the rows of all parts, attention within each.

    A product with few rows takes the time of reading its weights, which is spent once here.
    """

    def __init__(self, attention: MultiHeadAttention, residual: Residual):
        self._project, self._output = _product(attention.projection), _product(attention.output)
        self._before, self._after = _norm(residual.before), _norm(residual.after)
        self.heads, self.head_dim = attention.num_heads, attention.head_dim
        self.kv_heads, self.grouped = attention.num_kv_heads, attention.num_kv_heads != attention.num_heads
        self.position = attention.position

    def __call__(self, x: Tensor, parts: Sequence[P], attend: Callable[[Tensor, P], Tensor]) -> Tensor:
        """x: (rows, d_model) of all parts; `attend`: from the heads of a part, side by side, to what they attend to.

        What it is given and returns is (sentences, heads, width, head_dim).
        """
        projected = self._project(self._before(x))
        if len(parts) == 1:
            attended = self._within(projected, parts[0], attend)
        else:
            rows = projected.split([part.sentences * part.width for part in parts])
            attended = torch.cat([self._within(own, part, attend) for own, part in zip(rows, parts, strict=True)])
        return self._after(self._output(attended).add_(x))

    def _within(self, rows: Tensor, part: P, attend: Callable[[Tensor, P], Tensor]) -> Tensor:
        heads = rows.view(part.sentences, part.width, rows.shape[-1] // self.head_dim, self.head_dim).transpose(1, 2)
        return attend(heads, part).transpose(1, 2).flatten(2).flatten(0, 1)

    def packed(self, heads: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of a self-attention from its projection."""
        own, few = self.heads, self.kv_heads
        return heads.narrow(1, 0, own), heads.narrow(1, own, few), heads.narrow(1, own + few, few)


class PlainFeedForward:
    """A feed-forward network inside its residual."""

    def __init__(self, feed_forward: FeedForward, residual: Residual):
        self._whole, self._relu = feed_forward, feed_forward.activation == "relu"
        self._inner, self._outer = _product(feed_forward.inner), _product(feed_forward.outer)
        self._before, self._after = _norm(residual.before), _norm(residual.after)

    def __call__(self, x: Tensor) -> Tensor:
        entering = self._before(x)
        made = self._outer(self._inner(entering).relu_()) if self._relu else self._whole(entering)
        return self._after(made.add_(x))


def seen(query: Tensor, key: Tensor, value: Tensor, mask: Mask | None, grouped: bool) -> Tensor:
    """Scaled dot-product attention to what the mask shows: zeros for a row that sees nothing."""
    bias, empty = None, None
    if mask is not None:
        batch, heads, query_len = query.shape[:3]
        structure = mask.structure(Place(batch, heads, query_len, key.shape[2], 0, query.device))
        bias, empty = structure.cached(("bias", query.dtype), lambda: _bias(structure, query.dtype))
    output = F.scaled_dot_product_attention(query, key, value, attn_mask=bias, enable_gqa=grouped)
    return output if empty is None else output.masked_fill(empty, 0.0)


def _bias(structure: Structure, dtype: torch.dtype) -> tuple[Tensor | None, Tensor | None]:
    """What is added to the scores, and which rows see nothing; None where nothing is hidden or no row is empty.

    Once for all layers of a pass, or for all steps between two departures of sentences: looking at values is cheap.
    """
    keep = structure.table()
    if bool(keep.all()):
        return None, None
    empty = ~keep.any(-1, keepdim=True)
    bias = torch.zeros(keep.shape, dtype=dtype, device=keep.device).masked_fill_(~(keep | empty), -math.inf)
    # SDPA adds a bias of the queries' own shape only
    return bias.expand(-1, -1, structure.at.query_len, structure.at.key_len), empty if bool(empty.any()) else None


def is_plain(block: DecoderBlock | EncoderBlock) -> bool:
    """Whether all that the block does are scaled dot products under softmax and a network, with residuals and norms."""
    if block.feed_forward is None or not _attends_plainly(block.self_attention):
        return False
    if isinstance(block, EncoderBlock):
        return _is_common(block.attention_residual) and _is_common(block.feed_forward_residual)
    if not all(map(_is_common, (block.self_residual, block.cross_residual, block.feed_forward_residual))):
        return False
    cross = block.cross_attention
    return cross is None or (cross.memory_projection is not None and _attends_plainly(cross))


def _is_common(residual: Residual | None) -> bool:
    if residual is None:
        return True
    # statistics of a batch leave padding out, and here nobody knows what is padding
    return residual.skip and not any(isinstance(norm, TokenBatchNorm) for norm in (residual.before, residual.after))


def _attends_plainly(attention: MultiHeadAttention) -> bool:
    mechanism, position = attention.mechanism, attention.position
    if type(mechanism) is not Scored or type(mechanism.score) not in (ScaledDot, type(None)):
        return False
    if type(mechanism.normalizer) not in (Softmax, type(None)) or mechanism.kernel != "auto":
        return False
    if position is not None and position.acts_on_scores():
        return False
    if attention.shared != "none" or attention.combine != "concat" or attention.value_dim != attention.head_dim:
        return False
    return isinstance(attention.query_norm, nn.Identity)


def _product(linear: nn.Module) -> Product:
    if type(linear) is not nn.Linear:
        # called, but not a part of the block a second time
        return lambda x: linear(x)
    weight, bias = linear.weight, linear.bias
    return lambda x: F.linear(x, weight, bias)


def _norm(norm: nn.Module) -> Product:
    if isinstance(norm, nn.Identity):
        return lambda x: x
    if type(norm) is not nn.LayerNorm:
        return lambda x: norm(x)
    shape, weight, bias, eps = list(norm.normalized_shape), norm.weight, norm.bias, norm.eps
    return lambda x: torch.layer_norm(x, shape, weight, bias, eps)

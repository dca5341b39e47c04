"""Blocks and models as decoding runs them: the same sums on the same weights, without what only training needs."""

import copy
import math
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.masks import Mask
from headwise.attention.mechanisms.scored import Scored
from headwise.attention.normalizers import Softmax
from headwise.attention.scores import ScaledDot
from headwise.caches import AttentionStep, KeyValues
from headwise.layers.attention import MultiHeadAttention, turned
from headwise.layers.blocks import DecoderBlock, Residual
from headwise.layers.packed import CopiedLinear, PackedLinear, RoundedLinear, gains

Product = Callable[[Tensor], Tensor]
Precision = Literal["fp32", "bf16"]
M = TypeVar("M", bound=nn.Module)


def for_inference(model: M, precision: Precision = "fp32") -> M:
    """A copy of the model in `eval()` for decoding with a cache; all parameters are shared with the model.

    Large linear layers keep their weights once more, and decoder blocks of plain softmax attention run without the
    bookkeeping of modules: their `nn.Linear` and `nn.LayerNorm` are not called, so hooks on these do not run; layers of
    any other class are. The copy computes what the model computes, to float32 rounding, and shows the weights of this
    moment: make a new one after they changed (`is_current`).

    Args:
        precision: "bf16" rounds the products of large layers to bfloat16, which is faster where its products are fast
            (`headwise doctor`) and gives other last digits.
    """
    large = PackedLinear if precision == "fp32" else RoundedLinear
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    twin = copy.deepcopy(model, shared)
    _replace(twin, lambda child: large(child) if isinstance(child, nn.Linear) and gains(child) else child)
    _replace(
        twin, lambda child: DecodingBlock(child) if isinstance(child, DecoderBlock) and _is_plain(child) else child
    )
    return twin.eval()


def is_current(twin: nn.Module, model: nn.Module) -> bool:
    """Whether a copy made by `for_inference` still shows the parameters of its model; reads all large ones."""
    if {id(parameter) for parameter in twin.parameters()} != {id(parameter) for parameter in model.parameters()}:
        return False
    return all(module.is_current() for module in twin.modules() if isinstance(module, CopiedLinear))


class Part(NamedTuple):
    """The rows of one search in a step that several take together: so many sentences x beams, and what they keep."""

    sentences: int
    beams: int
    memory_mask: Mask | None
    own: AttentionStep
    cross: AttentionStep


class DecodingBlock(nn.Module):
    """A decoder block for cached steps: what `DecoderBlock` computes with the same arguments, in less time.

    At a few rows a step costs less than the Python around it, so weights are looked up once, here, and no dropout,
    record or check stands between the products. For scaled dot products under softmax without position biases.
    """

    def __init__(self, block: DecoderBlock):
        super().__init__()
        own, cross, feed_forward = block.self_attention, block.cross_attention, block.feed_forward
        assert feed_forward is not None
        self.block = block
        self._project, self._own_output = _product(own.projection), _product(own.output)
        self._inner, self._outer = _product(feed_forward.inner), _product(feed_forward.outer)
        residuals = (block.self_residual, block.cross_residual, block.feed_forward_residual)
        self._norms = [_norms(residual) for residual in residuals]
        self._relu = feed_forward.activation == "relu"
        self._own, self._cross = _Sizes(own), None if cross is None else _Sizes(cross)
        if cross is not None:
            self._query, self._cross_output = _product(cross.projection), _product(cross.output)

    def forward(
        self,
        x: Float[Tensor, "batch length d_model"],
        memory: Float[Tensor, "batch memory_len width"] | None,
        *,
        mask: Mask | None,
        memory_mask: Mask | None,
        self_cache: AttentionStep | None = None,
        cross_cache: AttentionStep | None = None,
    ) -> Float[Tensor, "batch length d_model"]:
        """What the block that this one was made of computes; cached steps go to `together`."""
        output: Tensor = self.block(
            x, memory, mask=mask, memory_mask=memory_mask, self_cache=self_cache, cross_cache=cross_cache
        )
        return output

    def together(self, x: Float[Tensor, "rows d_model"], parts: Sequence[Part]) -> Float[Tensor, "rows d_model"]:
        """One cached step of several searches: products over the rows of all, attention within each.

        A product with few rows takes the time of reading its weights, which is spent once here.
        """
        before, after = self._norms[0]
        x = after(self._own_output(_each(self._project(before(x)), parts, self._attend_own)).add_(x))
        if self._cross is not None:
            before, after = self._norms[1]
            x = after(self._cross_output(_each(self._query(before(x)), parts, self._attend_memory)).add_(x))
        before, after = self._norms[2]
        if not self._relu:
            assert self.block.feed_forward is not None
            return after(self.block.feed_forward(before(x)).add_(x))
        return after(self._outer(self._inner(before(x)).relu_()).add_(x))

    def _attend_own(self, projected: Tensor, part: Part) -> Tensor:
        sizes, step = self._own, part.own
        assert isinstance(step.memory, KeyValues)
        packed = projected.view(part.sentences, part.beams, -1, sizes.head_dim).transpose(1, 2)
        heads, few = sizes.heads, sizes.kv_heads
        query, key = packed.narrow(1, 0, heads), packed.narrow(1, heads, few)
        value = packed.narrow(1, heads + few, few)
        if sizes.position is not None:
            query, key = turned(sizes.position, query, step), turned(sizes.position, key, step)
        key, value = step.memory.append(key, value)
        # a mask narrower than the query gives wrong numbers in silence
        bias = None if step.ancestry is None else step.ancestry.to(projected.dtype)
        return _joined(F.scaled_dot_product_attention(query, key, value, attn_mask=bias, enable_gqa=sizes.grouped))

    def _attend_memory(self, query: Tensor, part: Part) -> Tensor:
        sizes, mask = self._cross, part.memory_mask
        assert sizes is not None
        memory = part.cross.memory
        assert isinstance(memory, KeyValues)
        query = query.view(part.sentences, part.beams, sizes.heads, sizes.head_dim).transpose(1, 2)
        key, value = memory.read()
        bias, empty = None, None
        if mask is not None:
            shape = (part.sentences, sizes.heads, part.beams, key.shape[2], query.dtype, query.device)
            bias, empty = mask.made("decoding", shape, lambda: _bias(mask, *shape))
        output = F.scaled_dot_product_attention(query, key, value, attn_mask=bias, enable_gqa=sizes.grouped)
        return _joined(output if empty is None else output.masked_fill(empty, 0.0))


class _Sizes:
    def __init__(self, attention: MultiHeadAttention):
        self.heads, self.head_dim = attention.num_heads, attention.head_dim
        self.kv_heads = attention.num_kv_heads
        self.grouped = attention.num_kv_heads != attention.num_heads
        self.position = attention.position


def _bias(
    mask: Mask, batch: int, heads: int, query_len: int, key_len: int, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor | None, Tensor | None]:
    """What is added to the scores, and which rows see nothing; None where nothing is hidden or no row is empty.

    Once for all layers and steps between two departures of sentences, so looking at values is cheap here.
    """
    keep = mask.dense(batch, heads, query_len, key_len, device=device)
    if bool(keep.all()):
        return None, None
    empty = ~keep.any(-1, keepdim=True)
    bias = torch.zeros(keep.shape, dtype=dtype, device=device).masked_fill_(~(keep | empty), -math.inf)
    # SDPA adds a bias of the queries' own shape only
    return bias.expand(-1, -1, query_len, key_len), empty if bool(empty.any()) else None


def _is_plain(block: DecoderBlock) -> bool:
    residuals = (block.self_residual, block.cross_residual, block.feed_forward_residual)
    if block.feed_forward is None or not all(residual is None or residual.skip for residual in residuals):
        return False
    for attention in (block.self_attention, block.cross_attention):
        if attention is None:
            continue
        mechanism, position = attention.mechanism, attention.position
        if type(mechanism) is not Scored or type(mechanism.score) not in (ScaledDot, type(None)):
            return False
        if type(mechanism.normalizer) not in (Softmax, type(None)) or mechanism.kernel != "auto":
            return False
        if position is not None and position.acts_on_scores():
            return False
        if attention.shared != "none" or attention.combine != "concat" or attention.value_dim != attention.head_dim:
            return False
        if not isinstance(attention.query_norm, nn.Identity):
            return False
    return block.cross_attention is None or block.cross_attention.memory_projection is not None


def _product(linear: nn.Module) -> Product:
    if type(linear) is not nn.Linear:
        # called, but not a part of the block a second time
        return lambda x: linear(x)
    weight, bias = linear.weight, linear.bias
    return lambda x: F.linear(x, weight, bias)


def _norms(residual: Residual | None) -> tuple[Product, Product]:
    if residual is None:
        return _norm(nn.Identity()), _norm(nn.Identity())
    return _norm(residual.before), _norm(residual.after)


def _norm(norm: nn.Module) -> Product:
    if isinstance(norm, nn.Identity):
        return lambda x: x
    if type(norm) is not nn.LayerNorm:
        return lambda x: norm(x)
    shape, weight, bias, eps = list(norm.normalized_shape), norm.weight, norm.bias, norm.eps
    return lambda x: torch.layer_norm(x, shape, weight, bias, eps)


def _joined(heads: Tensor) -> Tensor:
    """(sentences, heads, beams, head_dim) as rows of all heads."""
    return heads.transpose(1, 2).flatten(2).flatten(0, 1)


def _each(rows: Tensor, parts: Sequence[Part], attend: Callable[[Tensor, Part], Tensor]) -> Tensor:
    """What each search attends to, by the rows of all."""
    if len(parts) == 1:
        return attend(rows, parts[0])
    sizes = [part.sentences * part.beams for part in parts]
    return torch.cat([attend(own, part) for own, part in zip(rows.split(sizes), parts, strict=True)])


def _replace(model: nn.Module, instead: Callable[[nn.Module], nn.Module]) -> None:
    """Puts what the function gives in the place of every module inside the model."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            setattr(module, name, instead(child))

"""Blocks and models as decoding runs them: the same sums on the same weights, without what only training needs."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.masks import Mask
from headwise.caches import AttentionStep, KeyValues
from headwise.layers.attention import own_rows, turned
from headwise.layers.blocks import DecoderBlock, EncoderBlock
from headwise.layers.packed import CopiedLinear, PackedLinear, RoundedLinear, gains
from headwise.layers.plain import Part, PlainAttention, PlainFeedForward, is_plain, seen

Precision = Literal["fp32", "bf16"]
M = TypeVar("M", bound=nn.Module)


def for_inference(model: M, precision: Precision = "fp32") -> M:
    """A copy of the model in `eval()` for decoding with a cache; all parameters are shared with the model.

    Large linear layers keep their weights once more, and blocks of plain softmax attention run without the
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
    _replace(twin, _twin)
    return twin.eval()


def is_current(twin: nn.Module, model: nn.Module) -> bool:
    """Whether a copy made by `for_inference` still shows the parameters of its model, see `CopiedLinear.is_current`."""
    if {id(parameter) for parameter in twin.parameters()} != {id(parameter) for parameter in model.parameters()}:
        return False
    return all(module.is_current() for module in twin.modules() if isinstance(module, CopiedLinear))


@dataclass(slots=True)
class Step(Part):
    """A step of one search: its sentences, each with so many beams, and what a layer keeps of them."""

    memory_mask: Mask | None
    own: AttentionStep
    cross: AttentionStep


class DecodingBlock(nn.Module):
    """A decoder block for cached steps: what `DecoderBlock` computes with the same arguments, in less time.

    At a few rows a step costs less than the Python around it. For scaled dot products under softmax without position
    biases.
    """

    def __init__(self, block: DecoderBlock):
        super().__init__()
        self.block = block
        self._own = PlainAttention(block.self_attention, block.self_residual)
        assert block.feed_forward is not None
        assert block.feed_forward_residual is not None
        self._feed_forward = PlainFeedForward(block.feed_forward, block.feed_forward_residual)
        self._cross: PlainAttention | None = None
        if block.cross_attention is not None and block.cross_residual is not None:
            self._cross = PlainAttention(block.cross_attention, block.cross_residual)

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

    def together(self, x: Float[Tensor, "rows d_model"], parts: Sequence[Step]) -> Float[Tensor, "rows d_model"]:
        """One cached step of several searches."""
        x = self._own(x, parts, self._attend_own)
        if self._cross is not None:
            x = self._cross(x, parts, self._attend_memory)
        return self._feed_forward(x)

    def _attend_own(self, packed: Tensor, part: Step) -> Tensor:
        plain, step = self._own, part.own
        assert isinstance(step.memory, KeyValues)
        query, key, value = plain.packed(packed)
        if plain.position is not None:
            query, key = turned(plain.position, query, step), turned(plain.position, key, step)
        if step.beams > 1 and not step.memory.shares_beams:
            shape = (query.shape[0], query.shape[2])
            query, key, value = (own_rows(heads) for heads in (query, key, value))
            output = F.scaled_dot_product_attention(query, *step.memory.append(key, value), enable_gqa=plain.grouped)
            return output.squeeze(2).unflatten(0, shape).transpose(1, 2)
        key, value = step.memory.append(key, value)
        # a mask narrower than the query gives wrong numbers in silence
        bias = None if step.ancestry is None else step.ancestry.to(packed.dtype)
        return F.scaled_dot_product_attention(query, key, value, attn_mask=bias, enable_gqa=plain.grouped)

    def _attend_memory(self, query: Tensor, part: Step) -> Tensor:
        assert self._cross is not None
        assert isinstance(part.cross.memory, KeyValues)
        return seen(query, *part.cross.memory.read(), part.memory_mask, self._cross.grouped)


@dataclass(slots=True)
class Read(Part):
    """A batch of sentences of one width, and what each of its tokens sees; None: all."""

    mask: Mask | None


class EncodingBlock(nn.Module):
    """An encoder block that reads several batches at once: what `EncoderBlock` computes of each, in less time.

    Args:
        block: one of scaled dot products under softmax without position biases.
    """

    def __init__(self, block: EncoderBlock):
        super().__init__()
        self.block = block
        self._own = PlainAttention(block.self_attention, block.attention_residual)
        assert block.feed_forward is not None
        assert block.feed_forward_residual is not None
        self._feed_forward = PlainFeedForward(block.feed_forward, block.feed_forward_residual)

    def forward(
        self,
        x: Float[Tensor, "batch length d_model"],
        mask: Mask | None,
        cache: AttentionStep | None = None,
        valid_lens: Int[Tensor, "batch"] | None = None,
    ) -> Float[Tensor, "batch length d_model"]:
        """What the block that this one was made of computes."""
        output: Tensor = self.block(x, mask, cache, valid_lens)
        return output

    def together(self, x: Float[Tensor, "rows d_model"], parts: Sequence[Read]) -> Float[Tensor, "rows d_model"]:
        """The tokens of several batches."""
        return self._feed_forward(self._own(x, parts, self._attend))

    def _attend(self, packed: Tensor, part: Read) -> Tensor:
        query, key, value = self._own.packed(packed)
        if self._own.position is not None:
            query, key = self._own.position.rotate(query, 0), self._own.position.rotate(key, 0)
        return seen(query, key, value, part.mask, self._own.grouped)


def _twin(child: nn.Module) -> nn.Module:
    if isinstance(child, DecoderBlock) and is_plain(child):
        return DecodingBlock(child)
    return EncodingBlock(child) if type(child) is EncoderBlock and is_plain(child) else child


def _replace(model: nn.Module, instead: Callable[[nn.Module], nn.Module]) -> None:
    """Puts what the function gives in the place of every module inside the model."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            setattr(module, name, instead(child))

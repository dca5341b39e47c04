"""Blocks and models as inference runs them: the same sums on the same weights, without what only training needs."""

import copy
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Literal, TypeGuard, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.masks import Mask, Place, Structure
from headwise.attention.mechanisms.scored import Scored
from headwise.attention.normalizers import Softmax
from headwise.attention.scores import ScaledDot
from headwise.caches import AttentionStep, KeyValues
from headwise.errors import MachineError
from headwise.layers.attention import MultiHeadAttention, Vectors, rotated, rows_of_beams
from headwise.layers.blocks import DecoderBlock, EncoderBlock, Lens, Residual
from headwise.layers.compiled import MANY_ROWS, NativeProduct, is_few, is_traced, native_block, takes, takes_all
from headwise.layers.feed_forward import FeedForward
from headwise.layers.norms import TokenBatchNorm
from headwise.native import build

Precision = Literal["fp32", "bf16", "int8"]
M = TypeVar("M", bound=nn.Module)
Product = Callable[[Tensor], Tensor]

# below this many weights the call costs more than the product saves
SMALLEST, SMALLEST_INT8 = 500_000, 200_000
# the same in C++
SMALLEST_COMPILED = 4096
# the largest 8-bit number, and the smallest step between two of them, so that a row of zeros has one
_LARGEST, _STEP = 127, 1e-12


def for_inference(model: M, precision: Precision = "fp32") -> M:
    """A copy of the model in `eval()` for decoding with a cache; all parameters are shared with the model.

    Blocks of plain softmax attention run without the bookkeeping of modules: their `nn.Linear` and `nn.LayerNorm` are
    not called, so hooks on these do not run; layers of any other class are. The copy computes what the model computes,
    to float32 rounding. Rounded layers show the weights of this moment: make a new copy after they changed
    (`is_current`).

    Args:
        precision: "bf16" rounds the products of large layers to bfloat16, which is faster where its products are fast
            (`headwise doctor`) and gives other last digits. "int8" rounds them to 8 bits (`int8_product`), which is
            faster wherever PyTorch has such products (`has_int8`), and less exact.

    Raises: MachineError: int8 where PyTorch has no such products.
    """
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    twin = copy.deepcopy(model, shared)
    # of a copy what its model gives
    _replace(twin, _made_of)
    if precision != "fp32":
        product = bfloat16_product if precision == "bf16" else int8_product
        _replace(twin, lambda child: RoundedLinear(child, product) if is_rounded(child, precision) else child)
    _replace(twin, _twin)
    return twin.eval()


def is_current(twin: nn.Module, model: nn.Module) -> bool:
    """Whether a copy made by `for_inference` still shows the parameters of its model."""
    own, others = list(twin.modules()), list(model.modules())
    if _parameters(own) != _parameters(others):
        return False
    return all(module.is_current() for module in own if isinstance(module, RoundedLinear))


def _parameters(modules: Sequence[nn.Module]) -> set[int]:
    # `parameters(recurse=False)` takes eight times as long on the modules of a base Transformer
    return {id(parameter) for module in modules for parameter in vars(module)["_parameters"].values()} - {id(None)}


def bfloat16_product(linear: nn.Linear) -> Product:
    """x W^T + b with x and W rounded to bfloat16 and summed in float32: half the bytes, other last digits."""
    weight, bias = linear.weight.detach().bfloat16(), linear.bias

    def product(x: Tensor) -> Tensor:
        output = F.linear(x.bfloat16(), weight).to(x.dtype)
        return output if bias is None else output.add_(bias)

    return product


def has_int8() -> bool:
    """Whether PyTorch multiplies 8-bit numbers here, each output with a scale of its own."""
    return torch.backends.quantized.engine in ("x86", "onednn", "fbgemm")


@cache
def int8_bits(engine: str | None = None) -> int:
    """Bits of the inputs of an 8-bit product here: 8 where sums are exact, as with VNNI; else 7, whose sums are.

    Without VNNI two products of 8 bits are added in 16, where they overflow. `engine`: of PyTorch; None: its choice.
    """
    # without a draw of random numbers
    ones = nn.utils.skip_init(nn.Linear, 64, 8, bias=False, device="cpu", dtype=torch.float32)
    nn.init.ones_(ones.weight)
    output = torch.ops.quantized.linear_dynamic(
        torch.ones(1, 64, device="cpu", dtype=torch.float32), _packed(_rounded(ones), None, engine), reduce_range=False
    )
    return 8 if bool((output - 64.0).abs().max() < 0.5) else 7


def int8_product(linear: nn.Linear) -> Product:
    """x W^T + b with W rounded to 8 bits, a scale for each output, and x to `int8_bits`, one scale for all of its rows.

    With one scale for all rows, what a row gives depends a little on those beside it. Where the processor has VNNI a
    layer is packed twice: oneDNN's product is the faster one of many rows, and the slower one of few. Where there is a
    compiler, C++ multiplies few rows, and by tiles (AMX) all: bit for bit what fbgemm's product of few rows gives;
    oneDNN rounds a number just between two of 8 bits the other way now and then. `benchmarks.decoding` shows both, by
    sentences one by one and by 32.

    Raises: MachineError where PyTorch has no such products.
    """
    return Int8Product(linear)


class Int8Product:
    """`int8_product` of a layer; `native`: what computes few rows, and by tiles all, where it could be compiled."""

    def __init__(self, linear: nn.Linear):
        if not has_int8():
            raise MachineError("this PyTorch has no 8-bit products here; set decoding.precision to fp32 or bf16")
        rounded, bias, bits = _rounded(linear), None if linear.bias is None else linear.bias.detach(), int8_bits()
        self._weight, self._reduced = linear.weight.detach(), bits == 7
        twice = "onednn" in torch.backends.quantized.supported_engines and bits == int8_bits("onednn") == 8
        library = build().library
        self.native: NativeProduct | None = None
        if library is not None and library.bits() >= bits:
            self.native = NativeProduct(library, rounded.int_repr(), rounded.q_per_channel_scales(), bias, bits)
        alone = self.native is not None and takes_all()
        few = None if self.native is not None and (twice or alone) else _packed(rounded, bias)
        many = _packed(rounded, bias, "onednn") if twice and not alone else few
        self._few: Product = self.native or partial(self._by_pytorch, few)
        self._many: Product = self.native if alone and self.native else partial(self._by_pytorch, many)

    def __call__(self, x: Tensor) -> Tensor:
        # under autocast rows are in half precision
        own = x.float() if x.is_floating_point() else x
        if not x.numel():
            return F.linear(own, self._weight).to(x.dtype)
        product = self._few if self.is_few(x) else self._many
        if isinstance(product, NativeProduct) and is_traced():
            weight, scales, bias, _ = product.given()
            product = partial(self._by_pytorch, _packed(_quantized(weight * scales[:, None], scales), bias))
        return product(own).to(x.dtype)

    def is_few(self, x: Tensor) -> bool:
        """Whether the product of few rows is the faster one."""
        rows, weights = int(x.numel() // x.shape[-1]), int(self._weight.numel())
        return rows < MANY_ROWS if self.native is None else is_few(rows, weights)

    def _by_pytorch(self, packed: Any, x: Tensor) -> Tensor:
        output: Tensor = torch.ops.quantized.linear_dynamic(torch.atleast_2d(x), packed, reduce_range=self._reduced)
        return output.view(*x.shape[:-1], len(self._weight))


def _rounded(linear: nn.Linear) -> Tensor:
    weight = linear.weight.detach()
    return _quantized(weight, weight.abs().amax(1).div(_LARGEST).clamp_min(_STEP))


def _quantized(weight: Tensor, scales: Tensor) -> Tensor:
    scales = scales.double()
    with warnings.catch_warnings():
        # PyTorch means to move quantized tensors to another package
        warnings.filterwarnings("ignore", message=".*torch.quantize_per", category=UserWarning)
        return torch.quantize_per_channel(weight, scales, torch.zeros(len(scales), dtype=torch.long), 0, torch.qint8)


def _packed(rounded: Tensor, bias: Tensor | None, engine: str | None = None) -> Any:
    """The rounded weight as a product of this engine reads it; None: PyTorch's choice."""
    # which engine multiplies is settled when a weight is packed
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = engine or before
    try:
        return torch.ops.quantized.linear_prepack(rounded, bias)
    finally:
        torch.backends.quantized.engine = before


class RoundedLinear(nn.Module):
    """A linear layer whose product is rounded: `bfloat16_product` or `int8_product`.

    It stands in the place of an `nn.Linear` while a model decodes; `python -m benchmarks.machine` sets it beside
    float32.
    """

    def __init__(self, linear: nn.Linear, product: Callable[[nn.Linear], Product]):
        super().__init__()
        self.linear = linear
        self.product = product(linear)
        self._states = [state_of(parameter) for parameter in linear.parameters()]
        self._sums = [_sums(parameter) for parameter in linear.parameters()]

    def forward(self, x: Float[Tensor, "*batch in_features"]) -> Float[Tensor, "*batch out_features"]:
        return self.product(x)

    @property
    def weight(self) -> Tensor:
        """The weight as it is."""
        return self.linear.weight

    @property
    def bias(self) -> Tensor | None:
        """The bias."""
        return self.linear.bias

    def is_current(self) -> bool:
        """Whether the copy still shows the parameters of the layer.

        What PyTorch changes in place is counted by a parameter itself. Fused optimizers, `weight.data`, NumPy and
        changes in inference mode count nothing: they are noticed by the sum of the bits of each row. A parameter that
        requires no gradient is not trained, and its bits are not summed, which takes as long as a short search.
        """
        for parameter, state, sums in zip(self.linear.parameters(), self._states, self._sums, strict=True):
            if state != state_of(parameter):
                return False
            if (parameter.requires_grad or parameter.is_inference()) and not torch.equal(sums, _sums(parameter)):
                return False
        return True


def is_rounded(linear: nn.Module, precision: Precision = "bf16") -> TypeGuard[nn.Linear]:
    """Whether rounding pays for this layer: a plain `nn.Linear`, large, in float32 on a processor."""
    if precision == "fp32" or type(linear) is not nn.Linear:
        return False
    weight, smallest = linear.weight, SMALLEST if precision == "bf16" else SMALLEST_INT8
    if precision == "int8" and build().library is not None:
        smallest = min(smallest, SMALLEST_COMPILED)
    return weight.device.type == "cpu" and weight.dtype == torch.float32 and weight.numel() >= smallest


def state_of(weight: Tensor) -> tuple[object, ...]:
    """Where a weight is, its type, and how often it was changed in place."""
    return weight.data_ptr(), weight.dtype, 0 if weight.is_inference() else weight._version


def _sums(weight: Tensor) -> Int[Tensor, "*rows"]:
    """The bits of each row of a float32 parameter as whole numbers, summed: another number is another sum."""
    # summed in 32 bits, where it may overflow: wider sums take eight times as long
    return weight.detach().view(torch.int32).sum(-1, dtype=torch.int32)


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

    def __call__(self, x: Tensor, parts: Sequence[P], within: Callable[[Tensor, P], Tensor]) -> Tensor:
        """x: (rows, d_model) of all parts; `within`: from the projected rows of a part to what they attend to."""
        projected = self._project(self._before(x))
        if len(parts) == 1:
            attended = within(projected, parts[0])
        else:
            rows = projected.split([part.sentences * part.width for part in parts])
            attended = torch.cat([within(own, part) for own, part in zip(rows, parts, strict=True)])
        return self._after(self._output(attended).add_(x))

    def by_heads(self, attend: Callable[[Tensor, P], Tensor], rows: Tensor, part: P) -> Tensor:
        """`attend`: from the heads of a part, (sentences, heads, width, head_dim), to what they attend to."""
        heads = rows.view(part.sentences, part.width, rows.shape[-1] // self.head_dim, self.head_dim).transpose(1, 2)
        return attend(heads, part).transpose(1, 2).flatten(2).flatten(0, 1)

    def packed(self, heads: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of a self-attention from its projection."""
        own, few = self.heads, self.kv_heads
        return heads.narrow(1, 0, own), heads.narrow(1, own, few), heads.narrow(1, own + few, few)


class PlainFeedForward:
    """A feed-forward network inside its residual."""

    def __init__(self, feed_forward: FeedForward | None, residual: Residual | None):
        assert feed_forward is not None
        assert residual is not None
        self._whole, self._relu = feed_forward, feed_forward.activation == "relu"
        self._inner, self._outer = _product(feed_forward.inner), _product(feed_forward.outer)
        self._before, self._after = _norm(residual.before), _norm(residual.after)

    def __call__(self, x: Tensor) -> Tensor:
        entering = self._before(x)
        output = self._outer(self._inner(entering).relu_()) if self._relu else self._whole(entering)
        return self._after(output.add_(x))


def attend_visible(query: Tensor, key: Tensor, value: Tensor, mask: Mask | None, grouped: bool) -> Tensor:
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
    norms = (residual.before, residual.after)
    plain = residual.skip and isinstance(residual.inside, nn.Identity)
    return plain and not any(isinstance(norm, TokenBatchNorm) for norm in norms)


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
    if (
        attention.latent
        or attention.limit is not None
        or attention.convolution is not None
        or attention.closing is not None
        or attention.gates is not None
        or attention.values != "own"
    ):
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


@dataclass(slots=True)
class Step(Part):
    """A step of one search: its sentences, each with so many beams, and what a layer keeps of them."""

    memory_mask: Mask | None
    memory_lens: Tensor | None
    own: AttentionStep
    cross: AttentionStep


class DecodingBlock(nn.Module):
    """A decoder block for cached steps: what `DecoderBlock` computes with the same arguments, in less time.

    At a few rows a step costs less than the Python around it. For scaled dot products under softmax without position
    biases. Where all products are in 8 bits and compiled (`layers.compiled`), C++ attends; a decoder of such blocks
    alone takes a step in one call.
    """

    def __init__(self, block: DecoderBlock):
        super().__init__()
        self.block = block
        self._own = PlainAttention(block.self_attention, block.self_residual)
        self._feed_forward = PlainFeedForward(block.feed_forward, block.feed_forward_residual)
        self._cross: PlainAttention | None = None
        if block.cross_attention is not None and block.cross_residual is not None:
            self._cross = PlainAttention(block.cross_attention, block.cross_residual)
        self.native = native_block(block, _native_product)

    @property
    def is_compiled(self) -> bool:
        """Whether cached steps run in C++."""
        return self.native is not None

    def forward(
        self,
        x: Vectors,
        memory: Float[Tensor, "batch memory_len width"] | None,
        *,
        mask: Mask | None,
        memory_mask: Mask | None,
        self_cache: AttentionStep | None = None,
        cross_cache: AttentionStep | None = None,
    ) -> Vectors:
        """What the block that this one was made of computes; cached steps go to `together`."""
        return self.block(x, memory, mask=mask, memory_mask=memory_mask, self_cache=self_cache, cross_cache=cross_cache)

    def together(self, x: Float[Tensor, "rows d_model"], parts: Sequence[Step]) -> Float[Tensor, "rows d_model"]:
        """One cached step of several searches."""
        native = self.native if self.native is not None and takes(x, parts) else None
        own, cross = self._own, self._cross
        x = own(x, parts, native.attend_own if native else partial(own.by_heads, self._attend_own))
        if cross is not None:
            x = cross(x, parts, native.attend_memory if native else partial(cross.by_heads, self._attend_memory))
        return self._feed_forward(x)

    def _attend_own(self, packed: Tensor, part: Step) -> Tensor:
        plain, step = self._own, part.own
        assert isinstance(step.memory, KeyValues)
        query, key, value = plain.packed(packed)
        if plain.position is not None:
            query, key = rotated(plain.position.rotate, query, step), rotated(plain.position.rotate_keys, key, step)
        if step.beams > 1 and not step.memory.shares_beams:
            shape = (query.shape[0], query.shape[2])
            query, key, value = (rows_of_beams(heads) for heads in (query, key, value))
            output = F.scaled_dot_product_attention(query, *step.memory.append(key, value), enable_gqa=plain.grouped)
            return output.squeeze(2).unflatten(0, shape).transpose(1, 2)
        key, value = step.memory.append(key, value)
        # a mask narrower than the query gives wrong numbers in silence
        bias = None if step.ancestry is None else step.ancestry.to(packed.dtype)
        return F.scaled_dot_product_attention(query, key, value, attn_mask=bias, enable_gqa=plain.grouped)

    def _attend_memory(self, query: Tensor, part: Step) -> Tensor:
        assert self._cross is not None
        assert isinstance(part.cross.memory, KeyValues)
        return attend_visible(query, *part.cross.memory.read(), part.memory_mask, self._cross.grouped)


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
        self._feed_forward = PlainFeedForward(block.feed_forward, block.feed_forward_residual)

    def forward(
        self, x: Vectors, mask: Mask | None, cache: AttentionStep | None = None, valid_lens: Lens = None
    ) -> Vectors:
        """What the block that this one was made of computes."""
        return self.block(x, mask, cache, valid_lens)

    def together(self, x: Float[Tensor, "rows d_model"], parts: Sequence[Read]) -> Float[Tensor, "rows d_model"]:
        """The tokens of several batches."""
        return self._feed_forward(self._own(x, parts, partial(self._own.by_heads, self._attend)))

    def _attend(self, packed: Tensor, part: Read) -> Tensor:
        query, key, value = self._own.packed(packed)
        if self._own.position is not None:
            query, key = self._own.position.rotate(query, 0), self._own.position.rotate_keys(key, 0)
        return attend_visible(query, key, value, part.mask, self._own.grouped)


def _native_product(layer: nn.Module) -> NativeProduct | None:
    product = layer.product if isinstance(layer, RoundedLinear) else None
    return product.native if isinstance(product, Int8Product) else None


def _made_of(child: nn.Module) -> nn.Module:
    if isinstance(child, DecodingBlock | EncodingBlock):
        return child.block
    return child.linear if isinstance(child, RoundedLinear) else child


def _twin(child: nn.Module) -> nn.Module:
    if isinstance(child, DecoderBlock) and is_plain(child):
        return DecodingBlock(child)
    return EncodingBlock(child) if type(child) is EncoderBlock and is_plain(child) else child


def _replace(model: nn.Module, instead: Callable[[nn.Module], nn.Module]) -> None:
    """Puts what the function gives in the place of every module inside the model."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            setattr(module, name, instead(child))

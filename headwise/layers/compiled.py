"""Products of 8 bits and cached steps of plain decoder blocks by `native.cpp`."""

import ctypes
from collections.abc import Callable, Sequence
from ctypes import Structure, c_float, c_int32, c_int64, c_void_p
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headwise.caches import AttentionStep, KeyValues
from headwise.layers.attention import MultiHeadAttention
from headwise.layers.blocks import DecoderBlock, Residual
from headwise.native import build

# of `Activation` in native.cpp
ACTIVATIONS = ("relu", "gelu")
# rows from which on oneDNN's 8-bit product is the faster one, where the processor has VNNI and no tiles, unless all are
# few numbers
MANY_ROWS, _FEW_PRODUCTS = 16, 24_000_000


class _Layer(Structure):
    _fields_ = (
        *((name, c_int64) for name in ("inputs", "outputs", "largest")),
        *((name, c_void_p) for name in ("weight", "scales", "bias", "sums")),
    )


class _Norm(Structure):
    _fields_ = (("weight", c_void_p), ("bias", c_void_p), ("eps", c_float), ("on", c_int32))


class _Attention(Structure):
    _fields_ = (
        ("project", _Layer),
        ("output", _Layer),
        ("before", _Norm),
        ("after", _Norm),
        *((name, c_int64) for name in ("heads", "kv_heads", "head_dim")),
    )


class _Block(Structure):
    _fields_ = (
        *((name, _Attention) for name in ("own", "cross")),
        *((name, _Layer) for name in ("inner", "outer")),
        *((name, _Norm) for name in ("before", "after")),
        *((name, c_int64) for name in ("activation", "crosses")),
    )


class NativeProduct:
    """x W^T + b of few rows in 8 bits: the sums and the rounding of `torch.ops.quantized.linear_dynamic`.

    Args:
        weight: rounded, (outputs, inputs).
        scales: of each output.
        bits: of the inputs, at most those of `exact_bits`.
    """

    def __init__(
        self,
        library: ctypes.CDLL,
        weight: Int[Tensor, "outputs inputs"],
        scales: Float[Tensor, "outputs"],
        bias: Float[Tensor, "outputs"] | None,
        bits: int,
    ):
        (outputs, inputs), lanes = weight.shape, library.lanes()
        padded = nn.functional.pad(weight, (0, -inputs % library.depth(), 0, -outputs % lanes))
        tensors = (
            # outputs side by side as the vectors of the processor hold them, four inputs of each together
            padded.unflatten(0, (-1, lanes)).unflatten(2, (-1, 4)).transpose(1, 2).contiguous(),
            scales.float().contiguous(),
            weight.new_zeros(outputs, dtype=torch.float32) if bias is None else bias.clone(),
            weight.sum(1, dtype=torch.int32),
        )
        self.outputs, self._library, self._tensors = outputs, library, tensors
        self.layer = _Layer(inputs, outputs, 2**bits - 1, *(tensor.data_ptr() for tensor in tensors))
        self._address = ctypes.addressof(self.layer)

    def __call__(self, x: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch outputs"]:
        x = x.contiguous()
        output = x.new_empty((*x.shape[:-1], self.outputs))
        self._library.multiply(self._address, x.data_ptr(), output.numel() // self.outputs, output.data_ptr())
        return output


class NativeAttention(NamedTuple):
    """An attention of a block: its products, the norms around it, and the sizes of its heads."""

    project: NativeProduct
    output: NativeProduct
    before: nn.Module
    after: nn.Module
    heads: int
    kv_heads: int
    head_dim: int

    def layout(self) -> _Attention:
        """As C++ reads it, without norms."""
        sizes = {"heads": self.heads, "kv_heads": self.kv_heads, "head_dim": self.head_dim}
        return _Attention(self.project.layer, self.output.layer, **sizes)


class NativeNetwork(NamedTuple):
    """The network of a block: its products, the norms around it, and one of `ACTIVATIONS`."""

    inner: NativeProduct
    outer: NativeProduct
    before: nn.Module
    after: nn.Module
    activation: str


@runtime_checkable
class SearchRows(Protocol):
    """The rows of one search in a step, as `inference.Step` has them."""

    sentences: int
    width: int
    memory_lens: Tensor | None
    own: AttentionStep
    cross: AttentionStep


class NativeBlock:
    """A cached step of a decoder block whose products are in 8 bits: what `DecodingBlock` computes, to rounding.

    Norms are of `nn.LayerNorm` with weight and bias, or identities.

    Args:
        cross: None: a block without memory.
    """

    def __init__(
        self, library: ctypes.CDLL, own: NativeAttention, cross: NativeAttention | None, network: NativeNetwork
    ):
        self._library, self._kept = library, (own, cross, network)
        self._block = block = _Block(
            own.layout(),
            _Attention() if cross is None else cross.layout(),
            network.inner.layer,
            network.outer.layer,
            activation=ACTIVATIONS.index(network.activation),
            crosses=cross is not None,
        )
        pairs = [(block.own.before, own.before), (block.own.after, own.after)]
        pairs += [(block.before, network.before), (block.after, network.after)]
        if cross is not None:
            pairs += [(block.cross.before, cross.before), (block.cross.after, cross.after)]
        self._norms = [(place, norm) for place, norm in pairs if isinstance(norm, nn.LayerNorm)]
        self._address = ctypes.addressof(block)

    def step(self, x: Float[Tensor, "rows width"], parts: Sequence[SearchRows]) -> Float[Tensor, "rows width"]:
        """The step of all these searches, for few rows."""
        # a parameter may be elsewhere than before
        for place, norm in self._norms:
            place.weight, place.bias, place.eps, place.on = norm.weight.data_ptr(), norm.bias.data_ptr(), norm.eps, 1
        numbers = [number for part in parts for number in self._numbers(x, part, grow=True)]
        output = x.clone()
        self._library.step(
            self._address, (c_int64 * len(numbers))(*numbers), len(parts), output.data_ptr(), output.shape[0]
        )
        return output

    def is_few(self, rows: int) -> bool:
        """Whether one call is faster than products one by one."""
        return is_few(rows, max(layer.inputs * layer.outputs for layer in (self._block.inner, self._block.own.project)))

    def attend_own(self, packed: Float[Tensor, "rows packed"], part: SearchRows) -> Float[Tensor, "rows width"]:
        """What the rows of one search attend to among their own steps, from their queries, keys and values."""
        return self._attend(self._kept[0], _Block.own.offset, packed, part, grow=True)

    def attend_memory(self, packed: Float[Tensor, "rows packed"], part: SearchRows) -> Float[Tensor, "rows width"]:
        """What they attend to in the memory, from their queries."""
        assert self._kept[1] is not None
        return self._attend(self._kept[1], _Block.cross.offset, packed, part, grow=False)

    def _attend(
        self, attention: NativeAttention, offset: int, packed: Tensor, part: SearchRows, *, grow: bool
    ) -> Tensor:
        numbers, packed = self._numbers(packed, part, grow=grow), packed.contiguous()
        output = packed.new_empty(packed.shape[0], attention.heads * attention.head_dim)
        self._library.attend(
            self._address + offset, (c_int64 * len(numbers))(*numbers), grow, packed.data_ptr(), output.data_ptr()
        )
        return output

    def _numbers(self, like: Tensor, part: SearchRows, *, grow: bool) -> list[int]:
        """A `Part` of native.cpp; `grow`: with room for the keys of this step."""
        memory, ancestry = part.own.memory, part.own.ancestry
        assert isinstance(memory, KeyValues)
        if grow:
            own = self._kept[0]
            memory.make_room(like, (part.sentences, own.kv_heads, part.width, own.head_dim))
        lens = 0 if part.memory_lens is None else part.memory_lens.data_ptr()
        hidden = (0, 0, 0) if ancestry is None else (ancestry.data_ptr(), ancestry.stride(0), ancestry.stride(2))
        return [part.sentences, part.width, *_places(memory), *_places(part.cross.memory), *hidden, lens]


def native_block(block: DecoderBlock, product_of: Callable[[nn.Module], NativeProduct | None]) -> NativeBlock | None:
    """The block in C++; None where one of its products is not, or where something else needs Python.

    Args:
        block: one of scaled dot products under softmax (`inference.is_plain`).
    """
    library, network, residual = build().library, block.feed_forward, block.feed_forward_residual
    own, cross = _attention(block.self_attention, block.self_residual, product_of), None
    if block.cross_attention is not None:
        cross = _attention(block.cross_attention, block.cross_residual, product_of)
    if library is None or own is None or (cross is None) != (block.cross_attention is None):
        return None
    if network is None or residual is None or network.activation not in ACTIVATIONS or not _has_known_norms(residual):
        return None
    inner, outer = product_of(network.inner), product_of(network.outer)
    if inner is None or outer is None:
        return None
    ends = NativeNetwork(inner, outer, residual.before, residual.after, network.activation)
    return NativeBlock(library, own, cross, ends)


def _attention(
    attention: MultiHeadAttention, residual: Residual | None, product_of: Callable[[nn.Module], NativeProduct | None]
) -> NativeAttention | None:
    if residual is None:
        return None
    project, output = product_of(attention.projection), product_of(attention.output)
    if project is None or output is None or attention.position is not None or not _has_known_norms(residual):
        return None
    sizes = attention.num_heads, attention.num_kv_heads, attention.head_dim
    return NativeAttention(project, output, residual.before, residual.after, *sizes)


def _has_known_norms(residual: Residual) -> bool:
    return all(map(_is_known, (residual.before, residual.after)))


def _is_known(norm: nn.Module) -> bool:
    if type(norm) is not nn.LayerNorm:
        return isinstance(norm, nn.Identity)
    return all(part is not None and part.dtype == torch.float32 for part in (norm.weight, norm.bias))


def is_few(rows: int, weights: int) -> bool:
    """Whether a product of so many rows with so many weights is the faster one here: by tiles any is."""
    return has_tiles() or rows < MANY_ROWS or rows * weights <= _FEW_PRODUCTS


def has_tiles() -> bool:
    """Whether products in C++ run on tiles (AMX) of this processor."""
    library = build().library
    return library is not None and bool(library.has_tiles())


def takes(x: Tensor, parts: Sequence[SearchRows]) -> bool:
    """Whether a `NativeBlock` computes these rows: in float32, and the hypotheses of a sentence share its keys."""
    return x.dtype == torch.float32 and x.is_cpu and all(map(_is_shared, parts))


def _is_shared(part: SearchRows) -> bool:
    lens, memory = part.memory_lens, part.own.memory
    shared = isinstance(memory, KeyValues) and (part.own.beams == 1 or memory.shares_beams)
    return shared and (lens is None or (lens.dtype == torch.int64 and lens.is_contiguous()))


def _places(memory: object) -> tuple[int, ...]:
    """Keys and values: where they are, the strides of a sentence, a head and a key, and how many there are."""
    if not isinstance(memory, KeyValues) or memory.keys is None or memory.values is None:
        return (0,) * 9
    keys, values = memory.keys, memory.values
    return keys.data_ptr(), values.data_ptr(), *keys.stride()[:3], *values.stride()[:3], memory.used

"""Products of 8 bits and cached steps of plain decoder blocks by `native.cpp`."""

import ctypes
import weakref
from collections.abc import Callable, Sequence
from ctypes import Structure, c_float, c_int32, c_int64, c_void_p
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headwise.caches import AttentionStep, KeyValues
from headwise.errors import MachineError, ShapeError
from headwise.layers.attention import MultiHeadAttention
from headwise.layers.blocks import DecoderBlock, Residual
from headwise.native import build

# of `Activation` in native.cpp
ACTIVATIONS = ("relu", "gelu")
# rows from which on oneDNN's 8-bit product is the faster one, where the processor has VNNI, unless all are few numbers:
# of one thread, of several, and of several beside tiles
MANY_ROWS, _ALONE_PRODUCTS, _FEW_PRODUCTS, _TILED_PRODUCTS = 16, 72_000_000, 24_000_000, 48_000_000
# threads beside which tiles on one are faster for any number
_FEW_THREADS = 2


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


class _Memory(Structure):
    _fields_ = (
        *((name, c_void_p) for name in ("keys", "values")),
        *((name, c_int64 * 3) for name in ("key_strides", "value_strides")),
        ("length", c_int64),
    )


class _Part(Structure):
    _fields_ = (
        *((name, c_int64) for name in ("sentences", "width")),
        *((name, _Memory) for name in ("own", "cross")),
        ("bias", c_void_p),
        ("bias_strides", c_int64 * 2),
        ("lens", c_void_p),
    )


class NativeProduct:
    """x W^T + b in 8 bits: the sums and the rounding of `torch.ops.quantized.linear_dynamic`.

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

    def given(self) -> tuple[Int[Tensor, "outputs inputs"], Float[Tensor, "outputs"], Float[Tensor, "outputs"], int]:
        """Weight, scales, bias and bits, as they were given."""
        panels, scales, bias, _ = self._tensors
        weight = panels.transpose(1, 2).flatten(2).flatten(0, 1)[: self.outputs, : self.layer.inputs]
        return weight.contiguous(), scales, bias, self.layer.largest.bit_length()

    def __reduce__(self) -> tuple[object, ...]:
        # it may be read on another processor
        return _product, self.given()

    def __call__(self, x: Tensor) -> Float[Tensor, "*batch outputs"]:
        """Raises: ShapeError: C++ cannot read x: it is of another width or type, or not in the processor's memory."""
        if x.shape[-1] != self.layer.inputs or x.dtype != torch.float32 or not x.is_cpu:
            raise ShapeError(
                f"a product in C++ reads {self.layer.inputs} numbers of float32 a row on a processor, got rows of"
                f" {x.shape[-1]} in {x.dtype} on {x.device}"
            )
        x = x.contiguous().resolve_neg()
        output = x.new_empty((*x.shape[:-1], self.outputs))
        self._library.multiply(self._address, x.data_ptr(), output.numel() // self.outputs, output.data_ptr())
        return output


def _product(weight: Tensor, scales: Tensor, bias: Tensor, bits: int) -> NativeProduct:
    library, reason, _ = build()
    if library is None or library.bits() < bits:
        raise MachineError(f"a product of {bits} bits in C++ cannot be read here ({reason}): round the layer here")
    return NativeProduct(library, weight, scales, bias, bits)


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
        self.library, self._kept = library, (own, cross, network)
        self._block = block = _Block(
            own.layout(),
            _Attention() if cross is None else cross.layout(),
            network.inner.layer,
            network.outer.layer,
            activation=ACTIVATIONS.index(network.activation),
            crosses=cross is not None,
        )
        self.address, self.kv_heads, self.head_dim = ctypes.addressof(block), own.kv_heads, own.head_dim
        self.largest = max(layer.inputs * layer.outputs for layer in (block.inner, block.own.project))

    def __deepcopy__(self, memo: object) -> "NativeBlock":
        # only read, as the parameters that a copied `DecodingBlock` goes on sharing
        return self

    def norms(self) -> list[nn.Module]:
        """Those around the attentions and the network, as `shown` takes their places."""
        residuals = [part for part in self._kept if part is not None]
        return [norm for part in residuals for norm in (part.before, part.after)]

    def shown(self) -> tuple[_Block, list[Tensor]]:
        """As C++ reads a whole step of it now, and the parameters of norms, elsewhere by the next search maybe."""
        block, tensors = _Block.from_buffer_copy(self._block), []
        holders = [block.own, *([block.cross] if block.crosses else []), block]
        places = [place for holder in holders for place in (holder.before, holder.after)]
        for place, norm in zip(places, self.norms(), strict=True):
            tensors += _show(place, norm)
        return block, tensors

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
        memory, rows, packed = part.own.memory, (part.sentences, part.width), packed.contiguous()
        assert isinstance(memory, KeyValues)
        if grow:
            self.make_room(like=packed, memory=memory, rows=rows)
        shown = _Part(*rows, _places(memory), _places(part.cross.memory), *_hidden(part.own.ancestry))
        shown.lens = _start(part.memory_lens)
        output = packed.new_empty(packed.shape[0], attention.heads * attention.head_dim)
        self.library.attend(self.address + offset, ctypes.addressof(shown), grow, packed.data_ptr(), output.data_ptr())
        return output

    def make_room(self, like: Tensor, memory: KeyValues, rows: tuple[int, int]) -> None:
        """Room for the keys and values of one more step of so many sentences and rows of each."""
        memory.make_room(like, (rows[0], self.kv_heads, rows[1], self.head_dim))


@runtime_checkable
class SearchCache(Protocol):
    """What a search keeps of all layers, as `TransformerCache` has it."""

    sentences: int
    beams: int
    memory_lens: Tensor | None

    @property
    def layers(self) -> Sequence[tuple[object, KeyValues]]:
        """The cache of each layer's own keys, and of the memory's."""


def _nothing() -> None:
    """What no tensor is."""


class _Shown(NamedTuple):
    """The tensors that a `Part` shows, of so many sentences and rows of each, and the keys that there is room for.

    They are not kept alive.
    """

    keys: Callable[[], Tensor | None] = _nothing
    memory: Callable[[], Tensor | None] = _nothing
    rows: tuple[int, int] = (0, 0)
    room: int = 0


class NativeSearch:
    """The steps of one search through all blocks of a decoder and its closing norm, each in one call.

    Args:
        norm: one that `native_search` knows.
    """

    def __init__(self, blocks: Sequence[NativeBlock], norm: nn.Module):
        self._blocks, self._norm, self._closing = blocks, norm, _Norm()
        # the norms of this moment: a search goes on with them when a parameter moves
        self._kept = [block.shown() for block in blocks], _show(self._closing, norm)
        self._addresses = (c_void_p * len(blocks))(*(ctypes.addressof(block) for block, _ in self._kept[0]))
        # of each layer, and the tensors that it shows
        self._parts = (_Part * len(blocks))()
        self._shown = [_Shown()] * len(blocks)

    def __deepcopy__(self, memo: object) -> "NativeSearch":
        # of a copied cache, by the same blocks: what its parts show is elsewhere
        return NativeSearch(self._blocks, self._norm)

    def takes(self, x: Tensor, cache: SearchCache) -> bool:
        """Whether these rows are for C++: few, in float32, and the hypotheses of a sentence share its keys."""
        own, lens = cache.layers[0][0], cache.memory_lens
        known = (
            isinstance(own, KeyValues)
            and (cache.beams == 1 or own.shares_beams)
            and _is_readable(lens, cache.sentences)
        )
        known = known and all(_is_float(kept) for layer in cache.layers for kept in layer)
        known = known and x.dtype == torch.float32 and x.is_cpu and not is_traced()
        return known and is_few(len(x), self._blocks[0].largest)

    def parts(self, like: Tensor, cache: SearchCache, ancestry: Tensor | None) -> int:
        """Makes room for a step; where the parts are."""
        hidden, rows = _hidden(ancestry), (cache.sentences, cache.beams)
        for layer, (own, cross) in enumerate(cache.layers):
            assert isinstance(own, KeyValues)
            part, shown, used = self._parts[layer], self._shown[layer], own.used + cache.beams
            # most steps move nothing
            if own.keys is shown.keys() and cross.keys is shown.memory() and rows == shown.rows and used <= shown.room:
                own.used = part.own.length = used
            else:
                self._blocks[layer].make_room(like, own, rows)
                assert own.keys is not None
                memory = _nothing if cross.keys is None else weakref.ref(cross.keys)
                self._shown[layer] = _Shown(weakref.ref(own.keys), memory, rows, own.keys.shape[2])
                part.sentences, part.width, part.own, part.cross = *rows, _places(own), _places(cross)
                part.lens = _start(cache.memory_lens)
            part.bias, part.bias_strides = hidden
        return ctypes.addressof(self._parts)

    def step(self, x: Float[Tensor, "rows width"], parts: Sequence[int]) -> Float[Tensor, "rows width"]:
        """The step of all searches whose `parts` these are."""
        output, library = x.clone(memory_format=torch.contiguous_format), self._blocks[0].library
        searches = (c_void_p * len(parts))(*parts)
        sizes = len(self._blocks), ctypes.addressof(self._closing)
        library.steps(self._addresses, *sizes, searches, len(parts), output.data_ptr(), len(output))
        return output


def native_search(blocks: Sequence[NativeBlock | None], norm: nn.Module) -> NativeSearch | None:
    """A search by these blocks and this closing norm; None where one of them is not in C++."""
    known = [block for block in blocks if block is not None]
    norms = [norm, *(own for block in known for own in block.norms())]
    return NativeSearch(known, norm) if known and len(known) == len(blocks) and all(map(_is_known, norms)) else None


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


def _show(place: _Norm, norm: nn.Module) -> list[Tensor]:
    """Writes where the parameters of a norm are; these."""
    if not isinstance(norm, nn.LayerNorm):
        return []
    weight, bias = norm.weight.detach().contiguous(), norm.bias.detach().contiguous()
    place.weight, place.bias, place.eps, place.on = weight.data_ptr(), bias.data_ptr(), norm.eps, 1
    return [weight, bias]


def is_few(rows: int, weights: int) -> bool:
    """Whether a product of so many rows with so many weights is faster here, on one thread, than oneDNN's on all."""
    if takes_all() or rows < MANY_ROWS:
        return True
    alone = torch.get_num_threads() == 1
    return rows * weights <= (_TILED_PRODUCTS if has_tiles() else _ALONE_PRODUCTS if alone else _FEW_PRODUCTS)


def takes_all() -> bool:
    """Whether any product is: by tiles, unless many threads share one of oneDNN's."""
    return has_tiles() and torch.get_num_threads() <= _FEW_THREADS


def has_tiles() -> bool:
    """Whether products in C++ run on tiles (AMX) of this processor."""
    return build().tiles


def takes(x: Tensor, parts: Sequence[SearchRows]) -> bool:
    """Whether a `NativeBlock` computes these rows: in float32, and the hypotheses of a sentence share its keys."""
    return x.dtype == torch.float32 and x.is_cpu and all(map(_is_shared, parts)) and not is_traced()


def is_traced() -> bool:
    """Whether PyTorch writes down what is computed: it sees nothing of C++."""
    return torch.jit.is_tracing() or torch.compiler.is_compiling()


def _is_shared(part: SearchRows) -> bool:
    memory = part.own.memory
    shared = isinstance(memory, KeyValues) and (part.own.beams == 1 or memory.shares_beams)
    return (
        shared and _is_readable(part.memory_lens, part.sentences) and _is_float(memory) and _is_float(part.cross.memory)
    )


def _is_readable(lens: Tensor | None, sentences: int) -> bool:
    return lens is None or (lens.dtype == torch.int64 and lens.shape == (sentences,) and lens.is_contiguous())


def _is_float(memory: object) -> bool:
    """Whether C++ can read these keys and values: under autocast they may be in half precision."""
    if not isinstance(memory, KeyValues) or memory.keys is None or memory.values is None:
        return True
    return memory.keys.dtype == memory.values.dtype == torch.float32


def _hidden(ancestry: Tensor | None) -> tuple[int, tuple[int, int]]:
    """Which keys a row sees: where the bias is, its strides of a sentence and a row."""
    return (0, (0, 0)) if ancestry is None else (ancestry.data_ptr(), (ancestry.stride(0), ancestry.stride(2)))


def _start(lens: Tensor | None) -> int:
    return 0 if lens is None else lens.data_ptr()


def _places(memory: object) -> _Memory:
    """Where keys and values are, the strides of a sentence, a head and a key, and how many there are."""
    if not isinstance(memory, KeyValues) or memory.keys is None or memory.values is None:
        return _Memory()
    keys, values = memory.keys, memory.values
    return _Memory(keys.data_ptr(), values.data_ptr(), keys.stride()[:3], values.stride()[:3], memory.used)

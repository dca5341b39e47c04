"""The Transformer encoder-decoder, and how it is built from its configuration."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headwise.attention.masks import Causal, Mask, Padding, Place, Shifts
from headwise.attention.zeros import zeroed_beyond
from headwise.caches import AttentionStep, Cache, Segments
from headwise.errors import ConfigError, ShapeError
from headwise.layers.around import FirstValues
from headwise.layers.blocks import DecoderBlock, EncoderBlock
from headwise.layers.compiled import native_search
from headwise.layers.embeddings import TokenEmbedding
from headwise.layers.inference import DecodingBlock, EncodingBlock, Read, Step
from headwise.layers.norms import TokenBatchNorm, normed
from headwise.models.initializers import Scheme, initialize
from headwise.models.protocols import Decoder, Encoder, Lens, Memory, Seq2Seq
from headwise.models.reversible import ReversibleEncoder
from headwise.models.transformer_cache import TransformerCache
from headwise.models.transformer_config import BlocksConfig, DecoderConfig, TransformerConfig
from headwise.models.transformer_parts import (
    build_positions,
    closing_norm,
    decoder_block,
    encoder_block,
    layer_positions,
    token_embedding,
    vocabulary_output,
)
from headwise.positions import Position

M = TypeVar("M", bound=nn.Module)

# below this share of real tokens, leaving the padding out of a product is faster
_DENSE = 0.8


class TransformerEncoder(Encoder):
    """Embeddings below a stack of encoder blocks; a reversible stack is one block.

    Args:
        embedding: maps token numbers, or vectors without positions, to vectors.
        norm: closes a pre-norm stack.
        mask: which pairs may meet within the lengths; None: all. A causal mask needs no lengths, since padding comes
            last.
        segment: length of a segment; its tokens also see the inputs of the segment before. None: one segment.
    """

    def __init__(
        self,
        embedding: nn.Module,
        blocks: Sequence[EncoderBlock | ReversibleEncoder],
        norm: nn.Module,
        mask: Mask | None = None,
        segment: int | None = None,
    ):
        super().__init__()
        self.embedding, self.blocks, self.norm = embedding, nn.ModuleList(blocks), norm
        self.shares_values = _share_values(blocks)
        self.mask, self.segment = mask, segment

    def forward(
        self, inputs: Int[Tensor, "batch src_len"] | Float[Tensor, "batch src_len width"], valid_lens: Lens
    ) -> Memory:
        # zeros beyond the lengths, so that nothing there reaches a gradient
        x = zeroed_beyond(self.embedding(inputs), valid_lens)
        x = self._encode(x, valid_lens) if self.segment is None else self._encode_segments(x, valid_lens)
        return Memory(normed(self.norm, x, valid_lens))

    def read_all(self, batches: Sequence[tuple[Tensor, Int[Tensor, "_"]]]) -> list[Memory]:
        blocks = [block for block in self.blocks if isinstance(block, EncodingBlock)]
        plain = self.mask is None and self.segment is None and not isinstance(self.norm, TokenBatchNorm)
        if not plain or len(blocks) < len(self.blocks):
            return super().read_all(batches)
        embedded = [self.embedding(inputs) for inputs, _ in batches]
        masks = [Padding(lens).shared() for _, lens in batches]
        parts = [Read(own.shape[0], own.shape[1], mask) for own, mask in zip(embedded, masks, strict=True)]
        x = torch.cat([own.flatten(0, 1) for own in embedded])
        for block in blocks:
            x = block.together(x, parts)
        read = self.norm(x).split([part.sentences * part.width for part in parts])
        return [Memory(own.view_as(x)) for own, x in zip(read, embedded, strict=True)]

    def _encode(self, x: Tensor, valid_lens: Tensor) -> Tensor:
        mask = self._visible(valid_lens).shared()
        first = _first_values(self.shares_values)
        for block in self.blocks:
            x = block(x, mask, valid_lens=valid_lens, **first)
        return x

    def _visible(self, valid_lens: Tensor) -> Mask:
        if self.mask is not None and self.mask.structure().causal:
            return self.mask
        padding = Padding(valid_lens)
        return padding if self.mask is None else padding & self.mask

    def _encode_segments(self, x: Tensor, valid_lens: Tensor) -> Tensor:
        """Segment by segment, as Transformer-XL reads (Dai et al. 2019, arXiv:1901.02860, section 3.2)."""
        assert self.segment is not None
        memories, states = [Segments(self.segment) for _ in self.blocks], []
        for start in range(0, x.shape[1], self.segment):
            part, inside = x[:, start : start + self.segment], (valid_lens - start).clamp(0, self.segment)
            # keys count from the start of the segment before
            before = max(0, start - self.segment)
            mask = Padding((valid_lens - before).clamp(0, start - before + part.shape[1])).shared()
            first = _first_values(self.shares_values)
            for block, segments in zip(self.blocks, memories, strict=True):
                part = block(part, mask, AttentionStep(segments, 0), inside, **first)
            states.append(part)
        return torch.cat(states, dim=1) if states else x


class TransformerDecoder(Decoder):
    """Embeddings below a stack of decoder blocks, below the vocabulary; without cross-attention, no memory.

    Args:
        embedding: maps token numbers or vectors, and the position of the first, to vectors.
        output: maps states to the logits, or other predictions, of the next position.
    """

    def __init__(self, embedding: nn.Module, blocks: list[DecoderBlock], norm: nn.Module, output: nn.Linear):
        super().__init__()
        self.embedding, self.blocks, self.norm, self.output = embedding, nn.ModuleList(blocks), norm, output
        self.shares_values = _share_values(blocks)

    def hidden(
        self,
        tokens: Int[Tensor, "batch tgt_len"] | Float[Tensor, "batch tgt_len columns"],
        memory: Memory | None,
        memory_lens: Lens | None,
        segments: Sequence[Segments] | None = None,
    ) -> Float[Tensor, "batch tgt_len width"]:
        """`segments`: the memory of each layer of earlier tokens; these are added to it.

        Raises: ShapeError for segments of another number of layers.
        """
        if segments is not None and len(segments) != len(self.blocks):
            raise ShapeError(
                f"the model has {len(self.blocks)} layers, got the segments of {len(segments)}: one for each layer,"
                " as DecoderOnly.segments() makes them"
            )
        mask, memory_mask = Causal().shared(), None if memory_lens is None else Padding(memory_lens).shared()
        states = None if memory is None else memory.states
        x, first = self.embedding(tokens), _first_values(self.shares_values)
        for layer, block in enumerate(self.blocks):
            before = None if segments is None else AttentionStep(segments[layer], 0)
            x = block(x, states, mask=mask, memory_mask=memory_mask, self_cache=before, **first)
        return self.norm(x)

    def start(self, memory: Memory, memory_lens: Lens) -> TransformerCache:
        """Projects the memory for every layer, once; beams share it.

        Raises: ShapeError: lengths of other sentences, or beyond the memory.
        """
        batch, length = memory.states.shape[:2]
        Padding(memory_lens).structure(Place(batch, 1, 2, length, 0, memory.states.device))
        cache = self.empty(memory.states, memory_lens)
        read, spread = _without_padding(memory.states, memory_lens)
        for block, (_, cross) in zip(self.blocks, cache.layers, strict=True):
            attention = _original(block).cross_attention
            assert attention is not None
            key, value = attention.project_memory(read)
            cross.fill(spread(key), spread(value))
        return cache

    def empty(self, rows: Tensor, memory_lens: Lens | None = None) -> TransformerCache:
        """An empty cache with one sentence per row."""
        layers = [_original(block).self_attention for block in self.blocks]
        positions = (layer.position for layer in layers)
        placed = any(position is not None and position.acts_on_scores() for position in positions)
        cache = TransformerCache([layer.new_cache() for layer in layers], rows, memory_lens, placed)
        natives = [block.native if isinstance(block, DecodingBlock) else None for block in self.blocks]
        cache.native, cache.compiled = native_search(natives, self.norm), any(natives)
        return cache

    def extend(
        self, tokens: Int[Tensor, "batch new"] | Float[Tensor, "batch new columns"], cache: TransformerCache
    ) -> Float[Tensor, "batch new width"]:
        """Adds many tokens to the cache in one pass, before there are beams; what the closing norm would read."""
        assert cache.beams == 1, "the tokens of a prompt come before there are beams"
        x, mask = self.embedding(tokens, cache.length), Causal().shared()
        first, memory_mask = _first_values(self.shares_values), cache.memory_mask
        for block, (own, cross) in zip(self.blocks, cache.layers, strict=True):
            steps = AttentionStep(own, cache.length), AttentionStep(cross, 0) if cross.fixed else None
            x = block(x, None, mask=mask, memory_mask=memory_mask, self_cache=steps[0], cross_cache=steps[1], **first)
        cache.length += tokens.shape[1]
        return x

    def step(
        self, tokens: Int[Tensor, "rows"] | Float[Tensor, "rows columns"], cache: Cache
    ) -> Float[Tensor, "rows vocab"]:
        return self.step_all([tokens], [cache])

    def step_all(
        self, tokens: Sequence[Tensor], caches: Sequence[Cache], beside: Callable[[], object] = lambda: None
    ) -> Float[Tensor, "rows vocab"]:
        own = [cache for cache in caches if isinstance(cache, TransformerCache)]
        assert len(own) == len(caches), "the caches of a decoder are those that its start() and empty() make"
        pairs = list(zip(tokens, own, strict=True))
        # the sizes of a program are not numbers
        for last, cache in pairs if not torch.compiler.is_exporting() else ():
            cache.check_rows(len(last))
        embedded = [self.embedding(last[:, None], cache.length).squeeze(1) for last, cache in pairs]
        x = torch.cat(embedded) if len(embedded) > 1 else embedded[0]
        natives = [cache.native for cache in own if cache.native is not None and cache.native.takes(x, cache)]
        if len(natives) == len(own):
            parts = [native.parts(x, cache, cache.advance()) for native, cache in zip(natives, own, strict=True)]
            x = natives[0].step(x, parts)
        else:
            x = self._by_blocks(x, own)
        beside()
        return self.output(x)

    def _by_blocks(self, x: Tensor, caches: Sequence[TransformerCache]) -> Tensor:
        parts, first = [cache.next_step() for cache in caches], [_first_values(self.shares_values) for _ in caches]
        for layer, block in enumerate(self.blocks):
            own = [part[layer] for part in parts]
            x = block.together(x, own) if isinstance(block, DecodingBlock) else _one_by_one(block, x, own, first)
        return self.norm(x)


def _share_values(blocks: Sequence[nn.Module]) -> bool:
    """Whether the layers of a stack mix the values of the first into theirs."""
    return any(getattr(block, "self_attention", None) and block.self_attention.values != "own" for block in blocks)


def _first_values(shared: bool) -> dict[str, FirstValues]:
    """What the blocks are given beside their input, new for each pass."""
    return {"first": FirstValues()} if shared else {}


def _one_by_one(block: nn.Module, x: Tensor, parts: Sequence[Step], first: Sequence[dict[str, FirstValues]]) -> Tensor:
    """One cached step of each search; the beams lie along the sequence axis."""
    rows = [x] if len(parts) == 1 else x.split([part.sentences * part.width for part in parts])
    outputs = [
        block(
            own.view(part.sentences, part.width, -1),
            None,
            mask=None,
            memory_mask=part.memory_mask,
            self_cache=part.own,
            cross_cache=part.cross,
            **shared,
        ).flatten(0, 1)
        for own, part, shared in zip(rows, parts, first, strict=True)
    ]
    return torch.cat(outputs) if len(outputs) > 1 else outputs[0]


def _without_padding(states: Tensor, lens: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """The states to project, as one sequence without padding where much is padding, and the way back to the batch."""
    batch, length = states.shape[:2]
    if not states.is_cpu or int(lens.sum()) > _DENSE * batch * length:
        return states, lambda heads: heads
    rows = (torch.arange(length) < lens[:, None]).flatten().nonzero().squeeze(1)

    def spread(heads: Tensor) -> Tensor:
        padded = heads.new_zeros(batch * length, heads.shape[1], heads.shape[3])
        padded.index_copy_(0, rows, heads.squeeze(0).transpose(0, 1))
        return padded.unflatten(0, (batch, length)).transpose(1, 2)

    return states.flatten(0, 1).index_select(0, rows)[None], spread


def _original(block: nn.Module) -> DecoderBlock:
    original = block.block if isinstance(block, DecodingBlock) else block
    assert isinstance(original, DecoderBlock)
    return original


def build_transformer(config: TransformerConfig, src_vocab: int, tgt_vocab: int, *, joint: bool) -> Seq2Seq:
    """The model of a configuration; `joint`: source and target share one vocabulary."""
    if joint and config.tie_embeddings and src_vocab != tgt_vocab:
        raise ConfigError(f"a joint vocabulary has one size, got {src_vocab} and {tgt_vocab}")
    position = build_positions(config)
    shared = config.tie_positions and config.decoder_position is None
    written = position if shared else build_positions(config, config.decoder_position)
    source = token_embedding(config, src_vocab, position)
    target = token_embedding(config, tgt_vocab, written)
    if joint and config.tie_embeddings:
        target.weight = source.weight
    encoder = build_encoder(config, source, position)
    mechanism = config.decoder_mechanism or config.mechanism
    decoder = build_writer(config, target, mechanism, config.decoder_layers, cross=True)
    model = Seq2Seq(encoder, decoder)
    return initialize_and_tie(model, model.decoder, config.initializer, config.tie_output)


def build_encoder(
    config: BlocksConfig, embedding: nn.Module, position: Position, mask: Mask | None = None
) -> TransformerEncoder:
    """The encoder of a configuration, its weights not yet initialised.

    Args:
        position: acts inside its attention.
        mask: which pairs may meet, where heads are not those of a convolution; None: all.
    """
    positions = layer_positions(config, position, config.encoder_layers)
    blocks = [encoder_block(config, own, layer) for layer, own in enumerate(positions)]
    steps = tuple(head - config.num_heads // 2 for head in range(config.num_heads))
    mask = config.limited(Shifts(steps) if config.convolution_heads else mask)
    stack = [ReversibleEncoder(blocks)] if config.reversible else blocks
    return TransformerEncoder(embedding, stack, closing_norm(config), mask, config.segment)


def build_writer(
    config: TransformerConfig | DecoderConfig,
    embedding: TokenEmbedding,
    mechanism: str,
    num_layers: int,
    *,
    cross: bool,
) -> TransformerDecoder:
    """The decoder over these embeddings; `cross`: its blocks attend to a memory."""
    output = vocabulary_output(config, embedding.weight.shape[0])
    positions = layer_positions(config, embedding.position, num_layers)
    blocks = [decoder_block(config, own, mechanism, layer, cross=cross) for layer, own in enumerate(positions)]
    return TransformerDecoder(embedding, blocks, closing_norm(config), output)


def initialize_and_tie(model: M, decoder: Decoder, scheme: Scheme, tie_output: bool) -> M:
    """The model with weights of this scheme; `tie_output`: its output matrix is the embedding."""
    initialize(model, scheme)
    if tie_output:
        assert isinstance(decoder, TransformerDecoder)
        assert isinstance(decoder.embedding, TokenEmbedding)
        decoder.output.weight = decoder.embedding.weight
    return model

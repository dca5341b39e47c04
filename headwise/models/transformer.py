"""The Transformer encoder-decoder, and how it is built from its configuration."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headwise.attention import mechanisms, normalizers, scores
from headwise.attention.masks import Causal, Mask, Padding, Shifts
from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.attention.mechanisms.scored import Scored
from headwise.attention.zeros import zeroed_beyond
from headwise.caches import Ancestry, AttentionStep, Cache, KeyValues, Segments, States
from headwise.errors import ConfigError
from headwise.layers.attention import MultiHeadAttention
from headwise.layers.blocks import DecoderBlock, EncoderBlock, Residual
from headwise.layers.decoding import DecodingBlock
from headwise.layers.embeddings import TokenEmbedding
from headwise.layers.feed_forward import FeedForward
from headwise.layers.initializers import initialize
from headwise.layers.reversible import ReversibleEncoder
from headwise.models.protocols import Decoder, Encoder, Memory, Seq2Seq
from headwise.models.transformer_config import BlocksConfig, TransformerConfig
from headwise.positions import Position
from headwise.positions import build as build_position


class TransformerEncoder(Encoder):
    """Embeddings below a stack of encoder blocks; a reversible stack is one block.

    Args:
        embedding: makes vectors of what is read: of token numbers, or of vectors that do not know their places yet.
        norm: closes a pre-norm stack.
        mask: which pairs may meet besides what the lengths say; None: all.
        segment: tokens that are read at once, each seeing the inputs of the segment before too; None: all.
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
        self.mask, self.segment = mask, segment

    def forward(
        self,
        inputs: Int[Tensor, "batch src_len"] | Float[Tensor, "batch src_len width"],
        valid_lens: Int[Tensor, "batch"],
    ) -> Memory:
        # zeros beyond the lengths, so that nothing there reaches a gradient
        x = zeroed_beyond(self.embedding(inputs), valid_lens)
        return Memory(self.norm(self._read(x, valid_lens) if self.segment is None else self._extended(x, valid_lens)))

    def _read(self, x: Tensor, valid_lens: Tensor) -> Tensor:
        padding = Padding(valid_lens)
        mask = (padding if self.mask is None else padding & self.mask).shared()
        for block in self.blocks:
            x = block(x, mask)
        return x

    def _extended(self, x: Tensor, valid_lens: Tensor) -> Tensor:
        """Segment by segment, as Transformer-XL reads (Dai et al. 2019, arXiv:1901.02860, section 3.2)."""
        assert self.segment is not None
        kept, read = [Segments(self.segment) for _ in self.blocks], []
        for start in range(0, x.shape[1], self.segment):
            part = x[:, start : start + self.segment]
            # keys count from the start of the segment before
            mask = Padding((valid_lens - max(0, start - self.segment)).clamp(min=0)).shared()
            for block, segments in zip(self.blocks, kept, strict=True):
                part = block(part, mask, AttentionStep(segments, 0))
            read.append(part)
        return torch.cat(read, dim=1)


class TransformerCache(Cache):
    """Keys and values of every decoder layer, and which of them each beam descends from."""

    def __init__(self, own: list[KeyValues | States], memory_lens: Int[Tensor, "batch"], placed: bool):
        self.length, self.beams, self.sentences = 0, 1, memory_lens.shape[0]
        self.layers = [(kept, KeyValues()) for kept in own]
        self.memory_lens = memory_lens
        self.memory_mask = Padding(memory_lens).shared()
        self.ancestry: Ancestry | None = None
        # whether a layer has to know where the stored keys stand
        self.placed = placed

    def expand(self, beams: int) -> None:
        assert self.beams == 1, "beams are made once"
        self.beams = beams
        for own, _ in self.layers:
            own.expand(beams)
        if beams > 1:
            self.ancestry = Ancestry(self.sentences, beams, self.length, self.memory_lens.device)

    def reorder(self, index: Int[Tensor, "rows"]) -> None:
        if self.ancestry is not None:
            self.ancestry.reorder(index)
        for own, _ in self.layers:
            own.reorder(index)

    def keep(self, sentences: Int[Tensor, "kept"]) -> None:
        for own, cross in self.layers:
            own.keep(sentences)
            cross.keep(sentences)
        self.memory_lens = self.memory_lens.index_select(0, sentences)
        self.memory_mask = Padding(self.memory_lens).shared()
        self.sentences = sentences.shape[0]
        if self.ancestry is not None:
            self.ancestry.keep(sentences)


class TransformerDecoder(Decoder):
    """Embeddings below a stack of decoder blocks, below the vocabulary."""

    def __init__(self, embedding: TokenEmbedding, blocks: list[DecoderBlock], norm: nn.Module, output: nn.Linear):
        super().__init__()
        self.embedding, self.blocks, self.norm, self.output = embedding, nn.ModuleList(blocks), norm, output

    def hidden(
        self, tokens: Int[Tensor, "batch tgt_len"], memory: Memory, memory_lens: Int[Tensor, "batch"]
    ) -> Float[Tensor, "batch tgt_len width"]:
        mask, memory_mask = Causal().shared(), Padding(memory_lens).shared()
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, memory.states, mask=mask, memory_mask=memory_mask)
        normed: Tensor = self.norm(x)
        return normed

    def start(self, memory: Memory, memory_lens: Int[Tensor, "batch"]) -> TransformerCache:
        """Projects the memory for every layer, once; beams share it."""
        blocks = [_original(block) for block in self.blocks]
        own = [block.self_attention.kept() for block in blocks]
        positions = (block.self_attention.position for block in blocks)
        placed = any(position is not None and position.acts_on_scores() for position in positions)
        cache = TransformerCache(own, memory_lens, placed)
        for block, (_, cross) in zip(blocks, cache.layers, strict=True):
            cross.fill(*block.cross_attention.project_memory(memory.states))
        return cache

    def step(self, tokens: Int[Tensor, "rows"], cache: Cache) -> Float[Tensor, "rows vocab"]:
        assert isinstance(cache, TransformerCache)
        x = self.embedding(tokens[:, None], cache.length)
        # beams lie side by side where a sequence has its positions: one step is a pass over the whole sentence
        x = x.view(cache.sentences, cache.beams, -1)
        ancestry = None if cache.ancestry is None else cache.ancestry.step()
        places = cache.ancestry.positions() if cache.ancestry is not None and cache.placed else None
        mask = cache.memory_mask
        for block, (own, cross) in zip(self.blocks, cache.layers, strict=True):
            own_step = AttentionStep(own, cache.length, ancestry, places, cache.beams)
            x = block(x, None, mask=None, memory_mask=mask, self_cache=own_step, cross_cache=AttentionStep(cross, 0))
        cache.length += 1
        logits: Tensor = self.output(self.norm(x).flatten(0, 1))
        return logits


def _original(block: nn.Module) -> DecoderBlock:
    original = block.block if isinstance(block, DecodingBlock) else block
    assert isinstance(original, DecoderBlock)
    return original


def build_transformer(config: TransformerConfig, src_vocab: int, tgt_vocab: int, *, joint: bool) -> Seq2Seq:
    """The model of a configuration; `joint`: source and target share one vocabulary."""
    if joint and config.tie_embeddings and src_vocab != tgt_vocab:
        raise ConfigError(f"a joint vocabulary has one size, got {src_vocab} and {tgt_vocab}")
    position = build_position(
        config.position, config.d_model, config.d_model // config.num_heads, config.num_heads, config.max_len
    )
    source = TokenEmbedding(src_vocab, config.d_model, position, config.dropout)
    target = TokenEmbedding(tgt_vocab, config.d_model, position, config.dropout)
    if joint and config.tie_embeddings:
        target.weight = source.weight
    encoder = build_encoder(config, source, position)
    output = nn.Linear(config.d_model, tgt_vocab, bias=False)
    writers = [_decoder_block(config, position) for _ in range(config.decoder_layers)]
    model = Seq2Seq(encoder, TransformerDecoder(target, writers, _closing(config), output))
    initialize(model, config.initializer)
    if config.tie_output:
        output.weight = target.weight
    return model


def build_encoder(config: BlocksConfig, embedding: nn.Module, position: Position) -> TransformerEncoder:
    """The encoder of a configuration, its weights not yet initialised; `position` acts inside its attention."""
    blocks = [_encoder_block(config, position) for _ in range(config.encoder_layers)]
    steps = tuple(head - config.num_heads // 2 for head in range(config.num_heads))
    mask = Shifts(steps) if config.convolution_heads else None
    stack = [ReversibleEncoder(blocks)] if config.reversible else blocks
    return TransformerEncoder(embedding, stack, _closing(config), mask, config.segment)


def _closing(config: BlocksConfig) -> nn.Module:
    return nn.LayerNorm(config.d_model) if config.norm == "pre" else nn.Identity()


def _residual(config: BlocksConfig) -> Residual:
    make = Residual.pre_norm if config.norm == "pre" else Residual.post_norm
    return make(config.d_model, config.dropout)


def _mechanism(config: BlocksConfig, name: str) -> Mechanism:
    head_dim = config.d_model // config.num_heads
    dropout = config.dropout if config.attention_dropout is None else config.attention_dropout
    if name == "scored":
        score = scores.build(config.score, head_dim, head_dim, head_dim, config.num_heads)
        return Scored(score, normalizers.build(config.normalizer, config.num_heads), dropout)
    kind = mechanisms.mechanism_type(name)
    return kind.sized(head_dim=head_dim, num_heads=config.num_heads, max_len=config.max_len, dropout=dropout)


def _attention(
    config: BlocksConfig, position: Position | None, name: str, memory_dim: int | None = None
) -> MultiHeadAttention:
    acting = position if position is not None and position.acts_in_attention() else None
    return MultiHeadAttention(
        config.d_model,
        config.num_heads,
        _mechanism(config, name),
        num_kv_heads=config.num_kv_heads,
        value_dim=config.value_dim,
        # queries and a memory cannot share a matrix
        memory_dim=None if config.shared in ("qk", "qkv") else memory_dim,
        position=acting,
        norm=nn.RMSNorm if config.qk_norm else None,
        shared=config.shared,
        combine=config.combine,
    )


def _feed_forward(config: BlocksConfig) -> FeedForward:
    dropout = config.dropout if config.activation_dropout is None else config.activation_dropout
    return FeedForward(config.d_model, config.d_ff, config.activation, dropout)


def _encoder_block(config: BlocksConfig, position: Position) -> EncoderBlock:
    own = _attention(config, position, config.mechanism)
    return EncoderBlock(own, _feed_forward(config), _residual(config), _residual(config))


def _decoder_block(config: TransformerConfig, position: Position) -> DecoderBlock:
    own = _attention(config, position, config.decoder_mechanism or config.mechanism)
    # a memory is read by its definition: the other mechanisms are for long sequences that look at themselves
    cross = _attention(config, None, "scored", config.d_model)
    return DecoderBlock(own, cross, _feed_forward(config), _residual(config), _residual(config), _residual(config))

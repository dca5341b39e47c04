"""The Transformer encoder-decoder and its configuration."""

from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from headwise.attention import mechanisms, normalizers, scores
from headwise.attention.masks import Causal, Padding
from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.attention.mechanisms.scored import Scored
from headwise.caches import Ancestry, AttentionStep, Cache, KeyValues, States
from headwise.config import Config
from headwise.errors import ConfigError
from headwise.layers.attention import MultiHeadAttention, check_heads
from headwise.layers.blocks import DecoderBlock, EncoderBlock, Residual
from headwise.layers.decoding import DecodingBlock
from headwise.layers.embeddings import TokenEmbedding
from headwise.layers.feed_forward import FeedForward
from headwise.layers.initializers import Scheme, initialize
from headwise.layers.reversible import ReversibleEncoder
from headwise.models.protocols import Decoder, Encoder, Memory, Seq2Seq
from headwise.positions import Position, position_type
from headwise.positions import build as build_position
from headwise.positions import names as position_names


class TransformerEncoder(Encoder):
    """Embeddings below a stack of encoder blocks; `norm` closes a pre-norm stack. A reversible stack is one block."""

    def __init__(self, embedding: TokenEmbedding, blocks: Sequence[EncoderBlock | ReversibleEncoder], norm: nn.Module):
        super().__init__()
        self.embedding, self.blocks, self.norm = embedding, nn.ModuleList(blocks), norm

    def forward(self, inputs: Int[Tensor, "batch src_len"], valid_lens: Int[Tensor, "batch"]) -> Memory:
        mask = padding(valid_lens, inputs.shape[1])
        x = self.embedding(inputs)
        for block in self.blocks:
            x = block(x, mask)
        return Memory(self.norm(x))


class TransformerCache(Cache):
    """Keys and values of every decoder layer, and which of them each beam descends from."""

    def __init__(self, own: list[KeyValues | States], memory_lens: Int[Tensor, "batch"], memory_len: int, placed: bool):
        self.length, self.beams, self.sentences = 0, 1, memory_lens.shape[0]
        self.layers = [(kept, KeyValues()) for kept in own]
        self.memory_lens, self.memory_len = memory_lens, memory_len
        self.memory_mask = padding(memory_lens, memory_len)
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
        self.memory_mask = padding(self.memory_lens, self.memory_len)
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
        mask, memory_mask = Causal(), padding(memory_lens, memory.states.shape[1])
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
        cache = TransformerCache(own, memory_lens, memory.states.shape[1], placed)
        for block, (_, cross) in zip(blocks, cache.layers, strict=True):
            cross.fill(block.cross_attention.project_memory(memory.states, cache.memory_mask))
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


def padding(valid_lens: Int[Tensor, "batch"], length: int) -> Padding | None:
    """The mask of padded sequences; None where nothing is padded, as far as that can be seen without waiting."""
    looks = valid_lens.device.type == "cpu" and not torch.compiler.is_compiling()
    return None if looks and bool((valid_lens >= length).all()) else Padding(valid_lens)


def _original(block: nn.Module) -> DecoderBlock:
    original = block.block if isinstance(block, DecodingBlock) else block
    assert isinstance(original, DecoderBlock)
    return original


class TransformerConfig(Config):
    """Sizes and parts of a Transformer; the defaults are the "base" model of Vaswani et al. 2017, table 3."""

    kind: Literal["transformer"] = Field("transformer", description="the family of the model")
    d_model: int = Field(512, ge=1, description="width of the embeddings and of every block")
    d_ff: int = Field(2048, ge=1, description="width inside the feed-forward network")
    num_heads: int = Field(8, ge=1, description="attention heads; a divisor of d_model")
    num_kv_heads: int | None = Field(
        None, ge=1, description="heads of key and value: a divisor of num_heads; all if absent"
    )
    encoder_layers: int = Field(6, ge=1, description="encoder blocks")
    decoder_layers: int = Field(6, ge=1, description="decoder blocks")
    norm: Literal["pre", "post"] = Field("pre", description="LayerNorm before each sublayer, or after the residual")
    activation: Literal["relu", "gelu", "swiglu"] = Field("relu", description="of the feed-forward network")
    position: str = Field("sinusoidal", description="where position enters; `headwise list positions`")
    max_len: int = Field(512, ge=1, description="positions of a learned table, in tokens")
    mechanism: str = Field("scored", description="what self-attention computes; `headwise list mechanisms`")
    decoder_mechanism: str | None = Field(None, description="the decoder's self-attention; as mechanism if absent")
    reversible: bool = Field(False, description="encoder blocks keep no activations for the gradient")
    score: str = Field("scaled_dot", description="how alike query and key are; `headwise list scores`")
    normalizer: str = Field("softmax", description="scores to weights; `headwise list normalizers`")
    kernel: str = Field("auto", description="auto, or the kernel to insist on; `headwise list kernels`")
    dropout: float = Field(0.1, ge=0, lt=1, description="on embeddings and on the output of every sublayer")
    attention_dropout: float | None = Field(None, ge=0, lt=1, description="on attention weights; as dropout if absent")
    activation_dropout: float | None = Field(
        None, ge=0, lt=1, description="inside the feed-forward; as dropout if absent"
    )
    tie_embeddings: bool = Field(True, description="share the embedding tables when both sides share a tokenizer")
    tie_output: bool = Field(True, description="the output matrix is the target embedding")
    initializer: Scheme = Field("xavier", description="of the linear layers")

    def model_post_init(self, context: object) -> None:
        check_heads(self.d_model, self.num_heads, self.num_kv_heads)
        for name in (self.mechanism, self.decoder_mechanism or self.mechanism):
            if name != "scored" and (self.score, self.normalizer, self.kernel) != ("scaled_dot", "softmax", "auto"):
                raise ConfigError(f"score, normalizer and kernel belong to mechanism 'scored', not to '{name}'")
        if not _reads(self.mechanism):
            raise ConfigError(
                f"mechanism '{self.mechanism}' cannot let an encoder see later tokens; these can:"
                f" {', '.join(filter(_reads, mechanisms.names()))}"
            )
        if not position_type(self.position).steps:
            fitting = ", ".join(name for name in position_names() if position_type(name).steps)
            raise ConfigError(
                f"position '{self.position}' cannot go step by step, as a decoder does; these can: {fitting}"
            )
        writer = self.decoder_mechanism or self.mechanism
        if not _writes(writer):
            raise ConfigError(
                f"mechanism '{writer}' cannot hide later tokens from a decoder that goes step by step; set"
                f" decoder_mechanism to one that can: {', '.join(filter(_writes, mechanisms.names()))}"
            )


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
    blocks = [_encoder_block(config, position) for _ in range(config.encoder_layers)]
    encoder = TransformerEncoder(source, [ReversibleEncoder(blocks)] if config.reversible else blocks, _closing(config))
    output = nn.Linear(config.d_model, tgt_vocab, bias=False)
    writers = [_decoder_block(config, position) for _ in range(config.decoder_layers)]
    model = Seq2Seq(encoder, TransformerDecoder(target, writers, _closing(config), output))
    initialize(model, config.initializer)
    if config.tie_output:
        output.weight = target.weight
    return model


def _closing(config: TransformerConfig) -> nn.Module:
    return nn.LayerNorm(config.d_model) if config.norm == "pre" else nn.Identity()


def _residual(config: TransformerConfig) -> Residual:
    make = Residual.pre_norm if config.norm == "pre" else Residual.post_norm
    return make(config.d_model, config.dropout)


def _reads(name: str) -> bool:
    facts = getattr(mechanisms.mechanism_type(name), "facts", None)
    return facts is None or facts.bidirectional


def _writes(name: str) -> bool:
    facts = getattr(mechanisms.mechanism_type(name), "facts", None)
    return facts is None or (facts.causal and facts.steps != "none")


def _mechanism(config: TransformerConfig, name: str) -> Mechanism:
    head_dim = config.d_model // config.num_heads
    dropout = config.dropout if config.attention_dropout is None else config.attention_dropout
    if name == "scored":
        score = scores.build(config.score, head_dim, head_dim, head_dim, config.num_heads)
        return Scored(score, normalizers.build(config.normalizer), dropout, config.kernel)
    kind = mechanisms.mechanism_type(name)
    return kind.sized(head_dim=head_dim, num_heads=config.num_heads, max_len=config.max_len, dropout=dropout)


def _attention(
    config: TransformerConfig, position: Position | None, name: str, memory_dim: int | None = None
) -> MultiHeadAttention:
    acting = position if position is not None and position.acts_in_attention() else None
    return MultiHeadAttention(
        config.d_model,
        config.num_heads,
        _mechanism(config, name),
        num_kv_heads=config.num_kv_heads,
        memory_dim=memory_dim,
        position=acting,
    )


def _feed_forward(config: TransformerConfig) -> FeedForward:
    dropout = config.dropout if config.activation_dropout is None else config.activation_dropout
    return FeedForward(config.d_model, config.d_ff, config.activation, dropout)


def _encoder_block(config: TransformerConfig, position: Position) -> EncoderBlock:
    own = _attention(config, position, config.mechanism)
    return EncoderBlock(own, _feed_forward(config), _residual(config), _residual(config))


def _decoder_block(config: TransformerConfig, position: Position) -> DecoderBlock:
    own = _attention(config, position, config.decoder_mechanism or config.mechanism)
    # a memory is read by its definition: the other mechanisms are for long sequences that look at themselves
    cross = _attention(config, None, "scored", config.d_model)
    return DecoderBlock(own, cross, _feed_forward(config), _residual(config), _residual(config), _residual(config))

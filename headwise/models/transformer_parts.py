"""The parts of a Transformer from its configuration: positions, attention, feed-forward networks, blocks."""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Literal

from torch import nn

from headwise.attention import masks, mechanisms
from headwise.attention.masks import Mask
from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.layers.attention import MultiHeadAttention
from headwise.layers.blocks import DecoderBlock, EncoderBlock, Residual
from headwise.layers.embeddings import TokenEmbedding, VocabularyOutput
from headwise.layers.feed_forward import FeedForward
from headwise.models.transformer_config import DecoderConfig, StackConfig, TransformerConfig
from headwise.positions import Position
from headwise.positions import build as build_position

_BIAS: dict[str, bool | Literal["qkv"]] = {"all": True, "qkv": "qkv", "none": False}


def build_positions(config: StackConfig, name: str | None = None, width: int | None = None) -> Position:
    """The position scheme of a configuration, for all of its stacks.

    Args:
        name: another one of its size.
        width: of the embeddings, where they are not as wide as the model.
    """
    return build_position(
        name or config.position, width or config.d_model, config.head_width, config.num_heads, config.max_len
    )


def token_embedding(config: TransformerConfig | DecoderConfig, vocab_size: int, position: Position) -> TokenEmbedding:
    """The embedding of a configuration's tokens."""
    norm = config.new_norm(config.d_model) if config.embedding_norm else None
    scaled = config.embedding_scale
    return TokenEmbedding(vocab_size, config.d_model, position, config.dropout, scaled=scaled, norm=norm)


def vocabulary_output(config: TransformerConfig | DecoderConfig, vocab_size: int) -> nn.Linear:
    """What maps states to the logits of tokens."""
    if not isinstance(config, TransformerConfig):
        if config.output_cap is None:
            return nn.Linear(config.d_model, vocab_size, bias=False)
        return VocabularyOutput(config.d_model, vocab_size, bias=False, cap=config.output_cap)
    if not config.output_scale:
        return nn.Linear(config.d_model, vocab_size, bias=config.output_bias)
    return VocabularyOutput(config.d_model, vocab_size, bias=config.output_bias, scale=config.d_model**-0.5)


def closing_norm(config: StackConfig) -> nn.Module:
    """The norm after the last block of a pre-norm stack."""
    return nn.Identity() if config.norm_order == "post" else config.new_norm(config.d_model)


def layer_positions(config: StackConfig, position: Position, num_layers: int) -> list[Position]:
    """The position scheme of each layer of a stack: `position`, and in local layers that of these, one for all."""
    local = position if config.local_position is None else build_positions(config, config.local_position)
    return [local if config.is_local(layer) else position for layer in range(num_layers)]


@lru_cache
def _limit(text: str, length: int) -> Mask:
    # one object, so that layers share what they ask of it
    return masks.build(text, length)


def _residual(config: StackConfig, *, first: bool = False) -> Residual:
    residual = config.residual_around(config.d_model, config.dropout)
    if first and not config.first_norm:
        residual.before = nn.Identity()
    return residual


def _mechanism(config: StackConfig, name: str) -> Mechanism:
    dropout = config.dropout if config.attention_dropout is None else config.attention_dropout
    return mechanisms.build(
        name,
        head_dim=config.head_width,
        num_heads=config.num_heads,
        max_len=config.max_len,
        dropout=dropout,
        score=config.score,
        normalizer=config.normalizer,
    )


def attention_of(
    config: StackConfig, position: Position | None, name: str, memory_dim: int | None = None, layer: int | None = None
) -> MultiHeadAttention:
    """An attention of a configuration, by the name of its mechanism; with `memory_dim`, over a memory of that width.

    Args:
        layer: which one of a stack whose layers may share values.
    """
    local = layer is not None and config.is_local(layer)
    acting = position if position is not None and position.acts_in_attention() else None
    return MultiHeadAttention(
        config.d_model,
        config.num_heads,
        _mechanism(config, name),
        num_kv_heads=config.num_kv_heads,
        head_dim=config.head_dim,
        value_dim=config.value_dim,
        # queries and a memory cannot share a matrix
        memory_dim=None if config.shared in ("qk", "qkv") else memory_dim,
        position=acting,
        norm=_head_norm(config),
        bias=_BIAS[config.bias],
        shared=config.shared,
        combine=config.combine,
        rank=config.projection_rank,
        around=config.around(layer, conv=memory_dim is None),
        latent=config.latent_sizes() if memory_dim is None else None,
        limit=_limit(str(config.local_mask), config.max_len) if local else None,
    )


def _head_norm(config: StackConfig) -> Callable[[int], nn.Module] | None:
    """The norm of the queries and keys of a head."""
    if config.norm == "rms_1p" and config.qk_norm:
        return config.new_norm
    return partial(nn.RMSNorm, eps=config.norm_eps) if config.qk_norm else None


def feed_forward_of(config: StackConfig) -> FeedForward:
    """A feed-forward network of a configuration."""
    dropout = config.dropout if config.activation_dropout is None else config.activation_dropout
    return FeedForward(config.d_model, config.d_ff, config.activation, dropout, bias=config.bias == "all")


def _feed_forward(config: StackConfig) -> tuple[FeedForward | None, Residual | None]:
    return (feed_forward_of(config), _residual(config)) if config.d_ff else (None, None)


def encoder_block(config: StackConfig, position: Position, layer: int) -> EncoderBlock:
    """The encoder block of a layer."""
    own = attention_of(config, position, config.mechanism, layer=layer)
    feed_forward, residual = _feed_forward(config)
    return EncoderBlock(own, feed_forward, _residual(config, first=layer == 0), residual)


def decoder_block(config: StackConfig, position: Position, mechanism: str, layer: int, *, cross: bool) -> DecoderBlock:
    """The decoder block of a layer; `cross`: with attention to a memory."""
    own = attention_of(config, position, mechanism, layer=layer)
    feed_forward, residual = _feed_forward(config)
    if not cross:
        return DecoderBlock(own, None, feed_forward, _residual(config, first=layer == 0), None, residual)
    # cross-attention is always scored: the other mechanisms are for self-attention over long sequences
    memory = attention_of(config, None, "scored", config.d_model)
    first, cross_residual = _residual(config, first=layer == 0), _residual(config)
    return DecoderBlock(own, memory, feed_forward, first, cross_residual, residual)

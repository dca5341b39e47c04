"""Sizes and parts of a Transformer, as a recipe gives them."""

from typing import Literal

from pydantic import Field

from headwise.attention import mechanisms, normalizers, scores
from headwise.config import Config
from headwise.errors import ConfigError
from headwise.layers.heads import Combine, Shared, check_heads
from headwise.layers.initializers import Scheme
from headwise.positions import names as position_names
from headwise.positions import position_type


class BlocksConfig(Config):
    """A stack of encoder blocks; the defaults are the "base" model of Vaswani et al. 2017, table 3."""

    kind: str = Field(description="the family of the model")
    d_model: int = Field(512, ge=1, le=2**20, description="width of the embeddings and of every block")
    d_ff: int = Field(2048, ge=1, le=2**20, description="width inside the feed-forward network")
    num_heads: int = Field(8, ge=1, description="attention heads; a divisor of d_model")
    num_kv_heads: int | None = Field(
        None, ge=1, description="heads of key and value: a divisor of num_heads; all if absent"
    )
    encoder_layers: int = Field(6, ge=1, description="encoder blocks")
    norm: Literal["pre", "post"] = Field("pre", description="LayerNorm before each sublayer, or after the residual")
    activation: Literal["relu", "gelu", "swiglu"] = Field("relu", description="of the feed-forward network")
    position: str = Field("sinusoidal", description="where position enters; `headwise list positions`")
    max_len: int = Field(512, ge=1, description="positions of a learned table, in tokens")
    mechanism: str = Field("scored", description="what self-attention computes; `headwise list mechanisms`")
    reversible: bool = Field(False, description="encoder blocks keep no activations for the gradient")
    score: str = Field("scaled_dot", description="how alike query and key are; `headwise list scores`")
    normalizer: str = Field("softmax", description="scores to weights; `headwise list normalizers`")
    qk_norm: bool = Field(False, description="root mean square norms of queries and keys before the position")
    value_dim: int | None = Field(None, ge=1, description="width of a head's values; as its keys if absent")
    shared: Shared = Field("none", description="projections that are one matrix: none, qk, kv or qkv")
    combine: Combine = Field("concat", description="heads are joined, or averaged")
    convolution_heads: bool = Field(False, description="encoder head h sees one token, h - num_heads // 2 away")
    segment: int | None = Field(None, ge=1, description="tokens the encoder reads at once, and sees of the ones before")
    dropout: float = Field(0.1, ge=0, lt=1, description="on embeddings and on the output of every sublayer")
    attention_dropout: float | None = Field(None, ge=0, lt=1, description="on attention weights; as dropout if absent")
    activation_dropout: float | None = Field(
        None, ge=0, lt=1, description="inside the feed-forward; as dropout if absent"
    )
    initializer: Scheme = Field("xavier", description="of the linear layers")

    def model_post_init(self, context: object) -> None:
        check_heads(self.d_model, self.num_heads, self.num_kv_heads)
        scores.check_name(self.score)
        normalizers.build(self.normalizer, self.num_heads)
        self._check_mechanism(self.mechanism)
        if self.segment is not None and (self.reversible or self.convolution_heads):
            raise ConfigError("segment reads the source piece by piece: leave out reversible and convolution_heads")
        if not _reads(self.mechanism):
            raise ConfigError(
                f"mechanism '{self.mechanism}' cannot let an encoder see later tokens; these can:"
                f" {', '.join(filter(_reads, mechanisms.names()))}"
            )

    def _check_mechanism(self, name: str) -> None:
        if name != "scored" and (self.score, self.normalizer) != ("scaled_dot", "softmax"):
            raise ConfigError(f"score and normalizer belong to mechanism 'scored', not to '{name}'")
        facts = mechanisms.mechanism_type(name).facts
        if position_type(self.position).where.startswith("scores") and not (facts.bias and facts.relative):
            raise ConfigError(
                f"mechanism '{name}' has no scores that position '{self.position}' could enter; use 'scored'"
            )


class TransformerConfig(BlocksConfig):
    """Sizes and parts of a Transformer: the blocks of both sides, and what only the decoder and both together have."""

    kind: Literal["transformer"] = Field("transformer", description="the family of the model")
    decoder_layers: int = Field(6, ge=1, description="decoder blocks")
    decoder_mechanism: str | None = Field(None, description="the decoder's self-attention; as mechanism if absent")
    tie_embeddings: bool = Field(True, description="share the embedding tables when both sides share a tokenizer")
    tie_output: bool = Field(True, description="the output matrix is the target embedding")

    def model_post_init(self, context: object) -> None:
        super().model_post_init(context)
        writer = self.decoder_mechanism or self.mechanism
        self._check_mechanism(writer)
        if not position_type(self.position).steps:
            fitting = ", ".join(name for name in position_names() if position_type(name).steps)
            raise ConfigError(
                f"position '{self.position}' cannot go step by step, as a decoder does; these can: {fitting}"
            )
        if not _writes(writer):
            raise ConfigError(
                f"mechanism '{writer}' cannot hide later tokens from a decoder that goes step by step; set"
                f" decoder_mechanism to one that can: {', '.join(filter(_writes, mechanisms.names()))}"
            )


def _reads(name: str) -> bool:
    return mechanisms.mechanism_type(name).facts.bidirectional


def _writes(name: str) -> bool:
    facts = mechanisms.mechanism_type(name).facts
    return facts.causal and facts.steps != "none"

"""The configuration of Transformers, with and without an encoder."""

from functools import partial
from typing import Literal

from pydantic import Field
from torch import nn

from headwise.attention import masks, mechanisms, normalizers
from headwise.attention.masks import Mask
from headwise.config import Config, StartFile
from headwise.errors import ConfigError
from headwise.layers.around import Around, Gate, GateActivation, Values
from headwise.layers.attention import Combine, SharedProjection, check_heads
from headwise.layers.blocks import Residual
from headwise.layers.latent import Latent
from headwise.layers.norms import Norm, build_norm
from headwise.models.initializers import Scheme
from headwise.models.names import MaskText, MechanismName, NormalizerName, PositionName, ScoreName
from headwise.positions import names as position_names
from headwise.positions import position_type


class SublayerConfig(Config):
    """The norm and the residual around every sublayer."""

    kind: str = Field(description="the family of the model")
    norm: Norm = Field(
        "layer",
        description="normalization over the features of a token (layer, rms, rms_1p with gains less 1), batch, or none",
    )
    residual: bool = Field(True, description="whether a sublayer's input is added to its output")

    def residual_around(self, width: int, dropout: float) -> Residual:
        """A new residual around a sublayer, its norm in front."""
        return Residual(self.new_norm(width), nn.Identity(), dropout, skip=self.residual)

    def new_norm(self, width: int) -> nn.Module:
        """A new norm of vectors of this width."""
        return build_norm(self.norm, width)

    def fewest_tensors(self) -> int:
        """A lower bound for the number of parameters: the norms and biases of every layer."""
        return 4


class StackConfig(SublayerConfig):
    """The keys of every stack of blocks; the defaults are the "base" model of Vaswani et al. 2017, table 3."""

    d_model: int = Field(512, ge=1, le=2**20, description="width of the embeddings and of every block")
    d_ff: int = Field(2048, ge=0, le=2**20, description="width inside the feed-forward network; 0: attention alone")
    num_heads: int = Field(8, ge=1, description="attention heads; a divisor of d_model")
    num_kv_heads: int | None = Field(
        None, ge=1, description="key/value heads: a divisor of num_heads; num_heads if absent"
    )
    head_dim: int | None = Field(
        None, ge=1, le=2**20, description="width of a head's queries and keys; d_model / num_heads if absent"
    )
    norm_order: Literal["pre", "post", "sandwich"] = Field(
        "pre",
        description="the norm stands before each sublayer, after the residual, or before and behind each sublayer",
    )
    norm_eps: float | None = Field(
        None,
        gt=0,
        le=1,
        description="added to the variance in every norm; if absent 1e-6 for rms and rms_1p, else 1e-5",
    )
    norm_bias: bool = Field(True, description="norms of kind layer have a bias")
    first_norm: bool = Field(
        True, description="a norm stands before the first sublayer too; false: as in ModernBERT, with embedding_norm"
    )
    activation: Literal["relu", "gelu", "gelu_tanh", "silu", "swiglu", "geglu", "geglu_tanh", "reglu"] = Field(
        "relu", description="of the feed-forward network; those ending in glu have a gate"
    )
    bias: Literal["all", "qkv", "none"] = Field(
        "all", description="linear layers of a block with a bias: all, those of queries, keys and values, or none"
    )
    position: PositionName = Field("sinusoidal", description="where position enters; `headwise list positions`")
    local_mask: MaskText | None = Field(
        None,
        description="pairs that local layers are limited to, such as window:left=127,right=0; none: no such layers",
    )
    local_layers: str = Field(
        "l", pattern="^[gl]+$", description="which layers are local (l) and which global (g), in turn, such as lllllg"
    )
    local_position: PositionName | None = Field(None, description="of local layers; as position if absent")
    max_len: int = Field(512, ge=1, description="size of a learned table of positions, in tokens")
    mechanism: MechanismName = Field("scored", description="what self-attention computes; `headwise list mechanisms`")
    score: ScoreName = Field("scaled_dot", description="how alike query and key are; `headwise list scores`")
    normalizer: NormalizerName = Field("softmax", description="scores to weights; `headwise list normalizers`")
    qk_norm: bool = Field(False, description="RMS normalization of queries and keys, before the position")
    value_dim: int | None = Field(
        None, ge=1, le=2**20, description="width of the values of a head; that of its keys if absent"
    )
    shared: SharedProjection = Field("none", description="projections that are one matrix: none, qk, kv or qkv")
    combine: Combine = Field("concat", description="heads are joined, or averaged")
    projection_rank: int | None = Field(
        None, ge=1, le=2**20, description="queries, keys and values each through a vector of this width; none if absent"
    )
    latent: int | None = Field(
        None, ge=1, le=2**20, description="keys and values of one vector of this width, all that a cache keeps (MLA)"
    )
    latent_queries: int | None = Field(
        None, ge=1, le=2**20, description="queries through a vector of this width, beside latent"
    )
    conv: int = Field(
        0, ge=0, le=64, description="taps of a causal convolution over queries, keys and values, 4 is usual; 0: none"
    )
    gate: Gate = Field("none", description="a gate on the heads' outputs: none, one for each head, or each element")
    gate_activation: GateActivation = Field("sigmoid", description="of that gate: sigmoid or silu")
    head_norm: Literal["none", "layer", "rms"] = Field(
        "none", description="norm of each head's output, before the gate"
    )
    value_residual: bool = Field(
        False, description="whether each layer mixes the values of the first one into its own, by two learned numbers"
    )
    dropout: float = Field(0.1, ge=0, lt=1, description="on embeddings and on the output of every sublayer")
    attention_dropout: float | None = Field(None, ge=0, lt=1, description="on attention weights; as dropout if absent")
    activation_dropout: float | None = Field(
        None, ge=0, lt=1, description="inside the feed-forward; as dropout if absent"
    )
    initializer: Scheme = Field("xavier", description="of the linear layers")
    start: StartFile | None = Field(
        None, description="model.safetensors of a run, or of a folder of Hugging Face, with the weights to start from"
    )

    def model_post_init(self, context: object) -> None:
        check_heads(self.d_model, self.num_heads, self.num_kv_heads, self.head_dim)
        normalizers.build(self.normalizer, self.num_heads)
        for name in self.mechanisms():
            if not mechanisms.is_scored(name) and (self.score, self.normalizer) != ("scaled_dot", "softmax"):
                raise ConfigError(f"score and normalizer belong to mechanism 'scored', not to '{name}'")
            facts = mechanisms.mechanism_type(name).facts
            entering = [own for own in self.positions() if position_type(own).where.startswith("scores")]
            if entering and not (facts.bias and facts.relative):
                raise ConfigError(
                    f"mechanism '{name}' has no scores that position '{entering[0]}' could enter; use 'scored'"
                )
        self._check_local()
        if not self.norm_bias and self.norm != "layer":
            raise ConfigError(f"norm '{self.norm}' has no bias: leave norm_bias out")
        if not self.first_norm and self.norm_order == "post":
            raise ConfigError("first_norm = false leaves out a norm before a sublayer, and norm_order 'post' has none")

    def _check_local(self) -> None:
        if self.local_mask is None:
            if self.local_layers != "l" or self.local_position is not None:
                raise ConfigError("local_layers and local_position belong to local_mask, which says what layers see")
            return
        for name in self.mechanisms():
            if mechanisms.mechanism_type(name).facts.honours != "any":
                raise ConfigError(f"mechanism '{name}' does not honour every mask; leave local_mask out")
        if self.local_position is not None and position_type(self.local_position).where == "embeddings":
            raise ConfigError(
                f"local_position '{self.local_position}' changes embeddings, which all layers read; take one that acts"
                " inside attention, such as rotary"
            )

    def is_local(self, layer: int) -> bool:
        """Whether a layer is limited to the pairs of `local_mask`."""
        return self.local_mask is not None and self.local_layers[layer % len(self.local_layers)] == "l"

    def latent_sizes(self) -> Latent | None:
        """Of keys and values through one narrow vector; None: they have matrices of their own."""
        return None if self.latent is None else Latent(self.latent, self.latent_queries)

    def around(self, layer: int | None = None, *, conv: bool = True) -> Around:
        """What stands around the heads of an attention.

        Args:
            layer: which one of a stack whose layers may share values; None: it is in none.
            conv: whether it reads its own tokens.
        """
        values: Values = "own" if layer is None or not self.value_residual else "take" if layer else "give"
        norm = None if self.head_norm == "none" else partial(build_norm, self.head_norm)
        return Around(self.conv if conv else 0, self.gate, self.gate_activation, norm, values)

    def residual_around(self, width: int, dropout: float) -> Residual:
        """A new residual around a sublayer, its norm in front or behind."""
        if self.norm_order == "pre":
            return super().residual_around(width, dropout)
        if self.norm_order == "sandwich":
            norms = self.new_norm(width), nn.Identity()
            return Residual(*norms, dropout, skip=self.residual, inside=self.new_norm(width))
        return Residual(nn.Identity(), self.new_norm(width), dropout, skip=self.residual)

    def new_norm(self, width: int) -> nn.Module:
        return build_norm(self.norm, width, self.norm_eps, self.norm_bias)

    @property
    def head_width(self) -> int:
        """Columns of a head's queries and keys."""
        return self.head_dim or self.d_model // self.num_heads

    def mechanisms(self) -> tuple[str, ...]:
        """The mechanisms of self-attention; that of the decoder comes last."""
        return (self.mechanism,)

    def positions(self) -> tuple[str, ...]:
        """The position schemes; those of the decoder come behind the first."""
        return (self.position, *([self.local_position] if self.local_position else []))

    def places(self) -> int | None:
        """The longest input in tokens, where there are weights for each position."""
        tabled = (
            "learned" in self.positions() or mechanisms.mechanism_type(self.mechanism).facts.cache == "per_hypothesis"
        )
        return self.max_len if tabled else None

    def check_steps(self, key: str) -> None:
        """Raises: ConfigError if position, mechanism or norm cannot decode step by step; `key` sets the mechanism."""
        if self.norm == "batch":
            raise ConfigError(
                "norm 'batch' cannot be in a decoder: while training, the mean over a batch shows a token what comes"
                " after it; use 'layer', 'rms' or 'none'"
            )
        written = self.positions()[1 if key == "decoder_mechanism" else 0 :]
        if whole := [name for name in written if not position_type(name).steps]:
            fitting = ", ".join(name for name in position_names() if position_type(name).steps)
            raise ConfigError(f"position '{whole[0]}' cannot go step by step, as a decoder does; these can: {fitting}")
        writer = self.mechanisms()[-1]
        if not _writes(writer):
            raise ConfigError(
                f"mechanism '{writer}' cannot hide later tokens from a decoder that goes step by step; set"
                f" {key} to one that can: {', '.join(filter(_writes, mechanisms.names()))}"
            )


class BlocksConfig(StackConfig):
    """A stack of encoder blocks."""

    encoder_layers: int = Field(6, ge=1, le=1024, description="encoder blocks")
    reversible: bool = Field(False, description="encoder blocks recompute activations instead of storing them")
    convolution_heads: bool = Field(
        False, description="encoder head h sees only the token at distance h - num_heads // 2"
    )
    mask: MaskText | None = Field(
        None, description="pairs that encoder attention is limited to, such as window:left=64,right=64; `list masks`"
    )
    segment: int | None = Field(
        None, ge=1, description="length of an encoder segment, in tokens, and of the part before it that is visible"
    )

    def model_post_init(self, context: object) -> None:
        super().model_post_init(context)
        if self.segment is not None and (self.reversible or self.convolution_heads or self.mask or self.local_mask):
            raise ConfigError(
                "segment encodes the source in segments: leave out reversible, convolution_heads, mask and local_mask"
            )
        if self.value_residual and self.reversible:
            raise ConfigError("reversible layers keep nothing of one another: leave reversible or value_residual out")
        if self.conv and (self.segment is not None or self.mask or self.local_mask):
            raise ConfigError(
                "conv mixes each token with those before it, which mask, local_mask or segment may hide: leave conv out"
            )
        if self.mask is not None and mechanisms.mechanism_type(self.mechanism).facts.honours != "any":
            raise ConfigError(f"mechanism '{self.mechanism}' does not honour every mask; leave mask out")
        ahead = self.looks_ahead()
        fits = _reads if ahead else _hides
        if not fits(self.mechanism):
            what = "let an encoder see later tokens" if ahead else "hide later tokens from an encoder"
            raise ConfigError(
                f"mechanism '{self.mechanism}' cannot {what}; these can: {', '.join(filter(fits, mechanisms.names()))}"
            )

    def limited(self, mask: Mask | None) -> Mask | None:
        """Which pairs of another mask, of all where it is None, the configuration lets meet; None: all."""
        if self.mask is None:
            return mask
        own = masks.build(self.mask, self.max_len)
        return own if mask is None else mask & own

    def looks_ahead(self) -> bool:
        """Whether a position sees those after it."""
        return True

    def fewest_tensors(self) -> int:
        return 4 * self.encoder_layers


class TransformerConfig(BlocksConfig):
    """Sizes and parts of an encoder-decoder."""

    kind: Literal["transformer"] = Field("transformer", description="the family of the model")
    decoder_layers: int = Field(6, ge=1, le=1024, description="decoder blocks")
    decoder_mechanism: MechanismName | None = Field(None, description="the decoder's; as mechanism if absent")
    decoder_position: PositionName | None = Field(None, description="the decoder's; as position if absent")
    tie_positions: bool = Field(True, description="both sides share one learned table of positions")
    embedding_scale: bool = Field(True, description="embeddings are multiplied by the square root of d_model")
    embedding_norm: bool = Field(False, description="normalization of the sum of embedding and position")
    output_bias: bool = Field(False, description="the output has a bias")
    output_scale: bool = Field(
        False, description="the states that the output reads are divided by the square root of d_model (T5)"
    )
    tie_embeddings: bool = Field(True, description="share the embedding tables when both sides share a tokenizer")
    tie_output: bool = Field(True, description="the output matrix is the target embedding")

    def model_post_init(self, context: object) -> None:
        super().model_post_init(context)
        self.check_steps("decoder_mechanism")

    def mechanisms(self) -> tuple[str, ...]:
        return self.mechanism, self.decoder_mechanism or self.mechanism

    def positions(self) -> tuple[str, ...]:
        first, *local = super().positions()
        return first, self.decoder_position or first, *local

    def fewest_tensors(self) -> int:
        return super().fewest_tensors() + 4 * self.decoder_layers


class DecoderConfig(StackConfig):
    """Sizes and parts of a decoder without an encoder: a language model."""

    kind: Literal["decoder"] = Field("decoder", description="the family of the model")
    num_layers: int = Field(6, ge=1, le=1024, description="blocks of self-attention and feed-forward")
    memory_len: int = Field(
        0, ge=0, description="tokens before a training window that each layer can still attend to; 0: none"
    )
    embedding_scale: bool = Field(True, description="embeddings are multiplied by the square root of d_model")
    embedding_norm: bool = Field(False, description="normalization of the sum of embedding and position")
    tie_output: bool = Field(True, description="the output matrix is the embedding")
    output_cap: float | None = Field(
        None, gt=0, description="logits are bent to lie between -cap and cap: cap tanh(logit / cap) (Gemma 2)"
    )

    def model_post_init(self, context: object) -> None:
        super().model_post_init(context)
        self.check_steps("mechanism")
        if self.conv and self.local_mask:
            raise ConfigError("conv mixes each token with those before it, which local_mask may hide: leave conv out")
        if self.memory_len:
            self._check_memory()

    def fewest_tensors(self) -> int:
        return 4 * self.num_layers

    def _check_memory(self) -> None:
        if self.local_mask is not None:
            raise ConfigError("local_mask counts the tokens of one segment: leave out local_mask or memory_len")
        if self.conv:
            raise ConfigError("conv cannot read on from the memory of earlier segments: leave out conv or memory_len")
        position, facts = position_type(self.position), mechanisms.mechanism_type(self.mechanism).facts
        if position.where == "embeddings":
            fitting = ", ".join(name for name in position_names() if _is_relative(name))
            raise ConfigError(
                f"memory_len needs a position that does not number the tokens, since remembered ones have no number;"
                f" position '{self.position}' numbers the tokens; these fit: {fitting}"
            )
        if facts.recurrent or facts.cache != "shared":
            raise ConfigError(f"mechanism '{self.mechanism}' cannot read keys of earlier segments; set memory_len to 0")


def _is_relative(name: str) -> bool:
    kind = position_type(name)
    return kind.steps and kind.where != "embeddings"


def _reads(name: str) -> bool:
    return mechanisms.mechanism_type(name).facts.bidirectional


def _hides(name: str) -> bool:
    return mechanisms.mechanism_type(name).facts.causal


def _writes(name: str) -> bool:
    facts = mechanisms.mechanism_type(name).facts
    return facts.causal and facts.cache != "none"

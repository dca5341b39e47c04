"""Hugging Face Transformers: MarianMTModel, which is post-norm, and Pegasus, the same network in pre-norm."""

import importlib
import importlib.util
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.corpus import BOS, EOS, PAD
from headwise.layers.attention import MultiHeadAttention
from headwise.layers.blocks import DecoderBlock, EncoderBlock, Residual
from headwise.models.protocols import Seq2Seq
from headwise.models.transformer import TransformerDecoder, TransformerEncoder
from headwise.models.transformer_config import TransformerConfig
from headwise.positions.sinusoidal import sinusoids

LONGEST = 512
SKIPPED = "peer skipped: transformers is not installed; pip install 'headwise[bench]'"


def installed() -> bool:
    """Whether the package is there; it is not imported."""
    return importlib.util.find_spec("transformers") is not None


def refusal(config: TransformerConfig) -> str | None:
    """Why neither Marian nor Pegasus can be this network, or None."""
    wanted = {"position": "sinusoidal", "score": "scaled_dot", "normalizer": "softmax", "norm": "layer"}
    for name, value in wanted.items():
        if getattr(config, name) != value:
            return f"model.{name} is '{getattr(config, name)}', theirs is '{value}'"
    if config.num_kv_heads not in (None, config.num_heads):
        return f"model.num_kv_heads is {config.num_kv_heads}, theirs have as many as num_heads"
    if config.activation == "swiglu":
        return "model.activation is 'swiglu', theirs have no gate"
    if not (config.residual and config.d_ff):
        return "model.residual or model.d_ff takes a part out that theirs have"
    if not (config.tie_embeddings and config.tie_output):
        return "the embedding tables are not tied three ways"
    return None


def build(config: TransformerConfig, vocab_size: int) -> Any:
    """Their model of this shape; its dropout rates are the configuration's."""
    transformers = importlib.import_module("transformers")
    family = "Marian" if config.norm_order == "post" else "Pegasus"
    options = {
        "vocab_size": vocab_size,
        "d_model": config.d_model,
        "encoder_layers": config.encoder_layers,
        "decoder_layers": config.decoder_layers,
        "encoder_ffn_dim": config.d_ff,
        "decoder_ffn_dim": config.d_ff,
        "encoder_attention_heads": config.num_heads,
        "decoder_attention_heads": config.num_heads,
        "dropout": config.dropout,
        "attention_dropout": _or(config.attention_dropout, config.dropout),
        "activation_dropout": _or(config.activation_dropout, config.dropout),
        "activation_function": config.activation,
        "max_position_embeddings": LONGEST,
        "scale_embedding": True,
        "pad_token_id": PAD,
        "eos_token_id": EOS,
        "decoder_start_token_id": BOS,
        # by default a token of its own vocabulary ends a sentence that reaches its limit
        "forced_eos_token_id": None,
    }
    if family == "Marian":
        return transformers.MarianMTModel(transformers.MarianConfig(**options))
    return transformers.PegasusForConditionalGeneration(transformers.PegasusConfig(**options))


class MarianLogits(nn.Module):
    """Their model as the plain loop calls it."""

    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def forward(self, src: Tensor, keep: Tensor, tgt_in: Tensor) -> Tensor:
        """Logits of every decoder position."""
        logits: Tensor = self.model(input_ids=src, attention_mask=keep.long(), decoder_input_ids=tgt_in).logits
        return logits


def weights(model: Seq2Seq) -> dict[str, Tensor]:
    """A Headwise Transformer's weights under their names: packed projections split, positions as a table."""
    encoder, decoder = model.encoder, model.decoder
    assert isinstance(encoder, TransformerEncoder)
    assert isinstance(decoder, TransformerDecoder)
    table = decoder.output.weight
    vocab_size, d_model = table.shape
    tied = ("model.shared", "model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head")
    named = dict.fromkeys(tied, table)
    positions = sinusoids(LONGEST, d_model).float()
    named |= {f"model.{side}.embed_positions": positions for side in ("encoder", "decoder")}
    found = {f"{name}.weight": tensor for name, tensor in named.items()}
    found["final_logits_bias"] = torch.zeros(1, vocab_size)
    for side, part in (("encoder", encoder), ("decoder", decoder)):
        if isinstance(part.norm, nn.LayerNorm):
            found |= _under(f"model.{side}.layer_norm", part.norm.state_dict())
        for number, block in enumerate(part.blocks):
            assert isinstance(block, EncoderBlock | DecoderBlock)
            found |= _under(f"model.{side}.layers.{number}", _block(block))
    # a file of tensors takes no two names for one memory
    return {name: tensor.detach().clone() for name, tensor in found.items()}


def _block(block: EncoderBlock | DecoderBlock) -> dict[str, Tensor]:
    own = block.self_residual if isinstance(block, DecoderBlock) else block.attention_residual
    found = _under("self_attn", _attention(block.self_attention))
    found |= _under("self_attn_layer_norm", _norm(own))
    if isinstance(block, DecoderBlock):
        found |= _under("encoder_attn", _attention(block.cross_attention))
        found |= _under("encoder_attn_layer_norm", _norm(block.cross_residual))
    found |= _under("fc1", block.feed_forward.inner.state_dict())
    found |= _under("fc2", block.feed_forward.outer.state_dict())
    return found | _under("final_layer_norm", _norm(block.feed_forward_residual))


def _attention(attention: MultiHeadAttention) -> dict[str, Tensor]:
    packed = [attention.projection]
    if attention.memory_projection is not None:
        packed.append(attention.memory_projection)
    found = _under("out_proj", attention.output.state_dict())
    for kind in ("weight", "bias"):
        parts = torch.cat([getattr(linear, kind) for linear in packed]).chunk(3)
        found |= {f"{name}_proj.{kind}": part for name, part in zip("qkv", parts, strict=True)}
    return found


def _norm(residual: Residual) -> dict[str, Tensor]:
    norm = residual.after if isinstance(residual.after, nn.LayerNorm) else residual.before
    return norm.state_dict()


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def _or(value: float | None, default: float) -> float:
    return default if value is None else value

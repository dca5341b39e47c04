"""Models as CTranslate2 reads them: encoder-decoders and decoders, in float32 or quantized."""

import math
import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from headwise.data.tokenizers import Tokenizer
from headwise.errors import ConfigError, MachineError, Unsupported, unknown
from headwise.exchange.family import effective
from headwise.exchange.tokens import theirs_of_tokenizers
from headwise.layers.attention import MultiHeadAttention
from headwise.layers.blocks import DecoderBlock, EncoderBlock, Residual
from headwise.layers.feed_forward import GATED, FeedForward
from headwise.positions.learned import Learned
from headwise.positions.rotary import Rotary
from headwise.positions.sinusoidal import sinusoids
from headwise.runs.commits import Writable

QUANTIZATIONS = ("float32", "int8", "int8_float32", "int16", "float16", "bfloat16")
_ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu_tanh": "GELUTanh", "silu": "SWISH"}
# rows among which the probability of a token that is suppressed is divided
SHARES = 64
# values of [model] that CTranslate2 computes, where only some are
_ONLY: dict[str, tuple[Any, ...]] = {
    "norm": ("layer", "rms"),
    "residual": (True,),
    "mechanism": ("scored",),
    "decoder_mechanism": ("scored",),
    "score": ("scaled_dot",),
    "normalizer": ("softmax",),
    "shared": ("none",),
    "combine": ("concat",),
    "projection_rank": (None,),
    "value_dim": (None,),
    "reversible": (False,),
    "convolution_heads": (False,),
    "mask": (None,),
    "segment": (None,),
    "memory_len": (0,),
    "output_scale": (False,),
    "output_cap": (None,),
    "norm_order": ("pre", "post"),
    "local_mask": (None,),
    "norm_bias": (True,),
    "first_norm": (True,),
    "decoder_position": (None,),
}


def library() -> Any:
    """The package. Raises: MachineError where it is not installed."""
    try:
        return import_module("ctranslate2")
    except ImportError:
        raise MachineError("CTranslate2 is not installed: pip install 'headwise[ctranslate2]'") from None


def files_of(
    model: Any,
    tokenizers: tuple[Tokenizer, ...],
    flat: dict[str, Any],
    quantization: str = "float32",
    banned: Sequence[int] = (),
) -> dict[str, Writable]:
    """The files of a model in this format: an encoder-decoder, or a decoder alone.

    Args:
        tokenizers: of what is read, and of what is written where that is another one.
        flat: the keys of its recipe.
        banned: tokens that will be suppressed, and whose probability the others must not get: rows behind the
            vocabulary keep it, `SHARES` for each token, so that none of them is probable.

    Raises: Unsupported naming the keys that CTranslate2 does not compute.
    """
    if quantization not in QUANTIZATIONS:
        raise ConfigError(unknown("quantization", quantization, QUANTIZATIONS))
    package, flat = library(), effective(flat)
    refuse(flat)
    reads = hasattr(model, "encoder")
    spec = seq2seq_spec(model, package, flat) if reads else _decoder_only(model, package, flat)
    _keep_shares(spec.decoder, banned)
    _describe(spec, tokenizers, flat, reads=reads, extra=len(banned) * SHARES)
    spec.validate()
    spec.optimize(quantization=None if quantization == "float32" else quantization)
    with tempfile.TemporaryDirectory() as folder:
        spec.save(folder)
        files: dict[str, Writable] = {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}
    return {**files, **theirs_of_tokenizers(tokenizers, flat, flat["model.max_len"])}


def refuse(flat: dict[str, Any]) -> None:
    """Raises: Unsupported naming the keys of a recipe that CTranslate2 does not compute."""
    if others := [
        f"model.{key} = {flat[f'model.{key}']!r}"
        for key, allowed in _ONLY.items()
        if f"model.{key}" in flat and flat[f"model.{key}"] not in allowed
    ]:
        raise Unsupported(f"CTranslate2 does not compute {'; '.join(others)}")


def positions(flat: dict[str, Any]) -> int | None:
    """Rows of the table of positions; None where there is no table."""
    length: int = flat["model.max_len"]
    if flat["model.position"] == "sinusoidal":
        return max(length, 2 * flat.get("decoding.max_len", 0))
    return length if flat["model.position"] == "learned" else None


def _kinds(library: Any, flat: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a stack."""
    activation = flat["model.activation"]
    return {
        "pre_norm": flat["model.norm_order"] == "pre",
        "activation": library.specs.common_spec.Activation[_ACTIVATIONS[GATED.get(activation, activation)]],
        "layernorm_embedding": flat["model.embedding_norm"],
        "ffn_glu": activation in GATED,
        "rms_norm": flat["model.norm"] == "rms",
        "num_heads_kv": flat["model.num_kv_heads"] if flat["model.num_kv_heads"] != flat["model.num_heads"] else None,
        "head_dim": flat["model.head_dim"],
        "qk_norm": flat["model.qk_norm"],
    }


def _rotary(position: object) -> dict[str, Any]:
    if not isinstance(position, Rotary):
        return {}
    if position.scaling is not None:
        raise Unsupported("CTranslate2 gets no scaled rotary positions here; leave position.scaling out")
    return {
        "rotary_dim": position.columns,
        "rotary_interleave": position.layout == "interleaved",
        "rotary_base": position.base,
    }


def seq2seq_spec(model: Any, library: Any, flat: dict[str, Any]) -> Any:
    """An encoder-decoder with the keys `model.NAME` of its recipe, without vocabularies.

    Raises: Unsupported for positions that CTranslate2 does not compute.
    """
    kinds, specs = _kinds(library, flat), library.specs.transformer_spec
    if flat["model.position"] not in ("sinusoidal", "learned"):
        raise Unsupported(
            f"CTranslate2 does not compute model.position = {flat['model.position']!r} in an encoder-decoder"
        )
    heads, layers = flat["model.num_heads"], (len(model.encoder.blocks), len(model.decoder.blocks))
    encoder = specs.TransformerEncoderSpec(layers[0], heads, **kinds)
    spec = specs.TransformerSpec(encoder, specs.TransformerDecoderSpec(layers[1], heads, **kinds))
    for side, ours in ((spec.encoder, model.encoder), (spec.decoder, model.decoder)):
        _stack(side, ours, flat)
    _linear(spec.decoder.projection, model.decoder.output)
    return spec


def _decoder_only(model: Any, library: Any, flat: dict[str, Any]) -> Any:
    decoder = model.decoder
    position = decoder.embedding.position
    if flat["model.position"] not in ("sinusoidal", "learned") and not isinstance(position, Rotary):
        raise Unsupported(f"CTranslate2 does not compute model.position = {flat['model.position']!r}")
    spec = library.specs.TransformerDecoderModelSpec.from_config(
        len(decoder.blocks), flat["model.num_heads"], **_kinds(library, flat), **_rotary(position)
    )
    _stack(spec.decoder, decoder, flat)
    _linear(spec.decoder.projection, decoder.output)
    return spec


def _stack(spec: Any, ours: Any, flat: dict[str, Any]) -> None:
    embedding = ours.embedding
    spec.scale_embeddings = float(embedding.scale) if embedding.scale != 1.0 else False
    tables = spec.embeddings[0] if isinstance(spec.embeddings, list) else spec.embeddings
    tables.weight = _numbers(embedding.weight)
    if isinstance(embedding.position, Learned):
        spec.position_encodings.encodings = _numbers(embedding.position.table)
    elif flat["model.position"] == "sinusoidal":
        places = positions(flat)
        assert places is not None
        spec.position_encodings.encodings = _numbers(sinusoids(places, flat["model.d_model"]).float())
    if flat["model.embedding_norm"]:
        _norm(spec.layernorm_embedding, embedding.norm)
    if flat["model.norm_order"] == "pre":
        _norm(spec.layer_norm, ours.norm)
    for layer, block in zip(spec.layer, ours.blocks, strict=True):
        _block(layer, block)


def _block(layer: Any, block: Any) -> None:
    assert isinstance(block, EncoderBlock | DecoderBlock)
    (own, residual), *cross = block.attentions()
    _attention(layer.self_attention, own, residual)
    for attention, around in cross:
        _attention(layer.attention, attention, around)
    assert block.feed_forward is not None
    assert block.feed_forward_residual is not None
    _feed_forward(layer.ffn, block.feed_forward, block.feed_forward_residual)


def _attention(spec: Any, attention: MultiHeadAttention, residual: Residual) -> None:
    maps = [attention.projection, attention.memory_projection, attention.output]
    for own, ours in zip(spec.linear, [part for part in maps if part is not None], strict=True):
        _linear(own, ours)
    _norm(spec.layer_norm, _of(residual))
    if not isinstance(attention.query_norm, nn.Identity):
        _norm(spec.q_norm, attention.query_norm)
        _norm(spec.k_norm, attention.key_norm)


def _feed_forward(spec: Any, feed_forward: FeedForward, residual: Residual) -> None:
    _norm(spec.layer_norm, _of(residual))
    _linear(spec.linear_1, feed_forward.outer)
    if feed_forward.activation not in GATED:
        _linear(spec.linear_0, feed_forward.inner)
        return
    weights, bias = feed_forward.inner.weight.chunk(2), feed_forward.inner.bias
    biases = (None, None) if bias is None else bias.chunk(2)
    for own, weight, part in zip((spec.linear_0, spec.linear_0_noact), weights, biases, strict=True):
        own.weight = _numbers(weight)
        if part is not None:
            own.bias = _numbers(part)


def _of(residual: Residual) -> nn.Module:
    return residual.after if isinstance(residual.before, nn.Identity) else residual.before


def _norm(spec: Any, norm: Any) -> None:
    spec.gamma = _numbers(norm.weight)
    if isinstance(norm, nn.LayerNorm):
        spec.beta = _numbers(norm.bias)


def _linear(spec: Any, linear: Any) -> None:
    spec.weight = _numbers(linear.weight)
    if linear.bias is not None:
        spec.bias = _numbers(linear.bias)


def _numbers(tensor: Tensor) -> Any:
    return tensor.detach().float().contiguous().cpu().numpy().copy()


def _describe(spec: Any, tokenizers: tuple[Tokenizer, ...], flat: dict[str, Any], *, reads: bool, extra: int) -> None:
    """Vocabularies, special tokens and the constant of the norms."""
    target = tokenizers[-1]
    entries = [unique_entries(tokenizer) for tokenizer in tokenizers]
    written = [*entries[-1], *(f"<never {number}>" for number in range(extra))]
    if reads:
        spec.register_source_vocabulary(entries[0])
        spec.register_target_vocabulary(written)
        spec.config.decoder_start_token = entries[-1][target.bos_id]
        spec.config.add_source_bos = spec.config.add_source_eos = False
    else:
        spec.register_vocabulary(written)
    spec.config.bos_token = entries[-1][target.bos_id]
    spec.config.eos_token = entries[-1][target.eos_id]
    spec.config.unk_token = entries[-1][target.unk_id] if target.unk_id >= 0 else ""
    spec.config.layer_norm_epsilon = flat["model.norm_eps"]


def _keep_shares(decoder: Any, banned: Sequence[int]) -> None:
    """Rows that have the probability of these tokens, in equal shares, which a softmax counts where these are left out.

    exp(x - log n), n times, is exp(x).
    """
    if not banned:
        return
    rows, projection = np.repeat(np.array(banned), SHARES), decoder.projection
    tables = decoder.embeddings[0] if isinstance(decoder.embeddings, list) else decoder.embeddings
    bias = projection.bias if isinstance(projection.bias, np.ndarray) else np.zeros(len(projection.weight), np.float32)
    projection.bias = np.concatenate([bias, bias[rows] - np.float32(math.log(SHARES))])
    for own in (projection, tables):
        own.weight = np.concatenate([own.weight, own.weight[rows]])


def unique_entries(tokenizer: Tokenizer) -> list[str]:
    """The entries of a vocabulary; CTranslate2 knows tokens by their text alone."""
    seen: set[str] = set()
    unique = []
    for number, entry in enumerate(tokenizer.entries()):
        entry = entry if entry not in seen else f"{entry}<{number}>"
        seen.add(entry)
        unique.append(entry)
    return unique

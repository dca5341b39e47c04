"""Models of CTranslate2: encoder-decoders and decoders, in float32 or quantized."""

import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from headwise.errors import ConfigError, MachineError, Unsupported, unknown
from headwise.exchange.family import effective
from headwise.exchange.tokens import theirs_of_tokenizers
from headwise.export.parity import Runner
from headwise.export.subject import ROWS, Case, Subject, Written
from headwise.layers.attention import MultiHeadAttention
from headwise.layers.blocks import DecoderBlock, EncoderBlock, Residual
from headwise.layers.feed_forward import FeedForward
from headwise.positions.learned import Learned
from headwise.positions.rotary import Rotary
from headwise.positions.sinusoidal import sinusoids
from headwise.runs.commits import Writable

NAME = "ctranslate2"
QUANTIZATIONS = ("float32", "int8", "int8_float32", "int16", "float16", "bfloat16")
_ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu_tanh": "GELUTanh", "silu": "SWISH", "swiglu": "SWISH"}
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
}


def _library() -> Any:
    try:
        return import_module("ctranslate2")
    except ImportError:
        raise MachineError("CTranslate2 is not installed: pip install 'headwise[ctranslate2]'") from None


def files_of(subject: Subject, quantization: str = "float32") -> dict[str, Writable]:
    """The files of a run in this format. Raises: Unsupported naming the keys that CTranslate2 does not compute."""
    if quantization not in QUANTIZATIONS:
        raise ConfigError(unknown("quantization", quantization, QUANTIZATIONS))
    library, flat = _library(), effective(subject.flat())
    refuse(flat)
    spec = seq2seq_spec(subject.model, library, flat) if subject.reads else _decoder_only(subject, library, flat)
    _describe(spec, subject, flat)
    spec.validate()
    spec.optimize(quantization=None if quantization == "float32" else quantization)
    with tempfile.TemporaryDirectory() as folder:
        spec.save(folder)
        files: dict[str, Writable] = {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}
    tokens = theirs_of_tokenizers(subject.tokenizers, flat, flat["model.max_len"])
    return {**files, **tokens}


def refuse(flat: dict[str, Any]) -> None:
    """Raises: Unsupported naming the keys of a recipe that CTranslate2 does not compute."""
    if others := [
        f"model.{key} = {flat[f'model.{key}']!r}"
        for key, allowed in _ONLY.items()
        if f"model.{key}" in flat and flat[f"model.{key}"] not in allowed
    ]:
        raise Unsupported(f"CTranslate2 does not compute {'; '.join(others)}")


def _kinds(library: Any, flat: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a stack."""
    return {
        "pre_norm": flat["model.norm_order"] == "pre",
        "activation": library.specs.common_spec.Activation[_ACTIVATIONS[flat["model.activation"]]],
        "layernorm_embedding": flat["model.embedding_norm"],
        "ffn_glu": flat["model.activation"] == "swiglu",
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


def _decoder_only(subject: Subject, library: Any, flat: dict[str, Any]) -> Any:
    decoder: Any = subject.model.decoder
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
        length = max(flat["model.max_len"], 2 * flat.get("decoding.max_len", 0))
        spec.position_encodings.encodings = _numbers(sinusoids(length, flat["model.d_model"]).float())
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
    if feed_forward.activation != "swiglu":
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


def _describe(spec: Any, subject: Subject, flat: dict[str, Any]) -> None:
    """Vocabularies, special tokens and the constant of the norms."""
    tokenizers = subject.tokenizers
    target = tokenizers[-1]
    entries = [_unique(tokenizer.entries()) for tokenizer in tokenizers]
    if subject.reads:
        spec.register_source_vocabulary(entries[0])
        spec.register_target_vocabulary(entries[-1])
        spec.config.decoder_start_token = entries[-1][target.bos_id]
        spec.config.add_source_bos = spec.config.add_source_eos = False
    else:
        spec.register_vocabulary(entries[0])
    spec.config.bos_token = entries[-1][target.bos_id]
    spec.config.eos_token = entries[-1][target.eos_id]
    spec.config.unk_token = entries[-1][target.unk_id] if target.unk_id >= 0 else ""
    spec.config.layer_norm_epsilon = flat["model.norm_eps"]


def _unique(entries: Sequence[str]) -> list[str]:
    """The entries; CTranslate2 knows tokens by their text alone."""
    seen: set[str] = set()
    unique = []
    for number, entry in enumerate(entries):
        entry = entry if entry not in seen else f"{entry}<{number}>"
        seen.add(entry)
        unique.append(entry)
    return unique


class CTranslate2Runner(Runner):
    """A folder in CTranslate2, on the processor."""

    def __init__(self, folder: Path, subject: Subject):
        self._subject, self._library = subject, _library()
        kind = self._library.Translator if subject.reads else self._library.Generator
        self._model = kind(str(folder), device="cpu", inter_threads=1, intra_threads=torch.get_num_threads())
        self._entries = [_unique(tokenizer.entries()) for tokenizer in subject.tokenizers]
        self._numbers = {entry: number for number, entry in enumerate(self._entries[-1])}

    def versions(self) -> dict[str, str]:
        return {"ctranslate2": self._library.__version__}

    def search(self, cases: Sequence[Case]) -> list[Written]:
        written: dict[int, Written] = {}
        by_limit: dict[int, list[int]] = {}
        for place, case in enumerate(cases):
            by_limit.setdefault(case.limit, []).append(place)
        for limit, places in by_limit.items():
            for start in range(0, len(places), ROWS):
                part = places[start : start + ROWS]
                written |= dict(zip(part, self._searched([cases[place] for place in part], limit), strict=True))
        return [written[place] for place in range(len(cases))]

    def _searched(self, cases: Sequence[Case], limit: int) -> list[Written]:
        config, target = self._subject.decoding, self._subject.tokenizers[-1]
        first = () if target.imported is None else target.imported.first
        beams = config.beam_size if config.method == "beam" else 1
        options: dict[str, Any] = {"beam_size": beams, "length_penalty": config.length_penalty, "return_scores": True}
        options |= {"no_repeat_ngram_size": config.no_repeat_ngram}
        banned = target.banned_ids if self._subject.reads or target.imported else (*target.banned_ids, target.eos_id)
        options["suppress_sequences"] = [[self._entries[-1][token]] for token in banned]
        sources = [[self._entries[0][token] for token in case.source] for case in cases]
        if self._subject.reads:
            prefix = [[self._entries[-1][token] for token in first]] * len(cases) if first else None
            options |= {"max_decoding_length": limit, "min_decoding_length": config.min_len}
            results = self._model.translate_batch(sources, target_prefix=prefix, **options)
            rows = [(result.hypotheses[0], result.scores[0]) for result in results]
            return [Written([self._numbers[token] for token in row], float(score)) for row, score in rows]
        options |= {"max_length": limit, "min_length": config.min_len, "include_prompt_in_result": False}
        results = self._model.generate_batch(sources, **options)
        return [Written(list(result.sequences_ids[0]), float(result.scores[0])) for result in results]

    def log_probs(self, cases: Sequence[Case]) -> list[list[float]]:
        names = self._entries
        targets = [[names[-1][token] for token in case.target] for case in cases]
        sources = [[names[0][token] for token in case.source] for case in cases]
        if self._subject.reads:
            results = self._model.score_batch(sources, [row[:-1] for row in targets])
            return [list(result.log_probs) for result in results]
        whole = [[*source, *target] for source, target in zip(sources, targets, strict=True)]
        results = self._model.score_batch(whole)
        return [list(result.log_probs)[-len(row) :] for result, row in zip(results, targets, strict=True)]

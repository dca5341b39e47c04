"""Gemma 2 and Gemma 3 of text: local and global layers, norms on both sides of a sublayer, soft caps."""

import math
from collections.abc import Mapping
from typing import Any

from headwise.attention import scores
from headwise.attention.scores import Dot, SoftCap
from headwise.errors import ConfigError
from headwise.exchange.families.decoders import (
    GLOBAL,
    LOCAL,
    NESTED,
    WINDOWS,
    describe_nested,
    describe_windows,
    llama_rows,
    rotary_parameters,
    rotary_text,
    spares_of,
    specials_of,
    tokens_of,
    with_nested,
    with_windows,
)
from headwise.exchange.family import Family
from headwise.exchange.keys import Flat, Key, fixed, free, mapped, refused

_ACTIVATIONS = {"gelu_pytorch_tanh": "geglu_tanh", "gelu_new": "geglu_tanh", "gelu": "geglu", "silu": "swiglu"}
_SCALAR, _CAP, _ROTARY = "query_pre_attn_scalar", "attn_logit_softcapping", "rope_parameters"


def _score(numbers: Any) -> str:
    """The score of a number by whose root dot products are divided, and of a cap."""
    scalar, cap = numbers
    if type(scalar) is not int or scalar < 1:
        raise ValueError(scalar)
    dot = f"dot:scale={scalar**-0.5!r}"
    return dot if cap is None else f"soft_cap:score=({dot}),cap={float(cap)!r}"


def _numbers(text: str) -> list[Any]:
    """These numbers of a score."""
    try:
        score = scores.build(text, 8, 8, 8, 1)
    except ConfigError:
        raise KeyError(text) from None
    cap = score.cap if isinstance(score, SoftCap) else None
    dot = score.score if isinstance(score, SoftCap) else score
    if not isinstance(dot, Dot) or not dot.scale > 0:
        raise KeyError(text)
    return [round(dot.scale**-2), cap]


def _bound(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ValueError(value)
    return float(value)


def _prepare(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The keys that both share, with the score and the kinds of layers as one."""
    prepared = dict(values)
    cap = prepared.pop(_CAP, 50.0)
    try:
        cap = _bound(cap)
    except ValueError:
        raise refused(where, _CAP, cap) from None
    scalar = prepared.get(_SCALAR, 256)
    if type(scalar) is not int or scalar < 1:
        raise refused(where, _SCALAR, scalar)
    return {**prepared, _SCALAR: [scalar, cap]}


def _prepare_2(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    base, scaling = values.get("rope_theta", 10000.0), values.get("rope_scaling") or {}
    prepared = {_ROTARY: {"rope_theta": base, **scaling}, "sliding_window": 4096, **_prepare(values, where)}
    for key in ("rope_theta", "rope_scaling"):
        prepared.pop(key, None)
    return with_windows(prepared, where, "lg", whole=True)


def _prepare_3(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    pattern = values.get("sliding_window_pattern", values.get("_sliding_window_pattern", 6))
    if type(pattern) is not int or not 0 < pattern <= 1024:
        raise refused(where, "sliding_window_pattern", pattern)
    usual = {
        GLOBAL: {"rope_theta": values.get("rope_theta", 1e6), **(values.get("rope_scaling") or {})},
        LOCAL: {"rope_theta": values.get("rope_local_base_freq", 1e4)},
    }
    prepared = {"sliding_window": 4096, **_prepare({_CAP: None, **values}, where)}
    for key in ("sliding_window_pattern", "_sliding_window_pattern", "rope_theta", "rope_scaling"):
        prepared.pop(key, None)
    prepared.pop("rope_local_base_freq", None)
    if prepared[_SCALAR][1] is not None:
        # their class has the key, and does not read it
        raise refused(where, _CAP, values[_CAP])
    prepared = with_windows(prepared, where, "l" * (pattern - 1) + "g", whole=False)
    return with_nested(prepared, where, usual, local=prepared["sliding_window"] is not None)


def _describe(flat: Flat) -> dict[str, Any]:
    scalar, cap = _numbers(flat["model.score"])
    return {**describe_windows(flat), _SCALAR: scalar, _CAP: cap}


def _describe_3(flat: Flat) -> dict[str, Any]:
    return {**_describe(flat), **describe_nested(flat)}


def _family(name: str, kind: str, keys: tuple[Key, ...], prepare: Any, describe: Any, **model: Any) -> Family:
    constants = {"kind": "decoder", "norm": "rms_1p", "norm_order": "sandwich", "bias": "none", "qk_norm": False}
    constants |= {"embedding_scale": True, "embedding_norm": False, "dropout": 0.0, "activation_dropout": 0.0, **model}
    return Family(
        name,
        {kind: ("language-model",)},
        {f"model.{key}": value for key, value in constants.items()},
        (
            Key("hidden_size", "model.d_model", 2304),
            Key("intermediate_size", "model.d_ff", 9216),
            Key("num_hidden_layers", "model.num_layers", 26),
            Key("num_attention_heads", "model.num_heads", 8),
            Key("num_key_value_heads", "model.num_kv_heads", 4),
            Key("head_dim", "model.head_dim", 256),
            mapped("hidden_activation", "model.activation", "gelu_pytorch_tanh", _ACTIVATIONS),
            Key("rms_norm_eps", "model.norm_eps", 1e-6),
            Key("attention_dropout", "model.attention_dropout", 0.0),
            Key(_SCALAR, "model.score", [256, None], _score, _numbers),
            fixed("attention_bias", False),
            fixed("use_bidirectional_attention", None, False, written=False),
            *WINDOWS,
            *specials_of(2, 1, pad=0),
            *tokens_of(None, tied=True),
            # their class reads `hidden_activation` alone
            *free("hidden_act", "cache_implementation", "sliding_window_size"),
            *keys,
        ),
        llama_rows,
        spares_of("model.embed_tokens.weight", r".*rotary_emb\.inv_freq"),
        prepare=prepare,
        describe=describe,
    )


GEMMA2 = _family(
    "gemma2",
    "Gemma2ForCausalLM",
    (
        Key("max_position_embeddings", "model.max_len", 8192),
        Key("final_logit_softcapping", "model.output_cap", 30.0, _bound),
        Key(_ROTARY, "model.position", {}, rotary_text, rotary_parameters),
    ),
    _prepare_2,
    _describe,
)
GEMMA3 = _family(
    "gemma3_text",
    "Gemma3ForCausalLM",
    (
        Key("max_position_embeddings", "model.max_len", 131072),
        Key("final_logit_softcapping", "model.output_cap", None, _bound),
        *NESTED,
    ),
    _prepare_3,
    _describe_3,
    qk_norm=True,
)

FAMILIES = (GEMMA2, GEMMA3)

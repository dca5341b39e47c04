"""Language models: GPT-2, OPT, and Llama with its relatives Mistral, Qwen2 and Qwen3."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from headwise.exchange.family import Family, Spare
from headwise.exchange.forms import SAME, Below, Packed, Row, Turned
from headwise.exchange.keys import Flat, Key, fixed, free, mapped, refused, token
from headwise.positions import build as build_position
from headwise.positions.rotary import Llama3, Rotary

_TASKS = ("language-model",)
_BASE = 10000.0


def _norm(ours: str, theirs: str, parts: tuple[str, ...] = ("weight", "bias")) -> list[Row]:
    return [Row(f"{ours}.{part}", (f"{theirs}.{part}",)) for part in parts]


def _tables(flat: Flat, embedding: str) -> list[Row]:
    rows = [Row("decoder.embedding.weight", (embedding,))]
    return rows if flat["model.tie_output"] else [*rows, Row("decoder.output.weight", ("lm_head.weight",))]


def _turned(ours: str, theirs: str) -> list[Row]:
    return [Row(f"{ours}.weight", (f"{theirs}.weight",), Turned()), Row(f"{ours}.bias", (f"{theirs}.bias",))]


def _gpt2_rows(flat: Flat) -> list[Row]:
    rows = _tables(flat, "transformer.wte.weight")
    rows.append(Row("decoder.embedding.position.table", ("transformer.wpe.weight",)))
    for layer in range(flat["model.num_layers"]):
        ours, theirs = f"decoder.blocks.{layer}", f"transformer.h.{layer}"
        rows += _turned(f"{ours}.self_attention.projection", f"{theirs}.attn.c_attn")
        rows += _turned(f"{ours}.self_attention.output", f"{theirs}.attn.c_proj")
        rows += _norm(f"{ours}.self_residual.before", f"{theirs}.ln_1")
        rows += _turned(f"{ours}.feed_forward.inner", f"{theirs}.mlp.c_fc")
        rows += _turned(f"{ours}.feed_forward.outer", f"{theirs}.mlp.c_proj")
        rows += _norm(f"{ours}.feed_forward_residual.before", f"{theirs}.ln_2")
    return rows + _norm("decoder.norm", "transformer.ln_f")


def _spares(embedding: str, *unread: str) -> Any:
    def spares(flat: Flat) -> dict[str, Spare]:
        own = {name: Spare() for name in unread}
        return own | ({"lm_head.weight": Spare(embedding)} if flat["model.tie_output"] else {})

    return spares


def _with_inner(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    inner = values.get("n_inner")
    return {**values, "n_inner": 4 * values.get("n_embd", 768) if inner is None else inner}


_TOKENS = (
    Key("vocab_size", "tokenizer.vocab_size", None),
    Key("tie_word_embeddings", "model.tie_output", False),
    fixed("is_encoder_decoder", False, None, written=False),
    fixed("add_cross_attention", False, None, written=False),
    *free("is_decoder", "id2label", "label2id"),
)
_SINGLE = {"kind": "decoder", "norm_order": "pre", "embedding_scale": False, "embedding_norm": False, "dropout": 0.0}


def _specials(begin: int | None, eos: int | None) -> tuple[Key, ...]:
    return (
        token("pad_token_id", "specials.pad", None),
        token("bos_token_id", "specials.begin", begin),
        token("eos_token_id", "specials.eos", eos),
    )


GPT2 = Family(
    "gpt2",
    {"GPT2LMHeadModel": _TASKS},
    {f"model.{key}": value for key, value in {**_SINGLE, "position": "learned", "norm": "layer"}.items()}
    | {"model.activation_dropout": 0.0},
    (
        Key("n_positions", "model.max_len", 1024),
        Key("n_embd", "model.d_model", 768),
        Key("n_layer", "model.num_layers", 12),
        Key("n_head", "model.num_heads", 12),
        Key("n_inner", "model.d_ff", None),
        mapped(
            "activation_function",
            "model.activation",
            "gelu_new",
            {"gelu_new": "gelu_tanh", "gelu": "gelu", "relu": "relu"},
        ),
        Key("resid_pdrop", "model.dropout", 0.1),
        Key("embd_pdrop", "model.dropout", 0.1),
        Key("attn_pdrop", "model.attention_dropout", 0.1),
        Key("layer_norm_epsilon", "model.norm_eps", 1e-5),
        fixed("scale_attn_weights", True),
        fixed("scale_attn_by_inverse_layer_idx", False),
        *free("reorder_and_upcast_attn", "n_ctx", "summary_type", "summary_use_proj", "summary_activation"),
        *free("summary_first_dropout", "summary_proj_to_labels"),
        *_specials(50256, 50256),
        Key("vocab_size", "tokenizer.vocab_size", 50257),
        Key("tie_word_embeddings", "model.tie_output", True),
        *_TOKENS[2:],
    ),
    _gpt2_rows,
    _spares("transformer.wte.weight", r"transformer\.h\.\d+\.attn\.(bias|masked_bias)"),
    prepare=_with_inner,
    prefix="transformer.",
)


def _opt_rows(flat: Flat) -> list[Row]:
    own = "model.decoder"
    rows = _tables(flat, f"{own}.embed_tokens.weight")
    rows.append(Row("decoder.embedding.position.table", (f"{own}.embed_positions.weight",), Below(2)))
    width, biased = flat["model.d_model"], flat["model.bias"] == "all"
    for layer in range(flat["model.num_layers"]):
        ours, theirs = f"decoder.blocks.{layer}", f"{own}.layers.{layer}"
        maps = tuple(f"{theirs}.self_attn.{part}_proj" for part in "qkv")
        rows += _linear(f"{ours}.self_attention.projection", maps, (width,) * 3, biased=biased)
        rows += _linear(f"{ours}.self_attention.output", (f"{theirs}.self_attn.out_proj",), (), biased=biased)
        rows += _norm(f"{ours}.self_residual.before", f"{theirs}.self_attn_layer_norm")
        rows += _linear(f"{ours}.feed_forward.inner", (f"{theirs}.fc1",), (), biased=biased)
        rows += _linear(f"{ours}.feed_forward.outer", (f"{theirs}.fc2",), (), biased=biased)
        rows += _norm(f"{ours}.feed_forward_residual.before", f"{theirs}.final_layer_norm")
    return rows + _norm("decoder.norm", f"{own}.final_layer_norm")


def _opt_keys(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    width = values.get("hidden_size", 768)
    if (inner := values.get("word_embed_proj_dim", width)) not in (None, width):
        raise refused(where, "word_embed_proj_dim", inner)
    return {key: value for key, value in values.items() if key != "word_embed_proj_dim"}


def _llama_rows(flat: Flat) -> list[Row]:
    rows = _tables(flat, "model.embed_tokens.weight")
    head = flat["model.head_dim"]
    heights = (flat["model.num_heads"] * head, *(flat["model.num_kv_heads"] * head,) * 2)
    biases, weight = flat["model.bias"], ("weight",)
    for layer in range(flat["model.num_layers"]):
        ours, theirs = f"decoder.blocks.{layer}", f"model.layers.{layer}"
        maps = tuple(f"{theirs}.self_attn.{part}_proj" for part in "qkv")
        rows += _linear(f"{ours}.self_attention.projection", maps, heights, biased=biases != "none")
        rows += _linear(f"{ours}.self_attention.output", (f"{theirs}.self_attn.o_proj",), (), biased=biases == "all")
        rows += _norm(f"{ours}.self_residual.before", f"{theirs}.input_layernorm", weight)
        gates = (f"{theirs}.mlp.gate_proj", f"{theirs}.mlp.up_proj")
        rows += _linear(f"{ours}.feed_forward.inner", gates, (flat["model.d_ff"],) * 2, biased=biases == "all")
        rows += _linear(f"{ours}.feed_forward.outer", (f"{theirs}.mlp.down_proj",), (), biased=biases == "all")
        rows += _norm(f"{ours}.feed_forward_residual.before", f"{theirs}.post_attention_layernorm", weight)
        if flat["model.qk_norm"]:
            rows += _norm(f"{ours}.self_attention.query_norm", f"{theirs}.self_attn.q_norm", weight)
            rows += _norm(f"{ours}.self_attention.key_norm", f"{theirs}.self_attn.k_norm", weight)
    return rows + _norm("decoder.norm", "model.norm", weight)


def _linear(ours: str, theirs: tuple[str, ...], heights: tuple[int, ...], *, biased: bool) -> list[Row]:
    parts = ("weight", "bias") if biased else ("weight",)
    form = Packed(heights) if len(theirs) > 1 else SAME
    return [Row(f"{ours}.{part}", tuple(f"{name}.{part}" for name in theirs), form) for part in parts]


def rotary(text: str) -> Rotary | None:
    """The rotary positions of a name; None of another scheme."""
    position = build_position(text, 64, 64, 1, 64) if text.partition(":")[0] == "rotary" else None
    return position if isinstance(position, Rotary) and position.columns == 64 else None


def written(position: Rotary) -> str:
    """The name of rotary positions by halves, with all that they depend on."""
    text = f"rotary:layout=half,base={float(position.base)!r}"
    if isinstance(scaling := position.scaling, Llama3):
        values = f"{scaling.factor!r},original_len={scaling.original_len},slow={scaling.slow!r},fast={scaling.fast!r}"
        return f"{text},scaling=(llama3:{values})"
    return text


def _position(values: Mapping[str, Any]) -> str:
    kind, base = values.get("rope_type", values.get("type", "default")), float(values.get("rope_theta", _BASE))
    if not 0 < base < math.inf:
        raise KeyError(base)
    known = {"rope_type", "type", "rope_theta"}
    if kind == "llama3":
        known |= {"factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"}
        numbers = (float(values[name]) for name in ("factor", "low_freq_factor", "high_freq_factor"))
        factor, slow, fast = numbers
        scaling: Llama3 | None = Llama3(factor, int(values["original_max_position_embeddings"]), slow, fast)
    elif kind == "default":
        scaling = None
    else:
        raise KeyError(kind)
    if values.keys() - known:
        raise KeyError(min(values.keys() - known))
    return written(Rotary(64, base, layout="half", scaling=scaling))


def _parameters(text: str) -> dict[str, Any]:
    position = rotary(text)
    if position is None or not (position.scaling is None or isinstance(position.scaling, Llama3)):
        raise KeyError(text)
    values: dict[str, Any] = {"rope_type": "default", "rope_theta": float(position.base)}
    if isinstance(scaling := position.scaling, Llama3):
        values |= {"rope_type": "llama3", "factor": scaling.factor, "low_freq_factor": scaling.slow}
        values |= {"high_freq_factor": scaling.fast, "original_max_position_embeddings": scaling.original_len}
    return values


def _prepared(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The keys with those of older folders as newer ones have them."""
    prepared = dict(values)
    base, scaling = prepared.pop("rope_theta", None), prepared.pop("rope_scaling", None)
    if base is not None and not (isinstance(base, int | float) and 0 < base < math.inf):
        raise refused(where, "rope_theta", base)
    if "rope_parameters" not in prepared:
        prepared["rope_parameters"] = {"rope_theta": _BASE if base is None else base, **(scaling or {})}
    heads = prepared.get("num_attention_heads", 32)
    if prepared.get("num_key_value_heads") is None:
        prepared["num_key_value_heads"] = heads
    if prepared.get("head_dim") is None and isinstance(heads, int) and heads:
        prepared["head_dim"] = prepared.get("hidden_size", 4096) // heads
    window, places = prepared.pop("sliding_window", None), prepared.get("max_position_embeddings", 0)
    slides = window is not None and prepared.get("use_sliding_window", True) and window < places
    if slides:
        raise refused(where, "sliding_window", window)
    kinds = prepared.pop("layer_types", None)
    if kinds is not None and set(kinds) - {"full_attention"} and (window is None or window < places):
        raise refused(where, "layer_types", kinds)
    return prepared


def _relative(name: str, kind: str, keys: tuple[Key, ...], **model: Any) -> Family:
    """A family of the shape of Llama."""
    constants = {**_SINGLE, "norm": "rms", "activation_dropout": 0.0, "qk_norm": False, **model}
    return Family(
        name,
        {kind: _TASKS},
        {f"model.{key}": value for key, value in constants.items()},
        (
            Key("hidden_size", "model.d_model", 4096),
            Key("intermediate_size", "model.d_ff", 11008),
            Key("num_hidden_layers", "model.num_layers", 32),
            Key("num_attention_heads", "model.num_heads", 32),
            Key("num_key_value_heads", "model.num_kv_heads", None),
            Key("head_dim", "model.head_dim", None),
            mapped("hidden_act", "model.activation", "silu", {"silu": "swiglu", "swish": "swiglu"}),
            Key("max_position_embeddings", "model.max_len", 2048),
            Key("rms_norm_eps", "model.norm_eps", 1e-6),
            Key("rope_parameters", "model.position", None, _position, _parameters),
            Key("attention_dropout", "model.attention_dropout", 0.0),
            *_specials(1, 2),
            *_TOKENS,
            *keys,
        ),
        _llama_rows,
        _spares("model.embed_tokens.weight", r".*rotary_emb\.inv_freq"),
        prepare=_prepared,
    )


_BIASES = {False: "none", True: "all"}
LLAMA = _relative(
    "llama",
    "LlamaForCausalLM",
    (
        mapped("attention_bias", "model.bias", False, _BIASES),
        mapped("mlp_bias", "model.bias", False, _BIASES),
        fixed("pretraining_tp", 1),
    ),
)
MISTRAL = _relative("mistral", "MistralForCausalLM", (), bias="none")
_WINDOW = (fixed("use_sliding_window", False), *free("max_window_layers"))
QWEN2 = _relative("qwen2", "Qwen2ForCausalLM", _WINDOW, bias="qkv")
QWEN3 = _relative("qwen3", "Qwen3ForCausalLM", (*_WINDOW, fixed("attention_bias", False)), bias="none", qk_norm=True)

OPT = Family(
    "opt",
    {"OPTForCausalLM": _TASKS},
    {f"model.{key}": value for key, value in {**_SINGLE, "position": "learned", "norm": "layer"}.items()}
    | {"model.activation_dropout": 0.0, "model.norm_eps": 1e-5},
    (
        Key("hidden_size", "model.d_model", 768),
        Key("num_hidden_layers", "model.num_layers", 12),
        Key("num_attention_heads", "model.num_heads", 12),
        Key("ffn_dim", "model.d_ff", 3072),
        Key("max_position_embeddings", "model.max_len", 2048),
        mapped("activation_function", "model.activation", "relu", {"relu": "relu", "gelu": "gelu"}),
        mapped("enable_bias", "model.bias", True, {True: "all", False: "none"}),
        Key("dropout", "model.dropout", 0.1),
        Key("attention_dropout", "model.attention_dropout", 0.0),
        fixed("activation_dropout", 0.0, written=False),
        fixed("do_layer_norm_before", True),
        fixed("_remove_final_layer_norm", False),
        fixed("layer_norm_elementwise_affine", True),
        fixed("layerdrop", 0.0),
        *_specials(2, 2),
        *_TOKENS[:1],
        Key("tie_word_embeddings", "model.tie_output", True),
        *_TOKENS[2:],
    ),
    _opt_rows,
    _spares("model.decoder.embed_tokens.weight"),
    prepare=_opt_keys,
)

FAMILIES = (GPT2, OPT, LLAMA, MISTRAL, QWEN2, QWEN3)


def by_halves(flat: Flat, tensors: Mapping[str, Tensor]) -> tuple[Flat, dict[str, Tensor]]:
    """A decoder with neighbours as pairs of its rotary positions as one with halves: rows of queries and keys move."""
    position = rotary(str(flat["model.position"]))
    if position is None or flat["model.kind"] != "decoder":
        return flat, dict(tensors)
    moved, head = dict(tensors), flat["model.head_dim"]
    heads = flat["model.num_heads"] + flat["model.num_kv_heads"]
    for name, tensor in tensors.items() if position.layout == "interleaved" else ():
        if ".self_attention.projection." in name:
            turned, rest = tensor[: heads * head], tensor[heads * head :]
            halves = turned.unflatten(0, (heads, head // 2, 2)).transpose(1, 2).flatten(0, 2)
            moved[name] = torch.cat([halves, rest])
        elif name.endswith(("query_norm.weight", "key_norm.weight")):
            moved[name] = tensor.unflatten(0, (head // 2, 2)).mT.flatten()
    return {**flat, "model.position": written(position)}, moved


def unscaled(flat: Flat, tensors: Mapping[str, Tensor]) -> tuple[Flat, dict[str, Tensor]]:
    """A decoder whose embeddings are scaled as one whose are not: the scale goes into the table."""
    if flat["model.kind"] != "decoder" or not flat["model.embedding_scale"]:
        return flat, dict(tensors)
    table = tensors["decoder.embedding.weight"]
    scaled = {**tensors, "decoder.embedding.weight": table * math.sqrt(table.shape[1])}
    if flat["model.tie_output"]:
        scaled["decoder.output.weight"] = table
    return {**flat, "model.embedding_scale": False, "model.tie_output": False}, scaled

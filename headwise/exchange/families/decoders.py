"""Language models: GPT-2, OPT, and Llama with its relatives Mistral, Qwen2 and Qwen3."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from headwise.attention.masks import Window
from headwise.attention.masks import build as build_mask
from headwise.exchange.family import Family, Spare
from headwise.exchange.forms import SAME, Below, Packed, Row, Turned
from headwise.exchange.keys import Flat, Key, fixed, free, mapped, refused, token
from headwise.positions import build as build_position
from headwise.positions.rotary import Linear, Llama3, Rotary, Scaling

_TASKS = ("language-model",)
_BASE = 10000.0
_UNREAD = r".*rotary_emb\.inv_freq"
_MOST_LAYERS = 1024


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


def spares_of(embedding: str, *unread: str) -> Any:
    """Their tensors besides: an output that is the embedding, and what is never read."""

    def spares(flat: Flat) -> dict[str, Spare]:
        own = {name: Spare() for name in unread}
        return own | ({"lm_head.weight": Spare(embedding)} if flat["model.tie_output"] else {})

    return spares


def _with_inner(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    inner = values.get("n_inner")
    return {**values, "n_inner": 4 * values.get("n_embd", 768) if inner is None else inner}


def tokens_of(size: int | None, *, tied: bool) -> tuple[Key, ...]:
    """The keys of the vocabulary; `size`, `tied`: as a class has them."""
    return (
        Key("vocab_size", "tokenizer.vocab_size", size),
        Key("tie_word_embeddings", "model.tie_output", tied),
        fixed("is_encoder_decoder", False, None, written=False),
        fixed("add_cross_attention", False, None, written=False),
        *free("is_decoder", "id2label", "label2id"),
    )


_SINGLE = {"kind": "decoder", "norm_order": "pre", "embedding_scale": False, "embedding_norm": False, "dropout": 0.0}


def specials_of(begin: int | None, eos: int | None, pad: int | None = None) -> tuple[Key, ...]:
    """The keys of special tokens, as a class has them."""
    return (
        token("pad_token_id", "specials.pad", pad),
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
        *specials_of(50256, 50256),
        *tokens_of(50257, tied=True),
    ),
    _gpt2_rows,
    spares_of("transformer.wte.weight", r"transformer\.h\.\d+\.attn\.(bias|masked_bias)"),
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


def _around(ours: str, theirs: str, flat: Flat) -> list[Row]:
    """The norms around both sublayers of a block."""
    names = {"self_residual.before": "input_layernorm", "feed_forward_residual.before": "post_attention_layernorm"}
    if flat["model.norm_order"] == "sandwich":
        names |= {"self_residual.inside": "post_attention_layernorm"}
        names |= {"feed_forward_residual.before": "pre_feedforward_layernorm"}
        names |= {"feed_forward_residual.inside": "post_feedforward_layernorm"}
    return [row for own, name in names.items() for row in _norm(f"{ours}.{own}", f"{theirs}.{name}", ("weight",))]


def llama_rows(flat: Flat) -> list[Row]:
    """The tensors of a model of the shape of Llama."""
    rows = _tables(flat, "model.embed_tokens.weight")
    head = flat["model.head_dim"]
    heights = (flat["model.num_heads"] * head, *(flat["model.num_kv_heads"] * head,) * 2)
    biases, weight = flat["model.bias"], ("weight",)
    for layer in range(flat["model.num_layers"]):
        ours, theirs = f"decoder.blocks.{layer}", f"model.layers.{layer}"
        maps = tuple(f"{theirs}.self_attn.{part}_proj" for part in "qkv")
        rows += _linear(f"{ours}.self_attention.projection", maps, heights, biased=biases != "none")
        rows += _linear(f"{ours}.self_attention.output", (f"{theirs}.self_attn.o_proj",), (), biased=biases == "all")
        rows += _around(ours, theirs, flat)
        gates = (f"{theirs}.mlp.gate_proj", f"{theirs}.mlp.up_proj")
        rows += _linear(f"{ours}.feed_forward.inner", gates, (flat["model.d_ff"],) * 2, biased=biases == "all")
        rows += _linear(f"{ours}.feed_forward.outer", (f"{theirs}.mlp.down_proj",), (), biased=biases == "all")
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
    if isinstance(position.scaling, Linear):
        return f"{text},scaling=(linear:factor={position.scaling.factor!r})"
    if isinstance(scaling := position.scaling, Llama3):
        values = f"{scaling.factor!r},original_len={scaling.original_len},slow={scaling.slow!r},fast={scaling.fast!r}"
        return f"{text},scaling=(llama3:{values})"
    return text


def rotary_text(values: Mapping[str, Any]) -> str:
    """The name of the positions of their parameters. Raises: KeyError for what has no counterpart."""
    kind, base = values.get("rope_type", values.get("type", "default")), float(values.get("rope_theta", _BASE))
    if not 0 < base < math.inf:
        raise KeyError(base)
    known = {"rope_type", "type", "rope_theta"}
    scaling: Scaling | None = None
    if kind == "linear":
        known |= {"factor"}
        scaling = Linear(float(values["factor"]))
    elif kind == "llama3":
        known |= {"factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"}
        numbers = (float(values[name]) for name in ("factor", "low_freq_factor", "high_freq_factor"))
        factor, slow, fast = numbers
        scaling = Llama3(factor, int(values["original_max_position_embeddings"]), slow, fast)
    elif kind != "default":
        raise KeyError(kind)
    if values.keys() - known:
        raise KeyError(min(values.keys() - known))
    return written(Rotary(64, base, layout="half", scaling=scaling))


def rotary_parameters(text: str) -> dict[str, Any]:
    """Their parameters of the positions of a name. Raises: KeyError for what has no counterpart."""
    position = rotary(text)
    if position is None or not (position.scaling is None or isinstance(position.scaling, Llama3 | Linear)):
        raise KeyError(text)
    values: dict[str, Any] = {"rope_type": "default", "rope_theta": float(position.base)}
    if isinstance(scaling := position.scaling, Linear):
        values |= {"rope_type": "linear", "factor": scaling.factor}
    if isinstance(scaling, Llama3):
        values |= {"rope_type": "llama3", "factor": scaling.factor, "low_freq_factor": scaling.slow}
        values |= {"high_freq_factor": scaling.fast, "original_max_position_embeddings": scaling.original_len}
    return values


_NESTED = "rope_parameters"
LOCAL, GLOBAL = "sliding_attention", "full_attention"


def with_nested(values: Mapping[str, Any], where: str, usual: Mapping[str, Any], *, local: bool) -> dict[str, Any]:
    """The keys with the parameters of the positions of both kinds of layers.

    Args:
        usual: those that no key says.
        local: whether there are local layers.
    """
    parameters = values.get(_NESTED) or {}
    if not isinstance(parameters, dict) or parameters.keys() - {LOCAL, GLOBAL}:
        raise refused(where, _NESTED, parameters)
    if not all(isinstance(own, dict | None) for own in parameters.values()):
        raise refused(where, _NESTED, parameters)
    own = {kind: {**usual[kind], **(parameters.get(kind) or {})} for kind in (LOCAL, GLOBAL)}
    return {**values, _NESTED: own if local else {**own, LOCAL: None}}


def _of_kind(kind: str) -> Callable[[Any], str | None]:
    return lambda parameters: None if parameters[kind] is None else rotary_text(parameters[kind])


def describe_nested(flat: Flat) -> dict[str, Any]:
    """The parameters of both kinds of layers."""
    local = flat["model.local_position"] or "rotary:layout=half"
    return {_NESTED: {GLOBAL: rotary_parameters(flat["model.position"]), LOCAL: rotary_parameters(local)}}


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
    return prepared


_KINDS = {"full_attention": "g", "sliding_attention": "l"}


def with_windows(
    values: Mapping[str, Any], where: str, usual: str, *, whole: bool, name: str = "sliding_window"
) -> dict[str, Any]:
    """The keys with the window of local layers, or None, and which layers are local.

    Args:
        usual: kinds of the layers in turn, where no key says them.
        whole: whether a window that is as long as the longest text is none.
        name: the key of the window.
    """
    prepared, layers = dict(values), values.get("num_hidden_layers", 32)
    window, kinds, places = (values.get(key) for key in (name, "layer_types", "max_position_embeddings"))
    if window is not None and (type(window) is not int or window < 1):
        raise refused(where, name, window)
    if kinds is not None:
        known = isinstance(kinds, list) and all(isinstance(kind, str) and kind in _KINDS for kind in kinds)
        # a number of layers that is not there is refused by its own key
        if not known or (type(layers) is int and layers <= _MOST_LAYERS and len(kinds) != layers):
            raise refused(where, "layer_types", kinds)
        usual = "".join(_KINDS[kind] for kind in kinds)
    if not values.get("use_sliding_window", True) or (whole and window is not None and window >= (places or 0)):
        window, usual = None, ""
    if window is None and "l" in usual and kinds is not None:
        raise refused(where, "layer_types", kinds)
    slides = window is not None and "l" in usual
    return {**prepared, name: window if slides else None, "layer_types": _period(usual) if slides else "l"}


def _period(kinds: str) -> str:
    """The shortest text that gives these kinds in turn."""
    if not kinds or set(kinds) - set("gl"):
        raise KeyError(kinds)
    lengths = range(1, len(kinds) + 1)
    return next(kinds[:length] for length in lengths if (kinds[:length] * len(kinds))[: len(kinds)] == kinds)


def _window(text: str | None) -> int | None:
    """Tokens that a local layer sees."""
    if text is None:
        return None
    mask = build_mask(text, 1)
    if not isinstance(mask, Window) or mask.right:
        raise KeyError(text)
    return mask.left + 1


KINDS_OF_LAYERS = Key("layer_types", "model.local_layers", "l", str)
WINDOWS = (
    Key(
        "sliding_window",
        "model.local_mask",
        None,
        lambda window: None if window is None else f"window:left={window - 1},right=0",
        _window,
    ),
    KINDS_OF_LAYERS,
)


def describe_windows(flat: Flat) -> dict[str, Any]:
    """The kinds of all layers."""
    names = {letter: name for name, letter in _KINDS.items()}
    kinds = flat["model.local_layers"] if flat["model.local_mask"] is not None else "g"
    layers = flat.get("model.num_layers", flat.get("model.encoder_layers"))
    return {"layer_types": [names[kinds[layer % len(kinds)]] for layer in range(layers or 0)]}


# positions of both kinds of layers
NESTED = (
    Key(_NESTED, "model.position", {}, _of_kind(GLOBAL), rotary_parameters),
    Key(_NESTED, "model.local_position", {}, _of_kind(LOCAL), lambda text: text and rotary_parameters(text)),
)


def _prepared_whole(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The keys of a family whose layers all see the whole text before them."""
    prepared = with_windows(_prepared(values, where), where, "l", whole=True)
    if (window := prepared.pop("sliding_window")) is not None:
        raise refused(where, "sliding_window", window)
    prepared.pop("layer_types")
    return prepared


def _prepared_all(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The keys of a family whose layers are all local."""
    prepared = with_windows({"sliding_window": 4096, **_prepared(values, where)}, where, "l", whole=True)
    if prepared.pop("layer_types") != "l":
        raise refused(where, "layer_types", values.get("layer_types"))
    return prepared


def _prepared_some(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The keys of a family whose layers from `max_window_layers` on are local."""
    prepared, layers = _prepared(values, where), values.get("num_hidden_layers", 32)
    prepared = {"use_sliding_window": False, "sliding_window": 4096, **prepared}
    first = values.get("max_window_layers", 28)
    if type(layers) is not int or type(first) is not int:
        raise refused(where, "max_window_layers", first)
    # a number of layers that is not there is refused later
    first, layers = max(0, min(first, _MOST_LAYERS)), max(0, min(layers, _MOST_LAYERS))
    return with_windows(prepared, where, "g" * min(first, layers) + "l" * (layers - first), whole=True)


def _describe_some(flat: Flat) -> dict[str, Any]:
    return {**describe_windows(flat), "use_sliding_window": flat["model.local_mask"] is not None}


# what is prepared, the keys and what is described where no layer may be local, all may, or some
_SLIDING: dict[str, tuple[Any, tuple[Key, ...], Any]] = {
    "none": (_prepared_whole, (), lambda _: {}),
    "all": (_prepared_all, WINDOWS[:1], lambda _: {}),
    "some": (_prepared_some, WINDOWS, _describe_some),
}


def _relative(name: str, kind: str, keys: tuple[Key, ...], *, windows: str = "none", **model: Any) -> Family:
    """A family of the shape of Llama; `windows`: which layers may be local."""
    prepare, slides, describe = _SLIDING[windows]
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
            Key("rope_parameters", "model.position", None, rotary_text, rotary_parameters),
            Key("attention_dropout", "model.attention_dropout", 0.0),
            *specials_of(1, 2),
            *tokens_of(None, tied=False),
            *slides,
            *keys,
        ),
        llama_rows,
        spares_of("model.embed_tokens.weight", _UNREAD),
        prepare=prepare,
        describe=describe,
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
MISTRAL = _relative("mistral", "MistralForCausalLM", (), windows="all", bias="none")
# whether there is a window is what `sliding_window` says
_WINDOW = (fixed("use_sliding_window", True, False), *free("max_window_layers"))
_BIASES_OF_QWEN3 = (fixed("attention_bias", False),)
QWEN2 = _relative("qwen2", "Qwen2ForCausalLM", _WINDOW, windows="some", bias="qkv")
QWEN3 = _relative("qwen3", "Qwen3ForCausalLM", (*_WINDOW, *_BIASES_OF_QWEN3), windows="some", bias="none", qk_norm=True)

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
        *specials_of(2, 2),
        *tokens_of(None, tied=True),
    ),
    _opt_rows,
    spares_of("model.decoder.embed_tokens.weight"),
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

"""Encoder-decoders: Marian, Pegasus, BART and Blenderbot, which share the names of their tensors."""

import torch
from torch import Tensor

from headwise.exchange.family import Family, Reader, Spare
from headwise.exchange.forms import Below, Packed, Row, Same, interleaved
from headwise.exchange.keys import Flat, Key, fixed, free, mapped, token
from headwise.positions.sinusoidal import sinusoids

_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "silu", "silu": "silu", "gelu_new": "gelu_tanh"}
_BIAS = "final_logits_bias"


def _norm(ours: str, theirs: str) -> list[Row]:
    return [Row(f"{ours}.{part}", (f"{theirs}.{part}",), residual=(0,)) for part in ("weight", "bias")]


def _linear(ours: str, theirs: tuple[str, ...], heights: tuple[int, ...], *, reads: bool) -> list[Row]:
    """A linear layer that reads the residual stream, or adds to it."""
    form = Packed(heights) if len(theirs) > 1 else Same()
    weight = Row(f"{ours}.weight", tuple(f"{name}.weight" for name in theirs), form, (1,) if reads else (0,))
    return [weight, Row(f"{ours}.bias", tuple(f"{name}.bias" for name in theirs), form, () if reads else (0,))]


def _attention(ours: str, theirs: str, width: int, *, cross: bool) -> list[Row]:
    query, key, value = (f"{theirs}.{part}_proj" for part in "qkv")
    output = _linear(f"{ours}.output", (f"{theirs}.out_proj",), (width,), reads=False)
    if not cross:
        return [*_linear(f"{ours}.projection", (query, key, value), (width,) * 3, reads=True), *output]
    memory = _linear(f"{ours}.memory_projection", (key, value), (width,) * 2, reads=True)
    return [*_linear(f"{ours}.projection", (query,), (width,), reads=True), *memory, *output]


def _block(ours: str, theirs: str, flat: Flat, *, decoder: bool) -> list[Row]:
    width, side = flat["model.d_model"], "before" if flat["model.norm_order"] == "pre" else "after"
    first = "self_residual" if decoder else "attention_residual"
    rows = _attention(f"{ours}.self_attention", f"{theirs}.self_attn", width, cross=False)
    rows += _norm(f"{ours}.{first}.{side}", f"{theirs}.self_attn_layer_norm")
    if decoder:
        rows += _attention(f"{ours}.cross_attention", f"{theirs}.encoder_attn", width, cross=True)
        rows += _norm(f"{ours}.cross_residual.{side}", f"{theirs}.encoder_attn_layer_norm")
    rows += _linear(f"{ours}.feed_forward.inner", (f"{theirs}.fc1",), (), reads=True)
    rows += _linear(f"{ours}.feed_forward.outer", (f"{theirs}.fc2",), (), reads=False)
    return rows + _norm(f"{ours}.feed_forward_residual.{side}", f"{theirs}.final_layer_norm")


def _side(side: str, flat: Flat, skipped: int) -> list[Row]:
    rows = []
    for layer in range(flat[f"model.{side}_layers"]):
        ours, theirs = f"{side}.blocks.{layer}", f"model.{side}.layers.{layer}"
        rows += _block(ours, theirs, flat, decoder=side == "decoder")
    if flat["model.position"] == "learned":
        form = Below(skipped) if skipped else Same()
        rows.append(Row(f"{side}.embedding.position.table", (f"model.{side}.embed_positions.weight",), form))
    if flat["model.embedding_norm"]:
        rows += _norm(f"{side}.embedding.norm", f"model.{side}.layernorm_embedding")
    if flat["model.norm_order"] == "pre":
        rows += _norm(f"{side}.norm", f"model.{side}.layer_norm")
    return rows


def _rows(flat: Flat, skipped: int = 0) -> list[Row]:
    shared = flat["model.tie_embeddings"]
    tables = {"encoder": "model.shared" if shared else "model.encoder.embed_tokens"}
    if not shared:
        tables["decoder"] = "model.decoder.embed_tokens"
    rows = [Row(f"{side}.embedding.weight", (f"{name}.weight",), residual=(1,)) for side, name in tables.items()]
    if flat["model.output_bias"]:
        rows.append(Row("decoder.output.bias", (_BIAS,), Same(front=1)))
    return rows + _side("encoder", flat, skipped) + _side("decoder", flat, skipped)


def _spares(flat: Flat) -> dict[str, Spare]:
    def table(flat: Flat) -> Tensor:
        width = flat["model.d_model"]
        return sinusoids(flat["model.max_len"], width)[:, interleaved(width).argsort()].float()

    def no_bias(flat: Flat) -> Tensor:
        return torch.zeros(1, flat["target.vocab_size"])

    shared = flat["model.tie_embeddings"]
    like = {side: "model.shared.weight" if shared else f"model.{side}.embed_tokens.weight" for side in _SIDES}
    spares = {f"model.{side}.embed_tokens.weight": Spare(like[side]) for side in _SIDES if shared}
    spares["lm_head.weight"] = Spare(like["decoder"])
    if not flat["model.output_bias"]:
        spares[_BIAS] = Spare(value=no_bias, shape=lambda flat: (1, flat["target.vocab_size"]))
    if flat["model.position"] == "sinusoidal":
        known = Spare(value=table, shape=lambda flat: (flat["model.max_len"], flat["model.d_model"]))
        spares |= {f"model.{side}.embed_positions.weight": known for side in _SIDES}
    return spares


_SIDES = ("encoder", "decoder")


def _late(flat: Flat, read: Reader) -> Flat:
    bias = read(_BIAS)
    return {**flat, "model.output_bias": bias is not None and bool(bias.any())}


def _keys(sizes: tuple[int, int, tuple[int, int], int, int], specials: tuple[int | None, ...]) -> tuple[Key, ...]:
    """Those that the four share.

    Args:
        sizes: max_position_embeddings, d_model, layers of both sides, heads and width inside, as a class has them.
        specials: padding, begin, end and what a decoder starts from, as a class has them.
    """
    max_len, width, layers, heads, d_ff = sizes
    pad, begin, eos, start = specials
    sides = [
        key
        for side, count in zip(_SIDES, layers, strict=True)
        for key in (
            Key(f"{side}_layers", f"model.{side}_layers", count),
            Key(f"{side}_attention_heads", "model.num_heads", heads),
            Key(f"{side}_ffn_dim", "model.d_ff", d_ff),
            fixed(f"{side}_layerdrop", 0.0),
        )
    ]
    return (
        *sides,
        Key("d_model", "model.d_model", width),
        Key("max_position_embeddings", "model.max_len", max_len),
        mapped("activation_function", "model.activation", "gelu", _ACTIVATIONS),
        Key("dropout", "model.dropout", 0.1),
        Key("attention_dropout", "model.attention_dropout", 0.0),
        Key("activation_dropout", "model.activation_dropout", 0.0),
        Key("scale_embedding", "model.embedding_scale", False),
        # without it their encoder, decoder and output have a table each
        fixed("tie_word_embeddings", True),
        fixed("is_encoder_decoder", True),
        fixed("is_decoder", False),
        fixed("add_cross_attention", False, written=False),
        token("pad_token_id", "specials.pad", pad),
        token("bos_token_id", "specials.begin", begin),
        token("eos_token_id", "specials.eos", eos),
        token("decoder_start_token_id", "specials.bos", start),
        *free("num_hidden_layers", "classifier_dropout", "classif_dropout", "id2label", "label2id", "hidden_size"),
        *free("layernorm_variant", "num_attention_heads", "prefix", "save_step", "student_decoder_layers"),
    )


def _constants(**others: object) -> Flat:
    model = {
        "kind": "transformer",
        "norm_eps": 1e-5,
        "embedding_norm": False,
        "tie_positions": True,
        "tie_output": True,
        **others,
    }
    return {f"model.{key}": value for key, value in model.items()}


def _legacy(*, pre: bool, embedding_norm: bool, static: bool) -> tuple[Key, ...]:
    """Keys of older folders that a class does not read, with the values that its models have."""
    return (
        fixed("normalize_before", pre, written=False),
        fixed("add_final_layer_norm", pre, written=False),
        fixed("normalize_embedding", embedding_norm, written=False),
        fixed("static_position_embeddings", static, written=False),
        fixed("add_bias_logits", False, written=False),
        *free("extra_pos_embeddings", "force_bos_token_to_be_generated", "do_blenderbot_90_layernorm"),
    )


_TEXTS = ("translate", "summarise")
_LARGE = (1024, 1024, (12, 12), 16, 4096)
_SINES = {"position": "sinusoidal"}

MARIAN = Family(
    "marian",
    {"MarianMTModel": _TEXTS},
    _constants(norm_order="post", **_SINES),
    (
        *_keys(_LARGE, (58100, None, 0, 58100)),
        Key("vocab_size", "tokenizer.vocab_size", 58101),
        Key("decoder_vocab_size", "target.vocab_size", None),
        Key("share_encoder_decoder_embeddings", "model.tie_embeddings", True),
        *_legacy(pre=False, embedding_norm=False, static=True),
    ),
    _rows,
    _spares,
    halves=True,
    late=_late,
    by_tensors=frozenset({"model.output_bias"}),
)

_ONE_VOCABULARY = (Key("vocab_size", "tokenizer.vocab_size", 50265),)

PEGASUS = Family(
    "pegasus",
    {"PegasusForConditionalGeneration": _TEXTS},
    _constants(norm_order="pre", tie_embeddings=True, **_SINES),
    (*_keys(_LARGE, (0, None, 1, 0)), *_ONE_VOCABULARY, *_legacy(pre=True, embedding_norm=False, static=True)),
    _rows,
    _spares,
    halves=True,
    late=_late,
    by_tensors=frozenset({"model.output_bias"}),
)

BART = Family(
    "bart",
    {"BartForConditionalGeneration": _TEXTS},
    {
        **_constants(norm_order="post", tie_embeddings=True, position="learned"),
        "model.embedding_norm": True,
        "model.tie_positions": False,
    },
    (*_keys(_LARGE, (1, 0, 2, 2)), *_ONE_VOCABULARY, *_legacy(pre=False, embedding_norm=True, static=False)),
    lambda flat: _rows(flat, skipped=2),
    _spares,
    late=_late,
    by_tensors=frozenset({"model.output_bias"}),
)

BLENDERBOT = Family(
    "blenderbot",
    {"BlenderbotForConditionalGeneration": _TEXTS},
    {**_constants(norm_order="pre", tie_embeddings=True, position="learned"), "model.tie_positions": False},
    (
        *_keys((128, 2560, (2, 24), 32, 10240), (0, 1, 2, 1)),
        Key("vocab_size", "tokenizer.vocab_size", 8008),
        *_legacy(pre=True, embedding_norm=False, static=False),
    ),
    _rows,
    _spares,
    late=_late,
    by_tensors=frozenset({"model.output_bias"}),
)

FAMILIES = (MARIAN, PEGASUS, BART, BLENDERBOT)

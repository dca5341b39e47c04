"""ModernBERT: an encoder of texts with rotary positions, local and global layers, and gates."""

from collections.abc import Mapping
from typing import Any

from headwise.attention.masks import Window
from headwise.attention.masks import build as build_mask
from headwise.exchange.families.decoders import (
    GLOBAL,
    KINDS_OF_LAYERS,
    LOCAL,
    NESTED,
    describe_nested,
    describe_windows,
    with_nested,
    with_windows,
)
from headwise.exchange.family import Family, Spare
from headwise.exchange.forms import Row
from headwise.exchange.keys import Flat, Key, fixed, free, mapped, refused, token

_WHOLE = ("classify", "regress")
_STACK = "encoder.encoder"
_ACTIVATIONS = {"gelu": "geglu", "gelu_pytorch_tanh": "geglu_tanh", "gelu_new": "geglu_tanh", "silu": "swiglu"}
_ACTIVATIONS |= {"relu": "reglu"}


def _rows(flat: Flat) -> list[Row]:
    biased, shifted = flat["model.bias"] == "all", flat["model.norm_bias"]

    def layer(ours: str, theirs: str, *, bias: bool) -> list[Row]:
        return [Row(f"{ours}.{part}", (f"{theirs}.{part}",)) for part in ("weight", "bias")[: 1 + bias]]

    rows = layer("embedding", "model.embeddings.tok_embeddings", bias=False)
    rows += layer(f"{_STACK}.embedding.norm", "model.embeddings.norm", bias=shifted)
    for number in range(flat["model.encoder_layers"]):
        ours, theirs = f"{_STACK}.blocks.{number}", f"model.layers.{number}"
        if number:
            rows += layer(f"{ours}.attention_residual.before", f"{theirs}.attn_norm", bias=shifted)
        rows += layer(f"{ours}.self_attention.projection", f"{theirs}.attn.Wqkv", bias=biased)
        rows += layer(f"{ours}.self_attention.output", f"{theirs}.attn.Wo", bias=biased)
        rows += layer(f"{ours}.feed_forward_residual.before", f"{theirs}.mlp_norm", bias=shifted)
        rows += layer(f"{ours}.feed_forward.inner", f"{theirs}.mlp.Wi", bias=biased)
        rows += layer(f"{ours}.feed_forward.outer", f"{theirs}.mlp.Wo", bias=biased)
    rows += layer(f"{_STACK}.norm", "model.final_norm", bias=shifted)
    masked = flat["task"] == "masked-lm"
    dense, norm = ("transform.0", "transform.2") if masked else ("pooling.transform.dense", "pooling.transform.norm")
    rows += [*layer(dense, "head.dense", bias=False), *layer(norm, "head.norm", bias=shifted)]
    if masked:
        return [*rows, Row("output.bias", ("decoder.bias",))]
    return [*rows, *layer("head", "classifier", bias=True)]


def _spares(flat: Flat) -> dict[str, Spare]:
    tied = {"decoder.weight": Spare("model.embeddings.tok_embeddings.weight")} if flat["task"] == "masked-lm" else {}
    return {r".*rotary_emb\..*inv_freq": Spare()} | tied


def _prepare(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    every = values.get("global_attn_every_n_layers", 3)
    if type(every) is not int or not 0 < every <= 1024:
        raise refused(where, "global_attn_every_n_layers", every)
    prepared = {"local_attention": 128, "num_hidden_layers": 22, **values}
    prepared = with_windows(prepared, where, "g" + "l" * (every - 1), whole=False, name="local_attention")
    usual = {
        GLOBAL: {"rope_theta": prepared.pop("global_rope_theta", 160_000.0)},
        LOCAL: {"rope_theta": prepared.pop("local_rope_theta", 10_000.0)},
    }
    prepared.pop("global_attn_every_n_layers", None)
    return with_nested(prepared, where, usual, local=prepared["local_attention"] is not None)


def _mask(total: int | None) -> str | None:
    """The pairs of a local layer, half of the window on each side."""
    return None if total is None else f"window:left={total // 2},right={total // 2}"


def _total(text: str | None) -> int:
    mask = None if text is None else build_mask(text, 1)
    if mask is None:
        # of no layer
        return 128
    if not isinstance(mask, Window) or mask.left != mask.right:
        raise KeyError(text)
    return 2 * mask.left


_HEAD: Flat = {"pooling.transform": "gelu", "pooling.transform_bias": False, "pooling.transform_norm": True}
_WORDS: Flat = {"pooling.kind": "first", "pooling.place": "after", "output.kind": "softmax", "spelling.longest": 0}
_CONSTANTS: Flat = {
    "model.kind": "attention",
    "model.norm": "layer",
    "model.norm_order": "pre",
    "model.embedding_norm": True,
    "model.first_norm": False,
}

MODERNBERT = Family(
    "modernbert",
    {
        "ModernBertForSequenceClassification": _WHOLE,
        "ModernBertForTokenClassification": ("tag",),
        "ModernBertForMaskedLM": ("masked-lm",),
    },
    _CONSTANTS,
    (
        Key("vocab_size", "tokenizer.vocab_size", 50368),
        Key("hidden_size", "model.d_model", 768),
        Key("intermediate_size", "model.d_ff", 1152),
        Key("num_hidden_layers", "model.encoder_layers", 22),
        Key("num_attention_heads", "model.num_heads", 12),
        Key("max_position_embeddings", "model.max_len", 8192),
        Key("norm_eps", "model.norm_eps", 1e-5),
        Key("norm_bias", "model.norm_bias", False),
        mapped("hidden_activation", "model.activation", "gelu", _ACTIVATIONS),
        mapped("attention_bias", "model.bias", False, {False: "none", True: "all"}),
        mapped("mlp_bias", "model.bias", False, {False: "none", True: "all"}),
        Key("embedding_dropout", "model.dropout", 0.0),
        Key("attention_dropout", "model.attention_dropout", 0.0),
        Key("mlp_dropout", "model.activation_dropout", 0.0),
        Key("local_attention", "model.local_mask", None, _mask, _total),
        KINDS_OF_LAYERS,
        *NESTED,
        mapped("classifier_pooling", "pooling.kind", "cls", {"cls": "first", "mean": "mean"}),
        fixed("classifier_bias", False),
        fixed("classifier_activation", "gelu"),
        fixed("decoder_bias", True),
        fixed("tie_word_embeddings", True),
        fixed("is_decoder", False, None, written=False),
        fixed("is_encoder_decoder", False, None, written=False),
        fixed("add_cross_attention", False, None, written=False),
        fixed("position_embedding_type", "absolute", "sans_pos", None, written=False),
        # the kind of one label is read with the labels
        fixed("problem_type", None, "single_label_classification", "regression", written=False),
        token("pad_token_id", "specials.pad", 50283),
        token("bos_token_id", "specials.begin", 50281),
        token("eos_token_id", "specials.eos", 50282),
        *free("cls_token_id", "sep_token_id", "mask_token_id", "id2label", "label2id", "classifier_dropout"),
        *free("initializer_cutoff_factor", "deterministic_flash_attn", "reference_compile", "repad_logits_with_grad"),
        *free("sparse_prediction", "sparse_pred_ignore_index", "layer_norm_eps", "gradient_checkpointing"),
    ),
    _rows,
    _spares,
    prepare=_prepare,
    prefix="model.",
    by_task={
        "classify": _HEAD,
        "regress": _HEAD,
        "tag": {**_WORDS, **_HEAD},
        "masked-lm": {"tie_output": True, "transform_bias": False},
    },
    assumed={"pooling.kind": "first"},
    describe=lambda flat: {**describe_windows(flat), **describe_nested(flat)},
    starts=(*_WHOLE, "tag"),
)

FAMILIES = (MODERNBERT,)

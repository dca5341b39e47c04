"""Encoders of texts: BERT, RoBERTa, XLM-R, DistilBERT and ELECTRA, with a head for each task."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headwise.exchange.family import Family, Spare
from headwise.exchange.forms import SAME, Added, Below, Form, Packed, Row
from headwise.exchange.keys import Flat, Key, fixed, free, mapped, refused, token

_ACTIVATIONS = {"gelu": "gelu", "relu": "relu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh"}
_ACTIVATIONS |= {"silu": "silu", "swish": "silu"}
_STACK = "encoder.encoder"
_WHOLE = ("classify", "regress")
# (ours, theirs) of linear layers, norms or single tensors
_Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class _Shape:
    """What the members of this module differ in.

    Args:
        root: before the names of all tensors of the encoder.
        layers: of the blocks.
        parts: of a block: queries, keys, values, output, its norm, both layers of the feed-forward, its norm.
        whole, masked: what stands above the encoder for a whole text, and for masked tokens.
        kinds: kinds of tokens that have embeddings, where they are as many as usual; 0: there are none.
        offset: whether rows of positions up to the number of padding are never read.
        tied: their tensors that follow from others, by the names of those.
        unread: regular expressions of their tensors that the heads above do not read.
    """

    root: str
    layers: str
    parts: tuple[str, ...]
    whole: _Pairs
    masked: _Pairs
    kinds: int = 2
    offset: bool = False
    tied: Mapping[str, str] = field(default_factory=dict)
    unread: tuple[str, ...] = ()

    def rows(self, flat: Flat) -> list[Row]:
        """The tensors of a flat recipe."""
        own = f"{self.root}.embeddings"
        form, places = self._places(flat)
        rows = [
            Row("embedding.weight", (f"{own}.word_embeddings.weight",)),
            Row(f"{_STACK}.embedding.position.table", tuple(f"{own}.{name}.weight" for name in places), form),
            *_affine(f"{_STACK}.embedding.norm", f"{own}.LayerNorm"),
        ]
        if flat.get("model.embedding_dim"):
            rows += _affine(f"{_STACK}.embedding.project", f"{self.root}.embeddings_project")
        for layer in range(flat["model.encoder_layers"]):
            rows += self._block(f"{_STACK}.blocks.{layer}", f"{self.root}.{self.layers}.{layer}", flat)
        heads = {"tag": (("head", "classifier"),), "masked-lm": self.masked}
        for ours, theirs in heads.get(flat["task"], self.whole):
            rows += [Row(ours, (theirs,))] if ours.endswith("bias") else _affine(ours, theirs)
        return rows

    def spares(self, flat: Flat) -> dict[str, Spare]:
        """Their tensors besides."""
        spares = {rf"{self.root}\.embeddings\.(position_ids|token_type_ids)": Spare()}
        spares |= {name: Spare() for name in self.unread if flat["task"] not in _WHOLE or "pooler" not in name}
        return spares | ({name: Spare(like) for name, like in self.tied.items()} if flat["task"] == "masked-lm" else {})

    def skipped(self, pad: int | None) -> int:
        """Rows of positions in front that are never read."""
        return (pad or 0) + 1 if self.offset else 0

    def prepare(self, values: Mapping[str, Any], where: str) -> dict[str, Any]:
        """The keys, with the number of positions that are read."""
        places, pad = values.get("max_position_embeddings", 512), values.get("pad_token_id", int(self.offset))
        if type(places) is not int or not (pad is None or type(pad) is int):
            return dict(values)
        return {**values, "max_position_embeddings": places - self.skipped(pad)}

    def describe(self, flat: Flat) -> dict[str, Any]:
        """Keys that follow from several of ours."""
        return {"max_position_embeddings": flat["model.max_len"] + self.skipped(flat["specials.pad"])}

    def _places(self, flat: Flat) -> tuple[Form, list[str]]:
        skipped = self.skipped(flat["specials.pad"])
        if self.kinds:
            return Added(skipped, flat["kinds"]), ["position_embeddings", "token_type_embeddings"]
        return Below(skipped) if skipped else SAME, ["position_embeddings"]

    def _block(self, ours: str, theirs: str, flat: Flat) -> list[Row]:
        query, key, value, output, norm, inner, outer, last = (f"{theirs}.{part}" for part in self.parts)
        return [
            *_affine(f"{ours}.self_attention.projection", query, key, value, form=Packed((flat["model.d_model"],) * 3)),
            *_affine(f"{ours}.self_attention.output", output),
            *_affine(f"{ours}.attention_residual.after", norm),
            *_affine(f"{ours}.feed_forward.inner", inner),
            *_affine(f"{ours}.feed_forward.outer", outer),
            *_affine(f"{ours}.feed_forward_residual.after", last),
        ]


def _affine(ours: str, *theirs: str, form: Form = SAME) -> list[Row]:
    return [Row(f"{ours}.{part}", tuple(f"{name}.{part}" for name in theirs), form) for part in ("weight", "bias")]


_PARTS = (
    *(f"attention.self.{part}" for part in ("query", "key", "value")),
    *("attention.output.dense", "attention.output.LayerNorm", "intermediate.dense", "output.dense", "output.LayerNorm"),
)
_DENSE = "pooling.transform.dense"
_TWO = ((_DENSE, "classifier.dense"), ("head", "classifier.out_proj"))


def _filled(dense: str, norm: str, bias: str) -> _Pairs:
    return (("transform.0", dense), ("transform.2", norm), ("output.bias", bias))


_BERT = _Shape(
    "bert",
    "encoder.layer",
    _PARTS,
    ((_DENSE, "bert.pooler.dense"), ("head", "classifier")),
    _filled("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.bias"),
    tied={
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
    # of the second task that BERT was trained on
    unread=(r"bert\.pooler\..*", r"cls\.seq_relationship\..*"),
)
_ROBERTA = _Shape(
    "roberta",
    "encoder.layer",
    _PARTS,
    _TWO,
    _filled("lm_head.dense", "lm_head.layer_norm", "lm_head.bias"),
    kinds=1,
    offset=True,
    tied={
        "lm_head.decoder.weight": "roberta.embeddings.word_embeddings.weight",
        "lm_head.decoder.bias": "lm_head.bias",
    },
    unread=(r"roberta\.pooler\..*",),
)
_DISTILBERT = _Shape(
    "distilbert",
    "transformer.layer",
    (
        *(f"attention.{part}" for part in ("q_lin", "k_lin", "v_lin", "out_lin")),
        *("sa_layer_norm", "ffn.lin1", "ffn.lin2", "output_layer_norm"),
    ),
    ((_DENSE, "pre_classifier"), ("head", "classifier")),
    _filled("vocab_transform", "vocab_layer_norm", "vocab_projector.bias"),
    kinds=0,
    tied={"vocab_projector.weight": "distilbert.embeddings.word_embeddings.weight"},
)
_ELECTRA = _Shape(
    "electra",
    "encoder.layer",
    _PARTS,
    _TWO,
    _filled("generator_predictions.dense", "generator_predictions.LayerNorm", "generator_lm_head.bias"),
    tied={"generator_lm_head.weight": "electra.embeddings.word_embeddings.weight"},
)

_CONSTANTS: Flat = {
    "model.kind": "attention",
    "model.norm": "layer",
    "model.norm_order": "post",
    "model.position": "learned",
    "model.embedding_norm": True,
    "model.activation_dropout": 0.0,
}


def _by_task(transform: str, **masked: str) -> dict[str, Flat]:
    """What a recipe says above the encoder; `masked`: keys of [model] that a class for masked tokens needs."""
    plain = {"pooling.transform_bias": True, "pooling.transform_norm": False}
    whole = {"pooling.kind": "first", "pooling.transform": transform, **plain}
    words = {"pooling.kind": "first", "pooling.place": "after", "output.kind": "softmax", "spelling.longest": 0}
    words |= {"pooling.transform": "none", **plain}
    filled = {"tie_output": True, "transform_bias": True, **{f"model.{key}": value for key, value in masked.items()}}
    return {"classify": whole, "regress": whole, "tag": words, "masked-lm": filled}


def _shared(pad: int, begin: int | None, eos: int | None) -> tuple[Key, ...]:
    return (
        token("pad_token_id", "specials.pad", pad),
        token("bos_token_id", "specials.begin", begin),
        token("eos_token_id", "specials.eos", eos),
        Key("vocab_size", "tokenizer.vocab_size", 30522 if begin is None else 50265),
        Key("max_position_embeddings", "model.max_len", 512),
        fixed("tie_word_embeddings", True),
        fixed("is_decoder", False),
        fixed("is_encoder_decoder", False, None, written=False),
        fixed("add_cross_attention", False, None, written=False),
        fixed("position_embedding_type", "absolute", written=False),
        fixed("pruned_heads", {}, None, written=False),
        # the kind of one label is read with the labels
        fixed("problem_type", None, "single_label_classification", "regression", written=False),
        *free("id2label", "label2id", "classifier_dropout", "chunk_size_feed_forward", "directionality"),
        *free("sep_token_id", "cls_token_id", "mask_token_id", "unk_token_id", "pooler_fc_size", "pooler_type"),
        *free("pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head", "output_past"),
        *free("layers"),
    )


def _count(value: Any) -> int:
    if type(value) is not int or value < 1:
        raise ValueError(value)
    return value


def _bert_keys(width: tuple[int, int, int]) -> tuple[Key, ...]:
    """`width`: of a token, heads, width inside, as a class has them."""
    d_model, heads, inside = width
    return (
        Key("hidden_size", "model.d_model", d_model),
        Key("num_hidden_layers", "model.encoder_layers", 12),
        Key("num_attention_heads", "model.num_heads", heads),
        Key("intermediate_size", "model.d_ff", inside),
        mapped("hidden_act", "model.activation", "gelu", _ACTIVATIONS),
        Key("hidden_dropout_prob", "model.dropout", 0.1),
        Key("attention_probs_dropout_prob", "model.attention_dropout", 0.1),
        Key("layer_norm_eps", "model.norm_eps", 1e-12),
        Key("type_vocab_size", "kinds", 2, _count),
    )


_DISTILBERT_KEYS = (
    Key("dim", "model.d_model", 768),
    Key("n_layers", "model.encoder_layers", 6),
    Key("n_heads", "model.num_heads", 12),
    Key("hidden_dim", "model.d_ff", 3072),
    mapped("activation", "model.activation", "gelu", {"gelu": "gelu", "relu": "relu"}),
    Key("dropout", "model.dropout", 0.1),
    Key("attention_dropout", "model.attention_dropout", 0.1),
    *free("qa_dropout", "seq_classif_dropout", "sinusoidal_pos_embds", "tie_weights_"),
)
_ELECTRA_KEYS = (
    *_bert_keys((256, 4, 1024)),
    Key("embedding_size", "model.embedding_dim", 128, lambda width: width),
    *free("summary_type", "summary_use_proj", "summary_activation", "summary_last_dropout", "summary_proj_to_labels"),
    *free("summary_first_dropout"),
)


def _prepare_electra(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The keys, with the width of embeddings where it is not that of the model."""
    prepared = _ELECTRA.prepare(values, where)
    own = prepared.get("embedding_size", 128)
    # theirs has no layer between equal widths
    return {**prepared, "embedding_size": None if own == prepared.get("hidden_size", 256) else _named(own, where)}


def _named(width: Any, where: str) -> int:
    if type(width) is not int or width < 1:
        raise refused(where, "embedding_size", width)
    return width


def _describe_electra(flat: Flat) -> dict[str, Any]:
    return {**_ELECTRA.describe(flat), "embedding_size": flat.get("model.embedding_dim") or flat["model.d_model"]}


def _family(
    name: str, kind: str, shape: _Shape, keys: tuple[Key, ...], by_task: dict[str, Flat], **constants: Any
) -> Family:
    return Family(
        name,
        {
            f"{kind}ForSequenceClassification": _WHOLE,
            f"{kind}ForTokenClassification": ("tag",),
            f"{kind}ForMaskedLM": ("masked-lm",),
        },
        {**_CONSTANTS, **{f"model.{key}": value for key, value in constants.items()}},
        keys,
        shape.rows,
        shape.spares,
        prepare=shape.prepare,
        prefix=f"{shape.root}.",
        by_task=by_task,
        assumed={"kinds": shape.kinds} if shape.kinds else {},
        describe=shape.describe,
        starts=(*_WHOLE, "tag"),
    )


_BASE = (768, 12, 3072)
_ROBERTA_KEYS = (*_bert_keys(_BASE), *_shared(1, 0, 2))

FAMILIES = (
    _family("bert", "Bert", _BERT, (*_bert_keys(_BASE), *_shared(0, None, None)), _by_task("tanh", activation="gelu")),
    _family("roberta", "Roberta", _ROBERTA, _ROBERTA_KEYS, _by_task("tanh")),
    _family("xlm-roberta", "XLMRoberta", _ROBERTA, _ROBERTA_KEYS, _by_task("tanh")),
    _family(
        "distilbert",
        "DistilBert",
        _DISTILBERT,
        (*_DISTILBERT_KEYS, *_shared(0, None, None)),
        _by_task("relu", activation="gelu"),
        norm_eps=1e-12,
    ),
    replace(
        _family("electra", "Electra", _ELECTRA, (*_ELECTRA_KEYS, *_shared(0, None, None)), _by_task("gelu")),
        prepare=_prepare_electra,
        describe=_describe_electra,
    ),
)

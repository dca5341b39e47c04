"""T5: an encoder-decoder whose positions are learned numbers for distances, a table for each side."""

from collections.abc import Mapping
from typing import Any

from headwise.errors import ConfigError
from headwise.exchange.family import Family, Reader, Spare
from headwise.exchange.forms import SAME, Packed, Row
from headwise.exchange.keys import Flat, Key, fixed, free, mapped, refused, token
from headwise.layers.feed_forward import GATED
from headwise.positions import build as build_position
from headwise.positions.t5 import T5 as Distances

# what the feed-forward computes, by their name
_PROJECTIONS = {
    "relu": "relu",
    "gated-gelu": "geglu_tanh",
    "gelu_new": "gelu_tanh",
    "gelu": "gelu",
    "silu": "silu",
    "gated-silu": "swiglu",
    "gated-relu": "reglu",
}
# what follows from `feed_forward_proj`, which the newest folders say too
_FOLLOWS = ("dense_act_fn", "is_gated_act")
_BUCKETS, _DISTANCE, _SCALED = "relative_attention_num_buckets", "relative_attention_max_distance", "model.output_scale"
# their limits are powers of large numbers
_MOST_BUCKETS = 1024
_TABLE = "block.0.layer.0.SelfAttention.relative_attention_bias.weight"


def _weights(ours: str, *theirs: str, heights: tuple[int, ...] = ()) -> Row:
    return Row(f"{ours}.weight", tuple(f"{name}.weight" for name in theirs), Packed(heights) if heights else SAME)


def _attention(ours: str, theirs: str, flat: Flat, *, cross: bool) -> list[Row]:
    query, key, value, output = (f"{theirs}.{part}" for part in "qkvo")
    width = flat["model.num_heads"] * flat["model.head_dim"]
    rows = [_weights(f"{ours}.output", output)]
    if not cross:
        return [*rows, _weights(f"{ours}.projection", query, key, value, heights=(width,) * 3)]
    memory = _weights(f"{ours}.memory_projection", key, value, heights=(width,) * 2)
    return [*rows, _weights(f"{ours}.projection", query), memory]


def _block(ours: str, theirs: str, flat: Flat, *, decoder: bool) -> list[Row]:
    first, last = ("self_residual", 2) if decoder else ("attention_residual", 1)
    rows = _attention(f"{ours}.self_attention", f"{theirs}.0.SelfAttention", flat, cross=False)
    rows.append(_weights(f"{ours}.{first}.before", f"{theirs}.0.layer_norm"))
    if decoder:
        rows += _attention(f"{ours}.cross_attention", f"{theirs}.1.EncDecAttention", flat, cross=True)
        rows.append(_weights(f"{ours}.cross_residual.before", f"{theirs}.1.layer_norm"))
    dense = f"{theirs}.{last}.DenseReluDense"
    gated = flat["model.activation"] in GATED
    inner = (f"{dense}.wi_0", f"{dense}.wi_1") if gated else (f"{dense}.wi",)
    rows.append(_weights(f"{ours}.feed_forward.inner", *inner, heights=(flat["model.d_ff"],) * 2 if gated else ()))
    rows.append(_weights(f"{ours}.feed_forward.outer", f"{dense}.wo"))
    return [*rows, _weights(f"{ours}.feed_forward_residual.before", f"{theirs}.{last}.layer_norm")]


def _rows(flat: Flat) -> list[Row]:
    rows = [Row("encoder.embedding.weight", ("shared.weight",))]
    if not flat["model.tie_output"]:
        rows.append(Row("decoder.output.weight", ("lm_head.weight",)))
    for side in ("encoder", "decoder"):
        rows.append(Row(f"{side}.embedding.position.table", (f"{side}.{_TABLE}",)))
        for layer in range(flat[f"model.{side}_layers"]):
            rows += _block(f"{side}.blocks.{layer}", f"{side}.block.{layer}.layer", flat, decoder=side == "decoder")
        rows.append(_weights(f"{side}.norm", f"{side}.final_layer_norm"))
    return rows


def _spares(flat: Flat) -> dict[str, Spare]:
    tied = ["encoder.embed_tokens", "decoder.embed_tokens", *(["lm_head"] if flat["model.tie_output"] else [])]
    unread = r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight"
    return {f"{name}.weight": Spare("shared.weight") for name in tied} | {unread: Spare()}


def _late(flat: Flat, read: Reader) -> Flat:
    """An output with a matrix of its own is in the folder: their key for it says only whether states are scaled."""
    output, shared = read("lm_head.weight"), read("shared.weight")
    tied = output is None or (shared is not None and output.shape == shared.shape and bool((output == shared).all()))
    return {**flat, "model.tie_output": tied}


def _prepare(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The keys with what follows from several."""
    prepared = dict(values)
    layers = prepared.get("num_decoder_layers")
    prepared["num_decoder_layers"] = prepared.get("num_layers", 6) if layers is None else layers
    named, tied = prepared.get("feed_forward_proj", "relu"), prepared.get("tie_word_embeddings", True)
    if not isinstance(named, str) or named not in _PROJECTIONS:
        raise refused(where, "feed_forward_proj", named)
    parts = named.split("-")
    act = "gelu_new" if named == "gated-gelu" else parts[-1]
    for key, value in zip(_FOLLOWS, (act, parts[0] == "gated"), strict=True):
        if prepared.pop(key, value) != value:
            raise refused(where, key, values[key])
    prepared.setdefault("scale_decoder_outputs", tied)
    # one scheme of both numbers
    buckets, distance = prepared.get(_BUCKETS, 32), prepared.pop(_DISTANCE, 128)
    if type(distance) is not int:
        raise refused(where, _DISTANCE, distance)
    return {**prepared, _BUCKETS: [buckets, distance]}


def _distances(*, both: bool) -> Key:
    """The key of their table, of a side that looks both ways, or back alone."""
    ours = "model.position" if both else "model.decoder_position"

    def inward(numbers: Any) -> str:
        buckets, distance = numbers
        text = f"t5:bidirectional={str(both).lower()},num_buckets={buckets},max_distance={distance}"
        if type(buckets) is not int or not 0 < buckets <= _MOST_BUCKETS or not 0 < distance < 2**20:
            raise ValueError(numbers)
        try:
            build_position(text, 8, 8, 1, 8)
        except ConfigError:
            raise ValueError(numbers) from None
        return text

    def outward(text: str | None) -> list[int]:
        position = build_position(str(text), 8, 8, 1, 8) if str(text).startswith("t5") else None
        if not isinstance(position, Distances) or position.bidirectional != both:
            raise KeyError(text)
        return [position.table.shape[0], position.max_distance]

    return Key(_BUCKETS, ours, [32, 128], inward, outward)


def _describe(flat: Flat) -> dict[str, Any]:
    """Keys that follow from several of ours."""
    buckets, distance = _distances(both=True).outward(flat["model.position"])
    return {_BUCKETS: buckets, _DISTANCE: distance, "tie_word_embeddings": flat[_SCALED]}


_CONSTANTS: Flat = {
    "model.kind": "transformer",
    "model.norm": "rms",
    "model.norm_order": "pre",
    "model.bias": "none",
    "model.score": "dot",
    "model.embedding_scale": False,
    "model.tie_embeddings": True,
    "model.tie_positions": True,
}

T5 = Family(
    "t5",
    {"T5ForConditionalGeneration": ("translate", "summarise")},
    _CONSTANTS,
    (
        Key("vocab_size", "tokenizer.vocab_size", 32128),
        Key("d_model", "model.d_model", 512),
        Key("d_kv", "model.head_dim", 64),
        Key("d_ff", "model.d_ff", 2048),
        Key("num_layers", "model.encoder_layers", 6),
        Key("num_decoder_layers", "model.decoder_layers", 6),
        Key("num_heads", "model.num_heads", 8),
        # how long texts were in training; any length has its distances
        Key("n_positions", "model.max_len", 512),
        _distances(both=True),
        _distances(both=False),
        mapped("feed_forward_proj", "model.activation", "relu", _PROJECTIONS),
        Key("layer_norm_epsilon", "model.norm_eps", 1e-6),
        Key("dropout_rate", "model.dropout", 0.1),
        Key("scale_decoder_outputs", _SCALED, True),
        fixed("tie_word_embeddings", True, False),
        fixed("is_encoder_decoder", True),
        fixed("is_decoder", False),
        fixed("add_cross_attention", False, written=False),
        token("pad_token_id", "specials.pad", 0),
        token("bos_token_id", "specials.begin", None),
        token("eos_token_id", "specials.eos", 1),
        token("decoder_start_token_id", "specials.bos", 0),
        *free("initializer_factor", "classifier_dropout", "output_past", "id2label", "label2id"),
    ),
    _rows,
    _spares,
    late=_late,
    by_tensors=frozenset({"model.tie_output"}),
    prepare=_prepare,
    describe=_describe,
)

FAMILIES = (T5,)

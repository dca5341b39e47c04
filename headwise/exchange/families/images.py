"""Encoders of images: ViT, and DeiT with its second token."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headwise.exchange.family import Family, Spare
from headwise.exchange.forms import Below, Form, Packed, Row, Same
from headwise.exchange.keys import Flat, Key, fixed, free, mapped

_ACTIVATIONS = {"gelu": "gelu", "relu": "relu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh"}
_STACK = "encoder.encoder"


@dataclass(frozen=True)
class _Placed(Form):
    """Tokens in front of the patches, with the positions that are added to them; these come back as zeros.

    Args:
        count: how many.
    """

    count: int

    def inward(self, theirs: Sequence[Tensor]) -> Tensor:
        *tokens, positions = theirs
        return torch.cat([token[0] for token in tokens]) + positions[0, : self.count]

    def outward(self, ours: Tensor) -> list[Tensor]:
        return [token[None, None] for token in ours]


@dataclass(frozen=True)
class _Behind(Form):
    """Positions of the patches, behind those of the tokens in front of them.

    Args:
        count: tokens.
    """

    count: int

    def inward(self, theirs: Sequence[Tensor]) -> Tensor:
        return theirs[0][0, self.count :]

    def outward(self, ours: Tensor) -> list[Tensor]:
        return [Same(front=1).outward(Below(self.count).outward(ours)[0])[0]]


def _affine(ours: str, *theirs: str, form: Form | None = None) -> list[Row]:
    parts = ("weight", "bias")
    return [Row(f"{ours}.{part}", tuple(f"{name}.{part}" for name in theirs), form or Same()) for part in parts]


def _rows(root: str, flat: Flat) -> list[Row]:
    own, count, width = f"{root}.embeddings", 1 + flat["model.extra_tokens"], flat["model.d_model"]
    tokens = (f"{own}.cls_token", f"{own}.distillation_token")[:count]
    positions = f"{own}.position_embeddings"
    rows = [
        Row("encoder.token", tokens, _Placed(count), also=(positions,)),
        Row("encoder.position.table", (positions,), _Behind(count)),
        *_affine("encoder.projection", f"{own}.patch_embeddings.projection"),
    ]
    for layer in range(flat["model.encoder_layers"]):
        ours, theirs = f"{_STACK}.blocks.{layer}", f"{root}.encoder.layer.{layer}"
        maps = (f"{theirs}.attention.attention.{part}" for part in ("query", "key", "value"))
        rows += _affine(f"{ours}.self_attention.projection", *maps, form=Packed((width,) * 3))
        rows += _affine(f"{ours}.self_attention.output", f"{theirs}.attention.output.dense")
        rows += _affine(f"{ours}.attention_residual.before", f"{theirs}.layernorm_before")
        rows += _affine(f"{ours}.feed_forward.inner", f"{theirs}.intermediate.dense")
        rows += _affine(f"{ours}.feed_forward.outer", f"{theirs}.output.dense")
        rows += _affine(f"{ours}.feed_forward_residual.before", f"{theirs}.layernorm_after")
    return [*rows, *_affine(f"{_STACK}.norm", f"{root}.layernorm"), *_affine("head", "classifier")]


def _side(value: Any) -> int:
    """The side of a square. Raises: ValueError for sides that differ."""
    sides = set(value) if isinstance(value, list) else {value}
    side = sides.pop()
    if sides or type(side) is not int or side < 1:
        raise ValueError(value)
    return side


def _sides(value: Any) -> list[int]:
    """Height and width."""
    sides = value if isinstance(value, list) else [value, value]
    if len(sides) != 2 or any(type(side) is not int or side < 1 for side in sides):
        raise ValueError(value)
    return list(sides)


_KEYS = (
    Key("hidden_size", "model.d_model", 768),
    Key("num_hidden_layers", "model.encoder_layers", 12),
    Key("num_attention_heads", "model.num_heads", 12),
    Key("intermediate_size", "model.d_ff", 3072),
    mapped("hidden_act", "model.activation", "gelu", _ACTIVATIONS),
    Key("hidden_dropout_prob", "model.dropout", 0.0),
    Key("attention_probs_dropout_prob", "model.attention_dropout", 0.0),
    Key("layer_norm_eps", "model.norm_eps", 1e-12),
    Key("patch_size", "model.patch", 16, _side),
    Key("image_size", "data.size", 224, _sides, lambda sizes: sizes[0] if sizes[0] == sizes[1] else list(sizes)),
    Key("num_channels", "data.channels", 3),
    fixed("qkv_bias", True),
    fixed("is_encoder_decoder", False, None, written=False),
    fixed("problem_type", None, "single_label_classification", written=False),
    *free("id2label", "label2id", "encoder_stride", "pooler_act", "pooler_output_size", "chunk_size_feed_forward"),
)


def _spares(root: str) -> Callable[[Flat], Mapping[str, Spare]]:
    return lambda _: {rf"{root}\.pooler\..*": Spare()}


def _family(name: str, kind: str, extra: int) -> Family:
    constants = {
        "kind": "vit",
        "norm": "layer",
        "norm_order": "pre",
        "position": "learned",
        "pooling": "cls",
        "activation_dropout": 0.0,
        "extra_tokens": extra,
    }
    return Family(
        name,
        {f"{kind}ForImageClassification": ("image-classify",)},
        {f"model.{key}": value for key, value in constants.items()},
        _KEYS,
        lambda flat: _rows(name, flat),
        _spares(name),
        prefix=f"{name}.",
    )


FAMILIES = (_family("vit", "ViT", 0), _family("deit", "DeiT", 1))
PROCESSOR = "preprocessor_config.json"
# pictures become numbers as here: stretched, cut to their middle, as parts of 255, then standardised
PROCESSOR_KEYS = (
    fixed("do_resize", True),
    mapped("resample", "data.resample", 2, {2: "linear", 3: "cubic"}),
    fixed("do_rescale", True),
    Key("do_center_crop", "images.cut", False, bool),
    Key("crop_size", "images.middle", {"height": 224, "width": 224}, lambda size: _of_size(size)),
    fixed("do_convert_rgb", None, True, written=False),
    Key("rescale_factor", "images.factor", 1 / 255),
    Key("do_normalize", "images.normalized", True),
    Key("size", "images.size", {"height": 224, "width": 224}, lambda size: _of_size(size)),
    Key("image_mean", "images.mean", [0.5, 0.5, 0.5], lambda values: [float(value) for value in values]),
    Key("image_std", "images.deviation", [0.5, 0.5, 0.5], lambda values: [float(value) for value in values]),
    *free("image_processor_type", "feature_extractor_type", "processor_class", "default_to_square"),
    *free("data_format", "input_data_format", "device", "return_tensors", "disable_grouping", "do_pad", "pad_size"),
    *free("_processor_class", "image_seq_length", "_valid_processor_keys"),
)


# what the class of DeiT has where its file says nothing
_DEIT: dict[str, Any] = {"resample": 3, "do_center_crop": True, "size": 256, "crop_size": 224}


def processor_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a processor, with those that its class has."""
    kind = str(values.get("image_processor_type") or values.get("feature_extractor_type"))
    return {**(_DEIT if kind.startswith("DeiT") else {}), **values}


def _of_size(size: Any) -> list[int]:
    return _sides([size["height"], size["width"]] if isinstance(size, dict) else size)

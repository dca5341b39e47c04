"""The summary names every weight with its shape, counts shared ones once and tells where dropout acts."""

import pytest

from headwise.models.summary import summary
from headwise.models.transformer import build_transformer
from headwise.models.transformer_config import TransformerConfig


def lines(joint=True, **options):
    sizes = {"d_model": 12, "d_ff": 23, "num_heads": 3, "encoder_layers": 1, "decoder_layers": 1}
    model = build_transformer(TransformerConfig(**(sizes | options)), 17, 17, joint=joint)
    return model, summary(model).split("\n")


def test_every_weight_with_its_shape_and_count():
    model, text = lines()
    names = [name for name, _ in model.named_parameters(remove_duplicate=False)]
    assert [line.split()[0] for line in text[: len(names)]] == names
    assert text[0].split() == ["encoder.embedding.weight", "17", "x", "12", "204"]
    cross = next(line for line in text if line.startswith("decoder.blocks.0.cross_attention.memory_projection.weight"))
    assert cross.split()[1:] == ["24", "x", "12", "288"]


def test_counts():
    model, text = lines()
    total = sum(parameter.numel() for parameter in model.parameters())
    assert text[-2] == f"total: {total:,} parameters, shared ones counted once"
    parts = {part: sum(p.numel() for p in getattr(model, part).parameters()) for part in ("encoder", "decoder")}
    assert text[-4:-2] == [f"{part}: {count:,} parameters" for part, count in parts.items()]
    # both sides hold the one shared table
    assert sum(parts.values()) - 17 * 12 == total


def test_shared_and_frozen_weights():
    model, text = lines()
    shared = [line for line in text if "shared with" in line]
    assert [line.split()[0] for line in shared] == ["decoder.embedding.weight", "decoder.output.weight"]
    assert all(line.endswith("shared with encoder.embedding.weight") for line in shared)
    model.encoder.embedding.weight.requires_grad_(False)
    assert summary(model).split("\n")[0].endswith("204 frozen")
    assert "shared" not in "\n".join(lines(joint=False, tie_output=False)[1][:-2])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"dropout": 0.0}, "dropout: none"),
        (
            {"dropout": 0.3, "attention_dropout": 0.2, "activation_dropout": 0.25},
            "dropout: embedding 0.3; attention weights 0.2; feed_forward 0.25; sublayer outputs 0.3",
        ),
        ({"dropout": 0.0, "attention_dropout": 0.2}, "dropout: attention weights 0.2"),
    ],
)
def test_places_of_dropout(options, expected):
    _, text = lines(**options)
    assert sorted(text[-1].removeprefix("dropout: ").split("; ")) == sorted(
        expected.removeprefix("dropout: ").split("; ")
    )

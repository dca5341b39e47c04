"""What a configuration says of the size of its model without building it is never more than what is built."""

import pytest

from headwise.models.decoder_only import build_decoder
from headwise.models.transformer import build_transformer
from headwise.models.transformer_config import DecoderConfig, TransformerConfig
from headwise.tasks.translation.recurrent import RecurrentConfig, build_recurrent

SIZES = {"d_model": 12, "d_ff": 7, "num_heads": 3}
LAYERS = {"encoder_layers": 3, "decoder_layers": 2}


def count(model):
    # tied weights once, as a file has them
    return len(list(model.parameters()))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"norm_order": "post", "activation": "swiglu"},
        {"reversible": True},
        {"shared": "qkv", "combine": "mean", "position": "none"},
        {"convolution_heads": True},
        {"segment": 5, "position": "shaw"},
        {"mechanism": "linear", "num_kv_heads": 1},
    ],
)
def test_transformers(options):
    config = TransformerConfig(**SIZES, **LAYERS, **options)
    built = build_transformer(config, 11, 11, joint=True)
    assert 4 * 5 == config.fewest_tensors() <= count(built)
    if "segment" not in options and not options.keys() & {"reversible", "convolution_heads"}:
        decoder = DecoderConfig(**SIZES, num_layers=4, **options)
        assert 4 * 4 == decoder.fewest_tensors() <= count(build_decoder(decoder, 11))


@pytest.mark.parametrize("cell", ["gru", "lstm", "rnn"])
@pytest.mark.parametrize("score", ["additive", "none"])
def test_recurrent_models(cell, score):
    config = RecurrentConfig(cell=cell, score=score, num_layers=3, tie_output=True)
    assert 4 * 6 == config.fewest_tensors() <= count(build_recurrent(config, 11, 11))

"""Models of small prime sizes, and batches for them."""

import pytest
import torch
from devices import seeded

from headwise.models.transformer import build_transformer
from headwise.models.transformer_config import TransformerConfig

SRC_VOCAB, TGT_VOCAB = 17, 19


@pytest.fixture
def build():
    """A model in float64 and `eval()` with weights large enough that every part matters."""

    def make(*, joint=False, dtype=torch.float64, seed=3, spread=1.5, **options):
        sizes = {"d_model": 12, "d_ff": 23, "num_heads": 3, "encoder_layers": 2, "decoder_layers": 2, "max_len": 97}
        torch.manual_seed(seed)
        config = TransformerConfig(**(sizes | options))
        model = build_transformer(config, SRC_VOCAB, SRC_VOCAB if joint else TGT_VOCAB, joint=joint)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "embedding" not in name and parameter.ndim > 1:
                    parameter.mul_(spread)
                elif parameter.ndim == 1:
                    parameter.add_(torch.randn_like(parameter) * 0.2)
        return model.to(dtype).eval()

    return make


@pytest.fixture
def tokens():
    """Random token numbers from 4 up, so that no special one is among them."""

    def make(*shape, vocab=SRC_VOCAB, seed=5):
        return torch.randint(4, vocab, shape, generator=seeded(seed))

    return make

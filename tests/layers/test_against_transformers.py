"""Whole attention layers against the code of Hugging Face transformers, its weights loaded as the docstrings say."""

import pytest
import torch
from devices import DEVICE
from torch import nn

from headwise.attention.masks import Causal
from headwise.layers.attention import MultiHeadAttention
from headwise.positions.rotary import Rotary

transformers = pytest.importorskip("transformers")
SIZES = {
    "hidden_size": 24,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 6,
    "attn_implementation": "eager",
}


def theirs(name, config):
    """The attention layer of a family with random weights, norms included, and its rotary embedding."""
    module = __import__(f"transformers.models.{name.lower()}.modeling_{name.lower()}", fromlist=["_"])
    torch.manual_seed(1)
    layer = getattr(module, f"{name}Attention")(config, layer_idx=0).to(DEVICE)
    for parameter in layer.parameters():
        nn.init.normal_(parameter, mean=1.0 if parameter.ndim == 1 else 0.0, std=0.3)
    return layer.eval(), getattr(module, f"{name}RotaryEmbedding")(config).to(DEVICE)


@pytest.mark.parametrize("name", ["Llama", "Qwen3"])
def test_grouped_heads_with_rotation_and_norm_in_their_order(name):
    """Qwen3 norms queries and keys before they are turned; after the turn the result would differ."""
    layer, rope = theirs(name, getattr(transformers, f"{name}Config")(**SIZES))
    normed = name == "Qwen3"
    ours = MultiHeadAttention(
        24,
        4,
        num_kv_heads=2,
        position=Rotary(6, layout="half"),
        norm=(lambda dim: nn.RMSNorm(dim, eps=1e-6)) if normed else None,
        bias=False,
    ).to(DEVICE)
    with torch.no_grad():
        ours.projection.weight.copy_(torch.cat([getattr(layer, f"{part}_proj").weight for part in "qkv"]))
        ours.output.weight.copy_(layer.o_proj.weight)
        if normed:
            ours.query_norm.weight.copy_(layer.q_norm.weight)
            ours.key_norm.weight.copy_(layer.k_norm.weight)
        x, places = torch.randn(2, 9, 24, device=DEVICE), torch.arange(9, device=DEVICE)[None]
        hidden = torch.full((9, 9), float("-inf"), device=DEVICE).triu(1)[None, None]
        expected = layer(x, position_embeddings=rope(x, places), attention_mask=hidden)[0]
        torch.testing.assert_close(ours(x, mask=Causal()), expected, rtol=1e-5, atol=1e-5)
        if normed:
            ours.query_norm = nn.Identity()
            assert (ours(x, mask=Causal()) - expected).abs().max() > 1e-2

"""Schemes against the code of Hugging Face transformers on random weights, where it is installed."""

import pytest
import torch
from devices import DEVICE

from headwise.positions.alibi import slopes
from headwise.positions.deberta import Deberta
from headwise.positions.relative_2d import Relative2d
from headwise.positions.rotary import Linear, Llama3, Rotary, Yarn
from headwise.positions.t5 import T5

pytest.importorskip("transformers")


def test_t5_buckets_of_every_distance():
    from transformers.models.t5.modeling_t5 import T5Attention

    distances = torch.arange(-700, 701)
    for bidirectional in (True, False):
        for buckets, longest in ((32, 128), (16, 64), (64, 512)):
            sizes = {"bidirectional": bidirectional, "num_buckets": buckets, "max_distance": longest}
            expected = T5Attention._relative_position_bucket(distances, **sizes)
            assert torch.equal(T5(1, **sizes).buckets(-700, 700), expected)


@pytest.mark.parametrize("heads", [1, 2, 3, 8, 12, 20])
def test_alibi_slopes(heads):
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    bias = build_alibi_tensor(torch.ones(1, 7), heads, torch.float32)
    assert slopes(heads) == pytest.approx((bias[:, 0, 6] / 6).tolist())


_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
_ROPES = [
    ({"rope_type": "default"}, None),
    ({"rope_type": "linear", "factor": 8.0}, Linear(8.0)),
    (_YARN, Yarn(4.0, 64)),
    (_YARN | {"beta_fast": 8.0, "beta_slow": 2.0, "attention_factor": 1.5}, Yarn(4.0, 64, 8.0, 2.0, 1.5)),
    (_YARN | {"truncate": False, "factor": 40.0}, Yarn(40.0, 64, whole=False)),
    (
        {
            "rope_type": "llama3",
            "factor": 8.0,
            "original_max_position_embeddings": 64,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
        },
        Llama3(8.0, 64),
    ),
]


@pytest.mark.parametrize(("rope", "scaling"), _ROPES, ids=lambda value: type(value).__name__)
def test_rotary_over_halves_with_every_scaling(rope, scaling):
    """Llama's own table and rotation; 10^4 and 5 x 10^5 are the bases of Llama 2 and 3."""
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

    query, key = torch.randn(2, 2, 3, 11, 32).unbind()
    for base in (10_000.0, 500_000.0):
        sizes = {"hidden_size": 96, "num_attention_heads": 3, "max_position_embeddings": 256}
        theirs = LlamaRotaryEmbedding(LlamaConfig(**sizes, rope_parameters={"rope_theta": base, **rope}))
        rotary = Rotary(32, base, layout="half", scaling=scaling)
        found = rotary.frequencies(torch.device(DEVICE)).float().to(DEVICE)
        torch.testing.assert_close(found, theirs.inv_freq, rtol=1e-5, atol=0)
        assert theirs.attention_scaling == pytest.approx(1.0 if scaling is None else scaling.amplitude())
        cos, sin = theirs(query, torch.arange(40, 51)[None])
        expected = apply_rotary_pos_emb(query, key, cos, sin)
        torch.testing.assert_close((rotary.rotate(query, 40), rotary.rotate(key, 40)), expected, rtol=0, atol=1e-4)


def test_rotary_over_neighbours():
    from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb

    x = torch.randn(2, 11, 3, 8, dtype=torch.float64)
    angles = torch.arange(11, dtype=torch.float64)[:, None] * 10000 ** (-torch.arange(0, 8, 2, dtype=torch.float64) / 8)
    expected = apply_rotary_pos_emb(x, angles.sin()[None], angles.cos()[None]).transpose(1, 2)
    torch.testing.assert_close(Rotary(8).rotate(x.transpose(1, 2), 0), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("buckets", "longest", "length"), [(-1, 5, 11), (8, 24, 40), (256, 512, 600)])
@pytest.mark.parametrize("share", [True, False])
def test_deberta_as_released(buckets, longest, length, share):
    from transformers import DebertaV2Config
    from transformers.models.deberta_v2.modeling_deberta_v2 import DisentangledSelfAttention

    config = DebertaV2Config(
        hidden_size=12,
        num_attention_heads=3,
        relative_attention=True,
        position_buckets=buckets,
        max_relative_positions=longest,
        pos_att_type=["p2c", "c2p"],
        share_att_key=share,
        attention_probs_dropout_prob=0.0,
        hidden_dropout_prob=0.0,
    )
    layer, x = DisentangledSelfAttention(config), torch.randn(2, length, 12)
    position = Deberta(
        12, 3, 4, max_distance=longest, index="released", buckets=None if buckets < 0 else buckets
    ).requires_grad_(False)
    table = torch.nn.init.normal_(position.table)
    position.keys.load_state_dict((layer.key_proj if share else layer.pos_key_proj).state_dict())
    position.queries.load_state_dict((layer.query_proj if share else layer.pos_query_proj).state_dict())
    everything = torch.ones(2, 1, length, length)
    expected = layer(x, everything, output_attentions=True, rel_embeddings=table)[1]

    def heads(projection):
        return position.rotate(projection(x).unflatten(-1, (3, 4)).transpose(1, 2), 0)

    query, key = heads(layer.query_proj), heads(layer.key_proj)
    relative = position.relative(query, key, 1 - length, length - 1)
    scores = query @ key.mT / 2 + relative.bias(length, length)
    torch.testing.assert_close(scores.softmax(-1), expected, rtol=0, atol=1e-5)


def test_relative_2d_with_the_table_of_swin():
    from transformers.models.swin.modeling_swin import SwinRelativePositionBias

    theirs = SwinRelativePositionBias(3, (4, 5))
    torch.nn.init.normal_(theirs.relative_position_bias_table)
    position, patches = Relative2d(3, height=4, width=5), torch.zeros(1, 3, 20, 2)
    with torch.no_grad():
        position.table.copy_(theirs.relative_position_bias_table.flip(0))
    torch.testing.assert_close(position.bias(patches, patches, 0), theirs())

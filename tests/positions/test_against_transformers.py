"""Schemes against Hugging Face transformers, where it is installed (`pip install headwise[bench]`)."""

import pytest
import torch

from headwise.positions.alibi import slopes
from headwise.positions.rotary import Rotary
from headwise.positions.t5 import bucket

pytestmark = pytest.mark.slow


def test_t5_buckets_of_every_distance():
    attention = pytest.importorskip("transformers.models.t5.modeling_t5").T5Attention
    distances = torch.arange(-700, 701)
    for bidirectional in (True, False):
        for buckets, longest in ((32, 128), (16, 64), (64, 512)):
            sizes = {"bidirectional": bidirectional, "num_buckets": buckets, "max_distance": longest}
            expected = attention._relative_position_bucket(distances, **sizes).tolist()
            assert [bucket(distance, **sizes) for distance in distances.tolist()] == expected


@pytest.mark.parametrize("heads", [1, 2, 3, 8, 12, 20])
def test_alibi_slopes(heads):
    bloom = pytest.importorskip("transformers.models.bloom.modeling_bloom")
    bias = bloom.build_alibi_tensor(torch.ones(1, 7), heads, torch.float32)
    assert slopes(heads) == pytest.approx((bias[:, 0, 6] / 6).tolist())


@pytest.mark.parametrize("options", [{}, {"interpolation": 4.0}])
def test_rotary_over_halves(options):
    """Hugging Face pairs column j with j + d/2; after that permutation of the columns the scores are the same."""
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    query, key = torch.randn(2, 1, 3, 11, 8, dtype=torch.float64).unbind()
    frequencies = 10000.0 ** (-torch.arange(0, 8, 2, dtype=torch.float64) / 8) / options.get("interpolation", 1.0)
    angles = (torch.arange(11, dtype=torch.float64)[:, None] * frequencies).repeat(1, 2)[None]
    turned = llama.apply_rotary_pos_emb(query, key, angles.cos(), angles.sin())
    # columns 0 .. d/2 - 1 are the first of their pair
    halves = torch.tensor([0, 4, 1, 5, 2, 6, 3, 7])
    rotary = Rotary(8, **options)
    for ours, theirs in zip((query, key), turned, strict=True):
        torch.testing.assert_close(rotary.rotate(ours[..., halves], 0), theirs[..., halves], rtol=0, atol=1e-12)

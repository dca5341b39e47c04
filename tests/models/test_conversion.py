"""Converting the number of key and value heads: exact where it can be, the mean of a group elsewhere."""

import pytest
import torch

from headwise.attention.masks import Causal
from headwise.attention.mechanisms.scored import Scored
from headwise.caches import AttentionStep
from headwise.errors import ConfigError
from headwise.layers.attention import MultiHeadAttention
from headwise.models.conversion import with_kv_heads


def layer(kv_heads=None, **options):
    module = MultiHeadAttention(12, 6, Scored(), num_kv_heads=kv_heads, head_dim=5, **options).double()
    return module


@pytest.mark.parametrize("memory_dim", [None, 7])
@pytest.mark.parametrize(("old", "new"), [(1, 6), (1, 3), (2, 6), (3, 3), (3, 6)])
def test_more_heads_compute_the_same(old, new, memory_dim):
    module = layer(old, memory_dim=memory_dim)
    converted = with_kv_heads(module, new)
    assert converted.num_kv_heads == new
    x, memory = torch.randn(2, 5, 12).double(), torch.randn(2, 4, 7).double()
    inputs = (x,) if memory_dim is None else (x, memory)
    torch.testing.assert_close(converted(*inputs), module(*inputs), rtol=0, atol=1e-12)


@pytest.mark.parametrize("new", [1, 2, 3])
def test_fewer_heads_are_exact_where_a_group_is_equal(new):
    few = layer(new)
    many = with_kv_heads(few, 6)
    again = with_kv_heads(many, new)
    torch.testing.assert_close(again.projection.weight, few.projection.weight, rtol=0, atol=1e-14)
    torch.testing.assert_close(again.projection.bias, few.projection.bias, rtol=0, atol=1e-14)
    x = torch.randn(2, 5, 12).double()
    torch.testing.assert_close(again(x, mask=Causal()), many(x, mask=Causal()), rtol=0, atol=1e-12)


def test_fewer_heads_are_the_means_of_their_groups():
    module = layer()
    converted = with_kv_heads(module, 2)
    weight = module.projection.weight
    query = 6 * 5
    assert torch.equal(converted.projection.weight[:query], weight[:query])
    for part in (0, 1):
        for group in (0, 1):
            rows = [weight[query + part * 30 + head * 5 :][:5] for head in range(3 * group, 3 * group + 3)]
            expected = (rows[0] + rows[1] + rows[2]) / 3
            first = query + part * 10 + group * 5
            torch.testing.assert_close(converted.projection.weight[first : first + 5], expected)
    # the layer given is left as it was
    assert module.num_kv_heads == 6
    assert module.projection.weight.shape == (90, 12)
    (gradient,) = torch.autograd.grad(converted(torch.randn(1, 3, 12).double()).sum(), converted.projection.weight)
    assert gradient.any()


def test_keys_and_values_to_store_per_token():
    """Of d_model 512 in 8 heads: 1024 numbers a token and layer, 256 in two groups, 128 with one head."""
    stored = []
    module = MultiHeadAttention(512, 8, Scored())
    for heads in (8, 2, 1):
        cache = with_kv_heads(module, heads).new_cache()
        with_kv_heads(module, heads)(torch.ones(1, 1, 512), cache=AttentionStep(cache, 0))
        key, value = cache.read()
        stored.append(key.numel() + value.numel())
    assert stored == [1024, 256, 128]


def test_what_cannot_be_converted():
    with pytest.raises(ConfigError, match=r"num_kv_heads \(4\) must divide num_heads \(6\)"):
        with_kv_heads(layer(), 4)
    with pytest.raises(ConfigError, match=r"num_kv_heads \(2\) must divide or be a multiple of the present 3"):
        with_kv_heads(layer(3), 2)
    with pytest.raises(ConfigError, match="a layer with shared='qk' has as many key heads as query heads"):
        with_kv_heads(layer(shared="qk"), 2)

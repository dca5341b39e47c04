"""Tied projections, and heads that are averaged instead of joined."""

import pytest
import torch

from headwise.attention.masks import Causal
from headwise.attention.mechanisms.scored import Scored
from headwise.caches import AttentionStep
from headwise.errors import ConfigError
from headwise.layers.attention import MultiHeadAttention
from headwise.records import record


def split(module, x, rows):
    weight, bias = module.projection.weight[rows], module.projection.bias[rows]
    return (x @ weight.T + bias).unflatten(-1, (-1, module.head_dim)).transpose(1, 2)


@pytest.mark.parametrize("cross", [False, True])
@pytest.mark.parametrize(
    ("shared", "places"), [("none", (0, 1, 2)), ("qk", (0, 0, 1)), ("kv", (0, 1, 1)), ("qkv", (0, 0, 0))]
)
def test_tied_projections_are_one_matrix(shared, places, cross):
    module = MultiHeadAttention(12, 3, Scored(), shared=shared).double()
    x, memory = torch.randn(2, 5, 12).double(), torch.randn(2, 7, 12).double()
    source = memory if cross else x
    query, key, value = (
        split(module, part, slice(12 * place, 12 * place + 12))
        for part, place in zip((x, source, source), places, strict=True)
    )
    heads = torch.softmax(query @ key.mT / 2, -1) @ value
    expected = module.output(heads.transpose(1, 2).flatten(2))
    torch.testing.assert_close(module(x, memory if cross else None), expected, rtol=0, atol=1e-12)
    # d^2 numbers less for every matrix that is shared
    assert module.projection.weight.numel() == 12 * 12 * (max(places) + 1)
    assert sum(part.numel() for part in module.matrices()) == 12 * 12 * (max(places) + 2)


@pytest.mark.parametrize("shared", ["qk", "kv", "qkv"])
def test_tied_projections_step_by_step(shared):
    module = MultiHeadAttention(12, 3, Scored(), shared=shared).double()
    x = torch.randn(2, 5, 12).double()
    whole = module(x, mask=Causal())
    cache = module.new_cache()
    steps = [module(x[:, t : t + 1], cache=AttentionStep(cache, t)) for t in range(5)]
    torch.testing.assert_close(torch.cat(steps, 1), whole, rtol=0, atol=1e-12)


def test_grouped_values_may_be_keys():
    module = MultiHeadAttention(12, 6, Scored(), num_kv_heads=2, shared="kv")
    assert module(torch.ones(1, 3, 12)).shape == (1, 3, 12)


@pytest.mark.parametrize("cross", [False, True])
def test_keys_are_normed_and_the_same_heads_as_values_are_not(cross):
    module = MultiHeadAttention(12, 3, Scored(), shared="kv", norm=torch.nn.RMSNorm).double()
    x = torch.randn(2, 5, 12).double()
    with record(module) as trace:
        module(x, x if cross else None)
    call, heads = next(iter(trace)).calls[0].call, split(module, x, slice(12, 24))
    torch.testing.assert_close(call.value, heads, rtol=0, atol=1e-12)
    torch.testing.assert_close(call.key, module.key_norm(heads), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("width", "tied", "apart"), [(16, 0.52, 0.05), (64, 0.963, 0.08), (256, 0.99998, 0.06)])
def test_tied_queries_and_keys_look_at_themselves(width, tied, apart):
    """S37: mean weight of the diagonal over 16 random inputs, with matrices of unit variance, scaled by sqrt(d)."""
    x = torch.randn(8, 16, width, dtype=torch.float64)
    for shared, expected in (("qk", tied), ("none", apart)):
        found = []
        module = MultiHeadAttention(width, 1, Scored(), shared=shared, bias=False).double()
        for _ in range(30):
            torch.nn.init.normal_(module.projection.weight, std=width**-0.5)
            with torch.no_grad(), record(torch.nn.ModuleDict({"own": module})) as trace:
                module(x)
            found.append(trace["own"].weights().diagonal(dim1=-2, dim2=-1).mean().item())
        assert sum(found) / len(found) == pytest.approx(expected, abs=0.05)


def test_heads_may_be_averaged():
    """S57: the mean keeps every head as wide as the model."""
    module = MultiHeadAttention(6, 3, Scored(), head_dim=6, combine="mean").double()
    x = torch.randn(2, 5, 6).double()
    query, key, value = (split(module, x, slice(18 * place, 18 * place + 18)) for place in range(3))
    heads = torch.softmax(query @ key.mT * 6**-0.5, -1) @ value
    torch.testing.assert_close(module(x), module.output(heads.mean(1)), rtol=0, atol=1e-12)
    assert module.output.weight.shape == (6, 6)


def test_what_does_not_fit():
    with pytest.raises(ConfigError, match="shared='qk' needs as many key heads as query heads, got 1 and 3"):
        MultiHeadAttention(12, 3, Scored(), num_kv_heads=1, shared="qk")
    with pytest.raises(ConfigError, match="shared='qkv' projects x and the memory alike: leave memory_dim out"):
        MultiHeadAttention(12, 3, Scored(), memory_dim=5, shared="qkv")

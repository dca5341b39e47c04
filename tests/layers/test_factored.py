"""Projections in two stages: equal to the product of their matrices, on every path, and where they are refused."""

import pytest
import torch

from headwise.attention.masks import Causal
from headwise.caches import AttentionStep
from headwise.config import build
from headwise.errors import ConfigError
from headwise.explain.layer_trace import layer_trace
from headwise.layers.attention import Factored, MultiHeadAttention
from headwise.models.conversion import with_kv_heads
from headwise.models.initializers import initialize
from headwise.models.transformer import build_transformer
from headwise.models.transformer_config import TransformerConfig


def one_matrix(factored, into):
    """Writes the product of the two stages of each map into the rows of a linear layer."""
    rows = 0
    for stage, inner in zip(factored.outer, factored.inner.weight.split(factored.rank), strict=True):
        with torch.no_grad():
            into.weight[rows : rows + stage.out_features] = stage.weight @ inner
            if into.bias is not None:
                into.bias[rows : rows + stage.out_features] = stage.bias
        rows += stage.out_features
    assert rows == into.out_features


@pytest.mark.parametrize("rank", [1, 5, 12])
@pytest.mark.parametrize(
    ("options", "cross"),
    [
        ({}, False),
        ({}, True),
        ({"memory_dim": 7}, True),
        ({"num_kv_heads": 1, "value_dim": 5}, False),
        ({"shared": "qk"}, False),
        ({"shared": "kv", "memory_dim": 7}, True),
        ({"shared": "qkv", "bias": False}, False),
        ({"norm": torch.nn.RMSNorm, "head_dim": 2}, False),
    ],
)
def test_two_stages_equal_the_product_of_their_matrices(rank, options, cross):
    module = MultiHeadAttention(12, 3, rank=rank, **options).double()
    whole = MultiHeadAttention(12, 3, **options).double()
    whole.output.load_state_dict(module.output.state_dict())
    one_matrix(module.projection, whole.projection)
    if module.memory_projection is not None:
        one_matrix(module.memory_projection, whole.memory_projection)
    x, memory = torch.randn(2, 5, 12).double(), torch.randn(2, 4, options.get("memory_dim", 12)).double()
    inputs = (x, memory) if cross else (x,)
    torch.testing.assert_close(module(*inputs), whole(*inputs), rtol=0, atol=1e-12)


def test_rank_limits_the_matrix_and_saves_parameters():
    narrow, whole = MultiHeadAttention(12, 3, rank=2, bias=False), MultiHeadAttention(12, 3, bias=False)
    assert all(
        torch.linalg.matrix_rank(stage.weight @ inner) == 2
        for stage, inner in zip(narrow.projection.outer, narrow.projection.inner.weight.split(2), strict=True)
    )
    assert sum(p.numel() for p in narrow.projection.parameters()) == 3 * 2 * (12 + 12)
    assert sum(p.numel() for p in whole.projection.parameters()) == 3 * 12 * 12


def test_step_by_step_equals_all_at_once():
    module = MultiHeadAttention(12, 3, rank=4).double()
    x = torch.randn(2, 5, 12).double()
    cache = module.new_cache()
    steps = [module(x[:, t : t + 1], cache=AttentionStep(cache, t)) for t in range(5)]
    torch.testing.assert_close(torch.cat(steps, 1), module(x, mask=Causal()), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("batch", "length"), [(0, 5), (2, 0), (1, 1)])
def test_sizes_of_zero_and_one(batch, length):
    module = MultiHeadAttention(12, 3, rank=1)
    output = module(torch.randn(batch, length, 12))
    assert output.shape == (batch, length, 12)
    assert bool(output.isfinite().all())


def test_initial_matrices_are_filled_one_by_one():
    module = MultiHeadAttention(60, 3, rank=40)
    initialize(module, "xavier")
    sizes = [tuple(matrix.shape) for matrix in module.matrices()]
    assert sizes == [(40, 60)] * 3 + [(60, 40)] * 3 + [(60, 60)]
    for matrix in module.matrices():
        bound = (6 / sum(matrix.shape)) ** 0.5
        assert 0.95 * bound < float(matrix.detach().abs().max()) <= bound
    assert all(not linear.bias.any() for linear in module.projection.outer)


def test_recipes_have_a_key_for_it():
    config = build(
        TransformerConfig,
        {"d_model": 12, "d_ff": 8, "num_heads": 3, "encoder_layers": 1, "decoder_layers": 1, "projection_rank": 2},
        "model",
    )
    model = build_transformer(config, 9, 9, joint=True)
    attentions = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    assert len(attentions) == 3
    assert all(isinstance(layer.projection, Factored) for layer in attentions)
    tokens = torch.randint(4, 9, (2, 5))
    assert model(tokens, torch.tensor([5, 3]), tokens).isfinite().all()


def test_a_trace_shows_what_the_layer_computed():
    module = MultiHeadAttention(12, 3, rank=2)
    x = torch.randn(1, 5, 12)
    trace = layer_trace(module, lambda: module(x), head=1)
    query = module.projection(x)[0, :, 4:8].double().detach().numpy()
    assert abs(trace["query"].values - query).max() < 1e-6
    assert trace.difference < 1e-5


@pytest.mark.parametrize("options", [{}, {"memory_dim": 7}])
def test_other_numbers_of_key_heads_are_refused(options):
    with pytest.raises(ConfigError, match="rank=2 has no matrix of its key heads; leave rank out"):
        with_kv_heads(MultiHeadAttention(12, 4, rank=2, **options), 2)


def test_a_rank_of_nothing_is_refused():
    with pytest.raises(ConfigError, match=r"rank \(0\) must be a whole number of 1 or more, or None"):
        MultiHeadAttention(12, 3, rank=0)

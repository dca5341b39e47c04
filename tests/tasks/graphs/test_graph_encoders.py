"""Encoders of graphs beside their formulas as loops; sparse features, isolated nodes, what they refuse."""

import math

import pytest
import torch
from pydantic import TypeAdapter, ValidationError
from torch.nn import functional as F

from headwise.attention.masks import Causal, Edges
from headwise.errors import ConfigError, Unsupported
from headwise.tasks.graphs.encoders import (
    FeatureProjection,
    GraphAttentionConfig,
    GraphEncoderConfig,
    MeanConfig,
    PerceptronConfig,
    SparseRows,
)

NODES, FEATURES, LABELS = 7, 5, 3
# sources, targets: node 5 hears of nobody, node 6 of node 0 alone
INDEX = torch.tensor([[0, 1, 2, 4, 3, 0, 1, 0], [1, 0, 1, 1, 2, 3, 4, 6]])
CONFIG = TypeAdapter(GraphEncoderConfig)


def heard(node, loops):
    found = {int(s) for s, t in INDEX.T.tolist() if t == node}
    return sorted(found | ({node} if loops else set()))


def graph(loops):
    mask = Edges(INDEX, NODES)
    return (mask.with_self_loops() if loops else mask).shared()


def features(seed=1):
    torch.manual_seed(seed)
    return torch.randn(NODES, FEATURES, dtype=torch.float64)


def sparse(dense):
    row, column = dense.nonzero(as_tuple=True)
    start = torch.searchsorted(row, torch.arange(len(dense)))
    return SparseRows(start, column, dense[row, column])


def by_loops(model, x, loops):
    """Velickovic et al. 2018, equations 3 to 6, node by node and head by head."""
    layers = list(zip(model.layers, model.mixers, strict=True))
    for number, (layer, mixer) in enumerate(layers):
        x = (F.elu(x) if number else x) @ layer.weight + layer.bias
        heads, rows = x.view(NODES, mixer.num_heads, -1), []
        for node in range(NODES):
            outputs = []
            for head in range(mixer.num_heads):
                own, score = heard(node, loops), mixer.mechanism.score
                logits = [
                    F.leaky_relu(score.query[head] @ heads[node, head] + score.key[head] @ heads[j, head], 0.2)
                    for j in own
                ]
                total = sum(math.exp(float(one)) for one in logits)
                zero = torch.zeros(heads.shape[2], dtype=x.dtype)
                outputs.append(
                    sum((one.exp() / total * heads[j, head] for one, j in zip(logits, own, strict=True)), zero)
                )
            rows.append(torch.stack(outputs).mean(0) if number == len(layers) - 1 else torch.cat(outputs))
        x = torch.stack(rows)
    return x


@pytest.mark.parametrize("loops", [True, False])
def test_attention_is_the_paper_s(loops):
    torch.manual_seed(2)
    model = GraphAttentionConfig(d_model=6, num_heads=3, last_heads=2).encoder(FEATURES, LABELS).double().eval()
    x = features()
    with torch.no_grad():
        torch.testing.assert_close(model(x, graph(loops)), by_loops(model, x, loops))
    if not loops:
        # a node that hears of nobody gets zeros
        assert model(x, graph(loops))[5].tolist() == [0.0] * LABELS


@pytest.mark.parametrize("loops", [True, False])
def test_mean_is_a_loop_and_mlp_knows_no_edges(loops):
    x = features()
    model = MeanConfig(d_model=4, num_layers=1, between="relu").encoder(FEATURES, LABELS).double().eval()
    projected = x @ model.layers[0].weight + model.layers[0].bias
    rows = [sum((projected[j] for j in heard(n, loops)), torch.zeros(LABELS).double()) for n in range(NODES)]
    wanted = torch.stack([row / max(1, len(heard(n, loops))) for n, row in enumerate(rows)])
    torch.testing.assert_close(model(x, graph(loops)), wanted)
    alone = PerceptronConfig(d_model=4).encoder(FEATURES, LABELS).double().eval()
    single = torch.cat([alone(x[n : n + 1], Edges(INDEX[:, :0], 1)) for n in range(NODES)])
    torch.testing.assert_close(alone(x, graph(loops)), single)


@pytest.mark.parametrize("kind", ["mlp", "mean", "attention"])
def test_sparse_features_are_dense_ones_with_their_gradients(kind):
    config = CONFIG.validate_python({"kind": kind, "d_model": 8})
    model, mask = config.encoder(FEATURES, LABELS).double().eval(), graph(True)
    dense = features() * (torch.rand(NODES, FEATURES) < 0.4)
    dense[2] = 0
    found = []
    for given in (dense, sparse(dense)):
        model.zero_grad()
        output = model(given, mask)
        output.square().sum().backward()
        found.append([output.detach(), *(p.grad.clone() for p in model.parameters())])
    torch.testing.assert_close(*found)
    assert torch.equal(model(sparse(dense), mask), model(sparse(dense).to("cpu"), mask))


@pytest.mark.parametrize("kind", ["mlp", "mean", "attention"])
def test_half_precision_and_autocast(kind):
    model, mask = CONFIG.validate_python({"kind": kind, "d_model": 8}).encoder(FEATURES, LABELS).eval(), graph(True)
    dense = features().float()
    wanted = model(dense, mask)
    for given in (dense, sparse(dense)):
        with torch.autocast("cpu", torch.bfloat16):
            torch.testing.assert_close(model(given, mask).float(), wanted, rtol=0.05, atol=0.05)
        torch.testing.assert_close(model.bfloat16()(given, mask).float(), wanted, rtol=0.05, atol=0.05)
        model.float()


def test_dropout_of_sparse_features_is_of_entries():
    torch.manual_seed(0)
    layer = FeatureProjection(FEATURES, 1, dropout=0.5)
    torch.nn.init.ones_(layer.weight)
    dense = torch.zeros(NODES, FEATURES)
    dense[:, :2] = 1.0
    draws = torch.stack([layer(sparse(dense)).detach().flatten() for _ in range(400)])
    assert set(draws.flatten().tolist()) == {0.0, 2.0, 4.0}
    assert draws.mean().item() == pytest.approx(2.0, abs=0.1)


@pytest.mark.parametrize(
    "fields",
    [
        {"score": "gatv2"},
        {"score": "scaled_dot", "shared": False},
        {"normalizer": "sparsemax"},
        {"score": "additive", "normalizer": "entmax:1.3", "shared": False},
        {"mechanism": "talking_heads"},
    ],
)
def test_any_score_normalizer_and_mechanism(fields):
    model = GraphAttentionConfig(d_model=6, num_heads=3, **fields).encoder(FEATURES, LABELS).double().eval()
    x = features()
    output = model(x, graph(True))
    # a node changes with those it hears of, two edges away at most, and with no other
    changed = (model(x + torch.eye(NODES)[4].unsqueeze(1), graph(True)) - output).abs().sum(1) > 1e-12
    assert changed.tolist() == [True, True, False, False, True, False, False]


def test_what_cannot_be_is_refused_by_name():
    with pytest.raises(ConfigError, match=r"num_heads \(8\) must divide d_model \(7\)"):
        GraphAttentionConfig(d_model=7)
    with pytest.raises(ValidationError, match="unknown score 'gats'; did you mean 'gat'"):
        GraphAttentionConfig(score="gats")
    with pytest.raises(ConfigError, match="score and normalizer belong to mechanism 'scored', not to 'talking_heads'"):
        GraphAttentionConfig(mechanism="talking_heads", score="dot")
    with pytest.raises(ValidationError, match="unknown mechanism"):
        GraphAttentionConfig(mechanism="scord")
    with pytest.raises(Unsupported, match=r"(?i)linear.*mask"):
        GraphAttentionConfig(d_model=8, mechanism="linear").encoder(FEATURES, LABELS)(features().float(), graph(True))
    with pytest.raises(Unsupported, match="needs a mask that lists its pairs, such as Edges"):
        MeanConfig(d_model=8).encoder(FEATURES, LABELS)(features().float(), Causal())


def test_every_matrix_starts_as_the_scheme_says():
    torch.manual_seed(0)
    model = GraphAttentionConfig(d_model=64, num_heads=8, shared=False).encoder(1000, 64)
    # query, key and value are matrices of their own: variance 2 / (1000 + 64)
    for part in model.layers[0].weight.split(64, 1):
        assert part.var().item() == pytest.approx(2 / 1064, rel=0.05)
    normal = PerceptronConfig(initializer="normal").encoder(1000, 3)
    assert normal.layers[0].weight.std().item() == pytest.approx(0.02, rel=0.05)


def test_no_table_of_nodes_by_nodes_is_made():
    """A graph whose table would take 40 GB."""
    nodes = 100_000
    index = torch.stack((torch.arange(nodes), torch.arange(nodes).roll(1)))
    model = GraphAttentionConfig(d_model=4, num_heads=2).encoder(3, 2)
    model(torch.ones(nodes, 3), Edges(index, nodes).with_self_loops().shared()).sum().backward()
    assert model.layers[0].weight.grad.isfinite().all()

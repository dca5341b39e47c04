"""The scores of graph attention networks, also against the layers of PyTorch Geometric."""

import warnings

import pytest
import torch
from torch.nn import functional as F

from headwise.attention import attend
from headwise.attention.masks import Edges, Table
from headwise.attention.scores import GAT, GATv2

HEADS, DIM = 3, 4


def _filled(score):
    for parameter in score.parameters():
        torch.nn.init.normal_(parameter)
    return score.double()


def test_the_first_score_pair_by_pair():
    score = _filled(GAT(HEADS, DIM))
    query, key = torch.randn(2, 3, 5, 4, dtype=torch.float64), torch.randn(2, 3, 7, 4, dtype=torch.float64)
    actual = score(query, key)
    for b, h, i, j in torch.cartesian_prod(*(torch.arange(n) for n in (2, 3, 5, 7))).tolist():
        total = torch.cat((score.query[h], score.key[h])) @ torch.cat((query[b, h, i], key[b, h, j]))
        torch.testing.assert_close(actual[b, h, i, j], total if total > 0 else 0.2 * total)
    assert score.pair_width(query) == 1
    assert repr(score) == "GAT(num_heads=3, dim=4, slope=0.2)"


def test_the_second_score_pair_by_pair():
    score = _filled(GATv2(HEADS, DIM, slope=0.1))
    query, key = torch.randn(2, 3, 5, 4, dtype=torch.float64), torch.randn(2, 3, 7, 4, dtype=torch.float64)
    actual = score(query, key)
    for b, h, i, j in torch.cartesian_prod(*(torch.arange(n) for n in (2, 3, 5, 7))).tolist():
        expected = score.weight[h] @ F.leaky_relu(query[b, h, i] + key[b, h, j], 0.1)
        torch.testing.assert_close(actual[b, h, i, j], expected)
    assert score.pair_width(query) == 4
    assert repr(score) == "GATv2(num_heads=3, dim=4, slope=0.1)"


def test_only_the_second_score_gives_each_query_its_own_order():
    """Brody et al. 2022, theorem 1: the first attention is static."""
    query, key = torch.randn(2, 3, 31, 4, dtype=torch.float64), torch.randn(2, 3, 7, 4, dtype=torch.float64)
    static = _filled(GAT(HEADS, DIM))(query, key).argsort(-1)
    assert (static == static[:, :, :1]).all()
    dynamic = _filled(GATv2(HEADS, DIM))(query, key).argsort(-1)
    assert (dynamic != dynamic[:, :, :1]).any(-1).any(-1).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("shift", "felt"), [(20.0, False), (-20.0, False), (0.0, True)])
def test_the_query_of_the_first_score_is_felt_only_where_signs_are_mixed(dtype, shift, felt):
    """On one side of 0 it adds the same to all scores of a query: softmax has no gradient for it but rounding."""
    score = _filled(GAT(HEADS, DIM)).to(dtype)
    query, key, value = torch.randn(3, 2, HEADS, 5, DIM, dtype=dtype)
    along = score.query.detach() / score.query.detach().square().sum(-1, keepdim=True)
    query = query + shift * along[:, None]
    positive = score(query, key) > 0
    mixed = positive.any(-1) & ~positive.all(-1)
    assert mixed.any() if felt else not mixed.any()
    (attend(query, key, value, score=score) * torch.randn_like(value)).sum().backward()
    rounding = 100 * torch.finfo(dtype).eps * float(score.key.grad.abs().max()) * float(query.abs().max())
    assert (float(score.query.grad.abs().max()) > 1e-2) == felt
    assert felt or float(score.query.grad.abs().max()) < rounding < 1e-2


def test_all_of_the_second_score_is_felt_where_signs_are_the_same():
    score = _filled(GATv2(HEADS, DIM))
    query, key, value = torch.randn(3, 2, HEADS, 5, DIM, dtype=torch.float64)
    attend(query + 20, key, value, score=score).square().sum().backward()
    assert score.weight.grad.abs().min() > 1e-4


def _graph(nodes: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Edges (source, target) without repeats and self-loops; node 0 has no incoming edge. And which pairs meet."""
    source, target = torch.where(torch.rand(nodes, nodes) < 0.3)
    wanted = (source != target) & (target != 0)
    edges = torch.stack((source[wanted], target[wanted]))
    table = torch.zeros(nodes, nodes, dtype=torch.bool)
    table[edges[1], edges[0]] = True
    return edges, table


def _layer(kind, dtype, **options):
    pytest.importorskip("torch_geometric")
    with warnings.catch_warnings():
        # its compiled companions are not installed, and it uses what torch has deprecated
        warnings.simplefilter("ignore")
        from torch_geometric import nn
    return getattr(nn, kind)(5, DIM, heads=HEADS, add_self_loops=False, bias=False, **options).to(dtype)


def _heads(x):
    return x.unflatten(-1, (HEADS, DIM)).transpose(0, 1).unsqueeze(0)


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-12), (torch.float32, 1e-6)], ids=str)
@pytest.mark.parametrize("given", ["table", "edges"])
@pytest.mark.parametrize("kind", ["GATConv", "GATv2Conv"])
def test_outputs_and_gradients_are_those_of_pytorch_geometric(kind, given, dtype, bound):
    layer = _layer(kind, dtype)
    edges, table = _graph(11)
    x = torch.randn(11, 5, dtype=dtype, requires_grad=True)
    if kind == "GATConv":
        score = GAT(HEADS, DIM).to(dtype)
        pairs = [(score.query, layer.att_dst), (score.key, layer.att_src)]
        queries = keys = layer.lin(x)
    else:
        score = GATv2(HEADS, DIM).to(dtype)
        pairs = [(score.weight, layer.att)]
        queries, keys = layer.lin_r(x), layer.lin_l(x)
    with torch.no_grad():
        for ours, theirs in pairs:
            ours.copy_(theirs[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = layer(x, edges)
    mask = Table(table) if given == "table" else Edges(edges, 11)
    output = attend(_heads(queries), _heads(keys), _heads(keys), score=score, mask=mask)[0]
    output = output.transpose(0, 1).flatten(1)
    torch.testing.assert_close(output, expected, rtol=0, atol=bound)
    assert not output[0].any()
    gradient = torch.randn(11, HEADS * DIM, dtype=dtype)
    ours = torch.autograd.grad(output, [x, *(one for one, _ in pairs)], gradient)
    theirs = torch.autograd.grad(expected, [x, *(two for _, two in pairs)], gradient)
    for one, two in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, two.view(one.shape), rtol=0, atol=20 * bound)

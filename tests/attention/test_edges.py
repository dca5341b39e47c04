"""The kernel for graphs: equal to the definition on every graph, linear in its edges, and no table anywhere."""

import math
from dataclasses import replace

import pytest
import torch
from attention_cases import NOT_LISTED, assert_same, definition, refuses
from devices import DEVICE, not_simulated, seeded
from torch import nn
from torch.utils.checkpoint import checkpoint

from headwise.attention import planner
from headwise.attention.call import Call
from headwise.attention.kernels import edges, plain
from headwise.attention.kernels._edges_graph import graph, products, softmax, sums
from headwise.attention.masks import Causal, Edges, Padding, Table, Window
from headwise.attention.normalizers import Normalizer
from headwise.attention.scores import GAT, Additive, Bilinear, Distance, GATv2, SoftCap


def table_of(index, query_len, key_len, start=0):
    """The edges as a table, one by one."""
    table = torch.zeros(query_len, key_len, dtype=torch.bool)
    for source, target in index.T.tolist():
        if 0 <= target - start < query_len and source < key_len:
            table[target - start, source] = True
    return table.expand(2, 6, -1, -1)


def tensors(query_len=11, key_len=11, kv_heads=2, value_dim=3, dtype=torch.float64):
    shapes = ((6, query_len, 4), (kv_heads, key_len, 4), (kv_heads, key_len, value_dim))
    return [torch.randn(2, *shape, dtype=dtype, requires_grad=True) for shape in shapes]


SIZES = [(1, 1, 0), (11, 11, 0), (11, 7, 0), (5, 13, 4), (3, 13, 60)]


@pytest.mark.parametrize("count", [0, 1, 9, 70])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_the_definition_on_every_graph(size, count, monkeypatch):
    (query_len, key_len, start), kv_heads = size, 3 if count > 9 else 6
    # all heads at once, some at a time, one at a time
    monkeypatch.setattr(edges, "_PAIRS", {0: 1 << 17, 1: 5, 9: 40, 70: 1}[count])
    index = torch.randint(0, max(key_len, 1), (2, count))
    # each edge from a node that is no key as well
    beyond = index + torch.tensor([[key_len], [0]])
    for nodes, edges_of in ((key_len, index), (99, torch.cat((index, beyond), 1))):
        inputs = tensors(query_len, key_len, kv_heads)
        output = planner.run(Call(*inputs, mask=Edges(edges_of, nodes), query_start=start), "edges")
        assert_same(output, definition(*inputs, table_of(edges_of, query_len, key_len, start)), inputs)


INDEX = torch.randint(0, 11, (2, 40), generator=seeded(1))
LENS = torch.tensor([11, 6])
BESIDE = {
    "causal": lambda: Causal(),
    "window": lambda: Window(2, 1),
    "lengths": lambda: Padding(LENS),
    "none": lambda: Padding(torch.tensor([0, 2])),
    "by query": lambda: Padding(torch.randint(0, 12, (2, 11))),
    "table": lambda: Table(torch.rand(2, 6, 11, 11) < 0.5),
    "graph": lambda: Edges(INDEX[:, 15:], 11),
}


@pytest.mark.parametrize("kind", BESIDE)
def test_a_graph_and_another_mask(kind):
    inputs, own = tensors(), Edges(INDEX, 11)
    other = BESIDE[kind]()
    table = table_of(INDEX, 11, 11) & other.dense(2, 6, 11, 11)
    for mask in (own & other, (other & own).shared()):
        assert_same(edges.compute(Call(*inputs, mask=mask)), definition(*inputs, table), inputs)


class Sinks(Normalizer):
    """exp(s) / (exp(sink) + sum of exp(s)) with a learned sink for each head."""

    def __init__(self):
        super().__init__()
        self.sink = nn.Parameter(torch.randn(6, 1, 1, dtype=torch.float64))

    def forward(self, scores, keep):
        powers = scores.exp() if keep is None else scores.masked_fill(~keep, -math.inf).exp()
        return powers / (self.sink.exp() + powers.sum(-1, keepdim=True))

    def per_head(self):
        return True


SCORES = {
    "scaled_dot": lambda: "scaled_dot",
    "bilinear": lambda: Bilinear(4, 4).double(),
    "additive": lambda: Additive(4, 4, 3).double(),
    "gat": lambda: GAT(6, 4).double(),
    "gatv2": lambda: GATv2(6, 4).double(),
    "soft_cap": lambda: SoftCap(Additive(4, 4, 3), 2.0).double(),
}


@pytest.mark.parametrize("normalizer", ["softmax", "relu", "sparsemax", "softmax1", "top_k:2", "scalable:0.5", "sinks"])
@pytest.mark.parametrize("kind", SCORES)
def test_every_score_and_normalizer_learns(kind, normalizer, monkeypatch):
    # some pairs at a time
    monkeypatch.setattr(edges, "_NUMBERS", 1)
    for mask in (Edges(INDEX, 11), Edges(INDEX, 11) & Padding(LENS)):
        inputs, found = tensors(), Sinks() if normalizer == "sinks" else normalizer
        call = Call(*inputs, SCORES[kind](), found, mask)
        learned = [*inputs, *call.score.parameters(), *call.normalizer.parameters()]
        assert_same(edges.compute(call), plain.compute(call), learned)


def test_the_first_example_of_attention_over_neighbours():
    """Golden numbers, by hand: node 0 sees 1 and 2 with scores 0 and ln 3, node 2 sees itself, node 1 nobody."""
    query = torch.tensor([1.0, 1.0, 1.0]).view(1, 1, 3, 1)
    key = torch.tensor([5.0, 0.0, math.log(3.0)]).view(1, 1, 3, 1)
    value = torch.tensor([[0.0, 0.0], [4.0, 0.0], [8.0, 1.0]]).view(1, 1, 3, 2)
    call = Call(query, key, value, mask=Edges(torch.tensor([[1, 2, 2, 1], [0, 0, 2, 0]]), 3))
    expected = torch.tensor([[7.0, 0.75], [0.0, 0.0], [8.0, 1.0]])
    torch.testing.assert_close(planner.run(call, "edges")[0, 0], expected)


def test_strides_do_not_matter():
    wide = torch.randn(2, 6, 11, 8, dtype=torch.float64)
    query, key = wide[..., ::2], torch.randn(2, 6, 4, 11, dtype=torch.float64).mT
    value = torch.randn(2, 1, 11, 1, dtype=torch.float64).expand(2, 6, 11, 4)
    for score in ("scaled_dot", GAT(6, 4).double()):
        for gradient in (wide[..., 1::2], value, torch.randn(11, 4, 6, 2, dtype=torch.float64).mT.permute(2, 3, 0, 1)):
            results = []
            for odd in (True, False):
                inputs = [(t if odd else t.contiguous()).detach().requires_grad_() for t in (query, key, value)]
                output = edges.compute(Call(*inputs, score, mask=Edges(INDEX, 11)))
                given = gradient if odd else gradient.contiguous()
                results.append([output, *torch.autograd.grad(output, inputs, given)])
            for one, two in zip(*results, strict=True):
                torch.testing.assert_close(one, two, rtol=0, atol=1e-13)


@pytest.mark.parametrize("normalizer", ["softmax", "relu"])
@pytest.mark.parametrize("kind", [*SCORES, "distance"])
def test_what_no_query_sees_never_leaks(kind, normalizer):
    """Isolated nodes and padding, as query, key and value, to outputs and gradients, of parameters too."""
    alone = Edges(INDEX % 8, 11)
    padded = (
        Edges(INDEX, 11) & Padding(LENS) & ~Edges(torch.cartesian_prod(torch.arange(11), torch.arange(6, 11)).T, 11)
    )
    for mask, hidden in ((alone, (slice(None), 8)), (padded, (1, 6))):
        results = []
        for content in (0.0, math.nan):
            torch.manual_seed(0)
            score = SCORES.get(kind, Distance)()
            inputs = [t.detach() for t in tensors()]
            for t in inputs:
                t[hidden[0], :, hidden[1] :] = content
            inputs = [t.requires_grad_() for t in inputs]
            call = Call(*inputs, score, normalizer, mask)
            output = planner.run(call, "edges")
            learned = [*inputs, *call.score.parameters()]
            results.append([output, *torch.autograd.grad(output.square().sum(), learned)])
        assert not results[1][0][hidden[0], :, hidden[1] :].any()
        for one, two in zip(*results, strict=True):
            torch.testing.assert_close(one, two, rtol=0, atol=1e-13)


@pytest.mark.parametrize("kind", [0, 1, 2], ids=["query", "key", "value"])
def test_nan_stays_in_its_batch_and_head(kind):
    results = []
    for content in (1.0, math.nan):
        torch.manual_seed(0)
        inputs = [t.detach() for t in tensors(kv_heads=6)]
        inputs[kind][1, 2, 7] = content
        inputs = [t.requires_grad_() for t in inputs]
        output = edges.compute(
            Call(*inputs, mask=Edges(torch.arange(11).expand(2, -1), 11) & Padding((LENS + 3).clamp(max=11)))
        )
        results.append([output, *torch.autograd.grad(output.sum(), inputs)])
    assert results[1][0].isnan().any()
    for one, two in zip(*results, strict=True):
        others = torch.ones(2, 6, dtype=torch.bool)
        others[1, 2] = False
        assert torch.equal(one[others], two[others])


@pytest.mark.parametrize("normalizer", ["softmax", "relu"])
@pytest.mark.parametrize("kind", ["scaled_dot", "gat"])
def test_large_content_under_the_mask_does_nothing(kind, normalizer):
    """Key 10 is a candidate of many queries, and seen by query 10 alone, which is not asked for."""
    table = torch.ones(11, 11, dtype=torch.bool)
    table[:10, 10] = False
    mask, results = Edges(torch.cartesian_prod(torch.arange(11), torch.arange(11)).T, 11) & Table(table), []
    for content in (1.0, 1e30):
        torch.manual_seed(0)
        score, inputs = SCORES[kind](), [t.detach() for t in tensors()]
        if kind == "gat":
            score.float()
        for t in inputs[1:]:
            t[:, :, 10] = content
        inputs = [t.float().requires_grad_() for t in inputs]
        output = edges.compute(Call(*inputs, score, normalizer, mask))[:, :, :10]
        results.append([output, *torch.autograd.grad(output.square().sum(), inputs)])
    for one, two in zip(*results, strict=True):
        assert torch.equal(one, two)


@pytest.mark.parametrize("normalizer", ["softmax", "sigmoid"])
def test_dropout_drops_weights_in_both_directions(normalizer):
    """With values that are the identity, the output is the weights; the gradient sees the same ones dropped."""
    query, key, _ = tensors(60, 60)
    value = torch.eye(60, dtype=torch.float64).expand(2, 2, 60, 60).clone().requires_grad_()
    mask = Edges(torch.cartesian_prod(torch.arange(60), torch.arange(60)).T, 60)
    call = Call(query, key, value, normalizer=normalizer, mask=mask)
    dropped = edges.compute(replace(call, dropout=0.3))
    kept = (dropped != 0).double()
    assert abs(float(kept.mean()) - 0.7) < 0.02
    torch.testing.assert_close(dropped, plain.weights(call) * kept / 0.7, rtol=6e-3, atol=1e-12)
    (gradient,) = torch.autograd.grad(dropped.sum(), value)
    # two values for six heads
    expected = dropped.detach().sum(2).unflatten(1, (2, 3)).sum(2).unsqueeze(-1)
    torch.testing.assert_close(gradient, expected.expand_as(gradient))


@pytest.mark.parametrize("kind", ["scaled_dot", "gat"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_has_scores_of_single(kind, dtype):
    inputs, score = [t.detach().to(dtype) for t in tensors()], SCORES[kind]()
    inputs[0] *= 30
    mask = Edges(INDEX, 11)
    found = edges.compute(Call(*inputs, score, mask=mask))
    assert found.dtype == dtype
    expected = plain.compute(Call(*(t.double() for t in inputs), score, mask=mask))
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=3e-2)


def test_a_large_graph_is_linear_in_its_edges():
    """Fifty thousand nodes, nothing of whose pairs is ever a table, and no vector is kept for an edge."""
    nodes, count = 50_003, 200_000
    index = torch.randint(0, nodes, (2, count))
    mask = Edges(index, nodes).with_self_loops()
    x = torch.randn(1, nodes, 2, 4).transpose(1, 2).requires_grad_()
    for score in ("scaled_dot", GAT(2, 4), GATv2(2, 4)):
        saved = []
        call = Call(x, x, x, score, mask=mask)
        with torch.autograd.graph.saved_tensors_hooks(lambda t, s=saved: s.append(t.numel()) or t, lambda t: t):
            output = edges.compute(call)
        assert max(saved) <= 2 * (count + nodes)
        output.sum().backward()
        node = int(index[1, 0])
        seen = torch.cat((index[0][index[1] == node], torch.tensor([node]))).unique()
        small = replace(call, query=x[:, :, [node]], key=x[:, :, seen], value=x[:, :, seen], mask=None)
        torch.testing.assert_close(output[:, :, [node]], plain.compute(small))
    assert planner.plan(call).kernel == "edges"


GRAPH = Edges(INDEX, 11) & Padding(LENS)


class Attention(nn.Module):
    def __init__(self, kind, normalizer="softmax"):
        super().__init__()
        score = SCORES[kind]()
        self.score = score if isinstance(score, nn.Module) else nn.Identity()
        self.normalizer = Sinks() if normalizer == "sinks" else normalizer

    def forward(self, *inputs):
        score = "scaled_dot" if isinstance(self.score, nn.Identity) else self.score
        return planner.run(Call(*inputs, score, self.normalizer, GRAPH), "edges")


@pytest.mark.parametrize("normalizer", ["softmax", "sinks"])
@pytest.mark.parametrize("kind", ["bilinear", "additive", "gat", "gatv2"])
def test_parameters_given_for_one_call(kind, normalizer):
    module, inputs = Attention(kind, normalizer), tensors()
    given = {name: torch.randn_like(p).requires_grad_() for name, p in module.named_parameters()}
    output = torch.func.functional_call(module, given, tuple(inputs))
    found = torch.autograd.grad(output.square().sum(), list(given.values()))
    module.load_state_dict({name: p.detach() for name, p in given.items()})
    expected = torch.autograd.grad(module(*inputs).square().sum(), list(module.parameters()))
    torch.testing.assert_close(found, expected)


@not_simulated("it has no vmap")
@pytest.mark.parametrize("kind", ["scaled_dot", "additive", "gat"])
def test_transforms_of_functions(kind):
    module, inputs = Attention(kind), [t.detach() for t in tensors()]
    more = torch.stack((inputs[1], inputs[1] + 1), 2)
    mapped = torch.vmap(lambda *x: module(*x), (None, 2, None), 1)(inputs[0], more, inputs[2])
    apart = [module(inputs[0], key, inputs[2]) for key in more.unbind(2)]
    torch.testing.assert_close(mapped, torch.stack(apart, 1))
    for place in range(3):
        given = [t.clone().requires_grad_(i == place) for i, t in enumerate(inputs)]
        (expected,) = torch.autograd.grad(module(*given).square().sum(), given[place])
        found = torch.func.grad(lambda *x: module(*x).square().sum(), place)(*inputs)
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("kind", ["scaled_dot", "gat", "gatv2"])
def test_computed_again_and_with_packed_tensors(kind):
    module, inputs = Attention(kind), tensors()
    assert_same(checkpoint(module, *inputs, use_reentrant=False), module(*inputs), inputs)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.cpu().numpy(), lambda a: torch.from_numpy(a).to(DEVICE)):
        packed = module(*inputs)
    assert_same(packed, module(*inputs), inputs)


def test_derivatives_of_sums_products_and_softmax():
    """By differences, the second ones too: three operations whose gradients are made of one another."""
    row, column = torch.tensor([0, 0, 0, 2, 3, 3]), torch.tensor([0, 1, 4, 1, 0, 4])
    pattern = graph(row, column, column.argsort(stable=True), 4, 5)
    one, two, numbers = (torch.randn(2, *n, dtype=torch.float64, requires_grad=True) for n in ((4, 3), (5, 3), (6,)))
    cases = ((sums, (numbers, two)), (products, (one, two)), (softmax, (numbers,)))
    for function, inputs in cases:
        assert torch.autograd.gradcheck(lambda *x, f=function: f(*x, pattern), inputs)
        assert torch.autograd.gradgradcheck(lambda *x, f=function: f(*x, pattern), inputs)


REFUSALS = {
    "no mask": ({"mask": None}, "the mask is not given by a list of pairs"),
    "another mask": ({"mask": ~Edges(torch.tensor([[0], [1]]), 7)}, "the mask is not given by a list of pairs"),
    **NOT_LISTED,
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_it_says_what_of_the_call_prevents_it(kind):
    refuses("edges", Edges(torch.tensor([[0], [1]]), 7), *REFUSALS[kind])


def test_it_says_what_it_computes_and_keeps():
    call = Call(*tensors(), mask=Edges(torch.tensor([[0, 1, 1], [1, 2, 3]]), 11))
    assert edges.num_pairs(call) == 2 * 6 * 3
    assert edges.memory_summary(call) == "two numbers for each edge and head, 288 bytes"

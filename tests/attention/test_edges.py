"""The kernel for graphs: equal to the definition on every graph, linear in its edges, and no table anywhere."""

import math
from dataclasses import replace

import pytest
import torch
from attention_cases import DTYPES, TOLERANCE, Case, assert_near, cases, gradients, numbers_like, without
from attention_reference import reference
from hypothesis import given
from hypothesis import strategies as st

from headwise.attention import dropout, normalizers, planner
from headwise.attention.call import Call, check
from headwise.attention.kernels import _edges_graph, edges, plain
from headwise.attention.masks import Causal, Edges, Padding, Table, Window
from headwise.attention.normalizers import Hard
from headwise.attention.relative import Relative
from headwise.attention.scores import GAT, Additive, Bilinear, GATv2, ScaledDot, Score
from headwise.errors import ShapeError, Unsupported

every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)
STRIPPED = [name for name, item in normalizers.NORMALIZERS.items() if item.has_strips()]


def graph(case: Case, density: float) -> torch.Tensor:
    """Edges (2, n), some of them twice, between the nodes that the lengths of the case allow."""
    generator = torch.Generator().manual_seed(case.seed)
    nodes = max(case.start + case.query_len, case.key_len)
    return torch.randint(0, max(1, nodes), (2, int(density * nodes)), generator=generator)


@every_dtype
@given(cases(biased=False, least=1), st.sampled_from(STRIPPED), st.sampled_from([0.0, 1.0, 4.0]))
def test_outputs_and_gradients_are_those_of_the_definition(dtype, case, normalizer, density):
    case = replace(case, normalizer=normalizer, size=min(case.size, 1.0))
    index = graph(case, density)
    mask = Edges(index, 99)
    call = case.build(dtype, grad=True)
    call = without(call, mask=mask if call.mask is None else call.mask & mask)
    output = planner.run(call, "edges")
    gradient = numbers_like(output, 1)
    pairs, rest = {(int(i), int(j)) for j, i in index.T}, case.allowed()
    expected = reference(
        *(t.detach().double().numpy() for t in (call.query, call.key, call.value)),
        scale=case.dim**-0.5,
        normalizer=normalizer,
        allowed=lambda b, h, i, j: (case.start + i, j) in pairs and rest(b, h, i, j),
        gradient=gradient.double().numpy(),
    )
    assert output.dtype == dtype
    assert_near(output, expected.output, TOLERANCE[dtype])
    wanted = (expected.d_query, expected.d_key, expected.d_value)
    for actual, numbers in zip(gradients(call, output, gradient), wanted, strict=True):
        assert_near(actual, numbers, 4 * TOLERANCE[dtype])


SCORES = {
    "bilinear": lambda: Bilinear(4, 4),
    "additive": lambda: Additive(4, 4, 3),
    "gat": lambda: GAT(6, 4),
    "gatv2": lambda: GATv2(6, 4),
}


@pytest.mark.parametrize("at_once", [1, 1 << 17])
@pytest.mark.parametrize("scale", [1.0, -0.7])
@pytest.mark.parametrize("heads", [6, 2])
@pytest.mark.parametrize("kind", SCORES)
def test_every_form_of_score(kind, heads, scale, at_once, monkeypatch):
    """By product, by a number for each node, and pair by pair; in one piece, and head by head."""
    monkeypatch.setattr(_edges_graph, "_AT_ONCE", at_once)
    score: Score = SCORES[kind]().double()
    mask = Edges(torch.randint(0, 11, (2, 37)), 11) & Padding(torch.tensor([11, 8]))
    query, key, value = (torch.randn(2, n, 11, d, dtype=torch.float64) for n, d in ((6, 4), (heads, 4), (heads, 3)))
    tensors = [*(t.requires_grad_() for t in (query, key, value)), *score.parameters()]
    call = check(Call(query, key, value, score, mask=mask, scale=scale))
    output = planner.run(call, "edges")
    expected = plain.compute(call)
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-13)
    gradient = torch.randn_like(output)
    for one, two in zip(*(torch.autograd.grad(o, tensors, gradient) for o in (output, expected)), strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=1e-12)


def test_a_score_with_frozen_parameters_learns_the_rest():
    score = Additive(4, 4, 3)
    score.value.weight.requires_grad_(False)
    x = torch.randn(1, 2, 5, 4, requires_grad=True)
    call = Call(x, x, x, score, mask=Edges(torch.tensor([[0, 1, 2], [1, 1, 4]]), 5))
    one, two = (
        torch.autograd.grad(f(call).square().sum(), [x, score.key.weight]) for f in (edges.compute, plain.compute)
    )
    torch.testing.assert_close(one, two)


@pytest.mark.parametrize(
    "other",
    [Causal(), Window(2, 1), Padding(torch.tensor([3, 9])), Table(torch.rand(2, 3, 9, 9) < 0.5)],
    ids=["causal", "window", "padding", "table"],
)
def test_a_graph_and_another_mask(other):
    index = torch.randint(0, 9, (2, 40))
    call = Case(query_len=9, key_len=9).build(torch.float64)
    for mask in (Edges(index, 9) & other, other & Edges(index, 9) & Edges(index[:, 5:], 9)):
        masked = without(call, mask=mask)
        assert_near(edges.compute(masked), plain.compute(masked).numpy(), 1e-12)
    both = without(call, mask=Edges(index[:, :20], 9) | Edges(index[:, 20:], 9))
    assert_near(edges.compute(both), plain.compute(without(call, mask=Edges(index, 9))).numpy(), 1e-12)


def test_the_first_example_of_attention_over_neighbours():
    """Golden numbers, by hand: node 0 sees 1 and 2 with scores 0 and ln 3, node 2 sees itself, node 1 nobody."""
    query = torch.tensor([1.0, 1.0, 1.0]).view(1, 1, 3, 1)
    key = torch.tensor([5.0, 0.0, math.log(3.0)]).view(1, 1, 3, 1)
    value = torch.tensor([[0.0, 0.0], [4.0, 0.0], [8.0, 1.0]]).view(1, 1, 3, 2)
    call = Call(query, key, value, ScaledDot(), mask=Edges(torch.tensor([[1, 2, 2], [0, 0, 2]]), 3))
    expected = torch.tensor([[7.0, 0.75], [0.0, 0.0], [8.0, 1.0]])
    torch.testing.assert_close(planner.run(call, "edges")[0, 0], expected)


def test_order_and_repetition_of_edges_do_not_matter():
    index = torch.randint(0, 13, (2, 41))
    call = Case(query_len=13, key_len=13).build(torch.float32)
    shuffled = torch.cat((index, index[:, :7]), 1)[:, torch.randperm(48)]
    outputs = [planner.run(without(call, mask=Edges(i, 13)), "edges") for i in (index, shuffled)]
    assert torch.equal(*outputs)


def test_renumbering_nodes_renumbers_the_output():
    index, order = torch.randint(0, 13, (2, 41)), torch.randperm(13)
    call = Case(query_len=13, key_len=13, batch=1).build(torch.float64)
    before = planner.run(without(call, mask=Edges(index, 13)), "edges")
    moved = {name: torch.empty_like(t).index_copy_(2, order, t) for name, t in vars_of(call).items()}
    after = planner.run(without(call, mask=Edges(order[index], 13), **moved), "edges")
    torch.testing.assert_close(after[:, :, order], before, rtol=0, atol=1e-13)


def vars_of(call: Call) -> dict[str, torch.Tensor]:
    return {"query": call.query, "key": call.key, "value": call.value}


def test_derivatives_by_differences():
    mask = Edges(torch.tensor([[0, 1, 2, 2, 3], [0, 0, 0, 3, 3]]), 4)
    tensors = [torch.randn(1, 2, 4, 3, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    score = GAT(2, 3).double()

    def function(*tensors):
        return edges.compute(Call(*tensors, score, mask=mask))

    assert torch.autograd.gradcheck(function, tensors)


@pytest.mark.parametrize("kind", ["gat", "additive"])
def test_it_says_that_it_has_no_second_derivative(kind):
    x = torch.randn(1, 6, 4, 4, requires_grad=True)
    call = Call(x, x, x, SCORES[kind](), mask=Edges(torch.tensor([[0, 1], [1, 1]]), 4))
    with pytest.raises(Unsupported, match="kernel 'edges' has no second derivative; use kernel='plain'"):
        torch.autograd.grad(edges.compute(call).square().sum(), x, create_graph=True)


def test_weights_are_dropped_out_in_both_directions():
    """With values that are the identity, the output is the weights; the gradient sees the same ones dropped."""
    nodes, rate = 40, 0.3
    mask = Edges(torch.cartesian_prod(torch.arange(nodes), torch.arange(nodes)).T, nodes)
    query, key = (torch.randn(1, 1, nodes, 4, dtype=torch.float64) for _ in range(2))
    value = torch.eye(nodes, dtype=torch.float64)[None, None].requires_grad_()
    call = Call(query, key, value, ScaledDot(), mask=mask, dropout=rate)
    output = edges.compute(call)
    kept = output != 0
    assert abs(float(kept.double().mean()) - (1 - dropout.rate(rate))) < 0.05
    whole = plain.weights(call) * dropout.kept_scale(rate)
    torch.testing.assert_close(output, whole * kept)
    (d_value,) = torch.autograd.grad(output.sum(), value)
    torch.testing.assert_close(d_value, output.detach().mT.sum(-1, keepdim=True).expand_as(value))


def test_dropped_weights_have_the_gradient_of_the_rest():
    nodes = 7
    mask = Edges(torch.randint(0, nodes, (2, 30)), nodes)
    tensors = [torch.randn(1, 2, nodes, 3, dtype=torch.float64, requires_grad=True) for _ in range(3)]

    def function(*tensors):
        torch.manual_seed(3)
        return edges.compute(Call(*tensors, ScaledDot(), mask=mask, dropout=0.4))

    assert torch.autograd.gradcheck(function, tensors)


def test_a_large_graph_is_linear_in_its_edges(monkeypatch):
    """A hundred thousand nodes, nothing of whose pairs is ever a table."""
    nodes = 100_003
    index = torch.randint(0, nodes, (2, 200_000))
    monkeypatch.setattr(Edges, "_table", None)
    x = torch.randn(1, nodes, 2, 4).transpose(1, 2).requires_grad_()
    call = check(Call(x, x, x, GAT(2, 4), mask=Edges(index, nodes).with_self_loops()))
    output = planner.run(call)
    assert planner.plan(call).kernel == "edges"
    # heads are joined by a view
    assert output.transpose(1, 2).is_contiguous()
    output.sum().backward()
    node = int(index[1, 0])
    seen = torch.cat((index[0][index[1] == node], torch.tensor([node]))).unique()
    small = replace(call, query=x[:, :, [node]], key=x[:, :, seen], value=x[:, :, seen], mask=None)
    torch.testing.assert_close(output[:, :, [node]], plain.compute(small))
    # the weights of each of the targets sum to 1
    torch.testing.assert_close(edges.compute(replace(call, value=torch.ones_like(x))), torch.ones_like(x))


def test_prepared_graphs_are_remembered_on_the_mask():
    call = without(Case(query_len=7).build(torch.float32), mask=Edges(torch.tensor([[0, 1], [1, 2]]), 7))
    assert _edges_graph.graphs(call) is _edges_graph.graphs(call)
    with torch.inference_mode():
        edges.compute(call)
    learning = without(call, query=call.query.requires_grad_())
    edges.compute(learning).sum().backward()


REFUSALS = {
    "no mask": ({"mask": None}, "its mask is a list of pairs, as a graph is"),
    "another mask": ({"mask": ~Edges(torch.tensor([[0], [1]]), 7)}, "its mask is a list of pairs, as a graph is"),
    "bias": (
        {"bias": torch.zeros(1, 1, 5, 7)},
        "it reads no table over all pairs, as a bias or relative positions are",
    ),
    "relative": (
        {"relative": Relative(low=0, scalar=torch.zeros(1, 1))},
        "it reads no table over all pairs, as a bias or relative positions are",
    ),
    "normalizer": ({"normalizer": Hard()}, "its normalizer has a gradient by rows, which hard has not"),
    "empty": ({"value": torch.zeros(2, 3, 7, 0)}, "an axis is empty"),
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_what_it_cannot_compute_it_refuses(kind):
    changes, why = REFUSALS[kind]
    call = replace(Case().build(torch.float32), mask=Edges(torch.tensor([[0], [1]]), 7))
    assert edges.refusal(call) is None
    with pytest.raises(Unsupported, match=f"kernel 'edges' cannot compute this attention exactly: {why}"):
        planner.run(replace(call, **changes), "edges")


def test_a_mask_for_another_batch_is_named():
    mask = Edges(torch.tensor([[0], [1]]), 7) & Padding(torch.tensor([3]))
    with pytest.raises(
        ShapeError, match=r"the mask does not fit \(batch, heads, query_len, key_len\) = \(2, 3, 5, 7\)"
    ):
        planner.run(without(Case().build(torch.float32), mask=mask), "edges")

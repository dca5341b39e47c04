"""What is masked stays masked: NaN where no query looks, large content anywhere, rows without a key, batch and head."""

from dataclasses import replace

import pytest
import torch
from attention_cases import GENERAL, KERNELS, NAN, Case, assert_near, cases, gradients, numbers_like, run, without
from devices import DEVICE, not_simulated, seeded
from hypothesis import given
from hypothesis import strategies as st

from headwise.attention import attend, kernels, planner
from headwise.attention.call import Call
from headwise.attention.masks import (
    Blocks,
    Causal,
    Documents,
    Edges,
    Mask,
    Padding,
    Place,
    Prefix,
    Shifts,
    Table,
    Window,
)
from headwise.attention.scores import GAT, Additive, Bilinear, Cosine, QKNorm

every_kernel = pytest.mark.parametrize("kernel", KERNELS)
every_general_kernel = pytest.mark.parametrize("kernel", GENERAL)
JUNK = [1e30, -1e30, NAN, float("inf"), float("-inf")]


def unseen(case: Case) -> torch.Tensor:
    """Keys (batch, kv_heads, key_len) that no query of their heads may see."""
    return ~torch.tensor(case.keep()).unflatten(1, (case.kv_heads, -1)).any(3).any(2)


def known_unseen(call: Call) -> torch.Tensor:
    """Those of which the mask says so without its table: what the promise is about, whatever kernel runs."""
    seen = None if call.mask is None else call.structure.key_mask()
    if seen is None:
        return torch.zeros(call.key.shape[:3], dtype=torch.bool)
    seen = seen.expand(call.shape[0], call.shape[1], -1)
    return ~seen.unflatten(1, (call.key.shape[1], -1)).any(2)


@every_kernel
@given(cases(masked=True, biased=False), st.sampled_from(JUNK))
def test_what_no_query_may_see_reaches_nothing(kernel, case, junk):
    """Bit for bit: output and gradients, for NaN and infinity too."""
    call = case.build(torch.float64, grad=True)
    hidden, idle = known_unseen(call).unsqueeze(-1), ~torch.tensor(case.keep()).any(-1)
    assert not (hidden.squeeze(-1) & ~unseen(case)).any()
    results = []
    for content in (0.5, junk):
        changed = {name: getattr(call, name).detach().masked_fill(hidden, content) for name in ("key", "value")}
        changed = {name: tensor.requires_grad_() for name, tensor in changed.items()}
        poisoned = without(call, **changed)
        output = run(poisoned, kernel)
        if output is None:
            return
        results.append([output, *gradients(poisoned, output, numbers_like(output, 1))])
    for one, two in zip(*results, strict=True):
        assert torch.equal(one, two)
    output, d_query, d_key, d_value = results[1]
    assert not output[idle].any()
    assert not d_query[idle].any()
    assert not d_key[hidden.squeeze(-1)].any()
    assert not d_value[hidden.squeeze(-1)].any()


@every_kernel
@pytest.mark.parametrize("score", [Bilinear(4, 4), Cosine(3), QKNorm(4), GAT(3, 4), Additive(4, 4, 5)], ids=repr)
def test_what_a_query_without_a_key_holds_reaches_no_parameter(kernel, score):
    """Empty sequences, isolated nodes: their NaN is nobody's, in the query as in the key."""
    score = score.double()
    call = Case(batch=2, query_len=40, key_len=40, value_dim=4).build(torch.float64)
    alone = torch.arange(40) % 5 == 3
    index = torch.arange(40)[~alone]
    lens = Padding(torch.tensor([40, 0]))
    mask = {"edges": Edges(torch.stack((index, index.roll(1))), 40), "banded": Window(2, 1) & lens}.get(kernel, lens)
    hidden = alone.expand(2, 40).clone() if kernel == "edges" else torch.tensor([[False], [True]]).expand(2, 40)
    results = []
    for content in (0.5, NAN):
        at = hidden[:, None, :, None]
        query, key, value = (getattr(call, name).masked_fill(at, content) for name in ("query", "key", "value"))
        poisoned = replace(call, query=query.requires_grad_(), key=key, value=value, score=score, mask=mask)
        output = run(poisoned, kernel)
        if output is None:
            return
        gradient = numbers_like(output, 1)
        results.append([output, *torch.autograd.grad(output, [query, *score.parameters()], gradient)])
    for one, two in zip(*results, strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kernel", ["edges", "plain", "strips"])
def test_a_nan_stays_in_its_head_of_a_graph(kernel):
    index = torch.arange(40)
    call = Case(batch=1, query_len=40, key_len=40).build(torch.float64, grad=True)
    value = call.value.detach().clone()
    value[0, 1, 5, 2] = NAN
    call = replace(call, value=value, score=GAT(3, 4).double(), mask=Edges(torch.stack((index, index.roll(1))), 40))
    output = run(call, kernel)
    assert output.isnan().flatten(2).any(-1).tolist() == [[False, True, False]]
    found = torch.autograd.grad(output[:, ::2].sum(), (call.query, call.key))
    assert not any(gradient[:, ::2].isnan().any() for gradient in found)


@every_kernel
@given(cases(masked=True, biased=False, sizes=(0.0, 1.0)))
def test_large_content_never_leaks_past_the_mask(kernel, case):
    """A key that some queries may see, with content of 1e30: rows that may not see it do not change at all."""
    call = case.build(torch.float32, grad=True)
    generator = seeded(case.seed)
    keys = torch.rand(case.batch, case.kv_heads, case.key_len, generator=generator) < 0.3
    keep = torch.tensor(case.keep())
    safe = ~(keep & keys.repeat_interleave(case.heads // case.kv_heads, 1).unsqueeze(2)).any(-1)
    results = []
    for content in (0.5, 1e30, -1e30):
        names = ("key", "value")
        changed = {name: getattr(call, name).detach().masked_fill(keys.unsqueeze(-1), content) for name in names}
        poisoned = without(call, **{name: tensor.requires_grad_() for name, tensor in changed.items()})
        output = run(poisoned, kernel)
        if output is None:
            return
        gradient = numbers_like(output, 6).masked_fill(~safe.unsqueeze(-1), 0.0)
        results.append([output[safe], gradients(poisoned, output, gradient)[0][safe]])
    for result in results[1:]:
        for one, two in zip(results[0], result, strict=True):
            torch.testing.assert_close(one, two, rtol=0, atol=1e-6)


@every_kernel
@given(cases(masked=True), st.sampled_from([0.0, 0.3]))
def test_a_row_without_a_key_is_exactly_zero(kernel, case, dropout):
    idle = ~torch.tensor(case.keep()).any(-1)
    call = case.build(torch.float32, grad=True, dropout=dropout)
    output = run(call, kernel)
    if output is None:
        return
    d_query, d_key, d_value = gradients(call, output, numbers_like(output, 1))
    assert not output[idle].any()
    assert not d_query[idle].any()
    assert not d_key[unseen(case)].any()
    assert not d_value[unseen(case)].any()
    assert all(tensor.isfinite().all() for tensor in (output, d_query, d_key, d_value))


@every_kernel
@given(cases(masked=True, normalizer="softmax"), st.booleans())
def test_a_bias_of_minus_infinity_forbids_as_a_mask_does(kernel, case, grad):
    """Rows that it leaves without a key are zero with zero gradient as well."""
    call = case.build(torch.float64, grad=grad)
    keep = torch.tensor(case.keep())
    forbidding = torch.zeros(keep.shape, dtype=torch.float64).masked_fill(~keep, float("-inf"))
    bias = forbidding if call.bias is None else call.bias + forbidding
    output = run(replace(call, mask=None, bias=bias), kernel)
    if output is None:
        return
    gradient = numbers_like(output, 1)
    expected = case.expected(call, gradient)
    bound = 1e-12 * max(1.0, case.size)
    assert_near(output, expected.output, bound)
    assert not output[~keep.any(-1)].any()
    if grad:
        wanted = (expected.d_query, expected.d_key, expected.d_value)
        for one, two in zip(gradients(call, output, gradient), wanted, strict=True):
            assert_near(one, two, 4 * bound)


EDGES = torch.tensor([[0, 1, 2, 2], [1, 2, 0, 2]])
STRUCTURED = {
    "lengths": Padding(torch.tensor([3, 0])),
    "lengths of queries": Padding(torch.tensor([[1, 2, 3, 3, 0], [0, 0, 0, 0, 0]])),
    "documents": Documents(torch.tensor([[0, 0, 1, -1, -1], [2, 2, 2, 2, -1]])),
    "graph": Edges(EDGES, 5),
    "prefix": Prefix(torch.tensor([1, 4])) & Padding(torch.tensor([3, 4])),
    "table": Table(torch.tensor([[True, False, True, True, False]] * 5)),
    "two": Padding(torch.tensor([4, 2])) & Causal(),
    "window": Window(1, 1) & Padding(torch.tensor([2, 5])),
}


@pytest.mark.parametrize("kind", STRUCTURED)
@every_kernel
def test_nan_in_padding_and_isolated_nodes_leaks_nowhere(kernel, kind):
    """Keys and values that nobody sees, and queries that see nothing, hold NaN; self-attention, so all three do."""
    mask = STRUCTURED[kind]
    table = mask.dense(2, 1, 5, 5).expand(2, -1, 5, 5)
    lost_key, lost_query = ~table.any(2).any(1), ~table.any(3).any(1)
    seen = mask.structure(Place(2, 3, 5, 5, 0, torch.device(DEVICE))).key_mask()
    assert torch.equal(seen.expand(2, 1, 5)[:, 0], ~lost_key)
    tensors = [torch.randn(2, 3, 5, 4) for _ in range(3)]
    results = []
    for content in (0.0, NAN):
        filled = [
            tensor.masked_fill(lost[:, None, :, None], content).requires_grad_()
            for tensor, lost in zip(tensors, (lost_query, lost_key, lost_key), strict=True)
        ]
        output = run(Call(*filled, mask=mask), kernel)
        if output is None:
            return
        results.append([output, *torch.autograd.grad(output.square().sum(), filled)])
    for one, two in zip(*results, strict=True):
        assert torch.equal(one, two)


class Diagonal(Mask):
    """A predicate of a user's own, without structure."""

    def __call__(self, batch, head, query, key):
        return (key == query) & (key < 3)


@pytest.mark.parametrize("kernel", ["auto", "plain", "fused"])
def test_a_predicate_of_ones_own_leaks_nothing_that_is_finite(kernel):
    tensors = [torch.randn(2, 3, 5, 4) for _ in range(3)]
    before = attend(*tensors, mask=Diagonal(), kernel=kernel)
    for tensor in tensors[1:]:
        tensor[:, :, 3:] = 1e30
    assert torch.equal(before, attend(*tensors, mask=Diagonal(), kernel=kernel))


@every_kernel
def test_a_nan_that_may_be_seen_stays_in_its_sequence_and_head(kernel):
    masks = {"banded": Window(2, 2), "edges": Edges(torch.cartesian_prod(*[torch.arange(5)] * 2).T, 5)}
    mask = {**masks, "groups": Blocks(5)}.get(kernel, Padding(torch.tensor([5, 4])))
    for name in ("query", "key", "value"):
        tensors = {n: torch.randn(2, 3, 5, 4) for n in ("query", "key", "value")}
        results = []
        for content in (0.0, NAN):
            tensors[name][1, 2, 1] = content
            inputs = [tensors[n].clone().requires_grad_() for n in ("query", "key", "value")]
            output = run(Call(*inputs, mask=mask), kernel)
            if output is None:
                assert kernel == "decode"
                return
            results.append([output, *torch.autograd.grad(output.square().sum(), inputs)])
        for one, two in zip(*results, strict=True):
            for batch, head in ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1)):
                assert torch.equal(one[batch, head], two[batch, head])


@every_general_kernel
@pytest.mark.parametrize("mask", [Causal(), Window(1, 2), Causal() & Window(1, 0)], ids=["causal", "window", "both"])
def test_derivatives_lie_exactly_where_the_mask_allows(kernel, mask):
    """The Jacobian is zero where the mask forbids, and not zero in every place that it allows."""
    query, key, value = (torch.randn(1, 1, 5, 3, dtype=torch.float64) for _ in range(3))
    allowed = mask.dense(1, 1, 5, 5)[0, 0]
    for position, name in enumerate(("key", "value"), start=1):

        def function(tensor, position=position):
            inputs = [tensor if n == position else t for n, t in enumerate((query, key, value))]
            return attend(*inputs, mask=mask, kernel=kernel)

        # (query, value_dim, key, dim)
        jacobian = torch.autograd.functional.jacobian(function, (query, key, value)[position])[0, 0, :, :, 0, 0]
        reached = jacobian.abs().amax((1, 3)) > 0
        # a row of one key has weight 1 whatever its score is
        expected = allowed if name == "value" else allowed & (allowed.sum(-1, keepdim=True) > 1)
        assert torch.equal(reached, expected)


@pytest.mark.parametrize("score", [Bilinear(4, 4), Additive(4, 4, 3)], ids=["bilinear", "additive"])
@every_general_kernel
def test_hidden_content_does_not_reach_the_parameters_of_a_score(kernel, score):
    case = Case(spec=("lengths", 1))
    call = replace(case.build(torch.float32, grad=True), score=score)
    if kernel != "auto" and kernels.KERNELS[kernel].refusal(call):
        return
    hidden = unseen(case)
    results = []
    for junk in (0.0, *JUNK):
        score.zero_grad()
        filled = [t.detach().masked_fill(hidden.unsqueeze(-1), junk) for t in (call.key, call.value)]
        output = planner.run(without(call, key=filled[0], value=filled[1]), kernel)
        output.square().sum().backward()
        results.append([output, *(parameter.grad.clone() for parameter in score.parameters())])
    for result in results[1:]:
        for one, two in zip(results[0], result, strict=True):
            assert torch.equal(one, two)


@every_general_kernel
def test_a_shared_mask_made_without_gradients_serves_a_call_that_learns(kernel):
    mask = (Padding(torch.tensor([3, 0])) & ~Table(torch.eye(5, 7, dtype=torch.bool))).shared()
    query, key, value = (torch.randn(2, 3, n, 4) for n in (5, 7, 7))
    with torch.inference_mode():
        attend(query, key, value, mask=mask, kernel=kernel)
    attend(query.requires_grad_(), key, value, mask=mask, kernel=kernel).sum().backward()
    assert query.grad.isfinite().all()


@every_general_kernel
def test_a_row_that_mask_and_bias_leave_empty_together_is_zero(kernel):
    """Each of them leaves it a key."""
    query, key, value = (torch.randn(2, 3, n, 4, requires_grad=True) for n in (5, 7, 7))
    bias = torch.zeros(1, 1, 5, 7)
    bias[:, :, 1, :3] = float("-inf")
    output = run(Call(query, key, value, mask=Padding(torch.tensor([3, 7])), bias=bias), kernel)
    found = torch.autograd.grad(output.square().sum(), (query, key, value))
    assert not output[0, :, 1].any()
    assert not found[0][0, :, 1].any()
    assert output[1, :, 1].all()
    assert all(tensor.isfinite().all() for tensor in (output, *found))


@every_general_kernel
def test_a_key_that_one_head_of_a_group_sees_is_there_for_it(kernel):
    query, key, value = (torch.randn(2, heads, 5, 4) for heads in (6, 2, 2))
    keep = torch.ones(2, 6, 5, 5, dtype=torch.bool)
    # of each group of three heads the last one alone sees key 3
    keep[:, [0, 1, 3, 4], :, 3] = False
    found = run(Call(query, key, value, mask=Table(keep)), kernel)
    each = (tensor.repeat_interleave(3, 1) for tensor in (key, value))
    torch.testing.assert_close(found, attend(query, *each, mask=Table(keep), kernel="plain"))


# masks whose structure says less than their table, with a query that sees nothing beside keys that others see
HALF_TOLD = {
    "inverted": lambda: Padding(torch.tensor([5, 2])) & ~Padding(torch.tensor([1, 2])),
    "left padding": lambda: Causal() & ~Padding(torch.tensor([0, 5])),
    "shifts": lambda: Shifts((-1, 3, 0)),
    "own": lambda: Later(),
    "by query": lambda: Padding(torch.tensor([[5, 5, 5, 5, 0], [0, 1, 0, 0, 0]])),
}


class Later(Mask):
    """Keys after the first, for all queries but the first."""

    def __call__(self, batch, head, query, key):
        return (key >= 1) & (query >= 1)


@pytest.mark.parametrize("normalizer", ["softmax", "sparsemax"])
@pytest.mark.parametrize("kernel", ["auto", "plain", "fused"])
@pytest.mark.parametrize("name", HALF_TOLD)
def test_a_table_tells_what_the_structure_of_a_mask_does_not(name, kernel, normalizer):
    if (kernel, normalizer) == ("fused", "sparsemax"):
        return
    mask = HALF_TOLD[name]()
    keep = mask.dense(2, 3, 5, 5).expand(2, 3, 5, 5)
    blind, hidden = ~keep.any(3), ~keep.any(2)
    tensors = [torch.randn(2, 3, 5, 4) for _ in range(3)]
    exact = planner.run(Call(*tensors, normalizer=normalizer, mask=mask), "plain")
    places = zip(tensors, (blind, hidden, hidden), strict=True)
    poisoned = [tensor.masked_fill(where.unsqueeze(-1), NAN).requires_grad_() for tensor, where in places]
    output = planner.run(Call(*poisoned, normalizer=normalizer, mask=mask), kernel)
    torch.testing.assert_close(output, exact)
    assert not output[blind].any()
    d_query, d_key, d_value = torch.autograd.grad(output.square().sum(), poisoned)
    assert not d_query[blind].any()
    assert not d_key[hidden].any()
    assert all(gradient.isfinite().all() for gradient in (d_query, d_key, d_value))


@pytest.mark.parametrize("kernel", ["auto", "plain"])
def test_parameters_of_functions_learn_nothing_from_queries_that_see_nothing(kernel):
    weight = torch.randn(4, 4, requires_grad=True)
    scale = torch.ones((), requires_grad=True)
    query, key = torch.randn(2, 2, 5, 4), torch.randn(2, 2, 5, 4)
    query[1] = NAN
    mask = Padding(torch.tensor([5, 0]))
    for options, learned in (
        ({"score": lambda q, k: q @ weight @ k.mT}, weight),
        ({"normalizer": lambda scores, keep: (scores * scale).softmax(-1)}, scale),
    ):
        output = planner.run(Call(query, key, key, mask=mask, **options), kernel)
        (gradient,) = torch.autograd.grad(output.square().sum(), learned)
        assert gradient.isfinite().all()


@not_simulated("unresolved conjugates of complex numbers")
def test_batched_gradients_and_traces_of_masked_attention():
    x = torch.randn(1, 2, 3, 4)
    run = lambda x: attend(x, x, x, mask=Padding(torch.tensor([2])))  # noqa: E731
    one, two = (torch.autograd.functional.jacobian(run, x, vectorize=vectorize) for vectorize in (False, True))
    torch.testing.assert_close(one, two)
    negative = torch.randn(1, 2, 3, 4, dtype=torch.cfloat).conj().imag
    torch.testing.assert_close(run(negative), run(negative.resolve_neg().clone()))

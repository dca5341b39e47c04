"""Masks within a band: blocks of queries over the keys they reach give the definition, at linear cost."""

import math
from dataclasses import replace

import pytest
import torch
from attention_cases import NOT_LISTED, assert_same, definition, refuses
from devices import DEVICE, not_simulated
from torch import nn
from torch.utils.checkpoint import checkpoint

from headwise.attention import planner
from headwise.attention.call import Call
from headwise.attention.kernels import banded, plain
from headwise.attention.masks import Blocks, Causal, Dilated, Mask, Padding, Table, Window
from headwise.attention.normalizers import Normalizer
from headwise.attention.scores import GAT, Additive, Bilinear, GATv2


def table_of(allowed, batch, heads, query_len, key_len, start=0):
    """allowed(query, key) of positions, as a table."""
    rows = [[allowed(start + i, j) for j in range(key_len)] for i in range(query_len)]
    return torch.tensor(rows).reshape(1, 1, query_len, key_len).expand(batch, heads, -1, -1)


def tensors(query_len, key_len, heads=2, kv_heads=1, dim=5, value_dim=3, dtype=torch.float64):
    shapes = ((heads, query_len, dim), (kv_heads, key_len, dim), (kv_heads, key_len, value_dim))
    return [torch.randn(2, *shape, dtype=dtype, requires_grad=True) for shape in shapes]


MASKS = {
    "window": (Window(70, 0), lambda i, j: i - 70 <= j <= i),
    "to the right": (Window(3, 80), lambda i, j: i - 3 <= j <= i + 80),
    "wide": (Window(100, 120), lambda i, j: i - 100 <= j <= i + 120),
    "itself": (Window(0, 0), lambda i, j: i == j),
    "both": (Window(9, 4) & Causal(), lambda i, j: i - 9 <= j <= i),
    "dilated": (Dilated(5, 4, 7), lambda i, j: -35 <= j - i <= 28 and (j - i) % 7 == 0),
    "blocks": (Blocks(50), lambda i, j: i // 50 == j // 50),
}
SIZES = [(1, 1, 0), (64, 64, 0), (65, 63, 0), (300, 211, 0), (131, 257, 126), (70, 80, 1000), (1, 300, 299)]


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_the_definition_at_every_length(kind, size):
    (mask, allowed), (query_len, key_len, start) = MASKS[kind], size
    inputs = tensors(query_len, key_len, value_dim=3 if start else 7)
    output = planner.run(Call(*inputs, mask=mask, query_start=start), "banded")
    assert_same(output, definition(*inputs, table_of(allowed, 2, 2, query_len, key_len, start)), inputs)


class EveryHeadItsOwn(Mask):
    """Head h sees h + 1 keys back."""

    def __call__(self, batch, head, query, key):
        return (key <= query) & (key > query - head - 2)

    def within(self):
        return 40, 0


LENS = torch.tensor([193, 101])
BESIDE = {
    "lengths": lambda: Padding(LENS),
    "none": lambda: Padding(torch.tensor([0, 7])),
    "by query": lambda: Padding(torch.randint(0, 194, (2, 193))),
    "either": lambda: Padding(LENS) | Causal(),
    "table": lambda: Table(torch.rand(193, 193) < 0.4),
    "by batch": lambda: Table(torch.rand(2, 193, 193) < 0.4),
    "by head": lambda: Table(torch.rand(1, 2, 193, 193) < 0.4),
    "by both": lambda: Table(torch.rand(2, 2, 193, 193) < 0.4),
    "of its own": EveryHeadItsOwn,
}


@pytest.mark.parametrize("normalizer", ["softmax", "relu"])
@pytest.mark.parametrize("kind", BESIDE)
def test_any_other_mask_beside_the_band(kind, normalizer):
    inputs = tensors(193, 193)
    call = Call(*inputs, mask=Window(33, 20) & BESIDE[kind](), normalizer=normalizer)
    expected = plain.compute(call)
    if normalizer == "softmax":
        expected = definition(*inputs, call.keep().expand(2, 2, 193, 193))
    assert_same(banded.compute(call), expected, inputs)


class Sinks(Normalizer):
    """exp(s) / (exp(sink) + sum of exp(s)) with a learned sink for each head."""

    def __init__(self, heads):
        super().__init__()
        self.sink = nn.Parameter(torch.randn(heads, 1, 1, dtype=torch.float64))

    def forward(self, scores, keep):
        powers = scores.exp() if keep is None else scores.masked_fill(~keep, -math.inf).exp()
        return powers / (self.sink.exp() + powers.sum(-1, keepdim=True))

    def per_head(self):
        return True


LEARNED = {
    "bilinear": lambda: Bilinear(5, 5),
    "additive": lambda: Additive(5, 5, 3),
    "gat": lambda: GAT(2, 5),
    "gatv2": lambda: GATv2(2, 5),
}


@pytest.mark.parametrize("kind", LEARNED)
def test_scores_and_normalizers_learn(kind):
    inputs, score, normalizer = tensors(150, 150), LEARNED[kind]().double(), Sinks(2)
    for item in ("softmax", normalizer):
        call = Call(*inputs, score, item, Window(20, 9) & Padding(torch.tensor([150, 40])))
        learned = [*score.parameters(), *call.normalizer.parameters()]
        assert_same(banded.compute(call), plain.compute(call), [*inputs, *learned])


@pytest.mark.parametrize("normalizer", ["softmax", "sigmoid"])
def test_strides_do_not_matter(normalizer):
    wide = torch.randn(2, 3, 200, 14, dtype=torch.float64)
    query, key = wide[..., ::2], torch.randn(2, 3, 7, 200, dtype=torch.float64).mT
    value = torch.randn(2, 1, 200, 1, dtype=torch.float64).expand(2, 3, 200, 7)
    for gradient in (wide[..., 1::2], torch.ones(1, dtype=torch.float64).expand(2, 3, 200, 7), value):
        results = []
        for odd in (True, False):
            inputs = [t if odd else t.contiguous() for t in (query, key, value)]
            inputs = [t.detach().requires_grad_() for t in inputs]
            output = banded.compute(Call(*inputs, normalizer=normalizer, mask=Window(8, 8)))
            given = gradient if odd else gradient.contiguous()
            results.append([output, *torch.autograd.grad(output, inputs, given)])
        for one, two in zip(*results, strict=True):
            torch.testing.assert_close(one, two, rtol=0, atol=1e-13)


@pytest.mark.parametrize("normalizer", ["softmax", "relu"])
def test_what_no_query_sees_never_leaks(normalizer):
    """NaN beyond the lengths, in all three, and a query far from every key."""
    results = []
    for hidden in (0.0, math.nan):
        torch.manual_seed(0)
        inputs = [t.detach().clone() for t in tensors(193, 193)]
        for t in inputs:
            t[1, :, 95:] = hidden
        inputs = [t.requires_grad_() for t in inputs]
        call = Call(*inputs, normalizer=normalizer, mask=Window(3, 2) & Padding(torch.tensor([193, 90])))
        output = planner.run(call, "banded")
        results.append([output, *torch.autograd.grad(output.square().sum(), inputs)])
    # queries up to 92 see key 89
    assert not results[1][0][1, :, 93:].any()
    for one, two in zip(*results, strict=True):
        assert torch.equal(one, two)


@pytest.mark.parametrize("kind", ["query", "key", "value"])
def test_nan_stays_in_its_batch_and_head(kind):
    results = []
    for content in (1.0, math.nan):
        torch.manual_seed(0)
        inputs = [t.detach().clone() for t in tensors(150, 150, kv_heads=2)]
        inputs[["query", "key", "value"].index(kind)][1, 0, 70] = content
        inputs = [t.requires_grad_() for t in inputs]
        output = banded.compute(Call(*inputs, mask=Window(5, 5)))
        results.append([output, *torch.autograd.grad(output.sum(), inputs)])
    assert results[1][0].isnan().any()
    for one, two in zip(*results, strict=True):
        assert torch.equal(one[0], two[0])
        assert torch.equal(one[1, 1], two[1, 1])


class AllButOne(Mask):
    """Hides key 100 without saying so."""

    def __call__(self, batch, head, query, key):
        return (key != 100) & (query == query)


@pytest.mark.parametrize("normalizer", ["softmax", "relu"])
def test_large_content_under_the_mask_does_nothing(normalizer):
    results = []
    for content in (1.0, 1e30):
        torch.manual_seed(0)
        inputs = [t.detach().float() for t in tensors(150, 150)]
        for t in inputs[1:]:
            t[:, :, 100] = content
        inputs = [t.requires_grad_() for t in inputs]
        output = banded.compute(Call(*inputs, normalizer=normalizer, mask=Window(5, 5) & AllButOne()))
        results.append([output, *torch.autograd.grad(output.square().sum(), inputs)])
    for one, two in zip(*results, strict=True):
        assert torch.equal(one, two)


@pytest.mark.parametrize("normalizer", ["softmax", "sigmoid"])
def test_dropout_drops_weights_in_both_directions(normalizer):
    query, key, _ = tensors(120, 120, kv_heads=2)
    value = torch.eye(120, dtype=torch.float64).expand(2, 2, 120, 120).clone().requires_grad_()
    call = Call(query, key, value, normalizer=normalizer, mask=Window(30, 30))
    whole = plain.weights(call)
    dropped = banded.compute(replace(call, dropout=0.3))
    kept = (dropped != 0).double()
    assert abs(float(kept.sum() / call.keep().expand(2, 2, -1, -1).sum()) - 0.7) < 0.02
    # the same weights are dropped in the gradient
    torch.testing.assert_close(dropped, whole * kept / 0.7, rtol=6e-3, atol=1e-12)
    (gradient,) = torch.autograd.grad(dropped.sum(), value)
    torch.testing.assert_close(gradient, dropped.detach().sum(2).unsqueeze(-1).expand_as(gradient))


@pytest.mark.parametrize("value_dim", [8, 3])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_has_scores_of_single(dtype, value_dim):
    inputs = [t.detach().to(dtype) for t in tensors(150, 150, dim=8, value_dim=value_dim)]
    inputs[0] *= 30
    call = Call(*inputs, mask=Window(20, 9))
    wide = replace(call, query=call.query.double(), key=call.key.double(), value=call.value.double())
    assert banded.compute(call).dtype == dtype
    torch.testing.assert_close(banded.compute(call).double(), plain.compute(wide), rtol=0, atol=3e-2)


def test_nothing_of_all_pairs_is_kept():
    kept = {}
    for length in (1024, 2048):
        saved = kept[length] = []
        call = Call(*tensors(length, length, heads=1), mask=Window(64, 0) & Padding(torch.tensor([1000, 1000])))
        with torch.autograd.graph.saved_tensors_hooks(lambda t, s=saved: s.append(t.numel()) or t, lambda t: t):
            banded.compute(call)
    assert max(kept[2048]) <= 2.2 * max(kept[1024])


def attention(query, key, value, score="scaled_dot", normalizer="softmax"):
    return planner.run(Call(query, key, value, score, normalizer, MASK), "banded")


MASK = Window(9, 4) & EveryHeadItsOwn()


@not_simulated("it has no vmap")
@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_transforms_of_functions():
    inputs = [t.detach() for t in tensors(150, 150)]
    more = torch.stack((inputs[0], inputs[0] + 1))
    mapped = torch.vmap(attention, (0, None, None))(more, *inputs[1:])
    torch.testing.assert_close(mapped, torch.stack([attention(q, *inputs[1:]) for q in more]))
    query = inputs[0].clone().requires_grad_()
    (expected,) = torch.autograd.grad(attention(query, *inputs[1:]).square().sum(), query)
    found = torch.func.grad(lambda q: attention(q, *inputs[1:]).square().sum())(inputs[0])
    torch.testing.assert_close(found, expected)


def test_computed_again_and_with_packed_tensors():
    inputs = tensors(150, 150)
    assert_same(checkpoint(attention, *inputs, use_reentrant=False), attention(*inputs), inputs)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.cpu().numpy(), lambda a: torch.from_numpy(a).to(DEVICE)):
        packed = attention(*inputs)
    assert_same(packed, attention(*inputs), inputs)


class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.score, self.normalizer = Additive(5, 5, 3).double(), Sinks(2)

    def forward(self, *inputs):
        return attention(*inputs, self.score, self.normalizer)


def test_parameters_given_for_one_call():
    module, inputs = Module(), tensors(150, 150)
    given = {name: torch.randn_like(p).requires_grad_() for name, p in module.named_parameters()}
    output = torch.func.functional_call(module, given, tuple(inputs))
    found = torch.autograd.grad(output.square().sum(), list(given.values()))
    module.load_state_dict({name: p.detach() for name, p in given.items()})
    expected = torch.autograd.grad(module(*inputs).square().sum(), list(module.parameters()))
    torch.testing.assert_close(found, expected)


REFUSALS = {
    "no mask": ({"mask": None}, "the mask has no band of bounded width"),
    "open to the left": ({"mask": Causal()}, "the mask has no band of bounded width"),
    **NOT_LISTED,
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_it_says_what_of_the_call_prevents_it(kind):
    refuses("banded", Window(1, 2), *REFUSALS[kind])


def test_it_says_what_it_computes_and_keeps():
    call = Call(torch.zeros(2, 3, 640, 4), torch.zeros(2, 1, 640, 4), torch.zeros(2, 1, 640, 3), mask=Window(60, 4))
    assert banded.num_pairs(call) == 2 * 3 * 640 * (64 + 64)
    assert banded.memory_summary(call) == "a table of the band, 327,680 bytes for each that differs"
    assert banded.memory_summary(replace(call, dropout=0.1)) == "the scores of the band, 1,966,080 bytes"

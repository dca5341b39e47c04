"""Chosen blocks computed alone: equal to all pairs under a bias, forward and backward, at any size; when it is so."""

import mechanism_checks as checks
import pytest
import torch

from headwise.attention import planner
from headwise.attention.call import Call
from headwise.attention.masks import Causal, Padding, Table
from headwise.attention.mechanisms import _blocks
from headwise.attention.mechanisms.moba import Moba
from headwise.attention.mechanisms.native_sparse import NativeSparse
from headwise.caches import AttentionStep
from headwise.layers.attention import MultiHeadAttention

# new tokens, cached tokens before them, block, blocks of a query
SIZES = [(293, 0, 8, 3), (257, 0, 16, 1), (70, 211, 8, 2), (2, 299, 8, 3)]


def masks(length):
    yield Causal()
    yield Causal() & Padding(torch.tensor([length, 40, 0]))
    yield Causal() & Table((torch.arange(length) % 7 != 3).expand(1, length))
    # which keys there are depends on the head
    yield Causal() & Table((torch.arange(4 * length) % 5 < 3).view(1, 4, 1, length))


@pytest.fixture
def spared(monkeypatch):
    """All pairs are an error."""

    def fail(*_: object) -> None:
        raise AssertionError("the planner was asked for all pairs")

    def arm() -> None:
        monkeypatch.setattr(planner, "run", fail)

    return arm


@pytest.mark.parametrize("kind", range(4))
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_equal_to_all_pairs(sizes, kind, spared):
    new, past, block, top = sizes
    inputs, mechanism = checks.tensors(new, new + past), Moba(block, top)
    call = Call(*inputs, mask=[*masks(new + past)][kind], query_start=past)
    chosen = mechanism.chosen(call.zero_unseen())
    expected = planner.run(_blocks.limited(call.zero_unseen(), chosen, block))
    spared()
    checks.same_with_gradients(mechanism(call), expected, inputs)


def test_native_sparse_is_equal_to_its_all_pairs(monkeypatch):
    torch.manual_seed(0)
    mechanism = NativeSparse(6, 8, 3, 5).double()
    inputs, gates = checks.tensors(301, 301), torch.randn(3, 4, 301, 3).double().requires_grad_()
    call = Call(*inputs, mask=Causal() & Padding(torch.tensor([301, 40, 0])), gates=gates)
    tiled = mechanism(call)
    monkeypatch.setattr(_blocks, "_NARROW", 9)
    checks.same_with_gradients(tiled, mechanism(call), [*inputs, gates, *mechanism.parameters()])


@pytest.mark.parametrize("length", [0, 1])
def test_no_token_and_one(length):
    inputs = checks.tensors(length, length)
    output = Moba(8, 2)(Call(*inputs, mask=Causal()))
    checks.near(output, checks.spread(inputs[2], 4))


def test_hidden_keys_that_are_no_numbers_reach_nothing(spared):
    query, key, value = (x.detach().clone() for x in checks.tensors(300, 300))
    mask = Causal() & Padding(torch.tensor([300, 40, 0]))
    whole = Moba(8, 2)(Call(query, key, value, mask=mask))
    for tensor in (key, value):
        tensor[1, :, 40:] = checks.NAN
        tensor[2] = checks.NAN
    query.requires_grad_()
    spared()
    output = Moba(8, 2)(Call(query, key, value, mask=mask))
    checks.near(output, whole)
    output.sum().backward()
    assert query.grad.isfinite().all()
    assert not output[2].any()


def test_large_scores_do_not_overflow():
    query, key, value = (100 * x.detach().float() for x in checks.tensors(300, 300))
    query.requires_grad_()
    Moba(8, 3)(Call(query, key, value, mask=Causal())).sum().backward()
    assert query.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_other_types_keep_theirs(dtype):
    inputs = checks.tensors(300, 300, dtype=dtype)
    call = Call(*inputs, mask=Causal())
    output = Moba(8, 2)(call)
    assert output.dtype == dtype
    expected = planner.run(_blocks.limited(call, Moba(8, 2).chosen(call), 8))
    checks.near(output, expected, 1e-5 if dtype == torch.float32 else 0.02)


def test_dropout_drops_weights_and_keeps_their_mean():
    query, key, value = (x.detach() for x in checks.tensors(300, 300))
    mechanism, call = Moba(8, 2, dropout=0.5), Call(query, key, torch.ones_like(value), mask=Causal())
    torch.manual_seed(0)
    rows = mechanism(call)
    assert (rows[:, :, 0].unique() == torch.tensor([0.0, 2.0])).all()
    checks.near(rows.mean(), torch.tensor(1.0).double(), 0.05)
    checks.near(mechanism.train(False)(call), torch.ones_like(rows))


def test_what_goes_over_all_pairs():
    inputs, seen = checks.tensors(300, 300), []
    for call, mechanism in (
        (Call(*inputs, mask=Causal(), bias=torch.zeros(1, 1, 1, 300).double()), Moba(8, 2)),
        # blocks too narrow, too few keys, one query
        (Call(*inputs, mask=Causal()), Moba(7, 2)),
        (Call(*checks.tensors(191, 191), mask=Causal()), Moba(8, 2)),
        (Call(inputs[0][:, :, :1], *inputs[1:], query_start=299), Moba(8, 2)),
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(planner, "run", lambda call, kernel: seen.append(kernel) or call.query)
            mechanism(call)
    assert seen == ["auto"] * 4


def test_a_layer_in_pieces_with_a_cache_is_the_whole():
    layer, x = MultiHeadAttention(12, 3, Moba(8, 2)).double(), torch.randn(2, 300, 12).double()
    whole, memory = layer(x, mask=Causal()), layer.new_cache()
    pieces = [
        layer(x[:, a:b], mask=Causal(), cache=AttentionStep(memory, position=a)) for a, b in ((0, 290), (290, 300))
    ]
    checks.near(torch.cat(pieces, 1), whole)


def test_mapped_by_vmap():
    query, key, value = (x.detach() for x in checks.tensors(300, 300))

    def alone(query, key, value):
        return Moba(8, 2)(Call(query[None], key[None], value[None], mask=Causal()))[0]

    checks.near(torch.vmap(alone)(query, key, value), Moba(8, 2)(Call(query, key, value, mask=Causal())))


@pytest.mark.parametrize("count", [0, 1, 3, 9])
def test_the_best_are_the_first_of_a_stable_order(count):
    scores = torch.randint(3, (2, 3, 50, 7), generator=torch.Generator().manual_seed(0)).double()
    allowed = torch.rand(2, 3, 50, 7, generator=torch.Generator().manual_seed(1)) < 0.6
    hidden = scores.masked_fill(~allowed, float("-inf"))
    rank = hidden.argsort(dim=-1, descending=True, stable=True).argsort(-1)
    assert torch.equal(_blocks.best(scores, allowed, count), (rank < count) & allowed)

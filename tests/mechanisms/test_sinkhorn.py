"""Sinkhorn attention: one block, hard permutations, the sorting in loops, spans, padding, refusals."""

import math

import mechanism_checks as checks
import pytest
import torch
from devices import not_simulated
from mechanism_checks import run

from headwise.attention import attend
from headwise.attention.call import Call
from headwise.attention.masks import Padding, Table
from headwise.attention.mechanisms.sinkhorn import Sinkhorn
from headwise.errors import ConfigError, ShapeError


def sinkhorn(**options):
    return Sinkhorn(**{"head_dim": 6, "max_len": 11, "block": 3, **options}).double()


@pytest.mark.parametrize("mask", [None, Padding(torch.tensor([7, 3, 0]))])
def test_one_block_is_softmax_attention(mask):
    """The sorted block is then the block itself, and keys that stand twice weigh as if they stood once."""
    inputs = checks.tensors(7, 7)
    # what a query that does not exist gives is its own affair
    rows = mask.dense(3, 1, 1, 7).mT if mask is not None else torch.ones(())
    actual, expected = run(sinkhorn(block=11), *inputs, mask=mask) * rows, attend(*inputs, mask=mask) * rows
    checks.same_with_gradients(actual, expected, inputs, 1e-12)


def test_a_hard_permutation_is_attention_to_two_blocks():
    mechanism = sinkhorn(temperature=1e-3, iterations=3)
    next_block = torch.tensor([1, 2, 0])
    with torch.no_grad():
        # the network tells blocks apart by one of the first three features of their keys
        mechanism.inner.weight.copy_(torch.eye(6))
        mechanism.inner.bias.zero_()
        mechanism.outer.bias.zero_()
        mechanism.outer.weight.zero_()
        mechanism.outer.weight[next_block, torch.arange(3)] = 1.0
    query, key, value = (t.detach() for t in checks.tensors(9, 9))
    block = torch.arange(9) // 3
    key[..., :3] = torch.nn.functional.one_hot(block, 3).double()
    keep = (block == block[:, None]) | (block == next_block[block][:, None])
    checks.near(run(mechanism, query, key, value), attend(query, key, value, mask=keep), 1e-9)


def test_the_sorting_in_loops():
    mechanism, key = sinkhorn(iterations=2), torch.randn(1, 1, 1, 3, 3, 6).double()
    exist = torch.ones(1, 1, 1, 3, 3, 1, dtype=torch.bool)
    exist[..., 2, 2, :] = False
    key = key * exist
    actual = mechanism.sorting(key, exist)[0, 0, 0]
    weights = [t.detach() for t in mechanism.parameters()]
    rows = []
    for i in range(3):
        tokens = 2 if i == 2 else 3
        mean = sum(key[0, 0, 0, i, t] for t in range(tokens)) / tokens
        hidden = (weights[0] @ mean + weights[1]).clamp(min=0)
        rows.append([math.exp(x / 0.75) for x in (weights[2] @ hidden + weights[3])[:3].tolist()])
    for _ in range(2):
        columns = [sum(row[j] for row in rows) for j in range(3)]
        rows = [[row[j] / columns[j] for j in range(3)] for row in rows]
        rows = [[x / sum(row) for x in row] for row in rows]
    checks.near(actual, torch.tensor(rows, dtype=torch.float64))


def test_balancing_makes_it_doubly_stochastic():
    key = 3 * torch.randn(2, 4, 1, 5, 3, 6).double()
    exist = torch.ones(2, 4, 1, 5, 3, 1, dtype=torch.bool)
    errors = []
    for iterations in (1, 4, 16):
        torch.manual_seed(3)
        sorting = sinkhorn(iterations=iterations, max_len=15).sorting(key, exist).detach()
        checks.near(sorting.sum(-1), torch.ones(2, 4, 1, 5).double())
        errors.append(float((sorting.sum(-2) - 1).abs().max()))
    assert errors[0] > 10 * errors[1] > 100 * errors[2]


@not_simulated("a sum that starts with 0 keeps an axis there")
def test_soft_sorting_in_loops():
    """8 tokens in blocks of 3: a place of a sorted block is the mean of the tokens that exist there."""
    mechanism, (query, key, value) = sinkhorn(), [t.detach() for t in checks.tensors(8, 8, batch=1)]
    output = run(mechanism, query, key, value)
    padded = torch.nn.functional.pad(key, (0, 0, 0, 1)).unflatten(2, (1, 3, 3))
    exist = torch.ones(1, 2, 1, 3, 3, 1, dtype=torch.bool)
    exist[:, :, :, 2, 2] = False
    sorting = mechanism.sorting(padded, exist)[0, :, 0].detach()
    for h, i in ((0, 0), (3, 4), (2, 7)):
        own, kv = i // 3, h // 2
        keys, values = [], []
        for place in range(3):
            there = [b for b in range(3) if 3 * b + place < 8]
            share = sum(float(sorting[kv, own, b]) for b in there)
            for sums, tensor in ((keys, key), (values, value)):
                sums.append(sum(sorting[kv, own, b] * tensor[0, kv, 3 * b + place] for b in there) / share)
        for j in range(3 * own, min(8, 3 * own + 3)):
            keys.append(key[0, kv, j])
            values.append(value[0, kv, j])
        weights = torch.softmax(torch.stack(keys) @ query[0, h, i] / 6**0.5, 0)
        checks.near(output[0, h, i], weights @ torch.stack(values))


def test_spans_are_sorted_by_themselves():
    """14 tokens in spans of 2 blocks of 3 are three sequences of 6, 6 and 2."""
    mechanism, inputs = sinkhorn(max_len=20, span=2), checks.tensors(14, 14)
    pieces = [run(mechanism, *(t[:, :, low : low + 6] for t in inputs)) for low in (0, 6, 12)]
    checks.same_with_gradients(run(mechanism, *inputs), torch.cat(pieces, 2), inputs)
    assert mechanism.outer.out_features == 2


def test_it_keeps_the_contract():
    mechanism, inputs = sinkhorn(), checks.tensors(8, 8)
    checks.weights_are_the_function(mechanism, inputs)
    checks.no_key_gives_zero(mechanism, 8)
    checks.half_precision(sinkhorn(), 8)
    checks.empty_sequences(mechanism)
    checks.refuses(mechanism)
    checks.dropout_acts_while_training(sinkhorn(dropout=0.5))
    checks.memory_is_linear(Sinkhorn(32, 1024, 16, span=8))


@pytest.mark.parametrize("lens", [[8, 6, 5], [8, 3, 1]])
@pytest.mark.parametrize("span", [2, 64])
def test_padding_is_absence(lens, span):
    checks.padding_is_absence(sinkhorn(span=span), 8, lens)


def test_padding_that_differs_by_head():
    mechanism, inputs = sinkhorn(), checks.tensors(8, 8, batch=1)
    keep = torch.ones(1, 4, 1, 8, dtype=torch.bool)
    keep[:, 1, :, 3:] = False
    output = run(mechanism, *inputs, mask=Table(keep))
    full, cut = run(mechanism, *inputs), run(mechanism, *[tensor[:, :, :3] for tensor in inputs])
    checks.near(output[:, [0, 2, 3]], full[:, [0, 2, 3]])
    checks.near(output[:, 1, :3], cut[:, 1])


def test_gradients():
    mechanism = Sinkhorn(2, 5, 2, iterations=2).double()
    inputs = checks.tensors(5, 5, batch=1, heads=2, kv_heads=1, dim=2, value_dim=2)
    names = [name for name, _ in mechanism.named_parameters()]

    def function(query, key, value, *parameters):
        named = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(mechanism, named, Call(query, key, value))

    assert torch.autograd.gradcheck(function, (*inputs, *mechanism.parameters()), fast_mode=True)


def test_what_it_says():
    assert "max_len=11, block=3, span=4, iterations=8, temperature=0.75, dropout=0.0" in repr(sinkhorn())
    sized = Sinkhorn.sized(head_dim=6, num_heads=4, max_len=300, dropout=0.1)
    assert (sized.block, sized.outer.out_features, sized.dropout) == (64, 5, 0.1)
    with pytest.raises(ShapeError, match=r"Sinkhorn was built for max_len \(11\) positions, got 12; shorten"):
        run(sinkhorn(), *checks.tensors(12, 12))
    message = r"sinkhorn needs block \(0\), span \(64\) and iterations \(8\) of 1 or more and a temperature \(0.75\) ab"
    with pytest.raises(ConfigError, match=message):
        sinkhorn(block=0)

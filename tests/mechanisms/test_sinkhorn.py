"""Sinkhorn attention: one block, hard permutations, the sorting in loops, padding, refusals."""

import math

import mechanism_checks as checks
import pytest
import torch

from headwise.attention.masks import Padding, Table
from headwise.attention.mechanisms.scored import Scored
from headwise.attention.mechanisms.sinkhorn import Sinkhorn
from headwise.errors import ConfigError, ShapeError


def sinkhorn(**options):
    return Sinkhorn(**{"head_dim": 6, "max_len": 11, "block": 3, **options}).double()


def test_one_block_is_softmax_attention():
    """The sorted block is then the block itself, and keys that stand twice weigh as if they stood once."""
    mechanism, inputs = sinkhorn(block=11), checks.tensors(7, 7)
    for mask in (None, Padding(torch.tensor([7, 3, 0]))):
        checks.same_with_gradients(
            lambda *x, m=mask: mechanism(*x, mask=m), lambda *x, m=mask: Scored()(*x, mask=m), inputs, 1e-12
        )


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
    checks.near(mechanism(query, key, value), Scored()(query, key, value, mask=Table(keep)), 1e-9)


def test_the_sorting_in_loops():
    mechanism, key = sinkhorn(iterations=2), torch.randn(1, 1, 3, 3, 6).double()
    present = torch.ones(1, 1, 3, 3, 1, dtype=torch.bool)
    present[..., 2, 2, :] = False
    key = key * present
    actual = mechanism.sorting(key, present)[0, 0]
    weights = [t.detach() for t in mechanism.parameters()]
    rows = []
    for i in range(3):
        tokens = 2 if i == 2 else 3
        mean = sum(key[0, 0, i, t] for t in range(tokens)) / tokens
        hidden = (weights[0] @ mean + weights[1]).clamp(min=0)
        rows.append([math.exp(x / 0.75) for x in (weights[2] @ hidden + weights[3])[:3].tolist()])
    for _ in range(2):
        columns = [sum(row[j] for row in rows) for j in range(3)]
        rows = [[row[j] / columns[j] for j in range(3)] for row in rows]
        rows = [[x / sum(row) for x in row] for row in rows]
    checks.near(actual, torch.tensor(rows, dtype=torch.float64))


def test_balancing_makes_it_doubly_stochastic():
    key = 3 * torch.randn(2, 4, 5, 3, 6).double()
    present = torch.ones(2, 4, 5, 3, 1, dtype=torch.bool)
    errors = []
    for iterations in (1, 4, 16):
        torch.manual_seed(3)
        sorting = sinkhorn(iterations=iterations, max_len=15).sorting(key, present).detach()
        checks.near(sorting.sum(-1), torch.ones(2, 4, 5).double())
        errors.append(float((sorting.sum(-2) - 1).abs().max()))
    assert errors[0] > 10 * errors[1] > 100 * errors[2]


def test_soft_sorting_in_loops():
    """8 tokens in blocks of 3: a place of a sorted block is the mean of the tokens that exist there."""
    mechanism, (query, key, value) = sinkhorn(), [t.detach() for t in checks.tensors(8, 8, batch=1)]
    output = mechanism(query, key, value)
    padded = [torch.nn.functional.pad(t, (0, 0, 0, 1)).unflatten(2, (3, 3)) for t in (key, value)]
    present = torch.ones(1, 2, 3, 3, 1, dtype=torch.bool)
    present[:, :, 2, 2] = False
    sorting = mechanism.sorting(padded[0], present)[0].detach()
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


def test_it_keeps_the_contract():
    mechanism, inputs = sinkhorn(), checks.tensors(8, 8)
    checks.weights_are_the_function(mechanism, inputs)
    checks.no_key_gives_zero(mechanism, 8)
    checks.half_precision(sinkhorn(), 8)
    checks.empty_sequences(mechanism)
    checks.refuses(mechanism, "sinkhorn")


@pytest.mark.parametrize("lens", [[8, 6, 5], [8, 3, 1], [1, 7, 4]])
def test_padding_is_absence(lens):
    checks.padding_is_absence(sinkhorn(), 8, lens)


def test_padding_that_differs_by_head():
    mechanism, inputs = sinkhorn(), checks.tensors(8, 8, batch=1)
    keep = torch.ones(1, 4, 1, 8, dtype=torch.bool)
    keep[:, 1, :, 3:] = False
    output = mechanism(*inputs, mask=Table(keep))
    full, cut = mechanism(*inputs), mechanism(*[tensor[:, :, :3] for tensor in inputs])
    checks.near(output[:, [0, 2, 3]], full[:, [0, 2, 3]])
    checks.near(output[:, 1, :3], cut[:, 1])


def test_gradients():
    mechanism = Sinkhorn(2, 5, 2, iterations=2).double()
    inputs = checks.tensors(5, 5, batch=1, heads=2, kv_heads=1, dim=2, value_dim=2)
    names = [name for name, _ in mechanism.named_parameters()]

    def function(query, key, value, *parameters):
        named = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(mechanism, named, (query, key, value))

    assert torch.autograd.gradcheck(function, (*inputs, *mechanism.parameters()))


def test_dropout_only_while_training():
    mechanism, inputs = sinkhorn(dropout=0.5), checks.tensors(8, 8)
    assert not torch.equal(mechanism(*inputs), mechanism(*inputs))
    assert torch.equal(mechanism.eval()(*inputs), mechanism(*inputs))


def test_what_it_says():
    assert "max_len=11, block=3, iterations=8, dropout=0.0" in repr(sinkhorn())
    sized = Sinkhorn.sized(head_dim=6, num_heads=4, max_len=300, dropout=0.1)
    assert (sized.block, sized.outer.out_features, sized.dropout) == (64, 5, 0.1)
    with pytest.raises(ShapeError, match=r"sinkhorn was built for max_len \(11\) positions, got 12; shorten"):
        sinkhorn()(*checks.tensors(12, 12))
    message = r"sinkhorn needs block \(0\) and iterations \(8\) of 1 or more and a temperature \(0.75\) above 0"
    with pytest.raises(ConfigError, match=message):
        sinkhorn(block=0)

"""Talking heads: the definition in loops, identity mixtures, any mask, isolation of hidden pairs, step by step."""

import math

import mechanism_checks as checks
import pytest
import torch

from headwise.attention.masks import Causal, Padding, Table
from headwise.attention.mechanisms.scored import Scored
from headwise.attention.mechanisms.talking_heads import TalkingHeads
from headwise.attention.relative import Relative
from headwise.errors import ShapeError


def talking(heads=4, **options):
    mechanism = TalkingHeads(heads, **options).double()
    for mixture in (mechanism.before, mechanism.after):
        torch.nn.init.normal_(mixture)
    return mechanism


def test_the_definition_in_loops():
    query, key, value = (t.detach() for t in checks.tensors(5, 7))
    mechanism = talking()
    bias, keep = torch.randn(1, 4, 5, 7).double(), torch.rand(3, 1, 5, 7) < 0.6
    output = mechanism(query, key, value, mask=Table(keep), bias=bias)
    before, after = mechanism.before.detach(), mechanism.after.detach()
    for n, i in ((0, 0), (1, 4), (2, 1)):
        seen = [j for j in range(7) if keep[n, 0, i, j]]
        scores = [[float(query[n, h, i] @ key[n, h // 2, j]) / math.sqrt(6) for j in seen] for h in range(4)]
        weights = []
        for g in range(4):
            mixed = [
                sum(float(before[h, g]) * scores[h][c] for h in range(4)) + float(bias[0, g, i, j])
                for c, j in enumerate(seen)
            ]
            total = sum(math.exp(score) for score in mixed)
            weights.append([math.exp(score) / total for score in mixed])
        for o in range(4):
            expected = torch.zeros(5).double()
            for c, j in enumerate(seen):
                weight = sum(float(after[g, o]) * weights[g][c] for g in range(4))
                expected += weight * value[n, o // 2, j]
            checks.near(output[n, o, i], expected)


def test_identity_mixtures_are_softmax_attention():
    mechanism, inputs = TalkingHeads(4).double(), checks.tensors(5, 7)
    bias = torch.randn(3, 4, 5, 7).double().masked_fill(torch.rand(3, 4, 5, 7) < 0.3, -math.inf)
    bias[0, 0, 2] = -math.inf
    relative = Relative(low=-2, scalar=torch.randn(4, 5).double(), value_table=torch.randn(1, 5, 5).double())
    for mask in (None, Causal(), Table(torch.rand(3, 4, 5, 7) < 0.6), Table(torch.zeros(5, 7).bool())):
        for options in ({}, {"bias": bias}, {"relative": relative, "query_start": 1}):
            if mask is not None and mask.band() is None and "query_start" in options:
                continue
            checks.same_with_gradients(
                lambda *x, m=mask, o=options: mechanism(*x, mask=m, **o),
                lambda *x, m=mask, o=options: Scored(kernel="plain")(*x, mask=m, **o),
                inputs,
                1e-12,
            )


def test_a_pair_hidden_from_one_head_is_nothing_in_that_head():
    """Neither its score nor its weight passes to another head, or comes from one."""
    mechanism, (query, key, value) = talking(), checks.tensors(5, 7, kv_heads=4)
    keep = torch.rand(3, 4, 5, 7) < 0.6
    keep[:, 1, :, 2] = False
    output = mechanism(query, key, value, mask=Table(keep))
    gradients = torch.autograd.grad(output.square().sum(), (key, value))
    for gradient in gradients:
        assert not gradient[:, 1, 2].any()
        assert gradient.any()
    changed = [tensor.detach().clone() for tensor in (key, value)]
    for tensor in changed:
        tensor[:, 1, 2] = checks.NAN
    assert torch.equal(mechanism(query, *changed, mask=Table(keep)), output)
    assert not mechanism.effective_weights(query, key, mask=Table(keep))[~keep].any()


def test_a_score_that_one_query_may_not_have_stays_out_of_its_mixtures():
    mechanism, (query, key, value) = talking(), checks.tensors(5, 7, kv_heads=4)
    keep = torch.ones(3, 4, 5, 7, dtype=torch.bool)
    keep[:, 1, 1:, 2] = False
    output = mechanism(query, key, value, mask=Table(keep))
    for rows, depends in ((slice(1, 5), False), (slice(0, 1), True)):
        gradient = torch.autograd.grad(output[:, :, rows].square().sum(), key, retain_graph=True)[0]
        assert bool(gradient[:, 1, 2].any()) == depends


def test_it_keeps_the_contract():
    mechanism, inputs = talking(), checks.tensors(5, 7)
    keep = torch.rand(3, 4, 5, 7) < 0.6
    keep[1, 2, 3] = False
    options = {"mask": Table(keep), "bias": torch.randn(1, 4, 1, 7).double()}
    checks.weights_are_the_function(mechanism, inputs, **options)
    output = mechanism(*inputs, **options)
    assert not output[1, 2, 3].any()
    checks.padding_is_absence(mechanism, 7, [7, 3, 1])
    checks.padding_is_absence(mechanism, 7, [7, 3, 1], mask=Causal())
    checks.no_key_gives_zero(mechanism, 7)
    checks.half_precision(TalkingHeads(4), 5, 7)
    checks.empty_sequences(mechanism)


def test_gradients():
    mechanism, inputs = talking(2), checks.tensors(3, 4, batch=1, heads=2, kv_heads=1, dim=2, value_dim=2)
    keep, bias = torch.rand(1, 2, 3, 4) < 0.7, torch.randn(1, 2, 1, 4).double().requires_grad_()

    def function(before, after, bias, *tensors):
        parameters = {"before": before, "after": after}
        return torch.func.functional_call(mechanism, parameters, tensors, {"mask": Table(keep), "bias": bias})

    assert torch.autograd.gradcheck(function, (mechanism.before, mechanism.after, bias, *inputs))


def test_a_query_of_nan_spoils_its_position_alone():
    mechanism, (query, key, value) = talking(), checks.tensors(5, 7)
    before = mechanism(query, key, value)
    query = query.detach().clone()
    query[1, 2, 3] = checks.NAN
    after = mechanism(query, key, value)
    assert after[1, :, 3].isnan().all()
    assert after.isnan().sum() == 4 * 5
    assert torch.equal(after[0], before[0])


def test_the_query_of_a_row_without_keys_does_not_matter():
    mechanism, (query, key, value) = talking(), checks.tensors(5, 5)
    results = []
    for junk in (0.5, checks.NAN):
        tensors = [t.detach().clone() for t in (query, key, value)]
        tensors[0][1] = tensors[1][1] = tensors[2][1] = junk
        tensors = [t.requires_grad_() for t in tensors]
        output = mechanism(*tensors, mask=Padding(torch.tensor([3, 0, 5])))
        results.append([output, *torch.autograd.grad(output.square().sum(), tensors)])
    for one, two in zip(*results, strict=True):
        assert torch.equal(one, two)


def test_step_by_step_is_all_at_once():
    mechanism, (query, key, value) = talking(), checks.tensors(7, 7)
    whole = mechanism(query, key, value, mask=Causal())
    steps = [
        mechanism(query[:, :, i : i + 1], key[:, :, : i + 1], value[:, :, : i + 1], mask=Causal(), query_start=i)
        for i in range(7)
    ]
    checks.near(torch.cat(steps, 2), whole)


def test_dropout_only_while_training():
    mechanism, inputs = talking(dropout=0.5), checks.tensors(5, 7)
    assert not torch.equal(mechanism(*inputs), mechanism(*inputs))
    shown = mechanism.effective_weights(*inputs[:2])
    assert torch.equal(mechanism.eval()(*inputs), mechanism(*inputs))
    assert torch.equal(shown, mechanism.effective_weights(*inputs[:2]))


def test_what_it_says():
    assert "num_heads=4" in repr(TalkingHeads(4))
    assert TalkingHeads.sized(head_dim=8, num_heads=4, max_len=300, dropout=0.1).dropout.dropout == 0.1
    with pytest.raises(ShapeError, match="talking_heads was built for 3 heads, got 4"):
        talking(3)(*checks.tensors(5, 7))

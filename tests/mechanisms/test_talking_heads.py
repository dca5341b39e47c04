"""Talking heads: the definition in loops, identity mixtures, any mask, isolation of hidden pairs, step by step."""

import math

import mechanism_checks as checks
import pytest
import torch
from devices import seeded
from mechanism_checks import run

from headwise.attention.call import Call
from headwise.attention.kernels import plain
from headwise.attention.masks import Causal, Padding, Table
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
    output = run(mechanism, query, key, value, mask=Table(keep), bias=bias)
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


BIAS = torch.randn(3, 4, 5, 7, generator=seeded(2)).double()
BIAS[0, 0, 2] = BIAS[:, :, 1, 3] = -math.inf
RELATIVE = Relative(low=-2, scalar=torch.ones(4, 5).double(), value_table=torch.ones(1, 5, 5).double())


@pytest.mark.parametrize("options", [{}, {"bias": BIAS}, {"relative": RELATIVE}])
@pytest.mark.parametrize("mask", [None, Causal(), Table(torch.eye(5, 7).bool())], ids=lambda m: type(m).__name__)
def test_identity_mixtures_are_softmax_attention(mask, options):
    inputs = checks.tensors(5, 7)
    call = Call(*inputs, mask=mask, **options)
    checks.same_with_gradients(TalkingHeads(4).double()(call), plain.compute(call), inputs, 1e-12)


def test_a_pair_hidden_from_one_head_is_nothing_in_that_head():
    """Neither its score nor its weight passes to another head, or comes from one."""
    mechanism, (query, key, value) = talking(), checks.tensors(5, 7, kv_heads=4)
    keep = torch.rand(3, 4, 5, 7) < 0.6
    keep[:, 1, :, 2] = False
    output = run(mechanism, query, key, value, mask=Table(keep))
    for gradient in torch.autograd.grad(output.square().sum(), (key, value)):
        assert not gradient[:, 1, 2].any()
        assert gradient.any()
    changed = [tensor.detach().clone() for tensor in (key, value)]
    for tensor in changed:
        tensor[:, 1, 2] = checks.NAN
    assert torch.equal(run(mechanism, query, *changed, mask=Table(keep)), output)
    assert not checks.shown(mechanism, query, key, mask=Table(keep))[~keep].any()


def test_a_score_that_one_query_may_not_have_stays_out_of_its_mixtures():
    mechanism, (query, key, value) = talking(), checks.tensors(5, 7, kv_heads=4)
    keep = torch.ones(3, 4, 5, 7, dtype=torch.bool)
    keep[:, 1, 1:, 2] = False
    output = run(mechanism, query, key, value, mask=Table(keep))
    for rows, depends in ((slice(1, 5), False), (slice(0, 1), True)):
        gradient = torch.autograd.grad(output[:, :, rows].square().sum(), key, retain_graph=True)[0]
        assert bool(gradient[:, 1, 2].any()) == depends


def test_it_keeps_the_contract():
    mechanism, inputs = talking(), checks.tensors(5, 7)
    keep = torch.rand(3, 4, 5, 7) < 0.6
    keep[1, 2, 3] = False
    options = {"mask": Table(keep), "bias": torch.randn(1, 4, 1, 7).double()}
    checks.weights_are_the_function(mechanism, inputs, **options)
    assert not run(mechanism, *inputs, **options)[1, 2, 3].any()
    for mask in (None, Causal()):
        checks.padding_is_absence(mechanism, 7, [7, 3, 1], mask=mask)
    checks.no_key_gives_zero(talking(6), 7)
    checks.half_precision(TalkingHeads(4), 5, 7)
    checks.empty_sequences(mechanism)
    checks.cached_steps_are_all_at_once(mechanism, Causal())
    checks.dropout_acts_while_training(talking(dropout=0.5))


def test_gradients():
    mechanism, inputs = talking(2), checks.tensors(3, 4, batch=1, heads=2, kv_heads=1, dim=2, value_dim=2)
    keep, bias = torch.rand(1, 2, 3, 4) < 0.7, torch.randn(1, 2, 1, 4).double().requires_grad_()

    def function(before, after, bias, *tensors):
        parameters = {"before": before, "after": after}
        return torch.func.functional_call(mechanism, parameters, Call(*tensors, mask=Table(keep), bias=bias))

    assert torch.autograd.gradcheck(function, (mechanism.before, mechanism.after, bias, *inputs), fast_mode=True)


def test_the_query_of_a_row_without_keys_does_not_matter():
    mechanism, inputs = talking(), checks.tensors(5, 5)
    results = []
    for junk in (0.5, checks.NAN):
        tensors = [t.detach().clone() for t in inputs]
        for tensor in tensors:
            tensor[1] = junk
            tensor.requires_grad_()
        output = run(mechanism, *tensors, mask=Padding(torch.tensor([3, 0, 5])))
        results.append([output, *torch.autograd.grad(output.square().sum(), tensors)])
    for one, two in zip(*results, strict=True):
        assert torch.equal(one, two)


def test_what_it_says():
    assert "num_heads=4, dropout=0.0" in repr(TalkingHeads(4))
    assert TalkingHeads.sized(head_dim=8, num_heads=4, max_len=300, dropout=0.1).dropout == 0.1
    with pytest.raises(ShapeError, match="TalkingHeads was built for heads 3, got 4"):
        run(talking(3), *checks.tensors(5, 7))

"""Dense synthesizer: the definition in loops, masks, keys that are not read, step by step."""

import math

import mechanism_checks as checks
import pytest
import torch
from mechanism_checks import run

from headwise.attention.call import Call
from headwise.attention.masks import Causal, Table
from headwise.attention.mechanisms.dense_synthesizer import DenseSynthesizer
from headwise.errors import ShapeError


def dense(**options):
    mechanism = DenseSynthesizer(**{"num_heads": 4, "head_dim": 6, "max_len": 11, **options}).double()
    torch.nn.init.normal_(mechanism.inner_bias)
    return mechanism


def test_the_definition_in_loops():
    query, key, value = (t.detach() for t in checks.tensors(5, 7))
    mechanism = dense()
    bias, keep = torch.randn(1, 4, 5, 7).double(), torch.rand(3, 4, 5, 7) < 0.6
    output = run(mechanism, query, key, value, mask=Table(keep), bias=bias)
    inner, inner_bias, outer = (t.detach() for t in (mechanism.inner, mechanism.inner_bias, mechanism.positions))
    for n, h, i in ((0, 0, 0), (1, 3, 4), (2, 2, 1)):
        hidden = [
            max(0.0, sum(float(query[n, h, i, a] * inner[h, a, c]) for a in range(6)) + float(inner_bias[h, 0, c]))
            for c in range(6)
        ]
        seen = [j for j in range(7) if keep[n, h, i, j]]
        scores = [
            sum(hidden[c] * float(outer[h, j, c]) for c in range(6)) + float(outer[h, j, 6]) + float(bias[0, h, i, j])
            for j in seen
        ]
        total = sum(math.exp(score) for score in scores)
        expected = sum(
            (math.exp(score) / total * value[n, h // 2, j] for score, j in zip(scores, seen, strict=True)),
            torch.zeros(5).double(),
        )
        checks.near(output[n, h, i], expected)


def test_keys_are_not_read():
    mechanism, (query, key, value) = dense(), checks.tensors(5, 7)
    other = torch.full_like(key, checks.NAN)
    assert torch.equal(run(mechanism, query, key, value), run(mechanism, query, other, value))


def test_it_keeps_the_contract():
    mechanism, inputs = dense(), checks.tensors(5, 7)
    keep = torch.rand(3, 4, 5, 7) < 0.6
    keep[1, 2, 3] = False
    options = {"mask": Table(keep), "bias": torch.randn(1, 4, 1, 7).double()}
    assert not checks.weights_are_the_function(mechanism, inputs, **options)[~keep].any()
    assert not run(mechanism, *inputs, **options)[1, 2, 3].any()
    checks.padding_is_absence(mechanism, 7, [7, 3, 1])
    checks.half_precision(dense(), 5, 7)
    checks.cached_steps_are_all_at_once(mechanism, Causal())
    checks.empty_sequences(mechanism)
    checks.dropout_acts_while_training(dense(dropout=0.5))


def test_gradients():
    mechanism = DenseSynthesizer(2, 2, 5).double()
    query, key, value = checks.tensors(3, 4, batch=1, heads=2, kv_heads=1, dim=2, value_dim=2)
    names = ["inner", "inner_bias", "positions"]

    def function(query, value, *parameters):
        named = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(mechanism, named, Call(query, key, value, mask=Causal()))

    inputs = (query, value, *(getattr(mechanism, name) for name in names))
    assert torch.autograd.gradcheck(function, inputs, fast_mode=True)


def test_what_it_says():
    assert "num_heads=4, head_dim=6, max_len=11, dropout=0.0" in repr(dense())
    sized = DenseSynthesizer.sized(head_dim=8, num_heads=4, max_len=300, dropout=0.1)
    assert sized.positions.shape == (4, 300, 9)
    assert sized.dropout == 0.1
    with pytest.raises(ShapeError, match=r"DenseSynthesizer was built for max_len \(11\) positions, got 12"):
        run(dense(), *checks.tensors(5, 12))
    with pytest.raises(ShapeError, match="was built for heads 3, got 4"):
        run(dense(num_heads=3), *checks.tensors(5, 7))

"""Differential attention: the definition in loops, lambda = 0, any mask, step by step."""

import math

import mechanism_checks as checks
import pytest
import torch
from mechanism_checks import run

from headwise.attention import attend
from headwise.attention.call import Call
from headwise.attention.masks import Causal, Padding, Table
from headwise.attention.mechanisms.differential import Differential
from headwise.attention.relative import Relative
from headwise.errors import ConfigError, ShapeError


def differential(**options):
    return Differential(6, **options).double()


def test_the_definition_in_loops():
    query, key, value = (t.detach() for t in checks.tensors(5, 7))
    mechanism = differential()
    bias, keep = torch.randn(1, 4, 5, 7).double(), torch.rand(3, 4, 5, 7) < 0.6
    output = run(mechanism, query, key, value, mask=Table(keep), bias=bias)
    a, b = mechanism.lambda_query.tolist(), mechanism.lambda_key.tolist()
    dots = [math.exp(sum(x * y for x, y in zip(a[n], b[n], strict=True))) for n in range(2)]
    strength = dots[0] - dots[1] + 0.8
    for n, h, i in ((0, 0, 0), (1, 3, 4), (2, 2, 1)):
        seen, expected = [j for j in range(7) if keep[n, h, i, j]], torch.zeros(5).double()
        for half, sign in ((slice(0, 3), 1.0), (slice(3, 6), -strength)):
            scores = [
                float(query[n, h, i, half] @ key[n, h // 2, j, half]) / math.sqrt(3) + float(bias[0, h, i, j])
                for j in seen
            ]
            total = sum(math.exp(score) for score in scores)
            for score, j in zip(scores, seen, strict=True):
                expected += sign * math.exp(score) / total * value[n, h // 2, j]
        checks.near(output[n, h, i], expected)


def test_lambda_zero_is_softmax_attention_of_the_first_halves():
    mechanism, inputs = differential(lambda_init=0.0), checks.tensors(5, 7)
    torch.nn.init.zeros_(mechanism.lambda_query)
    assert mechanism.strength().item() == 0.0
    query, key, value = inputs
    expected = attend(query[..., :3], key[..., :3], value)
    checks.same_with_gradients(run(mechanism, *inputs), expected, inputs, 1e-12)


def test_golden_strength():
    """lambda = exp(0.02) - exp(0.01) + 0.5 by hand."""
    mechanism = Differential(4, lambda_init=0.5)
    with torch.no_grad():
        mechanism.lambda_query.copy_(torch.tensor([[0.1, 0.1], [0.1, 0.0]]))
        mechanism.lambda_key.copy_(torch.tensor([[0.1, 0.1], [0.1, 0.0]]))
    assert mechanism.strength().item() == pytest.approx(1.02020134 - 1.01005017 + 0.5, abs=1e-7)


def test_what_both_attend_to_alike_cancels():
    """Equal halves leave (1 - lambda) of the attention."""
    half = torch.randn(2, 4, 5, 3).double()
    both, value = torch.cat((half, half), -1), torch.randn(2, 4, 5, 5).double()
    mechanism = differential()
    checks.near(run(mechanism, both, both, value), (1 - mechanism.strength()) * attend(half, half, value))


def test_it_keeps_the_contract():
    mechanism, inputs = differential(), checks.tensors(5, 7)
    relative = Relative(low=-2, scalar=torch.randn(4, 5).double())
    options = {"mask": Table(torch.rand(5, 7) < 0.6), "bias": torch.randn(1, 4, 1, 7).double(), "relative": relative}
    assert checks.weights_are_the_function(mechanism, inputs, **options).min() < 0
    assert not torch.equal(run(mechanism, *inputs, **options), run(mechanism, *inputs, **options | {"relative": None}))
    for mask in (None, Causal()):
        checks.padding_is_absence(mechanism, 7, [7, 3, 1], mask=mask)
    checks.no_key_gives_zero(mechanism, 7)
    checks.half_precision(differential(), 5, 7)
    checks.empty_sequences(mechanism)
    checks.cached_steps_are_all_at_once(differential(), Causal() & Padding(torch.tensor([7, 6, 5])))
    checks.dropout_acts_while_training(differential(dropout=0.5))


def test_gradients():
    mechanism, inputs = differential(), [t.detach() for t in checks.tensors(3, 4)]

    def function(*vectors):
        named = {"lambda_query": vectors[0], "lambda_key": vectors[1]}
        return torch.func.functional_call(mechanism, named, Call(*inputs))

    assert torch.autograd.gradcheck(function, (mechanism.lambda_query, mechanism.lambda_key), fast_mode=True)


def test_what_it_says():
    assert "head_dim=6, lambda_init=0.8, dropout=0.0" in repr(differential())
    assert Differential.sized(head_dim=8, num_heads=4, max_len=300, dropout=0.1).dropout == 0.1
    with pytest.raises(ConfigError, match="differential needs an even head_dim, half for each attention; got 7"):
        Differential(7)
    with pytest.raises(ShapeError, match=r"Differential was built for head_dim 6, got 8"):
        run(differential(), *checks.tensors(5, 7, dim=8))

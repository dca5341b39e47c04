"""Attention by its definition, as a mechanism."""

from dataclasses import replace

import pytest
import torch
from attention_cases import GENERAL, NAN, Case, cases
from hypothesis import given

from headwise.attention import attend, mechanisms
from headwise.attention.call import Call
from headwise.attention.masks import Causal, Padding
from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.attention.mechanisms.scored import Scored
from headwise.attention.scores import Additive, Bilinear, Dot


@pytest.mark.parametrize("kernel", GENERAL)
def test_it_is_the_function(kernel):
    query, key, value = (torch.randn(2, 3, n, 4) for n in (5, 7, 7))
    mask, bias = Causal(), torch.randn(1, 3, 5, 7)
    mechanism = Scored(score=Dot(), kernel=kernel)
    actual = mechanism(Call(query, key, value, mask=mask, bias=bias))
    assert torch.equal(actual, attend(query, key, value, score="dot", mask=mask, bias=bias, kernel=kernel))


@pytest.mark.parametrize("score", [None, Dot(), Bilinear(4, 4), Additive(4, 4, 3)], ids=lambda s: type(s).__name__)
@given(cases(least=1))
def test_weights_times_values_are_the_output(score, case: Case):
    """For the weights of the definition, and for the general way: the output at identity values."""
    call = Case(
        **{**vars(case), "dim": 4, "start": 0},
    ).build(torch.float64)
    mechanism = Scored(score if score is None else score.double(), call.normalizer).eval()
    output = mechanism(call)
    value = call.value.repeat_interleave(call.group, 1)
    for weights in (mechanism.weights(call), Mechanism.weights(mechanism, call)):
        torch.testing.assert_close(weights @ value, output, rtol=0, atol=1e-10 * max(1.0, case.size))


def test_weights_shown_are_zero_where_the_mask_forbids_whatever_is_there():
    query, key = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 7, 4)
    key[0, :, 3:] = NAN
    weights = Scored().weights(Call(query, key, key, mask=Padding(torch.tensor([3, 0]))))
    assert not weights[0, :, :, 3:].any()
    assert not weights[1].any()
    torch.testing.assert_close(weights[0].sum(-1), torch.ones(3, 5))


def test_it_computes_what_the_call_says_unless_told_otherwise():
    x = torch.randn(2, 3, 5, 4)
    call = Call(x, x, x, "dot", "sparsemax")
    assert torch.equal(Scored()(call), attend(x, x, x, score="dot", normalizer="sparsemax"))
    assert torch.equal(Scored("scaled_dot", "relu")(call), attend(x, x, x, normalizer="relu"))
    for mechanism, asked in ((Scored(), 0.5), (Scored("dot").eval(), 0.5), (Scored(dropout=0.5), 0.0)):
        torch.manual_seed(1)
        dropped = mechanism(replace(call, dropout=asked))
        torch.manual_seed(1)
        assert torch.equal(dropped, attend(x, x, x, score="dot", normalizer="sparsemax", dropout=0.5))


def test_what_it_says_of_itself():
    assert "dropout=0.1, kernel=plain" in repr(Scored(None, "relu", 0.1, "plain"))
    assert mechanisms.mechanism_type("scored") is Scored
    assert list(Scored(Additive(4, 4, 3)).state_dict()) == [
        "score.query.weight",
        "score.key.weight",
        "score.value.weight",
    ]

"""Linformer: the definition in loops, identity mixtures, padding, refusals."""

import math

import mechanism_checks as checks
import pytest
import torch
from mechanism_checks import run

from headwise.attention import attend
from headwise.attention.masks import Table
from headwise.attention.mechanisms.linformer import Linformer
from headwise.errors import ConfigError, ShapeError


def linformer(**options):
    return Linformer(**{"max_len": 11, "rank": 3, **options}).double()


def test_the_definition_in_loops():
    query, key, value = inputs = [t.detach() for t in checks.tensors(5, 7)]
    mechanism = linformer()
    output = run(mechanism, *inputs)
    e, f = (m.detach()[:, :7] for m in (mechanism.key_mixtures, mechanism.value_mixtures))
    for b, h, i in ((0, 0, 0), (1, 3, 4), (2, 2, 1)):
        scores = [
            sum(float(e[r, j] * (query[b, h, i] @ key[b, h // 2, j])) for j in range(7)) / math.sqrt(6)
            for r in range(3)
        ]
        total = sum(math.exp(score) for score in scores)
        expected = sum(math.exp(scores[r]) / total * f[r, j] * value[b, h // 2, j] for r in range(3) for j in range(7))
        checks.near(output[b, h, i], expected)


def test_identity_mixtures_are_softmax_attention():
    mechanism, inputs = linformer(max_len=7, rank=7), checks.tensors(5, 7)
    with torch.no_grad():
        for mixtures in (mechanism.key_mixtures, mechanism.value_mixtures):
            mixtures.copy_(torch.eye(7))
    checks.same_with_gradients(run(mechanism, *inputs), attend(*inputs), inputs, 1e-12)


def test_shorter_inputs_meet_the_first_columns():
    long, short = linformer(), linformer(max_len=7)
    with torch.no_grad():
        short.key_mixtures.copy_(long.key_mixtures[:, :7])
        short.value_mixtures.copy_(long.value_mixtures[:, :7])
    inputs = checks.tensors(5, 7)
    assert torch.equal(run(long, *inputs), run(short, *inputs))
    run(long, *inputs).sum().backward()
    assert not long.key_mixtures.grad[:, 7:].any()
    assert long.key_mixtures.grad[:, :7].all()


def test_it_keeps_the_contract():
    mechanism = linformer()
    checks.weights_are_the_function(mechanism, checks.tensors(5, 7))
    checks.padding_is_absence(mechanism, 7, [7, 3, 1])
    checks.no_key_gives_zero(mechanism, 7)
    checks.half_precision(linformer(), 5, 7)
    checks.empty_sequences(mechanism)
    checks.refuses(mechanism)
    checks.dropout_acts_while_training(linformer(dropout=0.5))


def test_padding_that_differs_by_head_hides_by_head():
    query, key, value = inputs = checks.tensors(5, 7, batch=1)
    keep = torch.ones(1, 4, 1, 7, dtype=torch.bool)
    keep[:, 1, :, 3:] = False
    mechanism = linformer()
    output = run(mechanism, *inputs, mask=Table(keep))
    checks.near(output[:, [0, 2, 3]], run(mechanism, *inputs)[:, [0, 2, 3]])
    checks.near(output[:, 1], run(mechanism, query, key[:, :, :3], value[:, :, :3])[:, 1])


def test_a_mixture_starts_as_large_as_a_key():
    mechanism = Linformer(max_len=1024, rank=64)
    mixed = mechanism.key_mixtures @ torch.randn(1024, 16)
    assert 0.9 < float(mixed.detach().std()) < 1.1


def test_what_it_says():
    assert "max_len=11, rank=3, dropout=0.0" in repr(linformer())
    sized = Linformer.sized(head_dim=6, num_heads=4, max_len=300, dropout=0.1)
    assert sized.key_mixtures.shape == (256, 300)
    assert sized.dropout == 0.1
    with pytest.raises(ShapeError, match=r"Linformer was built for max_len \(11\) positions, got 12; shorten"):
        run(linformer(), *checks.tensors(5, 12))
    with pytest.raises(ConfigError, match=r"linformer needs rank \(0\) and max_len \(5\) of 1 or more"):
        Linformer(5, rank=0)

"""Nystrom attention: the definition from its three products, the exact limit, segments, the inverse, padding."""

import mechanism_checks as checks
import pytest
import torch
from mechanism_checks import run

from headwise.attention import attend
from headwise.attention.mechanisms.nystrom import Nystrom, ValueConvolution, _inverse
from headwise.errors import ConfigError

# 7 tokens in 3 segments
SEGMENTS = [[0, 1, 2], [3, 4], [5, 6]]


def defined(query, key, value, pinv):
    """The three softmaxes of one head with landmarks of SEGMENTS."""

    def means(x):
        return torch.stack([x[tokens].sum(0) / len(tokens) for tokens in SEGMENTS])

    def softmax(q, k):
        return torch.softmax(q @ k.T / 6**0.5, -1)

    queries, keys = means(query), means(key)
    return softmax(query, keys) @ pinv(softmax(queries, keys)) @ softmax(queries, key) @ value


def iterated(weights):
    """Six steps of the iteration from the paper's start, as written there."""
    size = len(weights)
    columns = max(sum(float(weights[i, j]) for i in range(size)) for j in range(size))
    rows = max(sum(float(weights[i, j]) for j in range(size)) for i in range(size))
    z, one = weights.T / (columns * rows), torch.eye(size, dtype=weights.dtype)
    for _ in range(6):
        z = z @ (13 * one - weights @ z @ (15 * one - weights @ z @ (7 * one - weights @ z))) / 4
    return z


@pytest.mark.parametrize(("steps", "pinv"), [(None, torch.linalg.pinv), (6, iterated)])
def test_the_definition_by_products(steps, pinv):
    query, key, value = inputs = [t.detach() for t in checks.tensors(7, 7)]
    output = run(Nystrom(3, steps=steps), *inputs)
    for b, h in ((0, 0), (1, 3), (2, 2)):
        checks.near(output[b, h], defined(query[b, h], key[b, h // 2], value[b, h // 2], pinv))


@pytest.mark.parametrize("landmarks", [7, 11])
def test_a_landmark_for_each_token_is_softmax_attention(landmarks):
    """S S^+ S = S: exactly with the exact inverse, also with fewer tokens than landmarks."""
    inputs = checks.tensors(7, 7)
    checks.same_with_gradients(run(Nystrom(landmarks, steps=None), *inputs), attend(*inputs), inputs, 1e-6)


def test_the_iteration_converges_to_the_exact_inverse():
    weights = torch.softmax(4 * torch.eye(5).double() + torch.randn(2, 3, 5, 5).double(), -1)
    exact, errors = torch.linalg.pinv(weights), []
    for steps in (1, 3, 6, 12):
        errors.append(float((_inverse(weights, steps) - exact).abs().max()))
    assert errors[0] > errors[1] > errors[2]
    assert errors[3] < 1e-12
    # and with it the whole mechanism
    query = 3 * torch.eye(7, 6).double().expand(2, 4, 7, 6)
    value = torch.randn(2, 4, 7, 5).double()
    checks.near(run(Nystrom(7, steps=20), query, query, value), attend(query, query, value), 1e-9)


def test_sentences_do_not_share_a_scale():
    query, key, value = inputs = [t.detach() for t in checks.tensors(7, 7)]
    alone = run(Nystrom(3), *(t[:1] for t in inputs))
    key[1:] *= 100
    checks.near(run(Nystrom(3), query, key, value)[:1], alone, 1e-14)


@pytest.mark.parametrize("steps", [None, 6])
def test_it_keeps_the_contract(steps):
    mechanism = Nystrom(3, steps=steps, residual=ValueConvolution(4, 3)).double()
    checks.weights_are_the_function(mechanism, checks.tensors(7, 7))
    checks.half_precision(Nystrom(3, steps=steps), 7)
    checks.empty_sequences(mechanism)
    checks.refuses(mechanism)


@pytest.mark.parametrize("lens", [[7, 5, 4], [7, 3, 1]])
def test_padding_is_absence_with_fewer_tokens_than_landmarks_too(lens):
    checks.padding_is_absence(Nystrom(3), 7, lens)
    checks.no_key_gives_zero(Nystrom(3, residual=ValueConvolution(6, 3)).double(), 7)


def test_convolution_of_values():
    residual = ValueConvolution(4, 3).double()
    inputs = [t.detach() for t in checks.tensors(7, 7)]
    added = run(Nystrom(3, residual=residual), *inputs) - run(Nystrom(3), *inputs)
    value, filters = checks.spread(inputs[2], 4), residual.weight.detach()[:, 0, :, 0]
    for h, i in ((0, 0), (1, 3), (3, 6)):
        taps = [(t, i + t - 1) for t in range(3) if 0 <= i + t - 1 < 7]
        checks.near(added[0, h, i], sum(filters[h, t] * value[0, h, j] for t, j in taps))


def test_what_it_says():
    assert "landmarks=3, steps=6" in repr(Nystrom(3))
    assert Nystrom.sized(head_dim=6, num_heads=4, max_len=300, dropout=0.1).landmarks == 64
    with pytest.raises(ConfigError, match="nystrom needs 1 or more landmarks, got 0"):
        Nystrom(0)
    with pytest.raises(ConfigError, match=r"kernel_size \(4\) must be odd"):
        ValueConvolution(3, 4)

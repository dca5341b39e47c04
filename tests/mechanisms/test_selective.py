"""Selective attention: the definition in loops, x-transformers, what selects nothing."""

import math

import mechanism_checks as checks
import pytest
import torch
from mechanism_checks import run

from headwise.attention import attend
from headwise.attention.masks import Causal, Padding, Window
from headwise.attention.mechanisms.selective import Selective
from headwise.errors import Unsupported
from headwise.layers.attention import MultiHeadAttention


@pytest.mark.parametrize("padded", [False, True])
def test_the_definition_in_loops(padded):
    """Leviathan et al. 2024, section 3: forward and backward."""
    query, key, value = inputs = checks.tensors(6, 6)
    mask = Causal() & Padding(torch.tensor([6, 4, 3])) if padded else Causal()
    keep = mask.dense(3, 4, 6, 6).expand(3, 4, 6, 6)
    bias = torch.randn(1, 4, 6, 6).double()

    def scores(n, h, i, j):
        return query[n, h, i] @ key[n, h // 2, j] / math.sqrt(6)

    rows = []
    for n in range(3):
        for h in range(4):
            for i in range(6):
                seen = [j for j in range(6) if keep[n, h, i, j]]
                forgotten = [
                    sum(torch.relu(scores(n, 0, q, j)) for q in range(j + 1, i) if j and keep[n, 0, q, j]) for j in seen
                ]
                row = [scores(n, h, i, j) - f + bias[0, h, i, j] for j, f in zip(seen, forgotten, strict=True)]
                rows.append(torch.stack(row).softmax(0) @ value[n, h // 2, seen])
    expected = torch.stack(rows).unflatten(0, (3, 4, 6))
    checks.same_with_gradients(run(Selective(), *inputs, mask=mask, bias=bias), expected, inputs)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
def test_as_x_transformers():
    selective = pytest.importorskip("x_transformers.attend").selective_attn
    query, key, value = (t.detach() for t in checks.tensors(9, 9, kv_heads=4))
    later = torch.ones(9, 9).triu(1).bool()
    scores = (query @ key.mT / math.sqrt(6)).masked_fill(later, -torch.finfo(torch.float64).max)
    expected = selective(scores).masked_fill(later, -math.inf).softmax(-1) @ value
    checks.near(run(Selective(), query, key, value, mask=Causal()), expected)


def test_without_selection_it_is_softmax_attention():
    """Scores of head 0 below 0 select nothing, in any head."""
    query, key, value = (t.detach().clone() for t in checks.tensors(6, 6, kv_heads=4))
    query[:, 0], key[:, 0] = query[:, 0].abs(), -key[:, 0].abs()
    checks.near(run(Selective(), query, key, value, mask=Causal()), attend(query, key, value, mask=Causal()))


def test_steps_with_the_queries_so_far_are_all_at_once():
    for mask in (Causal(), Causal() & Window(3, 0), Causal() & Padding(torch.tensor([7, 6, 7]))):
        checks.cached_steps_are_all_at_once(Selective(), mask)


def test_the_last_query_needs_no_mask():
    query, key, value = checks.tensors(7, 7)
    step = run(Selective(), query[:, :, 6:], key, value, query_start=6, gates=query)
    checks.near(step, run(Selective(), query, key, value, mask=Causal())[:, :, 6:])


def test_without_earlier_queries_it_does_not_go_on():
    x = torch.ones(1, 2, 3, 4)
    with pytest.raises(Unsupported, match="Selective reads a sequence as a whole and cannot go on from position 2"):
        run(Selective(), x[:, :, :1], x, x, mask=Causal(), query_start=2)
    with pytest.raises(Unsupported, match="Selective got no mask"):
        run(Selective(), x, x, x)


def test_no_token_selects_none():
    layer = MultiHeadAttention(24, 4, "selective")
    assert layer(torch.zeros(2, 0, 24), mask=Causal()).shape == (2, 0, 24)

"""Stick-breaking: the definition in loops, fla's way of writing it, masks, step by step."""

import math

import mechanism_checks as checks
import pytest
import torch
from mechanism_checks import CAUSAL_CASES, run

from headwise.attention.masks import Causal, Table
from headwise.attention.mechanisms.stick_breaking import StickBreaking, broken
from headwise.errors import Unsupported


@pytest.mark.parametrize(("mask", "query_len", "key_len", "start"), CAUSAL_CASES[:-1])
def test_the_definition_in_loops(mask, query_len, key_len, start):
    """Tan et al. 2024, eq. 4: a product over the keys between, forward and backward."""
    batch = 2 if "Padding" in repr(mask) else 3
    inputs = [tensor[:batch].detach().requires_grad_() for tensor in checks.tensors(query_len, key_len)]
    query, key, value = inputs
    keep = mask.dense(batch, 4, query_len, key_len, query_start=start).expand(batch, 4, query_len, key_len)
    rows = []
    for n in range(batch):
        for h in range(4):
            for i in range(query_len):
                row, left = torch.zeros(5).double(), torch.ones(()).double()
                for j in reversed(range(min(i + start, key_len))):
                    if keep[n, h, i, j]:
                        share = torch.sigmoid(query[n, h, i] @ key[n, h // 2, j] / math.sqrt(6))
                        row, left = row + left * share * value[n, h // 2, j], left * (1 - share)
                rows.append(row)
    expected = torch.stack(rows).unflatten(0, (batch, 4, query_len))
    output = run(StickBreaking(), query, key, value, mask=mask, query_start=start)
    checks.same_with_gradients(output, expected, inputs, 1e-10)


def test_as_fla_writes_it():
    """flash-linear-attention's `naive_stickbreaking_attn`, by its lines, in float64."""
    query, key, value = (t.detach() for t in checks.tensors(7, 7, kv_heads=4))
    logits = query @ key.mT / math.sqrt(6)
    mask = torch.ones(7, 7).triu(0).bool()
    log_z = torch.nn.functional.logsigmoid(logits).masked_fill(mask, -1e5)
    log_beta = torch.nn.functional.logsigmoid(-logits).masked_fill(mask, 0)
    later = torch.ones(7, 7).tril(-1).double()
    expected = (log_z + torch.einsum("bhij,jk->bhik", log_beta, later)).exp() @ value
    checks.near(run(StickBreaking(), query, key, value, mask=Causal()), expected, 1e-12)


def test_rows_sum_to_one_less_what_is_left():
    query, key, _ = checks.tensors(7, 7)
    weights = checks.shown(StickBreaking(), query, key, mask=Causal())
    shares = (query @ checks.spread(key, 4).mT / math.sqrt(6)).sigmoid()
    left = torch.where(torch.ones(7, 7).tril(-1).bool(), 1 - shares, 1.0).prod(-1)
    checks.near(weights.sum(-1), 1 - left)
    assert not weights[:, :, 0].any()


def test_scores_far_out_stay_finite():
    """In float32 a product of thousands of small shares is a sum of logarithms."""
    x = torch.full((1, 1, 3000, 4), 40.0)
    signs = torch.where(torch.arange(3000) % 2 == 0, 1.0, -1.0).view(1, 1, -1, 1)
    output = run(StickBreaking(), x, x * signs, torch.ones_like(x), mask=Causal())
    assert output.isfinite().all()
    checks.near(output[:, :, 2:], torch.ones(1, 1, 2998, 4), 1e-5)


def test_what_it_needs():
    x = torch.ones(1, 2, 3, 4)
    with pytest.raises(Unsupported, match=r"StickBreaking got no mask.* pass mask=Causal"):
        run(StickBreaking(), x, x, x)
    with pytest.raises(Unsupported, match="StickBreaking got the mask Table"):
        run(StickBreaking(), x, x, x, mask=Table(torch.ones(3, 3, dtype=torch.bool)))


def test_a_sure_key_takes_no_digits_from_the_others():
    scores = torch.randn(1, 1, 4, 8) * 3
    scores[..., 5] = 3e4
    torch.testing.assert_close(broken(scores, None), broken(scores.double(), None).float(), rtol=1e-4, atol=1e-7)

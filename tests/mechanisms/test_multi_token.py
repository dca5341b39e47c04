"""Multi-token attention: the definition in loops, identities, no leak through the convolution."""

import math

import mechanism_checks as checks
import pytest
import torch
from mechanism_checks import run

from headwise.attention.call import Call
from headwise.attention.kernels import plain
from headwise.attention.masks import Causal, Documents, Padding
from headwise.attention.mechanisms.multi_token import MultiToken
from headwise.errors import ConfigError, ShapeError, Unsupported
from headwise.layers.attention import MultiHeadAttention


def drawn(**options):
    mechanism = MultiToken(4, **options).double()
    for parameter in mechanism.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return mechanism


@pytest.mark.parametrize("options", [{"queries": 2, "keys": 3}, {"queries": 3, "keys": 5, "group": 4}], ids=str)
@pytest.mark.parametrize("mask", [None, Causal() & Padding(torch.tensor([6, 4, 2]))])
def test_the_definition_in_loops(mask, options):
    """Golovneva et al. 2025, eq. 4 and 6, forward and backward, parameters too."""
    mechanism, (query, key, value) = drawn(**options), checks.tensors(6, 6)
    keep = torch.ones(3, 4, 6, 6).bool() if mask is None else mask.dense(3, 4, 6, 6).expand(3, 4, 6, 6)
    group, rows = mechanism.group, []
    for n in range(3):
        weights = {}
        for h in range(4):
            for i in range(6):
                seen = [j for j in range(6) if keep[n, h, i, j]]
                row = []
                for j in seen:
                    total = torch.zeros(()).double()
                    for a in range(mechanism.queries):
                        for b in range(mechanism.keys):
                            q, k = i - (mechanism.queries - 1 - a), j + b - mechanism.keys // 2
                            if 0 <= q < 6 and 0 <= k < 6 and keep[n, h, q, k]:
                                score = query[n, h, q] @ key[n, h // 2, k] / math.sqrt(6)
                                total = total + mechanism.taps[h, 0, a, b] * score
                    row.append(total)
                weights[h, i] = dict(zip(seen, torch.stack(row).softmax(0), strict=True)) if seen else {}
        for h in range(4):
            for i in range(6):
                row, first = torch.zeros(5).double(), h // group * group
                for other in range(group):
                    mix = mechanism.mixture[h // group, other, h % group]
                    for j, weight in weights[first + other, i].items():
                        if keep[n, h, i, j]:
                            row = row + mix * weight * value[n, h // 2, j]
                rows.append(row)
    expected = torch.stack(rows).unflatten(0, (3, 4, 6))
    of = [query, key, value, *mechanism.parameters()]
    checks.same_with_gradients(run(mechanism, query, key, value, mask=mask), expected, of)


def test_identities_are_softmax_attention():
    inputs = checks.tensors(6, 6)
    call = Call(*inputs, mask=Causal())
    checks.same_with_gradients(MultiToken(4).double()(call), plain.compute(call), inputs, 1e-12)


def test_no_later_key_leaks_through_the_convolution():
    mechanism, (query, key, value) = drawn(queries=3, keys=5), [t.detach() for t in checks.tensors(6, 6)]
    changed = key.clone()
    changed[:, :, 4] = 7.0
    before, after = (run(mechanism, query, k, value, mask=Causal()) for k in (key, changed))
    assert torch.equal(before[:, :, :4], after[:, :, :4])
    assert not torch.equal(before[:, :, 4:], after[:, :, 4:])


@pytest.mark.parametrize("queries", [1, 3, 9])
def test_steps_with_the_queries_so_far_are_all_at_once(queries):
    for mask in (Causal(), Causal() & Padding(torch.tensor([7, 6, 5]))):
        checks.cached_steps_are_all_at_once(drawn(queries=queries, keys=5), mask)


def test_sizes_that_do_not_fit():
    with pytest.raises(ConfigError, match=r"an odd number of keys \(4\)"):
        MultiToken(4, keys=4)
    with pytest.raises(ConfigError, match=r"group \(3\) of multi_token must divide num_heads \(4\)"):
        MultiToken(4, group=3)
    x = torch.ones(1, 2, 3, 4)
    with pytest.raises(ShapeError, match="MultiToken was built for heads 4, got 2"):
        run(MultiToken(4), x, x, x)
    assert MultiToken.sized(head_dim=4, num_heads=3, max_len=9, dropout=0.0).group == 1


def test_documents_are_refused_as_blocks_and_taps_would_mix_them():
    layer, documents = MultiHeadAttention(24, 4, "multi_token"), Documents(torch.tensor([[0] * 9 + [1] * 11]))
    with pytest.raises(Unsupported, match="Documents"):
        layer(torch.zeros(1, 20, 24), mask=Causal() & documents)

"""Mixture of block attention: the definition in loops, all blocks, what the choice reads, step by step."""

import math

import mechanism_checks as checks
import pytest
import torch
from mechanism_checks import run

from headwise.attention import attend
from headwise.attention.call import Call
from headwise.attention.masks import Causal, Documents, Padding, Table
from headwise.attention.mechanisms.moba import Moba
from headwise.caches import AttentionStep
from headwise.errors import ConfigError, Unsupported
from headwise.layers.attention import MultiHeadAttention

MASKS = [Causal(), Causal() & Padding(torch.tensor([9, 6, 1])), Causal() & Table((torch.arange(9) != 3).expand(1, 9))]


@pytest.mark.parametrize("mask", MASKS, ids=lambda mask: type(mask).__name__)
@pytest.mark.parametrize("sizes", [(2, 2), (3, 2), (2, 3), (4, 1)], ids=str)
def test_the_definition_in_loops(mask, sizes):
    """Lu et al. 2025, eq. 2 to 6: a block of mean keys for each query, forward and backward."""
    block, top = sizes
    query, key, value = inputs = checks.tensors(9, 9)
    keep = mask.dense(3, 4, 9, 9).expand(3, 4, 9, 9)
    rows = []
    for n in range(3):
        real = [j for j in range(9) if keep[n, 0, :, j].any()]
        for h in range(4):
            for i in range(9):
                own, scores = i // block, {}
                for b in range(own):
                    members = [key[n, h // 2, j] for j in real if j // block == b]
                    if members:
                        scores[b] = (query[n, h, i] @ (sum(members) / len(members))).item()
                best = sorted(scores, key=lambda b: (-scores[b], b))[: top - 1]
                seen = [j for j in range(9) if keep[n, h, i, j] and j // block in (own, *best)]
                row = torch.zeros(5).double()
                if seen:
                    pairs = [query[n, h, i] @ key[n, h // 2, j] / math.sqrt(6) for j in seen]
                    row = torch.stack(pairs).softmax(0) @ value[n, h // 2, seen]
                rows.append(row)
    expected = torch.stack(rows).unflatten(0, (3, 4, 9))
    checks.same_with_gradients(run(Moba(*sizes), *inputs, mask=mask), expected, inputs)


def test_all_blocks_are_softmax_attention():
    inputs = checks.tensors(9, 9)
    output = run(Moba(2, 5), *inputs, mask=Causal())
    checks.same_with_gradients(output, attend(*inputs, mask=Causal()), inputs)


def test_a_trace_shows_the_chosen_blocks():
    query, key = torch.zeros(1, 1, 6, 2), torch.zeros(1, 1, 6, 2)
    query[..., 0] = 1.0
    key[:, :, 2:4, 0] = 3.0
    stages = Moba(2, 2).stages(Call(query, key, key, mask=Causal()))
    blocks = {stage.name: stage for stage in stages}["blocks"]
    assert blocks.values[0, 0].int().tolist() == [[1, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 0], [0, 1, 1], [0, 1, 1]]
    weights = stages[-1].values
    assert not weights[0, 0, 4, :2].any()
    assert torch.equal(weights, Moba(2, 2).weights(Call(query, key, key, mask=Causal())))


def test_a_layer_step_by_step():
    layer, x = MultiHeadAttention(12, 3, Moba(2, 2)).double(), torch.randn(2, 9, 12).double()
    whole, memory = layer(x, mask=Causal()), layer.new_cache()
    steps = [layer(x[:, t : t + 1], mask=Causal(), cache=AttentionStep(memory, position=t)) for t in range(9)]
    checks.near(torch.cat(steps, 1), whole)
    padded = layer(x, mask=Causal() & Padding(torch.tensor([5, 5])))
    checks.near(padded[:, :5], whole[:, :5])


def test_sizes_that_do_not_fit():
    with pytest.raises(ConfigError, match=r"moba needs a block \(0\) and a number of blocks, top \(3\), of 1 or more"):
        Moba(0)


def test_documents_are_refused_as_blocks_and_taps_would_mix_them():
    layer, documents = MultiHeadAttention(24, 4, "moba"), Documents(torch.tensor([[0] * 9 + [1] * 11]))
    with pytest.raises(Unsupported, match="Documents"):
        layer(torch.zeros(1, 20, 24), mask=Causal() & documents)

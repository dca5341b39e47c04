"""Native sparse attention: the definition in loops, what is chosen, a layer step by step, traced, refusals."""

import math

import mechanism_checks as checks
import pytest
import torch

from headwise.attention.call import Call
from headwise.attention.masks import Causal, Padding, Table
from headwise.attention.mechanisms.native_sparse import NativeSparse
from headwise.caches import AttentionStep
from headwise.errors import ConfigError, ShapeError, Unsupported
from headwise.explain.layer_trace import layer_trace
from headwise.layers.attention import MultiHeadAttention

MASKS = [
    Causal(),
    Causal() & Padding(torch.tensor([11, 6, 1])),
    Causal() & Table((torch.arange(11) != 3).expand(1, 11)),
]


def sparse(block=2, top=3, window=3, dim=6):
    torch.manual_seed(0)
    mechanism = NativeSparse(dim, block, top, window).double()
    for parameter in mechanism.parameters():
        torch.nn.init.normal_(parameter)
    return mechanism


def softmax_of(query, keys, values):
    return torch.stack([query @ key / math.sqrt(6) for key in keys]).softmax(0) @ torch.stack(values)


@pytest.mark.parametrize("mask", MASKS, ids=lambda mask: type(mask).__name__)
@pytest.mark.parametrize("sizes", [(2, 3, 3), (3, 2, 1), (1, 4, 2), (4, 9, 20)], ids=str)
def test_the_definition_in_loops(mask, sizes):
    """Yuan et al. 2025, forward and backward."""
    (block, top, window), mechanism = sizes, sparse(*sizes)
    query, key, value = inputs = checks.tensors(11, 11)
    gates = torch.randn(3, 4, 11, 3).double().requires_grad_()
    keep = mask.dense(3, 4, 11, 11).expand(3, 4, 11, 11)
    expected = torch.zeros(3, 4, 11, 5).double()
    # a hidden token has no gates
    shares = torch.where(keep.any(2).unsqueeze(-1), gates, 0.0).sigmoid()
    for n in range(3):
        real = [j for j in range(11) if keep[n, 0, :, j].any()]
        for group in range(2):
            k, v, rows = key[n, group], value[n, group], {}
            members = [[j for j in real if j // block == b] for b in range(-(-11 // block))]
            pooled, inside = mechanism.pooling, mechanism.inside
            short_k = [sum(pooled[0, j % block] * (k[j] + inside[j % block]) for j in own) for own in members]
            short_v = [sum(pooled[1, j % block] * v[j] for j in own) for own in members]
            for i in range(11):
                ended = [b for b, own in enumerate(members) if own and (b + 1) * block - 1 <= i]
                importance = dict.fromkeys(range(len(members)), 0.0)
                for h in (2 * group, 2 * group + 1):
                    if ended:
                        scores = torch.stack([query[n, h, i] @ short_k[b] / math.sqrt(6) for b in ended]).softmax(0)
                        rows[h, i] = shares[n, h, i, 0] * (scores @ torch.stack([short_v[b] for b in ended]))
                        for b, share in zip(ended, scores, strict=True):
                            importance[b] += share.item()
                between = [b for b in range(1, i // block) if members[b]]
                chosen = {0, i // block, *sorted(between, key=lambda b: (-importance[b], b))[: top - 2]}
                for h in (2 * group, 2 * group + 1):
                    row = rows.get((h, i), torch.zeros(5).double())
                    for number, seen in (
                        (1, [j for j in range(i + 1) if keep[n, h, i, j] and j // block in chosen]),
                        (2, [j for j in range(max(0, i - window + 1), i + 1) if keep[n, h, i, j]]),
                    ):
                        if seen:
                            share = shares[n, h, i, number]
                            row = row + share * softmax_of(query[n, h, i], [k[j] for j in seen], [v[j] for j in seen])
                    expected = expected.index_put(tuple(map(torch.tensor, (n, h, i))), row)
    output = mechanism(Call(*inputs, mask=mask, gates=gates))
    checks.same_with_gradients(output, expected, [*inputs, gates, *mechanism.parameters()])


def test_a_layer_step_by_step_in_a_padded_batch_and_in_a_trace():
    layer, x = MultiHeadAttention(16, 4, sparse(dim=4), num_kv_heads=2).double(), torch.randn(2, 9, 16).double()
    whole, memory = layer(x, mask=Causal()), layer.new_cache()
    steps = [layer(x[:, t : t + 1], mask=Causal(), cache=AttentionStep(memory, position=t)) for t in range(9)]
    checks.near(torch.cat(steps, 1), whole)
    padded = layer(x, mask=Causal() & Padding(torch.tensor([5, 8])))
    checks.near(padded[:1, :5], whole[:1, :5])
    checks.near(padded[1:, :8], whole[1:, :8])
    trace = layer_trace(layer, lambda: layer(x[:1], mask=Causal()), head=2)
    assert trace.difference < 1e-12
    steps = {step.name: step.values for step in trace.steps}
    assert {"block weights", "blocks", "branch gates"} <= steps.keys()
    # the first block, the own one, and one between
    assert steps["blocks"].sum(-1).tolist() == [1, 1, 2, 2, 3, 3, 3, 3, 3]
    checks.near(torch.from_numpy(steps["weights"] @ steps["value"]), torch.from_numpy(steps["output"]))


def test_what_it_needs():
    x, gates = torch.ones(1, 2, 3, 4), torch.zeros(1, 2, 3, 3)
    with pytest.raises(ConfigError, match=r"block \(0\) and window \(512\) must be 1 or more, top \(16\) 2"):
        NativeSparse(4, 0)
    with pytest.raises(ShapeError, match="was built for head_dim 5, got 4"):
        NativeSparse(5)(Call(x, x, x, mask=Causal(), gates=gates))
    with pytest.raises(Unsupported, match="NativeSparse takes gates from the input of its layer"):
        NativeSparse(4)(Call(x, x, x, mask=Causal()))
    sizes = {"head_dim": 4, "num_heads": 2, "dropout": 0.0}
    short, long = (NativeSparse.sized(max_len=length, **sizes) for length in (1, 9999))
    assert (short.block, short.window, long.block, long.window) == (1, 1, 32, 512)

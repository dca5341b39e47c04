"""The light indexer: the definition in loops, its own loss, a layer step by step, traced, refusals."""

import math

import mechanism_checks as checks
import pytest
import torch

from headwise.attention import attend
from headwise.attention.call import Call
from headwise.attention.masks import Causal, Padding, Table
from headwise.attention.mechanisms.lightning_indexer import LightningIndexer
from headwise.caches import AttentionStep
from headwise.errors import ConfigError, ShapeError
from headwise.explain.layer_trace import layer_trace
from headwise.layers.attention import MultiHeadAttention

MASKS = [Causal(), Causal() & Padding(torch.tensor([9, 6, 1])), Causal() & Table((torch.arange(9) != 3).expand(1, 9))]


def index(gates, n, i, j):
    """Of each head a, five wide, then w, then what it holds of b."""
    b = sum(gates[n, h, j, 6:] for h in range(4)) / 4
    return sum(gates[n, h, i, 5] * torch.relu(gates[n, h, i, :5] @ b) for h in range(4)) / math.sqrt(4 * 5)


@pytest.mark.parametrize("mask", MASKS, ids=lambda mask: type(mask).__name__)
@pytest.mark.parametrize("top", [1, 3, 20])
def test_the_definition_in_loops_and_its_own_loss(mask, top):
    """DeepSeek-V3.2-Exp, eq. 1 to 4: outputs and their gradients, and the gradient of the indexer's loss."""
    query, key, value = inputs = checks.tensors(9, 9)
    gates = torch.randn(3, 4, 9, 11).double().requires_grad_()
    keep = mask.dense(3, 4, 9, 9).expand(3, 4, 9, 9)
    shown = torch.where(keep.any(2).unsqueeze(-1), gates, 0.0)
    rows, loss = torch.zeros(3, 4, 9, 5).double(), 0.0
    for n in range(3):
        real = [j for j in range(9) if keep[n, 0, :, j].any()]
        for i in range(9):
            scores = {j: index(shown, n, i, j) for j in real if j <= i}
            seen = sorted(sorted(scores, key=lambda j: (-scores[j].item(), j))[:top])
            if not seen:
                continue
            shares = []
            for h in range(4):
                products = torch.stack([query[n, h, i] @ key[n, h // 2, j] / math.sqrt(6) for j in seen])
                shares.append(products.softmax(0))
                rows = rows.index_put(tuple(map(torch.tensor, (n, h, i))), shares[-1] @ value[n, h // 2, seen])
            target = torch.stack(shares).mean(0).detach()
            loss = loss - (target * torch.stack([scores[j] for j in seen]).log_softmax(0)).sum()
    mechanism = LightningIndexer(top, width=5)
    output = mechanism(Call(*inputs, mask=mask, gates=gates))
    checks.same_with_gradients(output, rows, inputs)
    (own,) = torch.autograd.grad(mechanism(Call(*inputs, mask=mask, gates=gates)).sum(), gates)
    checks.near(own, torch.autograd.grad(loss, gates)[0])


def test_all_keys_are_softmax_attention():
    inputs, gates = checks.tensors(9, 9), torch.randn(3, 4, 9, 11).double()
    output = LightningIndexer(9, width=5)(Call(*inputs, mask=Causal(), gates=gates))
    checks.same_with_gradients(output, attend(*inputs, mask=Causal()), inputs)


def test_the_indexer_learns_what_attention_looks_at():
    """From dense attention to one key in forty: the two that are then chosen hold more of it than before."""
    torch.manual_seed(0)
    layer, x = MultiHeadAttention(8, 2, LightningIndexer(40, width=4)), torch.randn(4, 40, 8)
    torch.nn.init.normal_(layer.projection.weight)
    optimizer = torch.optim.Adam(layer.gates.parameters(), 0.03)
    query, key, value = layer.projection(x).detach().unflatten(-1, (6, 4)).transpose(1, 2).split(2, 1)
    weights = attend(query, key, torch.eye(40).expand(4, 2, -1, -1), mask=Causal()).mean(1, keepdim=True)

    def covered():
        call = Call(query, key, value, mask=Causal(), gates=layer.gates(x))
        return (weights * LightningIndexer(2, width=4).chosen(call)[:, :1]).sum(-1)[..., 20:].mean().item()

    before = covered()
    for _ in range(60):
        optimizer.zero_grad()
        layer(x, mask=Causal()).sum().backward()
        optimizer.step()
    assert covered() > 0.3 > 2 * before


def test_a_layer_step_by_step_in_a_padded_batch_and_in_a_trace():
    torch.manual_seed(0)
    layer = MultiHeadAttention(16, 4, LightningIndexer(3, width=3), num_kv_heads=2).double()
    x = torch.randn(2, 9, 16).double()
    whole, memory = layer(x, mask=Causal()), layer.new_cache()
    steps = [layer(x[:, t : t + 1], mask=Causal(), cache=AttentionStep(memory, position=t)) for t in range(9)]
    checks.near(torch.cat(steps, 1), whole)
    padded = layer(x, mask=Causal() & Padding(torch.tensor([5, 8])))
    checks.near(padded[:1, :5], whole[:1, :5])
    checks.near(padded[1:, :8], whole[1:, :8])
    trace = layer_trace(layer, lambda: layer(x[:1], mask=Causal()), head=2)
    assert trace.difference < 1e-12
    steps = {step.name: step.values for step in trace.steps}
    assert steps["blocks"].sum(-1).tolist() == [1, 2, 3, 3, 3, 3, 3, 3, 3]


def test_what_it_needs():
    x = torch.ones(1, 2, 3, 4)
    with pytest.raises(ConfigError, match=r"top \(0\) and width \(8\) must be 1 or more"):
        LightningIndexer(0)
    with pytest.raises(ShapeError, match="the mechanism takes 17 gates of each head, got 4"):
        LightningIndexer()(Call(x, x, x, mask=Causal(), gates=x))

"""Attention to sets: the definitions in loops, order, padding, costs that do not square."""

import pytest
import torch
from torch import nn

from headwise import record
from headwise.attention.masks import Padding
from headwise.errors import ConfigError
from headwise.layers.sets import ExternalAttention, InducedSetBlock, LatentArray, SetBlock, SetPooling, SlotAttention

D_MODEL, HEADS = 6, 2
MAKES = {
    "induced": lambda: InducedSetBlock(D_MODEL, HEADS, 7, inducing=3),
    "pooling": lambda: SetPooling(D_MODEL, HEADS, seeds=2),
    "latents": lambda: LatentArray(D_MODEL, HEADS, latents=3, rounds=2, depth=2),
    "apart": lambda: LatentArray(D_MODEL, HEADS, latents=3, rounds=2, shared=False, norm=False),
}
every = pytest.mark.parametrize("name", MAKES)


def built(name):
    module = MAKES[name]().double()
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    return module


def feed(part, x):
    inner, outer = [layer for layer in part.modules() if isinstance(layer, nn.Linear)]
    return torch.relu(x @ inner.weight.mT + inner.bias) @ outer.weight.mT + outer.bias


def normed(norm, x):
    if isinstance(norm, nn.Identity):
        return x
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + norm.eps).sqrt() * norm.weight + norm.bias


def mab(block, x, y):
    """Lee et al. 2019, eq. 6 and 7, a set and a head at a time."""
    layer, width = block.attention, D_MODEL // HEADS
    weight, bias = layer.memory_projection.weight, layer.memory_projection.bias
    results = []
    for b in range(len(x)):
        query = x[b] @ layer.projection.weight.mT + layer.projection.bias
        key, value = (y[b] @ weight.mT + bias).split(D_MODEL, -1)
        heads = []
        for h in range(HEADS):
            part = slice(h * width, (h + 1) * width)
            rows = [(key[:, part] @ row / width**0.5).softmax(0) @ value[:, part] for row in query[:, part]]
            heads.append(torch.stack(rows))
        results.append(torch.cat(heads, -1) @ layer.output.weight.mT + layer.output.bias)
    hidden = normed(block.first, x + torch.stack(results))
    return normed(block.second, hidden + feed(block.feed_forward, hidden))


def defined(name, module, x):
    def several(tensor):
        return tensor.expand(len(x), -1, -1)

    if name == "induced":
        return mab(module.writes, x, mab(module.reads, several(module.points), x))
    if name == "pooling":
        return mab(module.block, several(module.seeds), feed(module.feed_forward, x))
    latents = several(module.latents)
    for number in range(2):
        place = 0 if name == "latents" else number
        latents = mab(module.reads[place], latents, x)
        for block in module.thinks[place]:
            latents = mab(block, latents, latents)
    return latents


@every
@pytest.mark.parametrize("length", [1, 5])
def test_the_definitions_in_loops(name, length):
    module, x = built(name), torch.randn(2, length, D_MODEL).double().requires_grad_()
    output, expected = module(x), defined(name, module, x)
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-10)
    of, gradient = [x, *module.parameters()], torch.randn_like(expected)
    found, wanted = (torch.autograd.grad(result, of, gradient) for result in (output, expected))
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-9)


def test_a_set_attends_to_itself_and_to_another():
    block = SetBlock(D_MODEL, HEADS).double()
    x, y = torch.randn(2, 4, D_MODEL).double(), torch.randn(2, 7, D_MODEL).double()
    for other in (x, y):
        torch.testing.assert_close(block(x, other), mab(block, x, other), rtol=0, atol=1e-10)


@every
def test_order_is_nothing_and_padding_is_not_there(name):
    module, x, order = built(name), torch.randn(2, 6, D_MODEL).double(), torch.randperm(6)
    whole, turned = module(x), module(x[:, order])
    torch.testing.assert_close(turned, whole[:, order] if name == "induced" else whole, rtol=0, atol=1e-10)
    lens = torch.tensor([4, 2])
    padded = module(x.masked_fill((torch.arange(6) >= lens[:, None]).unsqueeze(-1), 9.0), Padding(lens))
    for b, length in enumerate(lens.tolist()):
        alone = module(x[b : b + 1, :length])[0]
        torch.testing.assert_close(padded[b, : len(alone)], alone, rtol=0, atol=1e-10)


def shares(scores):
    """Softmax over the first axis, then each row over its sum, pair by pair."""
    columns = torch.stack([column.softmax(0) for column in scores.unbind(1)], 1)
    return torch.stack([row / row.sum() for row in columns])


def test_slots_in_loops():
    """Locatello et al. 2020, algorithm 1, with gradients; then in a padded batch, with more slots, and recorded."""
    module = SlotAttention(D_MODEL, slots=3, d_ff=7, rounds=2).double()
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    x, cell = torch.randn(2, 5, D_MODEL).double().requires_grad_(), module.cell
    output = module(x, generator=torch.Generator().manual_seed(1))
    drawn = torch.randn(2, 3, D_MODEL, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    results = []
    for b in range(2):
        state = module.mean + module.log_deviation.exp() * drawn[b]
        key, value = (normed(module.of_elements, x[b]) @ module.attention.memory_projection.weight.mT).split(
            D_MODEL, -1
        )
        for _ in range(2):
            query = normed(module.of_slots, state) @ module.attention.projection.weight.mT
            read = shares(query @ key.mT / D_MODEL**0.5) @ value @ module.attention.output.weight.mT
            inner, outer = read @ cell.weight_ih.mT + cell.bias_ih, state @ cell.weight_hh.mT + cell.bias_hh
            (r, z, n), (r_, z_, n_) = inner.split(D_MODEL, -1), outer.split(D_MODEL, -1)
            z = torch.sigmoid(z + z_)
            state = (1 - z) * torch.tanh(n + torch.sigmoid(r + r_) * n_) + z * state
            state = state + feed(module.feed_forward, normed(module.inner, state))
        results.append(state)
    expected, of = torch.stack(results), [x, *module.parameters()]
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-10)
    gradient = torch.randn_like(expected)
    found, wanted = (torch.autograd.grad(result, of, gradient) for result in (output, expected))
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-9)
    padded = module(x, Padding(torch.tensor([4, 5])), slots=4, generator=torch.Generator().manual_seed(1))
    alone = module(x[:, :4], slots=4, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(padded[:1], alone[:1], rtol=0, atol=1e-10)
    with record(module) as trace:
        module(x, generator=torch.Generator().manual_seed(1))
    weights = trace["attention"].calls[-1].call
    assert weights.shape == (2, 1, 3, 5)


def test_external_attention_in_loops():
    """Guo et al. 2021, eq. 5 to 7, with gradients; a padded set is the set alone, in any order."""
    module = ExternalAttention(D_MODEL, HEADS, memory=4).double()
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    x, width, rows = torch.randn(2, 5, D_MODEL).double().requires_grad_(), D_MODEL // HEADS, []
    for b in range(2):
        query = x[b] @ module.query.weight.mT + module.query.bias
        parts = [shares(query[:, h * width :][:, :width] @ module.keys.mT) @ module.values for h in range(HEADS)]
        rows.append(torch.cat(parts, -1) @ module.output.weight.mT + module.output.bias)
    output, expected, of = module(x), torch.stack(rows), [x, *module.parameters()]
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-10)
    gradient = torch.randn_like(expected)
    found, wanted = (torch.autograd.grad(result, of, gradient) for result in (output, expected))
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-9)
    padded, order = module(x, Padding(torch.tensor([3, 5]))), torch.tensor([2, 0, 4, 1, 3])
    torch.testing.assert_close(padded[:1, :3], module(x[:1, :3]), rtol=0, atol=1e-10)
    torch.testing.assert_close(module(x[:, order]), output[:, order], rtol=0, atol=1e-10)
    with pytest.raises(ConfigError, match="num_heads"):
        ExternalAttention(D_MODEL, 4)

"""Attention to sets: the definitions in loops, order, padding, costs that do not square."""

import pytest
import torch
from torch import nn

from headwise.attention.masks import Padding
from headwise.layers.sets import InducedSetBlock, LatentArray, SetBlock, SetPooling

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

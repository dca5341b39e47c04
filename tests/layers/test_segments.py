"""Transformer-XL's recurrence: segments with a memory see what one long pass sees."""

import pytest
import torch

from headwise import positions
from headwise.attention.masks import Causal, Window
from headwise.attention.mechanisms.scored import Scored
from headwise.caches import AttentionStep, Segments
from headwise.layers.attention import MultiHeadAttention
from headwise.layers.blocks import EncoderBlock, Residual
from headwise.layers.feed_forward import FeedForward


def attention(**options):
    return MultiHeadAttention(12, 3, Scored(), **options).double()


@pytest.mark.parametrize("sizes", [(7,), (3, 4), (1, 2, 1, 3), (1,) * 7])
@pytest.mark.parametrize("position", ["none", "rotary", "transformer_xl", "t5", "shaw"])
def test_segments_of_one_layer_equal_the_whole(sizes, position):
    """S86, with a memory that holds everything: one segment and many are equal."""
    module = attention(position=positions.build(position, 12, 4, 3, 16))
    x = torch.randn(2, 7, 12).double()
    whole = module(x, mask=Causal())
    memory = Segments(7)
    outputs = [module(part, mask=Causal(), cache=AttentionStep(memory, 0)) for part in x.split(list(sizes), dim=1)]
    torch.testing.assert_close(torch.cat(outputs, 1), whole, rtol=0, atol=1e-13)


def test_a_short_memory_is_a_window():
    module = attention()
    x = torch.randn(2, 9, 12).double()
    memory = Segments(4)
    outputs = [module(part, mask=Causal(), cache=AttentionStep(memory, 0)) for part in x.split(1, dim=1)]
    torch.testing.assert_close(torch.cat(outputs, 1), module(x, mask=Window(4, 0)), rtol=0, atol=1e-13)
    assert memory.inputs.shape == (2, 4, 12)


def test_no_gradient_flows_into_an_earlier_segment_but_the_projections_learn_from_it():
    module = attention()
    first, second = (torch.randn(1, 3, 12, dtype=torch.float64, requires_grad=True) for _ in range(2))
    memory = Segments(3)
    module(first, mask=Causal(), cache=AttentionStep(memory, 0))
    output = module(second, mask=Causal(), cache=AttentionStep(memory, 0))
    gradients = torch.autograd.grad(output.sum(), (first, second, module.projection.weight), allow_unused=True)
    assert gradients[0] is None
    assert gradients[1].any()
    # the same as of one pass in which the first segment is a constant
    both = torch.cat((first.detach(), second), dim=1)
    (expected,) = torch.autograd.grad(module(both, mask=Causal())[:, 3:].sum(), module.projection.weight)
    torch.testing.assert_close(gradients[2], expected, rtol=0, atol=1e-13)


def test_the_context_grows_with_depth():
    """Two layers with a memory of 2 reach 4 tokens back, one layer 2."""

    def reach(layers):
        blocks = [
            EncoderBlock(attention(), FeedForward(12, 8).double(), *(Residual.pre_norm(12, 0.0).double() for _ in "ab"))
            for _ in range(layers)
        ]

        def last(x):
            memories = [Segments(2) for _ in blocks]
            for token in x.split(1, dim=1):
                hidden = token
                for block, memory in zip(blocks, memories, strict=True):
                    hidden = block(hidden, Causal(), AttentionStep(memory, 0))
            return hidden

        x = torch.randn(1, 9, 12).double()
        before, changed = last(x), []
        for place in range(9):
            other = x.clone()
            other[0, place] = torch.randn(12)
            changed.append(not torch.equal(before, last(other)))
        return changed.index(True)

    assert [8 - reach(layers) for layers in (1, 2, 3)] == [2, 4, 6]

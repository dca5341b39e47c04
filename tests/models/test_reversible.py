"""Reversible layers: inputs from outputs, the ordinary gradients, dropout twice alike, memory, the encoder."""

import pytest
import torch
from devices import DEVICE, not_simulated, seeded
from torch import nn

from headwise.attention.masks import Causal, Padding
from headwise.attention.mechanisms.scored import Scored
from headwise.errors import ConfigError, Unsupported
from headwise.layers.attention import MultiHeadAttention
from headwise.layers.blocks import EncoderBlock, Residual
from headwise.layers.feed_forward import FeedForward
from headwise.models.reversible import Reversible, ReversibleEncoder, ReversibleSequence

WIDTH = 15
MASK = Causal() & Padding(torch.tensor([7, 5]))


def block(dropout=0.0, make=Residual.pre_norm):
    attention = MultiHeadAttention(WIDTH, 3, Scored(dropout=dropout))
    return EncoderBlock(attention, FeedForward(WIDTH, 17, "gelu", dropout), make(WIDTH, dropout), make(WIDTH, dropout))


def encoder(depth=3, dropout=0.0):
    return ReversibleEncoder([block(dropout) for _ in range(depth)]).double()


def numbers(seed=4):
    return torch.randn(2, 7, WIDTH, generator=seeded(seed), dtype=torch.float64)


def one_by_one(couplings, x1, x2, mask):
    """The same function, whose graph keeps everything."""
    for coupling in couplings:
        x1, x2 = coupling(x1, x2, mask)
    return x1, x2


def test_inputs_are_found_again():
    coupling = encoder(1).blocks.couplings[0]
    x1, x2 = numbers(1), numbers(2)
    y1, y2 = coupling(x1, x2, MASK)
    torch.testing.assert_close(y1, x1 + coupling.f(x2, mask=MASK))
    torch.testing.assert_close(y2, x2 + coupling.g(y1))
    for found, given in zip(coupling.inverse(y1, y2, MASK), (x1, x2), strict=True):
        torch.testing.assert_close(found, given, rtol=0, atol=1e-14)


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_gradients_are_those_of_the_ordinary_form(dropout):
    """With dropout too: the random numbers of the forward pass are drawn again."""
    stack = encoder(3, dropout).blocks
    inputs = [numbers(1).requires_grad_(), numbers(2).requires_grad_()]
    wanted = [*inputs, *stack.parameters()]
    results = []
    for function in (stack, lambda *x: one_by_one(stack.couplings, *x)):
        torch.manual_seed(3)
        y1, y2 = function(*inputs, MASK)
        loss = (y1 * numbers(5) + y2 * numbers(6)).sum()
        # what is drawn between the passes must not matter, nor the backward pass what is drawn after it
        torch.rand(5)
        gradients = torch.autograd.grad(loss, wanted)
        results.append([y1, y2, *gradients, torch.rand(3)])
    for actual, expected in zip(*results, strict=True):
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-10)


def test_backward_fills_the_gradients_of_parameters_and_can_run_twice():
    model = encoder(2)
    loss = model(numbers(), MASK).square().sum()
    loss.backward(retain_graph=True)
    first = [parameter.grad.clone() for parameter in model.parameters()]
    loss.backward()
    for parameter, gradient in zip(model.parameters(), first, strict=True):
        torch.testing.assert_close(parameter.grad, 2 * gradient)


def kept(function):
    """Numbers that a forward pass keeps for the gradient, parameters aside."""
    sizes = {}

    def pack(tensor):
        if not isinstance(tensor, nn.Parameter):
            sizes[tensor.untyped_storage().data_ptr()] = tensor.numel()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = function()
    assert output.requires_grad
    return sum(sizes.values())


def test_memory_does_not_grow_with_depth():
    amounts = {}
    for depth in (1, 4, 16):
        model, x = encoder(depth, 0.1), numbers().requires_grad_()
        amounts[depth] = kept(lambda model=model, x=x: model(x, MASK))
    assert amounts[1] == amounts[4] == amounts[16] == 2 * numbers().numel()
    model = encoder(4)
    ordinary = kept(lambda: one_by_one(model.blocks.couplings, numbers(), numbers(), MASK)[0])
    assert ordinary > 20 * amounts[4]


def test_the_encoder_takes_the_sublayers_of_blocks():
    blocks = [block().double() for _ in range(2)]
    model, x = ReversibleEncoder(blocks), numbers()
    x1 = x2 = x
    for part in blocks:
        x1 = x1 + part.self_attention(part.attention_residual.before(x2), mask=MASK)
        x2 = x2 + part.feed_forward(part.feed_forward_residual.before(x1))
    torch.testing.assert_close(model(x, MASK), (x1 + x2) / 2, rtol=0, atol=1e-12)
    assert {id(p) for part in blocks for p in part.parameters()} == {id(p) for p in model.parameters()}
    with torch.no_grad():
        torch.testing.assert_close(model(x, MASK), (x1 + x2) / 2, rtol=0, atol=1e-12)


def test_frozen_and_shared_and_unused_parameters():
    shared = nn.Linear(WIDTH, WIDTH).double()

    class Attending(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.unused, self.frozen = shared, nn.Linear(3, 3), nn.Parameter(torch.ones(WIDTH).double())
            self.frozen.requires_grad_(False)

        def forward(self, x, *, mask):
            return self.inner(x).tanh() * self.frozen

    stack = ReversibleSequence([Reversible(Attending(), shared) for _ in range(2)])
    x = numbers()
    for function in (stack, lambda *x: one_by_one(stack.couplings, *x)):
        stack.zero_grad()
        sum(function(x, x, None)).square().sum().backward()
        assert stack.couplings[0].f.unused.weight.grad is None
        assert stack.couplings[0].f.frozen.grad is None
        if function is stack:
            gradient = shared.weight.grad
    torch.testing.assert_close(gradient, shared.weight.grad, rtol=0, atol=1e-10)


def test_a_stack_of_nothing_is_the_identity():
    x = numbers().requires_grad_()
    assert torch.equal(ReversibleEncoder([])(x, None), x)


@not_simulated("it has no autocast")
def test_autocast_is_repeated_in_the_backward_pass():
    model, x = encoder(2).float(), numbers().float()
    seen = []
    model.blocks.couplings[0].g.feed_forward.inner.register_forward_hook(lambda m, i, o: seen.append(o.dtype))
    with torch.autocast(DEVICE, torch.bfloat16):
        output = model(x, MASK)
    output.float().square().sum().backward()
    assert seen == [torch.bfloat16, torch.bfloat16]


def test_what_it_refuses():
    with pytest.raises(ConfigError, match="reversible layers need pre-norm blocks: a norm after the sum"):
        ReversibleEncoder([block(make=Residual.post_norm)])
    x = numbers().requires_grad_()
    output = encoder(1)(x, MASK).square().sum()
    with pytest.raises(Unsupported, match="reversible layers have no second derivative; run the couplings one by one"):
        torch.autograd.grad(output, x, create_graph=True)


def test_parameters_given_for_the_call_are_those_that_learn():
    """They are read again in the backward pass, when the module has its own back."""
    stack, other = encoder(2).blocks, encoder(2).blocks
    given = {name: tensor.detach().requires_grad_() for name, tensor in other.named_parameters()}

    def loss(parameters, x):
        return sum(y.square().sum() for y in torch.func.functional_call(stack, parameters, (x, numbers(2), MASK)))

    x = numbers(1).requires_grad_()
    loss(given, x).backward()
    sum(y.square().sum() for y in other(numbers(1), numbers(2), MASK)).backward()
    for name, parameter in other.named_parameters():
        torch.testing.assert_close(given[name].grad, parameter.grad)
    assert all(parameter.grad is None for parameter in stack.parameters())
    torch.testing.assert_close(torch.func.grad(loss, argnums=1)(given, numbers(1)), x.grad)


def test_buffers_and_frozen_parameters_given_for_the_call_count_too():
    class Scaling(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.register_buffer("scale", torch.tensor(size).double())
            self.frozen = nn.Parameter(torch.tensor(size).double(), requires_grad=False)
            self.learned = nn.Parameter(torch.tensor(size).double())

        def forward(self, x, **options):
            return torch.tanh(x * self.scale) * self.frozen + self.learned

    stack, other = (ReversibleSequence([Reversible(Scaling(s), Scaling(s))]) for s in (0.5, 1.5))
    given = {**dict(other.named_parameters()), **dict(other.named_buffers())}
    gradients = []
    for run in (lambda x: torch.func.functional_call(stack, given, (x, numbers(2), None)),
                lambda x: one_by_one(other.couplings, x, numbers(2), None)):  # fmt: skip
        x = numbers(1).requires_grad_()
        gradients.append(torch.autograd.grad(sum(y.square().sum() for y in run(x)), x)[0])
    torch.testing.assert_close(*gradients)
    # a gradient of functions with respect to parameters alone
    own = {name: tensor.detach() for name, tensor in other.named_parameters() if "learned" in name}
    loss = lambda p: sum(y.sum() for y in torch.func.functional_call(other, p, (numbers(1), numbers(2), None)))  # noqa: E731
    assert all(gradient.isfinite().all() for gradient in torch.func.grad(loss)(own).values())

"""Reversible layers: a stack that recomputes its inputs from its outputs, so that its depth costs no memory."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import NamedTuple

import torch
from torch import Tensor, nn

from headwise.attention.checkpointing import call_with, can_checkpoint, tensors_of
from headwise.attention.dropout import Dropout
from headwise.attention.masks import Mask
from headwise.attention.precision import autocast_dtype
from headwise.errors import ConfigError, Unsupported
from headwise.layers.attention import MultiHeadAttention, Vectors
from headwise.layers.blocks import EncoderBlock, Lens, Residual
from headwise.layers.feed_forward import FeedForward
from headwise.layers.norms import TokenBatchNorm

Pair = tuple[Vectors, Vectors]


class Reversible(nn.Module):
    """y1 = x1 + f(x2), y2 = x2 + g(y1), which can be solved for x1 and x2.

    Args:
        f: called as f(x, mask=mask).
        g: called as g(x).
    Source: Gomez et al. 2017, arXiv:1707.04585, eq. 6 and 7.

    >>> from headwise.attention.mechanisms.scored import Scored
    >>> coupling = Reversible(MultiHeadAttention(8, 2, Scored()), FeedForward(8, 16)).double()
    >>> x1, x2 = torch.ones(2, 3, 8).double(), torch.zeros(2, 3, 8).double()
    >>> back, _ = coupling.inverse(*coupling(x1, x2, None), None)
    >>> torch.allclose(back, x1)
    True
    """

    def __init__(self, f: nn.Module, g: nn.Module):
        super().__init__()
        self.f, self.g = f, g

    def forward(self, x1: Vectors, x2: Vectors, mask: Mask | None) -> Pair:
        y1 = x1 + self.f(x2, mask=mask)
        return y1, x2 + self.g(y1)

    def inverse(self, y1: Vectors, y2: Vectors, mask: Mask | None) -> Pair:
        """The inputs of these outputs."""
        x2 = y2 - self.g(y1)
        return y1 - self.f(x2, mask=mask), x2


class ReversibleSequence(nn.Module):
    """Couplings one after the other; the backward pass keeps the last outputs only and computes all others again.

    Memory does not grow with the number of couplings, time does by one more forward pass. Dropout draws the same
    numbers again. Inputs are found again up to rounding, so keep the streams in float32. Gradients reach x1, x2 and
    the parameters, nothing else that f or g may read; f and g must not change when run twice (no batch
    normalisation).

    Raises: Unsupported for a second derivative.
    Source: Gomez et al. 2017, arXiv:1707.04585, algorithm 1.
    """

    def __init__(self, couplings: list[Reversible]):
        super().__init__()
        self.couplings = nn.ModuleList(couplings)

    def forward(self, x1: Vectors, x2: Vectors, mask: Mask | None) -> Pair:
        own = tensors_of(self.couplings)
        tensors = (x1, x2, *own.values())
        learns = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
        # a compiler chooses itself what it makes again
        if learns and not torch.compiler.is_compiling() and can_checkpoint(tensors):
            y1, y2 = _Recomputed.apply(x1, x2, self.couplings, mask, tuple(own), *own.values())
            return y1, y2
        for coupling in self.couplings:
            x1, x2 = coupling(x1, x2, mask)
        return x1, x2


class AttentionBranch(nn.Module):
    """dropout(attention(norm(x))): what a pre-norm residual adds to x."""

    def __init__(self, attention: MultiHeadAttention, residual: Residual):
        super().__init__()
        self.norm, self.dropout = _parts(residual)
        self.attention = attention

    def forward(self, x: Vectors, *, mask: Mask | None) -> Vectors:
        return self.dropout(self.attention(self.norm(x), mask=mask))


class FeedForwardBranch(nn.Module):
    """dropout(feed_forward(norm(x))): what a pre-norm residual adds to x."""

    def __init__(self, feed_forward: FeedForward, residual: Residual):
        super().__init__()
        self.norm, self.dropout = _parts(residual)
        self.feed_forward = feed_forward

    def forward(self, x: Vectors) -> Vectors:
        return self.dropout(self.feed_forward(self.norm(x)))


class ReversibleEncoder(nn.Module):
    """A stack of encoder blocks in reversible form: attention is f, feed-forward is g.

    Both streams start as x, the output is their mean, as in the code that came with the paper. That is another
    function than the stack of blocks, so weights are trained in the form in which they are used.

    Args:
        blocks: pre-norm blocks, whose sublayers are taken over; a norm after the sum could not be undone.
    Raises: ConfigError for post-norm blocks, batch norms, and blocks without a residual or a feed-forward.
    Source: Kitaev et al. 2020, arXiv:2001.04451, section 3.

    >>> from headwise.attention.mechanisms.scored import Scored
    >>> residuals = [Residual.pre_norm(8, 0.1) for _ in range(2)]
    >>> block = EncoderBlock(MultiHeadAttention(8, 2, Scored()), FeedForward(8, 16), *residuals)
    >>> ReversibleEncoder([block])(torch.ones(2, 3, 8), None).shape
    torch.Size([2, 3, 8])
    """

    def __init__(self, blocks: list[EncoderBlock]):
        super().__init__()
        self.blocks = ReversibleSequence(
            [
                Reversible(
                    AttentionBranch(block.self_attention, block.attention_residual), FeedForwardBranch(*_second(block))
                )
                for block in blocks
            ]
        )

    def forward(self, x: Vectors, mask: Mask | None, valid_lens: Lens = None) -> Vectors:
        """As a block; its norms need no `valid_lens`."""
        y1, y2 = self.blocks(x, x, mask)
        return (y1 + y2) / 2


def _second(block: EncoderBlock) -> tuple[FeedForward, Residual]:
    if block.feed_forward is None or block.feed_forward_residual is None:
        raise ConfigError("reversible layers are couplings of attention and feed-forward; set d_ff to 1 or more")
    return block.feed_forward, block.feed_forward_residual


def _parts(residual: Residual) -> tuple[nn.Module, Dropout]:
    if not isinstance(residual.after, nn.Identity):
        raise ConfigError(
            "reversible layers need pre-norm blocks: a norm after the sum cannot be undone; set norm_order=pre"
        )
    if not isinstance(residual.inside, nn.Identity):
        raise ConfigError("reversible layers have one norm for each sublayer; set norm_order=pre")
    if isinstance(residual.before, TokenBatchNorm):
        raise ConfigError("reversible layers run twice, so a batch norm would count a batch twice; set norm=layer")
    if not residual.skip:
        raise ConfigError("reversible layers are residual couplings; set residual=true")
    return residual.before, Dropout(residual.dropout)


class _Moment(NamedTuple):
    """What a function depends on besides its arguments: the random states, and what autocast does."""

    states: list[Tensor]
    device: torch.device
    autocast: torch.dtype | None

    @classmethod
    def now(cls, device: torch.device) -> "_Moment":
        states = [torch.get_rng_state()]
        if device.type == "cuda":
            states.append(torch.cuda.get_rng_state(device))
        return cls(states, device, autocast_dtype(device))

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Runs what is inside as at that moment; the random states go on afterwards from where they were."""
        cuda = self.device.type == "cuda"
        cast = nullcontext() if self.autocast is None else torch.autocast(self.device.type, dtype=self.autocast)
        with torch.random.fork_rng([self.device] if cuda else []), cast:
            torch.set_rng_state(self.states[0])
            if cuda:
                torch.cuda.set_rng_state(self.states[1], self.device)
            yield


class _Recomputed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x1, x2, couplings, mask, names, *own):
        ctx.couplings, ctx.mask, ctx.names, ctx.moments = couplings, mask, names, []
        for coupling in couplings:
            before_f = _Moment.now(x1.device)
            x1 = x1 + coupling.f(x2, mask=mask)
            before_g = _Moment.now(x1.device)
            x2 = x2 + coupling.g(x1)
            ctx.moments.append((before_f, before_g))
        ctx.save_for_backward(x1, x2, *own)
        return x1, x2

    @staticmethod
    def backward(ctx, d_y1, d_y2):
        if torch.is_grad_enabled():
            # what is recomputed has no graph to the outputs it came from
            raise Unsupported("reversible layers have no second derivative; run the couplings one by one instead")
        y1, y2, *own = ctx.saved_tensors
        gradients = _Gradients(dict(zip(ctx.names, own, strict=True)))
        for i in reversed(range(len(ctx.couplings))):
            coupling, (before_f, before_g) = ctx.couplings[i], ctx.moments[i]
            branch, d_input = gradients.through(coupling.g, f"{i}.g.", {}, before_g, y1, d_y2)
            y2, d_y1 = y2 - branch, d_y1 + d_input
            branch, d_input = gradients.through(coupling.f, f"{i}.f.", {"mask": ctx.mask}, before_f, y2, d_y1)
            y1, d_y2 = y1 - branch, d_y2 + d_input
        return d_y1, d_y2, None, None, None, *gradients.gradients.values()


class _Gradients:
    """Gradients of what branches hold, given by its names as the forward pass saw it, summed branch by branch."""

    def __init__(self, tensors: dict[str, Tensor]):
        self.tensors = tensors
        self.gradients: dict[str, Tensor | None] = dict.fromkeys(tensors)

    def through(
        self,
        branch: nn.Module,
        prefix: str,
        options: dict[str, Mask | None],
        moment: _Moment,
        x: Tensor,
        d_output: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """The branch of x computed again, and the gradient of x."""
        # what branches share has a name in each; once in each, however often a branch has it
        names = dict((*branch.named_parameters(), *branch.named_buffers()))
        own = {name: self.tensors[prefix + name] for name in names}
        learned = {name: tensor for name, tensor in own.items() if tensor.requires_grad}
        x = x.detach().requires_grad_()
        with torch.enable_grad(), moment.restored():
            output = call_with(branch, own, (x,), options)
            inputs = [x, *learned.values()]
            d_x, *grads = torch.autograd.grad(output, inputs, d_output.to(output.dtype), allow_unused=True)
        for name, gradient in zip(learned, grads, strict=True):
            total = self.gradients[prefix + name]
            if gradient is not None:
                self.gradients[prefix + name] = gradient if total is None else total + gradient
        return output.detach(), torch.zeros_like(x) if d_x is None else d_x

"""Recurrent layers step by step outside of autograd: what a step computes is kept, and the way back is written by hand.

Features come before the batch, (gates x hidden, batch), so that every gate is one contiguous block and reductions run
along the batch. All that does not depend on the previous step is computed for all steps at once, and a step back costs
one or two passes over the gates and one product.
"""

from abc import ABC, abstractmethod

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from headwise.runtime import small_products


class Tape(ABC):
    """One layer over `steps` steps: `forward` for each in turn, then `rewind` once, then `backward` in reverse.

    Args:
        weight: recurrent matrix U, gates stacked.
        bias: of U h.
        state: before the first step.
    """

    def __init__(
        self,
        weight: Float[Tensor, "rows hidden"],
        bias: Float[Tensor, "rows"],
        state: Float[Tensor, "width batch"],
        steps: int,
    ):
        width, batch = state.shape
        rows, self.hidden_dim = weight.shape
        self.weight = weight
        self.bias = bias[:, None].expand(rows, batch).contiguous()
        self.states = state.new_empty(steps + 1, width, batch)
        self.states[0] = state
        self.gates = state.new_empty(steps, rows, batch)
        self.state_at = self.states.unbind(0)
        self.hidden_at = self.states[:, : self.hidden_dim].unbind(0)
        self.gates_at = self.gates.unbind(0)

    @abstractmethod
    def forward(self, step: int, given: Float[Tensor, "rows batch"]) -> Float[Tensor, "hidden batch"]:
        """Computes the state after the step from the gates' input part; returns its hidden part."""

    @abstractmethod
    def rewind(self) -> None:
        """Computes the local derivatives of all steps."""

    @abstractmethod
    def backward(
        self, step: int, d_state: Float[Tensor, "width batch"]
    ) -> tuple[Float[Tensor, "rows batch"], Float[Tensor, "width batch"]]:
        """Gradients of the gates' input part and of the state before the step, from that of the state after it."""

    @abstractmethod
    def d_given(self) -> Float[Tensor, "steps rows batch"]:
        """Gradients of the gates' input part at all steps."""

    @abstractmethod
    def d_weights(self) -> tuple[Float[Tensor, "rows hidden"], Float[Tensor, "rows"], Float[Tensor, "rows"]]:
        """Gradients of U, of its bias and of the bias of the gates' input part."""


class GRUTape(Tape):
    """A GRU layer; gates r, z, n."""

    def __init__(self, weight: Tensor, bias: Tensor, state: Tensor, steps: int):
        super().__init__(weight, bias, state, steps)
        hidden = self.hidden_dim
        self.new = state.new_empty(steps, hidden, state.shape[1])
        self._reset_update = self.gates[:, : 2 * hidden].unbind(0)
        self._reset = self.gates[:, :hidden].unbind(0)
        self._update = self.gates[:, hidden : 2 * hidden].unbind(0)
        self._recurrent_new = self.gates[:, 2 * hidden :].unbind(0)
        self._new = self.new.unbind(0)

    def forward(self, step: int, given: Tensor) -> Tensor:
        hidden, before, new = self.hidden_dim, self.state_at[step], self._new[step]
        torch.addmm(self.bias, self.weight, before, out=self.gates_at[step])
        self._reset_update[step].add_(given[: 2 * hidden]).sigmoid_()
        torch.addcmul(given[2 * hidden :], self._reset[step], self._recurrent_new[step], out=new)
        _tanh(new, new)
        return torch.lerp(new, before, self._update[step], out=self.state_at[step + 1])

    def rewind(self) -> None:
        steps, hidden, batch = self.new.shape
        reset, update, recurrent_new = self.gates.unflatten(1, (3, hidden)).unbind(1)
        # per step: gradients of U h's part of n, of r, of z, of W x's part of n, and of h itself, each over that of h'
        self._d = self.gates.new_empty(steps, 5, hidden, batch)
        d_recurrent_new, d_reset, d_update, d_new, d_before = self._d.unbind(1)
        keep = 1 - update
        # out= variants of the derivatives: fewer passes than products
        torch.ops.aten.tanh_backward.grad_input(keep, self.new, grad_input=d_new)
        torch.mul(d_new, reset, out=d_recurrent_new)
        torch.ops.aten.sigmoid_backward.grad_input(d_new * recurrent_new, reset, grad_input=d_reset)
        torch.ops.aten.sigmoid_backward.grad_input(self.states[:-1] - self.new, update, grad_input=d_update)
        d_before.copy_(update)
        self._d_at = self._d.unbind(0)
        self._d_recurrent_at = self._d[:, :3].flatten(1, 2).unbind(0)
        self._d_given_at = self._d[:, 1:4].flatten(1, 2).unbind(0)
        self._d_before_at = self._d[:, 4].unbind(0)
        # the order of the gradients of U h: n, r, z
        self._transposed = self.weight.roll(hidden, 0).t()

    def backward(self, step: int, d_state: Tensor) -> tuple[Tensor, Tensor]:
        self._d_at[step].mul_(d_state)
        before = torch.addmm(self._d_before_at[step], self._transposed, self._d_recurrent_at[step])
        return self._d_given_at[step], before

    def d_given(self) -> Tensor:
        return self._d[:, 1:4].flatten(1, 2)

    def d_weights(self) -> tuple[Tensor, Tensor, Tensor]:
        weight = outer_sum(self._d[:, :3].flatten(1, 2), self.states[:-1])
        sums = self._d[:, :4].sum((0, 3)).flatten()
        bias = sums[: 3 * self.hidden_dim].roll(-self.hidden_dim, 0)
        return weight.roll(-self.hidden_dim, 0), bias, sums[self.hidden_dim :]


class LSTMTape(Tape):
    """An LSTM layer; gates i, f, g, o; the state is h, then c."""

    def __init__(self, weight: Tensor, bias: Tensor, state: Tensor, steps: int):
        super().__init__(weight, bias, state, steps)
        hidden = self.hidden_dim
        self.shown = state.new_empty(steps, hidden, state.shape[1])
        self._take_forget = self.gates[:, : 2 * hidden].unbind(0)
        self._take, self._forget, self._new, self._show = (
            part.unbind(0) for part in self.gates.unflatten(1, (4, hidden)).unbind(1)
        )
        self._shown = self.shown.unbind(0)
        self._cell_at = self.states[:, hidden:].unbind(0)

    def forward(self, step: int, given: Tensor) -> Tensor:
        torch.addmm(self.bias, self.weight, self.hidden_at[step], out=self.gates_at[step])
        self.gates_at[step].add_(given)
        self._take_forget[step].sigmoid_()
        _tanh(self._new[step], self._new[step])
        self._show[step].sigmoid_()
        cell = torch.mul(self._forget[step], self._cell_at[step], out=self._cell_at[step + 1])
        cell.addcmul_(self._take[step], self._new[step])
        _tanh(cell, self._shown[step])
        return torch.mul(self._show[step], self._shown[step], out=self.hidden_at[step + 1])

    def rewind(self) -> None:
        hidden = self.hidden_dim
        take, forget, new, show = self.gates.unflatten(1, (4, hidden)).unbind(1)
        # gradients of i, f and g over that of c', of o and c' over that of h'
        self._d = torch.stack(
            [
                new * take * (1 - take),
                self.states[:-1, hidden:] * forget * (1 - forget),
                take * (1 - new * new),
                self.shown * show * (1 - show),
            ],
            1,
        )
        self._d_cell_at = (show * (1 - self.shown * self.shown)).unbind(0)
        self._d_inner_at = self._d[:, :3].unbind(0)
        self._d_show_at = self._d[:, 3].unbind(0)
        self._d_given_at = self._d.flatten(1, 2).unbind(0)
        self._transposed = self.weight.t()

    def backward(self, step: int, d_state: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.hidden_dim
        d_hidden = d_state[:hidden]
        d_cell = torch.addcmul(d_state[hidden:], d_hidden, self._d_cell_at[step])
        self._d_inner_at[step].mul_(d_cell)
        self._d_show_at[step].mul_(d_hidden)
        before = torch.empty_like(d_state)
        torch.mm(self._transposed, self._d_given_at[step], out=before[:hidden])
        torch.mul(d_cell, self._forget[step], out=before[hidden:])
        return self._d_given_at[step], before

    def d_given(self) -> Tensor:
        return self._d.flatten(1, 2)

    def d_weights(self) -> tuple[Tensor, Tensor, Tensor]:
        gates = self.d_given()
        weight = outer_sum(gates, self.states[:-1, : self.hidden_dim])
        bias = gates.sum((0, 2))
        return weight, bias, bias


def _tanh(x: Tensor, out: Tensor) -> None:
    if x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64):
        # NumPy's loop is five times as fast on processors for which PyTorch's library has none
        np.tanh(x.numpy(), out=out.numpy())
    else:
        torch.tanh(x, out=out)


def input_gates(
    weight: Float[Tensor, "rows input_dim"], bias: Float[Tensor, "rows"], x: Float[Tensor, "steps input_dim batch"]
) -> Float[Tensor, "steps rows batch"]:
    """The part of the gates that comes from the input, for all steps at once."""
    return torch.baddbmm(bias[:, None], weight.expand(x.shape[0], -1, -1), x)


def outer_sum(
    left: Float[Tensor, "steps rows batch"], right: Float[Tensor, "steps columns batch"]
) -> Float[Tensor, "rows columns"]:
    """The sum over steps and batch of outer products, as one product: the gradient of a weight used at every step."""
    return left.transpose(0, 1).flatten(1) @ right.transpose(0, 1).flatten(1).t()


def unrolled(
    tape: type[Tape],
    x: Float[Tensor, "steps input_dim batch"],
    state: Float[Tensor, "width batch"],
    input_weight: Float[Tensor, "rows input_dim"],
    input_bias: Float[Tensor, "rows"],
    weight: Float[Tensor, "rows hidden"],
    bias: Float[Tensor, "rows"],
) -> Float[Tensor, "steps width batch"]:
    """The states after every step of one layer whose inputs are all known."""
    states: Tensor = _Unrolled.apply(tape, x, state, input_weight, input_bias, weight, bias)
    return states


class _Unrolled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, kind, x, state, input_weight, input_bias, weight, bias):
        tape = kind(weight, bias, state, x.shape[0])
        with small_products(weight.numel() * state.shape[1]):
            for step, gates in enumerate(input_gates(input_weight, input_bias, x).unbind(0)):
                tape.forward(step, gates)
        ctx.tape = tape
        ctx.save_for_backward(x, input_weight)
        # a copy: who changes the result must not change what the gradient needs
        return tape.states[1:].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        tape, (x, input_weight) = ctx.tape, ctx.saved_tensors
        tape.rewind()
        d_state = torch.zeros_like(tape.state_at[0])
        with small_products(tape.weight.numel() * d_state.shape[1]):
            for step in reversed(range(gradient.shape[0])):
                _, d_state = tape.backward(step, d_state + gradient[step])
            d_weight, d_bias, d_input_bias = tape.d_weights()
            d_given = tape.d_given()
            d_input_weight = outer_sum(d_given, x)
            d_x = torch.bmm(input_weight.t().expand(x.shape[0], -1, -1), d_given) if ctx.needs_input_grad[1] else None
        return None, d_x, d_state, d_input_weight, d_input_bias, d_weight, d_bias

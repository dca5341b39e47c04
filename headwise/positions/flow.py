"""Position vectors that move along a learned differential equation."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.errors import ConfigError
from headwise.positions.position import Generated

Change = Callable[[int, Tensor], Tensor]


def runge_kutta(change: Change, place: int, state: Float[Tensor, "*axes"], step: float) -> Float[Tensor, "*axes"]:
    """One step of the classical Runge-Kutta method of order four for dp/dt = change.

    `change(n, p)` is the derivative at p after n half steps; the step leads from half step `place` to `place + 2`.

    Source: Kutta 1901.

    >>> round(runge_kutta(lambda place, p: p, 0, torch.ones(1), 0.1).item(), 4)  # exp(0.1)
    1.1052
    """
    k1 = change(place, state)
    k2 = change(place + 1, torch.add(state, k1, alpha=step / 2))
    k3 = change(place + 1, torch.add(state, k2, alpha=step / 2))
    k4 = change(place + 2, torch.add(state, k3, alpha=step))
    ends, middles = k1 + k4, k2 + k3
    return state.add(ends, alpha=step / 6).add(middles, alpha=step / 3)


class Flow(Generated):
    """x + P with p(t + dt) = p(t) + integral of h(s, p(s)) ds over [t, t + dt] (FLOATER), solved once for a batch.

    h(t, p) = W_2 tanh(W_1 p + w t + b_1) + b_2 and p(0) are learned, position i stands at time i x step, and one
    Runge-Kutta step leads from a position to the next. With a constant h the vectors lie on a straight line. Costs n
    steps of four evaluations, d x hidden each, one after the other; decoding step by step, n is the step. No export
    with a dynamic length.

    Args:
        d_model: width of the embeddings.
        hidden: width inside h.
        step: time between two positions.
    Raises: ConfigError for a step that is not positive or no hidden width.
    Source: Liu et al. 2020, arXiv:2003.09229 (FLOATER). The paper adds vectors at every block and solves with a
        library; here they are added to the embeddings and the step is of fixed size.

    >>> Flow(12).embed(torch.zeros(2, 5, 12), 0).shape
    torch.Size([2, 5, 12])
    """

    extrapolates = "The solution goes on along the learned dynamics to any length, smoothly, but untrained."

    def __init__(self, d_model: int, hidden: int = 64, step: float = 0.1):
        super().__init__()
        if hidden < 1 or step <= 0:
            raise ConfigError(
                f"flow positions need a hidden width of at least 1 and a step above 0, got {hidden}, {step}"
            )
        self.step = step
        self.first = nn.Parameter(torch.zeros(d_model))
        self.inner = nn.Parameter(torch.empty(hidden, d_model))
        self.drift = nn.Parameter(torch.empty(hidden))
        self.inner_bias = nn.Parameter(torch.empty(hidden))
        self.outer = nn.Parameter(torch.empty(d_model, hidden))
        self.outer_bias = nn.Parameter(torch.zeros(d_model))
        nn.init.normal_(self.inner, std=d_model**-0.5)
        nn.init.normal_(self.drift)
        nn.init.normal_(self.inner_bias)
        # slow at first: after a hundred positions the vectors are about as long as embeddings
        nn.init.normal_(self.outer, std=0.1 * hidden**-0.5)

    def vectors(self, length: int) -> Float[Tensor, "length d_model"]:
        # float32 at least: the rounding errors of hundreds of steps add up
        dtype = torch.promote_types(self.first.dtype, torch.float32)
        first, inner, drift, inner_bias, outer, outer_bias = (
            parameter.to(dtype)
            for parameter in (self.first, self.inner, self.drift, self.inner_bias, self.outer, self.outer_bias)
        )
        half_steps = torch.arange(2 * length - 1, dtype=dtype, device=first.device)
        # what of h depends on time alone, for all half steps at once
        driven = torch.addcmul(inner_bias, half_steps[:, None] * (self.step / 2), drift).unbind(0)

        def change(place: int, vector: Tensor) -> Tensor:
            return torch.addmv(outer_bias, outer, torch.addmv(driven[place], inner, vector).tanh())

        rows = [first]
        for position in range(length - 1):
            rows.append(runge_kutta(change, 2 * position, rows[-1], self.step))
        return torch.stack(rows)

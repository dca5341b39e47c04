"""Position vectors that a recurrent network generates from the index."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.errors import ConfigError
from headwise.positions.position import Generated
from headwise.positions.sinusoidal import moved, sinusoids


class Recurrent(Generated):
    """x + P with p_t = W h_t, h_t = GRU(s(t), h_(t-1)) and h_(-1) = 0: learned, yet of any length.

    The GRU reads the index t as its sinusoids s(t), since a bare number grows without bound and a constant input would
    bring the states to rest, so that late positions became alike. Costs n steps of hidden^2, one after the other, and
    no more than that for a whole batch; decoding step by step, n is the step. No export with a dynamic length.

    Args:
        d_model: width of the embeddings.
        hidden: width of the state h and of s(t), even.
    Raises: ConfigError for an odd or empty state.
    Source: a recurrent position encoder as weighed in Liu et al. 2020, arXiv:2003.09229; the cell is that of Cho et
        al. 2014, arXiv:1406.1078. The paper gives no network; the input and the readout W are this package's.

    >>> Recurrent(12).embed(torch.zeros(2, 5, 12), 0).shape
    torch.Size([2, 5, 12])
    """

    extrapolates = "The network runs on to any length; its states stay within (-1, 1), but late ones are untrained."
    paper = "recurrent encoder after Liu et al. 2020, arXiv:2003.09229; GRU of Cho et al. 2014, arXiv:1406.1078"

    def __init__(self, d_model: int, hidden: int = 64):
        super().__init__()
        if hidden < 2 or hidden % 2:
            raise ConfigError(f"recurrent positions need an even hidden width of at least 2, got {hidden}")
        self.hidden = hidden
        # its weights; the steps are written out below, with what reads the sinusoids computed for all of them at once
        self.cell = nn.GRUCell(hidden, hidden)
        self.readout = nn.Linear(hidden, d_model, bias=False)

    def vectors(self, length: int) -> Float[Tensor, "length d_model"]:
        # float32 at least: the rounding errors of hundreds of steps add up
        dtype = torch.promote_types(self.readout.weight.dtype, torch.float32)
        cell, readout = self.cell, self.readout.weight.to(dtype)
        inner, bias = cell.weight_hh.to(dtype), cell.bias_hh.to(dtype)
        inputs = moved(sinusoids(length, self.hidden, 0, readout.device), readout)
        projected = F.linear(inputs, cell.weight_ih.to(dtype), cell.bias_ih.to(dtype))
        gates, candidates = projected.split((2 * self.hidden, self.hidden), dim=-1)
        state, states = readout.new_zeros(self.hidden), []
        for gate, candidate in zip(gates.unbind(), candidates.unbind(), strict=True):
            before = torch.addmv(bias, inner, state)
            reset, update = (gate + before[: 2 * self.hidden]).sigmoid().chunk(2)
            state = torch.addcmul(candidate, reset, before[2 * self.hidden :]).tanh().lerp(state, update)
            states.append(state)
        return torch.stack(states) @ readout.mT

"""Position vectors that a recurrent network generates from the index."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.errors import ConfigError
from headwise.positions._generated import Generated, at_least_single
from headwise.positions.sinusoidal import sinusoids


class Recurrent(Generated):
    """x + P with p_t = W h_t, h_t = GRU(s(t), h_(t-1)) and h_(-1) = 0: learned, yet of any length.

    The GRU reads the index t as its sinusoids s(t), since a bare number grows without bound and a constant input would
    bring the states to rest, so that late positions became alike. Costs n steps of hidden^2, one after the other, and
    no more than that for a whole batch; without gradients the vectors are kept.

    Args:
        d_model: width of the embeddings.
        hidden: width of the state h and of s(t), even.
    Raises:
        ConfigError: for an odd or empty state.
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
        self.cell = nn.GRU(hidden, hidden)
        self.readout = nn.Linear(hidden, d_model, bias=False)

    @classmethod
    def sized(cls, d_model: int, head_dim: int, num_heads: int, max_len: int) -> "Recurrent":
        return cls(d_model)

    def vectors(self, length: int) -> Float[Tensor, "length d_model"]:
        dtype = at_least_single(self.readout.weight.dtype)
        weights = {name: weight.to(dtype) for name, weight in self.cell.named_parameters()}
        inputs = sinusoids(length, self.hidden).to(self.readout.weight.device, dtype)
        states, _ = torch.func.functional_call(self.cell, weights, (inputs,))
        return states @ self.readout.weight.to(dtype).mT

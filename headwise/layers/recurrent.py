"""Gated recurrent cells, GRU and LSTM: one step by definition, and a whole sequence with a gradient written by hand."""

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.dropout import draw, kept_scale
from headwise.errors import ConfigError, DataError, unknown
from headwise.layers.initializers import SCHEMES, Scheme
from headwise.layers.recurrent_tape import GRUTape, LSTMTape, Tape, unrolled


class Cell(nn.Module, ABC):
    """One recurrent layer: weights as PyTorch names, orders and initialises them.

    A state is one vector of `state_dim` numbers that begins with the hidden state of `hidden_dim`.

    Args:
        input_dim: width of the input of a step.
        hidden_dim: width of the hidden state.
    """

    gates: ClassVar[int]
    parts: ClassVar[int]
    tape: ClassVar[type[Tape]]

    def __init__(self, input_dim: int, hidden_dim: int):
        super().__init__()
        self.hidden_dim = hidden_dim
        self.state_dim = self.parts * hidden_dim
        rows = self.gates * hidden_dim
        self.weight_ih = nn.Parameter(torch.empty(rows, input_dim))
        self.weight_hh = nn.Parameter(torch.empty(rows, hidden_dim))
        self.bias_ih = nn.Parameter(torch.empty(rows))
        self.bias_hh = nn.Parameter(torch.empty(rows))
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(hidden_dim**-0.5), hidden_dim**-0.5)

    @abstractmethod
    def forward(
        self, x: Float[Tensor, "rows input_dim"], state: Float[Tensor, "rows state_dim"]
    ) -> Float[Tensor, "rows state_dim"]:
        """The state after one more step."""

    def hidden(self, state: Float[Tensor, "*rows state_dim"]) -> Float[Tensor, "*rows hidden_dim"]:
        """The part of a state that other layers see."""
        return state[..., : self.hidden_dim]

    def sequence(
        self, x: Float[Tensor, "steps input_dim batch"], state: Float[Tensor, "state_dim batch"]
    ) -> Float[Tensor, "steps state_dim batch"]:
        """The states after every step, features before batch; equal to `forward` step by step, some 3 times as fast."""
        return unrolled(self.tape, x, state, self.weight_ih, self.bias_ih, self.weight_hh, self.bias_hh)

    def extra_repr(self) -> str:
        return f"input_dim={self.weight_ih.shape[1]}, hidden_dim={self.hidden_dim}"


class GRU(Cell):
    """h' = (1 - z) * n + z * h with gates r, z = sigmoid(W x + U h) and n = tanh(W x + b + r * (U h + c)).

    Source: Cho et al. 2014, arXiv:1406.1078, eqs. 5-8; the reset gate acts after the product, as in PyTorch.

    >>> GRU(3, 5)(torch.zeros(2, 3), torch.zeros(2, 5)).shape
    torch.Size([2, 5])
    """

    gates, parts, tape = 3, 1, GRUTape

    def forward(
        self, x: Float[Tensor, "rows input_dim"], state: Float[Tensor, "rows state_dim"]
    ) -> Float[Tensor, "rows state_dim"]:
        reset_x, update_x, new_x = F.linear(x, self.weight_ih, self.bias_ih).chunk(3, -1)
        reset_h, update_h, new_h = F.linear(state, self.weight_hh, self.bias_hh).chunk(3, -1)
        reset, update = torch.sigmoid(reset_x + reset_h), torch.sigmoid(update_x + update_h)
        new = torch.tanh(new_x + reset * new_h)
        return new + update * (state - new)


class LSTM(Cell):
    """c' = f * c + i * g and h' = o * tanh(c') with i, f, o = sigmoid(W x + U h) and g = tanh(W x + U h).

    The state is h, then c.

    Source: Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000.

    >>> LSTM(3, 5)(torch.zeros(2, 3), torch.zeros(2, 10)).shape
    torch.Size([2, 10])
    """

    gates, parts, tape = 4, 2, LSTMTape

    def forward(
        self, x: Float[Tensor, "rows input_dim"], state: Float[Tensor, "rows state_dim"]
    ) -> Float[Tensor, "rows state_dim"]:
        hidden, cell = state.chunk(2, -1)
        gates = F.linear(x, self.weight_ih, self.bias_ih) + F.linear(hidden, self.weight_hh, self.bias_hh)
        take, forget, new, show = gates.chunk(4, -1)
        cell = torch.sigmoid(forget) * cell + torch.sigmoid(take) * torch.tanh(new)
        return torch.cat([torch.sigmoid(show) * torch.tanh(cell), cell], -1)


CELLS: dict[str, type[Cell]] = {"gru": GRU, "lstm": LSTM}


def build(name: str, input_dim: int, hidden_dim: int) -> Cell:
    """The cell of this name. Raises: ConfigError if unknown."""
    if name not in CELLS:
        raise ConfigError(unknown("cell", name, CELLS))
    return CELLS[name](input_dim, hidden_dim)


def embedded_columns(embedding: nn.Embedding, tokens: Int[Tensor, "batch steps"]) -> Float[Tensor, "steps width batch"]:
    """The vectors of tokens, steps before features before batch. Raises: DataError outside the vocabulary."""
    try:
        rows: Tensor = embedding(tokens.t())
    except IndexError:
        worst = int(tokens.max() if tokens.min() >= 0 else tokens.min())
        raise DataError(f"token {worst} is outside the vocabulary of {embedding.num_embeddings}") from None
    return rows.mT


def reversed_within(
    x: Float[Tensor, "steps width batch"], lens: Int[Tensor, "batch"]
) -> Float[Tensor, "steps width batch"]:
    """Each sequence backwards within its own length; padding stays behind."""
    steps = torch.arange(x.shape[0], device=x.device)[:, None]
    source = torch.where(steps < lens, lens - 1 - steps, steps)
    return x.gather(0, source[:, None].expand_as(x))


def last_state(
    states: Float[Tensor, "steps state_dim batch"], lens: Int[Tensor, "batch"]
) -> Float[Tensor, "state_dim batch"]:
    """The state after the last real step of each sequence, however much padding follows; 0 for an empty one."""
    if states.shape[0] == 0:
        return states.new_zeros(states.shape[1:])
    index = (lens - 1).clamp(min=0).expand(1, *states.shape[1:])
    return states.gather(0, index)[0].masked_fill(lens == 0, 0.0)


def dropout_factors(
    steps: int, layers: int, width: int, batch: int, dropout: float, like: Tensor
) -> Float[Tensor, "steps layers width batch"] | None:
    """What the outputs of the lower layers are multiplied by while training, for all steps; None if by nothing."""
    if dropout == 0.0 or layers == 0:
        return None
    return kept_factors((steps, layers, width, batch), dropout, like)


def kept_factors(shape: tuple[int, ...], dropout: float, like: Tensor) -> Float[Tensor, "..."]:
    """0 with the probability of dropout, else what keeps the mean, in the dtype of `like`."""
    return draw(shape, dropout, like.device).to(like.dtype).mul_(kept_scale(dropout))


def initialize_cells(model: nn.Module, scheme: Scheme) -> None:
    """Fills the matrices of every cell of a model, both as PyTorch stacks them, and zeroes the biases."""
    for module in model.modules():
        if isinstance(module, Cell):
            SCHEMES[scheme](module.weight_ih.detach())
            SCHEMES[scheme](module.weight_hh.detach())
            nn.init.zeros_(module.bias_ih)
            nn.init.zeros_(module.bias_hh)

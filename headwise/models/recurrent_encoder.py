"""The recurrent encoder: layers in one direction or in both over the source."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headwise.layers.recurrent import Cell, dropout_factors, embedded_columns, last_state, reversed_within
from headwise.models.protocols import Encoder, Memory


class RecurrentEncoder(Encoder):
    """Recurrent layers over the source, in one direction or in both.

    The states are those of the top layer, both directions side by side. The summary holds each layer's state after
    the last real token; with two directions, tanh of a learned map of both.

    Args:
        layers: cells of each layer, one for each direction.
        dropout: on the output of every layer but the last, while training.
    """

    def __init__(self, embedding: nn.Embedding, layers: list[list[Cell]], dropout: float):
        super().__init__()
        self.embedding, self.dropout = embedding, dropout
        self.layers = nn.ModuleList(nn.ModuleList(directions) for directions in layers)
        width = layers[0][0].state_dim
        bridged = layers if len(layers[0]) == 2 else []
        self.bridges = nn.ModuleList(nn.Linear(2 * width, width) for _ in bridged)

    def forward(self, inputs: Int[Tensor, "batch src_len"], valid_lens: Int[Tensor, "batch"]) -> Memory:
        with torch.autocast(inputs.device.type, enabled=False):
            return self._read(embedded_columns(self.embedding, inputs), valid_lens)

    def _read(self, x: Float[Tensor, "steps input_dim batch"], lens: Int[Tensor, "batch"]) -> Memory:
        summary = []
        for number, directions in enumerate(self.layers):
            if number:
                x = _dropped(x, self.dropout if self.training else 0.0)
            assert isinstance(directions, nn.ModuleList)
            hidden, last = zip(*(_directed(cell, x, lens, back) for back, cell in enumerate(directions)), strict=True)
            x = torch.cat(hidden, 1) if len(hidden) > 1 else hidden[0]
            state = torch.cat(last).t()
            summary.append(torch.tanh(self.bridges[number](state)) if self.bridges else state)
        return Memory(x.permute(2, 0, 1), torch.stack(summary))


def _directed(cell: nn.Module, x: Tensor, lens: Tensor, back: int) -> tuple[Tensor, Tensor]:
    assert isinstance(cell, Cell)
    states = cell.sequence(reversed_within(x, lens) if back else x, x.new_zeros(cell.state_dim, x.shape[2]))
    hidden = states[:, : cell.hidden_dim]
    return (reversed_within(hidden, lens) if back else hidden), last_state(states, lens)


def _dropped(x: Tensor, dropout: float) -> Tensor:
    factors = dropout_factors(x.shape[0], 1, x.shape[1], x.shape[2], dropout, x)
    return x if factors is None else x * factors[:, 0]

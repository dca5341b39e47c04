"""The recurrent encoder: layers in one direction or in both over the source."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headwise.attention.dropout import drop
from headwise.attention.precision import uncast
from headwise.layers.recurrent import embedded, read_both
from headwise.models.protocols import Encoder, Memory


class RecurrentEncoder(Encoder):
    """Recurrent layers over the source, in one direction or in both.

    The states are those of the top layer, both directions side by side. The summary holds each layer's state after
    the last real token; with two directions, tanh of a learned map of both. `torch.compile` has no PyTorch GRU.

    Args:
        layers: what reads the sequence in each layer, one for each direction.
        dropout: on the output of every layer but the last, while training.
    """

    def __init__(self, embedding: nn.Embedding, layers: list[list[nn.GRU | nn.LSTMCell]], dropout: float):
        super().__init__()
        self.embedding, self.dropout = embedding, dropout
        self.layers = nn.ModuleList(nn.ModuleList(directions) for directions in layers)
        width = layers[0][0].hidden_size * (2 if isinstance(layers[0][0], nn.LSTMCell) else 1)
        bridged = layers if len(layers[0]) == 2 else []
        self.bridges = nn.ModuleList(nn.Linear(2 * width, width) for _ in bridged)

    def forward(self, inputs: Int[Tensor, "batch src_len"], valid_lens: Int[Tensor, "batch"]) -> Memory:
        with uncast(inputs):
            return self._read(embedded(self.embedding, inputs), valid_lens)

    def _read(self, x: Float[Tensor, "steps batch width"], lens: Int[Tensor, "batch"]) -> Memory:
        summary = []
        for number, directions in enumerate(self.layers):
            if number:
                x = drop(x, self.dropout if self.training else 0.0)
            assert isinstance(directions, nn.ModuleList)
            x, state = read_both(directions, x, lens)
            summary.append(torch.tanh(self.bridges[number](state)) if self.bridges else state)
        return Memory(x.transpose(0, 1), torch.stack(summary))

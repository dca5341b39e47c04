"""`torch.nn.Transformer` at its defaults, with embeddings tied three ways and sinusoidal positions around it."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.shapes import Shape
from headwise.positions.sinusoidal import sinusoids

_LONGEST = 512


class TorchTransformer(nn.Module):
    """The module of PyTorch; one dropout rate holds in all places, but for that of its attention weights."""

    positions: Tensor

    def __init__(self, shape: Shape, vocab_size: int):
        super().__init__()
        self.table = nn.Embedding(vocab_size, shape.d_model)
        nn.init.normal_(self.table.weight, std=shape.d_model**-0.5)
        self.register_buffer("positions", sinusoids(_LONGEST, shape.d_model).float())
        self.dropout = nn.Dropout(shape.dropout)
        self.transformer = nn.Transformer(
            shape.d_model, shape.num_heads, shape.layers, shape.layers, shape.d_ff, shape.dropout, batch_first=True
        )
        if shape.attention_dropout is not None:
            for part in self.transformer.modules():
                if isinstance(part, nn.MultiheadAttention):
                    part.dropout = shape.attention_dropout
        self.scale = math.sqrt(shape.d_model)

    def forward(self, src: Tensor, keep: Tensor, tgt_in: Tensor) -> Tensor:
        """Logits of every decoder position."""
        causal = nn.Transformer.generate_square_subsequent_mask(tgt_in.shape[1], dtype=torch.float32)
        # this class takes True for what is left out
        padding = torch.zeros(keep.shape).masked_fill_(~keep, float("-inf"))
        hidden = self.transformer(
            self._embed(src),
            self._embed(tgt_in),
            tgt_mask=causal,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
        return F.linear(hidden, self.table.weight)

    def _embed(self, tokens: Tensor) -> Tensor:
        embedded: Tensor = self.dropout(self.table(tokens) * self.scale + self.positions[: tokens.shape[1]])
        return embedded

"""Attention weights that a network makes from the query alone."""

from dataclasses import replace

import torch
from torch import nn

from headwise.attention.call import Call, per_head
from headwise.attention.mechanisms._masks import check_length, front
from headwise.attention.mechanisms.mechanism import SOFTMAX, Rescored
from headwise.attention.precision import uncast
from headwise.attention.scores import Dot


class DenseSynthesizer(Rescored):
    """softmax(W_2 relu(W_1 q + b_1) + b_2) v: the score of key j is output j of a network that sees no key.

    That is a dot product of relu(W_1 q + b_1) with a learned vector for each position, so time and memory are those of
    softmax attention on the same kernels, and every mask, bias and relative position is honoured. Keys are not read.

    Args:
        num_heads: heads, each with a network of its own.
        head_dim: width of a query and of the hidden layer.
        max_len: keys at most: outputs of the network.
        dropout: probability of dropping a weight while training.
    Raises: ShapeError for more than max_len keys, or other heads than it was built for.
    Source: Tay et al. 2020, arXiv:2005.00743, section 3 ("dense"), with the query of a head in place of the input.

    >>> x = torch.ones(2, 3, 5, 8)
    >>> DenseSynthesizer(num_heads=3, head_dim=8, max_len=7)(Call(x, x, x)).shape
    torch.Size([2, 3, 5, 8])
    """

    facts = replace(SOFTMAX, family="mixing", memory="n d", exact="another function: keys are not read")

    def __init__(self, num_heads: int, head_dim: int, max_len: int, dropout: float = 0.0):
        super().__init__()
        self.inner = nn.Parameter(torch.empty(num_heads, head_dim, head_dim))
        self.inner_bias = nn.Parameter(torch.zeros(num_heads, 1, head_dim))
        # rows of W_2, and b_2 as the last column
        self.positions = nn.Parameter(torch.empty(num_heads, max_len, head_dim + 1))
        for weight in (self.inner, self.positions):
            nn.init.normal_(weight, std=head_dim**-0.5)
        self.num_heads, self.head_dim, self.max_len, self.dropout = num_heads, head_dim, max_len, dropout

    def as_scored(self, call: Call, dropout: float) -> Call:
        batch, heads, _, length = call.shape
        check_length(self, self.max_len, length)
        query = call.query
        with uncast(query):
            hidden = (query @ self.inner.to(query.dtype) + self.inner_bias.to(query.dtype)).relu()
        hidden = torch.cat((hidden, torch.ones_like(hidden[..., :1])), -1)
        positions = front(self.positions, length, 1).to(query.dtype).expand(batch, -1, -1, -1)
        value = per_head(call.value, heads)
        return replace(call, query=hidden, key=positions, value=value, score=Dot(), dropout=dropout)

"""Attention weights that depend on no input: a learned or a fixed matrix for each head."""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.attention.call import Call, per_head
from headwise.attention.mechanisms._masks import check_length, front
from headwise.attention.mechanisms.mechanism import SOFTMAX, Rescored
from headwise.attention.precision import wide
from headwise.attention.scores import Dot


class RandomSynthesizer(Rescored):
    """softmax(R) v with a matrix R of scores for each head: static mixing, the same for every input.

    Query and key are not read but for their lengths. Every mask, bias and relative position is honoured. Time and
    memory are quadratic in length, and each head keeps max_len^2 numbers.

    Args:
        num_heads: heads, each with a matrix of its own.
        max_len: positions at most.
        learned: whether R is a parameter; else it stays as it was drawn, and is saved with the model.
        dropout: probability of dropping a weight while training.
    Raises: ShapeError for positions beyond max_len, or other heads than it was built for.
    Source: Tay et al. 2020, arXiv:2005.00743, section 3 ("random"). R starts as standard normal numbers.

    >>> x = torch.ones(2, 3, 5, 8)
    >>> RandomSynthesizer(num_heads=3, max_len=7)(Call(x, x, x)).shape
    torch.Size([2, 3, 5, 8])
    """

    facts = replace(SOFTMAX, family="mixing", exact="another function: queries and keys are not read")

    scores: Float[Tensor, "heads max_len max_len"]

    def __init__(self, num_heads: int, max_len: int, *, learned: bool = True, dropout: float = 0.0):
        super().__init__()
        scores = torch.randn(num_heads, max_len, max_len)
        if learned:
            self.scores = nn.Parameter(scores)
        else:
            self.register_buffer("scores", scores)
        self.num_heads, self.max_len, self.dropout = num_heads, max_len, dropout

    def as_scored(self, call: Call, dropout: float) -> Call:
        batch, heads, query_len, length = call.shape
        last = call.query_start + query_len
        for count in (last, length):
            check_length(self, self.max_len, count)
        value = wide(per_head(call.value, heads))
        scores = front(front(self.scores, last, 1)[:, call.query_start :], length).to(value.dtype).unsqueeze(0)
        # the scores enter as a bias on a product of zeros
        query, key = (value.new_zeros(batch, heads, n, 1) for n in (query_len, length))
        bias = scores if call.bias is None else scores + call.bias
        return replace(call, query=query, key=key, value=value, score=Dot(), bias=bias, dropout=dropout)

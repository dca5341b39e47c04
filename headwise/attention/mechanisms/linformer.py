"""Attention to a fixed number of learned mixtures of the keys and values."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.attention import planner
from headwise.attention.call import Call
from headwise.attention.mechanisms._masks import check_length, front, parts
from headwise.attention.mechanisms.mechanism import Facts, Mechanism
from headwise.attention.precision import uncast
from headwise.errors import ConfigError


class Linformer(Mechanism):
    """softmax(q (E k)^T / sqrt(d)) (F v) with learned E and F of rank x max_len: attention to `rank` mixtures.

    Time n x rank x d, memory n x rank. Inputs shorter than max_len meet the first columns of E and F. A key that does
    not exist has no part in any mixture: the output is that of the sequence without it, the columns of the others
    unchanged. A mixture holds keys of all positions, so nothing can be causal, and a pair has no score of its own.

    Args:
        max_len: keys at most.
        rank: number of mixtures.
        dropout: probability of dropping the weight of a mixture while training.
    Raises:
        ShapeError: for more than max_len keys.
        Unsupported: for a mask that is no padding, a bias, relative positions or a later start.
    Source: Wang et al. 2020, arXiv:2006.04768, eq. 7, with one E and one F for all heads ("headwise sharing"). They
    start with variance 1 / max_len in place of 1 / rank, so that a mixture of max_len keys is as large as a key.

    >>> x = torch.ones(2, 3, 5, 8)
    >>> Linformer(max_len=7, rank=2)(Call(x, x, x)).shape
    torch.Size([2, 3, 5, 8])
    """

    facts = Facts(
        family="low-rank",
        time="n r d for r mixtures",
        memory="n r",
        exact="rank = n and E = F = identity",
        honours="keys",
        cross=True,
    )

    def __init__(self, max_len: int, rank: int = 256, dropout: float = 0.0):
        super().__init__()
        if rank < 1 or max_len < 1:
            raise ConfigError(f"linformer needs rank ({rank}) and max_len ({max_len}) of 1 or more")
        self.key_mixtures = nn.Parameter(torch.empty(rank, max_len))
        self.value_mixtures = nn.Parameter(torch.empty(rank, max_len))
        for mixtures in (self.key_mixtures, self.value_mixtures):
            nn.init.normal_(mixtures, std=max_len**-0.5)
        self.max_len, self.rank, self.dropout = max_len, rank, dropout

    def compute(self, call: Call) -> Float[Tensor, "batch heads query_len value_dim"]:
        length = call.shape[3]
        check_length(self, self.max_len, length)
        query, key, value, _, _ = parts(call)
        with uncast(query):
            key = front(self.key_mixtures, length, 1).to(key.dtype) @ key
            value = front(self.value_mixtures, length, 1).to(value.dtype) @ value
        mixed = Call(query, key, value, dropout=self.dropout if self.training else 0.0)
        return planner.run(mixed).to(call.value.dtype)

"""A learned vector for each position."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.errors import ShapeError
from headwise.positions.position import Position


class Learned(Position):
    """x + P with a learned table of max_len x d_model numbers; a position beyond the table is an error.

    Args:
        max_len: number of positions.
        d_model: width of the embeddings.
    Source: Gehring et al. 2017, arXiv:1705.03122, section 3.1.
    """

    def __init__(self, max_len: int, d_model: int):
        super().__init__()
        self.table = nn.Parameter(torch.empty(max_len, d_model))
        nn.init.normal_(self.table, std=0.02)

    @classmethod
    def sized(cls, d_model: int, head_dim: int, max_len: int) -> "Learned":
        return cls(max_len, d_model)

    def embed(self, x: Float[Tensor, "*batch length d_model"], start: int) -> Float[Tensor, "*batch length d_model"]:
        end = start + x.shape[-2]
        if end > self.table.shape[0]:
            raise ShapeError(
                f"position {end - 1} is beyond the learned table of {self.table.shape[0]} positions;"
                " shorten the input, train with a larger max_len, or use sinusoidal or rotary positions"
            )
        return x + self.table[start:end].to(x.dtype)

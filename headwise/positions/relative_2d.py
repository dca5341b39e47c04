"""A learned number for each way from patch to patch of an image, added to the scores."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headwise.errors import ConfigError, ShapeError
from headwise.positions.position import Key, Position, Query
from headwise.positions.sinusoidal_2d import places


class Relative2d(Position):
    """score + table[dy, dx, head] for patches that stand row by row; dy and dx are key minus query.

    The table has (2 height - 1)(2 width - 1) rows, so every step within the grid has its own number: row (dy + height
    - 1)(2 width - 1) + dx + width - 1. Swin counts query minus key, which is the same table from its last row to its
    first: `table.copy_(relative_position_bias_table.flip(0))` loads its weights. Costs a bias of query_len x key_len
    for each head. An exported program needs a dynamic length of at most height x width.

    Args:
        num_heads: heads of the query.
        height, width: patches in a column and in a row of the image.
    Raises:
        ConfigError: for a grid without patches.
        ShapeError: for a patch beyond the grid.
    Source: Liu et al. 2021 (Swin), arXiv:2103.14030, eq. 4; here over a whole image, there within each window.

    >>> query = torch.zeros(1, 3, 6, 8)
    >>> Relative2d(3, height=2, width=3).bias(query, query, 0).shape
    torch.Size([1, 3, 6, 6])
    """

    grid = "relative_2d"
    where = "scores"
    extrapolates = "A patch beyond the grid is an error: a step that was not trained has no number."

    def __init__(self, num_heads: int, *, height: int, width: int):
        super().__init__()
        if height < 1 or width < 1:
            raise ConfigError(f"relative_2d positions need a grid of at least 1 x 1 patches, got {height} x {width}")
        self.height, self.width = height, width
        self.table = nn.Parameter(torch.empty((2 * height - 1) * (2 * width - 1), num_heads))
        nn.init.trunc_normal_(self.table, std=0.02)

    def bias(self, query: Query, key: Key, start: int) -> Float[Tensor, "1 heads query_len key_len"]:
        last = torch.sym_max(start + query.shape[2], key.shape[2]) - 1
        if last >= self.height * self.width:
            raise ShapeError(
                f"position {last} is beyond the grid of {self.height} x {self.width} patches;"
                " build relative_2d for the size of the image"
            )
        queries, keys = (
            self._code(first, length, query.device) for first, length in ((start, query.shape[2]), (0, key.shape[2]))
        )
        rows = keys - queries[:, None] + self.table.shape[0] // 2
        return self.table.mT.index_select(1, rows.flatten()).unflatten(1, rows.shape)[None]

    def _code(self, start: int, length: int, device: torch.device) -> Int[Tensor, "length"]:
        """Numbers of which a difference tells both dy and dx: |dx| stays below the width."""
        row, column = places(start, length, self.width, device)
        return row * (2 * self.width - 1) + column

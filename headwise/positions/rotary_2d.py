"""Queries and keys of patches turned by their row in half of the columns, by their column in the other half."""

import torch
from torch import Tensor

from headwise.errors import ConfigError
from headwise.positions.position import Ids, Position, Projected
from headwise.positions.rotary import Layout, angles_of, check_turns, check_width, turned
from headwise.positions.sinusoidal import exact, frequencies
from headwise.positions.sinusoidal_2d import places


class Rotary2d(Position):
    """Rotary positions for patches that stand row by row: the first half of the pairs turns by row, the rest by column.

    Each half has the frequencies base^(-4j/d), j = 0 .. d/4 - 1: scores depend on the steps down and right alone. Any
    height; the width of the grid is what tells a sequence from an image. Ids (row, column) of each token place patches
    of several images, or of any order.

    Args:
        head_dim: width of a head, a multiple of 4.
        width: patches in a row of the image.
        base: ratio of the slowest to the fastest period.
        layout: which columns form a pair: neighbours, or column j and j + d/2 ("half", as in Qwen2-VL's images).
    Raises: ConfigError: a width that 4 does not divide, a grid without columns, another layout, a base not above 0.
    Source: Heo et al. 2024, arXiv:2403.13298, section 3.2 (axial frequencies); the code of Wang et al. 2024 (Qwen2-VL),
        arXiv:2409.12191.

    >>> heads = Rotary2d(4, width=2, base=1.0).rotate(torch.tensor([1.0, 0, 1, 0]).expand(1, 1, 4, 4), 0)
    >>> heads[0, 0, 1].round(decimals=2).tolist()  # row 0, column 1
    [1.0, 0.0, 0.5400000214576721, 0.8399999737739563]
    """

    axes = 2
    grid = "rotary_2d"
    where = "queries and keys"
    extrapolates = "Any height has its angles, but a model sees steps that it was not trained on."

    def __init__(self, head_dim: int, width: int, base: float = 10000.0, *, layout: Layout = "interleaved"):
        super().__init__()
        check_turns("rotary_2d", head_dim, base, layout)
        if head_dim % 4:
            raise ConfigError(f"rotary_2d positions need a head_dim that 4 divides, got {head_dim}")
        if width < 1:
            raise ConfigError(f"rotary_2d positions need a grid at least 1 patch wide, got {width}")
        self.head_dim, self.width, self.base, self.layout = head_dim, width, base, layout

    def rotate(self, heads: Projected, start: int | Ids) -> Projected:
        check_width("rotary_2d", self.head_dim, heads)
        if not isinstance(start, Tensor):
            start = torch.stack(places(start, heads.shape[-2], self.width, exact(heads.device))).unsqueeze(0)
        each, pairs = frequencies(self.head_dim // 2, self.base, heads.device), self.head_dim // 4
        turns = angles_of(start, torch.cat((each, each)), [0] * pairs + [1] * pairs)
        return turned(heads, turns.cos(), turns.sin(), self.layout)

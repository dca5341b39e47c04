"""Fixed sines and cosines for the patches of an image: half of the columns tell the row, half the column."""

import torch
from jaxtyping import Int
from torch import Tensor

from headwise.errors import ConfigError
from headwise.positions.position import Embedded, Position
from headwise.positions.sinusoidal import exact, frequencies, moved, waves


class Sinusoidal2d(Position):
    """x + (P_row, P_column) for patches that stand row by row: the sinusoids of both coordinates side by side.

    Any height; the width of the grid is what tells a sequence from an image. Nothing learned.

    Args:
        d_model: width of the embeddings, a multiple of 4.
        width: patches in a row of the image.
    Raises: ConfigError for a width that leaves a sine without its cosine, or a grid without columns.
    Source: Parmar et al. 2018, arXiv:1802.05751, section 3.1; the sinusoids are those of Vaswani et al. 2017,
        arXiv:1706.03762, section 3.5, for d_model / 2 columns.

    >>> Sinusoidal2d(8, width=3).embed(torch.zeros(1, 6, 8), 0)[0, 3].round(decimals=2).tolist()
    [0.8399999737739563, 0.5400000214576721, 0.009999999776482582, 1.0, 0.0, 1.0, 0.0, 1.0]
    """

    grid = "sinusoidal_2d"
    where = "embeddings"
    extrapolates = "Any height has its vectors, but a model sees angles that it was not trained on."

    def __init__(self, d_model: int, width: int):
        super().__init__()
        if d_model % 4:
            below = d_model // 4 * 4
            raise ConfigError(
                f"sinusoidal_2d positions need a d_model that 4 divides, got {d_model}; use {below} or {below + 4}"
            )
        if width < 1:
            raise ConfigError(f"sinusoidal_2d positions need a grid at least 1 patch wide, got {width}")
        self.d_model, self.width = d_model, width

    def embed(self, x: Embedded, start: int) -> Embedded:
        turns = frequencies(self.d_model // 2, 10000.0, x.device)
        coordinates = places(start, x.shape[-2], self.width, exact(x.device))
        return x + moved(torch.cat([waves(axis[:, None] * turns) for axis in coordinates], dim=-1), x)


def places(
    start: int, length: int, width: int, device: torch.device | None = None
) -> tuple[Int[Tensor, "length"], Int[Tensor, "length"]]:
    """(row, column) of the patches start .. start + length - 1 in a grid of this width.

    >>> [axis.tolist() for axis in places(1, 4, 3)]
    [[0, 0, 1, 1], [1, 2, 0, 1]]
    """
    index = torch.arange(start, start + length, device=device)
    return index.div(width, rounding_mode="floor"), index % width

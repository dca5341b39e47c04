"""The base of every position scheme: four places where position may enter, each doing nothing unless overridden."""

import math
from abc import ABC, abstractmethod
from inspect import signature
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headwise.attention.precision import uncast
from headwise.attention.relative import Relative
from headwise.errors import ConfigError, Unsupported
from headwise.registry import papers

Embedded = Float[Tensor, "*batch length d_model"]
# projected queries or keys
Projected = Float[Tensor, "*batch length head_dim"]
Query = Float[Tensor, "batch heads query_len head_dim"]
Key = Float[Tensor, "batch kv_heads key_len head_dim"]
# where each token stands along each axis of a picture or a film, in place of counting from a start
Ids = Int[Tensor, "#batch axes length"]


class Position(nn.Module, ABC):
    """A way to tell a model where a token stands. `start` is always the position of the first token given.

    Nothing is remembered from one call to the next: tables are made from the parameters as they are. Lengths, `start`,
    `low` and `high` may be symbolic.
    """

    # "embeddings", "queries and keys", "scores", "scores and values" or "nowhere"
    where: ClassVar[str] = "not stated"
    # what happens beyond the trained length, one sentence
    extrapolates: ClassVar[str] = "not stated"
    # author, year, arXiv id; if not stated, those that the documentation names as its source
    paper: ClassVar[str] = "not stated"
    # axes along which the ids of a token may be given to `rotate` in place of a start; 0: it counts from a start
    axes: ClassVar[int] = 0
    # whether a sequence may stand anywhere: nothing but the distance of two tokens counts
    by_distance: ClassVar[bool] = True
    # of a scheme for patches, whose constructor takes the width or the height of their grid: its name in messages
    grid: ClassVar[str] = ""
    # whether a token can be placed without the inputs before it, as a decoder that goes step by step does
    steps: ClassVar[bool] = True

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "paper" not in vars(cls) and (source := papers(cls)):
            cls.paper = source

    @classmethod
    def sized(cls, d_model: int, head_dim: int, num_heads: int, max_len: int) -> "Position":
        """The scheme for a model of these sizes; here it takes those that its constructor names."""
        if cls.grid:
            return cls.on_grid(d_model, head_dim, num_heads, *_grid_of(cls, cls.grid, max_len))
        sizes = {"d_model": d_model, "head_dim": head_dim, "num_heads": num_heads, "max_len": max_len}
        return cls(**{name: size for name, size in sizes.items() if name in signature(cls).parameters})

    @classmethod
    def on_grid(cls, d_model: int, head_dim: int, num_heads: int, height: int, width: int) -> "Position":
        """The scheme for patches that stand row by row; one that knows no rows counts them through."""
        if not cls.grid:
            return cls.sized(d_model, head_dim, num_heads, height * width)
        sizes = {"d_model": d_model, "head_dim": head_dim, "num_heads": num_heads, "height": height, "width": width}
        return cls(**{name: size for name, size in sizes.items() if name in signature(cls).parameters})

    def embed(self, x: Embedded, start: int) -> Embedded:
        """Changes the embeddings."""
        return x

    def rotate(self, heads: Projected, start: int | Ids) -> Projected:
        """Changes projected queries, and keys where `rotate_keys` does not do otherwise."""
        return heads

    def rotate_keys(self, heads: Projected, start: int | Ids) -> Projected:
        """Changes projected keys, for a scheme that tells them from queries."""
        return self.rotate(heads, start)

    def bias(self, query: Query, key: Key, start: int) -> Float[Tensor, "#batch #heads #query_len key_len"] | None:
        """Added to the scores; queries stand from `start` on, keys from 0 on."""
        return None

    def relative(self, query: Query, key: Key, low: int, high: int) -> Relative | None:
        """What distances add to scores and values, as tables for the distances (key - query) from `low` to `high`.

        A scheme that clips distances returns its clipped table, with a `low` of its own.
        """
        return None

    def acts_on_scores(self) -> bool:
        """Whether this scheme adds something to scores or values."""
        kind = type(self)
        return kind.bias is not Position.bias or kind.relative is not Position.relative

    def acts_in_attention(self) -> bool:
        """Whether attention layers have to know this scheme."""
        return self.acts_on_scores() or type(self).rotate is not Position.rotate

    def side_by_side(self) -> bool:
        """Whether keys may stand in another order than their positions, as those of hypotheses that share a cache do.

        Tables of distances can be placed; a bias is taken to count its keys from 0 on unless a scheme says otherwise.
        """
        return type(self).bias is Position.bias


def _grid_of(kind: object, name: str, max_len: int) -> tuple[int, int]:
    """(height, width) of the grid of `max_len` patches: as a recipe writes them after the name, else a square.

    Raises: ConfigError: neither is written, and max_len is no square.
    """
    written = getattr(kind, "written", {})
    height, width = written.get("height"), written.get("width")
    if width is None:
        width = square(name, max_len) if height is None else -(-max_len // max(1, height))
    return -(-max_len // max(1, width)) if height is None else height, width


def square(name: str, length: int) -> int:
    """The width of the square grid of `length` patches. Raises: ConfigError if there is none, naming the nearest."""
    width = math.isqrt(max(0, length))
    if width < 1 or width * width != length:
        raise ConfigError(
            f"{name} positions need a square max_len, the patches of a square image, got {length}; use"
            f" {max(1, width) ** 2} or {(width + 1) ** 2}, or name the grid, such as {name}:width=5"
        )
    return width


class Generated(Position, ABC):
    """x + P, with the rows of P computed in order, from the first one up to the last one asked for.

    Nothing is remembered: a decoder that goes step by step pays t steps for its token t. A compiled program is made
    anew for each length, an exported one has one length.
    """

    where = "embeddings"

    @abstractmethod
    def vectors(self, length: int) -> Float[Tensor, "length d_model"]:
        """The vectors of the positions 0 .. length - 1, at least one, in float32 or wider."""

    def embed(self, x: Embedded, start: int) -> Embedded:
        end = start + x.shape[-2]
        if torch.compiler.is_exporting() and not isinstance(end, int):
            raise Unsupported(
                f"{type(self).__name__} positions are computed one after the other, so an exported program has one"
                " length; export it with a fixed length, or use sinusoidal, rotary or t5 positions"
            )
        # rounding errors of a recurrence add up: no half precision inside
        with uncast(x):
            return x + self.vectors(max(1, end))[start:end].to(x.dtype)

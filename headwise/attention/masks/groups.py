"""Masks that part positions into groups, whose members see one another: of given ids, blocks, and places of a grid."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Int, Integer
from torch import Tensor

from headwise.attention.masks.mask import check_sizes, check_whole
from headwise.attention.masks.patterns import Near
from headwise.attention.structure import Band, Place, Structure
from headwise.errors import ConfigError, ShapeError


class Grouped(Near, ABC):
    """Base of masks under which query and key meet if their positions have one group id.

    The kernel `groups` sorts positions by their group and computes the pairs of each group alone.
    """

    @abstractmethod
    def group(self, position: Tensor) -> Int[Tensor, "..."]:
        """The group of each position."""

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return self.group(query) == self.group(key)

    def structure(self, place: Place | None = None) -> Structure:
        return Structure(self, place, within=self._within(), groups=self.group, seen_by_own_query=True)

    def reason(self, batch: int, head: int, query: int, key: int) -> str:
        groups = self.group(torch.tensor([query, key])).tolist()
        return f"query {query} is in group {groups[0]}, key {key} in group {groups[1]}"


@dataclass(frozen=True, eq=False)
class Groups(Grouped):
    """Query and key have the same id: any partition of the positions, such as a clustering of them.

    >>> Groups(torch.tensor([0, 1, 0])).dense(1, 1, 3, 3)[0, 0].int().tolist()
    [[1, 0, 1], [0, 1, 0], [1, 0, 1]]
    """

    ids: Integer[Tensor, "positions"]

    def __post_init__(self) -> None:
        check_whole(self, "ids", "a whole id for each position", 1)

    def group(self, position: Tensor) -> Int[Tensor, "..."]:
        return self.ids.to(position.device)[position]

    def structure(self, place: Place | None = None) -> Structure:
        last = 0 if place is None else max(place.query_start + place.query_len, place.key_len)
        if last > self.ids.shape[0]:
            raise ShapeError(f"Groups: {self.ids.shape[0]} ids, but positions up to {last - 1}")
        return super().structure(place)


@dataclass(frozen=True, eq=False)
class Blocks(Grouped):
    """Query and key lie in the same block of `size` positions.

    Source: Qiu et al. 2019, arXiv:1911.02972 (block-diagonal attention).

    >>> Blocks(2).dense(1, 1, 3, 3)[0, 0].int().tolist()
    [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    """

    size: int
    least: ClassVar = {"size": 1}

    def group(self, position: Tensor) -> Int[Tensor, "..."]:
        return position // self.size

    def _within(self) -> Band:
        return (self.size - 1, self.size - 1)

    def reason(self, batch: int, head: int, query: int, key: int) -> str:
        return (
            f"query {query} is in block {query // self.size} of {self.size} positions, key {key} in {key // self.size}"
        )


@dataclass(frozen=True, eq=False)
class GridWindows(Grouped):
    """Patches, row by row in a grid `width` wide, see those of their own window of `size` x `size` (Swin).

    Windows begin `shift` patches further down and right: `shift = size // 2` in every second layer lets windows
    exchange. What the shift leaves at the upper and left edge are windows of their own, as Swin's mask has it after its
    roll. Any height; with a `width` that `size` does not divide, the last windows are narrower, where Swin pads.

    Source: Liu et al. 2021, arXiv:2103.14030, section 3.2.

    >>> GridWindows(4, 2).group(torch.arange(8)).unique(return_inverse=True)[1].tolist()
    [0, 0, 1, 1, 0, 0, 1, 1]
    >>> GridWindows(4, 2, 1).group(torch.arange(8)).unique(return_inverse=True)[1].tolist()
    [0, 1, 1, 2, 3, 4, 4, 5]
    """

    width: int
    size: int
    shift: int = 0

    def __post_init__(self) -> None:
        check_sizes(self, width=1, size=1, shift=0)
        if self.shift >= self.size:
            raise ConfigError(f"GridWindows: shift ({self.shift}) must be below size ({self.size})")

    def group(self, position: Tensor) -> Int[Tensor, "..."]:
        row, column = position // self.width, position % self.width
        across = (self.width - 1 - self.shift) // self.size + 2
        return (row - self.shift) // self.size * across + (column - self.shift) // self.size


@dataclass(frozen=True, eq=False)
class Rows(Grouped):
    """Patches, row by row in a grid `width` wide, see those of their own row: one of the two axes of axial attention.

    Source: Ho et al. 2019, arXiv:1912.12180, section 3.

    >>> Rows(2).dense(1, 1, 4, 4)[0, 0].int().tolist()
    [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]
    """

    width: int
    least: ClassVar = {"width": 1}

    def group(self, position: Tensor) -> Int[Tensor, "..."]:
        return position // self.width

    def _within(self) -> Band:
        return (self.width - 1, self.width - 1)


@dataclass(frozen=True, eq=False)
class Columns(Grouped):
    """Patches, row by row in a grid `width` wide, see those of their own column: the other axis of axial attention.

    `Rows(8) | Columns(8)` in one layer is the cross of both.

    Source: Ho et al. 2019, arXiv:1912.12180, section 3.

    >>> Columns(2).dense(1, 1, 4, 4)[0, 0].int().tolist()
    [[1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1]]
    """

    width: int
    least: ClassVar = {"width": 1}

    def group(self, position: Tensor) -> Int[Tensor, "..."]:
        return position % self.width


@dataclass(frozen=True, eq=False)
class Lattice(Grouped):
    """Patches, row by row in a grid `width` wide, see those whole steps away, down and across: MaxViT's grid attention.

    For MaxViT's grid of G x G over an image of H x W patches, `step` is H / G.

    Source: Tu et al. 2022, arXiv:2204.01697, section 3.2.

    >>> Lattice(4, 2).group(torch.arange(8)).tolist()
    [0, 1, 0, 1, 2, 3, 2, 3]
    """

    width: int
    step: int
    least: ClassVar = {"width": 1, "step": 1}

    def group(self, position: Tensor) -> Int[Tensor, "..."]:
        row, column = position // self.width, position % self.width
        return row % self.step * self.step + column % self.step

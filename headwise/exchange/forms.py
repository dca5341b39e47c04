"""How a tensor of ours follows from tensors of another program, and they from it."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


class Form(ABC):
    """A change of form that loses nothing, in both directions."""

    @abstractmethod
    def inward(self, theirs: Sequence[Tensor]) -> Tensor:
        """Our tensor."""

    @abstractmethod
    def outward(self, ours: Tensor) -> list[Tensor]:
        """Theirs."""


@dataclass(frozen=True)
class Same(Form):
    """One tensor, with axes of length 1 in front where theirs has some.

    Args:
        front: how many.
    """

    front: int = 0

    def inward(self, theirs: Sequence[Tensor]) -> Tensor:
        return theirs[0].reshape(theirs[0].shape[self.front :])

    def outward(self, ours: Tensor) -> list[Tensor]:
        return [ours.reshape((1,) * self.front + ours.shape)]


@dataclass(frozen=True)
class Packed(Form):
    """Matrices of ours one below the other, each one of theirs.

    Args:
        heights: rows of each.
    """

    heights: tuple[int, ...]

    def inward(self, theirs: Sequence[Tensor]) -> Tensor:
        return torch.cat(list(theirs))

    def outward(self, ours: Tensor) -> list[Tensor]:
        return list(ours.split(list(self.heights)))


class Turned(Form):
    """Theirs multiplies from the right: (in, out) in place of (out, in)."""

    def inward(self, theirs: Sequence[Tensor]) -> Tensor:
        return theirs[0].mT

    def outward(self, ours: Tensor) -> list[Tensor]:
        return [ours.mT]


@dataclass(frozen=True)
class Below(Form):
    """Theirs has rows in front that are never read; ours has none, and they come back as zeros.

    Args:
        skipped: how many.
    """

    skipped: int

    def inward(self, theirs: Sequence[Tensor]) -> Tensor:
        return theirs[0][self.skipped :]

    def outward(self, ours: Tensor) -> list[Tensor]:
        return [torch.cat([ours.new_zeros(self.skipped, *ours.shape[1:]), ours])]


@dataclass(frozen=True)
class Added(Form):
    """A table to which the first row of another is always added; that row comes back as zeros.

    Args:
        skipped: rows in front of the table that are never read.
        kinds: rows of the other table.
    """

    skipped: int
    kinds: int

    def inward(self, theirs: Sequence[Tensor]) -> Tensor:
        return theirs[0][self.skipped :] + theirs[1][0]

    def outward(self, ours: Tensor) -> list[Tensor]:
        return [*Below(self.skipped).outward(ours), ours.new_zeros(self.kinds, ours.shape[1])]


SAME = Same()


@dataclass(frozen=True)
class Row:
    """A tensor of ours and those of theirs.

    Args:
        residual: axes of ours along the residual stream, whose columns lie in another order in families with
            sinusoids by halves.
        also: others of theirs that ours is made of, which are written as parts of other rows.
    """

    ours: str
    theirs: tuple[str, ...]
    form: Form = SAME
    residual: tuple[int, ...] = ()
    also: tuple[str, ...] = ()

    def inward(self, tensors: Mapping[str, Tensor], order: Tensor | None) -> Tensor:
        """Our tensor.

        Args:
            order: for each of our columns of the residual stream the number of theirs; None: the same.
        """
        tensor = self.form.inward([tensors[name] for name in (*self.theirs, *self.also)])
        return self._ordered(tensor, order)

    def outward(self, tensor: Tensor, order: Tensor | None) -> dict[str, Tensor]:
        """Their tensors by name."""
        back = None if order is None else order.argsort()
        return dict(zip(self.theirs, self.form.outward(self._ordered(tensor, back)), strict=True))

    def _ordered(self, tensor: Tensor, order: Tensor | None) -> Tensor:
        if order is None:
            return tensor
        for axis in self.residual:
            tensor = tensor.index_select(axis, order.to(tensor.device))
        return tensor


def interleaved(width: int) -> Tensor:
    """For each column of sinusoids in pairs (sine, cosine) its number where all sines come first.

    >>> interleaved(6).tolist()
    [0, 3, 1, 4, 2, 5]
    """
    return torch.arange(width).view(2, width // 2).mT.flatten()

"""Batches: rows of tokens packed flat, cut to length, padded to tensors; which rows go together is in `buckets`."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from headwise.errors import ShapeError

# what becomes of pairs that are too long
LongRule = Literal["drop", "truncate", "truncate_source"]


class Ragged:
    """Rows of token numbers of different length in one flat array; made once, so that batches need no Python per token.

    >>> rows = Ragged.of([[5, 6, 7], [], [8]])
    >>> len(rows), rows[0].tolist(), rows.lengths.tolist()
    (3, [5, 6, 7], [3, 0, 1])
    """

    def __init__(self, values: np.ndarray, lengths: np.ndarray) -> None:
        if int(lengths.sum()) != len(values):
            raise ShapeError(f"lengths add up to {int(lengths.sum())}, but there are {len(values)} values")
        self.values = values
        self.lengths = lengths
        self.starts = np.cumsum(lengths) - lengths

    @classmethod
    def of(cls, rows: Sequence[Sequence[int] | np.ndarray]) -> "Ragged":
        lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        values = np.fromiter(itertools.chain.from_iterable(rows), dtype=np.int32, count=int(lengths.sum()))
        return cls(values, lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, row: int) -> np.ndarray:
        start = self.starts[row]
        return self.values[start : start + self.lengths[row]]

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[row] for row in range(len(self)))

    def take(self, rows: np.ndarray) -> "Ragged":
        """These rows, in this order."""
        lengths = self.lengths[rows]
        begins = np.cumsum(lengths) - lengths
        places = np.repeat(self.starts[rows] - begins, lengths) + np.arange(lengths.sum())
        return Ragged(self.values[places], lengths)

    def cut(self, longest: int) -> "Ragged":
        """Every row without what is beyond `longest` tokens."""
        if not len(self) or int(self.lengths.max()) <= longest:
            return self
        position = np.arange(len(self.values)) - np.repeat(self.starts, self.lengths)
        return Ragged(self.values[position < longest], np.minimum(self.lengths, longest))


@dataclass(frozen=True, slots=True)
class Fitted:
    """Rows within the length limits, which examples they are, how many were too long, how many of these were cut."""

    sources: Ragged
    targets: Ragged
    kept: np.ndarray
    too_long: int
    cut: int = 0


def fit_lengths(
    sources: Ragged, targets: Ragged, *, max_source_len: int, max_target_len: int, too_long: LongRule
) -> Fitted:
    """Drops or truncates the pairs with a side longer than its limit, in tokens without begin and end.

    "truncate_source" truncates sources, and drops pairs with longer targets, which would teach to end too early.

    >>> rows = Ragged.of([[4, 5, 6], [7]])
    >>> fitted = fit_lengths(rows, rows, max_source_len=2, max_target_len=5, too_long="drop")
    >>> fitted.kept.tolist(), fitted.too_long
    ([1], 1)
    """
    fits = (sources.lengths <= max_source_len) & (targets.lengths <= max_target_len)
    count = int(len(fits) - fits.sum())
    if too_long == "truncate":
        return Fitted(sources.cut(max_source_len), targets.cut(max_target_len), np.arange(len(fits)), count, count)
    rows = np.flatnonzero(fits if too_long == "drop" else targets.lengths <= max_target_len)
    chosen = sources.take(rows)
    return Fitted(chosen.cut(max_source_len), targets.take(rows), rows, count, int((~fits[rows]).sum()))


_TENSORS = ("src", "src_lens", "tgt_in", "tgt_out", "tgt_lens")


B = TypeVar("B", bound="OnDevice")


@dataclass(frozen=True, slots=True, eq=False)
class OnDevice:
    """A dataclass whose tensors move to a device together."""

    def to(self: B, device: torch.device | str) -> B:
        """The same on a device; a mask finds the device by itself."""
        # a copy to the host has to have ended before its numbers are read
        waits = torch.device(device).type == "cpu"
        moved: dict[str, Any] = {}
        for name in (spec.name for spec in fields(self)):
            value = getattr(self, name)
            if isinstance(value, Tensor):
                moved[name] = value.to(device, non_blocking=not waits)
            elif isinstance(value, OnDevice):
                moved[name] = value.to(device)
        return replace(self, **moved)


@dataclass(frozen=True, slots=True)
class PairBatch(OnDevice):
    """Padded sentence pairs: the decoder reads `tgt_in` (begin, then the target), learns `tgt_out` (target, then end).

    The source ends in the end token; it may be an image or a sound in place of tokens, whose length is the number of
    positions that are attended to. Lengths count begin or end. `references` are the texts with which outputs are
    compared, for each example; of one that is not scored, none.
    """

    src: (
        Int[Tensor, "batch src_len"]
        | UInt8[Tensor, "batch channels height width"]
        | Float[Tensor, "batch frames bands"]
    )
    src_lens: Int[Tensor, "batch"]
    tgt_in: Int[Tensor, "batch tgt_len"]
    tgt_out: Int[Tensor, "batch tgt_len"]
    tgt_lens: Int[Tensor, "batch"]
    indices: list[int]
    num_target_tokens: int
    references: list[list[str]] = field(default_factory=list)

    @property
    def num_tokens(self) -> int:
        """Real target tokens, the end tokens among them."""
        return self.num_target_tokens

    def take(self, rows: Sequence[int]) -> "PairBatch":
        """These rows of the batch, as wide as it is.

        >>> collate([[5, 6], [7]], [[8], [9, 4]], [1, 0], pad_id=0, bos_id=1, eos_id=2).take([1]).src.tolist()
        [[5, 6, 2]]
        """
        if list(rows) == list(range(len(self.indices))):
            return self
        tensors = {name: getattr(self, name)[list(rows)] for name in _TENSORS}
        return replace(
            self,
            **tensors,
            indices=[self.indices[row] for row in rows],
            num_target_tokens=int(tensors["tgt_lens"].sum()),
            references=[self.references[row] for row in rows] if self.references else [],
        )


def collate(
    sources: Ragged | Sequence[Sequence[int]],
    targets: Ragged | Sequence[Sequence[int]],
    indices: Sequence[int],
    *,
    pad_id: int,
    bos_id: int,
    eos_id: int,
) -> PairBatch:
    """Pads the examples at `indices` to one batch of int64 tensors; no Python work per token.

    Even an empty source has something to attend to: the end token. Raises: ShapeError: no indices.

    >>> batch = collate([[5, 6], [7]], [[8], [9, 4]], [1, 0], pad_id=0, bos_id=1, eos_id=2)
    >>> batch.src.tolist(), batch.tgt_in.tolist(), batch.tgt_out.tolist()
    ([[7, 2, 0], [5, 6, 2]], [[1, 9, 4], [1, 8, 0]], [[9, 4, 2], [8, 2, 0]])
    """
    if not len(indices):
        raise ShapeError("a batch needs at least one example")
    source, target = _chosen(sources, indices), _chosen(targets, indices)
    tgt_lens = target.lengths + 1
    return PairBatch(
        src=padded(source, pad_id, last=eos_id),
        src_lens=torch.from_numpy(source.lengths + 1),
        tgt_in=padded(target, pad_id, first=bos_id),
        tgt_out=padded(target, pad_id, last=eos_id),
        tgt_lens=torch.from_numpy(tgt_lens),
        indices=list(indices),
        num_target_tokens=int(tgt_lens.sum()),
    )


def pair_lengths(sources: Ragged, targets: Ragged) -> np.ndarray:
    """How many tokens each pair takes in a batch of `collate`: an array (pairs, 2), begin or end counted."""
    return np.stack([sources.lengths, targets.lengths], axis=1) + 1


def _chosen(rows: Ragged | Sequence[Sequence[int]], indices: Sequence[int]) -> Ragged:
    if isinstance(rows, Ragged):
        return rows.take(np.asarray(indices, dtype=np.int64))
    return Ragged.of([rows[index] for index in indices])


def padded(
    rows: Ragged, pad_id: int, *, first: int | None = None, last: int | None = None
) -> Int[Tensor, "rows width"]:
    """The rows as one int64 tensor, with `first` before and `last` behind each."""
    begin = int(first is not None)
    width = int(rows.lengths.max()) + begin + int(last is not None)
    table = np.full((len(rows), width), pad_id, dtype=np.int64)
    column = np.arange(width)
    table[(column >= begin) & (column < rows.lengths[:, None] + begin)] = rows.values
    if first is not None:
        table[:, 0] = first
    if last is not None:
        table[np.arange(len(rows)), rows.lengths + begin] = last
    return torch.from_numpy(table)


# in place of the tag of padding, and of a word whose tag is not known
NO_TAG = -1

"""Batches from one long text, in memory or in files side by side: windows in random order, or parallel streams."""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from typing import overload

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from headwise.data.batches import OnDevice
from headwise.data.buckets import permutation
from headwise.data.sources import Drawn, Source
from headwise.errors import ConfigError, DataError, ShapeError

# numbers of a block that is read together, and blocks whose numbers are shuffled together
_BLOCK, _BLOCKS = 1 << 12, 1 << 8
# streams of random bits that the order of the blocks does not use
_STREAMS = 1 << 48

# (first, last + 1) -> what stands at these places
Places = Callable[[int, int], np.ndarray]


class Portions(Sequence[list[int]]):
    """Numbers in batches of `size`, each made when it is asked for; the last one may be smaller.

    >>> list(Portions(5, 2, np.arange))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, count: int, size: int, places: Places) -> None:
        self._count, self._size, self._places = count, size, places

    def __len__(self) -> int:
        return -(-self._count // self._size)

    @overload
    def __getitem__(self, place: int) -> list[int]: ...
    @overload
    def __getitem__(self, place: slice) -> list[list[int]]: ...
    def __getitem__(self, place: int | slice) -> list[int] | list[list[int]]:
        if isinstance(place, slice):
            return [self[batch] for batch in range(*place.indices(len(self)))]
        if not 0 <= place < len(self):
            raise IndexError(place)
        start = place * self._size
        numbers: list[int] = self._places(start, min(start + self._size, self._count)).tolist()
        return numbers


def shuffled_places(count: int, seed: int, stream: int) -> Places:
    """A permutation of 0..count-1 by seed and stream alone.

    Up to a million (2^20) are shuffled as a whole. Of more, blocks of 4,096 neighbours are shuffled, and then the
    numbers of 256 blocks at a time: what is read within some time lies in 256 places, and memory is that of a million
    numbers and of one number a block. What is left at the end joins the last blocks.

    >>> shuffled_places(5, 0, 0)(0, 5).tolist()
    [3, 4, 1, 0, 2]
    """
    group = _BLOCK * _BLOCKS
    if count <= group:
        order = permutation(count, seed, stream)
        return lambda start, stop: order[start:stop]
    blocks = permutation(count // _BLOCK, seed, stream)
    last = -(-len(blocks) // _BLOCKS) - 1

    @lru_cache(maxsize=2)
    def members(number: int) -> np.ndarray:
        own = blocks[number * _BLOCKS : (number + 1) * _BLOCKS]
        numbers = (own[:, None] * _BLOCK + np.arange(_BLOCK)).ravel()
        if number == last:
            numbers = np.concatenate([numbers, np.arange(len(blocks) * _BLOCK, count)])
        return numbers[permutation(len(numbers), seed, _STREAMS + (stream << 24) + number)]

    def places(start: int, stop: int) -> np.ndarray:
        numbers = range(min(start // group, last), min((stop - 1) // group, last) + 1)
        pieces = [members(number)[max(0, start - number * group) : stop - number * group] for number in numbers]
        return np.concatenate(pieces)

    return places


class Shards:
    """Flat arrays, such as files that are mapped, in the place of one that would have to be put together.

    Args:
        parts: arrays of one type, none of them empty.

    >>> Shards([np.array([3, 1]), np.array([4])])[1:3].tolist()
    [1, 4]
    """

    def __init__(self, parts: Sequence[np.ndarray]) -> None:
        self.parts = list(parts)
        self._starts = list(accumulate(map(len, self.parts), initial=0))

    def __len__(self) -> int:
        """Numbers of all arrays."""
        return self._starts[-1]

    def __getitem__(self, places: slice) -> np.ndarray:
        """The numbers of a slice: a view where they are in one array. Raises: ShapeError for a step other than one."""
        start, stop, step = places.indices(len(self))
        if step != 1:
            raise ShapeError(f"a slice of shards has no step, got {step}")
        pieces: list[np.ndarray] = []
        number = bisect_right(self._starts, start) - 1
        while start < stop:
            begin = self._starts[number]
            pieces.append(self.parts[number][start - begin : stop - begin])
            number += 1
            start = self._starts[number]
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces) if pieces else self.parts[0][:0]

    def first(self, count: int) -> "Shards":
        """The first numbers, which are not read."""
        count = min(count, len(self))
        number = max(1, bisect_right(self._starts, count - 1))
        parts = self.parts[:number]
        return Shards([*parts[:-1], parts[-1][: count - self._starts[number - 1]]])


# the numbers of a text, wherever they are
Tokens = np.ndarray | Shards


@dataclass(frozen=True)
class Text:
    """A text as token numbers, in memory or mapped from files.

    Args:
        tokens: what stands before the text, such as a line end, and the tokens of the text.
    """

    tokens: Tokens
    chars: int | float

    def __len__(self) -> int:
        """Tokens of the text."""
        return len(self.tokens) - 1

    def first(self, count: int) -> "Text":
        """Its first tokens, and their share of the characters."""
        length = min(count, len(self))
        tokens = self.tokens
        beginning = tokens.first(length + 1) if isinstance(tokens, Shards) else tokens[: length + 1]
        return Text(beginning, self.chars * length / max(1, len(self)))


@dataclass
class Carry:
    """What a model takes from one batch of a stream to the next, such as the memory of each layer.

    The stream hands it on, and saves it; it is empty at the beginning of a pass.
    """

    tensors: list[Tensor] = field(default_factory=list)


@dataclass(frozen=True)
class Memory:
    """The form of what a model carries: `layers` tensors of (rows, the last `length` tokens or fewer, `width`)."""

    layers: int
    length: int
    width: int


@dataclass(frozen=True)
class TextBatch(OnDevice):
    """Windows of a text: each token of `inputs` stands before that of `targets`.

    Args:
        lens: real tokens of each row; 0 for a row whose text is at its end.
        chars: characters of the raw text that the targets stand for.
        indices: where in the text each row begins.
        carry: of a stream, whose rows go on from those of the batch before.
    """

    inputs: Int[Tensor, "rows length"]
    targets: Int[Tensor, "rows length"]
    lens: Int[Tensor, "rows"]
    num_tokens: int
    chars: int | float
    indices: list[int]
    carry: Carry | None = field(default=None, compare=False)


def text_batch(text: Text, windows: list[tuple[int, int]], carry: Carry | None = None) -> TextBatch:
    """Windows (start, stop) of a text as a batch; only what they hold is read.

    >>> batch = text_batch(Text(np.array([1, 5, 6, 7]), chars=3), [(0, 2), (2, 3)])
    >>> batch.inputs.tolist(), batch.targets.tolist(), batch.lens.tolist()
    ([[1, 5], [6, 0]], [[5, 6], [7, 0]], [2, 1])
    """
    lens = [stop - start for start, stop in windows]
    rows = np.zeros((2, len(windows), max(lens)), dtype=np.int64)
    for row, (start, stop) in enumerate(windows):
        rows[0, row, : stop - start] = text.tokens[start:stop]
        rows[1, row, : stop - start] = text.tokens[start + 1 : stop + 1]
    inputs, targets = torch.from_numpy(rows)
    count = sum(lens)
    starts = [start for start, _ in windows]
    return TextBatch(inputs, targets, torch.tensor(lens), count, count * text.chars / max(1, len(text)), starts, carry)


def windows(text: Text, length: int, rows: int, *, seed: int = 0, shuffle: bool = True) -> Drawn[TextBatch]:
    """Windows of `length` tokens, `rows` in a batch, each seen by itself.

    Args:
        shuffle: every pass cuts the text at another place and takes the windows in another order, both by seed and
            pass alone; what is left at the two ends is not seen in that pass. More than a million windows are shuffled
            by blocks (`shuffled_places`). False: from the first token to the last in order, the last window as long
            as it is.
    """
    count = len(text)

    def draw(seed: int, epoch: int) -> Portions:
        if not shuffle:
            return Portions(-(-count // length), rows, lambda start, stop: length * np.arange(start, stop))
        room = max(1, min(length, count - length + 1))
        # numbers of their own, so that the cut tells nothing of the order
        offset = int(permutation(room, seed, 2 * epoch + 1)[0])
        num_windows = max(1, (count - offset) // length)
        places = shuffled_places(num_windows, seed, 2 * epoch)
        return Portions(num_windows, rows, lambda start, stop: offset + length * places(start, stop))

    def collate(starts: list[int]) -> TextBatch:
        return text_batch(text, [(start, min(start + length, count)) for start in starts])

    _check(text, length, rows)
    return Drawn(draw, collate, seed=seed)


class Stream(Source[TextBatch]):
    """A text as `rows` parallel streams of consecutive windows: row i of a batch goes on where row i ended before.

    A pass reads every token once. Processes share the rows. Nothing is read but the windows that are taken.

    Args:
        memory: the form of what the model carries, to which a restored stream is held; None: any.

    >>> stream = Stream(Text(np.arange(8), chars=7), length=2, rows=2)
    >>> [batch.inputs.tolist() for batch in stream.take(2)]
    [[[0, 1], [3, 4]], [[2, 0], [5, 6]]]
    """

    def __init__(self, text: Text, length: int, rows: int, memory: Memory | None = None) -> None:
        _check(text, length, rows)
        self.text, self.length, self.memory = text, length, memory
        # rows differ by one token at most
        self.bounds = [len(text) * row // rows for row in range(rows + 1)]
        self._carry = Carry()

    def take(self, count: int, rank: int = 0, world: int = 1) -> list[TextBatch]:
        rows = range(rank, len(self.bounds) - 1, world)
        end = min(self.position + count, self.size())
        if self.position == 0:
            self._carry = Carry()
        steps = range(self.position, end) if rows else ()
        batches = [text_batch(self.text, self._windows(step, rows), self._carry) for step in steps]
        self.position = end
        if self.position == self.size():
            self.epoch, self.position = self.epoch + 1, 0
        return batches

    def example(self) -> TextBatch:
        # with a memory of its own, so that nothing of it is carried on
        return text_batch(self.text, self._windows(0, range(1)), Carry())

    def size(self) -> int:
        longest = max(stop - start for start, stop in zip(self.bounds, self.bounds[1:], strict=False))
        return -(-longest // self.length)

    def tensors(self) -> dict[str, Tensor]:
        return {str(place): tensor for place, tensor in enumerate(self._carry.tensors)} if self.position else {}

    def together(self, shares: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
        joined: dict[str, Tensor] = {}
        rows = len(self.bounds) - 1
        for name in shares[0]:
            # a process without rows carries nothing
            parts = [share[name] for share in shares if name in share]
            joined[name] = parts[0].new_empty((rows, *parts[0].shape[1:]))
            for rank, part in enumerate(parts):
                joined[name][rank :: len(shares)] = part
        return joined

    def restore(self, state: Mapping[str, int], tensors: Mapping[str, Tensor], rank: int = 0, world: int = 1) -> None:
        super().restore(state, tensors)
        carried = self._fitting(tensors, len(self.bounds) - 1)
        self._carry = Carry(carried if world == 1 else [tensor[rank::world] for tensor in carried])

    def _fitting(self, tensors: Mapping[str, Tensor], rows: int) -> list[Tensor]:
        """What was carried to this place, in its order. Raises: ShapeError for another number, shape or type."""
        memory = self.memory
        count = len(tensors) if memory is None else memory.layers if self.position else 0
        names = [str(place) for place in range(count)]
        if tensors.keys() != set(names):
            listed = ", ".join(sorted(tensors)) or "none"
            raise ShapeError(f"{count} tensors, named from 0, are carried to batch {self.position}; here are {listed}")
        if memory is not None:
            shape = [rows, min(memory.length, self.position * self.length), memory.width]
            for name, tensor in tensors.items():
                if list(tensor.shape) != shape or not tensor.is_floating_point():
                    wrong = f"'{name}' is {tensor.dtype} {list(tensor.shape)}"
                    raise ShapeError(f"{wrong}, not numbers of a floating type {shape}")
        return [tensors[name] for name in names]

    def _windows(self, step: int, rows: range) -> list[tuple[int, int]]:
        ends = [self.bounds[row + 1] for row in rows]
        starts = [min(self.bounds[row] + step * self.length, end) for row, end in zip(rows, ends, strict=True)]
        return [(start, min(start + self.length, end)) for start, end in zip(starts, ends, strict=True)]


def _check(text: Text, length: int, rows: int) -> None:
    if length < 1 or rows < 1:
        raise ConfigError(f"a batch needs at least one row ({rows}) of at least one token ({length})")
    if not len(text):
        raise DataError("the text has no token")

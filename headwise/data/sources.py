"""Where batches come from: an endless order of them that any process can share and any place can be resumed from."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

import numpy as np
from torch import Tensor

from headwise.data.buckets import permutation, token_batches
from headwise.errors import DataError

B = TypeVar("B")

# (seed, epoch) -> batches of example numbers, decided by these two alone
Draw = Callable[[int, int], Sequence[Sequence[int]]]


@dataclass(frozen=True, slots=True)
class Limits:
    """How large batches are, and what decides their order.

    Args:
        tokens: budget of a batch in padded tokens.
        count: the side of the examples that the budget counts.
        examples: only the first so many of a split.
    """

    tokens: int
    sentences: int | None = None
    count: Literal["longest", "target"] = "longest"
    seed: int = 0
    examples: int | None = None


class Source(ABC, Generic[B]):
    """Hands out batches pass after pass over its data; `state` and `restore` continue anywhere, any number of times.

    `epoch` is the number of passes done, `position` the place in the present one, 0 between two.
    """

    epoch: int = 0
    position: int = 0

    @abstractmethod
    def take(self, count: int, rank: int = 0, world: int = 1) -> list[B]:
        """The share of process `rank` of `world` in the next step of `count` batches, which may be nothing.

        Fewer batches where the pass ends: a step never reaches over two. All processes together take what one would,
        and move on by the same. Where there are fewer batches than processes, each batch is cut into as many parts.
        """

    @abstractmethod
    def example(self) -> B:
        """A batch as small as there is, wherever the source stands: for a process that has no share of a step."""

    @abstractmethod
    def size(self) -> int:
        """Batches of the present pass."""

    def examples(self) -> int | None:
        """Examples of the present pass; None where batches are not made of any."""
        return None

    def progress(self) -> float:
        """Passes done, the present one as a fraction."""
        return self.epoch + (self.position / self.size() if self.position else 0.0)

    def state(self) -> dict[str, int]:
        """Where the source stands, for `restore`."""
        return {"epoch": self.epoch, "position": self.position}

    def tensors(self) -> dict[str, Tensor]:
        """What is carried from batch to batch besides, for `restore`."""
        return {}

    def together(self, shares: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
        """What all processes carry, from the `tensors` of each in order: the same, however many there are."""
        return dict(shares[0])

    def restore(self, state: Mapping[str, int], tensors: Mapping[str, Tensor], rank: int = 0, world: int = 1) -> None:
        """Continues at a place that `state` and `together` told, as process `rank` of `world`.

        Raises: DataError: when the pass has no such place; ShapeError: for tensors that no batch carried to this place.
        """
        if missing := {"epoch", "position"} - state.keys():
            raise DataError(f"the place in the training data has no {min(missing)}")
        if state["epoch"] < 0:
            raise DataError(f"epoch {state['epoch']} of the training data comes before the first one, 0")
        self.epoch, self.position = state["epoch"], state["position"]
        if not 0 <= self.position < self.size():
            raise DataError(
                f"the training data has {self.size()} batches in epoch {self.epoch}, "
                f"but the checkpoint stands at batch {self.position}: it was made with other data"
            )

    def once(self, rank: int = 0, world: int = 1) -> Iterator[B]:
        """What is left of the present pass, batch by batch: the share of process `rank` of `world`."""
        epoch = self.epoch
        while self.epoch == epoch:
            yield from self.take(1, rank, world)


class Drawn(Source[B]):
    """Batches whose order is a pure function of seed and epoch: nothing but the place has to be remembered.

    >>> source = Drawn(lambda seed, epoch: [[(seed + epoch + i) % 3] for i in range(3)], list, seed=7)
    >>> first = source.take(2)
    >>> again = Drawn(source.draw, list, seed=7)
    >>> again.restore({"epoch": 0, "position": 2}, {})
    >>> again.take(2) == source.take(2), len(first), source.epoch
    (True, 2, 1)
    """

    def __init__(self, draw: Draw, collate: Callable[[list[int]], B], *, seed: int, divisible: bool = True) -> None:
        self.draw = draw
        self._collate = collate
        self._seed = seed
        self._divisible = divisible
        self._drawn = -1
        self._order: Sequence[Sequence[int]] = []

    def take(self, count: int, rank: int = 0, world: int = 1) -> list[B]:
        batches = self._advanced(count)
        # the fewest parts of each that give every process one
        parts = -(-world // len(batches)) if self._divisible else 1
        pieces = [list(batch[part::parts]) for batch in batches for part in range(parts)]
        return [self._collate(piece) for piece in pieces[rank::world] if piece]

    def once(self, rank: int = 0, world: int = 1) -> Iterator[B]:
        # whole batches, as one process would make them
        for place in range(self.position, len(self._batches())):
            (batch,) = self._advanced(1)
            if place % world == rank:
                yield self._collate(list(batch))

    def example(self) -> B:
        first = self._batches()[0]
        return self._collate(list(first[:1]) if self._divisible else list(first))

    def size(self) -> int:
        return len(self._batches())

    def examples(self) -> int:
        return sum(map(len, self._batches()))

    def _advanced(self, count: int) -> Sequence[Sequence[int]]:
        """The next `count` batches, or as many as the pass has; the source stands behind them."""
        order = self._batches()
        start, end = self.position, min(self.position + count, len(order))
        self.position = end
        if end == len(order):
            self.epoch, self.position = self.epoch + 1, 0
        return order[start:end]

    def _batches(self) -> Sequence[Sequence[int]]:
        if self._drawn != self.epoch:
            self._order = self.draw(self._seed, self.epoch)
            self._drawn = self.epoch
        if not len(self._order):
            raise DataError("the training data gives no batches: is it empty, or is training.batch_tokens too small?")
        return self._order


def bucketed(
    lengths: np.ndarray, collate: Callable[[list[int]], B], limits: Limits, *, shuffle: bool = True
) -> Drawn[B]:
    """Batches of examples of similar length within a budget of padded tokens.

    Args:
        lengths: (examples, sides), tokens as they will stand in a batch; the last side is the target.
        shuffle: False: sorted by length, the same in every pass, for evaluation.
    """
    lengths = lengths[: limits.examples]

    def draw(seed: int, epoch: int) -> list[list[int]]:
        # an example longer than the budget is scored alone; in training it is an error
        longest = 0 if shuffle else int(lengths.max(initial=0))
        return token_batches(
            lengths,
            max_tokens=max(limits.tokens, longest),
            max_sentences=limits.sentences,
            count=limits.count,
            seed=seed,
            epoch=epoch,
            shuffle=shuffle,
        )

    return Drawn(draw, collate, seed=limits.seed)


def shuffled(
    count: int, size: int, collate: Callable[[list[int]], B], *, seed: int = 0, shuffle: bool = True
) -> Drawn[B]:
    """Batches of `size` examples each, for examples that are all of one size; the last one may be smaller."""

    def draw(seed: int, epoch: int) -> list[list[int]]:
        order = permutation(count, seed, epoch) if shuffle else np.arange(count)
        return [order[start : start + size].tolist() for start in range(0, count, size)]

    return Drawn(draw, collate, seed=seed)


def spread(
    count: int, size: int, collate: Callable[[list[int]], B], limits: Limits, *, shuffle: bool = True
) -> Drawn[B]:
    """As `shuffled`, of the first `limits.examples` in an order that has nothing to do with where examples stand.

    Examples of one class often stand side by side: the first ones of a file are no fair sample.

    Args:
        shuffle: False: the same order in every pass, for evaluation.
    """
    order = spread_places(count, limits.examples)
    return shuffled(len(order), size, lambda places: collate(order[places].tolist()), seed=limits.seed, shuffle=shuffle)


def spread_places(count: int, limit: int | None) -> np.ndarray:
    """Which of `count` examples `spread` has where it may have `limit`."""
    return permutation(count, 0, 0)[:limit]


def whole(make: Callable[[], B]) -> Drawn[B]:
    """One batch that is all the data, such as a graph: a pass is a step, and the first process does the work."""
    return Drawn(lambda seed, epoch: [[0]], lambda _: make(), seed=0, divisible=False)

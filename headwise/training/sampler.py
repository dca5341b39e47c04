"""The order of batches as a pure function of seed and epoch, with a state of two numbers."""

from collections.abc import Callable

from headwise.errors import DataError

# (seed, epoch) -> batches of example numbers, decided by these two alone
Draw = Callable[[int, int], list[list[int]]]


class Sampler:
    """Hands out batches epoch after epoch; `state` and `restore` continue anywhere, any number of times.

    An epoch is drawn anew when it is entered, so nothing but the place has to be remembered.

    >>> sampler = Sampler(lambda seed, epoch: [[(seed + epoch + i) % 3] for i in range(3)], seed=7)
    >>> first = sampler.take(2)
    >>> again = Sampler(sampler.draw, seed=7)
    >>> again.restore({"epoch": 0, "position": 2})
    >>> again.take(2) == sampler.take(2), len(first), sampler.epoch
    (True, 2, 1)
    """

    def __init__(self, draw: Draw, *, seed: int) -> None:
        self.draw = draw
        self.epoch = 0
        self.position = 0
        self._seed = seed
        self._drawn = -1
        self._batches: list[list[int]] = []

    def take(self, count: int) -> list[list[int]]:
        """The next `count` batches, fewer where the epoch ends: a step never reaches over two epochs."""
        order = self._order()
        taken = order[self.position : self.position + count]
        self.position += len(taken)
        if self.position == len(order):
            self.epoch, self.position = self.epoch + 1, 0
        return taken

    def batches_per_epoch(self) -> int:
        """Batches in the epoch that `take` draws from next."""
        return len(self._order())

    def progress(self) -> float:
        """Epochs done, the present one as a fraction."""
        return self.epoch + (self.position / self.batches_per_epoch() if self.position else 0.0)

    def state(self) -> dict[str, int]:
        """Where the sampler stands, for `restore`."""
        return {"epoch": self.epoch, "position": self.position}

    def restore(self, state: dict[str, int]) -> None:
        """Continues at a place that `state` told. Raises: DataError when the epoch has no such place."""
        self.epoch, self.position = state["epoch"], state["position"]
        if not 0 <= self.position < self.batches_per_epoch():
            raise DataError(
                f"the training data has {self.batches_per_epoch()} batches in epoch {self.epoch}, "
                f"but the checkpoint stands at batch {self.position}: it was made with other data"
            )

    def _order(self) -> list[list[int]]:
        if self._drawn != self.epoch:
            self._batches = self.draw(self._seed, self.epoch)
            self._drawn = self.epoch
        if not self._batches:
            raise DataError("the training data gives no batches: is it empty, or is training.batch_tokens too small?")
        return self._batches

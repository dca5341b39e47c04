"""The book's stop watch and its running sums."""

import itertools
import time
from typing import Any


def as_number(value: Any) -> float:
    """A number, or that of a tensor with one element, its graph left aside.

    >>> as_number(2)
    2.0
    """
    return float(value.item() if hasattr(value, "item") else value)


class Timer:
    """A stop watch that begins when it is made and collects what each `stop` measured.

    >>> timer = Timer()
    >>> timer.stop() >= 0, len(timer.times)
    (True, 1)
    """

    def __init__(self) -> None:
        self.times: list[float] = []
        self.start()

    def start(self) -> None:
        """Begins a new measurement."""
        self._since = time.perf_counter()

    def stop(self) -> float:
        """Ends the measurement and returns its seconds."""
        self.times.append(time.perf_counter() - self._since)
        return self.times[-1]

    def avg(self) -> float:
        """The mean of all measurements, in seconds."""
        return sum(self.times) / len(self.times)

    def sum(self) -> float:
        """All measurements together, in seconds."""
        return sum(self.times)

    def cumsum(self) -> list[float]:
        """The sums of the first, the first two, ... measurements, in seconds."""
        return list(itertools.accumulate(self.times))


class Accumulator:
    """Sums over n variables.

    >>> metric = Accumulator(2)
    >>> metric.add(3.0, 2)
    >>> metric.add(1.0, 2)
    >>> metric[0] / metric[1]
    1.0
    """

    def __init__(self, n: int):
        self.data = [0.0] * n

    def add(self, *args: Any) -> None:
        """Adds a number, or a tensor with one element, to each sum."""
        self.data = [total + as_number(value) for total, value in zip(self.data, args, strict=True)]

    def reset(self) -> None:
        """Sets all sums to zero."""
        self.data = [0.0] * len(self.data)

    def __getitem__(self, idx: int) -> float:
        return self.data[idx]

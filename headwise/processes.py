"""The processes of a distributed run, as a launcher such as torchrun starts them, and what they exchange."""

import functools
import itertools
import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, cast

from headwise.cancellation import poll_cancellation
from headwise.errors import ConfigError, HeadwiseError, MachineError

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup, Store

T = TypeVar("T")
I = TypeVar("I")  # noqa: E741

# how long to wait for a silent process: inside a step, and where one works alone, as for checkpoints
_STEP_TIMEOUT, _ALONE_TIMEOUT = timedelta(minutes=10), timedelta(minutes=30)
_ROLL_CALL_S = 3.0
_START_TIMEOUT = timedelta(minutes=5)
_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK")


class Processes(ABC):
    """Process `rank` of `world` (from 0), the `local` one of its machine; all processes call every method."""

    rank: int
    world: int
    local: int

    @property
    def first(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0

    @abstractmethod
    def gather(self, value: T) -> list[T]:
        """The values of all processes, in order."""

    @abstractmethod
    def numbers(self, *values: int | float) -> list[list[float]]:
        """As `gather`, for equally many numbers: fast enough for every step."""

    @abstractmethod
    def once(self, work: Callable[[], T]) -> T:
        """The result of `work` in the first process, for all; its exception is raised in all and reported by one."""

    @abstractmethod
    def gone(self, error: BaseException) -> str | None:
        """Which process is missing, if that caused the error: the beginning of a message."""

    def added(self, counts: Mapping[str, float | int]) -> dict[str, float]:
        """The sum of counts by name over all processes."""
        total: dict[str, float] = {}
        for part in self.gather(dict(counts)):
            for name, value in part.items():
                total[name] = total.get(name, 0.0) + value
        return total


class Alone(Processes):
    """The only process of an ordinary start; `torch.distributed` is not loaded."""

    rank, world, local = 0, 1, 0

    def gather(self, value: T) -> list[T]:
        return [value]

    def numbers(self, *values: int | float) -> list[list[float]]:
        return [[float(value) for value in values]]

    def once(self, work: Callable[[], T]) -> T:
        return work()

    def gone(self, error: BaseException) -> str | None:
        return None


ALONE = Alone()


class Group(Processes):
    """Processes that `torch.distributed` connects.

    Args:
        control: a group over gloo for objects; tensors of a model go over the default group.
        store: shared notes, which outlive any process under torchrun; None if another program made the default group.
    """

    def __init__(self, rank: int, world: int, local: int, control: "ProcessGroup", store: "Store | None" = None):
        self.rank, self.world, self.local = rank, world, local
        self.control, self._store = control, store

    def gather(self, value: T) -> list[T]:
        import torch.distributed as distributed

        values: list[Any] = [None] * self.world
        distributed.all_gather_object(values, value, group=self.control)
        return values

    def numbers(self, *values: int | float) -> list[list[float]]:
        import torch
        import torch.distributed as distributed

        own = torch.tensor(values, dtype=torch.float64, device="cpu")
        rows = [torch.empty_like(own) for _ in range(self.world)]
        # the default group of this package has a shorter timeout
        distributed.all_gather(rows, own, group=self.control if self._store is None else None)
        return [row.tolist() for row in rows]

    def once(self, work: Callable[[], T]) -> T:
        import torch.distributed as distributed

        outcome: list[Any] = [None]
        failure: BaseException | None = None
        if self.first:
            try:
                outcome = [(True, work())]
            except BaseException as error:
                failure = error
                reportable = isinstance(error, HeadwiseError)
                outcome = [(False, error if reportable else MachineError(f"{self} failed: {error!r}"))]
        distributed.broadcast_object_list(outcome, src=0, group=self.control)
        if failure is not None:
            raise failure
        succeeded, result = outcome[0]
        if not succeeded:
            raise result.reported_by(False)
        return cast(T, result)

    def gone(self, error: BaseException) -> str | None:
        import torch.distributed as distributed

        if not isinstance(error, distributed.DistError) and not re.search("(?i)gloo|nccl|connection", str(error)):
            return None
        missing = " or ".join(str(rank + 1) for rank in self._missing())
        if missing:
            return f"process {missing} of {self.world} is gone"
        return f"the connection to another of {self.world} processes is lost"

    def _missing(self) -> list[int]:
        """The processes that do not answer a roll call over the store."""
        others = [rank for rank in range(self.world) if rank != self.rank]
        if self._store is None:
            return []
        try:
            self._store.set(f"here/{self.rank}", "here")
            until = time.monotonic() + _ROLL_CALL_S
            while others and time.monotonic() < until:
                others = [rank for rank in others if not self._store.check([f"here/{rank}"])]
                time.sleep(0.05)
        except RuntimeError:  # the process that is gone had the store
            return []
        return others

    def __str__(self) -> str:
        return f"process {self.rank + 1} of {self.world}"


def launched() -> tuple[int, int, int] | None:
    """Rank, world size and local rank, if a launcher started this process. Raises: ConfigError for wrong variables."""
    values = [os.environ.get(name) for name in _VARIABLES]
    if values[0] is None or values[1] is None:
        return None
    try:
        rank, world, local = (int(value or 0) for value in values)
    except ValueError:
        rank, world, local = 0, 0, 0
    if not 0 <= rank < world or local < 0:
        settings = ", ".join(f"{name}={value}" for name, value in zip(_VARIABLES, values, strict=True))
        raise ConfigError(f"the launcher's variables make no sense: {settings}; unset them, or start with torchrun")
    return rank, world, local


@contextmanager
def process_group(device: str = "auto", *, alone_too: bool = False) -> Iterator[Processes]:
    """The processes of this launch, connected; the connection is closed at the end.

    Args:
        device: cpu, cuda or auto, as in a recipe: the device of the tensors that processes exchange.
        alone_too: connect even one process with itself.
    """
    place = launched()
    if (place is None or place[1] == 1) and not alone_too:
        yield ALONE
        return
    import torch

    rank, world, local = place or (0, 1, 0)
    on_gpu = device == "cuda" or (device == "auto" and torch.cuda.is_available())
    if on_gpu:
        torch.cuda.set_device(local % max(1, torch.cuda.device_count()))
    own = not torch.distributed.is_initialized()
    store = _connected(rank, world, on_gpu) if own else None
    try:
        group = Group(rank, world, local, torch.distributed.new_group(backend="gloo", timeout=_ALONE_TIMEOUT), store)
        try:
            yield group
        except RuntimeError as error:
            if gone := group.gone(error):
                raise MachineError(gone) from error
            raise
    finally:
        if own:
            torch.distributed.destroy_process_group()


def _connected(rank: int, world: int, on_gpu: bool) -> "Store":
    import torch.distributed as distributed

    try:
        backend = "cpu:gloo,cuda:nccl" if on_gpu else "gloo"
        # a process may join several times in a row, each with its own part of the store
        store = _store() if world > 1 else distributed.HashStore()
        part = distributed.PrefixStore(f"headwise {next(_JOINED)}", store)
        distributed.init_process_group(backend, store=part, rank=rank, world_size=world, timeout=_STEP_TIMEOUT)
    except (RuntimeError, ValueError) as error:
        why = str(error).partition("\n")[0]
        raise MachineError(f"process {rank + 1} of {world} does not reach the others: {why}") from None
    return part


@functools.cache
def _store() -> "Store":
    """The store of this process, at the address in the launcher's variables."""
    from torch.distributed.rendezvous import rendezvous

    return cast("Store", next(rendezvous("env://", timeout=_START_TIMEOUT))[0])


_JOINED = itertools.count()
_SHARING: ContextVar[Processes] = ContextVar("sharing", default=ALONE)


@contextmanager
def sharing(processes: Processes) -> Iterator[None]:
    """Inside, `divided` shares its items among these processes, all of which must call it alike."""
    token = _SHARING.set(processes)
    try:
        yield
    finally:
        _SHARING.reset(token)


def divided(work: Callable[[I], T], items: Iterable[I], *, alone: bool = False) -> Iterable[tuple[I, T]]:
    """Each item with its result, in order; inside `sharing` every process computes a part of them.

    Args:
        alone: every process computes all, since results depend on those before, as with random numbers.

    >>> list(divided(abs, [3, -2]))
    [(3, 3), (-2, 2)]
    """
    processes = _SHARING.get()
    if processes.world == 1 or alone:
        return ((item, _polled(work, item)) for item in items)
    every = list(items)
    return zip(every, _shared(processes, work, every), strict=True)


def _polled(work: Callable[[I], T], item: I) -> T:
    poll_cancellation()
    return work(item)


def _shared(processes: Processes, work: Callable[[I], T], items: Sequence[I]) -> list[T]:
    own = together(processes, lambda: [work(item) for item in items[processes.rank :: processes.world]])
    shares = processes.gather(own)
    return [shares[number % processes.world][number // processes.world] for number in range(len(items))]


def together(processes: Processes, work: Callable[[], T]) -> T:
    """The result of the work of this process; a failure of one process is raised in all, so that none waits.

    Of processes that failed alike the first one reports it; those that did not fail report nothing.
    """
    results: list[T] = []
    failure: Exception | None = None
    try:
        results = [work()]
    except Exception as error:
        failure = error
    failures = processes.gather(failure if failure is None else f"{type(failure).__name__}: {failure}")
    if isinstance(failure, HeadwiseError):
        failure.reported_by(failures.index(failures[processes.rank]) == processes.rank)
    if failure is not None:
        raise failure
    if others := [message for message in failures if message is not None]:
        raise MachineError(f"another process failed: {others[0]}").reported_by(False)
    return results[0]

"""The processes that share a work, as a launcher such as torchrun started them, and what they tell each other."""

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

from headwise.errors import ConfigError, HeadwiseError, MachineError
from headwise.wanted import ask

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup, Store

T = TypeVar("T")
I = TypeVar("I")  # noqa: E741

# waited for one that falls silent: inside a step, where all do the same, and where one works alone, as for checkpoints
_SILENCE, _ALONE = timedelta(minutes=10), timedelta(minutes=30)
_ROLL_CALL_S = 3.0
# so long the first waits for the last to start
_START = timedelta(minutes=5)
_PLACE = ("RANK", "WORLD_SIZE", "LOCAL_RANK")


class Processes(ABC):
    """Process `rank` of `world` (from 0), the `local` one of its machine; every method but `first` is called by all."""

    rank: int
    world: int
    local: int

    @property
    def first(self) -> bool:
        """Whether this is the one that writes and speaks."""
        return self.rank == 0

    @abstractmethod
    def gather(self, value: T) -> list[T]:
        """The value of every process, in order, for all of them."""

    @abstractmethod
    def numbers(self, *values: int | float) -> list[list[float]]:
        """As `gather`, for as many numbers each: quick enough for every step."""

    @abstractmethod
    def once(self, work: Callable[[], T]) -> T:
        """What `work` returns in the first process, for all; what it raises is raised in all, to be told by one."""

    @abstractmethod
    def gone(self, error: BaseException) -> str | None:
        """Which process is missing, if that is what an error comes from: the beginning of a message."""

    def added(self, counts: Mapping[str, float]) -> dict[str, float]:
        """The sum of counts by name over all processes."""
        total: dict[str, float] = {}
        for one in self.gather(dict(counts)):
            for name, value in one.items():
                total[name] = total.get(name, 0) + value
        return total


class Alone(Processes):
    """The one process of an ordinary start: nothing is told, and nothing of `torch.distributed` is loaded."""

    rank, world, local = 0, 1, 0

    def gather(self, value: T) -> list[T]:
        return [value]

    def numbers(self, *values: int | float) -> list[list[float]]:
        return [[float(value) for value in values]]

    def once(self, work: Callable[[], T]) -> T:
        return work()

    def gone(self, error: BaseException) -> str | None:
        return None

    def added(self, counts: Mapping[str, float]) -> dict[str, float]:
        return dict(counts)


ALONE = Alone()


class Group(Processes):
    """Processes that `torch.distributed` connects.

    Args:
        control: a group over gloo, for what is told; tensors of a model go over the default group.
        store: where all can leave notes, which outlives any of them under torchrun; None where others connected them.
    """

    def __init__(self, rank: int, world: int, local: int, control: "ProcessGroup", store: "Store | None" = None):
        self.rank, self.world, self.local = rank, world, local
        self.control, self._store = control, store

    def gather(self, value: T) -> list[T]:
        import torch.distributed as distributed

        found: list[Any] = [None] * self.world
        distributed.all_gather_object(found, value, group=self.control)
        return found

    def numbers(self, *values: int | float) -> list[list[float]]:
        import torch
        import torch.distributed as distributed

        own = torch.tensor(values, dtype=torch.float64, device="cpu")
        found = [torch.empty_like(own) for _ in range(self.world)]
        # the default group, where it is this package's own, gives up earlier
        distributed.all_gather(found, own, group=self.control if self._store is None else None)
        return [one.tolist() for one in found]

    def once(self, work: Callable[[], T]) -> T:
        import torch.distributed as distributed

        outcome: list[Any] = [None]
        failure: BaseException | None = None
        if self.first:
            try:
                outcome = [(True, work())]
            except BaseException as error:
                failure = error
                told = error if isinstance(error, HeadwiseError) else MachineError(f"{self} failed: {error!r}")
                outcome = [(False, told)]
        distributed.broadcast_object_list(outcome, src=0, group=self.control)
        if failure is not None:
            raise failure
        done, found = outcome[0]
        if not done:
            raise found.told_by(False)
        return cast(T, found)

    def gone(self, error: BaseException) -> str | None:
        import torch.distributed as distributed

        if not isinstance(error, distributed.DistError) and not re.search("(?i)gloo|nccl|connection", str(error)):
            return None
        missing = " or ".join(str(rank + 1) for rank in self._missing())
        found = f"process {missing} of {self.world} is gone"
        return found if missing else f"the connection to another of {self.world} processes is lost"

    def _missing(self) -> list[int]:
        """The processes that do not answer a call of the roll, if there is anything to call it by."""
        others = [rank for rank in range(self.world) if rank != self.rank]
        if self._store is None:
            return []
        try:
            self._store.set(f"here/{self.rank}", "here")
            until = time.monotonic() + _ROLL_CALL_S
            while others and time.monotonic() < until:
                others = [rank for rank in others if not self._store.check([f"here/{rank}"])]
                time.sleep(0.05)
        except RuntimeError:  # it was kept by the process that is gone
            return []
        return others

    def __str__(self) -> str:
        return f"process {self.rank + 1} of {self.world}"


def launched() -> tuple[int, int, int] | None:
    """Rank, number and local rank of this process, if a launcher started several. Raises: ConfigError for nonsense."""
    given = [os.environ.get(name) for name in _PLACE]
    if given[0] is None or given[1] is None:
        return None
    try:
        rank, world, local = (int(value or 0) for value in given)
    except ValueError:
        rank, world, local = 0, 0, 0
    if not 0 <= rank < world or local < 0:
        told = ", ".join(f"{name}={value}" for name, value in zip(_PLACE, given, strict=True))
        raise ConfigError(f"the launcher's variables make no sense: {told}; unset them, or start with torchrun")
    return rank, world, local


@contextmanager
def joined(device: str = "auto", *, alone_too: bool = False) -> Iterator[Processes]:
    """The processes that this one was started with; what connects them is taken down at the end.

    Args:
        device: cpu, cuda or auto, as in a recipe: what the tensors are on that go from process to process.
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
        group = Group(rank, world, local, torch.distributed.new_group(backend="gloo", timeout=_ALONE), store)
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
        # a process may join several times, one after another: each time has its own part of the store
        store = _store() if world > 1 else distributed.HashStore()
        part = distributed.PrefixStore(f"headwise {next(_JOINED)}", store)
        distributed.init_process_group(backend, store=part, rank=rank, world_size=world, timeout=_SILENCE)
    except (RuntimeError, ValueError) as error:
        why = str(error).partition("\n")[0]
        raise MachineError(f"process {rank + 1} of {world} does not reach the others: {why}") from None
    return part


@functools.cache
def _store() -> "Store":
    """The one store of this process, which the launcher's variables lead to."""
    from torch.distributed.rendezvous import rendezvous

    return cast("Store", next(rendezvous("env://", timeout=_START))[0])


_JOINED = itertools.count()
_SHARING: ContextVar[Processes] = ContextVar("sharing", default=ALONE)


@contextmanager
def sharing(processes: Processes) -> Iterator[None]:
    """Inside, what is `divided` is shared by these processes, all of which must do the same."""
    token = _SHARING.set(processes)
    try:
        yield
    finally:
        _SHARING.reset(token)


def divided(work: Callable[[I], T], items: Iterable[I], *, alone: bool = False) -> Iterable[tuple[I, T]]:
    """Each item with what the work makes of it, in order; inside `sharing` every process does a part of them.

    Args:
        alone: each process does all, since what comes later depends on what came before, as random numbers do.

    >>> list(divided(abs, [3, -2]))
    [(3, 3), (-2, 2)]
    """
    processes = _SHARING.get()
    if processes.world == 1 or alone:
        return ((item, _asked(work, item)) for item in items)
    every = list(items)
    return zip(every, _shared(processes, work, every), strict=True)


def _asked(work: Callable[[I], T], item: I) -> T:
    ask()
    return work(item)


def _shared(processes: Processes, work: Callable[[I], T], items: Sequence[I]) -> list[T]:
    own = together(processes, lambda: [work(item) for item in items[processes.rank :: processes.world]])
    shares = processes.gather(own)
    return [shares[place % processes.world][place // processes.world] for place in range(len(items))]


def together(processes: Processes, work: Callable[[], T]) -> T:
    """What the work of this process returns; a failure of one is raised in all, so that nobody waits for the rest.

    Of processes that failed alike the first one says it; those that did not fail leave it to those that did.
    """
    made: list[T] = []
    failure: Exception | None = None
    try:
        made = [work()]
    except Exception as error:
        failure = error
    told = processes.gather(failure if failure is None else f"{type(failure).__name__}: {failure}")
    if isinstance(failure, HeadwiseError):
        failure.told_by(told.index(told[processes.rank]) == processes.rank)
    if failure is not None:
        raise failure
    if failed := [one for one in told if one is not None]:
        raise MachineError(f"another process failed: {failed[0]}").told_by(False)
    return made[0]

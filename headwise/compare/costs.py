"""Operations, time and memory of a pass, and the power of a size that they grow with."""

import gc
import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, Literal

import torch
from scipy import stats
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode, flop_registry, sdpa_flop_count

from headwise import runtime
from headwise.compare.subjects import Subject, layer, tokens
from headwise.compare.verdicts import Interval
from headwise.errors import ConfigError, MachineError, Unsupported

# a short pass is repeated until it takes this long
_LEAST_S = 0.02
# with fewer sizes no interval is narrow enough to decide anything
LEAST_SIZES = 4
# where products take this share of the time of a pass, it is theirs that grows with the size
DOMINANT = 0.5
_FUSED = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
# what PyTorch counts operations of, and what it does not: fused attention on a CPU, and recurrent layers of oneDNN
_PRODUCTS = {
    *flop_registry,
    _FUSED,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward,
    torch.ops.aten.mkldnn_rnn_layer,
    torch.ops.aten.mkldnn_rnn_layer_backward,
}
_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")

Quantity = Literal["operations", "seconds", "bytes"]
Size = Literal["length", "width"]


def exponent(sizes: Sequence[float | int], values: Sequence[float | int]) -> Interval:
    """The power of the size that values grow with: the slope of their logarithms, and its 95 % interval (Student's t).

    Raises: ConfigError: fewer than four sizes, or a value that is not above 0, which no power gives.

    >>> round(exponent([1, 2, 4, 8], [3, 12, 48, 192]).value, 9)
    2.0
    """
    if len(sizes) < LEAST_SIZES:
        raise ConfigError(f"an exponent needs {LEAST_SIZES} sizes or more, got {len(sizes)}")
    if min(values) <= 0:
        raise ConfigError("a measurement is 0, which grows with no power; measure larger sizes")
    x, y = ([math.log(number) for number in numbers] for numbers in (sizes, values))
    if len(set(y)) == 1:
        # scipy divides by what is 0 then
        return Interval.exact(0.0)
    line = stats.linregress(x, y)
    return Interval.around(float(line.slope), float(line.stderr), len(sizes) - 2)


def sizes(first: int, last: int, count: int) -> list[int]:
    """So many whole numbers from the first to the last, each about the same number of times the one before.

    Raises: ConfigError where there are not so many.

    >>> sizes(256, 2048, 7)
    [256, 362, 512, 724, 1024, 1448, 2048]
    """
    if count < LEAST_SIZES or not 0 < first < last:
        raise ConfigError(f"sizes from {first} to {last}: give {LEAST_SIZES} or more, from a small one to a large one")
    numbers = [round(first * (last / first) ** (step / (count - 1))) for step in range(count)]
    if len(set(numbers)) < count:
        raise ConfigError(f"there are no {count} different sizes from {first} to {last}; give fewer, or a wider range")
    return numbers


def operations(what: Subject, length: int, width: int) -> int:
    """Multiplications and additions in the matrix products of a forward pass, as they are done, counted by PyTorch.

    A recurrent layer is counted cell by cell. A fused kernel counts as the whole square of its pairs, masked or not.
    Elementwise functions are not counted.

    Raises: Unsupported where PyTorch counts nothing: 0 is no measurement.

    >>> from headwise.compare.subjects import subject
    >>> operations(subject("plain"), 64, 16) == 4 * 64 * 64 * 16
    True
    """

    def fused(query: Any, key: Any, value: Any, *_: Any, out_shape: Any = None, **__: Any) -> int:
        return sdpa_flop_count(query, key, value)

    mapping = {_FUSED: fused}
    mixer, x = layer(what, length, width, unrolled=True), tokens(length, width)
    with FlopCounterMode(display=False, custom_mapping=mapping) as counter, torch.no_grad():
        mixer(x)
    if not (count := counter.get_total_flops()):
        raise Unsupported(f"{what.name}: PyTorch counts no operation of this pass, so there is nothing to compare")
    return count


def one_pass(what: Subject, length: int, width: int, *, backward: bool, batch: int = 1) -> Callable[[], None]:
    """A forward pass without gradients, or one forward and backward, of so many sequences."""
    mixer, x = layer(what, length, width), tokens(length, width, batch=batch)
    if backward:
        x.requires_grad_(True)
    parameters = [parameter for parameter in mixer.parameters() if parameter.requires_grad]

    def run() -> None:
        with nullcontext() if backward else torch.no_grad():
            output = mixer(x)
        if backward:
            torch.autograd.grad(output, [x, *parameters], torch.ones_like(output), allow_unused=True)

    return run


def seconds(
    passes: Sequence[Callable[[], None]], rounds: int, clock: Callable[[], float] = process_time
) -> list[float]:
    """CPU seconds of each pass: the least of several rounds, for what disturbs a measurement makes it longer."""
    return [min(times) for times in rounds_of(passes, rounds, clock)]


def rounds_of(
    passes: Sequence[Callable[[], None]], rounds: int, clock: Callable[[], float] = process_time
) -> list[list[float]]:
    """CPU seconds of each pass in each round; in each round the passes come in another order.

    Tensors take the memory of those freed before them. That of new pages, which the system fills with zeros, is left
    out: where scores are kept, they would be half of the time. The process keeps freed memory from here on.
    """
    runtime.keep_freed_memory()
    repeats = []
    for run in passes:
        run()
        repeats.append(max(1, math.ceil(_LEAST_S / max(_timed(run, 1, clock), 1e-6))))
    times: list[list[float]] = [[] for _ in passes]
    order, shuffled = list(range(len(passes))), random.Random(0)
    for _ in range(rounds):
        shuffled.shuffle(order)
        for at in order:
            times[at].append(_timed(passes[at], repeats[at], clock))
    return times


def _timed(run: Callable[[], None], repeats: int, clock: Callable[[], float]) -> float:
    start = clock()
    for _ in range(repeats):
        run()
    return (clock() - start) / repeats


class _Products(TorchDispatchMode):
    """Notes the calls of a pass that multiply matrices."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Callable[[], object]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        call = partial(func, *args, **(kwargs or {}))
        if func.overloadpacket in _PRODUCTS:
            self.calls.append(call)
        return call()


def product_share(run: Callable[[], None], rounds: int = 3) -> float:
    """The share of the CPU time of a pass that its products take, called alone with the same tensors.

    Products are the operators that PyTorch counts operations of, and what fuses them. What calling them costs, which
    is the time of as many products of two numbers, is not theirs. From 0 to 1.

    >>> from headwise.compare.subjects import subject
    >>> 0 < product_share(one_pass(subject("plain"), 256, 64, backward=False)) <= 1
    True
    """
    with _Products() as products:
        run()
    number = torch.ones(1, 1)

    def alone() -> None:
        with torch.no_grad():
            for call in products.calls:
                call()

    def called() -> None:
        for _ in products.calls:
            torch.ops.aten.mm.default(number, number)

    if not products.calls:
        return 0.0
    whole, part, calling = seconds([run, alone, called], rounds)
    return min(1.0, max(0.0, part - calling) / whole)


def peak_bytes(run: Callable[[], None]) -> int:
    """Bytes that a pass adds to the resident memory of this process at its height, after a first one.

    From here on the process gives freed memory back at once, until passes are timed.

    Raises: MachineError where there is no /proc of Linux.
    """
    if not _CLEAR.exists():
        raise MachineError("memory is measured by /proc/self/clear_refs, which only Linux has")
    # what is in use is measured, and not what the allocator keeps or cannot join
    runtime.return_freed_memory()
    # the first one compiles, and builds what is kept for later calls
    run()
    gc.collect()
    # what was freed must not count as room that is there already
    runtime.release_freed_memory()
    _CLEAR.write_text("5")
    before = _peak()
    run()
    return max(0, _peak() - before)


def _peak() -> int:
    """The height of the resident memory since it was last cleared, in bytes."""
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
    return 1024 * int(line.split()[1])


@dataclass(frozen=True)
class Growth:
    """How one quantity of one subject grows with a size.

    Args:
        size: which of them grows.
        theory: the power that is stated for it; None where none is.
        shares: of its seconds, what products take, size by size; empty for what is no time.
    """

    subject: str
    size: Size
    quantity: Quantity
    at: tuple[int, ...]
    values: tuple[float, ...]
    theory: float | None
    shares: tuple[float, ...] = ()

    @property
    def fitted(self) -> tuple[int, ...]:
        """The sizes whose values tell how products grow: where these take half of the time or more; of counts all."""
        return tuple(
            size for size, share in zip(self.at, self.shares or (1.0,) * len(self.at), strict=True) if share >= DOMINANT
        )

    @property
    def exponent(self) -> Interval:
        """Over the sizes that are fitted. Raises: ConfigError as `exponent`, so also where products dominate at few.

        >>> shares = (0.1, 0.5, 0.6, 0.8, 0.9)
        >>> Growth("a", "length", "seconds", (1, 2, 4, 8, 16), (9.0, 2.0, 4.0, 8.0, 16.0), 1.0, shares).exponent
        Interval(value=1.0, low=1.0, high=1.0)
        """
        values = dict(zip(self.at, self.values, strict=True))
        return exponent(self.fitted, [values[size] for size in self.fitted])


def growth(
    what: Subject,
    size: Size,
    at: Sequence[int],
    fixed: int,
    *,
    quantities: Iterable[Quantity] = ("operations", "seconds", "bytes"),
    backward: bool = False,
    rounds: int = 5,
) -> list[Growth]:
    """Measures a subject at several lengths of one width, or at several widths of one length, on one thread.

    Args:
        fixed: the size that stays.
        backward: time and memory of a pass forward and backward.
        rounds: measurements of time, of which the least counts.
    Raises: Unsupported as `operations`, and where a mechanism cannot be built for these sizes.
    """
    shapes = [(number, fixed) if size == "length" else (fixed, number) for number in at]
    theory = what.length if size == "length" else what.width

    def measured(quantity: Quantity) -> Growth:
        # the space that is stated is not that of the time
        facts = (what.name, size, quantity, tuple(at))
        if quantity == "operations":
            return Growth(*facts, tuple(float(operations(what, *shape)) for shape in shapes), theory)
        passes = [one_pass(what, *shape, backward=backward) for shape in shapes]
        if quantity == "bytes":
            return Growth(*facts, tuple(float(peak_bytes(run)) for run in passes), None)
        return Growth(*facts, tuple(seconds(passes, rounds)), theory, tuple(map(product_share, passes)))

    with runtime.threads_of(1):
        return [measured(quantity) for quantity in quantities]


@dataclass(frozen=True)
class Parallel:
    """Time on the clock of the same work, in sequences of other lengths, on several numbers of threads.

    Args:
        batches: sequences at each length, so that the operations stay about the same.
        seconds: by the number of threads, at each length.
    """

    subject: str
    at: tuple[int, ...]
    batches: tuple[int, ...]
    seconds: Mapping[int, tuple[float, ...]]

    def exponent(self, threads: int) -> Interval:
        """The power of the length that the time of the same work grows with: 0 where tokens are computed at once.

        Raises: ConfigError as `exponent`.
        """
        return exponent(self.at, self.seconds[threads])

    def gain(self, threads: int) -> list[float]:
        """How many times as fast this many threads are as one, length by length."""
        pairs = zip(self.seconds[1], self.seconds[threads], strict=True)
        return [alone / together for alone, together in pairs]


def parallel(
    what: Subject, at: Sequence[int], width: int, threads: Sequence[int] = (1, 2), *, rounds: int = 5
) -> Parallel:
    """Measures forward passes of the same number of operations in few long sequences or many short ones.

    Wall time, so that other work on the machine disturbs it.

    Raises: Unsupported as `operations`.
    """
    counts = [operations(what, length, width) for length in at]
    batches = [max(1, round(max(counts) / count)) for count in counts]
    times = dict[int, tuple[float, ...]]()
    passes = [
        one_pass(what, length, width, backward=False, batch=batch) for length, batch in zip(at, batches, strict=True)
    ]
    for number in threads:
        with runtime.threads_of(number):
            times[number] = tuple(seconds(passes, rounds, perf_counter))
    return Parallel(what.name, tuple(at), tuple(batches), times)


def ratio(growth: Growth, other: Growth) -> list[float]:
    """What one costs as a multiple of the other, size by size. Raises: ConfigError for other sizes."""
    if growth.at != other.at:
        raise ConfigError(f"{growth.subject} and {other.subject} were measured at different sizes")
    return [value / divisor for value, divisor in zip(growth.values, other.values, strict=True)]


def crossing(growth: Growth, other: Growth) -> float | None:
    """The size from which one costs more than the other, on lines between the logarithms; None: nowhere in the range.

    >>> a = Growth("a", "length", "seconds", (1, 2, 4, 8), (1.0, 4.0, 16.0, 64.0), 2.0)
    >>> b = Growth("b", "length", "seconds", (1, 2, 4, 8), (4.0, 8.0, 16.0, 32.0), 1.0)
    >>> round(crossing(a, b), 6)
    4.0
    """
    logs = [math.log(share) for share in ratio(growth, other)]
    if logs[0] > 0:
        return None
    for at in range(len(logs) - 1):
        if logs[at] <= 0 < logs[at + 1] or (logs[at] < 0 <= logs[at + 1]):
            x0, x1 = math.log(growth.at[at]), math.log(growth.at[at + 1])
            return math.exp(x0 - logs[at] * (x1 - x0) / (logs[at + 1] - logs[at]))
    return None

"""The table of what ways to mix tokens cost here, by length and width, and which of them fits."""

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from pydantic import Field

from headwise import runtime
from headwise.attention import plan
from headwise.caches import AttentionStep
from headwise.compare.costs import one_pass, operations, peak_bytes, rounds_of
from headwise.compare.lines import read_lines, write_lines
from headwise.compare.subjects import KERNEL_SIZE, Recurrent, Subject, layer, subjects, tokens
from headwise.config import Config
from headwise.errors import ConfigError, Unsupported
from headwise.layers.attention import MultiHeadAttention
from headwise.locks import turn

TABLE = Path("measured.jsonl")
_DRAWS = 1000
_FLOAT_BYTES = 4


class Measurement(Config):
    """What a forward pass of one subject costs at one size, on one processor."""

    name: str = Field(description="of the way to mix tokens")
    kernel: str = Field(description="that computes it; empty: it has one way")
    length: int = Field(ge=1, description="tokens")
    width: int = Field(ge=1, description="numbers of a token")
    device: str = Field(description="cpu")
    processor: str = Field(description="that it ran on")
    threads: int = Field(ge=1, description="of the processor")
    operations: int = Field(ge=0, description="multiplications and additions of products; 0: PyTorch counts none")
    seconds: list[float] = Field(min_length=1, description="CPU time of a pass, of each round")
    peak_bytes: int = Field(ge=0, description="memory that a pass adds at its height")
    state_bytes: int | None = Field(ge=0, description="kept when tokens come one by one; null: it needs them all")
    release: str = Field(description="of headwise")

    @property
    def key(self) -> tuple[object, ...]:
        """The same for measurements of which the latest counts."""
        return self.name, self.kernel, self.length, self.width, self.device, self.processor, self.threads


def measure(what: Subject, length: int, width: int, rounds: int = 5) -> Measurement:
    """A forward pass on one thread. Raises: Unsupported where it cannot be built; MachineError as `peak_bytes`."""
    with runtime.threads_of(1):
        run = one_pass(what, length, width, backward=False)
        seconds = rounds_of([run], rounds)[0]
        height = peak_bytes(run)
    try:
        count = operations(what, length, width)
    except Unsupported:
        count = 0
    return Measurement(
        name=what.name,
        kernel=_kernel(what, length, width),
        length=length,
        width=width,
        device="cpu",
        processor=runtime.processor(),
        threads=1,
        operations=count,
        seconds=seconds,
        peak_bytes=height,
        state_bytes=state_bytes(what, length, width),
        release=runtime.version(),
    )


def _kernel(what: Subject, length: int, width: int) -> str:
    if what.name != "scored":
        return what.name if what.name == "plain" else ""
    head = torch.empty(1).expand(1, 1, length, width)
    return plan(head, head, head).kernel


def state_bytes(what: Subject, length: int, width: int) -> int | None:
    """Bytes that are kept of this many tokens when they come one by one, of one head as wide as the layer.

    Of attention and its mechanisms it is what their caches hold, of a recurrent layer its state, of a causal
    convolution the tokens that it sees again. None for what needs all tokens at once.

    >>> from headwise.compare.subjects import subject
    >>> [state_bytes(subject(name), 1000, 16) for name in ("scored", "rnn", "lstm", "causal-cnn", "cnn")]
    [128000, 64, 128, 128, None]
    """
    if what.recurrent:
        mixer = layer(what, 2, width)
        assert isinstance(mixer, Recurrent)
        with torch.no_grad():
            state = mixer.cell(tokens(1, width)[:, 0])
        return sum(part.nbytes for part in (state if isinstance(state, tuple) else (state,)))
    if what.name == "causal-cnn":
        return (KERNEL_SIZE - 1) * width * _FLOAT_BYTES
    if what.name == "cnn":
        return None
    name = "scored" if what.name in ("plain", "attention-layer") else what.name
    # what a cache holds grows by the same for each token, or not at all
    single, double = (_held(name, number, width) for number in (1, 2))
    return None if single is None or double is None else single + (double - single) * (length - 1)


def _held(name: str, length: int, width: int) -> int | None:
    try:
        attention = MultiHeadAttention(width, 1, name).train(False)
        cache = attention.new_cache()
        with torch.no_grad():
            for place in range(length):
                attention(tokens(1, width), cache=AttentionStep(cache, place))
    except (Unsupported, ConfigError):
        return None
    return cache.state_bytes()


def read_table(path: Path) -> list[Measurement]:
    """The measurements of a file; of the same thing the latest. Raises: DataError: a line that is none."""
    advice = "name a file that `headwise complexity --table` wrote, or a new one"
    return list({row.key: row for row in read_lines(path, Measurement, "measurement", advice)}.values())


def add_to_table(path: Path, new: Iterable[Measurement]) -> None:
    """Adds measurements to a file, in place of those of the same thing; several processes take turns.

    Raises: as `read_table` and `turn`.
    """
    with turn(path):
        write_lines(path, {row.key: row for row in [*read_table(path), *new]}.values())


@dataclass(frozen=True)
class Estimate:
    """What a pass of a subject costs at a size that lies between those measured.

    Args:
        draws: seconds, each the least of rounds that are drawn again; the first one of all rounds.
        measured: whether this very size was.
    """

    name: str
    kernel: str
    draws: tuple[float, ...]
    peak_bytes: float
    state_bytes: int | None
    measured: bool

    @property
    def seconds(self) -> float:
        return self.draws[0]


def estimate(rows: Sequence[Measurement], length: int, width: int) -> Estimate:
    """Between the nearest measured sizes, on lines through their logarithms.

    Args:
        rows: of one subject on one processor.
    Raises: ConfigError: the size lies outside of those measured, named with the command that measures it.
    """
    name = rows[0].name
    by_width: dict[int, list[Measurement]] = {}
    for row in rows:
        by_width.setdefault(row.width, []).append(row)
    around = {
        at: column
        for at, column in by_width.items()
        if min(row.length for row in column) <= length <= max(row.length for row in column)
    }
    if not around:
        lengths = [row.length for row in rows]
        raise ConfigError(f"{name}: {length:,} tokens lie outside of the {min(lengths):,} to {max(lengths):,} measured")
    if not min(around) <= width <= max(around):
        spans = f"{min(around):,}" if len(around) == 1 else f"{min(around):,} to {max(around):,}"
        raise ConfigError(f"{name}: a width of {width:,} lies outside of the {spans} measured at {length:,} tokens")
    below, above = max(at for at in around if at <= width), min(at for at in around if at >= width)
    # draws of two mechanisms are independent of each other
    drawn = random.Random(name)
    columns = {at: _along(sorted(around[at], key=lambda row: row.length), length, drawn) for at in {below, above}}
    (low, low_peak), (high, high_peak) = columns[below], columns[above]
    nearest = min(rows, key=lambda row: (abs(math.log(row.width / width)), abs(math.log(row.length / length))))
    return Estimate(
        name,
        nearest.kernel,
        tuple(_between(below, above, width, *pair) for pair in zip(low, high, strict=True)),
        _between(below, above, width, low_peak, high_peak),
        state_bytes(subjects()[name], length, width) if name in subjects() else None,
        any((row.length, row.width) == (length, width) for row in rows),
    )


def _along(rows: Sequence[Measurement], length: int, drawn: random.Random) -> tuple[list[float], float]:
    """Seconds of each draw, and bytes, at a length between those of a width."""
    below = max((row for row in rows if row.length <= length), key=lambda row: row.length)
    above = min((row for row in rows if row.length >= length), key=lambda row: row.length)

    def least(row: Measurement, draw: int) -> float:
        return min(drawn.choices(row.seconds, k=len(row.seconds)) if draw else row.seconds)

    seconds = [
        _between(below.length, above.length, length, least(below, draw), least(above, draw)) for draw in range(_DRAWS)
    ]
    return seconds, _between(below.length, above.length, length, below.peak_bytes, above.peak_bytes)


def _between(first: int, second: int, at: int, low: float | int, high: float | int) -> float:
    """The value at a size, on the line through the logarithms of two; of 0 bytes the larger of the two.

    >>> round(_between(1, 4, 2, 10.0, 40.0), 6)
    20.0
    """
    if first == second or min(low, high) <= 0:
        return float(max(low, high))
    share = math.log(at / first) / math.log(second / first)
    return math.exp(math.log(low) + share * math.log(high / low))


@dataclass(frozen=True)
class Advice:
    """What fits, the fastest first, and why others do not.

    Args:
        front: by name, the share of draws in which no other that fits is faster and needs less memory.
    """

    fits: list[Estimate]
    refused: dict[str, str]
    front: dict[str, float]


def advise(
    table: Sequence[Measurement], length: int, width: int, memory: int, *, streaming: bool = False, device: str = "cpu"
) -> Advice:
    """Which way to mix tokens fits into some memory, by what was measured on this device.

    Args:
        memory: bytes that a pass may add, or with `streaming` that may be kept from token to token.
    Raises: ConfigError: nothing was measured there, or not around this size.
    """
    groups: dict[tuple[str, str, int], dict[str, list[Measurement]]] = {}
    for row in table:
        if row.device == device:
            groups.setdefault((row.device, row.processor, row.threads), {}).setdefault(row.name, []).append(row)
    if not groups:
        raise ConfigError(f"nothing was measured on {device}; {_how(length, width)}")
    # of several processors this one, else the one that was measured last
    by_name = next((names for key, names in groups.items() if key[1] == runtime.processor()), [*groups.values()][-1])
    estimates, refused = list[Estimate](), dict[str, str]()
    for name, rows in by_name.items():
        try:
            estimates.append(estimate(rows, length, width))
        except ConfigError as error:
            refused[name] = str(error).removeprefix(f"{name}: ")
    if not estimates:
        raise ConfigError(f"{'; '.join(dict.fromkeys(refused.values()))}; {_how(length, width)}")
    misfits = {row.name: _misfit(row, memory, streaming=streaming) for row in estimates}
    refused |= {name: reason for name, reason in misfits.items() if reason is not None}
    fits = sorted((row for row in estimates if misfits[row.name] is None), key=lambda row: row.seconds)
    return Advice(fits, refused, _front(fits, streaming=streaming))


def _how(length: int, width: int) -> str:
    sizes = f"--from {max(1, length // 4)} --to {2 * length} --fixed {width}"
    return f"measure it: headwise complexity scored linear rnn causal-cnn {sizes} --table {TABLE}"


def reach(name: str, length: int) -> str:
    """What a reader must know of a way that does not see all tokens at once; empty for the others.

    >>> reach("causal-cnn", 9), reach("scored", 9)
    ('sees 3 tokens: 4 layers between the ends', '')
    """
    if name in ("cnn", "causal-cnn"):
        step = KERNEL_SIZE - 1 if name == "causal-cnn" else KERNEL_SIZE // 2
        return f"sees {KERNEL_SIZE} tokens: {-(-(length - 1) // step)} layers between the ends"
    return ""


def _misfit(found: Estimate, memory: int, *, streaming: bool) -> str | None:
    if streaming and found.state_bytes is None:
        return "needs all tokens at once"
    needed = found.state_bytes if streaming else found.peak_bytes
    if needed is not None and needed > memory:
        return f"{'keeps' if streaming else 'needs'} {needed:,.0f} bytes, and there are {memory:,}"
    return None


def _front(fits: Sequence[Estimate], *, streaming: bool) -> dict[str, float]:
    """The share of draws in which each is on the Pareto front of time and memory."""

    def size(fit: Estimate) -> float:
        return fit.peak_bytes if not streaming or fit.state_bytes is None else float(fit.state_bytes)

    counts: dict[str, int] = dict.fromkeys((fit.name for fit in fits), 0)
    for draw in range(_DRAWS):
        best = math.inf
        for fit in sorted(fits, key=lambda fit: (fit.draws[draw], size(fit))):
            if size(fit) < best:
                best = size(fit)
                counts[fit.name] += 1
    return {name: count / _DRAWS for name, count in counts.items()}

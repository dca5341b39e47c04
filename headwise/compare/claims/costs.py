"""Claims about operations, time and memory."""

import datetime
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from headwise.attention import attend
from headwise.attention.scores import Additive, Score
from headwise.compare.claim import Claim, Evidence
from headwise.compare.costs import Growth, Size, crossing, exponent, growth, one_pass, parallel, seconds, sizes
from headwise.compare.subjects import subject
from headwise.compare.verdicts import Cell, Control, Interval, above, below, near
from headwise.layers.attention import MultiHeadAttention

_SOURCE = "Vaswani et al. 2017, Attention is all you need, table 1, arXiv:1706.03762"


# sizes that an exponent of time is judged from
_ENOUGH_SIZES = 8


def _exponents(full: bool) -> Evidence:
    rounds, longer = (7, 2) if full else (3, 1)
    # at the width of 512 products take half of the time, or more, of each of these ways
    spans: dict[Size, tuple[list[int], int]] = {
        "length": (sizes(256 * longer, 4096 * longer, 9), 512),
        "width": (sizes(128, 2048, 13), 256 * longer),
    }
    cells: list[Cell] = []
    for name in ("plain", "scored", "linear", "cnn", "rnn"):
        for size, (at, fixed) in spans.items():
            fits = growth(subject(name), size, at, fixed, quantities=("operations", "seconds"), rounds=rounds)
            cells += [_power(fit) for fit in fits]
    control = next(cell.value for cell in cells if cell.where == "plain, operations over length")
    return cells, [Control("the pairs of tokens are counted as n^2", abs(control - 2) < 1e-9, control)]


def _power(fit: Growth) -> Cell:
    """Near the stated power; undecided where products dominate at too few sizes, of which it then shows all."""
    assert fit.theory is not None, "stated for all of these"
    where, left = f"{fit.subject}, {fit.quantity} over {fit.size}", len(fit.fitted)
    if left < len(fit.at):
        where += f" ({left} of {len(fit.at)} sizes)"
    if left < _ENOUGH_SIZES:
        return replace(near(where, exponent(fit.at, fit.values), fit.theory, 0.15), outcome="undecided")
    return near(where, fit.exponent, fit.theory, 0.15)


def _crossings(full: bool) -> Evidence:
    """The length from which attention costs more than a recurrent layer, as a multiple of the width."""
    width, repeats = 256, 6 if full else 3
    at = tuple(sizes(32, 2048, 9 if full else 7))

    def counted(name: str) -> Growth:
        return growth(subject(name), "length", at, width, quantities=("operations",))[0]

    def timed(*names: str) -> tuple[Growth, Growth]:
        """Both in turn, so that what disturbs one disturbs the other."""
        passes = [one_pass(subject(name), length, width, backward=False) for name in names for length in at]
        times = seconds(passes, 5)
        halves = times[: len(at)], times[len(at) :]
        attention, recurrent = (
            Growth(name, "length", "seconds", at, tuple(half), None) for name, half in zip(names, halves, strict=True)
        )
        return attention, recurrent

    cells, recurrent = list[Cell](), counted("rnn")
    for name, words in (("plain", "the product alone"), ("attention-layer", "the layer with its projections")):
        operations = crossings([(counted(name), recurrent)], width)
        times = crossings([timed(name, "rnn") for _ in range(repeats)], width)
        cells += [above(f"{words}, operations", operations, 0.8), above(f"{words}, seconds", times, 0.8)]
    ends = [counted("plain").values[end] for end in (0, -1)]
    return cells, [Control("more tokens cost more", ends[0] < ends[1], ends[1] / ends[0])]


def crossings(pairs: Sequence[tuple[Growth, Growth]], width: int) -> Interval:
    """The length from which the first of two costs more, as a multiple of the width: over repeats, or exact for one.

    Where it lies beyond the lengths that were measured, an end of these stands for it, and the interval has no limit on
    that side.
    """
    logs, before, beyond = list[float](), False, False
    for first, second in pairs:
        length = crossing(first, second)
        if length is None:
            # dearer from the first length on, or never
            early = first.values[0] > second.values[0]
            before, beyond = before or early, beyond or not early
            length = float(first.at[0] if early else first.at[-1])
        logs.append(math.log(length / width))
    interval = Interval.of(logs) if len(logs) > 1 else Interval.exact(logs[0])
    low, high = (math.exp(end) for end in (interval.low, interval.high))
    return Interval(math.exp(interval.value), 0.0 if before else low, math.inf if beyond else high)


def _turns(passes: Sequence[Callable[[], object]], repeats: int) -> list[list[float]]:
    """CPU seconds of each pass, several times over."""

    def quiet(run: Callable[[], object]) -> Callable[[], None]:
        def once() -> None:
            with torch.no_grad():
                run()

        return once

    return [seconds([quiet(run) for run in passes], 3) for _ in range(repeats)]


def _heads(full: bool) -> Evidence:
    width, counts = 256, (1, 2, 4, 8, 16) if full else (1, 8)
    cells: list[Cell] = []
    for length in (64, 256, 1024) if full else (64, 512):
        x = torch.randn(1, length, width, generator=torch.Generator().manual_seed(0))
        layers = [MultiHeadAttention(width, count).train(False) for count in counts]
        turns = _turns([partial(layer, x) for layer in layers], 5 if full else 3)
        for place, count in enumerate(counts[1:], 1):
            ratio = Interval.of([turn[place] / turn[0] for turn in turns])
            cells.append(near(f"{count} heads, {length} tokens", ratio, 1.025, 0.225))
    numbers = [sum(p.numel() for p in MultiHeadAttention(width, count).parameters()) for count in counts]
    return cells, [Control("all have as many parameters", len(set(numbers)) == 1, float(numbers[0]))]


def _additive(full: bool) -> Evidence:
    cells: list[Cell] = []
    lengths, widths = ((64, 256, 1024), (16, 64, 256)) if full else ((64, 256), (16, 64))
    for length in lengths:
        for width in widths:
            generator = torch.Generator().manual_seed(0)
            query, key, value = (torch.randn(1, 1, length, width, generator=generator) for _ in range(3))
            additive = Additive(width, width, width)

            def by(
                score: str | Score, kernel: str, tensors: tuple[Tensor, ...] = (query, key, value)
            ) -> Callable[[], object]:
                return lambda: attend(*tensors, score=score, kernel=kernel)

            for kernel in ("plain", "auto"):
                turns = _turns([by("scaled_dot", kernel), by(additive, kernel)], 5 if full else 3)
                ratio = Interval.of([turn[1] / turn[0] for turn in turns])
                how = "by the definition" if kernel == "plain" else "by the planned kernel"
                cells.append(near(f"{length} tokens, width {width}, {how}", ratio, 1.0, 0.5))
    again = _turns([by("scaled_dot", "plain"), by("scaled_dot", "plain")], 3)
    same = Interval.of([turn[1] / turn[0] for turn in again])
    return cells, [Control("a score costs as much as itself", 0.5 < same.value < 2, same.value)]


def _threads(full: bool) -> Evidence:
    """Wall time of the same work as sequences grow longer, and what a second thread gains at each length."""
    at, rounds = sizes(16, 4096 if full else 1024, 9), 7 if full else 3
    cells: list[Cell] = []
    controls: list[Control] = []
    for name in ("rnn", "cnn", "plain", "linear", "retention"):
        measured = parallel(subject(name), at, 64, (1, 2), rounds=rounds)
        power, gains = measured.exponent(1), Interval.of([math.log(gain) for gain in measured.gain(2)])
        gain = Interval(math.exp(gains.value), math.exp(gains.low), math.exp(gains.high))
        if name == "rnn":
            cells += [above("rnn, power of the length", power, 0.3), below("rnn, gain of two threads", gain, 1.15)]
        else:
            cells += [
                below(f"{name}, power of the length", power, 0.1),
                above(f"{name}, gain of two threads", gain, 1.5),
            ]
        controls.append(
            Control(f"{name}: the longest sequence is alone", measured.batches[-1] == 1, float(measured.batches[0]))
        )
    return cells, controls


CLAIMS = [
    Claim(
        name="cost-exponents",
        sentence="Attention costs n^2 d; linear attention, convolution and recurrence cost n d^2.",
        source=_SOURCE,
        rule=(
            "counted operations, and CPU time at the sizes at which products take half of it or more, grow with the "
            "stated power of length and width, with all of the 95 % interval within 0.15 of it; a cell for each way, "
            "size and quantity, undecided where fewer than eight sizes are left"
        ),
        weakness=(
            "one processor and the kernels of one release; products of wide matrices are computed faster than those "
            "of narrow ones, so that time grows with less than their number over the width. Version 1 fitted all "
            "sizes, also where other work than products took most of the time, and new pages of memory with it"
        ),
        across="power of the size",
        written=datetime.date(2026, 11, 27),
        version=2,
        measure=_exponents,
    ),
    Claim(
        name="attention-cheaper-than-recurrence",
        sentence=(
            "Attention is cheaper than a recurrent layer as long as the sequence is shorter than the layer is wide."
        ),
        source=_SOURCE,
        rule=(
            "the length from which attention costs more than nn.RNN, by operations and by CPU time, is 0.8 times the "
            "width (256) or more, with all of the 95 % interval, refuted where all of it is less; for the"
            " product alone "
            "and for the layer with its projections"
        ),
        weakness=(
            "one width, forward alone, on one thread, against nn.RNN of PyTorch, which is no loop of Python; "
            "another processor moves the crossing in seconds"
        ),
        across="crossing, as a multiple of the width",
        written=datetime.date(2026, 11, 27),
        measure=_crossings,
        version=5,
    ),
    Claim(
        name="recurrence-cannot-parallelise",
        sentence="A recurrent layer computes one token after another: more processors do not make up for the length.",
        source=f"lecture notes; {_SOURCE}",
        rule=(
            "at a constant number of operations, in few long or many short sequences, wall time on one thread grows "
            "with a power of the length above 0.3 for nn.RNN and below 0.1 for the others, and two threads are less "
            "than 1.15 times as fast for nn.RNN and more than 1.5 times for the others, each with all of the 95 % "
            "interval; a cell for each"
        ),
        weakness=(
            "two threads at most, and small products: threads may cost more than they save there, whatever could "
            "be computed at once; gains vary with what else the machine does. Version 1 counted new pages of memory "
            "too"
        ),
        written=datetime.date(2026, 11, 27),
        version=2,
        measure=_threads,
    ),
    Claim(
        name="heads-keep-the-cost",
        sentence="Several narrow heads cost as much time as one wide head.",
        source="Vaswani et al. 2017, Attention is all you need, section 3.2.2, arXiv:1706.03762",
        rule=(
            "the CPU time of a layer of width 256 with h heads is 0.8 to 1.25 times that with one head, with all of "
            "the 95 % interval; a cell for each h and length"
        ),
        weakness="one width; softmax is computed once a head, so that longer sequences with more heads cost more",
        across="time, as a multiple of one head's",
        written=datetime.date(2026, 11, 27),
        version=2,
        measure=_heads,
    ),
    Claim(
        name="additive-costs-like-dot",
        sentence="Additive attention costs about as much as dot-product attention.",
        source=(
            "lecture notes, row S36; Vaswani et al. 2017, section 3.2.1, arXiv:1706.03762: similar in theoretical "
            "complexity, and dot products much faster in practice"
        ),
        rule=(
            "its CPU time is 0.5 to 1.5 times that of the scaled dot product, with all of the 95 % interval; a cell "
            "for each length, width and kernel"
        ),
        weakness=(
            "on this processor tanh costs as much as some ten products; hardware with a fast tanh would come out "
            "elsewhere"
        ),
        across="time, as a multiple of the scaled dot product's",
        written=datetime.date(2026, 11, 27),
        version=2,
        measure=_additive,
    ),
]

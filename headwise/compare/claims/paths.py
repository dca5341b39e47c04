"""Claims about what must happen in sequence, and how far apart two tokens are."""

import datetime
import math
from itertools import pairwise

from headwise.compare.claim import Claim, Evidence
from headwise.compare.paths import chain, path_length
from headwise.compare.subjects import KERNEL_SIZE, subject
from headwise.compare.verdicts import Control, Interval, above, near

_SOURCE = "Vaswani et al. 2017, Attention is all you need, table 1, arXiv:1706.03762"


def _sequential(full: bool) -> Evidence:
    """How many operations a further token adds to the longest chain: none, or as many each time."""
    lengths = (16, 32, 64, 128) if full else (8, 16, 32)
    at_once = ("plain", "cnn", "linear", "retention", "gated_linear")
    added: dict[str, list[float]] = {}
    for name in (*at_once, "rnn", "gru", "lstm"):
        chains = [chain(subject(name), length) for length in lengths]
        steps = pairwise(zip(lengths, chains, strict=True))
        added[name] = [(late - early) / (longer - shorter) for (shorter, early), (longer, late) in steps]
    cells = []
    for name, slopes in added.items():
        spread = Interval(slopes[-1], min(slopes), max(slopes))
        if name in at_once:
            cells.append(near(f"{name}: all at once", spread, 0.0, 0.0))
        else:
            # constant, so that the chain is as long as the sequence, and at least the product with the last state
            cells.append(above(f"{name}: one after another", spread, 0.999))
    steady = max(max(added[name]) - min(added[name]) for name in ("rnn", "gru", "lstm"))
    return cells, [Control("each token of a recurrent layer adds as many operations", steady == 0.0, steady)]


def _paths(full: bool) -> Evidence:
    lengths = (5, 9, 17, 33, 64) if full else (5, 9, 17)
    theories = {
        "plain": lambda n: 1,
        "linear": lambda n: 1,
        "causal-cnn": lambda n: math.ceil((n - 1) / (KERNEL_SIZE - 1)),
        "cnn": lambda n: math.ceil((n - 1) / ((KERNEL_SIZE - 1) // 2)),
        "rnn": lambda n: n - 1,
        "lstm": lambda n: n - 1,
    }
    cells = []
    for name, theory in theories.items():
        off = max(abs(path_length(subject(name), length) - theory(length)) for length in lengths)
        cells.append(near(f"{name}, lengths to {lengths[-1]}", Interval.exact(float(off)), 0.0, 0.0))
    single = path_length(subject("rnn"), 1)
    return cells, [Control("a token is no step from itself", single == 0, float(single))]


CLAIMS = [
    Claim(
        name="sequential-operations",
        sentence=(
            "Attention and convolution compute all tokens at once; a recurrent layer computes one after another."
        ),
        source=_SOURCE,
        rule=(
            "a further token adds no operation to the longest chain of the traced graph of attention and convolution,"
            " and one or more to that of a recurrent layer, at every length"
        ),
        weakness="each operation of PyTorch counts as one; a sum or a softmax over n takes log n steps at best",
        across="operations a token adds",
        written=datetime.date(2026, 11, 25),
        measure=_sequential,
    ),
    Claim(
        name="path-lengths",
        sentence=(
            "Between the ends of n tokens lie 1 layer of attention, about n/k layers of convolutions of k places, and"
            " n - 1 steps of a recurrent layer."
        ),
        source=f"{_SOURCE}; of convolutions that see ahead too, twice as many from end to end",
        rule=(
            "the least number of layers (steps, in a recurrent one) with a gradient from the last output to the first"
            " token is exactly 1, ceil((n - 1) / (k - 1)) causal, ceil((n - 1) / ((k - 1) / 2)) centred, n - 1, at "
            "every length"
        ),
        weakness="that a gradient can flow says nothing of how much does",
        across="difference from the formula",
        written=datetime.date(2026, 11, 25),
        measure=_paths,
    ),
]

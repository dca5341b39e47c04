"""Which examples go into which batch: length buckets, a budget of padded tokens, the same order everywhere."""

import itertools
from collections.abc import Sequence
from typing import Literal

import numpy as np

from headwise.errors import DataError

# Examples that are sorted by length together: enough that batches waste little, few enough that they differ by epoch.
_BUCKET = 50_000


def token_batches(
    lengths: np.ndarray,
    *,
    max_tokens: int,
    max_sentences: int | None = None,
    count: Literal["longest", "target"] = "longest",
    seed: int = 0,
    epoch: int = 0,
    shuffle: bool = True,
) -> list[list[int]]:
    """Groups examples of similar length into batches that stay within a budget of padded tokens.

    Examples are shuffled into buckets of 50,000, sorted there by target, then source length (equal ones stay in random
    order), cut greedily, and the batches shuffled. The order depends on the arguments alone: not on the version of a
    library, nor on the machine. O(n log n).

    Args:
        lengths: (examples, sides), tokens as they will stand in a batch; the last side is the target.
        max_tokens: budget of a batch: its sentences times its longest row.
        count: which rows the budget counts. "longest": those of the longer side, which bounds the memory; "target":
            those of the target, however long the sources are.
        epoch: each epoch has its own order.
        shuffle: False: sorted by length, the same in every epoch, for evaluation.

    Raises: DataError: an example that exceeds the budget alone.

    >>> token_batches(np.array([[3, 4], [9, 9], [3, 3]]), max_tokens=9, shuffle=False)
    [[2, 0], [1]]
    """
    cost = lengths.max(axis=1, initial=0) if count == "longest" else lengths[:, -1]
    _refuse_oversized(cost, max_tokens, count)
    ranks = permutation(len(lengths), seed, 2 * epoch) if shuffle else np.arange(len(lengths))
    buckets = ranks // _BUCKET if shuffle else np.zeros_like(ranks)
    order = np.lexsort((ranks, *lengths.T, buckets))
    most = len(lengths) if max_sentences is None else max_sentences
    ends = _cuts(cost[order].tolist(), buckets[order].tolist(), max_tokens, most)
    numbers = order.tolist()
    batches = [numbers[start:end] for start, end in itertools.pairwise(ends)]
    if shuffle:
        return [batches[place] for place in np.argsort(permutation(len(batches), seed, 2 * epoch + 1))]
    return batches


def padding_waste(lengths: np.ndarray, batches: Sequence[Sequence[int]]) -> float:
    """The fraction of all tokens in these batches that is padding, over all sides together, in [0, 1).

    >>> padding_waste(np.array([[2, 2], [4, 4]]), [[0, 1]])
    0.25
    """
    sizes = np.fromiter(map(len, batches), dtype=np.int64, count=len(batches))
    if not sizes.sum():
        return 0.0
    flat = np.fromiter(itertools.chain.from_iterable(batches), dtype=np.int64, count=int(sizes.sum()))
    chosen = lengths[flat]
    longest = np.maximum.reduceat(chosen, np.cumsum(sizes) - sizes, axis=0)
    padded = int((longest * sizes[:, None]).sum())
    return 1.0 - int(chosen.sum()) / padded if padded else 0.0


def _refuse_oversized(cost: np.ndarray, max_tokens: int, count: str) -> None:
    worst = int(cost.argmax()) if len(cost) else 0
    if not len(cost) or cost[worst] <= max_tokens:
        return
    side = "target tokens" if count == "target" else "tokens on its longer side"
    raise DataError(
        f"example {worst} has {cost[worst]:,} {side}, more than the budget of a batch ({max_tokens:,}); "
        "raise the budget (training.batch_tokens) or lower the longest length that is kept"
    )


def _cuts(costs: list[int], buckets: list[int], max_tokens: int, max_sentences: int) -> list[int]:
    """Where batches begin and end in the sorted order, first 0 and last the number of examples."""
    ends = [0]
    longest = start = 0
    bucket = buckets[0] if buckets else 0
    for place, cost in enumerate(costs):
        longest = max(longest, cost)
        size = place - start + 1
        if size > 1 and (longest * size > max_tokens or size > max_sentences or buckets[place] != bucket):
            ends.append(place)
            start, longest = place, cost
        bucket = buckets[place]
    return [*ends, len(costs)] if costs else ends


def permutation(count: int, seed: int, stream: int) -> np.ndarray:
    """A permutation of 0..count-1 from a counter-based generator (splitmix64): the same wherever it is computed."""
    ranks = np.empty(count, dtype=np.int64)
    ranks[np.argsort(random_bits(np.arange(count, dtype=np.uint64), seed, stream), kind="stable")] = np.arange(count)
    return ranks


def random_bits(counters: np.ndarray, seed: int, stream: int) -> np.ndarray:
    """64 random bits for each counter (uint64), a pure function of it, the seed and the stream (splitmix64).

    >>> random_bits(np.array([7], dtype=np.uint64), 0, 1) == random_bits(np.arange(9, dtype=np.uint64), 0, 1)[7]
    array([ True])
    """
    key = _mixed(np.array([seed % 2**64], dtype=np.uint64) + _mixed(np.array([stream], dtype=np.uint64)))
    return _mixed(counters + key)


def uniform(bits: np.ndarray) -> np.ndarray:
    """Numbers from 0 inclusive to 1 exclusive of 64 random bits each.

    >>> uniform(np.array([0, 1 << 63], dtype=np.uint64)).tolist()
    [0.0, 0.5]
    """
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mixed(values: np.ndarray) -> np.ndarray:
    mixed = (values + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))

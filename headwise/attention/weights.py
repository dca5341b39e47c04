"""Exact weights of a few heads, queries and keys of a call, computed when asked, without the table they are from."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from headwise.attention.call import Call
from headwise.attention.kernels import plain
from headwise.attention.normalizers import Scores, Softmax
from headwise.attention.zeros import hide
from headwise.errors import ShapeError

# scores that exist at once while the keys outside a tile are summed
_AT_ONCE = 1 << 22


def weights(
    call: Call, heads: Sequence[int] | None = None, queries: slice = slice(None), keys: slice = slice(None)
) -> Float[Tensor, "batch heads queries keys"]:
    """The weights before dropout of these heads between these queries and keys, equal to those of `plain`.

    w_ij = exp(s_ij - l_i) with l_i = log sum_k exp(s_ik), which is summed over blocks of keys if only some are asked
    for: without a gradient memory is linear in the asked rows. Time is that of the asked rows over all keys. A
    normalizer other than softmax needs those rows whole; a score or normalizer with numbers for each head, all heads.

    Args:
        heads: heads of the query, in the order wanted; all if None.
        queries, keys: ranges with step 1.
    Raises:
        ShapeError: a head that there is not, or a range with another step.
    Source: Dao et al. 2022, arXiv:2205.14135, algorithm 2 (weights from the logsumexp of a row).

    >>> x = torch.ones(1, 2, 1000, 4)
    >>> weights(Call(x, x, x), [1], slice(7, 9), slice(0, 3)).shape
    torch.Size([1, 1, 2, 3])
    """
    rows, columns = limits(call.shape, heads, queries, keys)
    if heads is not None and not len(heads):
        return call.query.new_empty(call.shape[0], 0, rows[1] - rows[0], columns[1] - columns[0])
    relative = call.relative
    if relative is not None and relative.value_table is not None:
        # what distances add to the values is as wide as these, which are keys here
        relative = replace(relative, value_table=None) if relative.has_bias() else None
    # values are not read; what no query sees is zeroed of all rows, which the mask knows without its table
    call = replace(call, value=call.key, relative=relative).zero_unseen()
    whole = rows == (0, call.shape[2])
    # a band costs only the keys that it reaches
    reach = (0, call.shape[3]) if whole else _reach(call, rows)
    # numbers of other heads cannot be left out
    every = heads is None or call.score.per_head() or call.normalizer.per_head()
    near = None if reach == (0, call.shape[3]) else reach
    part = call.part(None if every else list(heads or ()), None if whole else rows, near)
    low, high = (min(max(place, reach[0]), reach[1]) for place in columns)
    tile = _tile(part, (low - reach[0], high - reach[0]))
    tile = tile[:, list(heads)] if every and heads is not None else tile
    return tile if (low, high) == columns else F.pad(tile, (low - columns[0], columns[1] - high))


def _reach(call: Call, rows: tuple[int, int]) -> tuple[int, int]:
    """First and last + 1 of the keys that some of these queries may see, as far as the mask says; one at least."""
    (left, right), key_len = call.structure.within, call.shape[3]
    first, last = (call.query_start + row for row in rows)
    low = 0 if left is None else min(max(0, first - left), max(0, key_len - 1))
    return low, key_len if right is None else min(key_len, max(low + 1, last + right))


def select_weights(
    full: Float[Tensor, "batch heads query_len key_len"], heads: Sequence[int] | None, queries: slice, keys: slice
) -> Float[Tensor, "batch wanted queries keys"]:
    """These heads, queries and keys of a table that is there. Raises: ShapeError as `weights` does."""
    limits(full.shape, heads, queries, keys)
    return (full if heads is None else full[:, list(heads)])[:, :, queries, keys]


def limits(
    shape: Sequence[int], heads: Sequence[int] | None, queries: slice, keys: slice
) -> tuple[tuple[int, int], tuple[int, int]]:
    """First and last + 1 of the queries and of the keys. Raises: ShapeError for what is not in the table."""
    if heads is not None and not isinstance(heads, Sequence):
        raise ShapeError(f"heads must be a list of numbers, such as [0, 2], got {type(heads).__name__}")
    wrong = [head for head in heads or () if not 0 <= head < shape[1]]
    if wrong:
        raise ShapeError(f"heads run from 0 to {shape[1] - 1}, got {wrong[0]}")
    return bounds("queries", queries, shape[2]), bounds("keys", keys, shape[3])


def bounds(name: str, part: slice, length: int) -> tuple[int, int]:
    """First and last + 1 of a range. Raises: ShapeError for a step other than 1."""
    if not isinstance(part, slice):
        raise ShapeError(f"{name} must be a range, such as slice(0, 5), got {part!r}")
    if part.step not in (None, 1):
        raise ShapeError(f"{name} must be a range with step 1, got step {part.step}")
    if part.start is None and part.stop is None:
        # a symbolic length has no indices
        return 0, length
    low, high, _ = part.indices(length)
    return low, max(low, high)


def _tile(call: Call, columns: tuple[int, int]) -> Tensor:
    key_len = call.shape[3]
    if columns == (0, key_len) or type(call.normalizer) is not Softmax:
        return plain.weights(call)[..., columns[0] : columns[1]]
    scores = _masked_scores(call, columns)
    total = scores.new_full((*scores.shape[:3], 1), float("-inf"))
    width = call.score.kept_width(call.query)
    step = max(1, _AT_ONCE // max(1, total.numel() * width))
    for low in range(0, key_len, step):
        block = _masked_scores(call, (low, min(low + step, key_len)))
        total = torch.logaddexp(total, block.logsumexp(-1, keepdim=True))
    # a row without a key
    return (scores - total.masked_fill(total == float("-inf"), 0.0)).exp()


def _masked_scores(call: Call, keys: tuple[int, int]) -> Scores:
    """The scores of some keys, minus infinity where forbidden."""
    part = call.part(keys=keys)
    return plain.normalized(part, part.keep(), normalizer=partial(hide, value=float("-inf")))

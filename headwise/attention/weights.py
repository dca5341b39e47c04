"""Exact weights of a few heads, queries and keys of a call, computed when asked, without the table they are from."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.attention.call import Call
from headwise.attention.kernels import plain
from headwise.attention.normalizers import Keep, Scores, Softmax
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
    rows, columns = asked(call.shape, heads, queries, keys)
    if heads is not None and not len(heads):
        return call.query.new_empty(call.shape[0], 0, rows[1] - rows[0], columns[1] - columns[0])
    call = call.clean(rows=rows)
    relative = call.relative
    if relative is not None and relative.value_table is not None:
        # what distances add to the values is as wide as these, which are keys here
        relative = replace(relative, value_table=None) if relative.has_bias() else None
        call = replace(call, relative=relative)
    if heads is not None and (call.score.per_head() or call.normalizer.per_head()):
        # numbers of other heads cannot be left out
        return _tile(call, None, rows, columns)[:, list(heads)]
    return _tile(call, None if heads is None else list(heads), rows, columns)


def cut(
    whole: Float[Tensor, "batch heads query_len key_len"], heads: Sequence[int] | None, queries: slice, keys: slice
) -> Float[Tensor, "batch wanted queries keys"]:
    """These heads, queries and keys of a table that is there. Raises: ShapeError as `weights` does."""
    asked(whole.shape, heads, queries, keys)
    return (whole if heads is None else whole[:, list(heads)])[:, :, queries, keys]


def asked(
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


def _tile(call: Call, heads: list[int] | None, rows: tuple[int, int], columns: tuple[int, int]) -> Tensor:
    mask, key_len = call.mask, call.shape[3]
    device, (batch, every) = call.query.device, call.shape[:2]
    start = call.query_start
    index = [
        torch.arange(batch, device=device),
        torch.arange(every, device=device) if heads is None else torch.tensor(heads, device=device, dtype=torch.long),
        torch.arange(start + rows[0], start + rows[1], device=device),
    ]
    cut = _rows(replace(call, mask=None), heads, *rows)

    def allowed(low: int, high: int) -> Tensor | None:
        keep = None if mask is None else mask.over(*index, torch.arange(low, high, device=device))
        if cut.bias is None:
            return keep
        hidden = cut.bias[..., low:high] == float("-inf")
        return ~hidden if keep is None else keep & ~hidden

    if columns == (0, key_len) or type(call.normalizer) is not Softmax:
        return plain.normalized(cut, allowed(0, key_len))[..., columns[0] : columns[1]]
    scores = plain.normalized(_columns(cut, *columns), allowed(*columns), normalizer=_hidden)
    total = scores.new_full((*scores.shape[:3], 1), float("-inf"))
    width = call.score.kept_width(call.query)
    step = max(1, _AT_ONCE // max(1, total.numel() * width))
    for low in range(0, key_len, step):
        high = min(low + step, key_len)
        block = plain.normalized(_columns(cut, low, high), allowed(low, high), normalizer=_hidden)
        total = torch.logaddexp(total, block.logsumexp(-1, keepdim=True))
    # a row without a key
    return (scores - total.masked_fill(total == float("-inf"), 0.0)).exp()


def _rows(call: Call, heads: list[int] | None, first: int, last: int) -> Call:
    """The same attention for some heads and queries, without its mask."""
    query, key, bias, relative = call.query, call.key, call.bias, call.relative
    if bias is not None and bias.shape[2] > 1:
        bias = bias[:, :, first:last]
    if heads is not None:
        query, key = query[:, heads], key[:, [head // call.group for head in heads]]
        bias = bias[:, heads] if bias is not None and bias.shape[1] > 1 else bias
    return replace(
        call,
        query=query[:, :, first:last],
        key=key,
        value=key,
        bias=bias,
        relative=None if relative is None else relative.part(heads, (first, last)),
    )


def _columns(call: Call, low: int, high: int) -> Call:
    """The same attention over some keys, the first of which becomes key 0."""
    relative = None if call.relative is None else call.relative.part(keys=(low, high))
    key, bias = call.key[:, :, low:high], None if call.bias is None else call.bias[..., low:high]
    return replace(call, key=key, value=key, bias=bias, relative=relative)


def _hidden(scores: Scores, keep: Keep | None) -> Scores:
    """The scores, minus infinity where forbidden."""
    return scores if keep is None else scores.masked_fill(~keep, float("-inf"))

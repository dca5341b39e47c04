"""Exact weights of a few heads, queries and keys of a call, computed when asked, without the table they are from."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.attention.call import Call
from headwise.attention.kernels import plain
from headwise.attention.masks import Mask
from headwise.attention.normalizers import Normalizer, Softmax
from headwise.attention.normalizers.normalizer import Keep, Scores
from headwise.errors import ShapeError

# scores that exist at once while the keys outside a tile are summed
_AT_ONCE = 1 << 22


def weights(
    call: Call, heads: Sequence[int], queries: slice = slice(None), keys: slice = slice(None)
) -> Float[Tensor, "batch heads queries keys"]:
    """The weights before dropout of these heads between these queries and keys, equal to those of `plain`.

    w_ij = exp(s_ij - l_i) with l_i = log sum_k exp(s_ik), which is summed over blocks of keys if only some are asked
    for: memory is linear in the asked rows. Time is that of the asked rows over all keys. A normalizer other than
    softmax needs those rows whole.

    Args:
        heads: heads of the query, in the order wanted.
        queries, keys: ranges with step 1.
    Raises:
        ShapeError: a range with another step.
    Source: Dao et al. 2022, arXiv:2205.14135, algorithm 2 (weights from the logsumexp of a row).

    >>> from headwise.attention.scores import ScaledDot
    >>> x = torch.ones(1, 2, 1000, 4)
    >>> weights(Call(x, x, x, ScaledDot()), [1], slice(7, 9), slice(0, 3)).shape
    torch.Size([1, 1, 2, 3])
    """
    for name, part in (("queries", queries), ("keys", keys)):
        if part.step not in (None, 1):
            raise ShapeError(f"{name} must be a range with step 1, got step {part.step}")
    first, last, _ = queries.indices(call.shape[2])
    low, high, _ = keys.indices(call.shape[3])
    with torch.no_grad():
        if call.score.per_head():
            # numbers of other heads cannot be left out
            every = list(range(call.shape[1]))
            return _tile(call, every, (first, max(first, last)), (low, max(low, high)))[:, list(heads)]
        return _tile(call, list(heads), (first, max(first, last)), (low, max(low, high)))


def _tile(call: Call, heads: list[int], rows: tuple[int, int], columns: tuple[int, int]) -> Tensor:
    key_len = call.shape[3]
    cut = _rows(call, heads, rows)
    if columns == (0, key_len):
        return plain.weights(cut)
    if not isinstance(call.normalizer, Softmax):
        return plain.weights(cut)[..., columns[0] : columns[1]]
    scores = plain.weights(_columns(cut, *columns))
    total = scores.new_full((*scores.shape[:3], 1), float("-inf"))
    step = max(1, _AT_ONCE // max(1, total.numel()))
    for start in range(0, key_len, step):
        block = plain.weights(_columns(cut, start, min(start + step, key_len)))
        total = torch.logaddexp(total, block.logsumexp(-1, keepdim=True))
    # a row without a key
    return (scores - total.masked_fill(total == float("-inf"), 0.0)).exp_()


def _rows(call: Call, heads: list[int], rows: tuple[int, int]) -> Call:
    """The same attention for some heads and queries."""
    first, last = rows
    bias = call.bias
    if bias is not None:
        bias = bias.expand(bias.shape[0], call.shape[1], call.shape[2], -1)[:, heads, first:last]
    sources = [head // call.group for head in heads]
    return replace(
        call,
        query=call.query[:, heads, first:last],
        key=call.key[:, sources],
        value=call.value[:, sources],
        mask=None if call.mask is None else _Part(call.mask, tuple(heads), 0),
        bias=bias,
        relative=None if call.relative is None else call.relative.part(heads, first, last),
        query_start=call.query_start + first,
    )


def _columns(call: Call, low: int, high: int) -> Call:
    """The attention over some keys, with scores in place of weights: minus infinity where forbidden."""
    relative = call.relative
    if relative is not None:
        distances = relative.distances
        if distances is None:
            queries = torch.arange(call.query.shape[2], device=call.query.device) + call.query_start
            distances = torch.arange(low, high, device=call.query.device) - queries[:, None]
        else:
            distances = distances[:, low:high]
        key = None if relative.key is None else relative.key[:, :, low:high]
        relative = replace(relative, key=key, distances=distances)
    mask = call.mask
    return replace(
        call,
        key=call.key[:, :, low:high],
        value=call.value[:, :, low:high],
        normalizer=_Masked(),
        mask=None if mask is None else _Part(mask, tuple(range(call.shape[1])), low),
        bias=None if call.bias is None else call.bias[..., low:high],
        relative=relative,
    )


@dataclass(frozen=True)
class _Masked(Normalizer):
    """The scores as they are."""

    def __call__(self, scores: Scores, keep: Keep | None) -> Scores:
        return scores if keep is None else scores.masked_fill(~keep, float("-inf"))


@dataclass(frozen=True, eq=False)
class _Part(Mask):
    """A mask as some of its heads see it, from a key on."""

    mask: Mask
    heads: tuple[int, ...]
    first_key: int

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        heads = torch.tensor(self.heads, device=head.device)
        return self.mask(batch, heads[head], query, key + self.first_key)

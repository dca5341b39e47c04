"""v . tanh(q + k) of every pair and its gradient, without keeping the numbers inside tanh.

tanh(q + k) = 1 - 2 r with r = 1 / (1 + exp(2q) exp(2k)): the exponentials are per token, so a pair costs one
multiplication and one reciprocal for each hidden number, and tanh' = 4 (r - r^2).
"""

from collections.abc import Iterator
from itertools import product

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.attention.kernels import _additive_compiled as compiled
from headwise.errors import Unsupported

# beyond it exp(2q) leaves float32; for such a token r is computed as a sigmoid of the sum
_LARGEST = 43.0
# numbers that stay in a core's cache from one pass to the next
_CACHED = 65536
# compiling costs seconds, which fewer numbers would not repay
_COMPILED_FROM = 2**24


def compiles(numbers: int, dtype: torch.dtype) -> bool:
    """Whether so many numbers inside tanh are worth a compiler."""
    return numbers >= _COMPILED_FROM and dtype != torch.float64 and compiled.failure() is None


def pair_scores(
    query: Float[Tensor, "batch rows hidden"],
    key: Float[Tensor, "batch columns hidden"],
    value: Float[Tensor, "hidden"],
) -> Float[Tensor, "batch rows columns"]:
    """sum_h value_h tanh(query_h + key_h), with gradients."""
    output: Tensor = _PairScores.apply(query, key, value)
    return output


class _PairScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query, key, value):
        # a single query gives each key one number, for which powers do not pay
        ctx.powers = query.shape[1] > 1
        if not ctx.powers:
            ctx.save_for_backward(value, query, key)
            return _scores(query, key, value, False)
        far = None if _near(query) and _near(key) else (_far(query), _far(key))
        powers = _powers(query, key, far)
        output = _by_powers(*powers, value)
        if far is None:
            ctx.save_for_backward(value, *powers)
            return output
        # bits of the other pairs do not change, so that nothing depends on what a mask hides
        pairs = far[0].unsqueeze(2) | far[1].unsqueeze(1)
        ctx.save_for_backward(value, *powers, query, key, pairs)
        return torch.where(pairs, _scores(query, key, value, False), output)

    @staticmethod
    def backward(ctx, gradient):
        if torch.is_grad_enabled():
            raise Unsupported("kernel 'additive' has no second derivative; use kernel='plain'")
        value, query, key, *exact = ctx.saved_tensors
        if not ctx.powers:
            sums = _sums(query, key, gradient, False)
        elif not exact:
            sums = _sums_by_powers(query, key, gradient)
        else:
            pairs = exact[2]
            near = _sums_by_powers(query, key, gradient.masked_fill(pairs, 0.0))
            far = _sums(exact[0], exact[1], gradient.masked_fill(~pairs, 0.0), False)
            sums = (near[0] + far[0], near[1] + far[1], near[2] + far[2])
        ratios, d_query, d_key = sums
        steep = 4.0 * value
        return d_query.mul_(steep), d_key.mul_(steep), gradient.sum() - 2.0 * ratios


def _near(tensor: Tensor) -> bool:
    low, high = tensor.aminmax()
    # false for NaN too
    return bool(low >= -_LARGEST) and bool(high <= _LARGEST)


def _far(tensor: Tensor) -> Tensor:
    return ~(tensor.abs() <= _LARGEST).all(-1)


def _powers(query: Tensor, key: Tensor, far: tuple[Tensor, Tensor] | None) -> tuple[Tensor, Tensor]:
    if far is not None:
        query, key = query.masked_fill(far[0].unsqueeze(-1), 0.0), key.masked_fill(far[1].unsqueeze(-1), 0.0)
    return (query * 2.0).exp_(), (key * 2.0).exp_()


def _by_powers(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    output = None
    if compiles(query.numel() * key.shape[1], query.dtype):
        output = compiled.scores(query, key, value)
    return _scores(query, key, value, True) if output is None else output


def _sums_by_powers(query: Tensor, key: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    sums = None
    if compiles(query.numel() * key.shape[1], query.dtype):
        sums = _compiled_sums(query, key, gradient)
    return _sums(query, key, gradient, True) if sums is None else sums


def _compiled_sums(query: Tensor, key: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor] | None:
    by_query = compiled.sums(query, key.mT.contiguous(), gradient.contiguous())
    # the gradient of the keys is that of the queries of the transposed problem
    by_key = compiled.sums(key, query.mT.contiguous(), gradient.mT.contiguous())
    if by_query is None or by_key is None:
        return None
    return by_query[0].sum((0, 1)), by_query[1], by_key[1]


def _scores(query: Tensor, key: Tensor, value: Tensor, powers: bool) -> Tensor:
    scores = query.new_empty(*query.shape[:2], key.shape[1])
    for block, ratios in _blocks(query, key, powers):
        scores[block] = ratios @ value
    return torch.sub(value.sum(), scores, alpha=2.0, out=scores)


def _sums(query: Tensor, key: Tensor, gradient: Tensor, powers: bool) -> tuple[Tensor, Tensor, Tensor]:
    total, d_query, d_key = query.new_zeros(query.shape[-1]), torch.empty_like(query), torch.empty_like(key)
    for (batch, rows, columns), ratios in _blocks(query, key, powers):
        weights = gradient[batch, rows, columns].contiguous()
        total += weights.flatten() @ ratios.flatten(0, 2)
        ratios.addcmul_(ratios, ratios, value=-1.0).mul_(weights.unsqueeze(-1))
        _add_sum(d_query[batch, rows], ratios, 2, columns.start == 0)
        _add_sum(d_key[batch, columns], ratios, 1, rows.start == 0)
    return total, d_query, d_key


def _add_sum(target: Tensor, numbers: Tensor, axis: int, first: bool) -> None:
    if first:
        torch.sum(numbers, axis, out=target)
    else:
        target.add_(numbers.sum(axis))


def _blocks(query: Tensor, key: Tensor, powers: bool) -> Iterator[tuple[tuple[slice, slice, slice], Tensor]]:
    """(batch, rows, columns) and r (batch, rows, columns, hidden) for blocks that stay in the cache, in one buffer."""
    sizes = (query.shape[0], query.shape[1], key.shape[1])
    room, steps = max(1, _CACHED // max(1, query.shape[-1])), [1, 1, 1]
    # first as many keys as fit, then queries, then sequences
    for axis in (2, 1, 0):
        steps[axis] = min(room, sizes[axis])
        room = max(1, room // steps[axis])
    buffer, one = query.new_empty(steps[0] * steps[1] * steps[2] * query.shape[-1]), query.new_ones(())
    for starts in product(*(range(0, size, step) for size, step in zip(sizes, steps, strict=True))):
        batch, rows, columns = (slice(start, start + step) for start, step in zip(starts, steps, strict=True))
        q, k = query[batch, rows].unsqueeze(2), key[batch, columns].unsqueeze(1)
        shape = (q.shape[0], q.shape[1], k.shape[2], q.shape[3])
        ratios = buffer[: q.numel() * k.shape[2]].view(shape)
        if powers:
            torch.addcmul(one, q, k, out=ratios).reciprocal_()
        else:
            torch.add(q, k, out=ratios).mul_(-2.0).sigmoid_()
        yield (batch, rows, columns), ratios

"""Additive scores v . tanh(W_q q + W_k k) in blocks of pairs that stay in the cache: one number is kept for each pair.

The definition keeps `hidden` numbers for each. The gradient is written by hand; `python -m benchmarks.gradients` sets
it beside strips of the definition under `torch.utils.checkpoint`.
"""

import math
from collections.abc import Iterator
from itertools import product
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.attention.call import Call
from headwise.attention.kernels import plain
from headwise.attention.scores import Additive
from headwise.attention.scores.score import times

# numbers inside tanh at a time: 1 MiB of a core's cache, and enough for an accelerator to be busy
_CACHED, _MANY = 2**18, 2**26

Queries = Float[Tensor, "matrices rows hidden"]
Keys = Float[Tensor, "matrices columns hidden"]
Values = Float[Tensor, "matrices hidden"]


def refusal(call: Call) -> str | None:
    """What of the call this kernel cannot compute exactly, or None."""
    if type(call.score) is not Additive:
        return f"the score is {type(call.score).__name__}, not Additive"
    if call.relative is not None:
        return "there are relative positions"
    return None


def pairs(call: Call) -> int:
    """All pairs."""
    return math.prod(call.shape)


def keeps(call: Call) -> str:
    """The table of scores, without what is inside tanh."""
    return f"scores ({', '.join(map(str, call.shape))}), {math.prod(call.shape) * 4:,} bytes"


def holds(call: Call) -> int:
    """Bytes at the height of the forward pass besides inputs and output: tables, and a block of what is inside tanh."""
    block, item = _CACHED if call.query.device.type == "cpu" else _MANY, max(4, call.query.element_size())
    width = call.score.pair_width(call.query)
    projected = width * math.prod(call.shape[:2]) * (call.shape[2] + call.shape[3])
    tables = plain.tables(call, call.tabled()) * math.prod(call.shape)
    return plain.copied_bytes(call) + item * (tables + projected + min(block, pairs(call) * width))


def compute(call: Call) -> Float[Tensor, "batch heads query_len value_dim"]:
    """The output of the call. A compiler is given the definition, whose numbers inside tanh it does not write down."""
    traced = torch.compiler.is_compiling()
    keep = call.keep()
    return plain.attention(call.clean(keep), keep, None if traced else _blocked(call.score))


def _blocked(score: Additive) -> Any:
    def scores(query: Tensor, key: Tensor) -> Tensor:
        query, key = times(score.query, query), times(score.key, key)
        value = score.value.weight.to(query.dtype).expand(query.shape[0] * query.shape[1], -1)
        return pair_scores(query.flatten(0, 1), key.flatten(0, 1), value).unflatten(0, query.shape[:2])

    return scores


def pair_scores(query: Queries, key: Keys, value: Values) -> Float[Tensor, "matrices rows columns"]:
    """value . tanh(query + key) of every pair, with derivatives of every order; all but the first keep what is in tanh.

    >>> pair_scores(torch.zeros(1, 2, 5), torch.ones(1, 3, 5), torch.ones(1, 5)).shape
    torch.Size([1, 2, 3])
    """
    scores: Tensor = _PairScores.apply(query, key, value)
    return scores


class _PairScores(torch.autograd.Function):
    @staticmethod
    def forward(query, key, value):
        scores = query.new_empty(*query.shape[:2], key.shape[1])
        for at, rows, columns, numbers in _blocks(query, key):
            scores[at, rows, columns] = torch.mv(numbers.flatten(0, 1), value[at]).view(numbers.shape[:2])
        return scores

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, gradient):
        return _Sums.apply(*ctx.saved_tensors, gradient)

    @staticmethod
    def jvp(ctx, d_query, d_key, d_value):
        query, key, value = ctx.saved_tensors
        numbers = torch.tanh(query.unsqueeze(2) + key.unsqueeze(1))
        slopes = (1 - numbers.square()) * value[:, None, None]
        return (slopes * (d_query.unsqueeze(2) + d_key.unsqueeze(1)) + numbers * d_value[:, None, None]).sum(-1)

    @staticmethod
    def vmap(info, in_dims, *inputs):
        return _folded(_PairScores, info.batch_size, in_dims, inputs), 0


class _Sums(torch.autograd.Function):
    """The gradients of query, key and value: sums of g v (1 - tanh^2) over keys and queries, of g tanh over both."""

    @staticmethod
    def forward(query, key, value, gradient):
        d_query, d_key, d_value = torch.zeros_like(query), torch.zeros_like(key), torch.zeros_like(value)
        one = query.new_ones(())
        for at, rows, columns, numbers in _blocks(query, key):
            weights = gradient[at, rows, columns].contiguous()
            d_value[at].addmv_(numbers.flatten(0, 1).t(), weights.flatten())
            torch.addcmul(one, numbers, numbers, value=-1.0, out=numbers)
            # a product for each row, and for each column, which asks for its weights side by side
            d_query[at, rows].unsqueeze(1).baddbmm_(weights.unsqueeze(1), numbers)
            d_key[at, columns].unsqueeze(1).baddbmm_(weights.t().contiguous().unsqueeze(1), numbers.transpose(0, 1))
        return d_query * value.unsqueeze(1), d_key * value.unsqueeze(1), d_value

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, *gradients):
        return torch.func.vjp(_sums, *ctx.saved_tensors)[1](gradients)

    @staticmethod
    def jvp(ctx, *tangents):
        # the value is expanded, and no dual tensor is made of numbers that share their memory
        inputs, tangents = (tuple(tensor.contiguous() for tensor in each) for each in (ctx.saved_tensors, tangents))
        return torch.func.jvp(_sums, inputs, tangents)[1]

    @staticmethod
    def vmap(info, in_dims, *inputs):
        return _folded(_Sums, info.batch_size, in_dims, inputs), (0, 0, 0)


def _folded(function: Any, size: int, in_dims: tuple[int | None, ...], inputs: tuple[Tensor, ...]) -> Any:
    """The function of inputs with one more axis, which joins the matrices."""
    whole = [
        x.expand(size, *x.shape) if at is None else x.movedim(at, 0) for x, at in zip(inputs, in_dims, strict=True)
    ]
    apart = (size, whole[0].shape[1])
    found = function.apply(*(x.flatten(0, 1) for x in whole))
    return tuple(x.unflatten(0, apart) for x in found) if isinstance(found, tuple) else found.unflatten(0, apart)


def _definition(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return (torch.tanh(query.unsqueeze(2) + key.unsqueeze(1)) * value[:, None, None]).sum(-1)


def _sums(query: Tensor, key: Tensor, value: Tensor, gradient: Tensor) -> tuple[Tensor, ...]:
    return torch.func.vjp(_definition, query, key, value)[1](gradient)


def _blocks(query: Tensor, key: Tensor) -> Iterator[tuple[int, slice, slice, Tensor]]:
    """Matrix, rows, columns and tanh of their pairs (rows, columns, hidden), which the next block overwrites."""
    (matrices, rows, hidden), columns = query.shape, key.shape[1]
    room = max(1, (_CACHED if query.device.type == "cpu" else _MANY) // max(1, hidden))
    # about twice as many columns as rows, unless there are fewer: the products along either are then fast
    tall = max(1, min(rows, math.isqrt(room // 2)))
    broad = max(1, min(columns, room // tall))
    tall = max(1, min(rows, room // broad))
    buffer = query.new_empty(tall * broad * hidden)
    for at, row, column in product(range(matrices), range(0, rows, tall), range(0, columns, broad)):
        q, k = query[at, row : row + tall].unsqueeze(1), key[at, column : column + broad]
        numbers = buffer[: q.numel() * k.shape[0]].view(q.shape[0], *k.shape)
        yield at, slice(row, row + tall), slice(column, column + broad), torch.add(q, k, out=numbers).tanh_()

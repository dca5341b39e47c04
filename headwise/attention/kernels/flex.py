"""FlexAttention: any mask by blocks, with bias, table of distances or soft cap in the same compiled program.

Blocks of pairs that the mask forbids are skipped. It is refused on a CPU, where the program that PyTorch 2.13 compiles
reads and writes beside its buffers: one query over 40 keys of width 8 is wrong. Dong et al. 2024, arXiv:2412.05496.
"""

import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.attention.call import Call
from headwise.attention.kernels import plain
from headwise.attention.masks import Edges, Mask
from headwise.attention.normalizers import Softmax
from headwise.attention.scores import Score, SoftCap

_PROGRAMS = 1024

Change = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


def refusal(call: Call) -> str | None:
    device = call.query.device.type
    if device == "cpu":
        return "FlexAttention gives wrong numbers on a CPU"
    if device != "cuda":
        return f"the tensors are on {device}, which FlexAttention has no program for"
    return unfit(call)


def unfit(call: Call) -> str | None:
    """The same wherever the tensors are."""
    if not isinstance(call.normalizer, Softmax):
        return f"the normalizer is {call.normalizer.name}, not softmax"
    if not _inner(call.score).is_dot():
        return f"the score {type(call.score).__name__} is no dot product"
    if call.dropout:
        return "weights are dropped out"
    relative = call.relative
    if relative is not None and (
        relative.scalar is None or len(relative.tensors) > 1 or relative.distances is not None
    ):
        return "its relative positions are more than one number for each distance"
    if call.query.dtype == torch.float64:
        return "it is in float64"
    if call.mask is not None and any(isinstance(part, Edges) for part in _parts(call.mask)):
        return "the mask holds a graph, whose pairs a compiled program cannot look up"
    return plain.empty_axis(call)


def num_pairs(call: Call) -> int:
    """Pairs in blocks of 128 x 128 that a band touches, or all."""
    batch, heads, query_len, key_len = call.shape
    left, right = call.structure.within
    rows = range(call.query_start, call.query_start + query_len, 128)
    low = [0 if left is None else max(0, first - left) // 128 for first in rows]
    high = [math.ceil((key_len if right is None else min(key_len, first + 128 + right)) / 128) for first in rows]
    return batch * heads * 128 * 128 * sum(max(0, b - a) for a, b in zip(low, high, strict=True))


def memory_summary(call: Call) -> str:
    return f"one number a row, {math.prod(call.shape[:3]) * 4:,} bytes"


def peak_bytes(call: Call) -> int:
    """Bytes at the height of the forward pass besides inputs and output, without the table of blocks."""
    return 4 * math.prod(call.shape[:3])


def compute(call: Call) -> Float[Tensor, "batch heads query_len value_dim"]:
    return attend_with(_compiled(), call)


def attend_with(attention: Callable[..., Any], call: Call) -> Float[Tensor, "batch heads query_len value_dim"]:
    """The call as FlexAttention takes it: `attention` is its function, compiled or not."""
    query, key, value, scale = call.products(_inner(call.score))
    # each an object of its own: a program is kept for the objects that were one, and asks the next mask the same
    output: Tensor = attention(
        *(tensor.contiguous().view(tensor.shape) for tensor in (query, key, value)),
        score_mod=_change(call),
        block_mask=_blocks(call),
        scale=scale,
        enable_gqa=True if call.group > 1 else False,  # noqa: SIM210
    )
    return output.to(call.value.dtype)


@cache
def _compiled() -> Callable[..., Any]:
    # imported here, since it imports the compiler
    from torch.nn.attention.flex_attention import flex_attention

    # a program for each length and kind of mask; past the limit PyTorch would write the table of scores
    compiled: Callable[..., Any] = torch.compile(flex_attention, dynamic=False, recompile_limit=_PROGRAMS)  # type: ignore[call-overload]
    return compiled


def _inner(score: Score) -> Score:
    return score.score if isinstance(score, SoftCap) else score


def _change(call: Call) -> Change | None:
    """What happens to a score between its product and the softmax; None if nothing does."""
    bias, relative, start = call.bias, call.relative, call.query_start
    cap = call.score.cap if isinstance(call.score, SoftCap) else None
    if bias is None and relative is None and cap is None:
        return None

    def changed(score: Tensor, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        if cap is not None:
            score = cap * torch.tanh(score / cap)
        if bias is not None:
            at = [i if n > 1 else 0 * i for i, n in zip((batch, head, query, key), bias.shape, strict=True)]
            score = score + bias[at[0], at[1], at[2], at[3]]
        if relative is not None and relative.scalar is not None:
            place = (key - query - start - relative.low).clamp(0, relative.size - 1)
            score = score + relative.scalar[head if relative.scalar.shape[0] > 1 else 0 * head, place]
        return score

    return changed


def _blocks(call: Call) -> Any:
    """The blocks of 128 x 128 pairs in which the mask allows something, made once for a shared mask."""
    if call.structure.open:
        return None
    from torch.nn.attention.flex_attention import create_block_mask

    mask, start, device = call.mask.to(call.query.device), call.query_start, call.query.device
    # a lambda: the arguments are counted, which a bound method hides
    allowed = lambda batch, head, query, key: mask(batch, head, query + start, key)  # noqa: E731
    # an axis that the mask does not depend on has no table of its own
    pair = torch.arange(2, device=device)
    batch, heads = mask.over(pair[: call.shape[0]], pair[: call.shape[1]], pair[:1], pair[:1]).shape[:2]
    sizes = (call.shape[0] if batch > 1 else None, call.shape[1] if heads > 1 else None, *call.shape[2:])
    return call.structure.cached("blocks", lambda: create_block_mask(allowed, *sizes, device=str(device)))


def _parts(mask: Mask) -> Iterator[Mask]:
    """The mask and what it is made of."""
    yield mask
    for part in vars(mask).values():
        if isinstance(part, Mask):
            yield from _parts(part)

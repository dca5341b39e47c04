"""The definition on a few query rows at a time, each strip under checkpoint: any score, normalizer, mask, position.

A strip holds whole rows, so no normalizer needs a second pass; its table is made again for the gradient, so memory is
that of one strip. A mask within a band costs only the keys that the band reaches. After Rabe and Staats 2021,
arXiv:2112.05682, section 4, with whole rows in place of a running maximum.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.attention.call import Call, per_head
from headwise.attention.checkpointing import can_checkpoint, checkpointed, with_tensors_of_now
from headwise.attention.kernels import plain
from headwise.attention.masks import Place
from headwise.attention.precision import wide
from headwise.attention.structure import strips_of

# numbers that a strip has for its pairs, and rows that it has at least
_NUMBERS, _ROWS = 1 << 20, 16


def refusal(call: Call) -> str | None:
    if 0 in call.shape:
        return "an axis is empty"
    return None


def num_pairs(call: Call) -> int:
    """Rows of every strip times the keys that its band reaches."""
    return call.shape[0] * call.shape[1] * sum((b - a) * (high - low) for a, b, low, high in _strips(call))


def memory_summary(call: Call) -> str:
    rows, keys = max(((b - a), (high - low)) for a, b, low, high in _strips(call))
    width = call.score.kept_width(call.query)
    count = call.shape[0] * call.shape[1] * rows * keys * width * 4
    return f"scores of {rows} rows at a time, {count:,} bytes"


def peak_bytes(call: Call) -> int:
    """Bytes at the height of the forward pass besides inputs and output: a strip, and inputs in float32."""
    rows, keys = max(((b - a), (high - low)) for a, b, low, high in _strips(call))
    share = rows * keys / (call.shape[2] * call.shape[3])
    strip = plain.table_bytes(call, int(math.prod(call.shape) * share), int(call.tabled() * share))
    # the strips, and they side by side
    return strip + plain.copied_bytes(call) + 4 * math.prod(call.shape[:3]) * call.value.shape[-1]


def compute(call: Call) -> Float[Tensor, "batch heads query_len value_dim"]:
    mask, heads = call.mask, call.shape[1]
    # once for all strips, not once in each
    query, key, value = wide(call.query), wide(per_head(call.key, heads)), wide(per_head(call.value, heads))
    score, normalizer, dropout, start = call.score, call.normalizer, call.dropout, call.query_start
    scored, weighted = with_tensors_of_now(score), with_tensors_of_now(normalizer)
    terms, placed = ((), None) if call.relative is None else call.relative.apart()

    # tensors are arguments: what a checkpoint encloses in place of them would outlive one around it
    def strip(first: int, last: int, low: int, high: int, *tensors: Any) -> Tensor:
        query, key, value, bias, *terms = tensors
        relative = None if placed is None else placed(*terms)
        full = Call(query, key, value, score, normalizer, mask, bias, relative, dropout, start)
        part = full.part(queries=(first, last), keys=(low, high))
        return plain.attention(part, part.keep(), scored, weighted)

    tensors = (query, key, value, call.bias, *terms)
    repeats = call.learns and can_checkpoint(call.tensors)
    strips = [checkpointed(strip, *limit, *tensors) if repeats else strip(*limit, *tensors) for limit in _strips(call)]
    return torch.cat(strips, dim=2).to(call.value.dtype)


def _strips(call: Call) -> Iterator[tuple[int, int, int, int]]:
    """(first query, last, lowest key, highest) of every strip; ends are behind the last one."""
    batch, heads, _, key_len = call.shape
    step = max(_ROWS, _NUMBERS // (batch * heads * key_len * call.score.kept_width(call.query)))
    return strips_of(call.structure.within, Place(*call.shape, call.query_start), step)

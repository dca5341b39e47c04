"""The definition, written out: any score, normalizer, mask, bias, type and device; the specification of the others."""

import math
from collections.abc import Callable

from jaxtyping import Bool, Float
from torch import Tensor

from headwise.attention.call import Call, is_plain, per_head
from headwise.attention.dropout import drop
from headwise.attention.normalizers import Entmax, Entmax15, Function, Softmax, Sparsemax, TopK
from headwise.attention.precision import wide
from headwise.errors import ShapeError


def refusal(call: Call) -> str | None:
    """None: the definition computes every call."""
    return None


def empty_axis(call: Call) -> str | None:
    """The refusal of kernels that need numbers along every axis."""
    return "an axis is empty" if 0 in (*call.shape, call.query.shape[-1], call.value.shape[-1]) else None


def left_out(call: Call) -> str | None:
    """The refusal of kernels that leave pairs out."""
    if isinstance(call.normalizer, Function):
        return f"the normalizer {call.normalizer.name} is a function, which may count hidden keys"
    return empty_axis(call)


def num_pairs(call: Call) -> int:
    """All of them."""
    return math.prod(call.shape)


def memory_summary(call: Call) -> str:
    """The table of scores, and for a score that is no product what it has for each pair."""
    shown, count = ", ".join(map(str, call.shape)), math.prod(call.shape) * 4
    width = call.score.kept_width(call.query)
    if width == 1:
        return f"scores ({shown}), {count:,} bytes"
    return f"features ({shown}, {width}), {count * width:,} bytes"


def peak_bytes(call: Call) -> int:
    return table_bytes(call, math.prod(call.shape), call.tabled()) + copied_bytes(call)


def copied_bytes(call: Call) -> int:
    """Bytes that the definition makes of queries, keys and values: cleaned, in float32, for each head, scaled."""
    item, group = call.query.element_size(), call.group
    numbers = 2 * call.query.numel()
    if item < 4 or group > 1:
        numbers += group * (call.key.numel() + call.value.numel())
    if not is_plain(call.score):
        numbers += group * call.key.numel()
    cleaned = 0 if call.structure.open else item * (call.key.numel() + call.value.numel())
    return cleaned + max(4, item) * numbers


def table_bytes(call: Call, pairs: int, tabled: int) -> int:
    """Bytes of the definition over so many pairs, under a table of so many."""
    item = max(4, call.query.element_size())
    # a score that is no product keeps the sums of its features, and what it makes of them
    width = 2 * call.score.kept_width(call.query) - 1
    return item * pairs * max(tables(call, tabled), width) + tabled


def tables(call: Call, tabled: int) -> int:
    """Tables as large as the scores that are in memory at once."""
    if isinstance(call.normalizer, Softmax):
        # scores and weights; beside a table what is hidden is filled in
        return 4 if tabled else 2
    # these sort, or try thresholds
    searches = isinstance(call.normalizer, Entmax | Entmax15 | Sparsemax | TopK)
    return 5 if tabled or searches else 2


def weights(call: Call) -> Float[Tensor, "batch heads query_len key_len"]:
    """The attention weights before dropout, in float32 or wider; exactly 0 where mask or bias forbid the pair."""
    return normalized(call, call.keep())


def compute(call: Call) -> Float[Tensor, "batch heads query_len value_dim"]:
    return attention(call, call.keep())


def attention(
    call: Call,
    keep: Bool[Tensor, "#batch #heads #query_len #key_len"] | None,
    score: Callable[..., Tensor] | None = None,
    normalizer: Callable[..., Tensor] | None = None,
) -> Float[Tensor, "batch heads query_len value_dim"]:
    """The output of a call under a table; score and normalizer may be given as functions in place of its own."""
    used = drop(normalized(call, keep, score, normalizer), call.dropout)
    output = used @ wide(per_head(call.value, call.query.shape[1]))
    if call.relative is not None and call.relative.value_table is not None:
        output = output + call.relative.values(used, call.query_start)
    return output.to(call.value.dtype)


def normalized(
    call: Call,
    keep: Bool[Tensor, "#batch #heads #query_len #key_len"] | None,
    score: Callable[..., Tensor] | None = None,
    normalizer: Callable[..., Tensor] | None = None,
) -> Float[Tensor, "batch heads query_len key_len"]:
    """The weights of a call under a table.

    Half-precision scores are computed in float32: rounded to bfloat16 they would be wrong by whole units when large.
    """
    query, key = wide(call.query), wide(per_head(call.key, call.query.shape[1]))
    scores = (score or call.score)(query, key)
    if scores.shape != call.shape:
        expected = f"(batch, heads, query_len, key_len) = {call.shape}"
        raise ShapeError(f"score {type(call.score).__name__} must return {expected}, got {tuple(scores.shape)}")
    if call.bias is not None:
        scores = scores + call.bias.to(scores.dtype)
    if call.relative is not None and call.relative.has_bias():
        scores = scores + call.relative.bias(*call.shape[2:], call.query_start).to(scores.dtype)
    return (normalizer or call.normalizer)(scores, keep)

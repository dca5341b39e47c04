"""Strips of query rows against all keys, in linear memory: any normalizer, mask, bias and relative positions.

A strip holds whole rows, so no normalizer needs a second pass over keys; the gradient computes it again. Queries that
share a key head are rows of one product; a band costs only the keys inside it. After Rabe and Staats 2021,
arXiv:2112.05682, section 4, with whole rows in place of a running maximum.
"""

from jaxtyping import Float
from torch import Tensor

from headwise.attention.call import Call
from headwise.attention.kernels._products import gains
from headwise.attention.kernels._rows_any import attend_any
from headwise.attention.kernels._rows_dot import attend_dot
from headwise.attention.kernels._strips import as_wide_as_all_keys, outline
from headwise.attention.scores import Score

# scores in a strip, two megabytes in float32, and the rows below which products are slow
_PAIRS = 2**19
_LEAST_ROWS = 64


def refusal(call: Call) -> str | None:
    """None: strips compute every call."""
    return None


def terms(call: Call) -> dict[str, float]:
    """Amounts of work inside the band of the mask; `tables` are pairs that meet a table of relative positions."""
    number, pairs, strip_rows, keys = outline(call, *_sizes(call))
    width = call.score.pair_width(call.query)
    batch, heads, query_len, key_len = call.shape
    found = {"calls": 1.0, "rows": float(batch * heads * (query_len + key_len)), "strips": number}
    fast = as_wide_as_all_keys(call) and gains(strip_rows, call.query.shape[-1], keys)
    found["fast products" if fast else "products"] = pairs * (width + call.value.shape[-1])
    found["graph pairs" if _by_graph(call) else call.normalizer.work] = pairs
    if not _is_dot(call):
        found["hidden"] = pairs * width
    if call.dropout:
        found["dropped pairs"] = pairs
    if call.mask is not None or call.bias is not None:
        found["masked pairs"] = pairs
    if call.relative is not None:
        relative = call.relative
        tables = (relative.query_table, relative.key_table, relative.value_table)
        found["tables"] = pairs * (1 + sum(table is not None for table in tables))
    return found


def spares(call: Call) -> bool:
    """Whether no table of all pairs is kept: none is."""
    return True


def keeps(call: Call) -> str:
    """What is kept for the gradient, and what a strip needs."""
    batch, heads, query_len, _ = call.shape
    strip = f"one strip of about {4 * _PAIRS:,} bytes"
    return f"{strip}, the output and one number a row ({batch * heads * query_len * 4:,} bytes)"


def compute(call: Call) -> Float[Tensor, "batch heads query_len value_dim"]:
    """The output of the call."""
    return in_strips(call, *_sizes(call))


def in_strips(call: Call, pairs: int, least_rows: int) -> Float[Tensor, "batch heads query_len value_dim"]:
    """The output of the call, by strips of about `pairs` scores but no fewer rows than `least_rows` or all."""
    if _by_graph(call):
        return attend_any(call, pairs, least_rows)
    as_dot = call.score.as_dot(call.query, call.key)
    assert as_dot is not None
    query, key, scale = as_dot
    return attend_dot(call, query, key, scale * call.scale, pairs, least_rows)


def _is_dot(call: Call) -> bool:
    # comparing functions costs nothing; asking the score may multiply matrices
    return type(call.score).as_dot is not Score.as_dot


def _by_graph(call: Call) -> bool:
    listed = call.relative is not None and call.relative.distances is not None
    return listed or not _is_dot(call) or not call.normalizer.has_strips()


def _sizes(call: Call) -> tuple[int, int]:
    """Scores and least rows of a strip."""
    if not _is_dot(call):
        # such a score holds this many numbers for each pair
        return max(1, _PAIRS // max(1, call.score.pair_width(call.query))), 1
    # tables need more memory beside the strip
    return _PAIRS, _LEAST_ROWS if call.relative is None else _LEAST_ROWS // 2

"""The GPU programs of additive attention: scores by reciprocals, a running softmax, and gradients that repeat them.

With A = exp(2 q) and K = exp(2 k), one number a token, tanh(q + k) = 1 - 2 r and r = 1 / (1 + A K). Two hidden numbers
share one reciprocal: v / d + w / e = (v e + w d) / (d e), with d and e held below 2^60 so that the product is finite.
Where a projection is so large that its exponential is not, `extreme` is set and exp(2 (q + k)) is taken for each pair.
Strides are those of contiguous tensors; hidden numbers come in pairs, padded with zeros.
"""

import inspect
from types import SimpleNamespace

try:
    import triton  # type: ignore[import-not-found,unused-ignore]
    from triton import language as tl  # type: ignore[import-not-found,unused-ignore]
except ImportError:
    # the file can be read and documented without it; the kernel refuses calls
    triton, tl = None, SimpleNamespace(constexpr=None)


def _program(function):
    # what checks annotations in tests is no part of a program
    return function if triton is None else triton.jit(inspect.unwrap(function))


@_program
def _denominator(q, k, row, col, hidden: tl.constexpr, at, row_ok, col_ok, extreme):
    """1 + exp(2 (q + k)) of one hidden number for a tile; q and k hold projections if extreme, else exponentials."""
    one = tl.load(q + row * hidden + at, mask=row_ok, other=0.0)[:, None]
    two = tl.load(k + col * hidden + at, mask=col_ok, other=0.0)[None, :]
    # the other branch is not computed: the condition is one number
    power = tl.exp(tl.minimum(2.0 * (one + two), 60.0)) if extreme else one * two
    # 2^60
    return 1.0 + tl.minimum(power, 1152921504606846976.0)


@_program
def _scores(q, k, v, row, col, hidden: tl.constexpr, row_ok, col_ok, extreme, rows: tl.constexpr, cols: tl.constexpr):
    """-2 sum_h v_h r_h: the scores less the sum of v, which no softmax sees."""
    total = tl.zeros((rows, cols), tl.float32)
    for at in range(0, hidden, 2):
        d = _denominator(q, k, row, col, hidden, at, row_ok, col_ok, extreme)
        e = _denominator(q, k, row, col, hidden, at + 1, row_ok, col_ok, extreme)
        total += (tl.load(v + at) * e + tl.load(v + at + 1) * d) / (d * e)
    return -2.0 * total


@_program
def _hidden_scores(scores, bias, bias_row, bias_col, row, col, row_ok, col_ok, start, causal, biased):
    """Minus infinity where the pair is forbidden."""
    if biased:
        places = row[:, None] * bias_row + col[None, :] * bias_col
        scores += tl.load(bias + places, mask=row_ok[:, None] & col_ok[None, :], other=0.0)
    seen = col_ok[None, :] & row_ok[:, None]
    if causal:
        seen = seen & (col[None, :] <= row[:, None] + start)
    return tl.where(seen, scores, float("-inf"))


@_program
def _vectors(tensor, index, ok, dim: tl.constexpr, width: tl.constexpr):
    """Rows (index, dim) of a tensor as (n, width) in float32, zeros beyond."""
    at = tl.arange(0, width)
    places = index[:, None] * dim + at[None, :]
    return tl.load(tensor + places, mask=ok[:, None] & (at < dim)[None, :], other=0.0).to(tl.float32)


@_program
def _add_rows(tensor, index, ok, at, hidden: tl.constexpr, numbers):
    """Adds to column `at`; the rows belong to this program alone."""
    places = tensor + index * hidden + at
    tl.store(places, tl.load(places, mask=ok, other=0.0) + numbers, mask=ok)


@_program
def _forward(
    q, k, v, value, bias, extreme, output, lse,
    heads, group, query_len, key_len, start,
    bias_batch, bias_head, bias_row, bias_col,
    hidden: tl.constexpr, dim: tl.constexpr, width: tl.constexpr,
    causal: tl.constexpr, biased: tl.constexpr, rows: tl.constexpr, cols: tl.constexpr,
):  # fmt: skip
    """The output and the logsumexp of each row: one program for some rows of one head, over all keys."""
    item = tl.program_id(1)
    source = item // group
    row = tl.program_id(0) * rows + tl.arange(0, rows)
    row_ok, beyond = row < query_len, tl.load(extreme)
    bias += (item // heads) * bias_batch + (item % heads) * bias_head
    top = tl.full((rows,), float("-inf"), tl.float32)
    total = tl.zeros((rows,), tl.float32)
    sums = tl.zeros((rows, width), tl.float32)
    for first in range(0, key_len, cols):
        col = first + tl.arange(0, cols)
        col_ok = col < key_len
        one, two = q + item * query_len * hidden, k + source * key_len * hidden
        scores = _scores(one, two, v, row, col, hidden, row_ok, col_ok, beyond, rows, cols)
        scores = _hidden_scores(scores, bias, bias_row, bias_col, row, col, row_ok, col_ok, start, causal, biased)
        higher = tl.maximum(top, tl.max(scores, 1))
        # a row without a key so far
        safe = tl.where(higher == float("-inf"), 0.0, higher)
        powers, shrink = tl.exp(scores - safe[:, None]), tl.exp(top - safe)
        total = total * shrink + tl.sum(powers, 1)
        vectors = _vectors(value + source * key_len * dim, col, col_ok, dim, width)
        sums = sums * shrink[:, None] + tl.dot(powers, vectors, input_precision="ieee")
        top = higher
    empty = total == 0.0
    at = tl.arange(0, width)
    result = sums / tl.where(empty, 1.0, total)[:, None]
    places = output + (item * query_len + row)[:, None] * dim + at[None, :]
    tl.store(places, result, mask=row_ok[:, None] & (at < dim)[None, :])
    # a row without a key gets weights of exp(-infinity - infinity) = 0 going back
    log = tl.where(empty, float("inf"), tl.where(empty, 0.0, top) + tl.log(tl.where(empty, 1.0, total)))
    tl.store(lse + item * query_len + row, log, mask=row_ok)


@_program
def _pair_gradients(
    scores, value, lse, delta, d_output, row, col, row_ok, col_ok, dim: tl.constexpr, width: tl.constexpr
):
    """The weights of a tile, the gradient of its scores, and the gradient of the output for its rows."""
    vectors = _vectors(value, col, col_ok, dim, width)
    d_rows = _vectors(d_output, row, row_ok, dim, width)
    weights = tl.exp(scores - tl.load(lse + row, mask=row_ok, other=float("inf"))[:, None])
    d_weights = tl.dot(d_rows, tl.trans(vectors), input_precision="ieee")
    d_scores = weights * (d_weights - tl.load(delta + row, mask=row_ok, other=0.0)[:, None])
    return weights, d_scores, d_rows


@_program
def _backward_queries(
    q, k, v, value, bias, extreme, lse, delta, d_output, d_q, d_v,
    heads, group, query_len, key_len, start, bias_batch, bias_head, bias_row, bias_col,
    hidden: tl.constexpr, dim: tl.constexpr, width: tl.constexpr,
    causal: tl.constexpr, biased: tl.constexpr, rows: tl.constexpr, cols: tl.constexpr,
):  # fmt: skip
    """Gradients of the query's projections and of v: one program for some rows of one head, over all keys."""
    item = tl.program_id(1)
    source = item // group
    row = tl.program_id(0) * rows + tl.arange(0, rows)
    row_ok, beyond = row < query_len, tl.load(extreme)
    bias += (item // heads) * bias_batch + (item % heads) * bias_head
    one, two = q + item * query_len * hidden, k + source * key_len * hidden
    lse, delta = lse + item * query_len, delta + item * query_len
    d_output, d_q = d_output + item * query_len * dim, d_q + item * query_len * hidden
    d_v += (item * tl.num_programs(0) + tl.program_id(0)) * hidden
    for first in range(0, key_len, cols):
        col = first + tl.arange(0, cols)
        col_ok = col < key_len
        scores = _scores(one, two, v, row, col, hidden, row_ok, col_ok, beyond, rows, cols)
        scores = _hidden_scores(scores, bias, bias_row, bias_col, row, col, row_ok, col_ok, start, causal, biased)
        part = value + source * key_len * dim
        _, d_scores, _ = _pair_gradients(scores, part, lse, delta, d_output, row, col, row_ok, col_ok, dim, width)
        for at in range(hidden):
            r = 1.0 / _denominator(one, two, row, col, hidden, at, row_ok, col_ok, beyond)
            slope = tl.sum(d_scores * (r - r * r), 1) * tl.load(v + at) * 4.0
            _add_rows(d_q, row, row_ok, at, hidden, slope)
            tl.store(d_v + at, tl.load(d_v + at) - 2.0 * tl.sum(d_scores * r))


@_program
def _backward_keys(
    q, k, v, value, bias, extreme, lse, delta, d_output, d_k, d_value,
    heads, group, query_len, key_len, start, bias_batch, bias_head, bias_row, bias_col,
    hidden: tl.constexpr, dim: tl.constexpr, width: tl.constexpr,
    causal: tl.constexpr, biased: tl.constexpr, rows: tl.constexpr, cols: tl.constexpr,
):  # fmt: skip
    """Gradients of the key's projections and of the values: one program for some keys, over all queries that share."""
    source = tl.program_id(1)
    col = tl.program_id(0) * cols + tl.arange(0, cols)
    col_ok, beyond = col < key_len, tl.load(extreme)
    two, part, d_k = k + source * key_len * hidden, value + source * key_len * dim, d_k + source * key_len * hidden
    sums = tl.zeros((cols, width), tl.float32)
    blocks = (query_len + rows - 1) // rows
    for step in range(blocks * group):
        item = source * group + step // blocks
        row = (step % blocks) * rows + tl.arange(0, rows)
        row_ok = row < query_len
        one, table = q + item * query_len * hidden, bias + (item // heads) * bias_batch + (item % heads) * bias_head
        scores = _scores(one, two, v, row, col, hidden, row_ok, col_ok, beyond, rows, cols)
        scores = _hidden_scores(scores, table, bias_row, bias_col, row, col, row_ok, col_ok, start, causal, biased)
        log, inner, d_rows = lse + item * query_len, delta + item * query_len, d_output + item * query_len * dim
        weights, d_scores, gradient = _pair_gradients(
            scores, part, log, inner, d_rows, row, col, row_ok, col_ok, dim, width
        )
        sums += tl.dot(tl.trans(weights), gradient, input_precision="ieee")
        for at in range(hidden):
            r = 1.0 / _denominator(one, two, row, col, hidden, at, row_ok, col_ok, beyond)
            slope = tl.sum(d_scores * (r - r * r), 0) * tl.load(v + at) * 4.0
            _add_rows(d_k, col, col_ok, at, hidden, slope)
    at = tl.arange(0, width)
    places = d_value + source * key_len * dim + col[:, None] * dim + at[None, :]
    tl.store(places, sums, mask=col_ok[:, None] & (at < dim)[None, :])

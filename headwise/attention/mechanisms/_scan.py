"""The recurrence S_i = (I - e_i r_i^T) diag(a_i) S_(i-1) + k_i v_i^T, out_i = q_i S_i: chunk by chunk, and one step.

Inside a chunk the pairs are matrix products; between chunks only the sums S are carried. Time and memory are linear in
length. Chunks of 64 are fastest on a CPU: larger ones spend on pairs, smaller ones on sums.
"""

# Of a chunk with the sums S before it, G the log decays summed from its start and P_xy[i, j] = sum over features of
# x_i y_j exp(G_i - G_j) for j <= i, with T the part of P_re below the diagonal:
#
#     Z = Z_0 + W S,  Z_0 = (I + T)^-1 strict(P_rk) V,  W = (I + T)^-1 (r exp(G))      what is read, at each position
#     out = P_qk V - P_qe Z_0 + (q exp(G) - P_qe W) S
#     S' = (diag(exp(G_C)) - L_e^T W) S + L_k^T V - L_e^T Z_0,  L_x = x exp(G_C - G)
#
# If e = k, a delta rule, two tables go: U = (I + T)^-1 V is the value that is really added (the WY form of Yang et al.
# 2024, arXiv:2406.06484, section 3.2), and out = P_qk U + (q exp(G) - P_qk W) S.

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from headwise.attention.mechanisms._masks import chunks, front

CHUNK = 64
# log decays that sum to no less than this over a chunk: exp(-G) is far from overflow, even in float32
_BOUND = -80.0
# scalar log decays below leave nothing, in any type, and sums of larger ones keep their digits
_GONE = -100.0

Query = Float[Tensor, "batch heads length features"]
Key = Float[Tensor, "batch kv_heads length features"]
Value = Float[Tensor, "batch kv_heads length wide"]
Output = Float[Tensor, "batch heads length wide"]
Levels = Float[Tensor, "batch heads length levels"]
Sums = Float[Tensor, "batch kv_heads features wide"]


class Terms(NamedTuple):
    """What the recurrence is made of, in float32 or wider; key and value may have fewer heads if nothing fades or goes.

    Args:
        query: q, scaled.
        log_decay: log a <= 0, one number for each head or one for each feature; None: nothing fades.
        read: r; None: nothing is erased.
        erase: e; None: the key, as in a delta rule, of which it is a share of a read vector of length 1 at most.
        aside: what the mechanism keeps of each token for `finish`.
    """

    query: Query
    key: Key
    value: Value
    log_decay: Float[Tensor, "batch heads length gates"] | None = None
    read: Query | None = None
    erase: Query | None = None
    aside: Float[Tensor, "batch heads length _"] | None = None

    def map(self, function: Callable[[Tensor], Tensor]) -> "Terms":
        """The terms that this function makes of each."""
        query, key, value = (function(x) for x in self[:3])
        return Terms(query, key, value, *(None if x is None else function(x) for x in self[3:]))


def scan(terms: Terms, sums: Sums | None, floor: float = float("-inf")) -> tuple[Output, Sums]:
    """The outputs and the last S; `sums` is the S before the first token, None: zeros.

    Args:
        floor: the least log decay that there can be, which makes tables of bounded ones cheap.
    """
    traced, length = torch.compiler.is_compiling(), terms.query.shape[2]
    size = _chunk_size(length)
    near, far, steps, share = _chunk_terms(_in_chunks(terms, size), size, floor)
    before, last = (_doubled if traced else _carried)(
        steps.new_zeros(steps[:, :, 0].shape) if sums is None else sums, steps, share
    )
    rows = (near + far @ before).unflatten(3, (-1, size)).transpose(2, 3).flatten(3, 4).flatten(1, 2)
    return front(rows, length), last


def step(terms: Terms, sums: Sums) -> tuple[Output, Sums]:
    """The same for one token: products of vectors with S, without a table.

    >>> one = torch.ones(1, 1, 1, 2)
    >>> step(Terms(one, one, one, read=one), torch.ones(1, 1, 2, 2))[0].tolist()
    [[[[0.0, 0.0]]]]
    """
    query, key, value, log_decay, read, erase, _ = terms
    sums = sums if log_decay is None else sums * log_decay.exp().mT
    added = key.mT @ value
    if read is not None:
        added = added - (key if erase is None else erase).mT @ (read @ sums)
    sums = sums + added
    rows = query.squeeze(2).unflatten(1, (key.shape[1], -1)) @ sums
    return rows.flatten(1, 2).unsqueeze(2), sums


def tree(terms: Terms, levels: Levels) -> Output:
    """The outputs of `scan` where query i weighs what it reads of each level of a Fenwick tree by its levels[i].

    Level 0 is the token itself, level l a block of 2^(l - 1) tokens before it (`level_of`). Inside a chunk the table is
    weighted; between chunks states are merged in pairs, of which the later one's chunks read the earlier one. A traced
    program has one chunk. Something must fade or go, so that every head has its own keys.

    Source: Guo et al. 2025, arXiv:2506.04761.
    """
    traced, length = torch.compiler.is_compiling(), terms.query.shape[2]
    size = length if traced else _chunk_size(length)
    parts = terms.map(lambda x: x.unsqueeze(2)) if traced else _in_chunks(terms, size)
    unit = torch.eye(size, dtype=levels.dtype, device=levels.device).expand(*parts.query.shape[:3], -1, -1)
    table, far, taken, share = _chunk_terms(parts._replace(value=unit), size, float("-inf"))
    weights = levels.unsqueeze(2) if traced else _chunked(levels, levels.shape[1], size * far.shape[2], size)
    place = torch.arange(size, device=levels.device)
    number = level_of(place.unsqueeze(-1), place).clamp(max=levels.shape[-1] - 1)
    rows = (table * weights.gather(-1, number.expand_as(table))) @ parts.value
    if not traced:
        inside = (size - 1).bit_length() + 1
        rows = rows + _read_before(far, taken @ parts.value, share, weights[..., inside:])
    return front(rows.flatten(2, 3), length)


def _read_before(far: Tensor, states: Tensor, share: Tensor | None, weights: Tensor) -> Tensor:
    """What the rows of each chunk read of the chunks before theirs, in blocks that double."""
    count = far.shape[2]
    doublings = (count - 1).bit_length()
    fill = (0, 0, 0, 0, 0, (1 << doublings) - count)
    share = states.new_ones(*states.shape[:3], 1, 1) if share is None else share
    # `met` meets the state before the block: (batch, heads, blocks, chunks of a block, rows, features)
    states, share, rows_met, weights = (F.pad(x, fill) for x in (states, share, far, weights))
    met = rows_met.unsqueeze(3)
    rows = states.new_zeros(*met.shape[:3], far.shape[3], states.shape[-1])
    for level in range(doublings):
        (early, late), (kept, passed), (first, second) = (_halved(x, 2) for x in (states, share, met))
        _, own = _halved(weights[..., level : level + 1].unflatten(2, (-1, 1 << level)), 2)
        read = (second @ early.unsqueeze(3) * own).unsqueeze(3)
        rows = rows + F.pad(read, (0, 0, 0, 0, 0, 0, 1, 0)).flatten(2, 4)
        if share.shape[-1] == 1:
            states, share, second = passed * early + late, passed * kept, second * kept.mT.unsqueeze(3)
        else:
            states, share, second = passed @ early + late, passed @ kept, second @ kept.unsqueeze(3)
        met = torch.cat((first, second), 3)
    return rows[:, :, :count]


def level_of(query: Tensor, key: Tensor) -> Tensor:
    """The level at which a query meets a key before it: 0 is itself, l a block of 2^(l - 1) tokens.

    >>> level_of(torch.tensor(6), torch.arange(7)).tolist()
    [3, 3, 3, 3, 2, 2, 0]
    """
    powers = 2 ** torch.arange(31, device=key.device)
    return torch.bucketize(query ^ key, powers, right=True)


def _chunk_size(length: int) -> int:
    """The smallest power of two that holds the length, which a traced program does not know."""
    return CHUNK if torch.compiler.is_compiling() else min(CHUNK, 1 << max(0, length - 1).bit_length())


def _in_chunks(terms: Terms, size: int) -> Terms:
    kv_heads, padded_len = terms.key.shape[1], size * chunks(terms.query.shape[2], size)
    return terms.map(lambda x: _chunked(x, kv_heads, padded_len, size))


class Pairs(ABC):
    """Tables of pairs inside chunks, (batch, heads, chunks, queries, keys), and what decays make of vectors.

    What a table takes of its rows x and columns y is made once for all tables that they are in.
    """

    # exp(G), exp(G_C - G) and exp(G_C) of each chunk; None: nothing fades
    _since: Tensor | None = None
    _left: Tensor | None = None
    share: Tensor | None = None

    def rows(self, x: Tensor) -> list[Tensor]:
        """What `table` takes of x."""
        return [x]

    def columns(self, y: Tensor) -> list[Tensor]:
        """What `table` takes of y."""
        return [y]

    @abstractmethod
    def table(self, rows: list[Tensor], columns: list[Tensor]) -> Tensor:
        """P_xy of `rows(x)` and `columns(y)`; beyond the diagonal stands anything."""

    def since(self, x: Tensor, rows: list[Tensor]) -> Tensor:
        """x exp(G), with `rows(x)` beside it: what a vector meets of the sums before its chunk."""
        return x if self._since is None else x * self._since

    def left(self, y: Tensor, columns: list[Tensor]) -> Tensor:
        """y exp(G_C - G), with `columns(y)` beside it: what is left of a vector at the end of its chunk."""
        return y if self._left is None else y * self._left


class UndecayedPairs(Pairs):
    """Without decays; the rows are queries of all heads of a group."""

    def table(self, rows: list[Tensor], columns: list[Tensor]) -> Tensor:
        return rows[0] @ columns[0].mT


class ScalarPairs(Pairs):
    """With one decay for each head: only differences of summed log decays that are at most 0 are exponentiated."""

    def __init__(self, g: Tensor, size: int):
        # differences of float32 sums would lose a small gate behind a large one
        sums = g.double().clamp(min=_GONE).cumsum(3)
        later = torch.ones(size, size, dtype=torch.bool, device=g.device).triu(1)
        total = sums[:, :, :, -1:]
        self._decay = (sums - sums.mT).masked_fill(later, float("-inf")).exp().to(g.dtype)
        self._since, self._left = sums.exp().to(g.dtype), (total - sums).exp().to(g.dtype)
        self.share = total.exp().to(g.dtype)

    def table(self, rows: list[Tensor], columns: list[Tensor]) -> Tensor:
        return rows[0] @ columns[0].mT * self._decay


class BoundedPairs(Pairs):
    """With a decay for each feature that is bounded from below: one product, with exp(-G)."""

    def __init__(self, g: Tensor):
        sums = g.cumsum(3)
        self._fade, self._grown = sums.exp(), (-sums).exp()
        self.share = self._fade[:, :, :, -1:].mT

    def rows(self, x: Tensor) -> list[Tensor]:
        return [x * self._fade]

    def columns(self, y: Tensor) -> list[Tensor]:
        return [y * self._grown]

    def table(self, rows: list[Tensor], columns: list[Tensor]) -> Tensor:
        return rows[0] @ columns[0].mT

    def since(self, x: Tensor, rows: list[Tensor]) -> Tensor:
        return rows[0]

    def left(self, y: Tensor, columns: list[Tensor]) -> Tensor:
        return columns[0] * self._fade[:, :, :, -1:]


class HalvedPairs(Pairs):
    """With a decay for each feature of any strength: blocks of `part` tokens by exp(-G), then halves that double.

    The decay between a half and the next is a product of factors, each at most 1, where exp(-G) of a chunk would
    overflow. Decays are multiplied, not subtracted as logs, so none loses digits to a gate that is nearly shut. What
    passes a gate of -17.5 (float32) is below rounding, and the inverse of three leaves room for short keys, no others.
    """

    def __init__(self, g: Tensor, size: int, part: int):
        part = self._part = min(part, size)
        gates = g.clamp(min=1.1 * math.log(torch.finfo(g.dtype).eps)).unflatten(3, (-1, part)).unbind(4)
        up, down = [torch.ones_like(gates[0])], [torch.ones_like(gates[0])]
        for gate in gates[1:]:
            up.append(up[-1] * gate.exp())
            down.append(down[-1] * (-gate).exp())
        # (batch, heads, chunks, blocks, tokens, features): from a block's first token to each, and its inverse
        self._up, self._down = torch.stack(up, 4), torch.stack(down, 4)
        # of each block in a row of them that doubles: what fades up to its first token, behind it, and in all
        before, behind = gates[0].unsqueeze(4), sum(gates[1:], torch.zeros_like(gates[0])).unsqueeze(4)
        total = before + behind
        self._halves: list[tuple[Tensor, Tensor]] = []
        while part * before.shape[4] < size:
            (first, second), (early, late), (first_total, second_total) = map(_halved, (before, behind, total))
            self._halves.append((second.exp().unsqueeze(-2), early.exp().unsqueeze(-2)))
            before = torch.cat((first, second + first_total), -2)
            behind = torch.cat((early + second_total, late), -2)
            total = first_total + second_total
        self._before, self._behind = (x.squeeze(3).exp().unsqueeze(-2) for x in (before, behind))
        self.share = total.squeeze(3).exp().mT

    def rows(self, x: Tensor) -> list[Tensor]:
        blocks = x.unflatten(3, (-1, self._part))
        blocks = blocks if self._part == 1 else blocks * self._up
        later = (_halved(blocks.unflatten(3, (-1, h.shape[4])))[1] * h for h, _ in self._halves)
        return [blocks, *(half.flatten(4, 5) for half in later)]

    def columns(self, y: Tensor) -> list[Tensor]:
        blocks = y.unflatten(3, (-1, self._part))
        blocks = blocks if self._part == 1 else blocks * self._down
        earlier = (_halved(blocks.unflatten(3, (-1, h.shape[4])))[0] * h for _, h in self._halves)
        return [blocks, *(half.flatten(4, 5) for half in earlier)]

    def table(self, rows: list[Tensor], columns: list[Tensor]) -> Tensor:
        # a product of single tokens is slow as one of matrices
        single = self._part == 1
        tables = (rows[0] * columns[0]).sum(-1, keepdim=True) if single else (rows[0] @ columns[0].mT).tril()
        for later, earlier in zip(rows[1:], columns[1:], strict=True):
            first, second = _halved(tables)
            lower = torch.cat((later @ earlier.mT, second), -1)
            tables = torch.cat((F.pad(first, (0, first.shape[-1])), lower), -2)
        return tables.squeeze(3)

    def since(self, x: Tensor, rows: list[Tensor]) -> Tensor:
        return (rows[0] * self._before).flatten(3, 4)

    def left(self, y: Tensor, columns: list[Tensor]) -> Tensor:
        return (columns[0] * self._behind).flatten(3, 4)


def _halved(blocks: Tensor, axis: int = 3) -> tuple[Tensor, Tensor]:
    """Blocks in pairs: the first of each, and the second."""
    first, second = blocks.unflatten(axis, (-1, 2)).unbind(axis + 1)
    return first, second


# what a chunk gives by itself, what its rows meet of the sums before it, what it adds to them, what is left of them
Chunks = tuple[Tensor, Tensor, Tensor, Tensor | None]


def _chunk_terms(parts: Terms, size: int, floor: float) -> Chunks:
    q, k, v, g, r, e, _ = parts
    pairs: Pairs = UndecayedPairs()
    if g is not None and g.shape[-1] == 1:
        pairs = ScalarPairs(g, size)
    elif g is not None:
        # the keys of a delta rule are short
        part = 4 if r is not None and e is None else 1
        pairs = BoundedPairs(g) if floor * CHUNK >= _BOUND else HalvedPairs(g, size, part)
    return _erasing(pairs, q, k, v, r, e) if r is not None else _adding(pairs, q, k, v)


def _adding(pairs: Pairs, q: Tensor, k: Tensor, v: Tensor) -> Chunks:
    rows, columns = pairs.rows(q), pairs.columns(k)
    # the heads of a group are rows
    table = pairs.table(rows, columns).unflatten(3, (-1, k.shape[3])).tril().flatten(3, 4)
    return table @ v, pairs.since(q, rows), pairs.left(k, columns).mT @ v, pairs.share


def _erasing(pairs: Pairs, q: Tensor, k: Tensor, v: Tensor, r: Tensor, e: Tensor | None) -> Chunks:
    width, erased = v.shape[-1], k if e is None else e
    queries, reads, erasures = pairs.rows(q), pairs.rows(r), pairs.columns(erased)
    keys = erasures if e is None else pairs.columns(k)
    values = v if e is None else pairs.table(reads, keys).tril(-1) @ v
    given = torch.cat((values, pairs.since(r, reads)), -1)
    # only what is below the diagonal is read of the table
    solved = torch.linalg.solve_triangular(pairs.table(reads, erasures), given, upper=False, unitriangular=True)
    z, w = solved.split((width, solved.shape[-1] - width), -1)
    taken, table = pairs.left(erased, erasures).mT, pairs.table(queries, erasures).tril()
    share = (
        torch.ones_like(k[:, :, :, :1]).mT if pairs.share is None else pairs.share.expand(-1, -1, -1, k.shape[-1], 1)
    )
    share, far = torch.diag_embed(share.squeeze(-1)) - taken @ w, pairs.since(q, queries) - table @ w
    if e is None:
        return table @ z, far, taken @ z, share
    near = pairs.table(queries, keys).tril() @ v - table @ z
    return near, far, pairs.left(k, keys).mT @ v - taken @ z, share


def _carried(sums: Tensor, steps: Tensor, share: Tensor | None) -> tuple[Tensor, Tensor]:
    """The S before each chunk, and the last; a loop: cumsum is slow backwards, and knows no share."""
    before, shares = [sums], () if share is None else share.unbind(2)
    for i, added in enumerate(steps.unbind(2)):
        if share is None:
            before.append(before[-1] + added)
        elif share.shape[-1] == 1:
            before.append(torch.addcmul(added, shares[i], before[-1]))
        else:
            before.append(added + shares[i] @ before[-1])
    return torch.stack(before[:-1], 2), before[-1]


def _doubled(sums: Tensor, steps: Tensor, share: Tensor | None) -> tuple[Tensor, Tensor]:
    """The same without a loop over chunks, of which a traced program does not know the number (at most 65,536)."""
    count = steps.shape[2]
    reached = torch.cat((sums.unsqueeze(2), steps), 2)
    share = torch.ones_like(steps[..., :1]) if share is None else share
    matrix = share.shape[-1] != 1
    fades = F.pad(share, (0, 0, 0, 0, 1, 0))
    fades = fades if matrix else fades.expand(*reached.shape[:4], -1)
    for reach in (1 << i for i in range(17)):
        if isinstance(count, int) and reach > count:
            break
        back = (0, 0, 0, 0, reach, 0)
        earlier, older = F.pad(reached, back)[:, :, : count + 1], F.pad(fades, back)[:, :, : count + 1]
        reached = reached + (fades @ earlier if matrix else fades * earlier)
        fades = fades @ older if matrix else fades * older
    return reached[:, :, :-1], reached[:, :, -1]


def _chunked(x: Tensor, kv_heads: int, length: int, size: int) -> Tensor:
    """(batch, kv_heads, chunks, group * size, dim), zeros behind the end: the heads of a group become rows."""
    # a copy even where nothing is added
    whole = not torch.compiler.is_compiling() and length == x.shape[2]
    padded = x if whole else F.pad(x, (0, 0, 0, length - x.shape[2]))
    grouped = padded.unflatten(1, (kv_heads, -1)).unflatten(3, (-1, size))
    return grouped.transpose(2, 3).flatten(3, 4)

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
        erase: e; None: the key, as in a delta rule.
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
    states, share, met, weights = (
        F.pad(states, fill),
        F.pad(share, fill),
        F.pad(far, fill).unsqueeze(3),
        F.pad(weights, fill),
    )
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
    """Tables of pairs inside chunks, (batch, heads, chunks, queries, keys), and what decays make of vectors."""

    # exp(G), exp(G_C - G) and exp(G_C) of each chunk; None: nothing fades
    _since: Tensor | None = None
    _left: Tensor | None = None
    share: Tensor | None = None

    @abstractmethod
    def table(self, x: Tensor, y: Tensor, diagonal: int = 0) -> Tensor:
        """P_xy up to a diagonal."""

    def since(self, x: Tensor) -> Tensor:
        """x exp(G): what a vector meets of the sums before its chunk."""
        return x if self._since is None else x * self._since

    def left(self, y: Tensor) -> Tensor:
        """y exp(G_C - G): what is left of a vector at the end of its chunk."""
        return y if self._left is None else y * self._left


class UndecayedPairs(Pairs):
    """Without decays; the rows are queries of all heads of a group."""

    def __init__(self, size: int):
        self._size = size

    def table(self, x: Tensor, y: Tensor, diagonal: int = 0) -> Tensor:
        return (x @ y.mT).unflatten(3, (-1, self._size)).tril(diagonal).flatten(3, 4)


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

    def table(self, x: Tensor, y: Tensor, diagonal: int = 0) -> Tensor:
        return (x @ y.mT * self._decay).tril(diagonal)


class BoundedPairs(Pairs):
    """With a decay for each feature that is bounded from below: one product, with exp(-G)."""

    def __init__(self, g: Tensor):
        sums = g.cumsum(3)
        total = sums[:, :, :, -1:]
        self._since, self._left, self.share = sums.exp(), (total - sums).exp(), total.exp().mT
        self._grown = (-sums).exp()

    def table(self, x: Tensor, y: Tensor, diagonal: int = 0) -> Tensor:
        return (self.since(x) @ (y * self._grown).mT).tril(diagonal)


class HalvedPairs(Pairs):
    """With a decay for each feature of any strength: each token with itself, then halves that double.

    The decay between a half and the next is a product of two, each at most 1, where exp(-G) would overflow. Sums of g
    only ever grow, so none loses digits to a gate that is nearly shut, and no pair knows a gate behind its query.
    """

    def __init__(self, g: Tensor, size: int):
        since, left, part = g.unsqueeze(4), torch.zeros_like(g).unsqueeze(4), 1
        total = since
        self._halves: list[tuple[Tensor, Tensor]] = []
        while part < size:
            # (batch, heads, chunks, blocks, half, tokens, features)
            (first, second), (early, late) = _halved(since), _halved(left)
            first_total, second_total = _halved(total)
            self._halves.append((second.exp(), early.exp()))
            since = torch.cat((first, second + first_total), -2)
            left = torch.cat((early + second_total, late), -2)
            part, total = 2 * part, first_total + second_total
        self._since, self._left, self.share = since.squeeze(3).exp(), left.squeeze(3).exp(), total.squeeze(3).exp().mT

    def table(self, x: Tensor, y: Tensor, diagonal: int = 0) -> Tensor:
        tables = (x * y).sum(-1, keepdim=True).unsqueeze(-1)
        for since, left in self._halves:
            part = since.shape[-2]
            _, later = _halved(x.unflatten(3, (-1, part)))
            earlier, _ = _halved(y.unflatten(3, (-1, part)))
            first, second = _halved(tables)
            lower = torch.cat(((later * since) @ (earlier * left).mT, second), -1)
            tables = torch.cat((F.pad(first, (0, part)), lower), -2)
        return tables.squeeze(3).tril(diagonal)


def _halved(blocks: Tensor, axis: int = 3) -> tuple[Tensor, Tensor]:
    """Blocks in pairs: the first of each, and the second."""
    first, second = blocks.unflatten(axis, (-1, 2)).unbind(axis + 1)
    return first, second


def _pairs(g: Tensor | None, size: int, floor: float) -> Pairs:
    if g is None:
        return UndecayedPairs(size)
    if g.shape[-1] == 1:
        return ScalarPairs(g, size)
    return BoundedPairs(g) if floor * CHUNK >= _BOUND else HalvedPairs(g, size)


# what a chunk gives by itself, what its rows meet of the sums before it, what it adds to them, what is left of them
Chunks = tuple[Tensor, Tensor, Tensor, Tensor | None]


def _chunk_terms(parts: Terms, size: int, floor: float) -> Chunks:
    q, k, v, g, r, e, _ = parts
    pairs = _pairs(g, size, floor)
    return _erasing(pairs, q, k, v, r, e) if r is not None else _adding(pairs, q, k, v)


def _adding(pairs: Pairs, q: Tensor, k: Tensor, v: Tensor) -> Chunks:
    return pairs.table(q, k) @ v, pairs.since(q), pairs.left(k).mT @ v, pairs.share


def _erasing(pairs: Pairs, q: Tensor, k: Tensor, v: Tensor, r: Tensor, e: Tensor | None) -> Chunks:
    width = v.shape[-1]
    values = v if e is None else pairs.table(r, k, -1) @ v
    erased = k if e is None else e
    given = torch.cat((values, pairs.since(r)), -1)
    inner = pairs.table(r, erased, -1)
    solved = torch.linalg.solve_triangular(inner, given, upper=False, unitriangular=True)
    z, w = solved[..., :width], solved[..., width:]
    taken, table = pairs.left(erased).mT, pairs.table(q, erased)
    share = (
        torch.ones_like(k[:, :, :, :1]).mT if pairs.share is None else pairs.share.expand(-1, -1, -1, k.shape[-1], 1)
    )
    share, far = torch.diag_embed(share.squeeze(-1)) - taken @ w, pairs.since(q) - table @ w
    if e is None:
        return table @ z, far, taken @ z, share
    return pairs.table(q, k) @ v - table @ z, far, pairs.left(k).mT @ v - taken @ z, share


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
    padded = F.pad(x, (0, 0, 0, length - x.shape[2]))
    grouped = padded.unflatten(1, (kv_heads, -1)).unflatten(3, (-1, size))
    return grouped.transpose(2, 3).flatten(3, 4)

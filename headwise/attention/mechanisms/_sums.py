"""Sums over keys in place of pairs: S_t = a_t S_(t-1) + k_t v_t^T and o_t = q_t S_t, all at once or chunk by chunk.

Inside a chunk the pairs are matrix products; between chunks only the sums S are carried. Time and memory are linear in
length. Chunks of 64 are fastest on a CPU: larger ones spend on pairs, smaller ones on sums.
"""

from abc import ABC, abstractmethod
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from headwise.attention.call import Call, per_head
from headwise.attention.mechanisms._masks import Keys, chunks, front, hidden, parts
from headwise.attention.mechanisms.mechanism import Recurrent, State
from headwise.attention.precision import uncast, wide
from headwise.attention.stages import PAIRS, Stage, Working

CHUNK = 64
PART = 8

Query = Float[Tensor, "batch heads query_len features"]
Key = Float[Tensor, "batch kv_heads key_len features"]
Value = Float[Tensor, "batch kv_heads key_len wide"]
Output = Float[Tensor, "batch heads query_len wide"]
Features = Float[Tensor, "batch _ _ width"]
Sums = Float[Tensor, "batch kv_heads features wide"]
LogDecay = Float[Tensor, "#batch _ _ gates"]


class Kernelised(Recurrent, ABC):
    """Base of sum_j (phi(q_i) . phi(k_j)) v_j / sum_j phi(q_i) . phi(k_j) for features phi >= 0.

    The denominator is one more column of the values.
    """

    @abstractmethod
    def phi(self, query: Query, key: Key, past: State) -> tuple[Features, Features, State]:
        """The features of queries and keys, and what later calls have to know of these keys; first () is known."""

    def compute(self, call: Call) -> Float[Tensor, "batch heads query_len value_dim"]:
        with uncast(call.query):
            query, key, value, causal, keys = parts(call)
            query, key, _ = self.phi(query, key, ())
            key, value = hidden(key, keys), F.pad(value, (0, 1), value=1.0)
            if causal:
                output = scan(_ahead(query, call.query_start), key, value, None)[0][:, :, call.query_start :]
            else:
                # the query heads of a group are rows of their key head
                rows = query.unflatten(1, (key.shape[1], -1))
                output = (rows @ (key.mT @ value).unsqueeze(2)).flatten(1, 2)
            return _divided(output).to(call.value.dtype)

    def compute_stages(self, call: Call) -> list[Stage]:
        """The features of queries and keys, their products, and these divided by their sums."""
        with uncast(call.query):
            query, key, _, causal, keys = parts(call)
            query, key, _ = self.phi(query, key, ())
            key = hidden(key, keys)
            products = query @ per_head(key, query.shape[1]).mT
        names = ("queries", "phi"), ("keys", "phi")
        features: list[tuple[Any, ...]] = [
            ("query", r"\phi(Q)", names[0], query, "features in place of the exponential"),
            ("key", r"\phi(K)", names[1], key, "the same of the keys; 0 where hidden"),
        ]
        stages = [
            Stage(f"{name} features", formula, formula, axes, values, text, Working("formula", (name,)))
            for name, formula, axes, values, text in features
        ]
        formula, text = r"P = \phi(Q)\,\phi(K)^\top", "never made when it runs: it sums keys"
        working = Working("dot", ("query features", "key features"))
        stages.append(Stage("products", "P", formula, PAIRS, products, text, working))
        text = "each product divided by the sum of its row" + (" up to the query" if causal else "")
        formula = r"A_{ij} = P_{ij} / \textstyle\sum_k P_{ik}"
        working = Working("share", ("products",), {"reach": call.query_start} if causal else {})
        return [*stages, Stage("weights", "A", formula, PAIRS, self.weights(call), text, working)]

    def resume(self, call: Call, state: State | None) -> tuple[Float[Tensor, "batch heads new value_dim"], State]:
        """The output of new tokens; the state is sum_j phi(k_j) [v_j, 1]^T, (batch, kv_heads, features, dim + 1)."""
        self.require_terms(call)
        with uncast(call.query):
            past, key_state = (None, ()) if state is None else (state[0], state[1:])
            query, key, key_state = self.phi(wide(call.query), wide(call.key), key_state)
            output, past = scan(query, key, F.pad(wide(call.value), (0, 1), value=1.0), past)
            return _divided(output).to(call.value.dtype), (past, *key_state)


class Decaying(Recurrent, ABC):
    """Base of sum over j <= i of (q_i . k_j / sqrt(d), faded at each position after j up to i) v_j."""

    @abstractmethod
    def log_decays(self, query: Query, key: Key, keys: Keys | None) -> LogDecay:
        """log a <= 0 of the positions from 0 to the last query's, one number for each or one for each width of a key.

        Behind the last that is given it is 0.
        """

    def compute(self, call: Call) -> Float[Tensor, "batch heads query_len value_dim"]:
        with uncast(call.query):
            query, key, value, _, keys = parts(call)
            output, _ = self._scanned(_ahead(query, call.query_start), key, value, keys, None)
            return output[:, :, call.query_start :].to(call.value.dtype)

    def resume(self, call: Call, state: State | None) -> tuple[Float[Tensor, "batch heads new value_dim"], State]:
        """The output of new tokens; the state is the faded sum of k_j v_j^T, (batch, heads, dim, dim)."""
        self.require_terms(call)
        with uncast(call.query):
            past = None if state is None else state[0]
            output, past = self._scanned(wide(call.query), wide(call.key), wide(call.value), None, past)
            return output.to(call.value.dtype), (past,)

    def _scanned(
        self, query: Tensor, key: Tensor, value: Tensor, keys: Keys | None, past: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        decays = self.log_decays(query, key, keys)
        key, value, decays = (per_head(tensor, query.shape[1]) for tensor in (key, value, decays))
        return scan(query * max(1, query.shape[-1]) ** -0.5, key, value, past, decays)


def _ahead(query: Tensor, start: int) -> Tensor:
    """The queries behind zeros for the positions before them."""
    return F.pad(query, (0, 0, start, 0)) if start else query


def _divided(sums: Output) -> Float[Tensor, "batch heads query_len _"]:
    """Weighted sums over their weights; exactly 0, with zero gradient, where there is no weight."""
    weight = sums.detach()[..., -1:]
    limits = torch.finfo(sums.dtype)
    # the inverse of a smaller weight (8e-25 in float32) would overflow in the gradient
    empty = weight < limits.tiny / limits.eps**2
    # brought to weights of 1 first, so that the gradient does not square the inverse either
    shares = sums * weight.masked_fill(empty, 1.0).reciprocal().masked_fill(empty, 0.0)
    return shares[..., :-1] * shares[..., -1:].masked_fill(empty, 1.0).reciprocal()


def scan(
    query: Query, key: Key, value: Value, sums: Sums | None, log_decay: LogDecay | None = None
) -> tuple[Output, Sums]:
    """o_t = q_t S_t with S_t = exp(g_t) S_(t-1) + k_t v_t^T, and the last S; `sums` is the S before the first key.

    Without decays key and value may have fewer heads, a divisor of the query's: sums exist once per key head. Only
    differences of summed log decays that are zero or negative are exponentiated: no decay overflows, however strong.

    Args:
        log_decay: g <= 0, one number for each key, or one for each of its features; 0 if None.
    """
    length = query.shape[2]
    traced = torch.compiler.is_compiling()
    # the smallest power of two that holds the length, which a traced program does not know
    size = CHUNK if traced else min(CHUNK, 1 << max(0, length - 1).bit_length())
    padded_len = size * chunks(length, size)
    q, k, v = (_chunked(tensor, key.shape[1], padded_len, size) for tensor in (query, key, value))
    share = None
    if log_decay is None:
        # (batch, kv_heads, chunks, group * size, size)
        near = (q @ k.mT).unflatten(3, (-1, size)).tril().flatten(3, 4) @ v
    else:
        g = _chunked(log_decay, key.shape[1], padded_len, size)
        near, since, left, total = (_scalar_pairs if g.shape[-1] == 1 else _gated_pairs)(q, k, v, g)
        q, k, share = q * since.exp(), k * left.exp(), total.exp().mT
    steps = k.mT @ v
    before, last = (_doubled if traced else _carried)(
        steps.new_zeros(steps[:, :, 0].shape) if sums is None else sums, steps, share
    )
    output = near + q @ before
    rows = output.unflatten(3, (-1, size)).transpose(2, 3).flatten(3, 4).flatten(1, 2)
    return front(rows, length), last


def _carried(sums: Tensor, steps: Tensor, share: Tensor | None) -> tuple[Tensor, Tensor]:
    """The S before each chunk, and the last; a loop: cumsum is slow backwards, and knows no share."""
    before = [sums]
    for i, step in enumerate(steps.unbind(2)):
        before.append(before[-1] + step if share is None else torch.addcmul(step, share[:, :, i], before[-1]))
    return torch.stack(before[:-1], 2), before[-1]


def _doubled(sums: Tensor, steps: Tensor, share: Tensor | None) -> tuple[Tensor, Tensor]:
    """The same without a loop over chunks, of which a traced program does not know the number (at most 65,536)."""
    count = steps.shape[2]
    reached = torch.cat((sums.unsqueeze(2), steps), 2)
    fades = torch.ones_like(steps[..., :1]) if share is None else share
    fades = F.pad(fades, (0, 0, 0, 0, 1, 0)).expand(*reached.shape[:4], -1)
    for reach in (1 << i for i in range(17)):
        if isinstance(count, int) and reach > count:
            break
        back = (0, 0, 0, 0, reach, 0)
        reached = reached + fades * F.pad(reached, back)[:, :, : count + 1]
        fades = fades * F.pad(fades, back)[:, :, : count + 1]
    return reached[:, :, :-1], reached[:, :, -1]


def _scalar_pairs(q: Tensor, k: Tensor, v: Tensor, g: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sums over the pairs inside a chunk; g summed from its start to a key, from there to its end, and altogether."""
    since = g.cumsum(3)
    later = torch.ones(q.shape[3], q.shape[3], dtype=torch.bool, device=q.device).triu(1)
    decay = (since - since.mT).masked_fill(later, float("-inf")).exp()
    total = since[:, :, :, -1:]
    return (q @ k.mT * decay) @ v, since, total - since, total


def _gated_pairs(q: Tensor, k: Tensor, v: Tensor, g: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The same for a decay of each feature, by parts of 8 positions: a part with itself, and with earlier parts.

    A decay between parts is a product of three, each at most 1, where one from the start of the chunk would overflow.
    Sums of g are products with ones and zeros: they only ever grow, so none loses digits to a gate that is nearly shut.
    """
    size = min(PART, q.shape[3])
    q, k, g = (tensor.unflatten(3, (-1, size)) for tensor in (q, k, g))
    parts = q.shape[3]
    # (batch, heads, chunks, parts, size, size, features), then the sum over features
    decay = (_between(size, g.device, last=True).to(g).flatten(0, 1) @ g).unflatten(-2, (size, size)).exp()
    itself = (q.unsqueeze(-2) * decay * k.unsqueeze(-3)).sum(-1).tril()
    ones = torch.ones(max(size, parts), max(size, parts), dtype=g.dtype, device=g.device)
    since, left, totals = ones[:size, :size].tril() @ g, ones[:size, :size].triu(1) @ g, g.sum(-2)
    # (batch, heads, chunks, part of the key, part of the query, features)
    decay = (_between(parts, g.device, last=False).to(g).transpose(0, 1).flatten(0, 1) @ totals).exp()
    decay = decay.unflatten(-2, (parts, parts)) * ones[:parts, :parts].triu(1).unsqueeze(-1)
    decayed_query = (q * since.exp()).unsqueeze(3) * decay.unsqueeze(-2)
    others = (decayed_query.flatten(-3, -2) @ (k * left.exp()).mT).unflatten(-2, (parts, size))
    scores = others + torch.diag_embed(itself.movedim(3, -1), dim1=3, dim2=4)
    # from (key part, query part, query, key) to (query part x query, key part x key)
    scores = scores.permute(0, 1, 2, 4, 5, 3, 6).flatten(5, 6).flatten(3, 4)
    since = since + (ones[:parts, :parts].tril(-1) @ totals).unsqueeze(-2)
    left = left + (ones[:parts, :parts].triu(1) @ totals).unsqueeze(-2)
    return scores @ v, since.flatten(3, 4), left.flatten(3, 4), totals.sum(-2, keepdim=True)


def _between(size: int, device: torch.device, *, last: bool) -> Tensor:
    """[i, j, m]: whether m lies behind j and before i, or is the last, i."""
    i, j, m = (torch.arange(size, device=device).view(shape) for shape in ((-1, 1, 1), (-1, 1), (-1,)))
    return (j < m) & ((m <= i) if last else (m < i))


def _chunked(x: Tensor, kv_heads: int, length: int, size: int) -> Tensor:
    """(batch, kv_heads, chunks, group * size, dim), zeros behind the end: the heads of a group become rows."""
    padded = F.pad(x, (0, 0, 0, length - x.shape[2]))
    grouped = padded.unflatten(1, (kv_heads, -1)).unflatten(3, (-1, size))
    return grouped.transpose(2, 3).flatten(3, 4)

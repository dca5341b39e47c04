"""Causal sums over keys, chunk by chunk: S_t = a_t S_(t-1) + k_t v_t^T and o_t = q_t S_t.

Inside a chunk the pairs are matrix products; between chunks only the sums S are carried. Time and memory are linear in
length. Chunks of 64 are fastest on a CPU: larger ones spend on pairs, smaller ones on sums.
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

CHUNK = 64

Features = Float[Tensor, "batch heads length features"]
KvFeatures = Float[Tensor, "batch kv_heads length features"]
Values = Float[Tensor, "batch kv_heads length wide"]
Sums = Float[Tensor, "batch kv_heads features wide"]


def scan(
    query: Features, key: KvFeatures, value: Values, sums: Sums
) -> tuple[Float[Tensor, "batch heads length wide"], Sums]:
    """o_t = q_t S_t with S_t = S_(t-1) + k_t v_t^T, and the last S; `sums` is the S before the first key.

    Key and value may have fewer heads, a divisor of the query's: sums exist once per key head.
    """
    heads, length = query.shape[1:3]
    size = _chunk(length)
    q, k, v = (_chunks(tensor, key.shape[1], size) for tensor in (query, key, value))
    # (batch, kv_heads, chunks, group * size, size)
    scores = (q @ k.mT).unflatten(3, (heads // key.shape[1], size)).tril().flatten(3, 4)
    # a loop: the gradient of cumsum copies everything twice to reverse it
    before = [sums]
    for step in (k.mT @ v).unbind(2):
        before.append(before[-1] + step)
    output = scores @ v + q @ _stacked(before[:-1], q, v)
    return _joined(output, heads, size, length), before[-1]


def decayed_scan(
    query: Features,
    key: Features,
    value: Float[Tensor, "batch heads length wide"],
    log_decay: Float[Tensor, "#batch heads length gates"],
    sums: Float[Tensor, "batch heads features wide"],
) -> tuple[Float[Tensor, "batch heads length wide"], Float[Tensor, "batch heads features wide"]]:
    """o_t = q_t S_t with S_t = exp(g_t) S_(t-1) + k_t v_t^T, and the last S; `sums` is the S before the first key.

    Only differences of summed log decays that are zero or negative are exponentiated, so no decay overflows, however
    strong.

    Args:
        log_decay: g <= 0, one number for each key, or one for each of its features.
    """
    heads, length = query.shape[1:3]
    size = _chunk(length)
    q, k, v, g = (_chunks(tensor, heads, size) for tensor in (query, key, value, log_decay))
    pairs, since, left, total = (_scalar_pairs if g.shape[-1] == 1 else _gated_pairs)(q, k, v, g)
    before = [sums]
    for step, share in zip(((k * left.exp()).mT @ v).unbind(2), total.exp().mT.unbind(2), strict=True):
        before.append(torch.addcmul(step, share, before[-1]))
    output = pairs + (q * since.exp()) @ _stacked(before[:-1], q, v)
    return _joined(output, heads, size, length), before[-1]


def _scalar_pairs(q: Tensor, k: Tensor, v: Tensor, g: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sums over the pairs inside a chunk; g summed from its start to a key, from there to its end, and altogether."""
    size = q.shape[3]
    since = g.cumsum(3)
    later = torch.ones(size, size, dtype=torch.bool, device=q.device).triu(1)
    decay = (since - since.mT).masked_fill(later, float("-inf")).exp()
    total = since[:, :, :, -1:]
    return (q @ k.mT * decay) @ v, since, total - since, total


def _gated_pairs(q: Tensor, k: Tensor, v: Tensor, g: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The same by halves: the queries of each second half meet the keys of the first half, from single pairs up.

    Measured from where the halves meet, both factors of a decay are at most 1, where from the start of the chunk one of
    them would overflow. Sums of g only ever grow, so none loses digits to a gate that is nearly shut.
    """
    output, since, left, total = (q * k).sum(-1, keepdim=True) * v, g, torch.zeros_like(g), g
    width = 1
    while width < q.shape[3]:
        (early_since, late_since), (early_left, late_left) = _halves(since, width), _halves(left, width)
        early_total, late_total = _halves(total, 1)
        late = _halves(q, width)[1] * late_since.exp()
        early = _halves(k, width)[0] * early_left.exp()
        first, second = _halves(output, width)
        output = _whole(first, second + (late @ early.mT) @ _halves(v, width)[0])
        left = _whole(early_left + late_total, late_left)
        since = _whole(early_since, late_since + early_total)
        total = (early_total + late_total).squeeze(4)
        width *= 2
    return output, since, left, total


def _stacked(sums: list[Tensor], q: Tensor, v: Tensor) -> Tensor:
    return torch.stack(sums, dim=2) if sums else q.new_empty(*q.shape[:3], q.shape[-1], v.shape[-1])


def _halves(x: Tensor, width: int) -> tuple[Tensor, ...]:
    return x.unflatten(3, (x.shape[3] // (2 * width), 2, width)).unbind(4)


def _whole(first: Tensor, second: Tensor) -> Tensor:
    return torch.stack((first, second), dim=4).flatten(3, 5)


def _chunk(length: int) -> int:
    """The smallest power of two that holds the length, or CHUNK."""
    return min(CHUNK, 1 << max(0, length - 1).bit_length())


def _chunks(x: Tensor, kv_heads: int, size: int) -> Tensor:
    """(batch, kv_heads, chunks, group * size, dim), zeros behind the end: the heads of a group become rows."""
    _, heads, length, _ = x.shape
    count = -(-length // size)
    padded = F.pad(x, (0, 0, 0, count * size - length))
    grouped = padded.unflatten(1, (kv_heads, heads // kv_heads)).unflatten(3, (count, size))
    return grouped.transpose(2, 3).flatten(3, 4)


def _joined(output: Tensor, heads: int, size: int, length: int) -> Tensor:
    rows = output.unflatten(3, (heads // output.shape[1], size)).transpose(2, 3).flatten(3, 4).flatten(1, 2)
    return rows[:, :, :length]

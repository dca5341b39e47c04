"""Attention as others compute it: textbook, chunked windows, scattered edges, cumulative sums, SDPA with a bias."""

import torch
from torch import Tensor
from torch.nn import functional as F


def textbook_additive(
    query: Tensor, key: Tensor, value: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor
) -> Tensor:
    """The course book's additive attention: one tensor of (batch, queries, keys, hidden) numbers."""
    features = torch.tanh((query @ w_query.T).unsqueeze(2) + (key @ w_key.T).unsqueeze(1))
    return torch.softmax((features @ w_value.T).squeeze(-1), -1) @ value


def chunked_window(query: Tensor, key: Tensor, value: Tensor, width: int) -> Tensor:
    """Longformer's chunks for a window of `width` to each side: pieces of 2 x width that overlap by width.

    Every chunk of `width` queries meets the three chunks of keys around it; what lies outside the band is masked.
    """
    batch, heads, length, dim = query.shape
    count = length // width
    padded = [F.pad(tensor, (0, 0, width, width)) for tensor in (key, value)]
    # (batch, heads, chunks, 3 x width, dim), copied as the original does
    around = [tensor.unfold(2, 3 * width, width).mT.contiguous() for tensor in padded]
    rows = query.reshape(batch, heads, count, width, dim)
    scores = (rows @ around[0].mT) * dim**-0.5
    far = torch.arange(3 * width) - width - torch.arange(width)[:, None]
    place = torch.arange(count)[:, None, None] * width + torch.arange(3 * width) - width
    allowed = (far.abs() <= width) & (place >= 0) & (place < length)
    weights = torch.softmax(scores.masked_fill(~allowed, float("-inf")), -1)
    return (weights @ around[1]).reshape(batch, heads, length, dim)


def scattered_graph(source: Tensor, target: Tensor, x: Tensor, to_source: Tensor, to_target: Tensor) -> Tensor:
    """Graph attention over (nodes, heads, dim) with a message for every edge, as message passing libraries do it."""
    nodes, heads, dim = x.shape
    scores = F.leaky_relu((x * to_source).sum(-1)[source] + (x * to_target).sum(-1)[target], 0.2)
    index = target[:, None].expand(-1, heads)
    top = scores.new_full((nodes, heads), float("-inf")).scatter_reduce(0, index, scores.detach(), "amax")
    powers = (scores - top[target]).exp()
    total = powers.new_zeros(nodes, heads).scatter_add(0, index, powers)
    weights = powers / total[target]
    messages = weights.unsqueeze(-1) * x[source]
    return x.new_zeros(nodes, heads, dim).scatter_add(0, target[:, None, None].expand(-1, heads, dim), messages)


def summed_linear(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Causal linear attention by cumulative sums of key-value products."""
    q, k = F.elu(query) + 1, F.elu(key) + 1
    sums = (k.unsqueeze(-1) * value.unsqueeze(-2)).cumsum(2)
    return (q.unsqueeze(-2) @ sums).squeeze(-2) / (q * k.cumsum(2)).sum(-1, keepdim=True)


def eager(query: Tensor, key: Tensor, value: Tensor, normalizer: str) -> Tensor:
    """The formula with autograd, all scores at once."""
    scores = (query @ key.mT) * query.shape[-1] ** -0.5
    if normalizer == "softmax":
        return scores.softmax(-1) @ value
    if normalizer == "relu":
        return (scores.relu() / scores.shape[-1]) @ value
    if normalizer == "sigmoid":
        return torch.sigmoid(scores - torch.tensor(float(scores.shape[-1])).log()) @ value
    ordered = scores.sort(-1, descending=True).values
    sums = ordered.cumsum(-1) - 1
    ranks = torch.arange(1, scores.shape[-1] + 1, dtype=scores.dtype)
    size = (ordered * ranks > sums).sum(-1, keepdim=True)
    return (scores - sums.gather(-1, size - 1) / size).clamp(min=0) @ value


def with_bias(query: Tensor, key: Tensor, value: Tensor, bias: Tensor) -> Tensor:
    """SDPA with a bias of (heads, queries, keys)."""
    return F.scaled_dot_product_attention(query, key, value, attn_mask=bias)


def toeplitz(table: Tensor, length: int) -> Tensor:
    """bias[..., i, j] = table[..., j - i + length - 1] as a tensor of all pairs."""
    far = torch.arange(length) - torch.arange(length)[:, None]
    return table[..., far + length - 1]


def clipped(query: Tensor, table: Tensor, reach: int) -> Tensor:
    """Shaw's bias q_i . a_(j - i), distances clipped to `reach`."""
    length = query.shape[2]
    far = (torch.arange(length) - torch.arange(length)[:, None]).clamp(-reach, reach) + reach
    by_row = query @ table.mT
    return by_row.gather(-1, far.expand(*by_row.shape[:2], -1, -1)) * query.shape[-1] ** -0.5


def shifted(query: Tensor, table: Tensor) -> Tensor:
    """Transformer-XL's bias q_i . r_(j - i) by its shift: pad a column, read the rows one place further."""
    batch, heads, length, dim = query.shape
    # (batch, heads, length, 2 x length - 1), for distances from 1 - length to length - 1
    product = (query @ table.mT) * dim**-0.5
    moved = F.pad(product, (0, 1)).flatten(2)[..., length - 1 : length - 1 + length * (2 * length - 1)]
    return moved.view(batch, heads, length, 2 * length - 1)[..., :length]

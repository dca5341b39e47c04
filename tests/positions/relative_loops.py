"""Attention pair by pair with any relative term: what the tables of every relative scheme are held against."""

from collections.abc import Callable

import torch
from torch import Tensor

from headwise.attention.call import Call
from headwise.attention.kernels import plain
from headwise.attention.masks import Mask
from headwise.positions.position import Position

BATCH, HEADS, QUERIES, KEYS, WIDTH = 2, 3, 5, 7, 4

# score of (batch, head, query row, key), as a tensor of no axes
PairScore = Callable[[int, int, int, int], Tensor]
# what query row i gets from key j beside the value of j
PairValue = Callable[[int, int], Tensor]


def tensors(kv_heads: int = HEADS) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value that ask for gradients."""
    shapes = (HEADS, QUERIES), (kv_heads, KEYS), (kv_heads, KEYS)
    return tuple(torch.randn(BATCH, *shape, WIDTH, dtype=torch.float64).requires_grad_() for shape in shapes)


def by_pairs(value: Tensor, score: PairScore, added: PairValue | None = None) -> Tensor:
    """softmax over the scores of each query, times the values, one pair at a time; key heads serve groups."""
    group = HEADS // value.shape[1]
    rows = []
    for b in range(BATCH):
        for h in range(HEADS):
            for i in range(QUERIES):
                weights = torch.stack([score(b, h, i, j) for j in range(KEYS)]).softmax(0)
                values = [value[b, h // group, j] + (0 if added is None else added(i, j)) for j in range(KEYS)]
                rows.append(sum(weight * vector for weight, vector in zip(weights, values, strict=True)))
    return torch.stack(rows).unflatten(0, (BATCH, HEADS, QUERIES))


def through(
    position: Position, query: Tensor, key: Tensor, value: Tensor, start: int = 0, mask: Mask | None = None
) -> Tensor:
    """Attention with a scheme, as an attention layer calls it."""
    query, key = position.rotate(query, start), position.rotate_keys(key, 0)
    low, high = 1 - start - query.shape[2], key.shape[2] - 1 - start
    relative, bias = position.relative(query, key, min(low, 0), max(high, 0)), position.bias(query, key, start)
    return plain.compute(Call(query, key, value, mask=mask, bias=bias, relative=relative, query_start=start))


def assert_equal(position: Position, inputs: tuple[Tensor, ...], start: int, expected: Tensor) -> None:
    """Outputs and the gradients of inputs and parameters."""
    of = [*inputs, *position.parameters()]
    gradient, output = torch.randn_like(expected), through(position, *inputs, start)
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-12)
    found, wanted = (torch.autograd.grad(result, of, gradient) for result in (output, expected))
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


def spread(position: Position) -> Position:
    """The scheme in float64 with parameters large enough that each matters."""
    for parameter in position.parameters():
        torch.nn.init.normal_(parameter)
    return position.double()

"""Attention pair by pair with any relative term: what the tables of every relative scheme are held against."""

from collections.abc import Callable

import torch
from torch import Tensor

from headwise.attention import planner
from headwise.attention.call import Call, check
from headwise.attention.masks import Mask
from headwise.attention.normalizers import softmax
from headwise.attention.scores import ScaledDot
from headwise.positions.position import Position

BATCH, HEADS, QUERIES, KEYS, WIDTH = 2, 3, 5, 7, 4

# score of (batch, head, query row, key), as a tensor of no axes
PairScore = Callable[[int, int, int, int], Tensor]
# what query row i gets from key j beside the value of j
PairValue = Callable[[int, int], Tensor]


def tensors(kv_heads: int = HEADS, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value that ask for gradients."""
    shapes = (HEADS, QUERIES), (kv_heads, KEYS), (kv_heads, KEYS)
    return tuple(torch.randn(BATCH, *shape, WIDTH, dtype=torch.float64).to(dtype).requires_grad_() for shape in shapes)


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
    position: Position, query: Tensor, key: Tensor, value: Tensor, start: int, kernel: str, mask: Mask | None = None
) -> Tensor:
    """Attention with a scheme, as an attention layer calls it."""
    query, key = position.rotate(query, start), position.rotate(key, 0)
    low, high = 1 - start - query.shape[2], key.shape[2] - 1 - start
    relative, bias = position.relative(query, key, min(low, 0), max(high, 0)), position.bias(query, key, start)
    call = Call(query, key, value, ScaledDot(), softmax, mask, bias, relative, query_start=start)
    return planner.run(check(call), kernel)


def assert_equal(position: Position, inputs: tuple[Tensor, ...], start: int, expected: Tensor) -> None:
    """Outputs and the gradients of inputs and parameters, by the definition and by whatever the planner picks."""
    wanted_of = [*inputs, *position.parameters()]
    gradient = torch.randn_like(expected)
    wanted = torch.autograd.grad(expected, wanted_of, gradient)
    for kernel in ("plain", "auto"):
        output = through(position, *inputs, start, kernel)
        torch.testing.assert_close(output, expected, rtol=0, atol=1e-12)
        found = torch.autograd.grad(output, wanted_of, gradient)
        for one, two in zip(found, wanted, strict=True):
            torch.testing.assert_close(one, two, rtol=0, atol=1e-12)


def spread(position: Position) -> Position:
    """The scheme in float64 with parameters large enough that each matters."""
    for parameter in position.parameters():
        torch.nn.init.normal_(parameter)
    return position.double()

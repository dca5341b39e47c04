"""The contests of `benchmarks.kernels`: one function a contest, giving what we compute and what the peer does."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.peers import attention as peers
from headwise.attention import attend, planner
from headwise.attention.call import Call
from headwise.attention.masks import Causal, Edges, Window
from headwise.attention.mechanisms.linear import Linear
from headwise.attention.normalizers import softmax
from headwise.attention.relative import Relative
from headwise.attention.scores import Additive, ScaledDot
from headwise.attention.scores.graph import GAT

Pass = Callable[[], Tensor]
# ours, theirs, and what gradients are asked of
Sides = tuple[Pass, Pass, list[Tensor]]


@dataclass(frozen=True)
class Contest:
    """A comparison: `faster` and `smaller` are the least ratios of time and of memory that are asked for; 0: none."""

    name: str
    make: Callable[[], Sides]
    faster: float
    smaller: float = 0.0
    equal: bool = True


def _leaves(*shape: int, count: int = 3, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    return [torch.randn(*shape).to(dtype).requires_grad_() for _ in range(count)]


def _additive(batch: int, length: int, width: int) -> Sides:
    query, key, value = _leaves(batch, 1, length, width)
    score = Additive(width, width, width)
    weights = [score.query.weight, score.key.weight, score.value.weight]
    flat = [tensor.squeeze(1) for tensor in (query, key, value)]
    ours = lambda: attend(query, key, value, score=score)  # noqa: E731
    theirs = lambda: peers.textbook_additive(*flat, *weights).unsqueeze(1)  # noqa: E731
    return ours, theirs, [query, key, value, *weights]


def _window(length: int, width: int, right: int, against: str) -> Sides:
    query, key, value = _leaves(1, 2, length, 64)
    window = Window(width, right)
    if against == "chunks":
        theirs = lambda: peers.chunked_window(query, key, value, width)  # noqa: E731
    else:
        keep = window.dense(1, 2, length, length)
        bias = torch.zeros(keep.shape).masked_fill(~keep, float("-inf"))
        theirs = lambda: F.scaled_dot_product_attention(query, key, value, attn_mask=bias)  # noqa: E731
    return lambda: attend(query, key, value, mask=window), theirs, [query, key, value]


def _graph(nodes: int, edges: int) -> Sides:
    (x,) = _leaves(nodes, 8, 16, count=1)
    to_source, to_target = _leaves(8, 16, count=2)
    source, target = torch.randint(0, nodes, (2, edges - nodes))
    mask = Edges(torch.stack((source, target)), nodes).with_self_loops()
    pairs = mask.structure().pairs
    score = GAT(8, 16)
    score.query, score.key = torch.nn.Parameter(to_target.detach()), torch.nn.Parameter(to_source.detach())
    heads = x.transpose(0, 1).unsqueeze(0)
    ours = lambda: attend(heads, heads, heads, score=score, mask=mask)  # noqa: E731

    def theirs() -> Tensor:
        nodes_first = peers.scattered_graph(pairs.key, pairs.query, x, score.key, score.query)
        return nodes_first.transpose(0, 1).unsqueeze(0)

    return ours, theirs, [x, score.query, score.key]


def _linear(length: int) -> Sides:
    query, key, value = _leaves(1, 4, length, 64)
    mechanism = Linear()
    ours = lambda: mechanism(Call(query, key, value, mask=Causal()))  # noqa: E731
    return ours, lambda: peers.summed_linear(query, key, value), [query, key, value]


def _half(*shape: int) -> Sides:
    query, key, value = _leaves(*shape, dtype=torch.bfloat16)
    theirs = lambda: F.scaled_dot_product_attention(query, key, value)  # noqa: E731
    return lambda: attend(query, key, value), theirs, [query, key, value]


def _normalizer(name: str, length: int = 2048) -> Sides:
    query, key, value = _leaves(1, 8, length, 64)
    ours = lambda: attend(query, key, value, normalizer=name)  # noqa: E731
    return ours, lambda: peers.eager(query, key, value, name), [query, key, value]


def _relative(kind: str, length: int = 2048) -> Sides:
    query, key, value = _leaves(1, 8, length, 64)
    whole, reach = 2 * length - 1, 64
    if kind == "t5":
        table = torch.randn(8, whole).requires_grad_()
        relative = lambda: Relative(1 - length, scalar=table)  # noqa: E731
        bias = lambda: peers.toeplitz(table, length).unsqueeze(0)  # noqa: E731
    elif kind == "shaw":
        table = torch.randn(1, 2 * reach + 1, 64).requires_grad_()
        relative = lambda: Relative(-reach, query=query * 64**-0.5, query_table=table)  # noqa: E731
        bias = lambda: peers.clipped(query, table, reach)  # noqa: E731
    else:
        table = torch.randn(8, whole, 64).requires_grad_()
        relative = lambda: Relative(1 - length, query=query * 64**-0.5, query_table=table)  # noqa: E731
        bias = lambda: peers.shifted(query, table)  # noqa: E731
    ours = lambda: planner.run(Call(query, key, value, ScaledDot(), softmax, relative=relative()))  # noqa: E731
    theirs = lambda: peers.with_bias(query, key, value, bias())  # noqa: E731
    return ours, theirs, [query, key, value, table]


CONTESTS = [
    Contest("additive 8x128x128x128 : textbook", lambda: _additive(8, 128, 128), 25, 50),
    Contest("additive 4x512x512x128 : textbook", lambda: _additive(4, 512, 128), 35, 50),
    Contest("window 256, length 16384 : chunks", lambda: _window(16384, 256, 256, "chunks"), 2),
    Contest("causal window 256, length 4096 : masked SDPA", lambda: _window(4096, 256, 0, "mask"), 9),
    Contest("graph 100k nodes, 1.1M edges : scatter", lambda: _graph(100_000, 1_100_000), 4, 10),
    Contest("causal linear, length 2048 : cumulative sums", lambda: _linear(2048), 40),
    Contest("bfloat16 1x8x2048x64 : SDPA", lambda: _half(1, 8, 2048, 64), 1.7),
    Contest("bfloat16 64x4x32x32 : SDPA", lambda: _half(64, 4, 32, 32), 8),
    Contest("relu, length 2048 : eager", lambda: _normalizer("relu"), 1.9, 10),
    Contest("sigmoid, length 2048 : eager", lambda: _normalizer("sigmoid"), 1.9, 10),
    Contest("sparsemax, length 2048 : eager", lambda: _normalizer("sparsemax"), 1.9, 10),
    Contest("T5 bias, length 2048 : SDPA with it", lambda: _relative("t5"), 1.5, 10),
    Contest("Shaw keys, length 2048 : SDPA with them", lambda: _relative("shaw"), 1.5, 10),
    Contest("Transformer-XL, length 2048 : SDPA with it", lambda: _relative("xl"), 1.5, 10),
]

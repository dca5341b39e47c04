"""A graph as the edge kernel reads it, and sums and products over its pairs that keep no vector for a pair.

Gradients are written by hand, as sums in the other direction; `python -m benchmarks.gradients` sets them beside those
of PyTorch's `embedding_bag`.
"""

import warnings
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

Numbers = Float[Tensor, "items pairs"]
ByRow = Float[Tensor, "items rows dim"]
ByColumn = Float[Tensor, "items columns dim"]


class Graph(NamedTuple):
    """Pairs (row, column) in ascending order of row; `turn` puts them in ascending order of column.

    `start` is where each row starts in the list of pairs. The second half is the same of the graph turned round.
    """

    row: Int[Tensor, "pairs"]
    column: Int[Tensor, "pairs"]
    start: Int[Tensor, "rows"]
    turn: Int[Tensor, "pairs"]
    turned_row: Int[Tensor, "pairs"]
    turned_column: Int[Tensor, "pairs"]
    turned_start: Int[Tensor, "columns"]
    turned_turn: Int[Tensor, "pairs"]

    def turned(self) -> "Graph":
        """The graph whose rows are the columns of this one."""
        return Graph(*self[4:], *self[:4])

    def degree(self) -> Int[Tensor, "rows"]:
        """Pairs of each row."""
        return F.pad(self.start, (0, 1), value=self.row.shape[0]).diff()


def graph(row: Int[Tensor, "pairs"], column: Int[Tensor, "pairs"], turn: Tensor, rows: int, columns: int) -> Graph:
    """The graph of these pairs."""
    turned = column.index_select(0, turn), row.index_select(0, turn), _starts(column, columns)
    return Graph(row, column, _starts(row, rows), turn, *turned, turn.argsort())


def sums(numbers: Numbers, vectors: ByColumn, graph: Graph) -> ByRow:
    """For each row the sum over its pairs of number times vector of the column.

    >>> one = torch.tensor([0, 0, 1])
    >>> sums(torch.ones(1, 3), torch.ones(1, 2, 1), graph(one, one, torch.arange(3), 2, 2)).flatten().tolist()
    [2.0, 1.0]
    """
    output: Tensor = _Sums.apply(numbers, vectors, *graph)
    return output


def products(left: ByRow, right: ByColumn, graph: Graph) -> Numbers:
    """The dot product of the row's and the column's vector for each pair."""
    output: Tensor = _Products.apply(left, right, *graph)
    return output


def softmax(scores: Numbers, graph: Graph) -> Numbers:
    """Weights that sum to 1 over the pairs of each row; 0 for a score of minus infinity, also where no other stands."""
    output: Tensor = _Softmax.apply(scores, graph.row, graph.start)
    return output


def gather(numbers: Float[Tensor, "items tokens"], index: Int[Tensor, "pairs"]) -> Numbers:
    """For each pair the number of the row or column with this index."""
    items, tokens = numbers.shape
    return numbers.flatten().index_select(0, _offset_index(index, items, tokens)).view(items, -1)


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(scores, row, start):
        items, pairs = scores.shape
        place, count = _offset_index(row, items, start.shape[0]), items * start.shape[0]
        offsets = F.pad(_offset_index(start, items, pairs), (0, 1), value=items * pairs)
        flat = scores.detach().flatten()
        # the lowest finite number in place of minus infinity, of which differences are no numbers
        top = torch.segment_reduce(flat, "max", offsets=offsets, unsafe=True).clamp(min=torch.finfo(flat.dtype).min)
        powers = (flat - top.index_select(0, place)).exp_()
        # the largest power of a row is 1, and a row without a key has none
        total = flat.new_zeros(count).index_add(0, place, powers).clamp_(min=0.5)
        return powers.mul_(total.reciprocal_().index_select(0, place)).view(items, pairs)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output, *inputs[1:])

    @staticmethod
    def backward(ctx, gradient):
        weights, row, start = ctx.saved_tensors
        items, rows = weights.shape[0], start.shape[0]
        place, weighted = _offset_index(row, items, rows), gradient * weights
        sums = weighted.new_zeros(items * rows).index_add(0, place, weighted.flatten())
        return weighted - weights * sums.index_select(0, place).view_as(weights), None, None

    @staticmethod
    def vmap(info, in_dims, scores, *graph):
        return _folded(_Softmax, info.batch_size, in_dims, (scores,), graph)


class _Sums(torch.autograd.Function):
    """Sums over the pairs of each row."""

    @staticmethod
    def forward(numbers, vectors, *graph):
        _, place, start, *_ = graph
        items, length = vectors.shape[0], vectors.shape[1]
        totals = F.embedding_bag(
            _offset_index(place, items, length),
            vectors.detach().flatten(0, 1).contiguous(),
            _offset_index(start, items, place.shape[0]),
            mode="sum",
            per_sample_weights=numbers.detach().flatten(),
        )
        return totals.unflatten(0, (items, start.shape[0]))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, gradient):
        numbers, vectors, *graph = ctx.saved_tensors
        d_numbers = products(gradient, vectors, Graph(*graph)) if ctx.needs_input_grad[0] else None
        d_vectors = _turned_sums(numbers, gradient, Graph(*graph)) if ctx.needs_input_grad[1] else None
        return d_numbers, d_vectors, *(len(graph) * [None])

    @staticmethod
    def vmap(info, in_dims, numbers, vectors, *rest):
        return _folded(_Sums, info.batch_size, in_dims, (numbers, vectors), rest)


def _turned_sums(numbers: Numbers, vectors: ByRow, graph: Graph) -> ByColumn:
    """For each column the sum over its pairs of number times vector of the row."""
    return sums(numbers.index_select(1, graph.turn), vectors, graph.turned())


class _Products(torch.autograd.Function):
    """Dot products over the pairs."""

    @staticmethod
    def forward(left, right, row, column, start, *rest):
        size = (left.shape[1], right.shape[1])
        if torch.compiler.is_compiling() or left.device.type != "cpu" or row.shape[0] > size[0] * size[1]:
            return (left.index_select(1, row) * right.index_select(1, column)).sum(-1)
        # a little more than half the time of what stands above
        offsets = F.pad(start, (0, 1), value=row.shape[0])
        with warnings.catch_warnings():
            # says once that sparse tensors are in beta
            warnings.simplefilter("ignore")
            pattern = torch.sparse_csr_tensor(
                offsets.int(), column.int(), left.new_zeros(row.shape), size, device=left.device, check_invariants=False
            )
        return torch.sparse.sampled_addmm(pattern, left, right.mT, beta=0.0).values()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, gradient):
        left, right, *graph = ctx.saved_tensors
        d_left = sums(gradient, right, Graph(*graph)) if ctx.needs_input_grad[0] else None
        d_right = _turned_sums(gradient, left, Graph(*graph)) if ctx.needs_input_grad[1] else None
        return d_left, d_right, *(len(graph) * [None])

    @staticmethod
    def vmap(info, in_dims, left, right, *rest):
        return _folded(_Products, info.batch_size, in_dims, (left, right), rest)


def _folded(function, batch, in_dims, tensors, rest):
    """A batch of vmap as more items."""
    items = [
        (tensor.expand(batch, *tensor.shape) if dim is None else tensor.movedim(dim, 0)).flatten(0, 1)
        for tensor, dim in zip(tensors, in_dims, strict=False)
    ]
    return function.apply(*items, *rest).unflatten(0, (batch, -1)), 0


def _offset_index(index: Int[Tensor, "places"], items: int, step: int) -> Int[Tensor, "all_places"]:
    """The index of one item for all of them side by side."""
    if items == 1:
        return index
    return (index + torch.arange(items, device=index.device).unsqueeze(1) * step).flatten()


def _starts(index: Int[Tensor, "pairs"], count: int) -> Int[Tensor, "count"]:
    degree = index.new_zeros(count).index_add(0, index, torch.ones_like(index))
    return degree.cumsum(0) - degree

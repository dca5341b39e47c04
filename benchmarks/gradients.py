"""What gradients written by hand are worth: forward and backward beside the same through PyTorch's own.

python -m benchmarks.gradients
"""

import argparse
import statistics
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.kernels import timed
from benchmarks.tables import print_table
from headwise.attention.dropout import drop
from headwise.attention.kernels._edges_graph import graph, sums
from headwise.layers.loss import output_loss, vocabulary_loss

GOAL = 1.5
Way = Callable[[], Tensor]
Contest = tuple[str, Sequence[Tensor], Way, Way]


def normal(*shape: int) -> Tensor:
    """Random numbers that learn."""
    return torch.randn(*shape, requires_grad=True)


def edges() -> Contest:
    """Sums over a graph beside `embedding_bag`."""
    nodes, pairs, dim = 100_000, 1_100_000, 16
    row, column = torch.randint(nodes, (pairs,)).sort().values, torch.randint(nodes, (pairs,))
    pattern = graph(row, column[(turn := column.argsort(stable=True)).argsort()], turn, nodes, nodes)
    numbers, vectors = normal(1, pairs), normal(1, nodes, dim)

    def theirs() -> Tensor:
        return F.embedding_bag(column, vectors[0], pattern.start, mode="sum", per_sample_weights=numbers[0])

    return "sums over a graph: embedding_bag", (numbers, vectors), lambda: sums(numbers, vectors, pattern), theirs


def loss() -> Contest:
    """The gradient made in the forward pass beside checkpointed chunks."""
    layer, hidden = nn.Linear(128, 10_000, bias=False), normal(4096, 128)
    targets, chunks = torch.randint(10_000, (4096,)), nn.Sequential(layer)
    own = lambda: vocabulary_loss(hidden, layer.weight, None, targets, 0.1)  # noqa: E731
    return (
        "vocabulary loss: checkpointed",
        (hidden, layer.weight),
        own,
        lambda: output_loss(chunks, hidden, targets, 0.1),
    )


def dropout() -> Contest:
    """Cheaper random numbers beside PyTorch's."""
    x = normal(4096, 128)
    return "dropout: PyTorch's", (x,), lambda: drop(x, 0.3), lambda: F.dropout(x, 0.3)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Gradients written by hand beside PyTorch's, as ratios of CPU time.")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for name, inputs, own, theirs in (edges(), loss(), dropout()):
        passes = {
            side: lambda way=way, inputs=inputs: torch.autograd.grad(way().square().sum(), inputs)
            for side, way in (("ours", own), ("theirs", theirs))
        }
        times = timed(passes, options.rounds)
        ratio = statistics.median(b / a for a, b in zip(times["ours"], times["theirs"], strict=True))
        rows.append([name, *(f"{1e3 * statistics.median(times[side]):.1f}" for side in passes), f"{ratio:.2f}"])
    print_table(["forward and backward, CPU ms", "ours", "theirs", f"ratio, {GOAL} asked for"], rows)


if __name__ == "__main__":
    main()

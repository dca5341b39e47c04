"""What looking costs: a recorded pass beside an unrecorded one, one head's weights beside all of the formula."""

import statistics
from collections.abc import Callable

import torch

from benchmarks.tables import print_table
from headwise.attention.masks import Padding
from headwise.attention.mechanisms.scored import Scored
from headwise.layers.attention import MultiHeadAttention
from headwise.records import record

Timed = Callable[[dict[str, Callable[[], None]], int], dict[str, list[float]]]


def report(timed: Timed, rounds: int = 9) -> dict[str, dict[str, float]]:
    """Prints both ratios with their goals."""
    layer = MultiHeadAttention(512, 8, Scored()).eval()
    model = torch.nn.ModuleDict({"self_attention": layer})
    x, mask = torch.randn(1, 2048, 512), Padding(torch.tensor([2000]))

    def bare() -> None:
        with torch.no_grad():
            layer(x, mask=mask)

    def recorded() -> None:
        with torch.no_grad(), record(model):
            layer(x, mask=mask)

    with torch.no_grad(), record(model) as trace:
        layer(x, mask=mask)
    query, key, _ = (torch.randn(1, 8, 2048, 64) for _ in range(3))
    call = trace["self_attention"]

    def one_head() -> None:
        call.weights(head=3)

    def all_heads() -> None:
        torch.softmax(query @ key.mT * 0.125, -1)

    times = timed({"bare": bare, "recorded": recorded, "one": one_head, "all": all_heads}, rounds)
    cost = statistics.median(b / a for a, b in zip(times["bare"], times["recorded"], strict=True))
    gain = statistics.median(b / a for a, b in zip(times["one"], times["all"], strict=True))
    rows = [
        ["recorded forward : unrecorded", f"{cost:.3f}", "at most 1.02", "yes" if cost <= 1.02 else "no"],
        ["all weights by the formula : one head on demand", f"{gain:.2f}", "at least 2", "yes" if gain >= 2 else "no"],
    ]
    print_table(["what looking costs, length 2048", "ratio", "goal", "reached"], rows)
    return {"recorded": {"ratio": cost}, "one head": {"ratio": gain}}

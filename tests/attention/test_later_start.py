"""A first query that stands later: what a causal mask and a window hide is counted from its place, in every kernel."""

import pytest
import torch
from attention_cases import KERNELS, run

from headwise.attention.call import Call
from headwise.attention.masks import Causal, Window
from headwise.attention.scores import ScaledDot

# first and last key that a query at a place sees
SEEN = {"causal": lambda place: (0, place), "window": lambda place: (max(0, place - 2), place + 1)}
MASKS = {"causal": Causal(), "window": Window(2, 1)}


def by_loops(query, key, value, kind, start):
    """Softmax over the keys that each query sees, one row after another."""
    output = torch.zeros(*query.shape[:3], value.shape[-1], dtype=query.dtype)
    for i in range(query.shape[2]):
        first, last = SEEN[kind](start + i)
        scores = query[:, :, i : i + 1] @ key[:, :, first : last + 1].mT / query.shape[-1] ** 0.5
        output[:, :, i : i + 1] = scores.softmax(-1) @ value[:, :, first : last + 1]
    return output


@pytest.mark.parametrize("start", [0, 1, 4])
@pytest.mark.parametrize("length", [1, 5])
@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_keys_are_hidden_by_the_place_of_the_query(kernel, kind, length, start):
    query, key, value = (torch.randn(2, 3, n, 7, dtype=torch.float64) for n in (length, 11, 11))
    output = run(Call(query, key, value, ScaledDot(), mask=MASKS[kind], query_start=start), kernel)
    if output is None:
        assert kernel not in ("auto", "plain", "rows", "eager", "fused")
        return
    torch.testing.assert_close(output, by_loops(query, key, value, kind, start), rtol=0, atol=1e-13)

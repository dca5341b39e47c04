"""Projected sinusoids of the distance, and the two vectors that stand in for the query's position."""

import math

import pytest
import torch
from relative_loops import WIDTH, assert_equal, by_pairs, spread, tensors

from headwise.errors import ConfigError
from headwise.positions.transformer_xl import TransformerXL

D_MODEL = 6


def sines(distance: int) -> torch.Tensor:
    """R of a distance query - key."""
    row = []
    for pair in range(D_MODEL // 2):
        angle = distance / 10000 ** (2 * pair / D_MODEL)
        row += [math.sin(angle), math.cos(angle)]
    return torch.tensor(row, dtype=torch.float64)


@pytest.mark.parametrize("kv_heads", [3, 1])
@pytest.mark.parametrize("start", [0, 2])
def test_the_definition_pair_by_pair(start, kv_heads):
    """The four terms of section 3.3: content, content to place, and the two biases."""
    position = spread(TransformerXL(D_MODEL, 3, WIDTH))
    query, key, value = inputs = tensors(kv_heads)

    def score(b, h, i, j):
        q, k = query[b, h, i], key[b, h * kv_heads // 3, j]
        place = position.projection.weight[h * WIDTH : (h + 1) * WIDTH] @ sines(i + start - j)
        u, v = position.content[h], position.place[h]
        return (q @ k + q @ place + u @ k + v @ place) / WIDTH**0.5

    assert_equal(position, inputs, start, by_pairs(value, score))


def test_equal_to_the_shifted_matrix():
    """Appendix B of the paper: the products with R in order of distance, each row shifted by one more."""
    position = spread(TransformerXL(D_MODEL, 3, WIDTH))
    query = tensors()[0]
    length = query.shape[2]
    order = torch.stack([sines(distance) for distance in range(length - 1, -1, -1)])
    places = (order @ position.projection.weight.mT).unflatten(-1, (3, WIDTH)).transpose(0, 1)
    products = (query + position.place[:, None]) @ places.mT / WIDTH**0.5
    padded = torch.nn.functional.pad(products, (1, 0))
    shifted = padded.view(*padded.shape[:2], length + 1, length)[:, :, 1:]
    found = position.relative(query, query, 1 - length, length - 1).bias(length, length)
    past = torch.ones(length, length).tril().bool()
    torch.testing.assert_close(found[..., past], shifted[..., past], rtol=0, atol=1e-12)


def test_odd_widths_are_refused():
    with pytest.raises(ConfigError, match="transformer_xl positions need an even d_model, got 7; use 6 or 8"):
        TransformerXL(7, 1, 7)

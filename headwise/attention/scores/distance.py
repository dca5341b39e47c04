"""The score that is a distance."""

import math

import torch
from torch import Tensor

from headwise.attention.scores.score import AsDot, KvKey, Product, Query


class Distance(Product):
    """-|q - k|^2 / (2 sqrt(d)): the nearer a key is to the query, the higher; under softmax a Gaussian kernel.

    That is q . k / sqrt(d) less |q|^2 / (2 sqrt(d)) and |k|^2 / (2 sqrt(d)), so long keys gain nothing by their
    length. It is computed as this product, exact to rounding where vectors are not far longer than their distance.
    Source: Nadaraya 1964 and Watson 1964 (kernel regression), as in Zhang et al., "Dive into Deep Learning", 11.2.

    >>> Distance()(torch.tensor([[[[3.0, 0.0, 0.0, 1.0]]]]), torch.tensor([[[[1.0, 0.0, 0.0, 1.0]]]])).item()
    -1.0
    """

    def as_dot(self, query: Query, key: KvKey) -> tuple[AsDot, AsDot, float]:
        width = query.shape[-1]
        return _with(query, half=0), _with(key, half=1), 1 / math.sqrt(width) if width else 1.0


def _with(x: Tensor, half: int) -> Tensor:
    """x beside 1 and -|x|^2 / 2, which of these first is told by `half`: the halves of a query and a key meet ones."""
    square = -x.square().sum(-1, keepdim=True) / 2
    one = torch.ones_like(square)
    return torch.cat([x, one, square] if half else [x, square, one], -1)

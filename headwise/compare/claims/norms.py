"""Claims about normalization."""

import datetime

import torch
from scipy import stats
from torch import nn

from headwise.compare.claim import Claim, Evidence
from headwise.compare.verdicts import Control, Interval, below, near


def _order(full: bool) -> Evidence:
    """Heights in cm and weights in kg of as many people as are drawn."""
    count = 1000 if full else 200
    generator = torch.Generator().manual_seed(0)
    height = 170 + 10 * torch.randn(count, generator=generator)
    people = torch.stack([height, 70 + 0.6 * (height - 170) + 8 * torch.randn(count, generator=generator)], 1)
    with torch.no_grad():
        by_batch, by_layer = nn.BatchNorm1d(2).train()(people), nn.LayerNorm(2)(people)

    def across(after: torch.Tensor) -> float:
        """How far the order of people by height stays, by Kendall's tau."""
        return float(stats.kendalltau(people[:, 0], after[:, 0]).statistic)

    def within(after: torch.Tensor) -> float:
        """In how many people height stays the larger of the two numbers."""
        return float(((after[:, 0] > after[:, 1]) == (people[:, 0] > people[:, 1])).double().mean())

    cells = [
        near("batch normalization keeps the order of people", Interval.exact(across(by_batch)), 1.0, 1e-6),
        near("layer normalization keeps the order of features", Interval.exact(within(by_layer)), 1.0, 1e-6),
        below("layer normalization does not keep the order of people", Interval.exact(across(by_layer)), 0.9),
        below("batch normalization does not keep the order of features", Interval.exact(within(by_batch)), 0.9),
    ]
    shuffled = people[torch.randperm(count, generator=generator)]
    chance = across(shuffled)
    return cells, [Control("people in another order agree by chance alone", abs(chance) < 0.2, chance)]


CLAIMS = [
    Claim(
        name="norm-keeps-order",
        sentence=(
            "Batch normalization keeps the order of samples by a feature and not that of features in a sample, layer"
            " normalization the other way round."
        ),
        source="lecture notes, row S147",
        rule=(
            "Kendall's tau over samples with batch normalization, and the share of samples whose two features keep"
            " their order with layer normalization, are 1 +- 1e-6; the same with the other normalization is below 0.9"
        ),
        weakness="two drawn features, before learned scales, which may turn an order round",
        across="agreement of orders",
        written=datetime.date(2026, 11, 27),
        version=2,
        measure=_order,
    )
]

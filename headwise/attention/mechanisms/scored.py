"""Attention by its definition: a score, a normalizer, a weighted sum."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from headwise.attention import normalizers, scores
from headwise.attention.call import Call
from headwise.attention.mechanisms.mechanism import SOFTMAX, Rescored
from headwise.attention.normalizers import Normalizer
from headwise.attention.scores import Score
from headwise.attention.stages import Stage, definition


class Scored(Rescored):
    """normalizer(score(q, k) + bias under mask) v, by default softmax(q k^T / sqrt(d)) v.

    Time and memory are quadratic in length by definition; the planner picks the kernel.

    Args:
        score: how alike a query and a key are, a name or an object; None: as the call says, else scaled dot product.
        normalizer: scores to weights, a name or an object; None: as the call says, else softmax.
        dropout: probability of dropping a weight while training.
        kernel: "auto", or the kernel to insist on.
    Source: Vaswani et al. 2017, arXiv:1706.03762, eq. 1; Bahdanau et al. 2015, arXiv:1409.0473, with `Additive`.

    >>> import torch
    >>> x = torch.ones(2, 3, 5, 8)
    >>> Scored(normalizer="sparsemax")(Call(x, x, x)).shape
    torch.Size([2, 3, 5, 8])
    """

    facts = replace(
        SOFTMAX,
        time="n^2 d; n w d under a window of w, e d over e edges",
        memory="n d",
        exact="yes",
        scored=True,
        cache="shared",
    )

    planned = True

    def __init__(
        self,
        score: Score | str | None = None,
        normalizer: Normalizer | str | Callable[..., Any] | None = None,
        dropout: float = 0.0,
        kernel: str = "auto",
    ):
        super().__init__()
        self.score = None if score is None else scores.as_score(score)
        self.normalizer = None if normalizer is None else normalizers.build(normalizer)
        self.dropout, self.kernel = dropout, kernel

    def as_scored(self, call: Call, dropout: float) -> Call:
        if self.score is None and self.normalizer is None and not dropout:
            return call
        score = call.score if self.score is None else self.score
        normalizer = call.normalizer if self.normalizer is None else self.normalizer
        return replace(call, score=score, normalizer=normalizer, dropout=dropout or call.dropout)

    def compute_stages(self, call: Call) -> list[Stage]:
        """Products, scale, what is added, mask, normalizer."""
        return definition(self.as_scored(call, 0.0))

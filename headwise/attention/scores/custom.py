"""A plain function, or a module that is no score, as a score."""

from collections.abc import Callable

from torch import Tensor

from headwise.attention.functions import check_function, checked, name_of
from headwise.attention.scores.score import Key, Query, Score, Scores


class Custom(Score):
    """function(query, key): any function of (batch, heads, length, dim) as a score. The parameters of a module learn.

    Args:
        function: (query, key) -> scores (batch, heads, query_len, key_len), one pair not looking at another.
    Raises:
        ConfigError: a class in place of an instance, and what cannot be called.
        ShapeError: when called, if the scores have another shape, or another type than query and key.

    >>> import torch
    >>> Custom(lambda query, key: -torch.cdist(query, key))(torch.ones(1, 2, 3, 4), torch.ones(1, 2, 5, 4)).shape
    torch.Size([1, 2, 3, 5])
    """

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]):
        super().__init__()
        check_function("score", function, "(query, key) -> scores")
        self.function = function

    def forward(self, query: Query, key: Key) -> Scores:
        scores = self.function(query, key)
        return checked(scores, f"score '{name_of(self.function)}'", (*query.shape[:3], key.shape[2]), query)

    def per_head(self) -> bool:
        # nobody knows
        return True

    def check(self, query_dim: int, key_dim: int) -> None:
        """Any widths: the function knows."""

"""A plain function as a normalizer."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from headwise.attention.normalizers.normalizer import Keep, Normalizer, Scores


@dataclass(frozen=True)
class Function(Normalizer):
    """function(scores, keep): any function as a normalizer, with what the mask hides kept out before and after it.

    The function sees 0 where `keep` is False, and its weights there become 0: it cannot leak, and a row without a key
    is zero whatever it returns. A row without a key has every score 0.

    Args:
        function: (scores, keep) -> weights of the same shape; `keep` is None where nothing is hidden.

    >>> import torch
    >>> Function(lambda scores, keep: scores.exp())(torch.zeros(1, 1, 1, 2), None).tolist()
    [[[[1.0, 1.0]]]]
    """

    function: Callable[[Tensor, Tensor | None], Tensor]

    def __call__(self, scores: Scores, keep: Keep | None) -> Scores:
        if keep is None:
            return self.function(scores, None)
        return self.function(scores.masked_fill(~keep, 0.0), keep).masked_fill(~keep, 0.0)

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)

"""A plain function or module as a normalizer."""

from collections.abc import Callable

from torch import Tensor

from headwise.attention.functions import check_function, checked, name_of
from headwise.attention.normalizers.normalizer import Keep, Normalizer, Scores
from headwise.attention.zeros import hide


class Function(Normalizer):
    """function(scores, keep): any function as a normalizer, with what the mask hides kept out before and after it.

    The function sees 0 where `keep` is False, and its weights there become 0: it cannot leak, and a row without a key
    is zero whatever it returns. The parameters of a module learn; scores are float32 or wider in every model.

    Args:
        function: (scores, keep) -> weights of the same shape and type; `keep` is None where nothing is hidden. A row
            must not look at another one.
    Raises:
        ConfigError: a class in place of an instance, and what cannot be called.
        ShapeError: when called, if the weights have another shape or type.

    >>> import torch
    >>> Function(lambda scores, keep: scores.exp())(torch.zeros(1, 1, 1, 2), None).tolist()
    [[[[1.0, 1.0]]]]
    """

    def __init__(self, function: Callable[[Tensor, Tensor | None], Tensor]):
        super().__init__()
        check_function("normalizer", function, "(scores, keep) -> weights")
        self.function = function

    def forward(self, scores: Scores, keep: Keep | None) -> Scores:
        weights = self.function(hide(scores, keep, 0.0), keep)
        return hide(checked(weights, f"normalizer '{self.name}'", tuple(scores.shape), scores), keep, 0.0)

    @property
    def name(self) -> str:
        return name_of(self.function)

    def per_head(self) -> bool:
        # nobody knows
        return True

"""The base of every normalizer, from the scores of a row to its weights, and a plain function as one."""

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headwise.attention.functions import check_function, check_result, name_of
from headwise.attention.zeros import hide

Scores = Float[Tensor, "batch heads query_len key_len"]
Keep = Bool[Tensor, "#batch #heads #query_len #key_len"]


class Normalizer(nn.Module, ABC):
    """Scores to weights, row by row; it may hold parameters.

    A kernel may give it some of the queries, so a row must not look at another one.
    """

    @abstractmethod
    def forward(self, scores: Scores, keep: Keep | None) -> Scores:
        """The weights; exactly 0 where `keep` is False, which None never is. A row without a key has no gradient."""

    @property
    def name(self) -> str:
        """The name in recipes and messages, with its option: `build` makes an equal object from it."""
        return type(self).__name__.lower()

    def per_head(self) -> bool:
        """Whether it may treat heads differently: it then needs all heads of a call at once."""
        return False

    def extra_repr(self) -> str:
        return self.name


def allowed(scores: Scores, keep: Keep | None) -> Float[Tensor, "#batch #heads #query_len 1"]:
    """Allowed keys of each row, at least 1."""
    visible = torch.ones_like(scores[:1, :1, :1], dtype=torch.bool) if keep is None else keep
    return visible.expand(*visible.shape[:-1], scores.shape[-1]).sum(-1, keepdim=True).clamp(min=1).to(scores.dtype)


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

    >>> Function(lambda scores, keep: scores.exp())(torch.zeros(1, 1, 1, 2), None).tolist()
    [[[[1.0, 1.0]]]]
    """

    def __init__(self, function: Callable[[Tensor, Tensor | None], Tensor]):
        super().__init__()
        check_function("normalizer", function, "(scores, keep) -> weights")
        self.function = function

    def forward(self, scores: Scores, keep: Keep | None) -> Scores:
        weights = self.function(hide(scores, keep, 0.0), keep)
        return hide(check_result(weights, f"normalizer '{self.name}'", tuple(scores.shape), scores), keep, 0.0)

    @property
    def name(self) -> str:
        return name_of(self.function)

    def per_head(self) -> bool:
        # nobody knows
        return True

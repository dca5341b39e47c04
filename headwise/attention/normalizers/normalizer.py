"""The base of every normalizer: from the scores of a row to its weights."""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

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
    seen = torch.ones_like(scores[:1, :1, :1], dtype=torch.bool) if keep is None else keep
    return seen.expand(*seen.shape[:-1], scores.shape[-1]).sum(-1, keepdim=True).clamp(min=1).to(scores.dtype)

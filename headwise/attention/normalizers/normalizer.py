"""The base of every normalizer: from the scores of a row to its weights."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headwise.errors import Unsupported

Scores = Float[Tensor, "batch heads query_len key_len"]
Keep = Bool[Tensor, "#batch #heads #query_len #key_len"]
Strip = Float[Tensor, "*strip key_len"]
Count = Float[Tensor, "*#strip 1"]


@dataclass(frozen=True)
class Normalizer(ABC):
    """Scores to weights, row by row. A row with no allowed key is zero, and so is its gradient.

    Two normalizers are equal if their options are. `strip` and `strip_gradient` are what a kernel needs that works on
    whole rows without recording a graph; a normalizer that lacks them runs through `__call__` there too.
    """

    @abstractmethod
    def __call__(self, scores: Scores, keep: Keep | None) -> Scores:
        """The definition: weights of all rows; exactly 0 where `keep` is False."""

    @property
    def name(self) -> str:
        """The name in recipes and messages, with its option: `build` makes an equal object from it."""
        return type(self).__name__.lower()

    @property
    def work(self) -> str:
        """What a pass over the scores is called in the prices of kernels; those that search a threshold differ."""
        return "pairs"

    def has_strips(self) -> bool:
        """Whether `strip` and `strip_gradient` are defined."""
        return type(self).strip is not Normalizer.strip

    def strip(self, scores: Strip, count: Count) -> Strip:
        """Weights of whole rows, computed in place of the scores, which are minus infinity where forbidden.

        Args:
            count: allowed keys of each row; rows with 0 become zeros.
        """
        raise Unsupported(f"{self.name} has no strips; ask `has_strips` first")

    def strip_gradient(self, weights: Strip, d_weights: Strip, count: Count) -> Strip:
        """The gradient of the scores, computed in place of `d_weights`."""
        raise Unsupported(f"{self.name} has no gradient of strips; ask `has_strips` first")


def allowed(scores: Scores, keep: Keep | None) -> Float[Tensor, "#batch #heads #query_len #key_len"]:
    """Allowed keys of each row, at least 1."""
    if keep is None:
        return scores.new_tensor(float(max(1, scores.shape[-1]))).view(1, 1, 1, 1)
    return keep.expand(*keep.shape[:-1], scores.shape[-1]).sum(-1, keepdim=True).clamp(min=1).to(scores.dtype)


def root(weights: Strip) -> Strip:
    """Square roots; with many zeros several times as fast as `sqrt`, which takes a slow path for each."""
    return weights.clamp(min=torch.finfo(weights.dtype).tiny).rsqrt_().mul_(weights)

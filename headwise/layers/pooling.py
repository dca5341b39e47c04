"""Vectors of subwords to vectors of words."""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headwise.attention.zeros import zeroed, zeroed_beyond
from headwise.errors import ConfigError, unknown


class Pooling(nn.Module, ABC):
    """One vector for each word, from those of its tokens, which stand side by side in the order of the words.

    A word of no tokens is padding and becomes zero; tokens beyond those of all words are never read.
    """

    @abstractmethod
    def forward(
        self, x: Float[Tensor, "batch length width"], pieces: Int[Tensor, "batch words"]
    ) -> Float[Tensor, "batch words width"]:
        """`pieces`: how many tokens each word has."""


class MeanPooling(Pooling):
    """The mean of a word's tokens: an attention of each word to its own tokens, all weights alike.

    >>> x = torch.tensor([[[1.0], [3.0], [5.0]]])
    >>> MeanPooling()(x, torch.tensor([[2, 1]])).flatten().tolist()
    [2.0, 5.0]
    """

    def forward(
        self, x: Float[Tensor, "batch length width"], pieces: Int[Tensor, "batch words"]
    ) -> Float[Tensor, "batch words width"]:
        ends = pieces.cumsum(1)[..., None]
        place = torch.arange(x.shape[1], device=x.device)
        own = (place < ends) & (place >= ends - pieces[..., None])
        weights = own.to(x.dtype) / pieces[..., None].clamp(min=1).to(x.dtype)
        return weights @ zeroed_beyond(x, pieces.sum(1))


class FirstPooling(Pooling):
    """The first token of each word.

    Source: Devlin et al. 2019, arXiv:1810.04805, section 5.3.

    >>> x = torch.tensor([[[1.0], [3.0], [5.0]]])
    >>> FirstPooling()(x, torch.tensor([[2, 1]])).flatten().tolist()
    [1.0, 5.0]
    """

    def forward(
        self, x: Float[Tensor, "batch length width"], pieces: Int[Tensor, "batch words"]
    ) -> Float[Tensor, "batch words width"]:
        if x.shape[1] == 0:
            return x.new_zeros(*pieces.shape, x.shape[2])
        # the start of padding may lie beyond the last token
        starts = (pieces.cumsum(1) - pieces).clamp(max=x.shape[1] - 1)
        first = x.gather(1, starts[..., None].expand(-1, -1, x.shape[2]))
        return zeroed(first, (pieces > 0)[..., None])


POOLINGS: dict[str, type[Pooling]] = {"mean": MeanPooling, "first": FirstPooling}


def build(name: str) -> Pooling:
    """The pooling of this name. Raises: ConfigError if unknown."""
    if name not in POOLINGS:
        raise ConfigError(unknown("pooling", name, POOLINGS))
    return POOLINGS[name]()

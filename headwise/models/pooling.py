"""The vectors of a sequence to one vector: mean, sum, maximum, last state, first place, attention with one query."""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headwise.attention.masks import Padding
from headwise.attention.zeros import hide, zeroed, zeroed_beyond
from headwise.layers.attention import MultiHeadAttention


class SequencePooling(nn.Module, ABC):
    """One vector for each sequence. What stands beyond the lengths changes nothing; an empty one gives zeros."""

    @abstractmethod
    def forward(
        self, x: Float[Tensor, "batch length width"], valid_lens: Int[Tensor, "batch"]
    ) -> Float[Tensor, "batch width"]:
        """`valid_lens`: real places of each sequence."""


class MeanOverSequence(SequencePooling):
    """The mean of all places: attention with all weights alike.

    >>> x = torch.tensor([[[1.0], [3.0], [9.0]]])
    >>> MeanOverSequence()(x, torch.tensor([2])).tolist()
    [[2.0]]
    """

    def forward(
        self, x: Float[Tensor, "batch length width"], valid_lens: Int[Tensor, "batch"]
    ) -> Float[Tensor, "batch width"]:
        return zeroed_beyond(x, valid_lens).sum(1) / valid_lens[:, None].clamp(min=1)


class SumOverSequence(SequencePooling):
    """The sum of all places, which tells how many there are.

    >>> SumOverSequence()(torch.tensor([[[1.0], [3.0], [9.0]]]), torch.tensor([2])).tolist()
    [[4.0]]
    """

    def forward(
        self, x: Float[Tensor, "batch length width"], valid_lens: Int[Tensor, "batch"]
    ) -> Float[Tensor, "batch width"]:
        return zeroed_beyond(x, valid_lens).sum(1)


class MaxOverSequence(SequencePooling):
    """The largest number of every column, each from the place where it stands.

    Source: Collobert et al. 2011, "Natural Language Processing (Almost) from Scratch", section 3.2.2.

    >>> x = torch.tensor([[[1.0, 7.0], [3.0, 2.0], [9.0, 9.0]]])
    >>> MaxOverSequence()(x, torch.tensor([2])).tolist()
    [[3.0, 7.0]]
    """

    def forward(
        self, x: Float[Tensor, "batch length width"], valid_lens: Int[Tensor, "batch"]
    ) -> Float[Tensor, "batch width"]:
        return zeroed(self._hidden(x, valid_lens).amax(1), (valid_lens > 0)[:, None])

    def shares(
        self, x: Float[Tensor, "batch length width"], valid_lens: Int[Tensor, "batch"]
    ) -> Float[Tensor, "batch length"]:
        """The share of the columns whose largest number stands at each place, the first of equal ones.

        >>> MaxOverSequence().shares(torch.tensor([[[1.0, 7.0], [3.0, 2.0]]]), torch.tensor([2])).tolist()
        [[0.5, 0.5]]
        """
        places = self._hidden(x, valid_lens).argmax(1)
        counts = (places[:, None, :] == torch.arange(x.shape[1], device=x.device)[:, None]).sum(-1)
        return zeroed(counts / x.shape[2], (valid_lens > 0)[:, None])

    def _hidden(self, x: Tensor, valid_lens: Tensor) -> Tensor:
        keep = (torch.arange(x.shape[1], device=x.device) < valid_lens[:, None])[..., None]
        return hide(x, keep, -torch.inf)


class LastOfSequence(SequencePooling):
    """The state at the last place; of columns that were read backwards that at the first, which is the last one read.

    Args:
        backward: how many columns, the last ones, were read from the end to the beginning.

    >>> x = torch.tensor([[[1.0, 2.0], [3.0, 4.0], [9.0, 9.0]]])
    >>> LastOfSequence(backward=1)(x, torch.tensor([2])).tolist()
    [[3.0, 2.0]]
    """

    def __init__(self, backward: int = 0):
        super().__init__()
        self.backward = backward

    def forward(
        self, x: Float[Tensor, "batch length width"], valid_lens: Int[Tensor, "batch"]
    ) -> Float[Tensor, "batch width"]:
        place = (valid_lens - 1).clamp(min=0)[:, None, None].expand(-1, 1, x.shape[2])
        last, ahead = x.gather(1, place)[:, 0], x.shape[2] - self.backward
        return zeroed(torch.cat([last[:, :ahead], x[:, 0, ahead:]], -1), (valid_lens > 0)[:, None])


class FirstOfSequence(SequencePooling):
    """The state at the first place, where a learned vector stands that collects what the others say.

    Source: Devlin et al. 2019, arXiv:1810.04805, section 3 ([CLS]).
    """

    def forward(
        self, x: Float[Tensor, "batch length width"], valid_lens: Int[Tensor, "batch"]
    ) -> Float[Tensor, "batch width"]:
        return zeroed(x[:, 0], (valid_lens > 0)[:, None])


class AttentionOverSequence(SequencePooling):
    """attention(q, x): one query, learned or made of the last state, attends to all places.

    Args:
        attention: from a query to the sequence as its memory.
        last: where the query is the last state; None: it is learned.
    Source: Lin et al. 2017, arXiv:1703.03130 (one learned query a head); Lee et al. 2019, arXiv:1810.00825, section
        3.2 (pooling by multi-head attention); here without its feed-forward network.
    """

    def __init__(self, attention: MultiHeadAttention, last: LastOfSequence | None = None):
        super().__init__()
        self.attention, self.last = attention, last
        if last is None:
            self.query = nn.Parameter(torch.empty(attention.d_model))
            nn.init.normal_(self.query)

    def forward(
        self, x: Float[Tensor, "batch length width"], valid_lens: Int[Tensor, "batch"]
    ) -> Float[Tensor, "batch width"]:
        x = zeroed_beyond(x, valid_lens)
        query = self.query.to(x.dtype).expand(x.shape[0], -1) if self.last is None else self.last(x, valid_lens)
        found: Tensor = self.attention(query[:, None], x, mask=Padding(valid_lens))
        return zeroed(found[:, 0], (valid_lens > 0)[:, None])

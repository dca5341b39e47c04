"""A history to one vector for each candidate: target attention, or a pooling that is the same for all candidates."""

from abc import ABC, abstractmethod

from jaxtyping import Float, Int
from torch import Tensor, nn

from headwise.attention.call import Call
from headwise.attention.masks import Padding
from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.attention.zeros import zeroed, zeroed_beyond
from headwise.layers.attention import MultiHeadAttention
from headwise.layers.sequence_pooling import SequencePooling


class TargetPooling(nn.Module, ABC):
    """One vector of a history for each candidate. What stands beyond the lengths changes nothing; none gives zeros."""

    @abstractmethod
    def forward(
        self,
        candidates: Float[Tensor, "batch candidates width"],
        history: Float[Tensor, "batch length width"],
        valid_lens: Int[Tensor, "batch"],
    ) -> Float[Tensor, "batch candidates width"]:
        """`valid_lens`: real places of each history."""


class SamePooling(TargetPooling):
    """The vector of the history alone, whatever the candidate: what target attention is compared with.

    >>> import torch
    >>> from headwise.layers.sequence_pooling import MeanOverSequence
    >>> pooled = SamePooling(MeanOverSequence())
    >>> pooled(torch.zeros(1, 2, 1), torch.tensor([[[1.0], [3.0]]]), torch.tensor([2])).tolist()
    [[[2.0], [2.0]]]
    """

    def __init__(self, pooling: SequencePooling):
        super().__init__()
        self.pooling = pooling

    def forward(
        self,
        candidates: Float[Tensor, "batch candidates width"],
        history: Float[Tensor, "batch length width"],
        valid_lens: Int[Tensor, "batch"],
    ) -> Float[Tensor, "batch candidates width"]:
        pooled: Tensor = self.pooling(history, valid_lens)
        return pooled[:, None].expand(-1, candidates.shape[1], -1)


class TargetAttention(TargetPooling):
    """sum_j a(t, h_j) h_j for a candidate t: one head without projections, so that a weight is of an item itself.

    Args:
        mechanism: such as `Scored(ActivationUnit(width), "identity")`, the deep interest network's, whose weights need
            not sum to 1, so that a strong interest gives a long vector.
    Source: Zhou et al. 2018, arXiv:1706.06978, eq. 3.

    >>> import torch
    >>> from headwise.attention.mechanisms.scored import Scored
    >>> pooled = TargetAttention(Scored("dot", "identity"))
    >>> history = torch.tensor([[[1.0, 0.0], [0.0, 2.0], [5.0, 5.0]]])
    >>> pooled(torch.tensor([[[0.0, 3.0]]]), history, torch.tensor([2])).tolist()
    [[[0.0, 12.0]]]
    """

    def __init__(self, mechanism: Mechanism):
        super().__init__()
        self.mechanism = mechanism

    def forward(
        self,
        candidates: Float[Tensor, "batch candidates width"],
        history: Float[Tensor, "batch length width"],
        valid_lens: Int[Tensor, "batch"],
    ) -> Float[Tensor, "batch candidates width"]:
        history = zeroed_beyond(history, valid_lens)[:, None]
        call = Call(candidates[:, None], history, history, mask=Padding(valid_lens), cross=True)
        found: Tensor = self.mechanism(call)
        return found[:, 0]


class HeadsOverHistory(TargetPooling):
    """Multi-head attention from the candidates to the history, with projections and any mechanism.

    Args:
        attention: built with `memory_dim`.
    """

    def __init__(self, attention: MultiHeadAttention):
        super().__init__()
        self.attention = attention

    def forward(
        self,
        candidates: Float[Tensor, "batch candidates width"],
        history: Float[Tensor, "batch length width"],
        valid_lens: Int[Tensor, "batch"],
    ) -> Float[Tensor, "batch candidates width"]:
        found: Tensor = self.attention(candidates, zeroed_beyond(history, valid_lens), mask=Padding(valid_lens))
        # the output's bias is no part of a history that is not there
        return zeroed(found, (valid_lens > 0)[:, None, None])

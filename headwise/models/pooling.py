"""The vectors of a sequence to one vector: mean, sum, maximum, last state, first place, attention with one query."""

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from headwise.attention import normalizers, scores
from headwise.attention.masks import Padding
from headwise.attention.mechanisms.scored import Scored
from headwise.attention.zeros import hide, zeroed, zeroed_beyond
from headwise.config import Config
from headwise.errors import ConfigError
from headwise.layers.attention import MultiHeadAttention, check_heads
from headwise.models.names import NormalizerName, ScoreName
from headwise.models.token_encoders import AttentionConfig, BidirectionalConfig, EncoderConfig, Lens, States
from headwise.models.transformer_config import BlocksConfig


class SequencePooling(nn.Module, ABC):
    """One vector for each sequence. What stands beyond the lengths changes nothing; an empty one gives zeros.

    `transform` is a layer behind the pooling; an identity at first.
    """

    def __init__(self) -> None:
        super().__init__()
        self.transform: nn.Module = nn.Identity()

    def forward(self, x: States, valid_lens: Lens) -> Float[Tensor, "batch width"]:
        """`valid_lens`: real places of each sequence."""
        return zeroed(self.transform(self.pool(x, valid_lens)), (valid_lens > 0)[:, None])

    @abstractmethod
    def pool(self, x: Tensor, valid_lens: Tensor) -> Tensor:
        """As `forward`, where no sequence is empty; of an empty one anything."""


class MeanOverSequence(SequencePooling):
    """The mean of all places: attention with all weights alike.

    >>> x = torch.tensor([[[1.0], [3.0], [9.0]]])
    >>> MeanOverSequence()(x, torch.tensor([2])).tolist()
    [[2.0]]
    """

    def pool(self, x: Tensor, valid_lens: Tensor) -> Tensor:
        return zeroed_beyond(x, valid_lens).sum(1) / valid_lens[:, None].clamp(min=1)


class SumOverSequence(SequencePooling):
    """The sum of all places, which tells how many there are.

    >>> SumOverSequence()(torch.tensor([[[1.0], [3.0], [9.0]]]), torch.tensor([2])).tolist()
    [[4.0]]
    """

    def pool(self, x: Tensor, valid_lens: Tensor) -> Tensor:
        return zeroed_beyond(x, valid_lens).sum(1)


class MaxOverSequence(SequencePooling):
    """The largest number of every column, each from the place where it stands.

    Source: Collobert et al. 2011, "Natural Language Processing (Almost) from Scratch", section 3.2.2.

    >>> x = torch.tensor([[[1.0, 7.0], [3.0, 2.0], [9.0, 9.0]]])
    >>> MaxOverSequence()(x, torch.tensor([2])).tolist()
    [[3.0, 7.0]]
    """

    def pool(self, x: Tensor, valid_lens: Tensor) -> Tensor:
        return self._hidden(x, valid_lens).amax(1)

    def shares(self, x: States, valid_lens: Lens) -> Float[Tensor, "batch length"]:
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

    def pool(self, x: Tensor, valid_lens: Tensor) -> Tensor:
        place = (valid_lens - 1).clamp(min=0)[:, None, None].expand(-1, 1, x.shape[2])
        last, ahead = x.gather(1, place)[:, 0], x.shape[2] - self.backward
        return torch.cat([last[:, :ahead], x[:, 0, ahead:]], -1)


class FirstOfSequence(SequencePooling):
    """The state at the first place: of a learned vector, or of a token such as [CLS], that collects the others.

    Source: Devlin et al. 2019, arXiv:1810.04805, section 3 ([CLS]).
    """

    def pool(self, x: Tensor, valid_lens: Tensor) -> Tensor:
        return x[:, 0]


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

    def pool(self, x: Tensor, valid_lens: Tensor) -> Tensor:
        x = zeroed_beyond(x, valid_lens)
        query = self.query.to(x.dtype).expand(x.shape[0], -1) if self.last is None else self.last(x, valid_lens)
        pooled: Tensor = self.attention(query[:, None], x, mask=Padding(valid_lens))
        return pooled[:, 0]


class TransformConfig(Config):
    """A layer between a pooling and the head above it."""

    transform: Literal["none", "tanh", "relu", "gelu"] = Field(
        "none", description="function of a linear layer between pooling and head, as in BERT (tanh); none: no layer"
    )
    transform_bias: bool = Field(True, description="that layer has a bias")
    transform_norm: bool = Field(False, description="a norm stands behind that layer, as in ModernBERT")

    def transform_layer(self, width: int, norm: Callable[[int], nn.Module] = nn.LayerNorm) -> nn.Module:
        """A new layer of this width, an identity without one; `norm`: makes what stands behind it."""
        if self.transform == "none":
            return nn.Identity()
        functions = {"tanh": nn.Tanh(), "relu": nn.ReLU(), "gelu": nn.GELU()}
        dense = nn.Linear(width, width, bias=self.transform_bias)
        layers: OrderedDict[str, nn.Module] = OrderedDict(dense=dense, function=functions[self.transform])
        if self.transform_norm:
            layers["norm"] = norm(width)
        return nn.Sequential(layers)


def norm_above(config: EncoderConfig | BlocksConfig) -> Callable[[int], nn.Module]:
    """What makes the norm of a layer above an encoder: as inside it, where that is one of single vectors."""
    if isinstance(config, BlocksConfig) and config.norm not in ("none", "batch"):
        return config.new_norm
    return nn.LayerNorm


class SequencePoolingConfig(TransformConfig):
    """How the states of a text become one vector."""

    kind: Literal["mean", "max", "last", "attention", "cls", "first"] = Field(
        "mean",
        description="mean or max over all places, the last state, attention with one query, the state of a learned "
        "token in front (cls), or that of the first token (first), as of an imported BERT",
    )
    query: Literal["learned", "last"] = Field("learned", description="of attention: learned, or the last state")
    num_heads: int = Field(1, ge=1, description="of attention: heads, each with a query of its own")
    score: ScoreName = Field("scaled_dot", description="of attention: how alike query and state are; see `list scores`")
    normalizer: NormalizerName = Field("softmax", description="of attention: scores to weights; see `list normalizers`")

    def model_post_init(self, context: object) -> None:
        normalizers.build(self.normalizer, self.num_heads)

    def check(self, encoder: EncoderConfig | BlocksConfig) -> None:
        """Raises: ConfigError if the pooling does not fit the encoder."""
        if self.kind in ("cls", "first") and encoder.kind not in ("attention", "rnn"):
            raise ConfigError(
                f'pooling.kind = "{self.kind}" needs a first place that reads the whole text, which model.kind ='
                f' "{encoder.kind}" has not; set model.kind to "attention" or "rnn", or another pooling.kind'
            )
        if self.kind in ("cls", "first") and isinstance(encoder, AttentionConfig) and encoder.causal:
            raise ConfigError(
                f'pooling.kind = "{self.kind}" needs a first place that reads the whole text, and with model.causal it'
                ' sees itself alone; set pooling.kind to "last" or another one'
            )
        if self.kind == "attention":
            width = 2 * encoder.hidden_dim if isinstance(encoder, BidirectionalConfig) else encoder.d_model
            check_heads(width, self.num_heads, None)

    def pooling(self, width: int, backward: int, norm: Callable[[int], nn.Module] = nn.LayerNorm) -> SequencePooling:
        """A new pooling of states of this width, the last columns of which were read backwards; `norm`: behind it."""
        pooling = self._pooling(width, backward)
        pooling.transform = self.transform_layer(width, norm)
        return pooling

    def _pooling(self, width: int, backward: int) -> SequencePooling:
        last = LastOfSequence(backward)
        if self.kind != "attention":
            first = FirstOfSequence()
            poolings = {
                "mean": MeanOverSequence(),
                "max": MaxOverSequence(),
                "last": last,
                "cls": first,
                "first": first,
            }
            return poolings[self.kind]
        head_dim = width // self.num_heads
        score = scores.build(self.score, head_dim, head_dim, head_dim, self.num_heads)
        mechanism = Scored(score, normalizers.build(self.normalizer, self.num_heads))
        attention = MultiHeadAttention(width, self.num_heads, mechanism, memory_dim=width)
        return AttentionOverSequence(attention, last if self.query == "last" else None)

"""A model that says how likely each candidate is chosen after a history: Dice, target pooling, the network."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention import mechanisms, normalizers
from headwise.attention.call import Call
from headwise.attention.dropout import Dropout
from headwise.attention.masks import Padding
from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.attention.mechanisms.scored import Scored
from headwise.attention.scores import ActivationUnit
from headwise.attention.zeros import zeroed, zeroed_beyond
from headwise.config import Config
from headwise.errors import ConfigError, unknown
from headwise.layers.attention import MultiHeadAttention
from headwise.models.initializers import initialize
from headwise.models.names import MechanismName, NormalizerName, ScoreName
from headwise.models.pooling import LastOfSequence, MeanOverSequence, SequencePooling, SumOverSequence


class Dice(nn.Module):
    """p(s) s + (1 - p(s)) alpha s with p(s) = sigmoid((s - E[s]) / sqrt(Var[s] + epsilon)), column by column.

    Mean and variance are those of the batch in training, and their running means afterwards, so that an answer does not
    depend on what stands beside it. A batch of one row has no variance and uses the running ones. With mean 0 and
    variance 0 it is PReLU.

    Args:
        width: columns, each with an alpha of its own, which begins at 0.
        momentum: share of a batch in the running means.
    Source: Zhou et al. 2018, arXiv:1706.06978, section 5.2.

    >>> Dice(2).eval()(torch.zeros(3, 2)).tolist()
    [[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
    """

    def __init__(self, width: int, epsilon: float = 1e-8, momentum: float = 0.1):
        super().__init__()
        self.alpha = nn.Parameter(torch.zeros(width))
        self.norm = nn.BatchNorm1d(width, eps=epsilon, momentum=momentum, affine=False)

    def forward(self, x: Float[Tensor, "*rows width"]) -> Float[Tensor, "*rows width"]:
        rows, norm = x.flatten(0, -2), self.norm
        if rows.shape[0] > 1:
            normed = norm(rows)
        else:
            # PyTorch's refuses to train on one row, which has no variance
            normed = F.batch_norm(rows, norm.running_mean, norm.running_var, eps=norm.eps)
        share = normed.sigmoid().view_as(x)
        return share * x + (1 - share) * self.alpha * x


Candidates = Float[Tensor, "batch candidates width"]
History = Float[Tensor, "batch length width"]
Lens = Int[Tensor, "batch"]


class TargetPooling(nn.Module, ABC):
    """One vector of a history for each candidate. What stands beyond the lengths changes nothing; none gives zeros."""

    @abstractmethod
    def forward(self, candidates: Candidates, history: History, valid_lens: Lens) -> Candidates:
        """`valid_lens`: real places of each history."""


class SamePooling(TargetPooling):
    """The vector of the history alone, whatever the candidate: what target attention is compared with.

    >>> import torch
    >>> from headwise.models.pooling import MeanOverSequence
    >>> pooled = SamePooling(MeanOverSequence())
    >>> pooled(torch.zeros(1, 2, 1), torch.tensor([[[1.0], [3.0]]]), torch.tensor([2])).tolist()
    [[[2.0], [2.0]]]
    """

    def __init__(self, pooling: SequencePooling):
        super().__init__()
        self.pooling = pooling

    def forward(self, candidates: Candidates, history: History, valid_lens: Lens) -> Candidates:
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

    def forward(self, candidates: Candidates, history: History, valid_lens: Lens) -> Candidates:
        history = zeroed_beyond(history, valid_lens)[:, None]
        call = Call(candidates[:, None], history, history, mask=Padding(valid_lens), cross=True)
        pooled: Tensor = self.mechanism(call)
        return pooled[:, 0]


class HeadsOverHistory(TargetPooling):
    """Multi-head attention from the candidates to the history, with projections and any mechanism.

    Args:
        attention: built with `memory_dim`.
    """

    def __init__(self, attention: MultiHeadAttention):
        super().__init__()
        self.attention = attention

    def forward(self, candidates: Candidates, history: History, valid_lens: Lens) -> Candidates:
        pooled: Tensor = self.attention(candidates, zeroed_beyond(history, valid_lens), mask=Padding(valid_lens))
        # the output's bias is no part of a history that is not there
        return zeroed(pooled, (valid_lens > 0)[:, None, None])


# of a width that follows from the number of categories
_WIDEST = 64


class InterestConfig(Config):
    """A network over items, a history and a user."""

    pooling: Literal["din", "din-softmax", "attention", "mean", "sum", "last"] = Field(
        "din",
        description="how a history becomes a vector: target attention by a small network, its weights as they are "
        "(din) or after a softmax; heads of attention; or the same for each candidate: mean, sum, last",
    )
    unit: tuple[int, ...] = Field((36,), description="of din: widths inside the network that scores a pair of items")
    num_heads: int = Field(2, ge=1, description="of attention: heads")
    head_dim: int = Field(16, ge=1, le=2**14, description="of attention: width of a head")
    mechanism: MechanismName = Field("scored", description="of attention: what is computed; `headwise list mechanisms`")
    score: ScoreName = Field("scaled_dot", description="of attention: how alike candidate and item are; `list scores`")
    normalizer: NormalizerName = Field("softmax", description="of attention: scores to weights; see `list normalizers`")
    shared: bool = Field(
        False, description="of attention: candidate and history have one matrix, so that equal items have alike vectors"
    )
    positions: bool = Field(True, description="encode how many items of the history follow one")
    time_gaps: bool = Field(False, description="encode how long ago an item was, by data.order")
    widths: dict[str, int] = Field(
        default={}, description="width of the embedding by column, data.item among them; absent: 6 size^(1/4)"
    )
    hidden: tuple[int, ...] = Field((80, 40), description="widths inside the network that answers")
    activation: Literal["prelu", "dice"] = Field("prelu", description="of the network that answers")
    dropout: float = Field(0.0, ge=0, lt=1, description="on what the network that answers reads")

    def model_post_init(self, context: object) -> None:
        for key in ("unit", "hidden"):
            if not getattr(self, key) or min(getattr(self, key)) < 1:
                raise ConfigError(f"model.{key} must name at least one width, each at least 1, such as [36]")
        if any(width < 1 for width in self.widths.values()):
            raise ConfigError("model.widths must be at least 1")
        normalizers.build(self.normalizer, self.num_heads)
        facts = mechanisms.mechanism_type(self.mechanism).facts
        if not facts.cross or not facts.bidirectional:
            everything = {name: mechanisms.mechanism_type(name).facts for name in mechanisms.names()}
            fitting = [name for name, facts in everything.items() if facts.cross and facts.bidirectional]
            raise ConfigError(f"mechanism '{self.mechanism}' cannot look at a history; these can: {', '.join(fitting)}")
        if not mechanisms.is_scored(self.mechanism) and (self.score, self.normalizer) != ("scaled_dot", "softmax"):
            raise ConfigError(f"score and normalizer belong to mechanism 'scored', not to '{self.mechanism}'")

    def width(self, column: str, size: int) -> int:
        """The width of the embedding of a column with so many categories, the unknown one among them."""
        return self.widths.get(column, embedding_width(size))


def embedding_width(size: int) -> int:
    """6 size^(1/4), rounded, from 2 to 64: a width for an embedding of so many categories.

    Source: Wang et al. 2017, arXiv:1708.05123 (Deep & Cross Network), section 4, implementation details.

    >>> [embedding_width(size) for size in (2, 15, 218, 100_000)]
    [7, 12, 23, 64]
    """
    return max(2, min(_WIDEST, round(6 * math.pow(size, 0.25))))


class ItemEmbedding(nn.Module):
    """[E_0[item]; E_1[feature_1]; ...]: the vectors of an item and of its features, side by side.

    Args:
        tables: for the items, then for each feature.
        features: the number of each feature of each item.
    """

    features: Tensor

    def __init__(self, tables: Sequence[nn.Embedding], features: Int[Tensor, "items features"]):
        super().__init__()
        self.tables = nn.ModuleList(tables)
        self.width = sum(table.embedding_dim for table in tables)
        # part of the data, not of the weights
        self.register_buffer("features", features, persistent=False)

    def forward(self, items: Int[Tensor, "batch places"]) -> Float[Tensor, "batch places width"]:
        numbers = [items, *self.features[items].unbind(-1)]
        return torch.cat([table(column) for table, column in zip(self.tables, numbers, strict=True)], -1)


class InterestNetwork(nn.Module):
    """f([u; v; t; v * t]) with v = pooling(t, h): how likely user u with history h chooses candidate t, as a logit.

    An item of the history is its embedding plus one for how many items follow it and one for how long ago it was.

    Args:
        users: an embedding for each column of the user.
        places: of the number of followers, None: none.
        gaps: of the class of the time gap, None: none.
        answer: f.
    Source: Zhou et al. 2018, arXiv:1706.06978, section 4 and figure 2; v * t as in the authors' code, and for every
        pooling, so that they differ in nothing but v.
    """

    def __init__(
        self,
        items: ItemEmbedding,
        users: Sequence[nn.Embedding],
        pooling: TargetPooling,
        answer: nn.Sequential,
        *,
        places: nn.Embedding | None,
        gaps: nn.Embedding | None,
        dropout: float,
    ):
        super().__init__()
        self.items, self.users, self.pooling, self.answer = items, nn.ModuleList(users), pooling, answer
        self.places, self.gaps, self.dropout = places, gaps, Dropout(dropout)

    def forward(
        self,
        history: Int[Tensor, "batch places"],
        gaps: Int[Tensor, "batch places"],
        valid_lens: Int[Tensor, "batch"],
        candidates: Int[Tensor, "batch candidates"],
        users: Int[Tensor, "batch columns"],
    ) -> Float[Tensor, "batch candidates"]:
        """The logit of each candidate.

        Args:
            history: numbers of items, the oldest first; 0 is unknown.
            gaps: the class of the time since each.
            valid_lens: real places of each history.
            users: a category for each column of the user; 0 is unknown.
        """
        x, target = self.items(history), self.items(candidates)
        if self.places is not None:
            after = (valid_lens[:, None] - 1 - torch.arange(history.shape[1], device=history.device)).clamp(min=0)
            x = x + self.places(after.clamp(max=self.places.num_embeddings - 1))
        if self.gaps is not None:
            x = x + self.gaps(gaps)
        pooled = self.pooling(target, x, valid_lens)
        user = [table(column) for table, column in zip(self.users, users.unbind(-1), strict=True)]
        spread = [vector[:, None].expand(-1, target.shape[1], -1) for vector in user]
        logits: Tensor = self.answer(self.dropout(torch.cat([*spread, pooled, target, pooled * target], -1)))
        return logits.squeeze(-1)


def build_interest_network(
    config: InterestConfig,
    sizes: Mapping[str, int],
    features: Int[Tensor, "items features"],
    *,
    max_history: int,
    gaps: int,
) -> InterestNetwork:
    """The model of a configuration.

    Args:
        sizes: categories of each column: the items first, then their features, then what is known of users.
        features: the number of each feature of each item.

    Raises: ConfigError for the width of a column that is not there.

    >>> table = torch.tensor([[0], [1], [1]])
    >>> model = build_interest_network(InterestConfig(), {"item": 3, "colour": 2}, table, max_history=5, gaps=8)
    >>> history, candidates = torch.tensor([[1, 2, 0]]), torch.tensor([[1, 2]])
    >>> model(history, history * 0, torch.tensor([2]), candidates, torch.zeros(1, 0, dtype=torch.long)).shape
    torch.Size([1, 2])
    """
    for column in config.widths:
        if column not in sizes:
            raise ConfigError(f"model.widths: {unknown('column', column, sizes)}")
    tables = [nn.Embedding(size, config.width(column, size)) for column, size in sizes.items()]
    for table in tables:
        nn.init.normal_(table.weight, std=0.1)
    count = 1 + features.shape[1]
    items = ItemEmbedding(tables[:count], features)
    width = items.width
    users = tables[count:]
    widths = [sum(table.embedding_dim for table in users) + 3 * width, *config.hidden]
    answer: list[nn.Module] = []
    for wide, out in pairwise(widths):
        answer += [nn.Linear(wide, out), Dice(out) if config.activation == "dice" else nn.PReLU()]
    model = InterestNetwork(
        items,
        users,
        _pooling(config, width, max_history),
        nn.Sequential(*answer, nn.Linear(widths[-1], 1)),
        places=_zeros(max_history, width) if config.positions else None,
        gaps=_zeros(gaps, width) if config.time_gaps else None,
        dropout=config.dropout,
    )
    initialize(model, "xavier")
    return model


def _zeros(size: int, width: int) -> nn.Embedding:
    table = nn.Embedding(size, width)
    nn.init.zeros_(table.weight)
    return table


def _pooling(config: InterestConfig, width: int, max_history: int) -> TargetPooling:
    alike = {"mean": MeanOverSequence, "sum": SumOverSequence, "last": LastOfSequence}
    if config.pooling in alike:
        return SamePooling(alike[config.pooling]())
    if config.pooling != "attention":
        weights = "identity" if config.pooling == "din" else "softmax"
        return TargetAttention(Scored(ActivationUnit(width, config.unit), weights))
    attention = MultiHeadAttention(
        width,
        config.num_heads,
        mechanisms.build(
            config.mechanism,
            head_dim=config.head_dim,
            num_heads=config.num_heads,
            max_len=max_history,
            dropout=0.0,
            score=config.score,
            normalizer=config.normalizer,
        ),
        head_dim=config.head_dim,
        memory_dim=None if config.shared else width,
        shared="qk" if config.shared else "none",
    )
    return HeadsOverHistory(attention)

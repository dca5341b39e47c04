"""Encoders of graphs, one for each name in a recipe, and a model that gives each of many graphs a number."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention import mechanisms, normalizers
from headwise.attention.call import Call
from headwise.attention.dropout import Dropout, check_dropout, drop
from headwise.attention.masks import Edges, Mask, Table
from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.attention.mechanisms.scored import Scored
from headwise.attention.precision import wide
from headwise.config import Config
from headwise.data.batches import OnDevice
from headwise.errors import ConfigError, Unsupported
from headwise.layers.attention import check_heads
from headwise.models.initializers import SCHEMES, Scheme, initialize
from headwise.models.names import MechanismName, NormalizerName, ScoreName


@dataclass(frozen=True, eq=False)
class SparseRows(OnDevice):
    """A table of features by its entries that are not zero, row by row (CSR).

    Args:
        start: where the entries of each row begin; those of the last row end with the list.
    """

    start: Int[Tensor, "rows"]
    column: Int[Tensor, "entries"]
    value: Float[Tensor, "entries"]


Features = Float[Tensor, "rows features"] | SparseRows


class FeatureProjection(nn.Module):
    """dropout(x) W + b, where a row of x may be given by its entries that are not zero.

    Of sparse rows only the entries are read: time is entries x width, memory rows x width, and dropout draws a number
    for each entry, since a zero that is dropped stays a zero.

    Args:
        dropout: on the features, while training.

    >>> layer = FeatureProjection(3, 2)
    >>> sparse = SparseRows(torch.tensor([0, 1]), torch.tensor([2, 0, 2]), torch.tensor([1.0, 4.0, 5.0]))
    >>> dense = torch.tensor([[0.0, 0.0, 1.0], [4.0, 0.0, 5.0]])
    >>> torch.allclose(layer(sparse), layer(dense))
    True
    """

    def __init__(self, num_features: int, width: int, dropout: float = 0.0):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_features, width))
        self.bias = nn.Parameter(torch.zeros(width))
        nn.init.xavier_uniform_(self.weight)
        self.dropout = check_dropout(dropout)

    def forward(self, features: Features) -> Float[Tensor, "rows width"]:
        rate = self.dropout if self.training else 0.0
        if isinstance(features, Tensor):
            return drop(features.to(self.weight.dtype), rate) @ self.weight + self.bias
        # sums of bags are not made in half precision
        weight, value = wide(self.weight), drop(features.value, rate)
        sums = F.embedding_bag(
            features.column, weight, features.start, mode="sum", per_sample_weights=value.to(weight.dtype)
        )
        return sums.to(self.weight.dtype) + self.bias

    def extra_repr(self) -> str:
        return f"features={self.weight.shape[0]}, width={self.weight.shape[1]}, dropout={self.dropout}"


Between = Literal["elu", "relu", "gelu"]
_BETWEEN: dict[str, Callable[[Tensor], Tensor]] = {"elu": F.elu, "relu": F.relu, "gelu": F.gelu}


class Mixer(nn.Module, ABC):
    """What a node hears from those that the mask lets it hear of; between the linear layers of an encoder."""

    @abstractmethod
    def forward(self, x: Float[Tensor, "nodes width"], mask: Mask) -> Float[Tensor, "nodes width_out"]:
        """`mask`: which node (query) hears of which (key)."""


class Alone(Mixer):
    """Nothing: each node keeps what it has."""

    def forward(self, x: Float[Tensor, "nodes width"], mask: Mask) -> Float[Tensor, "nodes width"]:
        return x


class Mean(Mixer):
    """The mean of the neighbours: weights that nobody learned. A node without any gets zeros.

    Time and memory are linear in the pairs.

    Source: the mean aggregator of Hamilton et al. 2017, arXiv:1706.02216, section 3.3, with one matrix for all.
    """

    def forward(self, x: Float[Tensor, "nodes width"], mask: Mask) -> Float[Tensor, "nodes width"]:
        pairs = mask.structure().pairs
        if pairs is None:
            raise Unsupported("the mean over neighbours needs a mask that lists its pairs, such as Edges")
        query, key = pairs.query.to(x.device), pairs.key.to(x.device)
        if torch.compiler.is_exporting():
            # a program serves any number of nodes, which bags do not
            heard = x.new_zeros(x.shape[0], x.shape[0]).index_put((query, key), x.new_ones(()))
            return heard @ x / heard.sum(1, keepdim=True).clamp(min=1)
        degree = query.new_zeros(len(x)).index_add(0, query, torch.ones_like(query))
        means = F.embedding_bag(key, wide(x), degree.cumsum(0) - degree, mode="mean")
        return means.to(x.dtype)


class Heads(Mixer):
    """Heads of an attention side by side, over queries, keys and values that lie side by side in x.

    Args:
        num_heads: heads of width 1 or more each.
        shared: one projection is query, key and value, as in graph attention networks; else x holds all three.
        averaged: the output is the mean of the heads, as in the last layer of such a network.
    """

    def __init__(self, mechanism: Mechanism, num_heads: int, shared: bool, averaged: bool):
        super().__init__()
        self.mechanism, self.num_heads, self.shared, self.averaged = mechanism, num_heads, shared, averaged

    def forward(self, x: Float[Tensor, "nodes width"], mask: Mask) -> Float[Tensor, "nodes width_out"]:
        parts = [x] * 3 if self.shared else x.chunk(3, -1)
        query, key, value = (part.unflatten(1, (self.num_heads, -1)).transpose(0, 1).unsqueeze(0) for part in parts)
        heads: Tensor = self.mechanism(Call(query, key, value, mask=mask))
        return heads[0].mean(0) if self.averaged else heads[0].transpose(0, 1).flatten(1)


class GraphEncoder(nn.Module):
    """mixer_L(... activation(mixer_1(dropout(x) W_1 + b_1)) ... W_L + b_L): linear layers, each followed by a mixer.

    With `Heads` of score `gat` it is a graph attention network (Velickovic et al. 2018, arXiv:1710.10903, eq. 4 and 5;
    biases stand before the sum over neighbours, not after it), with `Alone` a multilayer perceptron.

    Args:
        layers: from the features to the output.
        between: the activation after every layer but the last.
    """

    def __init__(self, layers: Sequence[FeatureProjection], mixers: Sequence[Mixer], between: Between, width: int):
        super().__init__()
        self.layers, self.mixers = nn.ModuleList(layers), nn.ModuleList(mixers)
        self.between, self.width = between, width

    def forward(self, features: Features, mask: Mask) -> Float[Tensor, "nodes width"]:
        """`mask`: which node (query) hears of which (key): `Edges(...).shared()`, since every layer reads it."""
        x: Tensor = self.mixers[0](self.layers[0](features), mask)
        for layer, mixer in zip(self.layers[1:], self.mixers[1:], strict=True):
            x = mixer(layer(_BETWEEN[self.between](x)), mask)
        return x


class LayersConfig(Config, ABC):
    """What all encoders of graphs have."""

    d_model: int = Field(64, ge=1, le=2**20, description="width of every layer but the last")
    num_layers: int = Field(2, ge=1, le=1024, description="layers: a node hears of those so many edges away")
    between: Between = Field("elu", description="the activation between layers: elu, relu or gelu")
    dropout: float = Field(0.6, ge=0, lt=1, description="on the features and on the input of every layer")
    initializer: Scheme = Field("xavier", description="of the linear layers")

    def fewest_tensors(self) -> int:
        """Tensors that the weights have at least, told without building: matrix and bias of every layer."""
        return 2 * self.num_layers

    def encoder(self, num_features: int, width: int) -> GraphEncoder:
        """A new encoder from so many features to vectors of this width, initialised.

        >>> import torch
        >>> from headwise.attention.masks import Edges
        >>> model = GraphAttentionConfig(d_model=8, num_heads=2).encoder(5, 3)
        >>> model(torch.ones(4, 5), Edges(torch.tensor([[0, 1], [1, 2]]), 4).with_self_loops()).shape
        torch.Size([4, 3])
        """
        widths = [num_features, *[self.d_model] * (self.num_layers - 1), width]
        layers, mixers = [], []
        for number, (inner, outer) in enumerate(pairwise(widths), 1):
            mixer, projected = self._mixer(outer, last=number == self.num_layers)
            layers.append(FeatureProjection(inner, projected, self.dropout))
            mixers.append(mixer)
            for part in layers[-1].weight.detach().split(outer, 1):
                SCHEMES[self.initializer](part.mT)
        return GraphEncoder(layers, mixers, self.between, width)

    @abstractmethod
    def _mixer(self, width: int, *, last: bool) -> tuple[Mixer, int]:
        """The mixer of a layer of this width, and how many columns it reads."""


class PerceptronConfig(LayersConfig):
    """Each node alone, without its edges: what edges are worth is the difference from this."""

    kind: Literal["mlp"] = Field("mlp", description="the family of the encoder")

    def _mixer(self, width: int, *, last: bool) -> tuple[Mixer, int]:
        return Alone(), width


class MeanConfig(LayersConfig):
    """The mean of the neighbours: what learned weights are worth is the difference from this."""

    kind: Literal["mean"] = Field("mean", description="the family of the encoder")

    def _mixer(self, width: int, *, last: bool) -> tuple[Mixer, int]:
        return Mean(), width


class GraphAttentionConfig(LayersConfig):
    """Attention to the neighbours: with its defaults the graph attention network of the paper."""

    kind: Literal["attention"] = Field("attention", description="the family of the encoder")
    num_heads: int = Field(8, ge=1, description="attention heads of every layer but the last; a divisor of d_model")
    last_heads: int = Field(1, ge=1, description="heads of the last layer; their mean is the output")
    mechanism: MechanismName = Field("scored", description="what attention computes; `headwise list mechanisms`")
    score: ScoreName = Field("gat", description="how alike query and key are; `headwise list scores`")
    normalizer: NormalizerName = Field("softmax", description="scores to weights; `headwise list normalizers`")
    shared: bool = Field(True, description="query, key and value are one projection")
    attention_dropout: float | None = Field(None, ge=0, lt=1, description="on attention weights; as dropout if absent")
    max_len: int = Field(4096, ge=1, description="nodes of mechanisms that are built for a number of them")

    def model_post_init(self, context: object) -> None:
        check_heads(self.d_model, self.num_heads, None)
        normalizers.build(self.normalizer, self.num_heads)
        if not mechanisms.is_scored(self.mechanism) and (self.score, self.normalizer) != ("gat", "softmax"):
            raise ConfigError(f"score and normalizer belong to mechanism 'scored', not to '{self.mechanism}'")

    def _mixer(self, width: int, *, last: bool) -> tuple[Mixer, int]:
        heads = self.last_heads if last else self.num_heads
        dim = width if last else width // heads
        read = heads * dim * (1 if self.shared else 3)
        return Heads(self._mechanism(heads, dim), heads, self.shared, averaged=last), read

    def _mechanism(self, heads: int, dim: int) -> Mechanism:
        dropout = self.dropout if self.attention_dropout is None else self.attention_dropout
        return mechanisms.build(
            self.mechanism,
            head_dim=dim,
            num_heads=heads,
            max_len=self.max_len,
            dropout=dropout,
            score=self.score,
            normalizer=self.normalizer,
        )


GraphEncoderConfig = Annotated[PerceptronConfig | MeanConfig | GraphAttentionConfig, Field(discriminator="kind")]


class GraphPooling(nn.Module, ABC):
    """One vector for each graph, from those of its nodes, which stand side by side in the order of the graphs."""

    @abstractmethod
    def forward(self, x: Float[Tensor, "nodes width"], start: Int[Tensor, "graphs"]) -> Float[Tensor, "graphs width"]:
        """`start`: where the nodes of each graph begin; each has one or more."""


def _members(start: Int[Tensor, "graphs"], nodes: int) -> Bool[Tensor, "graphs nodes"]:
    """Which node is of which graph."""
    numbers = torch.arange(nodes, device=start.device)
    begun = numbers >= start[:, None]
    return begun & ~torch.cat((begun[1:], begun.new_zeros(1, nodes)))


class BagPooling(GraphPooling):
    """The mean or the sum of the nodes; a sum tells how many there are.

    >>> BagPooling("sum")(torch.tensor([[1.0], [3.0], [5.0]]), torch.tensor([0, 2])).flatten().tolist()
    [4.0, 5.0]
    """

    def __init__(self, mode: Literal["mean", "sum"]):
        super().__init__()
        self.mode = mode

    def forward(self, x: Float[Tensor, "nodes width"], start: Int[Tensor, "graphs"]) -> Float[Tensor, "graphs width"]:
        if torch.compiler.is_exporting():
            # as in the mean of neighbours
            members = _members(start, x.shape[0]).to(x.dtype)
            sums = members @ x
            return sums if self.mode == "sum" else sums / members.sum(1, keepdim=True)
        nodes = torch.arange(len(x), device=x.device)
        return F.embedding_bag(nodes, wide(x), start, mode=self.mode).to(x.dtype)


class AttentionPooling(GraphPooling):
    """softmax(q . k / sqrt(d)) over the nodes of a graph, with a learned query q for each head; values are the nodes.

    Source: as the pooling of Lee et al. 2019, arXiv:1810.00825, section 3.2, without its feed-forward networks.
    """

    def __init__(self, width: int, num_heads: int):
        super().__init__()
        self.query = nn.Parameter(torch.randn(num_heads, 1, width // num_heads))
        self.key, self.mechanism = nn.Linear(width, width), Scored()

    def forward(self, x: Float[Tensor, "nodes width"], start: Int[Tensor, "graphs"]) -> Float[Tensor, "graphs width"]:
        nodes, graphs, heads = x.shape[0], start.shape[0], len(self.query)
        mask: Mask
        if torch.compiler.is_exporting():
            # a list of pairs is made of values, which a program does not know
            mask = Table(_members(start, nodes)[None, None])
        else:
            count = torch.cat((start[1:], start.new_tensor([nodes]))) - start
            owner = torch.arange(graphs, device=x.device).repeat_interleave(count)
            mask = Edges(torch.stack((torch.arange(nodes, device=x.device), owner)), nodes)
        query = self.query.to(x.dtype).expand(-1, graphs, -1).unsqueeze(0)
        key, value = (part.unflatten(1, (heads, -1)).transpose(0, 1).unsqueeze(0) for part in (self.key(x), x))
        pooled: Tensor = self.mechanism(Call(query, key, value, mask=mask, cross=True))
        return pooled[0].transpose(0, 1).flatten(1)


class GraphPoolingConfig(Config):
    """How the nodes of a graph become one vector."""

    kind: Literal["mean", "sum", "attention"] = Field("sum", description="mean, sum, or attention by a learned query")
    num_heads: int = Field(4, ge=1, description="heads of attention; a divisor of d_model")

    def pooling(self, width: int) -> GraphPooling:
        """A new pooling of nodes of this width."""
        return AttentionPooling(width, self.num_heads) if self.kind == "attention" else BagPooling(self.kind)


class GraphRegressor(nn.Module):
    """w . relu(dropout(W pooling(relu(encoder(nodes))) + b)) + c: a number for each graph.

    Args:
        hidden, head: of the network above the pooling.
        dropout: on what the head reads.
    """

    def __init__(self, encoder: GraphEncoder, pooling: GraphPooling, dropout: float):
        super().__init__()
        self.encoder, self.pooling, self.dropout = encoder, pooling, Dropout(dropout)
        self.hidden, self.head = nn.Linear(encoder.width, encoder.width), nn.Linear(encoder.width, 1)

    def forward(
        self, features: Float[Tensor, "nodes features"], mask: Mask, start: Int[Tensor, "graphs"]
    ) -> Float[Tensor, "graphs"]:
        """Args:
        mask: which node hears of which, over all graphs as one.
        start: where the nodes of each graph begin.
        """
        pooled = self.pooling(F.relu(self.encoder(features, mask)), start)
        predictions: Tensor = self.head(self.dropout(F.relu(self.hidden(pooled)))).squeeze(1)
        return predictions


def build_graph_regressor(config: LayersConfig, pooling: GraphPoolingConfig, num_features: int) -> GraphRegressor:
    """The model of a configuration.

    >>> from headwise.tasks.graphs.encoders import MeanConfig
    >>> model = build_graph_regressor(MeanConfig(d_model=8), GraphPoolingConfig(), 5)
    >>> model(torch.ones(4, 5), Edges(torch.tensor([[0, 1], [1, 2]]), 4), torch.tensor([0, 3])).shape
    torch.Size([2])
    """
    model = GraphRegressor(
        config.encoder(num_features, config.d_model), pooling.pooling(config.d_model), config.dropout
    )
    initialize(model, config.initializer)
    return model

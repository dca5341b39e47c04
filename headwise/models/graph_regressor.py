"""A model that gives each of many graphs a number: an encoder of nodes, a pooling over those of a graph, a head."""

from abc import ABC, abstractmethod
from typing import Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.call import Call
from headwise.attention.dropout import Dropout
from headwise.attention.masks import Edges, Mask
from headwise.attention.mechanisms.scored import Scored
from headwise.attention.precision import wide
from headwise.config import Config
from headwise.layers.initializers import initialize
from headwise.models.graph_encoders import GraphEncoder, LayersConfig


class GraphPooling(nn.Module, ABC):
    """One vector for each graph, from those of its nodes, which stand side by side in the order of the graphs."""

    @abstractmethod
    def forward(self, x: Float[Tensor, "nodes width"], start: Int[Tensor, "graphs"]) -> Float[Tensor, "graphs width"]:
        """`start`: where the nodes of each graph begin; each has one or more."""


class BagPooling(GraphPooling):
    """The mean or the sum of the nodes; a sum tells how many there are.

    >>> BagPooling("sum")(torch.tensor([[1.0], [3.0], [5.0]]), torch.tensor([0, 2])).flatten().tolist()
    [4.0, 5.0]
    """

    def __init__(self, mode: Literal["mean", "sum"]):
        super().__init__()
        self.mode = mode

    def forward(self, x: Float[Tensor, "nodes width"], start: Int[Tensor, "graphs"]) -> Float[Tensor, "graphs width"]:
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
        nodes, graphs, heads = len(x), len(start), len(self.query)
        count = torch.cat((start[1:], start.new_tensor([nodes]))) - start
        owner = torch.arange(graphs, device=x.device).repeat_interleave(count)
        mask = Edges(torch.stack((torch.arange(nodes, device=x.device), owner)), nodes)
        query = self.query.to(x.dtype).expand(-1, graphs, -1).unsqueeze(0)
        key, value = (part.unflatten(1, (heads, -1)).transpose(0, 1).unsqueeze(0) for part in (self.key(x), x))
        found: Tensor = self.mechanism(Call(query, key, value, mask=mask, cross=True))
        return found[0].transpose(0, 1).flatten(1)


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
        found: Tensor = self.head(self.dropout(F.relu(self.hidden(pooled)))).squeeze(1)
        return found


def build_graph_regressor(config: LayersConfig, pooling: GraphPoolingConfig, num_features: int) -> GraphRegressor:
    """The model of a configuration.

    >>> from headwise.models.graph_encoders import MeanConfig
    >>> model = build_graph_regressor(MeanConfig(d_model=8), GraphPoolingConfig(), 5)
    >>> model(torch.ones(4, 5), Edges(torch.tensor([[0, 1], [1, 2]]), 4), torch.tensor([0, 3])).shape
    torch.Size([2])
    """
    model = GraphRegressor(
        config.encoder(num_features, config.d_model), pooling.pooling(config.d_model), config.dropout
    )
    initialize(model, config.initializer)
    return model

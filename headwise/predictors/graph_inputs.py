"""A graph as a model reads it: features, and a mask that says which node hears of which."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from headwise.attention.masks import Edges, Mask
from headwise.data.graphs import Graph
from headwise.layers.features import Features, SparseRows

# a table with a smaller share of entries that are not zero is read by those alone
SPARSE = 0.25


@dataclass(frozen=True, eq=False)
class GraphInput:
    """What an encoder of graphs is called with.

    Args:
        features: of every node.
        mask: which node (query) hears of which (key), with the list of its pairs made once.
    """

    features: Features
    mask: Mask

    def to(self, device: torch.device | str) -> "GraphInput":
        """The same on a device; the mask finds the device by itself."""
        return GraphInput(self.features.to(device), self.mask)


def graph_input(graph: Graph, self_loops: bool) -> GraphInput:
    """The input of a graph; without features each node has one of its own.

    >>> from headwise.data.graph_files import SparseTable
    >>> graph = Graph(["a", "b"], SparseTable.of(np.eye(2)), np.array([[0], [1]]))
    >>> graph_input(graph, True).mask.dense(1, 1, 2, 2)[0, 0].int().tolist()
    [[1, 0], [1, 1]]
    """
    mask = Edges(torch.from_numpy(np.ascontiguousarray(graph.edges)), len(graph.ids))
    return GraphInput(_features(graph), (mask.with_self_loops() if self_loops else mask).shared())


def num_features(graph: Graph) -> int:
    """Columns of the features that `graph_input` gives."""
    return graph.features.width or len(graph.ids)


def _features(graph: Graph) -> Features:
    table, nodes = graph.features, len(graph.ids)
    if not table.width:
        own: Tensor = torch.arange(nodes)
        return SparseRows(own, own, torch.ones(nodes))
    if len(table.column) >= SPARSE * nodes * table.width:
        return torch.from_numpy(table.dense())
    start, column = (torch.from_numpy(part.astype(np.int64)) for part in (table.start[:-1], table.column))
    return SparseRows(start, column, torch.from_numpy(table.value))

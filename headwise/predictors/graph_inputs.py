"""A graph as a model reads it: features, and a mask that says which node hears of which."""

from dataclasses import dataclass
from typing import Any

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


def feature_table(graph: Graph) -> Any:
    """The features of every node as a sparse matrix of scipy; one column a node without any."""
    from scipy.sparse import csr_array, eye_array

    table, nodes = graph.features, len(graph.ids)
    if not table.width:
        return eye_array(nodes, format="csr")
    return csr_array((table.value, table.column, table.start), shape=(nodes, table.width))


def neighbourhoods(graph: Graph, features: Any, hops: int = 2) -> Any:
    """S^hops features with S = D^-1/2 (A + I) D^-1/2, D the degrees of A + I: the features of SGC.

    Source: Wu et al. 2019, arXiv 1902.07153, equation 8; edges of one direction alone count in that direction.
    """
    from scipy.sparse import coo_array, diags_array, eye_array

    nodes = len(graph.ids)
    source, target = graph.edges[:, graph.edges[0] != graph.edges[1]]
    adjacency = coo_array((np.ones(len(source)), (target, source)), shape=(nodes, nodes)).tocsr()
    adjacency = adjacency + eye_array(nodes, format="csr")
    scale = diags_array(1 / np.sqrt(adjacency.sum(1)))
    for _ in range(hops):
        features = scale @ (adjacency @ (scale @ features))
    return features.tocsr()

"""A graph as a mask."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headwise.attention.masks.checks import check_tensor, counts
from headwise.attention.masks.mask import Mask
from headwise.attention.masks.pairs import Pairs
from headwise.errors import ShapeError, Unsupported


@dataclass(frozen=True, eq=False)
class Edges(Mask):
    """A graph: the query is the target of an edge whose source is the key. The same edge twice counts once.

    Args:
        edge_index: sources in the first row, targets in the second, as PyTorch Geometric has them.
        nodes: how many nodes there are.
    Source: Velickovic et al. 2018, arXiv:1710.10903, section 2.1 (masked attention).

    >>> Edges(torch.tensor([[4, 5, 7, 2], [0, 0, 0, 1]]), 8).dense(1, 1, 8, 8)[0, 0, :2].int().tolist()
    [[0, 0, 0, 0, 1, 1, 0, 1], [0, 0, 1, 0, 0, 0, 0, 0]]
    """

    edge_index: Int[Tensor, "two edges"]
    nodes: int

    def __post_init__(self) -> None:
        index = self.edge_index
        check_tensor("Edges", "edge_index", index)
        if index.ndim != 2 or index.shape[0] != 2 or not counts(index):
            raise ShapeError(f"Edges needs whole numbers (2, edges), got {tuple(index.shape)} {index.dtype}")
        if index.is_meta:
            raise Unsupported("Edges lists its pairs when it is made, so edge_index has to hold numbers; it is on meta")
        if index.numel() and not (int(index.min()) >= 0 and int(index.max()) < self.nodes):
            low, high = int(index.min()), int(index.max())
            raise ShapeError(f"Edges: node numbers run from {low} to {high}, but there are {self.nodes} nodes")
        # one number for an edge, in ascending order of target, then source
        codes = torch.unique(index[1].long() * self.nodes + index[0].long())
        pairs = Pairs(codes // max(1, self.nodes), codes % max(1, self.nodes))
        pairs = replace(pairs, turn=pairs.key.argsort(stable=True))
        nodes = torch.arange(self.nodes, device=codes.device)
        # whether each node sees one, and is seen by one
        whole = [torch.equal(ends.unique(), nodes) for ends in (pairs.query, pairs.key)]
        self.__dict__.update(_codes=codes, _pairs=pairs, _whole=whole)

    def with_self_loops(self) -> "Edges":
        """The same graph in which every node also sees itself."""
        loops = torch.arange(self.nodes, device=self.edge_index.device).expand(2, -1)
        return Edges(torch.cat((self.edge_index, loops), dim=1), self.nodes)

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        codes: Tensor = self.__dict__["_codes"].to(key.device)
        query, key = torch.broadcast_tensors(query, key)
        if codes.numel() == 0:
            return torch.zeros(query.shape, dtype=torch.bool, device=key.device)
        wanted = query * self.nodes + key
        found = codes[torch.searchsorted(codes, wanted).clamp_(max=codes.numel() - 1)]
        return (found == wanted) & (key < self.nodes)

    def pairs(self) -> Pairs:
        pairs: Pairs = self.__dict__["_pairs"]
        return pairs

    def each_sees(self, query_len: int) -> bool:
        """Whether each of the first queries sees a key, told by the graph."""
        return self.__dict__["_whole"][0] and query_len <= self.nodes

    def seen(
        self, batch: int, heads: int, query_len: int, key_len: int, query_start: int, device: torch.device
    ) -> Bool[Tensor, "1 1 key_len"] | None:
        if self.__dict__["_whole"][1] and query_start == 0 and key_len <= self.nodes <= query_len:
            return None
        pairs = self.pairs()
        asked = ((pairs.query >= query_start) & (pairs.query < query_start + query_len) & (pairs.key < key_len)).long()
        count = torch.zeros(key_len + 1, dtype=torch.long, device=asked.device)
        # edges of other queries count for a key behind the last
        count = count.index_add(0, torch.where(asked > 0, pairs.key, key_len), asked)
        return (count[:key_len] > 0).view(1, 1, -1).to(device)

    def reason(self, batch: int, head: int, query: int, key: int) -> str:
        return f"no edge leads from node {key} to node {query}"

"""Masks that say what a batch holds: padding, prefixes, packed documents, any table, a graph."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Integer
from torch import Tensor
from torch.nn import functional as F

from headwise.attention.masks.mask import Mask, check_whole, length_range, tensor_of
from headwise.attention.structure import KeyMask, Pairs, Place, QueryMask, Structure
from headwise.errors import ShapeError, Unsupported


@dataclass(frozen=True, eq=False)
class Padding(Mask):
    """Only the first `valid_lens` keys are real: one length per sequence, or one per sequence and query.

    A shared mask keeps the lengths of its first call.

    >>> Padding(torch.tensor([[1, 3], [2, 4]])).dense(2, 1, 2, 4)[0, 0].int().tolist()
    [[1, 0, 0, 0], [1, 1, 1, 0]]
    """

    valid_lens: Integer[Tensor, "batch"] | Integer[Tensor, "batch query_len"]

    def __post_init__(self) -> None:
        hint = "; which keys are real is said by Table(...)"
        check_whole(self, "valid_lens", "whole lengths (batch) or (batch, query_len)", 1, 2, hint=hint)
        length_range("Padding: valid_lens", self.valid_lens)

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        lens = self.valid_lens.to(key.device)
        return key < (lens[batch] if lens.ndim == 1 else lens[batch, query])

    def structure(self, place: Place | None = None) -> Structure:
        lens, least = self.valid_lens, 0
        if place is not None:
            # as they are now: a tensor may be changed in place
            least, longest = length_range("Padding: valid_lens", lens)
            batch, _, query_len, key_len, query_start, _ = place
            if lens.shape[0] != batch or (lens.ndim == 2 and lens.shape[1] < query_start + query_len):
                expected = f"({batch})" if lens.ndim == 1 else f"({batch}, {query_start + query_len})"
                raise ShapeError(f"Padding: valid_lens {tuple(lens.shape)} do not fit; expected {expected}")
            # steps over a cache have the keys so far
            complete = query_len > 1 if query_start == 0 else key_len != query_start + query_len
            if complete and 0 < key_len < longest:
                raise ShapeError(f"Padding: valid_lens of up to {longest}, but there are {key_len} keys")
        if lens.ndim == 1:
            full = place is not None and 0 < place.key_len <= least
            rest = None if full else lens
            return Structure(self, place, (None, None), rest, least, same_keys=True, seen_by_own_query=True)
        return Structure(self, place)

    def key_mask(self, structure: Structure) -> KeyMask:
        lens, key_len = self._query_lens(structure), structure.at.key_len
        # zero lengths beside them: there may be no query
        return (torch.arange(key_len, device=lens.device) < F.pad(lens, (0, 1)).amax(-1)[:, None]).unsqueeze(1)

    def query_mask(self, structure: Structure) -> QueryMask:
        return (self._query_lens(structure) > 0).unsqueeze(1)

    def _query_lens(self, structure: Structure) -> Tensor:
        """The lengths of the queries that there are."""
        place = structure.at
        return self.valid_lens.to(place.device)[:, place.query_start : place.query_start + place.query_len]

    def reason(self, batch: int, head: int, query: int, key: int) -> str:
        lens = self.valid_lens
        length = int(lens[batch] if lens.ndim == 1 else lens[batch, query])
        return f"key {key} is padding: sequence {batch} has {length} keys" + (
            "" if lens.ndim == 1 else f" for query {query}"
        )


@dataclass(frozen=True, eq=False)
class Table(Mask):
    """Any pattern, written out: (query_len, key_len), with a batch axis before it, with a head axis between them."""

    allowed: Bool[Tensor, "..."]

    def __post_init__(self) -> None:
        allowed = tensor_of(self, "allowed")
        if allowed.dtype != torch.bool or allowed.ndim not in (2, 3, 4):
            shape, dtype = tuple(allowed.shape), allowed.dtype
            raise ShapeError(f"Table needs a bool tensor of 2 to 4 axes, True = may attend; got {shape} {dtype}")

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        table = self._four_axes().to(key.device)
        at = [i if n > 1 else torch.zeros_like(i) for i, n in zip((batch, head, query, key), table.shape, strict=True)]
        return table[at[0], at[1], at[2], at[3]]

    def structure(self, place: Place | None = None) -> Structure:
        if place is not None:
            self._fitting(self._rows(place.query_start, place.query_len), place.shape, place.query_start)
        return Structure(self, place, same_keys=self._four_axes().shape[2] == 1)

    def _four_axes(self) -> Tensor:
        if self.allowed.ndim == 3:
            return self.allowed.unsqueeze(1)
        return self.allowed.reshape((1,) * (4 - self.allowed.ndim) + tuple(self.allowed.shape))

    def key_mask(self, structure: Structure) -> KeyMask:
        rows = structure.table()
        return rows.any(2).expand(*rows.shape[:2], structure.at.key_len)

    def query_mask(self, structure: Structure) -> QueryMask:
        rows = structure.table()
        return rows.any(3).expand(*rows.shape[:2], structure.at.query_len)

    def dense(
        self,
        batch: int,
        heads: int,
        query_len: int,
        key_len: int,
        *,
        query_start: int = 0,
        key_start: int | None = None,
        device: torch.device | str | None = None,
    ) -> Bool[Tensor, "#batch #heads #query_len #key_len"]:
        rows = self._rows(query_start, query_len)
        if key_start is not None and rows.shape[3] > 1:
            rows = rows[..., key_start : key_start + key_len]
        return self._fitting(rows, (batch, heads, query_len, key_len), query_start).to(device or rows.device)

    def _fitting(self, rows: Tensor, shape: tuple[int, int, int, int], query_start: int) -> Tensor:
        # the last row of a table that ends too early is no row for all queries
        ends_early = self._four_axes().shape[2] != 1 and rows.shape[2] != shape[2]
        if ends_early or any(have not in (1, want) for have, want in zip(rows.shape, shape, strict=True)):
            raise ShapeError(
                f"Table {tuple(self.allowed.shape)} does not fit (batch, heads, query_len, key_len) = {shape}"
                + (f" from query {query_start}" if query_start else "")
            )
        return rows

    def _rows(self, first: int, count: int) -> Tensor:
        table = self._four_axes()
        return table if table.shape[2] == 1 else table[:, :, first : first + count]

    def reason(self, batch: int, head: int, query: int, key: int) -> str:
        return f"the table does not allow query {query} to attend to key {key}"


@dataclass(frozen=True, eq=False)
class Prefix(Mask):
    """The first `prefix_lens` keys are seen by all queries, later ones only by queries that do not come before them.

    Source: Raffel et al. 2020, arXiv:1910.10683, section 3.2.1 (prefix language model).

    >>> Prefix(torch.tensor([2])).dense(1, 1, 3, 3)[0, 0].int().tolist()
    [[1, 1, 0], [1, 1, 0], [1, 1, 1]]
    """

    prefix_lens: Integer[Tensor, "batch"]

    def __post_init__(self) -> None:
        check_whole(self, "prefix_lens", "whole lengths (batch)", 1)
        length_range("Prefix: prefix_lens", self.prefix_lens)

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (key <= query) | (key < self.prefix_lens.to(key.device)[batch])

    def structure(self, place: Place | None = None) -> Structure:
        if place is not None and self.prefix_lens.shape[0] != place.batch:
            expected = f"expected ({place.batch})"
            raise ShapeError(f"Prefix: prefix_lens {tuple(self.prefix_lens.shape)} do not fit; {expected}")
        return Structure(self, place, seen_by_own_query=True)

    def key_mask(self, structure: Structure) -> KeyMask:
        place = structure.at
        ends = self.prefix_lens.to(place.device).long().clamp(min=place.query_start + place.query_len)
        return (torch.arange(place.key_len, device=place.device) < ends[:, None]).unsqueeze(1)

    def query_mask(self, structure: Structure) -> QueryMask:
        # each query sees the first key
        return None

    def reason(self, batch: int, head: int, query: int, key: int) -> str:
        return f"key {key} comes after query {query} and after the prefix of {int(self.prefix_lens[batch])}"


@dataclass(frozen=True, eq=False)
class Documents(Mask):
    """Query and key belong to the same document: several sequences packed into one row do not see each other.

    A negative number marks padding, which belongs to none.

    >>> Documents(torch.tensor([[0, 0, 1, -1]])).dense(1, 1, 4, 4)[0, 0].int().tolist()
    [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]
    """

    ids: Integer[Tensor, "batch length"]

    def __post_init__(self) -> None:
        check_whole(self, "ids", "whole numbers (batch, length)", 2)

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        ids = self.ids.to(key.device)
        own = ids[batch, key]
        return (ids[batch, query] == own) & (own >= 0)

    def structure(self, place: Place | None = None) -> Structure:
        if place is not None:
            needed = max(place.query_start + place.query_len, place.key_len)
            if self.ids.shape[0] != place.batch or self.ids.shape[1] < needed:
                expected = f"expected ({place.batch}, {needed})"
                raise ShapeError(f"Documents: ids {tuple(self.ids.shape)} do not fit; {expected}")
        return Structure(self, place, seen_by_own_query=True)

    def key_mask(self, structure: Structure) -> KeyMask:
        queries, keys = self._ids(structure)
        return _among(keys, queries)

    def query_mask(self, structure: Structure) -> QueryMask:
        queries, keys = self._ids(structure)
        return _among(queries, keys)

    def _ids(self, structure: Structure) -> tuple[Tensor, Tensor]:
        place = structure.at
        ids = self.ids.to(place.device).long()
        return ids[:, place.query_start : place.query_start + place.query_len], ids[:, : place.key_len]

    def reason(self, batch: int, head: int, query: int, key: int) -> str:
        query_document, key_document = int(self.ids[batch, query]), int(self.ids[batch, key])
        if key_document < 0:
            return f"key {key} is padding"
        return f"query {query} is in document {query_document}, key {key} in document {key_document}"


def _among(
    ids: Integer[Tensor, "batch length"], others: Integer[Tensor, "batch other_length"]
) -> Bool[Tensor, "batch 1 length"]:
    """Which documents, none but those of padding excepted, are among the others."""
    ordered = F.pad(others, (0, 1), value=-1).sort(-1).values.contiguous()
    place = torch.searchsorted(ordered, ids.contiguous()).clamp(max=others.shape[1])
    return ((ordered.gather(1, place) == ids) & (ids >= 0)).unsqueeze(1)


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

    edge_index: Integer[Tensor, "two edges"]
    nodes: int

    def __post_init__(self) -> None:
        index = check_whole(self, "edge_index", "whole numbers (2, edges)", 2, rows=2)
        if index.is_meta:
            raise Unsupported("Edges lists its pairs when it is made, so edge_index has to hold numbers; it is on meta")
        if index.numel() and not (int(index.min()) >= 0 and int(index.max()) < self.nodes):
            low, high = int(index.min()), int(index.max())
            raise ShapeError(f"Edges: node numbers run from {low} to {high}, but there are {self.nodes} nodes")
        # one number for an edge, in ascending order of target, then source
        codes = torch.unique(index[1].long() * self.nodes + index[0].long())
        pairs = Pairs(codes // max(1, self.nodes), codes % max(1, self.nodes))
        pairs = replace(pairs, by_key=pairs.key.argsort(stable=True))
        # which nodes see one, and are seen by one; None: all of them
        ends = [codes.new_zeros(self.nodes).index_fill(0, end, 1).bool() for end in (pairs.query, pairs.key)]
        live, visible = (None if bool(nodes.all()) else nodes.view(1, 1, -1) for nodes in ends)
        self.__dict__.update(_codes=codes, _pairs=pairs, _live=live, _seen=visible)

    def with_self_loops(self) -> "Edges":
        """The same graph in which every node also sees itself."""
        loops = torch.arange(self.nodes, device=self.edge_index.device).expand(2, -1)
        return Edges(torch.cat((self.edge_index, loops), dim=1), self.nodes)

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        codes: Tensor = self.__dict__["_codes"].to(key.device)
        query, key = torch.broadcast_tensors(query, key)
        if codes.numel() == 0:
            return torch.zeros(query.shape, dtype=torch.bool, device=key.device)
        pair_codes = query * self.nodes + key
        nearest = codes[torch.searchsorted(codes, pair_codes).clamp_(max=codes.numel() - 1)]
        return (nearest == pair_codes) & (key < self.nodes)

    def structure(self, place: Place | None = None) -> Structure:
        return Structure(self, place, pairs=self.__dict__["_pairs"])

    def key_mask(self, structure: Structure) -> KeyMask:
        return self._nodes("_seen", structure.at) if self._is_whole(structure.at) else structure.reach()[0]

    def query_mask(self, structure: Structure) -> QueryMask:
        return self._nodes("_live", structure.at) if self._is_whole(structure.at) else structure.reach()[1]

    def _is_whole(self, place: Place) -> bool:
        """Whether queries and keys are the nodes."""
        return place.query_start == 0 and place.query_len == place.key_len == self.nodes

    def _nodes(self, name: str, place: Place) -> Tensor | None:
        nodes: Tensor | None = self.__dict__[name]
        return None if nodes is None else nodes.to(place.device)

    def reason(self, batch: int, head: int, query: int, key: int) -> str:
        return f"no edge leads from node {key} to node {query}"

"""Masks that say what a batch holds: padding, prefixes, packed documents, graphs, or any table."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn import functional as F

from headwise.attention.masks.mask import Mask
from headwise.attention.masks.pairs import Pairs
from headwise.errors import ShapeError, Unsupported


@dataclass(frozen=True, eq=False)
class Padding(Mask):
    """Only the first `valid_lens` keys are real: one length per sequence, or one per sequence and query.

    >>> Padding(torch.tensor([[1, 3], [2, 4]])).dense(2, 1, 2, 4)[0, 0].int().tolist()
    [[1, 0, 0, 0], [1, 1, 1, 0]]
    """

    valid_lens: Int[Tensor, "batch"] | Int[Tensor, "batch query_len"]

    def __post_init__(self) -> None:
        if self.valid_lens.ndim not in (1, 2) or not _counts(self.valid_lens):
            given = f"{tuple(self.valid_lens.shape)} {self.valid_lens.dtype}"
            hint = "; which keys are real is said by Table(...)" if self.valid_lens.dtype == torch.bool else ""
            raise ShapeError(f"Padding needs whole lengths (batch) or (batch, query_len), got {given}{hint}")
        _refuse_negative("Padding: valid_lens", self.valid_lens)

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        lens = self.valid_lens.to(key.device)
        return key < (lens[batch] if lens.ndim == 1 else lens[batch, query])

    def depends_on_query(self) -> bool:
        return self.valid_lens.ndim == 2

    def sees_itself(self) -> bool:
        return self.valid_lens.ndim == 1

    def tells_who_sees(self) -> bool:
        return self.valid_lens.ndim == 1

    def seen(
        self, batch: int, heads: int, query_len: int, key_len: int, query_start: int, device: torch.device
    ) -> Bool[Tensor, "batch 1 key_len"]:
        lens = self.valid_lens.to(device)
        if lens.ndim == 2:
            # zero lengths beside them: there may be no query
            asked = lens[:, query_start : query_start + query_len]
            lens = F.pad(asked, (0, 1)).amax(-1)
        return (torch.arange(key_len, device=device) < lens[:, None]).unsqueeze(1)

    def check(self, batch: int, heads: int, query_len: int, key_len: int, query_start: int) -> None:
        lens = self.valid_lens
        if lens.shape[0] != batch or (lens.ndim == 2 and lens.shape[1] < query_start + query_len):
            wanted = f"({batch})" if lens.ndim == 1 else f"({batch}, {query_start + query_len})"
            raise ShapeError(f"Padding: valid_lens {tuple(lens.shape)} do not fit; expected {wanted}")

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
        if self.allowed.dtype != torch.bool or self.allowed.ndim not in (2, 3, 4):
            shape, dtype = tuple(self.allowed.shape), self.allowed.dtype
            raise ShapeError(f"Table needs a bool tensor of 2 to 4 axes, True = may attend; got {shape} {dtype}")

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        table = self._four_axes().to(key.device)
        at = [i if n > 1 else torch.zeros_like(i) for i, n in zip((batch, head, query, key), table.shape, strict=True)]
        return table[at[0], at[1], at[2], at[3]]

    def depends_on_query(self) -> bool:
        return self._four_axes().shape[2] > 1

    def _four_axes(self) -> Tensor:
        if self.allowed.ndim == 3:
            return self.allowed.unsqueeze(1)
        return self.allowed.reshape((1,) * (4 - self.allowed.ndim) + tuple(self.allowed.shape))

    def seen(
        self, batch: int, heads: int, query_len: int, key_len: int, query_start: int, device: torch.device
    ) -> Bool[Tensor, "#batch #heads key_len"]:
        rows = self._rows(query_start, query_len).to(device)
        return rows.any(2).expand(*rows.shape[:2], key_len)

    def check(self, batch: int, heads: int, query_len: int, key_len: int, query_start: int) -> None:
        self._fitting(self._rows(query_start, query_len), (batch, heads, query_len, key_len), query_start)

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

    def _fitting(self, rows: Tensor, wanted: tuple[int, int, int, int], query_start: int) -> Tensor:
        # the last row of a table that ends too early is no row for all queries
        ends_early = self._four_axes().shape[2] != 1 and rows.shape[2] != wanted[2]
        if ends_early or any(have not in (1, want) for have, want in zip(rows.shape, wanted, strict=True)):
            raise ShapeError(
                f"Table {tuple(self.allowed.shape)} does not fit (batch, heads, query_len, key_len) = {wanted}"
                + (f" from query {query_start}" if query_start else "")
            )
        return rows

    def _rows(self, first: int, count: int) -> Tensor:
        table = self._four_axes()
        return table if table.shape[2] == 1 else table[:, :, first : first + count]

    def reason(self, batch: int, head: int, query: int, key: int) -> str:
        return f"the table says no to query {query} and key {key}"


@dataclass(frozen=True, eq=False)
class Prefix(Mask):
    """The first `prefix_lens` keys are seen by all queries, later ones only by queries that do not come before them.

    Source: Raffel et al. 2020, arXiv:1910.10683, section 3.2.1 (prefix language model).

    >>> Prefix(torch.tensor([2])).dense(1, 1, 3, 3)[0, 0].int().tolist()
    [[1, 1, 0], [1, 1, 0], [1, 1, 1]]
    """

    prefix_lens: Int[Tensor, "batch"]

    def __post_init__(self) -> None:
        if self.prefix_lens.ndim != 1 or not _counts(self.prefix_lens):
            shape = tuple(self.prefix_lens.shape)
            raise ShapeError(f"Prefix needs whole lengths (batch), got {shape} {self.prefix_lens.dtype}")
        _refuse_negative("Prefix: prefix_lens", self.prefix_lens)

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (key <= query) | (key < self.prefix_lens.to(key.device)[batch])

    def sees_itself(self) -> bool:
        return True

    def reason(self, batch: int, head: int, query: int, key: int) -> str:
        return f"key {key} comes after query {query} and after the prefix of {int(self.prefix_lens[batch])}"

    def check(self, batch: int, heads: int, query_len: int, key_len: int, query_start: int) -> None:
        if self.prefix_lens.shape[0] != batch:
            raise ShapeError(f"Prefix: prefix_lens {tuple(self.prefix_lens.shape)} do not fit; expected ({batch})")

    def seen(
        self, batch: int, heads: int, query_len: int, key_len: int, query_start: int, device: torch.device
    ) -> Bool[Tensor, "batch 1 key_len"]:
        ends = self.prefix_lens.to(device).clamp(min=query_start + query_len)
        return (torch.arange(key_len, device=device) < ends[:, None]).unsqueeze(1)


@dataclass(frozen=True, eq=False)
class Documents(Mask):
    """Query and key belong to the same document: several sequences packed into one row do not see each other.

    A negative number marks padding, which belongs to none.

    >>> Documents(torch.tensor([[0, 0, 1, -1]])).dense(1, 1, 4, 4)[0, 0].int().tolist()
    [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]
    """

    ids: Int[Tensor, "batch length"]

    def __post_init__(self) -> None:
        if self.ids.ndim != 2 or not _counts(self.ids):
            shape = tuple(self.ids.shape)
            raise ShapeError(f"Documents needs whole numbers (batch, length), got {shape} {self.ids.dtype}")

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        ids = self.ids.to(key.device)
        own = ids[batch, key]
        return (ids[batch, query] == own) & (own >= 0)

    def sees_itself(self) -> bool:
        return True

    def reason(self, batch: int, head: int, query: int, key: int) -> str:
        one, two = int(self.ids[batch, query]), int(self.ids[batch, key])
        if two < 0:
            return f"key {key} is padding"
        return f"query {query} is in document {one}, key {key} in document {two}"

    def check(self, batch: int, heads: int, query_len: int, key_len: int, query_start: int) -> None:
        needed = max(query_start + query_len, key_len)
        if self.ids.shape[0] != batch or self.ids.shape[1] < needed:
            raise ShapeError(f"Documents: ids {tuple(self.ids.shape)} do not fit; expected ({batch}, {needed})")

    def seen(
        self, batch: int, heads: int, query_len: int, key_len: int, query_start: int, device: torch.device
    ) -> Bool[Tensor, "batch 1 key_len"]:
        ids = self.ids.to(device)
        queries, keys = ids[:, query_start : query_start + query_len], ids[:, :key_len]
        ordered = F.pad(queries, (0, 1), value=-1).sort(-1).values.contiguous()
        place = torch.searchsorted(ordered, keys.contiguous()).clamp(max=query_len)
        return ((ordered.gather(1, place) == keys) & (keys >= 0)).unsqueeze(1)


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
        if index.ndim != 2 or index.shape[0] != 2 or not _counts(index):
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


def _counts(numbers: Tensor) -> bool:
    """Whether they are whole numbers that PyTorch computes with; a bool tensor says which, not how many."""
    return numbers.dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def _refuse_negative(name: str, lens: Tensor) -> None:
    """Raises: ShapeError for a length below 0, where values can be read: in memory of the host, and not traced."""
    if torch.compiler.is_compiling() or lens.device.type != "cpu" or lens.numel() == 0:
        return
    try:
        least = int(torch.func.debug_unwrap(lens, recurse=True).min())
    except RuntimeError:
        # fake, or traced by something else than a compiler
        return
    if least < 0:
        raise ShapeError(f"{name} must be 0 or more, got {least}")

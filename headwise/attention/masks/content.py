"""Masks that say what a batch holds: padding, prefixes, packed documents, or any table."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn import functional as F

from headwise.attention.masks.checks import check_tensor, counts, limits
from headwise.attention.masks.mask import Mask
from headwise.errors import ShapeError


@dataclass(frozen=True, eq=False)
class Padding(Mask):
    """Only the first `valid_lens` keys are real: one length per sequence, or one per sequence and query.

    >>> Padding(torch.tensor([[1, 3], [2, 4]])).dense(2, 1, 2, 4)[0, 0].int().tolist()
    [[1, 0, 0, 0], [1, 1, 1, 0]]
    """

    valid_lens: Int[Tensor, "batch"] | Int[Tensor, "batch query_len"]
    _longest: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        check_tensor("Padding", "valid_lens", self.valid_lens)
        if self.valid_lens.ndim not in (1, 2) or not counts(self.valid_lens):
            given = f"{tuple(self.valid_lens.shape)} {self.valid_lens.dtype}"
            hint = "; which keys are real is said by Table(...)" if self.valid_lens.dtype == torch.bool else ""
            raise ShapeError(f"Padding needs whole lengths (batch) or (batch, query_len), got {given}{hint}")
        object.__setattr__(self, "_longest", limits("Padding: valid_lens", self.valid_lens))

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
        # no number of a batch for a compiled program, which would be made again for each
        if torch.compiler.is_compiling() or not 0 < key_len < self._longest:
            return
        # steps over a cache have the keys so far
        if query_len > 1 if query_start == 0 else key_len != query_start + query_len:
            longest = self._longest
            raise ShapeError(f"Padding: valid_lens of up to {longest}, but there are {key_len} keys")

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
        check_tensor("Table", "allowed", self.allowed)
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
        check_tensor("Prefix", "prefix_lens", self.prefix_lens)
        if self.prefix_lens.ndim != 1 or not counts(self.prefix_lens):
            shape = tuple(self.prefix_lens.shape)
            raise ShapeError(f"Prefix needs whole lengths (batch), got {shape} {self.prefix_lens.dtype}")
        limits("Prefix: prefix_lens", self.prefix_lens)

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
        ends = self.prefix_lens.to(device).long().clamp(min=query_start + query_len)
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
        check_tensor("Documents", "ids", self.ids)
        if self.ids.ndim != 2 or not counts(self.ids):
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
        ids = self.ids.to(device).long()
        queries, keys = ids[:, query_start : query_start + query_len], ids[:, :key_len]
        ordered = F.pad(queries, (0, 1), value=-1).sort(-1).values.contiguous()
        place = torch.searchsorted(ordered, keys.contiguous()).clamp(max=query_len)
        return ((ordered.gather(1, place) == keys) & (keys >= 0)).unsqueeze(1)

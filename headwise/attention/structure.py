"""The known structure of a mask at given sizes: band, lengths, listed pairs, visible keys and queries, its table."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import reduce
from operator import and_
from typing import Any, NamedTuple, TypeVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn import functional as F

T = TypeVar("T")

# -left <= key - query <= right; None is no bound
Band = tuple[int | None, int | None]
KeyMask = Bool[Tensor, "#batch #heads key_len"] | None
QueryMask = Bool[Tensor, "#batch #heads query_len"] | None

# pairs of which the mask is asked at once, and rows of them at least
_PAIRS, _ROWS = 1 << 20, 16


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Pairs (query[i], key[i]) of positions in ascending order of query, then key, each once.

    `by_key` puts them in ascending order of key, if it is known.
    """

    query: Int[Tensor, "pairs"]
    key: Int[Tensor, "pairs"]
    by_key: Int[Tensor, "pairs"] | None = None


class Place(NamedTuple):
    """The sizes of a call, the position of its first query, and the device of its tensors."""

    batch: int
    heads: int
    query_len: int
    key_len: int
    query_start: int = 0
    device: torch.device | None = None

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(batch, heads, query_len, key_len)."""
        return self.batch, self.heads, self.query_len, self.key_len


@dataclass(slots=True, eq=False)
class Structure:
    """What a mask declares at a place, and what is computed of it once, when it is first needed.

    Args:
        mask: the mask.
        place: sizes, start and device; None: nothing is computed.
        band: the mask allows exactly the pairs of this band whose key is below `lens`; None: not of this form.
        lens: keys of each sequence, beside a band; None: all.
        least: the fewest of them, as far as the host knows.
        within: the mask allows no pair outside this band.
        pairs: the mask allows no pair outside this list, if it is given by one, as a graph is.
        groups: the mask allows no pair of positions of different groups: from positions to the groups that they are in.
        same_keys: every query sees the same keys.
        seen_by_own_query: a key that some query sees is also seen by the query at its own position, in every sequence.
        parts: the structures of the masks that this one is made of.
    """

    mask: Any
    place: Place | None = None
    band: Band | None = None
    lens: Int[Tensor, "batch"] | None = None
    least: int = 0
    within: Band = (None, None)
    pairs: Pairs | None = None
    same_keys: bool = False
    seen_by_own_query: bool = False
    parts: "tuple[Structure, ...]" = ()
    groups: Callable[[Tensor], Tensor] | None = None
    _cache: dict[object, Any] = field(default_factory=dict, init=False, repr=False)

    @property
    def at(self) -> Place:
        """The place, where something is to be computed."""
        assert self.place is not None
        return self.place

    @property
    def open(self) -> bool:
        """Whether the mask allows every pair."""
        return self.band == (None, None) and self.lens is None

    @property
    def causal(self) -> bool:
        """Whether the mask is exactly `key <= query`."""
        return self.band == (None, 0) and self.lens is None

    @property
    def leading_keys(self) -> bool:
        """Whether each query sees the first keys up to some number: one that sees none is in a sequence without any."""
        return self.band is not None and self.band[0] is None and (self.band[1] is None or self.band[1] >= 0)

    def cached(self, name: object, make: Callable[[], T]) -> T:
        """make(), once under this name."""
        if name not in self._cache:
            # a tensor made in inference mode could not serve a later call that learns
            infers = torch.compiler.is_compiling() or torch.is_inference_mode_enabled()
            with torch.inference_mode(False) if infers else nullcontext():
                self._cache[name] = make()
        value: T = self._cache[name]
        return value

    def table(self) -> Bool[Tensor, "#batch #heads #query_len #key_len"]:
        """The mask as a table; an axis that it does not depend on has size 1."""
        return self.cached("table", self._table)

    def key_mask(self) -> KeyMask:
        """Exactly the keys that some query may attend to; None: all of them."""
        return self.cached("keys", self._of_keys)

    def query_mask(self) -> QueryMask:
        """Exactly the queries that may attend to some key; None: all of them."""
        return self.cached("queries", self._of_queries)

    def reach(self) -> tuple[Bool[Tensor, "#batch #heads key_len"], Bool[Tensor, "#batch #heads query_len"]]:
        """Both from the table, at the cost of the pairs that `pairs` or `within` leave."""
        return self.cached("reach", self._reach_of_table if self.pairs is None else self._reach_of_list)

    def _table(self) -> Tensor:
        place = self.at
        if self.band is None:
            table: Tensor = self.mask.dense(*place.shape, query_start=place.query_start, device=place.device)
            return table
        (left, right), keys = self.band, torch.arange(place.key_len, device=place.device)
        query = torch.arange(place.query_start, place.query_start + place.query_len, device=place.device)[:, None]
        limits = [] if right is None else [keys <= (query + right if right else query)]
        limits += [] if left is None else [keys >= query - left]
        limits += [] if self.lens is None else [keys < self.lens.to(place.device).view(-1, 1, 1, 1)]
        table = reduce(and_, limits) if limits else keys >= 0
        return table.reshape((1,) * (4 - table.ndim) + tuple(table.shape))

    def _of_keys(self) -> KeyMask:
        place = self.at
        if 0 in place[:4]:
            return torch.zeros(1, 1, place.key_len, dtype=torch.bool, device=place.device)
        if self.band is None:
            mask: KeyMask = self.mask.key_mask(self)
            return mask
        left, right = self.band
        if left is not None and right is not None and left + right < 0:
            # two bounds that leave nothing between them, such as strictly before and strictly after
            return torch.zeros(1, 1, place.key_len, dtype=torch.bool, device=place.device)
        first = 0 if left is None else place.query_start - left
        end = place.key_len if right is None else place.query_start + place.query_len + right
        if self.lens is None and first <= 0 and end >= place.key_len:
            return None
        keys = torch.arange(place.key_len, device=place.device)
        visible = keys.view(1, -1) < end if self.lens is None else keys < self.lens.to(place.device)[:, None]
        if self.lens is not None and end < place.key_len:
            visible = visible & (keys < end)
        return (visible & (keys >= first) if first > 0 else visible).unsqueeze(1)

    def _of_queries(self) -> QueryMask:
        place = self.at
        if 0 in place[:4]:
            return torch.zeros(1, 1, place.query_len, dtype=torch.bool, device=place.device)
        if self.band is None:
            if (
                self.seen_by_own_query
                and place.query_start + place.query_len <= place.key_len
                and self.key_mask() is None
            ):
                return None
            mask: QueryMask = self.mask.query_mask(self)
            return mask
        left, right = self.band
        if self.leading_keys:
            if self.lens is None or self.least > 0:
                return None
            return (self.lens.to(place.device) > 0).view(-1, 1, 1).expand(-1, 1, place.query_len)
        if self.lens is None and self._each_sees(left or 0, right, place):
            return None
        query = torch.arange(place.query_start, place.query_start + place.query_len, device=place.device)
        # the first and the last key of each query
        low = torch.zeros_like(query) if left is None else (query - left).clamp(min=0)
        high = (
            torch.full_like(query, place.key_len - 1) if right is None else (query + right).clamp(max=place.key_len - 1)
        )
        if self.lens is not None:
            high = torch.minimum(high, self.lens.to(place.device)[:, None] - 1)
        return (low <= high).view(-1, 1, place.query_len)

    @staticmethod
    def _each_sees(left: int, right: int | None, place: Place) -> bool:
        """Whether the band of every query holds a key."""
        first, last = place.query_start, place.query_start + place.query_len - 1
        return (right is None or (first + right >= 0 and left + right >= 0)) and last - left < place.key_len

    def _reach_of_table(self) -> tuple[Tensor, Tensor]:
        place = self.at
        strips = _strips(self.within, place)
        if strips == [(0, place.query_len, 0, place.key_len)]:
            table = self.table()
            batch, heads = table.shape[:2]
            return (
                table.any(2).expand(batch, heads, place.key_len),
                table.any(3).expand(batch, heads, place.query_len),
            )
        keys, queries = torch.zeros(1, 1, place.key_len, dtype=torch.bool, device=place.device), []
        for first, last, low, high in strips:
            size = (place.batch, place.heads, last - first, high - low)
            where = {"query_start": place.query_start + first, "key_start": low}
            table = self.mask.dense(*size, **where, device=place.device)
            visible = table.any(2).expand(*table.shape[:2], high - low)
            keys = keys | F.pad(visible, (low, place.key_len - high))
            queries.append(table.any(3).expand(*table.shape[:2], last - first))
        return keys, torch.cat(queries, 2)

    def _reach_of_list(self) -> tuple[Tensor, Tensor]:
        assert self.pairs is not None
        batch, heads, query_len, key_len, first, device = self.at
        query, key = self.pairs.query.to(device), self.pairs.key.to(device)
        # pairs of other queries and keys become others, of which the mask is asked: no shape depends on values
        query, key = query.clamp(first, first + query_len - 1), key.clamp(max=key_len - 1)
        indices = torch.arange(batch, device=device).view(-1, 1, 1), torch.arange(heads, device=device).view(-1, 1)
        allowed = self.mask(*indices, query, key)
        allowed = allowed.reshape((1,) * (3 - allowed.ndim) + tuple(allowed.shape)).long()
        keys = torch.zeros(*allowed.shape[:2], key_len, dtype=torch.long, device=key.device).index_add(2, key, allowed)
        queries = torch.zeros(*allowed.shape[:2], query_len, dtype=torch.long, device=key.device)
        return keys > 0, queries.index_add(2, query - first, allowed) > 0


def intersection(mask: Any, left: Structure, right: Structure) -> Structure:
    """The structure of a mask that allows what both others allow."""
    band, lens, least = None, None, 0
    if left.band is not None and right.band is not None:
        band = (smaller_bound(left.band[0], right.band[0]), smaller_bound(left.band[1], right.band[1]))
        known = right if left.lens is None else left
        lens, least = known.lens, known.least
        if left.lens is not None and right.lens is not None:
            lens, least = torch.minimum(left.lens, right.lens.to(left.lens.device)), min(left.least, right.least)
    pairs = right.pairs if left.pairs is None else left.pairs
    if left.pairs is not None and right.pairs is not None and left.pairs.query.shape[0] > right.pairs.query.shape[0]:
        pairs = right.pairs
    within = (smaller_bound(left.within[0], right.within[0]), smaller_bound(left.within[1], right.within[1]))
    groups = left.groups or right.groups
    return Structure(mask, left.place, band, lens, least, within, pairs, groups=groups, **_of_both(left, right))


def union(mask: Any, left: Structure, right: Structure) -> Structure:
    """The structure of a mask that allows what one of two others allows."""
    within = (_larger_bound(left.within[0], right.within[0]), _larger_bound(left.within[1], right.within[1]))
    return Structure(mask, left.place, within=within, **_of_both(left, right))


def _of_both(left: Structure, right: Structure) -> dict[str, Any]:
    same, own = left.same_keys and right.same_keys, left.seen_by_own_query and right.seen_by_own_query
    return {"same_keys": same, "seen_by_own_query": own, "parts": (left, right)}


def smaller_bound(first: int | None, second: int | None) -> int | None:
    """The smaller of two bounds; None is no bound."""
    if first is None or second is None:
        return second if first is None else first
    return min(first, second)


def _larger_bound(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else max(first, second)


def _strips(band: Band, place: Place) -> list[tuple[int, int, int, int]]:
    """`strips_of` a table that is only reduced."""
    batch, _, query_len, key_len, *_ = place
    if torch.compiler.is_compiling():
        # a program serves any length, and writes down no table that it only reduces
        return [(0, query_len, 0, key_len)]
    left, right = band
    width = key_len if left is None or right is None else max(1, min(key_len, left + right))
    step = max(_ROWS, _PAIRS // max(1, batch * width))
    if left is not None and right is not None:
        # a strip reaches as many keys beside its band as it has rows
        step = min(step, max(_ROWS, width))
    return list(strips_of(band, place, step))


def strips_of(band: Band, place: Place, step: int) -> Iterator[tuple[int, int, int, int]]:
    """(first query, last, lowest key, highest) of strips of so many queries; ends are behind the last one."""
    _, _, query_len, key_len, start, _ = place
    left, right = band
    for first in range(0, query_len, step):
        last = min(first + step, query_len)
        low = 0 if left is None else min(key_len, max(0, start + first - left))
        yield first, last, low, key_len if right is None else min(key_len, max(low, start + last + right))

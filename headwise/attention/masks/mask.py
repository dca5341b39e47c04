"""The base of every mask, the tensors built from one, and how masks combine."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

Band = tuple[int | None, int | None]


class Mask(ABC):
    """Says of every pair whether the query may attend to the key.

    Masks are values: made once per batch and shared by the layers, which also share the tensors built from them.

    >>> from headwise.attention.masks import Causal, Window
    >>> (Causal() & Window(1, 1)).dense(1, 1, 3, 3)[0, 0].int().tolist()
    [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
    """

    @abstractmethod
    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """True where the pair may meet; the index tensors broadcast against each other."""

    def band(self) -> Band | None:
        """(left, right) when the mask is exactly `-left <= key - query <= right`; None in it is no bound."""
        return None

    def within(self) -> Band | None:
        """(left, right) such that the mask allows no pair outside this band; None if there is no such band."""
        return self.band()

    def candidates(self, query_len: int, key_len: int, query_start: int, device: torch.device) -> "Pairs | None":
        """A list of pairs outside of which nothing is allowed, if the mask is given by one, as a graph is."""
        return None

    def structure(self) -> tuple[object, ...]:
        """What a plan depends on: two masks of equal structure are computed equally fast."""
        return (type(self).__name__, self.band(), self.within())

    def allows(self, batch: int, head: int, query: int, key: int) -> bool:
        """Whether this one pair may meet."""
        table = self(*(torch.tensor(index).view(1, 1, 1, 1) for index in (batch, head, query, key)))
        return bool(table.all())

    def reason(self, batch: int, head: int, query: int, key: int) -> str:
        """Why this pair, which is forbidden, is."""
        return f"{type(self).__name__} says no to query {query} and key {key}"

    def is_causal(self) -> bool:
        """Whether the mask is exactly `key <= query`."""
        return self.band() == (None, 0)

    def dense(
        self,
        batch: int,
        heads: int,
        query_len: int,
        key_len: int,
        *,
        query_start: int = 0,
        device: torch.device | str | None = None,
    ) -> Bool[Tensor, "#batch #heads #query_len #key_len"]:
        """The mask as a table; an axis that it does not depend on has size 1.

        Args:
            query_start: position of the first query.
        """
        return self.prepared(batch, heads, query_len, key_len, query_start, torch.device(device or "cpu")).keep

    def prepared(
        self, batch: int, heads: int, query_len: int, key_len: int, query_start: int, device: torch.device
    ) -> "Prepared":
        """The mask as tensors for one shape, built at the first call and shared by all later ones."""
        memo: dict[tuple[int | torch.device, ...], Prepared] = self.__dict__.setdefault("_prepared", {})
        shape = (batch, heads, query_len, key_len, query_start, device)
        found = memo.get(shape)
        if found is None:
            # tensors made in inference mode could not serve a later call that learns
            with torch.inference_mode(False):
                found = memo[shape] = Prepared(self._table(batch, heads, query_len, key_len, query_start, device))
        return found

    def _table(self, batch: int, heads: int, query_len: int, key_len: int, start: int, device: torch.device) -> Tensor:
        allowed = self(
            torch.arange(batch, device=device)[:, None, None, None],
            torch.arange(heads, device=device)[None, :, None, None],
            torch.arange(start, start + query_len, device=device)[None, None, :, None],
            torch.arange(key_len, device=device)[None, None, None, :],
        )
        # a dependence on one axis alone leaves the others at size 1
        return allowed.reshape((1,) * (4 - allowed.ndim) + tuple(allowed.shape))

    def __and__(self, other: "Mask") -> "Mask":
        return And(self, other)

    def __or__(self, other: "Mask") -> "Mask":
        return Or(self, other)

    def __invert__(self) -> "Mask":
        return Not(self)


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Pairs (query[i], key[i]) in ascending order of query, then key, each once; queries count from 0."""

    query: Int[Tensor, "pairs"]
    key: Int[Tensor, "pairs"]


class Prepared:
    """The tensors of a mask for one shape: `keep`, the rows without a key, and the bias that fused kernels take."""

    def __init__(self, keep: Bool[Tensor, "#batch #heads #query_len #key_len"]):
        self.keep = keep
        empty = ~keep.any(-1, keepdim=True)
        # on an accelerator looking at the values would wait for it, so there a row may always be empty
        known_full = keep.device.type == "cpu" and not torch.compiler.is_compiling() and not bool(empty.any())
        self.empty: Tensor | None = None if known_full else empty
        self._bias: Tensor | None = None

    @property
    def bias(self) -> Float[Tensor, "#batch #heads #query_len #key_len"]:
        """0 where allowed, minus infinity where not; all 0 in a row without a key, which `empty` marks for zeroing."""
        if self._bias is None:
            with torch.inference_mode(False):
                hidden = ~self.keep if self.empty is None else ~(self.keep | self.empty)
                self._bias = torch.zeros(hidden.shape, device=hidden.device).masked_fill_(hidden, float("-inf"))
        return self._bias


@dataclass(frozen=True, eq=False)
class And(Mask):
    """Both masks allow the pair."""

    left: Mask
    right: Mask

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return self.left(batch, head, query, key) & self.right(batch, head, query, key)

    def band(self) -> Band | None:
        one, two = self.left.band(), self.right.band()
        if one is None or two is None:
            return None
        return (_tighter(one[0], two[0]), _tighter(one[1], two[1]))

    def within(self) -> Band | None:
        one, two = self.left.within(), self.right.within()
        if one is None or two is None:
            return two if one is None else one
        return (_tighter(one[0], two[0]), _tighter(one[1], two[1]))

    def candidates(self, query_len: int, key_len: int, query_start: int, device: torch.device) -> Pairs | None:
        one, two = (mask.candidates(query_len, key_len, query_start, device) for mask in (self.left, self.right))
        if one is None or two is None:
            return two if one is None else one
        return one if one.query.numel() <= two.query.numel() else two

    def structure(self) -> tuple[object, ...]:
        return ("and", self.left.structure(), self.right.structure())

    def reason(self, batch: int, head: int, query: int, key: int) -> str:
        parts = [part for part in (self.left, self.right) if not part.allows(batch, head, query, key)]
        return "; and ".join(part.reason(batch, head, query, key) for part in parts)

    def _table(self, batch: int, heads: int, query_len: int, key_len: int, start: int, device: torch.device) -> Tensor:
        shape = (batch, heads, query_len, key_len, start, device)
        return self.left.prepared(*shape).keep & self.right.prepared(*shape).keep


@dataclass(frozen=True, eq=False)
class Or(Mask):
    """At least one of the masks allows the pair."""

    left: Mask
    right: Mask

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return self.left(batch, head, query, key) | self.right(batch, head, query, key)

    def within(self) -> Band | None:
        one, two = self.left.within(), self.right.within()
        if one is None or two is None:
            return None
        return (_looser(one[0], two[0]), _looser(one[1], two[1]))

    def candidates(self, query_len: int, key_len: int, query_start: int, device: torch.device) -> Pairs | None:
        one, two = (mask.candidates(query_len, key_len, query_start, device) for mask in (self.left, self.right))
        if one is None or two is None:
            return None
        codes = [pairs.query * max(1, key_len) + pairs.key for pairs in (one, two)]
        both = torch.unique(torch.cat(codes))
        return Pairs(both // max(1, key_len), both % max(1, key_len))

    def structure(self) -> tuple[object, ...]:
        return ("or", self.left.structure(), self.right.structure())

    def reason(self, batch: int, head: int, query: int, key: int) -> str:
        both = (self.left, self.right)
        return "no part allows it: " + ", nor: ".join(part.reason(batch, head, query, key) for part in both)

    def _table(self, batch: int, heads: int, query_len: int, key_len: int, start: int, device: torch.device) -> Tensor:
        shape = (batch, heads, query_len, key_len, start, device)
        return self.left.prepared(*shape).keep | self.right.prepared(*shape).keep


@dataclass(frozen=True, eq=False)
class Not(Mask):
    """The mask does not allow the pair."""

    mask: Mask

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return ~self.mask(batch, head, query, key)

    def structure(self) -> tuple[object, ...]:
        return ("not", self.mask.structure())

    def reason(self, batch: int, head: int, query: int, key: int) -> str:
        return f"query {query} and key {key} are what {type(self.mask).__name__} allows, which is inverted"

    def _table(self, batch: int, heads: int, query_len: int, key_len: int, start: int, device: torch.device) -> Tensor:
        return ~self.mask.prepared(batch, heads, query_len, key_len, start, device).keep


def _tighter(one: int | None, two: int | None) -> int | None:
    if one is None or two is None:
        return two if one is None else one
    return min(one, two)


def _looser(one: int | None, two: int | None) -> int | None:
    return None if one is None or two is None else max(one, two)

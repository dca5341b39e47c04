"""The base of every mask, how masks combine, and how a forward pass shares the table of one."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headwise.attention.masks.band import Band, looser, reached, tighter
from headwise.attention.masks.pairs import Pairs
from headwise.attention.masks.seen import seen_in_table
from headwise.errors import ConfigError

T = TypeVar("T")


class Mask(ABC):
    """Says of every pair whether the query may attend to the key.

    Masks are values, made once per batch. One of your own defines `__call__`; what else it knows of itself makes it
    faster: `within`, `pairs`, and `seen` where it is known without a table.

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

    def pairs(self) -> "Pairs | None":
        """A list of pairs outside of which nothing is allowed, if the mask is given by one, as a graph is."""
        return None

    def seen(
        self, batch: int, heads: int, query_len: int, key_len: int, query_start: int, device: torch.device
    ) -> Bool[Tensor, "#batch #heads key_len"] | None:
        """Exactly the keys that some query may see; None: all of them. Made from the table unless a band tells."""
        band = self.band()
        if band is not None:
            return reached(band, query_len, key_len, query_start, device)
        return seen_in_table(self, batch, heads, query_len, key_len, query_start, device)

    def depends_on_query(self) -> bool:
        """Whether two queries may see different keys; False only where no query can."""
        return True

    def sees_itself(self) -> bool:
        """Whether a key that some query sees is also seen by the query at its own position, in every sequence."""
        left, right = self.band() or (-1, 0)
        return (left is None or left >= 0) and (right is None or right >= 0)

    # a hook: most masks fit every size
    def check(self, batch: int, heads: int, query_len: int, key_len: int, query_start: int) -> None:  # noqa: B027
        """Raises: ShapeError if the mask was made for other sizes."""

    def allows(self, batch: int, head: int, query: int, key: int) -> bool:
        """Whether this one pair may meet."""
        table = self(*(torch.tensor(index).view(1, 1, 1, 1) for index in (batch, head, query, key)))
        return bool(table.all())

    def reason(self, batch: int, head: int, query: int, key: int) -> str:
        """Why this pair, which is forbidden, is."""
        return f"{type(self).__name__} says no to query {query} and key {key}"

    def tells_who_sees(self) -> bool:
        """Whether `seen` needs no table, and a query without a key stands in a sequence (batch row) without any."""
        return self.is_causal()

    def is_causal(self) -> bool:
        """Whether the mask is exactly `key <= query`."""
        return self.band() == (None, 0)

    def over(
        self, batch: Int[Tensor, "b"], head: Int[Tensor, "h"], query: Int[Tensor, "q"], key: Int[Tensor, "k"]
    ) -> Bool[Tensor, "#b #h #q #k"]:
        """The mask as a table over these indices; an axis that it does not depend on has size 1."""
        allowed = self(batch[:, None, None, None], head[:, None, None], query[:, None], key)
        return allowed.reshape((1,) * (4 - allowed.ndim) + tuple(allowed.shape))

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
        """The mask as a table; an axis that it does not depend on has size 1.

        Args:
            query_start: position of the first query.
            key_start: position of the first key, for a part of the keys; None: all of them, which are counted.
        Raises:
            ShapeError: sizes that the mask was not made for.
        """
        if key_start is None:
            self.check(batch, heads, query_len, key_len, query_start)
        first = key_start or 0
        queries = torch.arange(query_start, query_start + query_len, device=device)
        keys = torch.arange(first, first + key_len, device=device)
        return self.over(torch.arange(batch, device=device), torch.arange(heads, device=device), queries, keys)

    def shared(self) -> "Mask":
        """The same mask, which makes its table once: for the layers of one forward pass."""
        return Shared(self)

    def made(self, what: str, shape: tuple[object, ...], make: Callable[[], T]) -> T:
        """make(), or what a shared mask made last under this name if it was for the same shape."""
        return make()

    def __and__(self, other: "Mask") -> "Mask":
        return And(self, _mask(other))

    def __or__(self, other: "Mask") -> "Mask":
        return Or(self, _mask(other))

    def __invert__(self) -> "Mask":
        return Not(self)


def _mask(other: object) -> Mask:
    """Raises: ConfigError for what is no mask."""
    if not isinstance(other, Mask):
        advice = "Table(...) makes one of a bool tensor" if isinstance(other, Tensor) else "pass an instance"
        raise ConfigError(f"a mask combines with a mask, not with {type(other).__name__}; {advice}")
    return other


@dataclass(frozen=True, eq=False)
class Both(Mask, ABC):
    """Base of masks that are made of two."""

    left: Mask
    right: Mask

    def check(self, batch: int, heads: int, query_len: int, key_len: int, query_start: int) -> None:
        self.left.check(batch, heads, query_len, key_len, query_start)
        self.right.check(batch, heads, query_len, key_len, query_start)

    def depends_on_query(self) -> bool:
        return self.left.depends_on_query() or self.right.depends_on_query()

    def sees_itself(self) -> bool:
        return self.left.sees_itself() and self.right.sees_itself()


class And(Both):
    """Both masks allow the pair."""

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return self.left(batch, head, query, key) & self.right(batch, head, query, key)

    def band(self) -> Band | None:
        one, two = self.left.band(), self.right.band()
        return None if one is None or two is None else (tighter(one[0], two[0]), tighter(one[1], two[1]))

    def within(self) -> Band | None:
        one, two = self.left.within(), self.right.within()
        if one is None or two is None:
            return two if one is None else one
        return (tighter(one[0], two[0]), tighter(one[1], two[1]))

    def pairs(self) -> Pairs | None:
        one, two = self.left.pairs(), self.right.pairs()
        if one is None or two is None:
            return two if one is None else one
        return one if one.query.shape[0] <= two.query.shape[0] else two

    def seen(self, *place: Any) -> Bool[Tensor, "#batch #heads key_len"] | None:
        if not self._parts_tell(*place[2:5]):
            return super().seen(*place)
        one, two = self.left.seen(*place), self.right.seen(*place)
        return one & two if one is not None and two is not None else two if one is None else one

    def _parts_tell(self, query_len: int, key_len: int, query_start: int) -> bool:
        """Whether a key that both parts show to some query is one that both show to the same query."""
        if self.tells_who_sees() or not (self.left.depends_on_query() and self.right.depends_on_query()):
            return True
        return self.sees_itself() and query_start == 0 and key_len <= query_len

    def dense(self, *size: Any, **place: Any) -> Bool[Tensor, "#batch #heads #query_len #key_len"]:
        return self.left.dense(*size, **place) & self.right.dense(*size, **place)

    def tells_who_sees(self) -> bool:
        return self.left.tells_who_sees() and self.right.tells_who_sees()

    def reason(self, batch: int, head: int, query: int, key: int) -> str:
        parts = [part for part in (self.left, self.right) if not part.allows(batch, head, query, key)]
        return "; and ".join(part.reason(batch, head, query, key) for part in parts)


class Or(Both):
    """At least one of the masks allows the pair."""

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return self.left(batch, head, query, key) | self.right(batch, head, query, key)

    def within(self) -> Band | None:
        one, two = self.left.within(), self.right.within()
        return None if one is None or two is None else (looser(one[0], two[0]), looser(one[1], two[1]))

    def seen(self, *place: Any) -> Bool[Tensor, "#batch #heads key_len"] | None:
        one, two = self.left.seen(*place), self.right.seen(*place)
        return None if one is None or two is None else one | two

    def reason(self, batch: int, head: int, query: int, key: int) -> str:
        both = (self.left, self.right)
        return "no part allows it: " + ", nor: ".join(part.reason(batch, head, query, key) for part in both)


@dataclass(frozen=True, eq=False)
class Not(Mask):
    """The mask does not allow the pair."""

    mask: Mask

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return ~self.mask(batch, head, query, key)

    def check(self, batch: int, heads: int, query_len: int, key_len: int, query_start: int) -> None:
        self.mask.check(batch, heads, query_len, key_len, query_start)

    def depends_on_query(self) -> bool:
        return self.mask.depends_on_query()

    def reason(self, batch: int, head: int, query: int, key: int) -> str:
        return f"query {query} and key {key} are what {type(self.mask).__name__} allows, which is inverted"


@dataclass(frozen=True, eq=False)
class Shared(Mask):
    """A mask and what was made of it last: the layers of a forward pass ask for one shape many times."""

    mask: Mask
    _last: dict[str, tuple[tuple[object, ...], object]] = field(default_factory=dict, init=False, repr=False)

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return self.mask(batch, head, query, key)

    def band(self) -> Band | None:
        return self.mask.band()

    def within(self) -> Band | None:
        return self.mask.within()

    def pairs(self) -> Pairs | None:
        return self.mask.pairs()

    def seen(self, *place: Any) -> Bool[Tensor, "#batch #heads key_len"] | None:
        return self.made("seen", place, lambda: self.mask.seen(*place))

    def depends_on_query(self) -> bool:
        return self.mask.depends_on_query()

    def sees_itself(self) -> bool:
        return self.mask.sees_itself()

    def tells_who_sees(self) -> bool:
        return self.mask.tells_who_sees()

    def check(self, batch: int, heads: int, query_len: int, key_len: int, query_start: int) -> None:
        self.mask.check(batch, heads, query_len, key_len, query_start)

    def dense(self, *size: Any, **place: Any) -> Bool[Tensor, "#batch #heads #query_len #key_len"]:
        made_for = (size, *(place.get(name) for name in ("key_start", "device")), place.get("query_start", 0))
        return self.made("table", made_for, lambda: self.mask.dense(*size, **place))

    def reason(self, batch: int, head: int, query: int, key: int) -> str:
        return self.mask.reason(batch, head, query, key)

    def shared(self) -> "Mask":
        return self

    def made(self, what: str, shape: tuple[object, ...], make: Callable[[], T]) -> T:
        found = self._last.get(what)
        if found is None or found[0] != shape:
            # a tensor made in inference mode could not serve a later call that learns
            with torch.inference_mode(False):
                found = self._last[what] = (shape, make())
        return found[1]  # type: ignore[return-value]

    def __getstate__(self) -> dict[str, object]:
        return {"mask": self.mask, "_last": {}}

"""The base of every mask, how masks combine, how layers share what is known of one, and masks in words."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from numbers import Integral
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headwise.attention.structure import KeyMask, Place, QueryMask, Structure, intersection, union
from headwise.errors import ConfigError, ShapeError


class Mask(ABC):
    """Says of every pair whether the query may attend to the key.

    Masks are values, made once per batch. One of your own defines `__call__`; `structure` declares what else is known
    of it, which makes it faster, such as a band around it; `least` names fields that are whole numbers.

    >>> from headwise.attention.masks import Causal, Window
    >>> (Causal() & Window(1, 1)).dense(1, 1, 3, 3)[0, 0].int().tolist()
    [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
    """

    # fields that are whole numbers below 2^31, and what each is at least
    least: ClassVar[dict[str, int]] = {}

    def __post_init__(self) -> None:
        """Raises: ShapeError for a field of `least` that is less, or no whole number."""
        check_sizes(self, **self.least)

    @abstractmethod
    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """True where the pair may meet; the index tensors broadcast against each other."""

    def structure(self, place: Place | None = None) -> Structure:
        """What is known of the mask without its table; here nothing.

        Args:
            place: sizes, start and device; without it sizes are not checked and no table can be made.
        Raises:
            ShapeError: sizes that the mask was not made for.
        """
        return Structure(self, place)

    def key_mask(self, structure: Structure) -> KeyMask:
        """Exactly the keys that some query may attend to, for a mask without an exact band; None: all of them."""
        return structure.reach()[0]

    def query_mask(self, structure: Structure) -> QueryMask:
        """Exactly the queries that may attend to some key, for a mask without an exact band; None: all of them."""
        return structure.reach()[1]

    def allows(self, batch: int, head: int, query: int, key: int) -> bool:
        """Whether this one pair may meet. Raises: IndexError for a pair without an entry."""
        # on the host: an index out of range that a GPU meets ends the process
        index = (torch.tensor(number, device="cpu").view(1, 1, 1, 1) for number in (batch, head, query, key))
        return bool(self.to(torch.device("cpu"))(*index).all())

    def to(self, device: torch.device) -> "Mask":
        """The same mask with its tensors on the device; one that is no dataclass is returned as it is."""
        if not is_dataclass(self):
            return self
        parts = {field.name: getattr(self, field.name) for field in fields(self)}
        tensors = {name: part.to(device) for name, part in parts.items() if isinstance(part, Tensor | Mask)}
        return replace(self, **tensors)

    def reason(self, batch: int, head: int, query: int, key: int) -> str:
        """Why this pair, which is forbidden, is."""
        return f"{type(self).__name__} does not allow query {query} to attend to key {key}"

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
            self.structure(Place(batch, heads, query_len, key_len, query_start))
        first = key_start or 0
        queries = torch.arange(query_start, query_start + query_len, device=device)
        keys = torch.arange(first, first + key_len, device=device)
        return self.over(torch.arange(batch, device=device), torch.arange(heads, device=device), queries, keys)

    def shared(self) -> "Mask":
        """The same mask, which keeps its latest structure: for the layers of one forward pass."""
        return Shared(self)

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
class And(Mask):
    """Both masks allow the pair."""

    left: Mask
    right: Mask

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return self.left(batch, head, query, key) & self.right(batch, head, query, key)

    def structure(self, place: Place | None = None) -> Structure:
        return intersection(self, self.left.structure(place), self.right.structure(place))

    def key_mask(self, structure: Structure) -> KeyMask:
        left, right = structure.parts
        if not (left.same_keys or right.same_keys):
            # a key that both show to some query need not be one that both show to the same query
            place = structure.at
            if not structure.seen_by_own_query or place.query_start != 0 or place.key_len > place.query_len:
                return structure.reach()[0]
        first, second = left.key_mask(), right.key_mask()
        return first & second if first is not None and second is not None else second if first is None else first

    def dense(self, *size: Any, **where: Any) -> Bool[Tensor, "#batch #heads #query_len #key_len"]:
        return self.left.dense(*size, **where) & self.right.dense(*size, **where)

    def reason(self, batch: int, head: int, query: int, key: int) -> str:
        parts = [part for part in (self.left, self.right) if not part.allows(batch, head, query, key)]
        return "; and ".join(part.reason(batch, head, query, key) for part in parts)


@dataclass(frozen=True, eq=False)
class Or(Mask):
    """At least one of the masks allows the pair."""

    left: Mask
    right: Mask

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return self.left(batch, head, query, key) | self.right(batch, head, query, key)

    def structure(self, place: Place | None = None) -> Structure:
        return union(self, self.left.structure(place), self.right.structure(place))

    def key_mask(self, structure: Structure) -> KeyMask:
        first, second = (part.key_mask() for part in structure.parts)
        return None if first is None or second is None else first | second

    def query_mask(self, structure: Structure) -> QueryMask:
        first, second = (part.query_mask() for part in structure.parts)
        return None if first is None or second is None else first | second

    def reason(self, batch: int, head: int, query: int, key: int) -> str:
        both = (self.left, self.right)
        return "no part allows it: " + ", nor: ".join(part.reason(batch, head, query, key) for part in both)


@dataclass(frozen=True, eq=False)
class Not(Mask):
    """The mask does not allow the pair."""

    mask: Mask

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return ~self.mask(batch, head, query, key)

    def structure(self, place: Place | None = None) -> Structure:
        return Structure(self, place, same_keys=self.mask.structure(place).same_keys)

    def reason(self, batch: int, head: int, query: int, key: int) -> str:
        return f"query {query} and key {key} are what {type(self.mask).__name__} allows, which is inverted"


@dataclass(frozen=True, eq=False)
class Shared(Mask):
    """A mask that keeps its latest structure: the layers of a forward pass ask at one place many times."""

    mask: Mask
    _latest: list[Structure] = field(default_factory=list, init=False, repr=False)
    _limited: list[tuple[Mask, Mask]] = field(default_factory=list, init=False, repr=False)

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return self.mask(batch, head, query, key)

    def structure(self, place: Place | None = None) -> Structure:
        if place is None:
            return self.mask.structure()
        if not self._latest or self._latest[0].place != place:
            self._latest[:] = [self.mask.structure(place)]
        return self._latest[0]

    def dense(self, *size: Any, **where: Any) -> Bool[Tensor, "#batch #heads #query_len #key_len"]:
        return self.mask.dense(*size, **where)

    def reason(self, batch: int, head: int, query: int, key: int) -> str:
        return self.mask.reason(batch, head, query, key)

    def shared(self) -> "Mask":
        return self

    def limited(self, limit: Mask) -> Mask:
        """This mask and another one, one object for all layers that ask with the same limit."""
        for other, both in self._limited:
            if other is limit:
                return both
        self._limited.append((limit, (self.mask & limit).shared()))
        return self._limited[-1][1]

    def __getstate__(self) -> dict[str, object]:
        return {"mask": self.mask, "_latest": [], "_limited": []}


@dataclass(frozen=True, eq=False)
class Part(Mask):
    """A mask for some of its heads, and keys that are counted from `first_key` on."""

    mask: Mask
    heads: tuple[int, ...] | None
    first_key: int

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        if self.heads is not None:
            head = torch.tensor(self.heads, dtype=torch.long, device=head.device)[head]
        return self.mask(batch, head, query, key + self.first_key)

    def dense(self, *size: Any, **where: Any) -> Bool[Tensor, "#batch #heads #query_len #key_len"]:
        if self.heads is not None:
            return super().dense(*size, **where)
        where["key_start"] = self.first_key + (where.get("key_start") or 0)
        return self.mask.dense(*size, **where)


def parts(mask: Mask | None) -> list[Mask]:
    """The masks that all have to allow a pair, from left to right.

    >>> from headwise.attention.masks import Causal, Window
    >>> [type(part).__name__ for part in parts((Causal() & Window(2, 2)).shared())]
    ['Causal', 'Window']
    """
    if isinstance(mask, Shared):
        return parts(mask.mask)
    if isinstance(mask, And):
        return [*parts(mask.left), *parts(mask.right)]
    return [] if mask is None else [mask]


def without(mask: Mask | None, *kinds: type[Mask]) -> Mask | None:
    """What is left of a mask when its parts of these kinds are taken out; None: every pair may meet."""
    rest: Mask | None = None
    for part in parts(mask):
        if not isinstance(part, kinds):
            rest = part if rest is None else rest & part
    return rest


def explain(mask: Mask, query: int, key: int, *, batch: int = 0, head: int = 0) -> str:
    """Whether the pair may meet, and if not, each part of the mask that forbids it.

    Raises:
        ShapeError: a position that the mask has no entry for.

    >>> from headwise.attention.masks import Causal, Padding
    >>> explain(Causal() & Padding(torch.tensor([4])), query=2, key=5)
    'query 2 may not attend to key 5: key 5 comes after query 2; and key 5 is padding: sequence 0 has 4 keys'
    """
    try:
        if mask.allows(batch, head, query, key):
            return f"query {query} may attend to key {key}"
        return f"query {query} may not attend to key {key}: {mask.reason(batch, head, query, key)}"
    except IndexError:
        place = f"batch {batch}, head {head}, query {query}, key {key}"
        raise ShapeError(f"the mask has no entry for {place}; it was made for a smaller input") from None


def empty_rows(
    mask: Mask, batch: int, heads: int, query_len: int, key_len: int, *, query_start: int = 0
) -> Int[Tensor, "rows 3"]:
    """(batch, head, query) of every query that no key is allowed to, whose output is zero.

    A batch or head axis on which the mask does not depend is listed once, as 0.

    >>> from headwise.attention.masks import Padding
    >>> empty_rows(Padding(torch.tensor([0, 3])), 2, 1, 2, 3).tolist()
    [[0, 0, 0], [0, 0, 1]]
    """
    keep = mask.dense(batch, heads, query_len, key_len, query_start=query_start)
    none = ~keep.any(-1)
    rows = none.expand(none.shape[0], none.shape[1], query_len).nonzero()
    return rows + rows.new_tensor([0, 0, query_start])


def tensor_of(mask: Mask, name: str) -> Tensor:
    """The field of this name. Raises: ShapeError for what is no tensor."""
    if not isinstance(tensor := getattr(mask, name), Tensor):
        got = type(tensor).__name__
        raise ShapeError(f"{type(mask).__name__}: {name} must be a tensor, got {got}; pass torch.tensor(...)")
    return tensor


def check_whole(mask: Mask, name: str, what: str, *axes: int, rows: int | None = None, hint: str = "") -> Tensor:
    """The field of this name. Raises: ShapeError for what is no tensor of whole numbers with so many axes, and rows.

    A bool tensor says which, not how many: `hint` then says what to pass.
    """
    tensor, whole = tensor_of(mask, name), (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
    if tensor.ndim not in axes or tensor.dtype not in whole or rows not in (None, tensor.shape[0]):
        actual = f"{tuple(tensor.shape)} {tensor.dtype}{hint if tensor.dtype == torch.bool else ''}"
        raise ShapeError(f"{type(mask).__name__} needs {what}, got {actual}")
    return tensor


def are_whole(numbers: object) -> bool:
    """Whether they are a sequence of whole numbers below 2^31; those that a compiler traces count."""
    # the product of two of them, and a position, have 64 bits
    return isinstance(numbers, Sequence) and all(
        isinstance(number, torch.SymInt) or (isinstance(number, Integral) and abs(int(number)) < 1 << 31)
        for number in numbers
    )


def check_sizes(mask: object, **least: int) -> None:
    """Raises: ShapeError for a field of the mask, by its name, that is no whole number or below its least value."""
    for name, lowest in least.items():
        if not are_whole([size := getattr(mask, name)]) or size < lowest:
            raise ShapeError(f"{mask}: {name} must be a whole number, {lowest} or more and below 2^31")


def length_range(name: str, lens: Tensor) -> tuple[int, int]:
    """The shortest and the longest length; (0, 0) where no values can be read: outside memory of the host, or traced.

    Raises: ShapeError for a length below 0.
    """
    # no number of a batch for a compiled program, which would be made again for each
    traced = torch.compiler.is_compiling() or torch.jit.is_tracing()
    if traced or lens.device.type != "cpu" or lens.numel() == 0:
        return 0, 0
    try:
        least, longest = (int(limit) for limit in torch.func.debug_unwrap(lens, recurse=True).aminmax())
    except RuntimeError:
        # fake, or traced by something else than a compiler
        return 0, 0
    if least < 0:
        raise ShapeError(f"{name} must be 0 or more, got {least}")
    return least, longest

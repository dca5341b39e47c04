"""Which pairs may meet: predicates over (batch, head, query, key), combined by `&`, `|`, `~`; True = may attend."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.errors import ShapeError

Band = tuple[int | None, int | None]


class Mask(ABC):
    """Says of every pair whether the query may attend to the key.

    Masks are values: made once per batch and shared by the layers, which also share the tensors built from them.

    >>> (Causal() & Window(1, 1)).dense(1, 1, 3, 3)[0, 0].int().tolist()
    [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
    """

    @abstractmethod
    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """True where the pair may meet; the index tensors broadcast against each other."""

    def band(self) -> Band | None:
        """(left, right) when the mask is exactly `-left <= key - query <= right`; None in it is no bound."""
        return None

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
class Causal(Mask):
    """No query sees a later key: `key <= query`."""

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return key <= query

    def band(self) -> Band:
        return (None, 0)


@dataclass(frozen=True, eq=False)
class Window(Mask):
    """Keys at most `left` positions before and `right` positions after the query (truncated self-attention).

    >>> int(Window(5, 5).dense(1, 1, 1000, 1000).sum())
    10970
    """

    left: int
    right: int

    def __post_init__(self) -> None:
        if self.left < 0 or self.right < 0:
            raise ShapeError(f"Window({self.left}, {self.right}): both widths must be 0 or more")

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (key >= query - self.left) & (key <= query + self.right)

    def band(self) -> Band:
        return (self.left, self.right)


@dataclass(frozen=True, eq=False)
class Padding(Mask):
    """Only the first `valid_lens` keys are real: one length per sequence, or one per sequence and query.

    >>> Padding(torch.tensor([[1, 3], [2, 4]])).dense(2, 1, 2, 4)[0, 0].int().tolist()
    [[1, 0, 0, 0], [1, 1, 1, 0]]
    """

    valid_lens: Int[Tensor, "batch"] | Int[Tensor, "batch query_len"]

    def __post_init__(self) -> None:
        if self.valid_lens.ndim not in (1, 2) or self.valid_lens.is_floating_point():
            shape = tuple(self.valid_lens.shape)
            raise ShapeError(
                f"Padding needs whole lengths (batch) or (batch, query_len), got {shape} {self.valid_lens.dtype}"
            )

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        lens = self.valid_lens.to(key.device)
        return key < (lens[batch] if lens.ndim == 1 else lens[batch, query])

    def _table(self, batch: int, heads: int, query_len: int, key_len: int, start: int, device: torch.device) -> Tensor:
        lens = self.valid_lens
        if lens.shape[0] != batch or (lens.ndim == 2 and lens.shape[1] < start + query_len):
            wanted = f"({batch})" if lens.ndim == 1 else f"({batch}, {start + query_len})"
            raise ShapeError(f"Padding: valid_lens {tuple(lens.shape)} do not fit; expected {wanted}")
        return super()._table(batch, heads, query_len, key_len, start, device)


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

    def _four_axes(self) -> Tensor:
        if self.allowed.ndim == 3:
            return self.allowed.unsqueeze(1)
        return self.allowed.reshape((1,) * (4 - self.allowed.ndim) + tuple(self.allowed.shape))

    def _table(self, batch: int, heads: int, query_len: int, key_len: int, start: int, device: torch.device) -> Tensor:
        table = self._four_axes()
        rows = table if table.shape[2] == 1 else table[:, :, start : start + query_len]
        wanted = (batch, heads, query_len, key_len)
        # the last row of a table that ends too early is no row for all queries
        ends_early = rows is not table and rows.shape[2] != query_len
        if ends_early or any(have not in (1, want) for have, want in zip(rows.shape, wanted, strict=True)):
            raise ShapeError(
                f"Table {tuple(self.allowed.shape)} does not fit (batch, heads, query_len, key_len) = {wanted}"
                + (f" from query {start}" if start else "")
            )
        return rows.to(device)


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

    def _table(self, batch: int, heads: int, query_len: int, key_len: int, start: int, device: torch.device) -> Tensor:
        shape = (batch, heads, query_len, key_len, start, device)
        return self.left.prepared(*shape).keep | self.right.prepared(*shape).keep


@dataclass(frozen=True, eq=False)
class Not(Mask):
    """The mask does not allow the pair."""

    mask: Mask

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return ~self.mask(batch, head, query, key)

    def _table(self, batch: int, heads: int, query_len: int, key_len: int, start: int, device: torch.device) -> Tensor:
        return ~self.mask.prepared(batch, heads, query_len, key_len, start, device).keep


def _tighter(one: int | None, two: int | None) -> int | None:
    if one is None or two is None:
        return two if one is None else one
    return min(one, two)


MASKS: dict[str, type[Mask]] = {"causal": Causal, "padding": Padding, "window": Window, "table": Table}


def catalogue() -> dict[str, str]:
    """Name and first documentation line of every mask that can be written in a command or recipe."""
    return {name: (mask.__doc__ or "").partition("\n")[0] for name, mask in MASKS.items()}

"""A mask whose tables the layers of one forward pass share."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from jaxtyping import Bool
from torch import Tensor

from headwise.attention.masks.band import Band
from headwise.attention.masks.mask import Mask
from headwise.attention.masks.pairs import Pairs

T = TypeVar("T")


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

    def seen(
        self, batch: int, heads: int, query_len: int, key_len: int, query_start: int, device: torch.device
    ) -> Bool[Tensor, "#batch #heads key_len"] | None:
        place = (batch, heads, query_len, key_len, query_start, device)
        return self.made("seen", place, lambda: self.mask.seen(*place))

    def depends_on_query(self) -> bool:
        return self.mask.depends_on_query()

    def sees_itself(self) -> bool:
        return self.mask.sees_itself()

    def tells_who_sees(self) -> bool:
        return self.mask.tells_who_sees()

    def check(self, batch: int, heads: int, query_len: int, key_len: int, query_start: int) -> None:
        self.mask.check(batch, heads, query_len, key_len, query_start)

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
        place: Any = {"query_start": query_start, "key_start": key_start, "device": device}
        size = (batch, heads, query_len, key_len)
        return self.made("table", (*size, *place.values()), lambda: self.mask.dense(*size, **place))

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

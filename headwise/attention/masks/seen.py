"""Which keys some query may see, from the table of a mask: a few rows of it at a time, or its listed pairs."""

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool
from torch import Tensor
from torch.nn import functional as F

from headwise.attention.masks.band import Band
from headwise.attention.masks.pairs import Pairs

# pairs of which the mask is asked at once, and rows of them at least
_PAIRS, _ROWS = 1 << 20, 16


@runtime_checkable
class Tabled(Protocol):
    """What is needed of a mask."""

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor: ...

    def within(self) -> Band | None: ...

    def pairs(self) -> Pairs | None: ...

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
    ) -> Tensor: ...


def seen_in_table(
    mask: Tabled, batch: int, heads: int, query_len: int, key_len: int, query_start: int, device: torch.device
) -> Bool[Tensor, "#batch #heads key_len"]:
    """Exactly the keys that some query may see; at the cost of the pairs that `pairs` or `within` leave.

    >>> from headwise.attention.masks import Dilated
    >>> seen_in_table(Dilated(1, 0, 2), 1, 1, 2, 4, 2, torch.device("cpu")).flatten().int().tolist()
    [1, 1, 1, 1]
    """
    seen = torch.zeros(1, 1, key_len, dtype=torch.bool, device=device)
    if 0 in (batch, heads, query_len, key_len):
        return seen
    listed = mask.pairs()
    if listed is not None:
        size = (torch.arange(batch, device=device), torch.arange(heads, device=device))
        return _in_list(mask, listed, size, (query_start, query_start + query_len), key_len)
    for first, last, low, high in _strips(mask.within(), batch, query_len, key_len, query_start):
        place = {"query_start": query_start + first, "key_start": low}
        table = mask.dense(batch, heads, last - first, high - low, **place, device=device)
        rows = table.any(2).expand(*table.shape[:2], high - low)
        seen = seen | F.pad(rows, (low, key_len - high))
    return seen


def _strips(
    band: Band | None, batch: int, query_len: int, key_len: int, query_start: int
) -> list[tuple[int, int, int, int]]:
    """(first query, last, lowest key, highest) of strips; ends are behind the last one."""
    if torch.compiler.is_compiling():
        # a program serves any length, and writes down no table that it only reduces
        return [(0, query_len, 0, key_len)]
    left, right = band or (None, None)
    width = key_len if left is None or right is None else max(1, min(key_len, left + right))
    step = max(_ROWS, _PAIRS // max(1, batch * width))
    if left is not None and right is not None:
        # a strip reaches as many keys beside its band as it has rows
        step = min(step, max(_ROWS, width))
    strips = []
    for first in range(0, query_len, step):
        last = min(first + step, query_len)
        low = 0 if left is None else min(key_len, max(0, query_start + first - left))
        high = key_len if right is None else min(key_len, max(low, query_start + last + right))
        strips.append((first, last, low, high))
    return strips


def _in_list(
    mask: Tabled, listed: Pairs, size: tuple[Tensor, Tensor], queries: tuple[int, int], key_len: int
) -> Bool[Tensor, "#batch #heads key_len"]:
    first, last = queries
    batch, heads = size
    query, key = listed.query.to(batch.device), listed.key.to(batch.device)
    here = (query >= first) & (query < last) & (key < key_len)
    # pairs of other queries and keys stay on the list, hidden: no shape depends on values
    query, key = query.clamp(first, last - 1), key.clamp(max=key_len - 1)
    allowed = mask(batch.view(-1, 1, 1), heads.view(-1, 1), query, key) & here
    allowed = allowed.reshape((1,) * (3 - allowed.ndim) + tuple(allowed.shape))
    count = torch.zeros(*allowed.shape[:2], key_len + 1, dtype=torch.long, device=key.device)
    return count.index_add(2, torch.where(here, key, key_len), allowed.long())[..., :key_len] > 0

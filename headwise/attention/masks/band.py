"""Bands: `-left <= key - query <= right`, where None is no bound."""

import torch
from jaxtyping import Bool
from torch import Tensor

Band = tuple[int | None, int | None]


def tighter(one: int | None, two: int | None) -> int | None:
    """The smaller of two bounds; None is no bound."""
    if one is None or two is None:
        return two if one is None else one
    return min(one, two)


def looser(one: int | None, two: int | None) -> int | None:
    """The larger of two bounds."""
    return None if one is None or two is None else max(one, two)


def reached(
    band: Band, query_len: int, key_len: int, query_start: int, device: torch.device
) -> Bool[Tensor, "1 1 key_len"] | None:
    """The keys within a band of some query; None if these are all keys."""
    left, right = band
    last = None if right is None else query_start + query_len + right
    first = None if left is None else query_start - left
    if (last is None or last >= key_len) and (first is None or first <= 0):
        return None
    keys = torch.arange(key_len, device=device)
    reached = keys >= (0 if first is None else first)
    return (reached if last is None else reached & (keys < last)).view(1, 1, -1)

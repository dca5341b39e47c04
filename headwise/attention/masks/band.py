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
    if left is not None and right is not None and left + right < 0:
        # two bounds that leave nothing between them, such as strictly before and strictly after
        return torch.zeros(1, 1, key_len, dtype=torch.bool, device=device)
    last = None if right is None else query_start + query_len + right
    first = None if left is None else query_start - left
    if (last is None or last >= key_len) and (first is None or first <= 0):
        return None
    keys = torch.arange(key_len, device=device)
    reached = keys >= (0 if first is None else first)
    return (reached if last is None else reached & (keys < last)).view(1, 1, -1)

"""Masks as mechanisms read them that cannot honour any table: causal or not, and which keys exist."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headwise.attention.masks import And, Mask
from headwise.errors import Unsupported

Keys = Bool[Tensor, "#batch #heads 1 key_len"]


class Split(NamedTuple):
    """A mask that is `key <= query`, or nothing, over the keys that exist; None: all of them."""

    causal: bool
    keys: Keys | None


def split(
    mask: Mask | None,
    batch: int,
    heads: int,
    query_len: int,
    key_len: int,
    query_start: int,
    device: torch.device,
) -> Split | None:
    """The mask in these two parts, or None if it has others.

    >>> from headwise.attention.masks import Causal, Padding
    >>> split(Causal() & Padding(torch.tensor([2])), 1, 1, 3, 3, 0, torch.device("cpu")).keys.flatten().tolist()
    [True, True, False]
    """
    if mask is None:
        return Split(False, None)
    if mask.is_causal():
        return Split(True, None)
    if isinstance(mask, And):
        parts = [split(part, batch, heads, query_len, key_len, query_start, device) for part in (mask.left, mask.right)]
        if parts[0] is None or parts[1] is None:
            return None
        return Split(parts[0].causal or parts[1].causal, _both(parts[0].keys, parts[1].keys))
    if mask.band() is not None or mask.within() is not None or mask.candidates(1, 1, 0, device) is not None:
        return None
    keep = mask.prepared(batch, heads, query_len, key_len, query_start, device).keep
    # an axis of size 1 in a table of several queries says that the mask does not depend on it
    if keep.shape[2] != 1:
        return None
    return Split(False, keep.expand(*keep.shape[:3], key_len))


def refuse(name: str, mask: Mask, can: str) -> Unsupported:
    """The error for a mask that a mechanism cannot honour."""
    return Unsupported(f"{name} cannot honour the mask {type(mask).__name__}; it honours {can}; use mechanism 'scored'")


def hidden(
    tensor: Float[Tensor, "batch heads key_len dim"], keys: Keys | None
) -> Float[Tensor, "batch heads key_len dim"]:
    """Keys or values with zeros, NaN included, in place of those that do not exist."""
    return tensor if keys is None else tensor.masked_fill(~keys.mT, 0.0)


def per_head(tensor: Float[Tensor, "batch kv_heads length dim"], heads: int) -> Float[Tensor, "batch heads length dim"]:
    """Keys or values once for each head of the query: head h takes that of its group."""
    group = heads // tensor.shape[1]
    return tensor if group == 1 else tensor.repeat_interleave(group, dim=1)


def _both(one: Keys | None, two: Keys | None) -> Keys | None:
    if one is None or two is None:
        return two if one is None else one
    return one & two

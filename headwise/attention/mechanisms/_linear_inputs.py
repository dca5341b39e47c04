"""What linear attentions share: the arguments they honour, keys placed under queries, and the sums."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from headwise.attention.call import Call, check, wide
from headwise.attention.masks import Mask
from headwise.attention.mechanisms._chunks import decayed_scan, scan
from headwise.attention.mechanisms._masks import hidden, per_head, refuse, split
from headwise.attention.relative import Relative
from headwise.attention.scores import Dot
from headwise.errors import ShapeError, Unsupported

_DOT = Dot()


class Inputs(NamedTuple):
    """Query, key and value in float32 or wider, zeros where no key exists, and what is left of the mask."""

    query: Tensor
    key: Tensor
    value: Tensor
    causal: bool
    keys: Bool[Tensor, "#batch #heads 1 key_len"] | None


def inputs(
    name: str,
    masks: str,
    query: Float[Tensor, "batch heads query_len dim"],
    key: Float[Tensor, "batch kv_heads key_len dim"],
    value: Float[Tensor, "batch kv_heads key_len value_dim"],
    *,
    mask: Mask | None,
    bias: Tensor | None,
    relative: Relative | None,
    query_start: int,
) -> Inputs:
    """The arguments of a mechanism that knows padding and causality only.

    Args:
        masks: what it honours of these, in words.
    Raises:
        ShapeError: tensors that do not fit.
        Unsupported: a bias, relative positions, or another mask.
    """
    refuse_added(name, bias, relative)
    call = check(Call(query, key, value, _DOT, mask=mask, query_start=query_start))
    found = split(mask, *call.shape, query_start, query.device)
    if found is None:
        assert mask is not None
        raise refuse(name, mask, masks)
    keys = found.keys
    if found.causal:
        # keys behind the last query are seen by none
        end = query_start + query.shape[2]
        key, value, keys = key[:, :, :end], value[:, :, :end], None if keys is None else keys[..., :end]
    if keys is not None and keys.shape[1] > 1:
        key, value = per_head(key, query.shape[1]), per_head(value, query.shape[1])
    return Inputs(wide(query), hidden(wide(key), keys), hidden(wide(value), keys), found.causal, keys)


def refuse_added(name: str, bias: Tensor | None, relative: Relative | None) -> None:
    """Raises: Unsupported if something is to be added to scores that never exist."""
    given = "a bias" if bias is not None else "relative positions" if relative is not None else None
    if given is not None:
        raise Unsupported(
            f"{name} cannot honour {given}: it has no table of scores to add to;"
            " use a position that turns queries and keys or is added to the input, or mechanism 'scored'"
        )


def check_width(name: str, built: int, given: int) -> None:
    """Raises: ShapeError if a map with parameters meets vectors of another width."""
    if built != given:
        raise ShapeError(f"{name} was built for head_dim ({built}), got vectors of width {given}")


def placed(tensor: Float[Tensor, "batch heads key_len dim"], end: int) -> Float[Tensor, "batch heads end dim"]:
    """The keys at positions 0 to end - 1: later ones cut off, zeros where there are none."""
    return F.pad(tensor[:, :, :end], (0, 0, 0, max(0, end - tensor.shape[2])))


def kernelised(
    query: Float[Tensor, "batch heads query_len features"],
    key: Float[Tensor, "batch kv_heads key_len features"],
    given: Inputs,
    query_start: int,
) -> Float[Tensor, "batch heads query_len value_dim"]:
    """sum_j (q_i . k_j) v_j / sum_j (q_i . k_j) over the keys that a query may see, for features of query and key.

    The denominator is one more column of the values.
    """
    key, value = hidden(key, given.keys), with_count(given.value)
    return divided((causal_sums if given.causal else all_keys)(query, key, value, query_start))


def with_count(value: Float[Tensor, "batch heads length dim"]) -> Float[Tensor, "batch heads length wide"]:
    """The values and a column of ones, whose weighted sum is the denominator."""
    return F.pad(value, (0, 1), value=1.0)


def divided(sums: Float[Tensor, "batch heads length wide"]) -> Float[Tensor, "batch heads length dim"]:
    """Weighted sums over their weights; exactly 0, with zero gradient, where there is no weight."""
    total = sums.detach()[..., -1:]
    limits = torch.finfo(sums.dtype)
    # the inverse of a smaller total (8e-25 in float32) would overflow in the gradient
    empty = total < limits.tiny / limits.eps**2
    # brought to totals of 1 first, so that the gradient does not square the inverse either
    shares = sums * total.masked_fill(empty, 1.0).reciprocal().masked_fill(empty, 0.0)
    return shares[..., :-1] * shares[..., -1:].masked_fill(empty, 1.0).reciprocal()


def all_keys(
    query: Float[Tensor, "batch heads query_len features"],
    key: Float[Tensor, "batch kv_heads key_len features"],
    value: Float[Tensor, "batch kv_heads key_len wide"],
    query_start: int,
) -> Float[Tensor, "batch heads query_len wide"]:
    """q_i (sum over all keys of k_j v_j^T), wherever the query stands."""
    heads, query_len = query.shape[1:3]
    kv_heads = key.shape[1]
    # the query heads of a group are rows of their key head
    rows = query.unflatten(1, (kv_heads, heads // kv_heads)).flatten(2, 3)
    return (rows @ (key.mT @ value)).unflatten(2, (heads // kv_heads, query_len)).flatten(1, 2)


def causal_sums(
    query: Float[Tensor, "batch heads query_len features"],
    key: Float[Tensor, "batch kv_heads key_len features"],
    value: Float[Tensor, "batch kv_heads key_len wide"],
    query_start: int,
) -> Float[Tensor, "batch heads query_len wide"]:
    """q_i (sum over keys up to its own position of k_j v_j^T)."""
    end = query_start + query.shape[2]
    key, value = placed(key, end), placed(value, end)
    past = key[:, :, :query_start].mT @ value[:, :, :query_start]
    return scan(query, key[:, :, query_start:], value[:, :, query_start:], past)[0]


def scaled(query: Float[Tensor, "batch heads length dim"]) -> Float[Tensor, "batch heads length dim"]:
    """q / sqrt(d)."""
    return query * max(1, query.shape[-1]) ** -0.5


def decayed_sums(
    query: Float[Tensor, "batch heads query_len features"],
    key: Float[Tensor, "batch heads key_len features"],
    value: Float[Tensor, "batch heads key_len wide"],
    log_decay: Float[Tensor, "#batch heads end gates"],
    query_start: int,
) -> Float[Tensor, "batch heads query_len wide"]:
    """q_i (sum over keys up to its own position of k_j v_j^T, decayed at each position after j).

    Args:
        log_decay: for the positions up to the last query's.
    """
    end = query_start + query.shape[2]
    key, value = placed(key, end), placed(value, end)
    # from the key after each to the last before the queries
    later = F.pad(log_decay[:, :, :query_start], (0, 0, 0, 1))[:, :, 1:].flip(2).cumsum(2).flip(2)
    past = (key[:, :, :query_start] * later.exp()).mT @ value[:, :, :query_start]
    key, value, log_decay = (tensor[:, :, query_start:] for tensor in (key, value, log_decay))
    return decayed_scan(query, key, value, log_decay, past)[0]


def require_causal(name: str, given: Inputs, mask: Mask | None) -> None:
    """Raises: Unsupported for a mechanism that has no form in which later keys are seen."""
    if not given.causal:
        shown = "no mask" if mask is None else f"the mask {type(mask).__name__}"
        raise Unsupported(
            f"{name} got {shown}, but its decay runs from the key to a later query:"
            " pass mask=Causal(), with padding of keys if there is any, or use mechanism 'linear'"
        )

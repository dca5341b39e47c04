"""FlexAttention on a GPU: any mask by blocks, with bias, table of distances or soft cap in the same compiled program.

Blocks of pairs that the mask forbids are skipped. On a CPU it has no gradient, needs a compiler and compiles for each
length, so it is refused there. Dong et al. 2024, arXiv:2412.05496.
"""

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.attention.call import Call
from headwise.attention.masks import Mask
from headwise.attention.normalizers import Softmax
from headwise.attention.scores import Score, SoftCap

Change = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


def refusal(call: Call) -> str | None:
    """Why this kernel cannot compute the call exactly, or None."""
    if call.query.device.type != "cuda":
        return f"it runs on a CUDA device, not on {call.query.device.type}, where it has no gradient"
    return _unfit(call)


def _unfit(call: Call) -> str | None:
    if not isinstance(call.normalizer, Softmax):
        return f"its normalizer is softmax, not {call.normalizer.name}"
    if type(_inner(call.score)).as_dot is Score.as_dot:
        return f"its score is a dot product, not {type(call.score).__name__}"
    if call.dropout:
        return "it drops no weights out"
    relative = call.relative
    if relative is not None and (
        relative.scalar is None or len(relative.tensors) > 1 or relative.distances is not None
    ):
        return "of relative positions it takes one number for each distance"
    if call.query.dtype == torch.float64:
        return "it computes in float32 or less"
    if call.mask is not None and call.mask.candidates(*call.shape[2:], call.query_start, call.query.device) is not None:
        return "a graph has too few pairs in a block"
    if 0 in call.query.shape or 0 in call.key.shape or 0 in call.value.shape:
        return "an axis is empty"
    return None


def terms(call: Call) -> dict[str, float]:
    """Amounts of work: the products of the pairs, most of which a narrow band saves."""
    batch, heads, query_len, key_len = call.shape
    left, right = (None, None) if call.mask is None else call.mask.within() or (None, None)
    # blocks are 128 wide
    seen = min(key_len, (key_len if left is None else left) + (key_len if right is None else right) + 128)
    return {"calls": 1.0, "products": float(batch * heads * query_len * seen * 2 * call.query.shape[-1])}


def compute(call: Call) -> Float[Tensor, "batch heads query_len value_dim"]:
    """The output of the call."""
    return attend_with(_compiled(), call)


def attend_with(attention: Callable[..., Any], call: Call) -> Float[Tensor, "batch heads query_len value_dim"]:
    """The call as FlexAttention takes it: `attention` is its function, compiled or not."""
    as_dot = _inner(call.score).as_dot(call.query, call.key)
    assert as_dot is not None
    query, key, scale = as_dot
    factor = call.scale if not isinstance(call.score, SoftCap) else 1.0
    output: Tensor = attention(
        query.contiguous(),
        key.contiguous(),
        call.value.contiguous(),
        score_mod=_changes(call),
        block_mask=_blocks(call),
        scale=scale * factor,
        enable_gqa=call.group > 1,
    )
    return output


@cache
def _compiled() -> Callable[..., Any]:
    # imported here, since it imports the compiler
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention, dynamic=False)


def _inner(score: Score) -> Score:
    return score.score if isinstance(score, SoftCap) else score


def _changes(call: Call) -> Change | None:
    """What happens to a score between its product and the softmax; None if nothing does."""
    if call.bias is None and call.relative is None and not isinstance(call.score, SoftCap):
        return None
    cap = call.score.cap if isinstance(call.score, SoftCap) else None
    bias, relative, start = call.bias, call.relative, call.query_start

    def changed(score: Tensor, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        if cap is not None:
            score = cap * torch.tanh(score / cap) * call.scale
        if bias is not None:
            at = [i if n > 1 else 0 * i for i, n in zip((batch, head, query, key), bias.shape, strict=True)]
            score = score + bias[at[0], at[1], at[2], at[3]]
        if relative is not None:
            assert relative.scalar is not None
            place = (key - query - start - relative.low).clamp(0, relative.size - 1)
            score = score + relative.scalar[head if relative.scalar.shape[0] > 1 else 0 * head, place]
        return score

    return lambda score, batch, head, query, key: changed(score, batch, head, query, key)


def _blocks(call: Call) -> Any:
    """The blocks of 128 x 128 pairs in which the mask allows something; remembered on the mask."""
    if call.mask is None:
        return None
    from torch.nn.attention.flex_attention import create_block_mask

    memo: dict[tuple[object, ...], Any] = call.mask.__dict__.setdefault("_blocks", {})
    shape = (*call.shape, call.query_start, call.query.device)
    if shape not in memo:
        mask, start = moved(call.mask, call.query.device), call.query_start
        # a lambda: the arguments are counted, which a wrapped function hides
        memo[shape] = create_block_mask(
            lambda batch, head, query, key: mask(batch, head, query + start, key),
            *call.shape,
            device=str(call.query.device),
        )
    return memo[shape]


def moved(mask: Mask, device: torch.device) -> Mask:
    """The same mask with its tensors on the device, where a compiled program reads them."""
    if not is_dataclass(mask):
        return mask
    parts: dict[str, object] = {}
    for field in fields(mask):
        part = getattr(mask, field.name)
        if isinstance(part, Tensor):
            parts[field.name] = part.to(device)
        elif isinstance(part, Mask):
            parts[field.name] = moved(part, device)
    return replace(mask, **parts)

"""One attention of a transformers model as a call: what its attention function is given, in the words of Headwise."""

from typing import Any

import torch
from torch import Tensor, nn

from headwise.adoption.masks import Pattern
from headwise.attention.call import Call
from headwise.attention.masks import Causal, Mask, Table
from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.attention.normalizers import Normalizer, Sinks, Softmax
from headwise.attention.scores import Dot, ScaledDot, Score, SoftCap
from headwise.errors import ConfigError, Unsupported
from headwise.records.watching import watched

# an attribute of a module that attends to another sequence
CROSS = "attends_to_memory"
# they have no parameters, so one of each serves all calls
_SCALED_DOT, _SOFTMAX = ScaledDot(), Softmax()
# arguments that change the result of an attention function and have no place in a call
_REFUSED = ("block_indices", "cache", "head_mask", "indices", "sinks")


def attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | Pattern | None,
    scaling: float | Tensor | None = None,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    position_bias: Tensor | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """The attention function that transformers is given: one call for the mechanism of the module."""
    mechanism = getattr(module, "mechanism", None)
    if not isinstance(mechanism, Mechanism):
        raise ConfigError(f"{type(module).__name__} has no mechanism: headwise.adopt(model) gives it one")
    if refused := [name for name in _REFUSED if others.get(name) is not None]:
        raise Unsupported(f"{type(module).__name__} gives its attention '{refused[0]}', which no call can say")
    if isinstance(scaling, Tensor):
        query, scaling = query * scaling, 1.0
    if attention_mask is None:
        causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        attention_mask = Pattern(Causal() if causal and query.shape[2] > 1 else None)
    mask, bias, start = _placed(attention_mask, position_bias, key.shape[2])
    if (watch := watched(mechanism)) is not None:
        # static caches write over what a record holds on to
        watch.copies = not key.requires_grad
    if not query.dtype == key.dtype == value.dtype:
        # under autocast a model may turn its queries in float32
        query, key = query.to(value.dtype), key.to(value.dtype)
    score, cross = _score(scaling, softcap, query.shape[-1]), getattr(module, CROSS, False)
    call = Call(query, key, value, score, _normalizer(s_aux), mask, bias, None, dropout, start, cross)
    output: Tensor = mechanism(call)
    return output.transpose(1, 2).contiguous(), None


def _placed(mask: Tensor | Pattern, position: Tensor | None, key_len: int) -> tuple[Mask | None, Tensor | None, int]:
    """(mask, bias, position of the first query) of what a model gave as its mask and its bias."""
    if isinstance(mask, Pattern):
        return mask.mask, position, mask.query_start
    mask = mask[..., :key_len]
    if mask.dtype == torch.bool:
        return Table(mask), position, 0
    return None, mask if position is None else mask + position, 0


def _score(scaling: float | None, softcap: float | None, width: int) -> Score:
    score = _SCALED_DOT if scaling is None or scaling == width**-0.5 else Dot(scaling)
    return score if softcap is None else SoftCap(score, softcap)


def _normalizer(sinks: Tensor | None) -> Normalizer:
    if sinks is None:
        return _SOFTMAX
    normalizer = Sinks(sinks.shape[0])
    # the module's own in place of new ones
    del normalizer.logits
    normalizer.logits = sinks  # type: ignore[assignment]
    return normalizer

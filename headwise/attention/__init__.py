"""Attention as a function: `attend` computes it, `plan` tells how it would be computed and why."""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor

from headwise.attention import normalizers, planner, scores
from headwise.attention.call import Call, check
from headwise.attention.masks import Mask
from headwise.attention.normalizers import Normalizer
from headwise.attention.planner import Plan
from headwise.attention.scores import Score
from headwise.errors import ConfigError, unknown


def attend(
    query: Float[Tensor, "batch heads query_len query_dim"],
    key: Float[Tensor, "batch kv_heads key_len key_dim"],
    value: Float[Tensor, "batch kv_heads key_len value_dim"],
    *,
    score: str | Score = "scaled_dot",
    normalizer: str | Normalizer | Callable[..., Tensor] = "softmax",
    mask: Mask | None = None,
    bias: Float[Tensor, "#batch #heads #query_len key_len"] | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
    kernel: str = "auto",
) -> Float[Tensor, "batch heads query_len value_dim"]:
    """Attention: normalizer(score(query, key) + bias under mask) @ value.

    A query with no allowed key gives exactly zero with zero gradient. What stands under the mask, NaN and infinity
    included, never reaches an output or a gradient.

    Args:
        key, value: may have fewer heads than the query, a divisor of its number (grouped-query attention).
        score: name or module; "scaled_dot", "dot", or a module such as Additive(...), which has parameters.
        normalizer: name with its option, such as "top_k:8", an object, or a function (scores, keep) -> weights.
        mask: which pairs may meet.
        bias: added to the scores before the normalizer.
        scale: factor of the dot product in place of 1 / sqrt(query_dim).
        dropout: probability of dropping a weight; applied whenever it is not 0.
        kernel: "auto", or the name of a kernel to insist on.
    Raises:
        ShapeError: tensors that do not fit; the message names the axis.
        ConfigError: an unknown name.
        Unsupported: the named kernel cannot compute this exactly.
    Source: Vaswani et al. 2017, arXiv:1706.03762, eq. 1.

    >>> import torch
    >>> x = torch.ones(2, 3, 5, 8)
    >>> attend(x, x, x).shape
    torch.Size([2, 3, 5, 8])
    """
    return planner.run(_call(query, key, value, score, normalizer, mask, bias, scale, dropout), kernel)


def plan(
    query: Float[Tensor, "batch heads query_len query_dim"],
    key: Float[Tensor, "batch kv_heads key_len key_dim"],
    value: Float[Tensor, "batch kv_heads key_len value_dim"],
    *,
    score: str | Score = "scaled_dot",
    normalizer: str | Normalizer | Callable[..., Tensor] = "softmax",
    mask: Mask | None = None,
    bias: Float[Tensor, "#batch #heads #query_len key_len"] | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
    kernel: str = "auto",
) -> Plan:
    """How `attend` with the same arguments would compute it: the kernel, the reason, why each other one does not."""
    return planner.plan(_call(query, key, value, score, normalizer, mask, bias, scale, dropout), kernel)


def _call(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score: str | Score,
    normalizer: str | Normalizer | Callable[..., Tensor],
    mask: Mask | None,
    bias: Tensor | None,
    scale: float | None,
    dropout: float,
) -> Call:
    factor = 1.0
    if scale is not None:
        if score not in ("dot", "scaled_dot"):
            raise ConfigError("scale belongs to a dot product; give the factor to the score module instead")
        score, factor = "dot", scale
    return check(
        Call(
            query,
            key,
            value,
            _score(score),
            normalizers.build(normalizer),
            mask,
            bias,
            scale=factor,
            dropout=dropout,
        )
    )


_PARAMETERLESS = {
    "dot": scores.Dot(),
    "scaled_dot": scores.ScaledDot(),
    "soft_cap": scores.build("soft_cap", 1, 1, 1, 1),
}


def _score(score: str | Score) -> Score:
    if isinstance(score, Score):
        return score
    if score in _PARAMETERLESS:
        return _PARAMETERLESS[score]
    if score in scores.SCORES:
        kind = scores.SCORES[score][0].__name__
        raise ConfigError(f"score '{score}' has parameters; pass a module: score={kind}(...)")
    raise ConfigError(unknown("score", score, scores.SCORES))

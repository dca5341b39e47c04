"""Attention as functions: `attend` computes it, `weights` shows it, `plan` tells how it would be computed and why."""

from collections.abc import Callable, Sequence

from jaxtyping import Float
from torch import Tensor

from headwise.attention import planner
from headwise.attention.call import Call
from headwise.attention.masks import Mask
from headwise.attention.normalizers import Normalizer
from headwise.attention.planner import Plan
from headwise.attention.scores import Dot, Score
from headwise.attention.weights import weights as exact_weights
from headwise.errors import ConfigError


def attend(
    query: Float[Tensor, "batch heads query_len query_dim"],
    key: Float[Tensor, "batch kv_heads key_len key_dim"],
    value: Float[Tensor, "batch kv_heads key_len value_dim"],
    *,
    score: str | Score | Callable[..., Tensor] = "scaled_dot",
    normalizer: str | Normalizer | Callable[..., Tensor] = "softmax",
    mask: Mask | Tensor | None = None,
    bias: Float[Tensor, "#batch #heads #query_len key_len"] | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
    query_start: int = 0,
    kernel: str = "auto",
) -> Float[Tensor, "batch heads query_len value_dim"]:
    """Attention: normalizer(score(query, key) + bias under mask) @ value.

    A query with no allowed key gives exactly zero, with zero gradient. Keys and values that no query of a sequence may
    see (padding, isolated nodes) are set to zero first, so NaN there never leaks, forward or backward, on any device
    and under any transform. Which these are follows from the structure of the mask (lengths, documents, edges, a band,
    a table) at linear cost, or else from its table, a few rows at a time. What some query may see must be finite, and
    so must all its dot products, hidden pairs included: content up to 1e30 is safe beside ordinary numbers, and a NaN
    spreads at most within its own sequence and head.

    Args:
        key, value: may have fewer heads than the query; kv_heads divides heads (grouped-query attention).
        score: "scaled_dot", "dot" or "soft_cap"; an object such as Additive(...), which has parameters; or a function
            (query, key) -> scores.
        normalizer: a name, with its option as in "top_k:8"; an object; or a function (scores, keep) -> weights.
        mask: which query may attend to which key; a bool tensor is a table, True = may attend.
        bias: added to the scores before the normalizer.
        scale: factor of the dot product, instead of 1 / sqrt(query_dim).
        dropout: probability of dropping a weight, in [0, 1); applied whenever it is not 0.
        query_start: position of the first query, for masks; keys start at 0.
        kernel: "auto", or the name of the kernel to use.
    Raises:
        ShapeError: tensors do not fit together; the message names the axis.
        ConfigError: an unknown name, or an argument of the wrong type.
        Unsupported: the named kernel cannot compute this exactly.
    Source: Vaswani et al. 2017, arXiv:1706.03762, eq. 1.

    >>> import torch
    >>> x = torch.ones(2, 3, 5, 8)
    >>> attend(x, x, x).shape
    torch.Size([2, 3, 5, 8])
    """
    score = _scaled(score, scale)
    return planner.run(Call(query, key, value, score, normalizer, mask, bias, None, dropout, query_start), kernel)


def plan(
    query: Float[Tensor, "batch heads query_len query_dim"],
    key: Float[Tensor, "batch kv_heads key_len key_dim"],
    value: Float[Tensor, "batch kv_heads key_len value_dim"],
    *,
    score: str | Score | Callable[..., Tensor] = "scaled_dot",
    normalizer: str | Normalizer | Callable[..., Tensor] = "softmax",
    mask: Mask | Tensor | None = None,
    bias: Float[Tensor, "#batch #heads #query_len key_len"] | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
    query_start: int = 0,
    kernel: str = "auto",
) -> Plan:
    """Which kernel `attend` would use for the same arguments, why, and why not each of the others; computes nothing.

    Raises: as `attend`.

    >>> import torch
    >>> x = torch.ones(2, 3, 5, 8)
    >>> plan(x, x, x, kernel="plain").kernel
    'plain'
    """
    score = _scaled(score, scale)
    return planner.plan(Call(query, key, value, score, normalizer, mask, bias, None, dropout, query_start), kernel)


def weights(
    query: Float[Tensor, "batch heads query_len query_dim"],
    key: Float[Tensor, "batch kv_heads key_len key_dim"],
    *,
    score: str | Score | Callable[..., Tensor] = "scaled_dot",
    normalizer: str | Normalizer | Callable[..., Tensor] = "softmax",
    mask: Mask | Tensor | None = None,
    bias: Float[Tensor, "#batch #heads #query_len key_len"] | None = None,
    scale: float | None = None,
    query_start: int = 0,
    heads: Sequence[int] | None = None,
    queries: slice = slice(None),
    keys: slice = slice(None),
) -> Float[Tensor, "batch wanted queries keys"]:
    """The exact attention weights of `attend`, before dropout, only for the given heads, queries and keys.

    Time and memory are those of the rows computed; the result is differentiable. Other arguments: as `attend`.

    Args:
        heads: query heads, in this order; None for all.
        queries, keys: ranges of positions with step 1.
    Raises:
        ShapeError: tensors do not fit together, or there is no such head or position.

    >>> import torch
    >>> x = torch.ones(1, 2, 1000, 4)
    >>> weights(x, x, heads=[1], queries=slice(7, 9), keys=slice(0, 3)).shape
    torch.Size([1, 1, 2, 3])
    """
    call = Call(query, key, key, _scaled(score, scale), normalizer, mask, bias, None, 0.0, query_start)
    return exact_weights(call, heads, queries, keys)


def _scaled(score: str | Score | Callable[..., Tensor], scale: float | None) -> str | Score | Callable[..., Tensor]:
    if scale is None:
        return score
    if score not in ("dot", "scaled_dot"):
        raise ConfigError(
            "scale belongs to a dot product; give the factor to the score, such as SoftCap(Dot(0.1), 50.0)"
        )
    return Dot(scale)

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

    What is masked, on every device and under every transform, at linear cost: keys and values that no query of a
    sequence may see (padding, isolated nodes) are taken as zero, so NaN there never leaks, forward or backward; which
    these are follows from the mask's structure (lengths, documents, edges, a band, a table), and for other masks from
    their table where a kernel makes it. What some query may see must be finite, and so must its products with what it
    does not meet: content up to 1e30 never leaks past the mask to ordinary numbers, and a NaN spreads within its own
    sequence and head at most. A query without an allowed key gives exactly
    zero with zero gradient.

    Args:
        key, value: may have fewer heads than the query, a divisor of its number (grouped-query attention).
        score: "scaled_dot", "dot" or "soft_cap"; an object such as Additive(...), which has parameters; or a function
            (query, key) -> scores.
        normalizer: name with its option, such as "top_k:8", an object, or a function (scores, keep) -> weights.
        mask: which pairs may meet; a bool tensor, True = may attend, is taken as a table.
        bias: added to the scores before the normalizer.
        scale: factor of the dot product in place of 1 / sqrt(query_dim).
        dropout: probability of dropping a weight; applied whenever it is not 0.
        query_start: position of the first query, for masks; keys start at 0.
        kernel: "auto", or the name of a kernel to insist on.
    Raises:
        ShapeError: tensors that do not fit; the message names the axis.
        ConfigError: an unknown name, or something of the wrong kind.
        Unsupported: the named kernel cannot compute this exactly.
    Source: Vaswani et al. 2017, arXiv:1706.03762, eq. 1.

    >>> import torch
    >>> x = torch.ones(2, 3, 5, 8)
    >>> attend(x, x, x).shape
    torch.Size([2, 3, 5, 8])
    """
    scored = _scaled(score, scale)
    call = Call(query, key, value, scored, normalizer, mask, bias, None, dropout, query_start)
    return planner.run(call, kernel)


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
    """How `attend` with the same arguments would compute it: the kernel, the reason, why each other one does not."""
    scored = _scaled(score, scale)
    call = Call(query, key, value, scored, normalizer, mask, bias, None, dropout, query_start)
    return planner.plan(call, kernel)


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
    """The exact weights that `attend` gives the values, of the heads, queries and keys asked for; others cost nothing.

    Args:
        heads: heads of the query in the order wanted; all if None.
        queries, keys: ranges with step 1.

    >>> import torch
    >>> x = torch.ones(1, 2, 1000, 4)
    >>> weights(x, x, heads=[1], queries=slice(7, 9), keys=slice(0, 3)).shape
    torch.Size([1, 1, 2, 3])
    """
    scored = _scaled(score, scale)
    call = Call(query, key, key, scored, normalizer, mask, bias, None, 0.0, query_start)
    return exact_weights(call, heads, queries, keys)


def _scaled(score: str | Score | Callable[..., Tensor], scale: float | None) -> str | Score | Callable[..., Tensor]:
    if scale is None:
        return score
    if score not in ("dot", "scaled_dot"):
        raise ConfigError(
            "scale belongs to a dot product; give the factor to the score, such as SoftCap(Dot(0.1), 50.0)"
        )
    return Dot(scale)

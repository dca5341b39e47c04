"""One attention as data: what a mechanism or kernel is asked to compute. Checked and coerced here only."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headwise.attention import normalizers, scores
from headwise.attention.again import held
from headwise.attention.dropout import checked
from headwise.attention.masks import Mask, Shared, Table
from headwise.attention.precision import wide
from headwise.attention.relative import Relative
from headwise.attention.scores import Score
from headwise.attention.zeros import zeroed
from headwise.errors import ConfigError, ShapeError


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """normalizer(score(query, key) + bias + relative under mask) @ value, with dropout on the weights.

    Key and value may have fewer heads than the query (a divisor: grouped-query, or one: multi-query attention); head
    h of the query then meets head h // (heads / kv_heads).

    Args:
        score: a name without parameters, such as "scaled_dot", a `Score`, or a function (query, key) -> scores.
        normalizer: a name with its option, such as "top_k:8", a `Normalizer`, a module or function (scores, keep) ->
            weights.
        mask: which pairs may meet; a bool tensor is taken as a `Table`.
        bias: added to the scores; minus infinity forbids a pair.
        relative: what distances add to scores and values, as position schemes make it.
        dropout: probability of dropping a weight; applied whenever it is not 0.
        query_start: position of the first query, for masks and distances.
        cross: whether keys come from another sequence than queries; a record shows it, nothing is computed from it.
    Raises:
        ShapeError: tensors that do not fit; the message names the axis.
        ConfigError: an unknown name, or something of the wrong kind.

    >>> x = torch.ones(2, 3, 5, 8)
    >>> Call(x, x, x, normalizer="top_k:8").normalizer.name
    'top_k:8'
    """

    query: Float[Tensor, "batch heads query_len query_dim"]
    key: Float[Tensor, "batch kv_heads key_len key_dim"]
    value: Float[Tensor, "batch kv_heads key_len value_dim"]
    # a Score, a Normalizer, and a Mask or None once the call is made, whatever was given
    score: Any = "scaled_dot"
    normalizer: Any = "softmax"
    mask: Any = None
    bias: Float[Tensor, "#batch #heads #query_len key_len"] | None = None
    relative: Relative | None = None
    dropout: float = 0.0
    query_start: int = 0
    cross: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "score", scores.as_score(self.score))
        object.__setattr__(self, "normalizer", normalizers.build(self.normalizer))
        object.__setattr__(self, "mask", _as_mask(self.mask))
        _check_tensors(self.query, self.key, self.value)
        self.score.check(self.query.shape[-1], self.key.shape[-1])
        _check_start(self.query_start)
        if self.mask is not None:
            self.mask.check(*self.shape, self.query_start)
        if self.bias is not None:
            _check_bias(self.bias, self.query, self.shape)
        if self.relative is not None:
            self.relative.check(self.value.shape[-1])
        checked(self.dropout)

    @property
    def group(self) -> int:
        """Query heads per key/value head."""
        return self.query.shape[1] // self.key.shape[1]

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(batch, heads, query_len, key_len)."""
        batch, heads, query_len, _ = self.query.shape
        return batch, heads, query_len, self.key.shape[2]

    @property
    def tensors(self) -> list[Tensor]:
        """All tensors that the output is made of, those of score and normalizer too."""
        found = [self.query, self.key, self.value, *(() if self.bias is None else (self.bias,))]
        found += () if self.relative is None else self.relative.tensors
        return [*found, *held(self.score).values(), *held(self.normalizer).values()]

    @property
    def learns(self) -> bool:
        """Whether a gradient will be asked for."""
        inputs = self.query.requires_grad or self.key.requires_grad or self.value.requires_grad
        return torch.is_grad_enabled() and (inputs or any(tensor.requires_grad for tensor in self.tensors))

    def keep(self, rows: tuple[int, int] | None = None) -> Bool[Tensor, "#batch #heads #rows #key_len"] | None:
        """The table of what mask and bias allow; None if they allow everything.

        Args:
            rows: first and last + 1 of the queries; None: all.
        """
        keep, bias = None, self.bias
        batch, heads, queries, keys = self.shape
        first, last = rows or (0, queries)
        if self.mask is not None:
            start = {"query_start": self.query_start + first, "key_start": None if rows is None else 0}
            keep = self.mask.dense(batch, heads, last - first, keys, **start, device=self.query.device)
        if bias is not None:
            allowed = (bias if rows is None or bias.shape[2] == 1 else bias[:, :, first:last]) != -math.inf
            keep = allowed if keep is None else keep & allowed
        return keep

    def tabled(self) -> int:
        """Pairs in the table of `keep`, which is as wide as mask and bias need; 0 without both. Computes nothing."""
        shapes = [] if self.bias is None else [self.bias.shape]
        if self.mask is not None:
            try:
                # of a shared mask, nothing is to be kept
                mask = self.mask.mask if isinstance(self.mask, Shared) else self.mask
                shapes.append(mask.dense(*self.shape, query_start=self.query_start, device="meta").shape)
            except (RuntimeError, NotImplementedError):
                # a predicate that reads values
                shapes.append(torch.Size(self.shape))
        return math.prod(torch.broadcast_shapes(*shapes)) if shapes else 0

    def clean(
        self, keep: Bool[Tensor, "#batch #heads #query_len #key_len"] | None = None, rows: tuple[int, int] | None = None
    ) -> "Call":
        """The same call with zeros in keys and values that no query of a sequence may see.

        Their weights are zero, but 0 x NaN is NaN, in the product with the values and in the gradient of the queries.

        Args:
            keep: the table, where there is one; without it the mask says which they are.
            rows: first and last + 1 of the queries that count, without a table; None: all.
        """
        if self.mask is None:
            return self
        batch, heads, query_len, key_len = self.shape
        first, last = (0, query_len) if rows is None else rows
        if first == last:
            # nobody sees a key, whatever the mask would show
            seen = torch.zeros(1, 1, key_len, dtype=torch.bool, device=self.query.device)
        elif keep is None or self.mask.tells_who_sees():
            seen = self.mask.seen(batch, heads, last - first, key_len, self.query_start + first, self.query.device)
        else:
            seen = keep.any(2)
        if seen is None:
            return self
        if seen.shape[1] > 1 and self.group > 1:
            seen = seen.unflatten(1, (-1, self.group)).any(2)
        # of the same shapes, which were checked; a compiler cannot trace `copy.copy`
        cleaned = object.__new__(Call)
        for name in Call.__slots__:
            object.__setattr__(cleaned, name, getattr(self, name))
        object.__setattr__(cleaned, "key", zeroed(self.key, seen.unsqueeze(-1)))
        object.__setattr__(cleaned, "value", zeroed(self.value, seen.unsqueeze(-1)))
        return cleaned

    def products(
        self, score: Score | None = None, asking: Bool[Tensor, "#batch #heads #query_len 1"] | None = None
    ) -> tuple[Tensor, Tensor, Tensor, float]:
        """(query, key, value, scale) whose products scale * q . k are the scores, for a score that is a product.

        What a score makes of half-precision vectors is float32, and so are then all three.

        Args:
            asking: which queries see a key; the others are zero before the score gets them, so that none of their NaN
                reaches its parameters.
        """
        query, key, value, score = self.query, self.key, self.value, score or self.score
        query = query if asking is None else zeroed(query, asking)
        if not is_plain(score):
            query, key, value = wide(query), wide(key), wide(value)
        query, key, scale = score.as_dot(query, key)
        return query, key, value, scale

    def asking(self, keep: Bool[Tensor, "#batch #heads #query_len #key_len"]) -> Bool[Tensor, "_ _ _ 1"] | None:
        """Which queries see a key; None if what the others hold reaches nothing in a clean call.

        Their scores have no gradient, but 0 x NaN is NaN, in the gradients of keys and of parameters.
        """
        plain = is_plain(self.score) and type(self.normalizer) is normalizers.Softmax
        told = self.mask is not None and self.mask.tells_who_sees() and self.bias is None and self.relative is None
        return None if plain and told else keep.any(-1, keepdim=True)


def is_plain(score: Score) -> bool:
    """Whether the score takes query and key as they are, with nothing that learns."""
    return type(score) in (scores.Dot, scores.ScaledDot)


def per_head(tensor: Float[Tensor, "batch kv_heads length dim"], heads: int) -> Float[Tensor, "batch heads length dim"]:
    """Keys or values once for each head of the query: head h takes that of its group."""
    group = heads // tensor.shape[1]
    return tensor if group == 1 else tensor.repeat_interleave(group, dim=1)


def _as_mask(mask: object) -> Mask | None:
    if mask is None or isinstance(mask, Mask):
        return mask
    if isinstance(mask, Tensor):
        return Table(mask)
    if isinstance(mask, type) and issubclass(mask, Mask):
        raise ConfigError(f"mask is the class {mask.__name__}; pass an instance, such as {mask.__name__}(...)")
    raise ConfigError(f"mask must be a Mask or a bool tensor (True = may attend), got {type(mask).__name__}")


def _check_start(start: object) -> None:
    if not isinstance(start, int | torch.SymInt) or (isinstance(start, int) and not 0 <= start < 2**62):
        raise ShapeError(f"query_start must be a position from 0 on, got {start!r}")


def _check_tensors(query: Tensor, key: Tensor, value: Tensor) -> None:
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if not isinstance(tensor, Tensor):
            raise ShapeError(f"{name} must be a tensor, got {type(tensor).__name__}")
        if tensor.ndim != 4:
            raise ShapeError(f"{name} must be (batch, heads, length, head_dim), got {tuple(tensor.shape)}")
        if not tensor.is_floating_point():
            raise ShapeError(f"{name} must hold floating-point numbers, got {tensor.dtype}")
        if tensor.dtype != query.dtype or tensor.device != query.device:
            given = f"query {query.dtype} on {query.device}, {name} {tensor.dtype} on {tensor.device}"
            raise ShapeError(f"{given}: bring them to one type and device, with .to(query)")
    if not query.shape[0] == key.shape[0] == value.shape[0]:
        raise ShapeError(f"batch differs: query {query.shape[0]}, key {key.shape[0]}, value {value.shape[0]}")
    if key.shape[1:3] != value.shape[1:3]:
        raise ShapeError(f"key {tuple(key.shape[1:3])} and value {tuple(value.shape[1:3])} differ in (heads, length)")
    if key.shape[1] == 0 or query.shape[1] % key.shape[1]:
        raise ShapeError(f"heads of key and value ({key.shape[1]}) must divide heads of query ({query.shape[1]})")


def _check_bias(bias: Tensor, query: Tensor, wanted: tuple[int, int, int, int]) -> None:
    if not isinstance(bias, Tensor):
        raise ShapeError(f"bias must be a tensor, got {type(bias).__name__}")
    if not bias.is_floating_point():
        raise ShapeError(f"bias is added to scores, got {bias.dtype}; which pairs may meet is said by mask=")
    if bias.device != query.device:
        raise ShapeError(f"bias is on {bias.device}, query on {query.device}: bring them to one device")
    if (
        bias.ndim != 4
        or bias.shape[3] != wanted[3]
        or any(n not in (1, m) for n, m in zip(bias.shape, wanted, strict=True))
    ):
        raise ShapeError(f"bias {tuple(bias.shape)} does not fit (batch, heads, query_len, key_len) = {wanted}")

"""One attention as data: what a mechanism or kernel is asked to compute. Checked and coerced here only."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headwise.attention import normalizers, scores
from headwise.attention.checkpointing import tensors_of
from headwise.attention.dropout import check_dropout
from headwise.attention.masks import Mask, Part, Place, Structure, Table
from headwise.attention.normalizers import Normalizer
from headwise.attention.precision import wide
from headwise.attention.relative import Relative
from headwise.attention.scores import Score
from headwise.attention.zeros import zeroed
from headwise.errors import ConfigError, ShapeError


# not frozen, which would take 2 us a call (AMD EPYC, 2026-11-25); nothing changes one
@dataclass(slots=True, eq=False)
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
        gates: numbers that a mechanism takes from the layer's input, such as decays, for each head and key: made by
            its `gate_module`. Without heads of their own for keys: those of the query.
        clean: whether what attends to nothing, and what nothing attends to, holds no NaN, see `zero_unseen`.
        structure: what is known of the mask at these sizes; the mask is asked for it.
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
    clean: bool = False
    structure: Any = None
    gates: Float[Tensor, "batch heads key_len gates"] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.score, Score):
            self.score = scores.as_score(self.score)
        if not isinstance(self.normalizer, Normalizer):
            self.normalizer = normalizers.build(self.normalizer)
        _check_tensors(self.query, self.key, self.value)
        self.score.check(self.query.shape[-1], self.key.shape[-1])
        start = self.query_start
        if not isinstance(start, int | torch.SymInt) or (isinstance(start, int) and not 0 <= start < 2**62):
            raise ShapeError(f"query_start must be a position from 0 on, got {start!r}")
        if self.mask is None:
            self.structure = _OPEN
        else:
            if not isinstance(self.mask, Mask):
                self.mask = _as_mask(self.mask)
            place = Place(*self.shape, self.query_start, self.query.device)
            if self.structure is None or self.structure.mask is not self.mask or self.structure.place != place:
                self.structure = self.mask.structure(place)
        if self.bias is not None:
            _check_bias(self.bias, self.query, self.shape)
        if self.relative is not None:
            self.relative.check(self.value.shape[-1])
        if self.gates is not None:
            _check_gates(self.gates, self.query, self.shape)
        if self.dropout != 0.0:
            check_dropout(self.dropout)

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
        tensors = [self.query, self.key, self.value, *(() if self.bias is None else (self.bias,))]
        tensors += () if self.relative is None else self.relative.tensors
        tensors += () if self.gates is None else (self.gates,)
        return [*tensors, *tensors_of(self.score).values(), *tensors_of(self.normalizer).values()]

    @property
    def learns(self) -> bool:
        """Whether a gradient will be asked for."""
        inputs = self.query.requires_grad or self.key.requires_grad or self.value.requires_grad
        return torch.is_grad_enabled() and (inputs or any(tensor.requires_grad for tensor in self.tensors))

    def keep(self) -> Bool[Tensor, "#batch #heads #query_len #key_len"] | None:
        """The table of what mask and bias allow; None if they allow everything."""
        keep = None if self.structure.open else self.structure.table()
        if self.bias is None:
            return keep
        allowed = self.bias != -math.inf
        return allowed if keep is None else keep & allowed

    def tabled(self) -> int:
        """Pairs in the table of `keep`, which is as wide as mask and bias need; 0 without both. Computes nothing."""
        shapes = [] if self.bias is None else [self.bias.shape]
        if not self.structure.open:
            try:
                shapes.append(self.mask.dense(*self.shape, query_start=self.query_start, device="meta").shape)
            except (RuntimeError, NotImplementedError):
                # a predicate that reads values
                shapes.append(torch.Size(self.shape))
        return math.prod(torch.broadcast_shapes(*shapes)) if shapes else 0

    def zero_unseen(self) -> "Call":
        """The same call with zeros in keys and values that no query may attend to: 0 x NaN is NaN.

        Their weights are zero, but not their products with values and with the gradients of queries. Queries that may
        attend to nothing are zero too, unless nothing but keys and values that are zeros meets them.
        """
        if self.structure.open or self.clean:
            return self
        keys, key, value, query = self.structure.key_mask(), self.key, self.value, self.query
        gates = self.gates
        if keys is not None:
            gates = None if gates is None else zeroed(gates, keys.unsqueeze(-1))
            if keys.shape[1] > 1 and self.group > 1:
                keys = keys.unflatten(1, (-1, self.group)).any(2)
            key, value = zeroed(key, keys.unsqueeze(-1)), zeroed(value, keys.unsqueeze(-1))
        alone = is_plain(self.score) and type(self.normalizer) is normalizers.Softmax
        if not (alone and self.structure.leading_keys) and (queries := self.structure.query_mask()) is not None:
            query = zeroed(query, queries.unsqueeze(-1))
        if key is self.key and query is self.query:
            return self
        return replace(self, query=query, key=key, value=value, gates=gates, clean=True)

    def part(
        self,
        heads: Sequence[int] | None = None,
        queries: tuple[int, int] | None = None,
        keys: tuple[int, int] | None = None,
    ) -> "Call":
        """The same attention for these heads, the queries first .. last - 1 and the keys first .. last - 1; None: all.

        Positions of queries stay what they are; keys count from 0, for the mask and distances too.
        """
        (first, last), (low, high) = queries or (0, self.shape[2]), keys or (0, self.shape[3])
        query, bias, mask, gates = self.query[:, :, first:last], self.bias, self.mask, self.gates
        gates = None if gates is None else gates[:, slice(None) if heads is None else heads, low:high]
        shared = self.value is self.key
        key, value = self.key[:, :, low:high], self.value[:, :, low:high]
        if bias is not None:
            bias = (bias if bias.shape[2] == 1 else bias[:, :, first:last])[..., low:high]
        if heads is not None:
            groups = [head // self.group for head in heads]
            query, key, value = query[:, heads], key[:, groups], value if shared else value[:, groups]
            bias = bias[:, heads] if bias is not None and bias.shape[1] > 1 else bias
        if self.structure.open:
            mask = None
        elif (heads, queries, keys) != (None, None, None):
            mask = Part(mask, None if heads is None else tuple(heads), low)
        relative = None if self.relative is None else self.relative.part(heads, queries, keys)
        start = self.query_start + first
        value = key if shared else value
        tensors: dict[str, Any] = {"query": query, "key": key, "value": value, "bias": bias, "relative": relative}
        return replace(self, **tensors, gates=gates, mask=mask, query_start=start)

    def products(self, score: Score | None = None, query: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor, float]:
        """(query, key, value, scale) whose products scale * q . k are the scores, for a score that is a product.

        What a score makes of half-precision vectors is float32, and so are then all three.

        Args:
            score, query: in place of those of the call.
        """
        query, key, value, score = self.query if query is None else query, self.key, self.value, score or self.score
        if not is_plain(score):
            query, key, value = wide(query), wide(key), wide(value)
        query, key, scale = score.as_dot(query, key)
        return query, key, value, scale


# without a mask
_OPEN = Structure(None, None, (None, None))


def is_plain(score: Score) -> bool:
    """Whether the score takes query and key as they are, with nothing that learns."""
    return type(score) in (scores.Dot, scores.ScaledDot)


def per_head(tensor: Float[Tensor, "batch kv_heads length dim"], heads: int) -> Float[Tensor, "batch heads length dim"]:
    """Keys or values once for each head of the query: head h takes that of its group."""
    group = heads // tensor.shape[1]
    return tensor if group == 1 else tensor.repeat_interleave(group, dim=1)


def _as_mask(mask: object) -> Mask:
    if isinstance(mask, Tensor):
        return Table(mask)
    if isinstance(mask, type) and issubclass(mask, Mask):
        raise ConfigError(f"mask is the class {mask.__name__}; pass an instance, such as {mask.__name__}(...)")
    raise ConfigError(f"mask must be a Mask or a bool tensor (True = may attend), got {type(mask).__name__}")


def _check_tensors(query: Tensor, key: Tensor, value: Tensor) -> None:
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if not isinstance(tensor, Tensor):
            raise ShapeError(f"{name} must be a tensor, got {type(tensor).__name__}")
        if tensor.ndim != 4:
            raise ShapeError(f"{name} must be (batch, heads, length, head_dim), got {tuple(tensor.shape)}")
        if not tensor.is_floating_point():
            raise ShapeError(f"{name} must hold floating-point numbers, got {tensor.dtype}")
        if tensor.dtype != query.dtype or tensor.device != query.device:
            placement = f"query {query.dtype} on {query.device}, {name} {tensor.dtype} on {tensor.device}"
            raise ShapeError(f"{placement}: bring them to one type and device, with .to(query)")
    if not query.shape[0] == key.shape[0] == value.shape[0]:
        raise ShapeError(f"batch differs: query {query.shape[0]}, key {key.shape[0]}, value {value.shape[0]}")
    if key.shape[1:3] != value.shape[1:3]:
        raise ShapeError(f"key {tuple(key.shape[1:3])} and value {tuple(value.shape[1:3])} differ in (heads, length)")
    if key.shape[1] == 0 or query.shape[1] % key.shape[1]:
        raise ShapeError(f"heads of key and value ({key.shape[1]}) must divide heads of query ({query.shape[1]})")


def _check_gates(gates: Tensor, query: Tensor, shape: tuple[int, int, int, int]) -> None:
    batch, heads, _, key_len = shape
    if not isinstance(gates, Tensor) or not gates.is_floating_point():
        raise ShapeError("gates must be a tensor of floating-point numbers, as the gate_module of a mechanism makes it")
    if gates.ndim != 4 or gates.shape[:3] != (batch, heads, key_len):
        raise ShapeError(f"gates {tuple(gates.shape)} do not fit (batch, heads, key_len) = {(batch, heads, key_len)}")
    if gates.device != query.device:
        raise ShapeError(f"gates are on {gates.device}, query on {query.device}: bring them to one device")


def _check_bias(bias: Tensor, query: Tensor, shape: tuple[int, int, int, int]) -> None:
    if not isinstance(bias, Tensor):
        raise ShapeError(f"bias must be a tensor, got {type(bias).__name__}")
    if not bias.is_floating_point():
        raise ShapeError(f"bias is added to scores, got {bias.dtype}; which pairs may meet is said by mask=")
    if bias.device != query.device:
        raise ShapeError(f"bias is on {bias.device}, query on {query.device}: bring them to one device")
    if (
        bias.ndim != 4
        or bias.shape[3] != shape[3]
        or any(n not in (1, m) for n, m in zip(bias.shape, shape, strict=True))
    ):
        raise ShapeError(f"bias {tuple(bias.shape)} does not fit (batch, heads, query_len, key_len) = {shape}")

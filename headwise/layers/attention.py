"""Multi-head attention: heads, projections and memory around any mechanism."""

import math
from dataclasses import replace
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.masks import Mask
from headwise.attention.mechanisms.mechanism import Mechanism, Recurrent
from headwise.attention.relative import Relative
from headwise.caches import AttentionStep, KeyValues, Segments, States
from headwise.errors import ConfigError, ShapeError, Unsupported
from headwise.positions.position import Position

Shared = Literal["none", "qk", "kv", "qkv"]
Combine = Literal["concat", "mean"]


class MultiHeadAttention(nn.Module):
    """Concat(head_1 ... head_h) W_o with head_i = mechanism(x W_q,i, m W_k,i, m W_v,i); m is x or a memory.

    Projections of one input are a single matrix product: rows of `projection` are W_q, W_k and W_v, head by head.

    Args:
        d_model: width of x and of the result.
        num_heads: heads of the query.
        mechanism: what each head computes.
        num_kv_heads: heads of key and value, a divisor of num_heads (grouped-query; 1: multi-query); all if None.
        memory_dim: width of the memory, for a layer that is only ever used for cross-attention; None: as x.
        head_dim: width of a head; d_model / num_heads if None.
        position: a scheme that acts on queries, keys or scores (rotary); self-attention only.
        bias: whether the projections have biases.
        shared: "qk", "kv" or "qkv" give queries and keys, keys and values, or all three, one matrix. With Q = K most
            of a row's weight lies on its diagonal, so a layer of this kind is nearly a position-wise one.
        combine: "concat" joins the heads' outputs before W_o, "mean" averages them, for heads as wide as the model.
    Raises:
        ConfigError: sizes that do not divide, or do not fit what is shared; the message names those that do.
    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.2; Ainslie et al. 2023, arXiv:2305.13245 (grouped-query).

    >>> from headwise.attention.mechanisms.scored import Scored
    >>> MultiHeadAttention(100, 5, Scored())(torch.ones(2, 4, 100), torch.ones(2, 6, 100)).shape
    torch.Size([2, 4, 100])
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        mechanism: Mechanism,
        *,
        num_kv_heads: int | None = None,
        memory_dim: int | None = None,
        head_dim: int | None = None,
        position: Position | None = None,
        bias: bool = True,
        shared: Shared = "none",
        combine: Combine = "concat",
    ):
        super().__init__()
        check_heads(d_model, num_heads, num_kv_heads, head_dim)
        _check_shared(shared, num_heads, num_kv_heads, memory_dim)
        self.d_model, self.num_heads, self.num_kv_heads = d_model, num_heads, num_kv_heads or num_heads
        self.head_dim = head_dim or d_model // num_heads
        self.mechanism = mechanism
        self.position = position
        self.shared, self.combine = shared, combine
        self._query_width = self.num_heads * self.head_dim
        # rows of the packed matrix that belong to keys and values
        self._memory_start = 0 if shared in ("qk", "qkv") else self._query_width
        copies = {"none": 2, "qk": 1, "kv": 1, "qkv": 0}[shared]
        memory_width = copies * self.num_kv_heads * self.head_dim
        own = memory_width if memory_dim is None else 0
        self.projection = nn.Linear(d_model, self._query_width + own, bias=bias)
        self.memory_projection = None if memory_dim is None else nn.Linear(memory_dim, memory_width, bias=bias)
        self.output = nn.Linear(self._query_width if combine == "concat" else self.head_dim, d_model, bias=bias)

    def forward(
        self,
        x: Float[Tensor, "batch length d_model"],
        memory: Float[Tensor, "batch memory_len memory_dim"] | None = None,
        *,
        mask: Mask | None = None,
        cache: AttentionStep | None = None,
    ) -> Float[Tensor, "batch length d_model"]:
        """Self-attention over x, or cross-attention from x to a memory.

        With a cache, self-attention appends its keys and values to it and sees all stored ones, or goes on from the
        state it holds; cross-attention projects its memory at the first call and reads it from then on, when `memory`
        is left out. With a cache of `Segments` it sees the segments before x.
        """
        if cache is None:
            return self._joined(self._attend(*self._project(x, memory, mask), mask, 0, positioned=memory is None))
        if isinstance(cache.memory, Segments):
            return self._joined(self._extended(x, mask, cache.memory))
        if memory is not None or (isinstance(cache.memory, KeyValues) and cache.memory.fixed):
            return self._joined(self._crossed(x, memory, mask, cache))
        query, key, value = self._project(x, None, mask)
        query, key = self._turn(query, cache), self._turn(key, cache)
        if cache.beams > 1 and not cache.memory.shares_beams:
            # hypotheses that lie side by side become rows of their own
            query, key, value = (heads.transpose(1, 2).flatten(0, 1).unsqueeze(2) for heads in (query, key, value))
            heads = self._stepped(query, key, value, mask, cache).squeeze(2).unflatten(0, x.shape[:2]).transpose(1, 2)
        else:
            heads = self._stepped(query, key, value, mask, cache)
        return self._joined(heads)

    def kept(self) -> KeyValues | States:
        """An empty cache for this layer's self-attention."""
        if isinstance(self.mechanism, Recurrent):
            return States()
        facts = getattr(self.mechanism, "facts", None)
        placed = self.position is None or self.position.side_by_side()
        return KeyValues(shares_beams=placed and (facts is None or facts.steps == "shared"))

    def project_memory(
        self, memory: Float[Tensor, "batch memory_len memory_dim"], mask: Mask | None
    ) -> Float[Tensor, "batch twice memory_len head_dim"]:
        """Keys, then values, of a memory, to be kept while it is attended to; what no query may see becomes finite."""
        return self._memory(_hidden(memory, mask, 1))

    def parts(self) -> list[Tensor]:
        """The weight matrices packed in the projections, for initialisation: W_q, W_k, W_v (those there are), W_o."""
        width = self.num_kv_heads * self.head_dim
        rows = self.projection.weight
        packed = rows[self._query_width :] if self.memory_projection is None else self.memory_projection.weight
        parts = packed.split(width) if packed.shape[0] else ()
        return [rows[: self._query_width], *parts, self.output.weight]

    def extra_repr(self) -> str:
        return f"d_model={self.d_model}, heads={self.num_heads}, kv_heads={self.num_kv_heads}, head_dim={self.head_dim}"

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Mask | None,
        start: int,
        *,
        positioned: bool,
        cache: AttentionStep | None = None,
        known: bool = False,
    ) -> Tensor:
        bias, relative = None if cache is None else cache.ancestry, None
        if positioned and self.position is not None:
            if cache is None:
                query, key = self.position.rotate(query, start), self.position.rotate(key, 0)
            bias = _added(self.position.bias(query, key, start), bias)
            relative = self._relative(query, key, start, cache)
        return self.mechanism(
            query,
            key,
            value,
            mask=mask,
            bias=bias,
            relative=relative,
            query_start=start,
            finite=known or (cache is not None and cache.ancestry is not None),
        )

    def _relative(self, query: Tensor, key: Tensor, start: int, cache: AttentionStep | None) -> Relative | None:
        assert self.position is not None
        if cache is None or cache.key_positions is None:
            return self.position.relative(
                query, key, min(0, 1 - start - query.shape[2]), max(0, key.shape[2] - 1 - start)
            )
        relative = self.position.relative(query, key, -start, 0)
        distances = (cache.key_positions - start).expand(query.shape[2], -1)
        return None if relative is None else relative.placed(distances)

    def _stepped(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask | None, cache: AttentionStep) -> Tensor:
        """Self-attention of new tokens that were turned already, after those that the cache holds."""
        memory = cache.memory
        if isinstance(memory, States):
            mechanism = self.mechanism
            assert isinstance(mechanism, Recurrent)
            if mask is not None and not mask.is_causal():
                raise Unsupported(f"cached steps of {type(mechanism).__name__} are causal; they honour no other mask")
            heads, memory.tensors = mechanism.resume(query, key, value, memory.tensors)
            return heads
        assert isinstance(memory, KeyValues)
        key, value = memory.append(torch.cat((key, value), dim=1))
        shared = cache if memory.shares_beams else replace(cache, ancestry=None, key_positions=None)
        return self._attend(query, key, value, mask, cache.position, positioned=True, cache=shared)

    def _crossed(self, x: Tensor, memory: Tensor | None, mask: Mask | None, cache: AttentionStep) -> Tensor:
        assert isinstance(cache.memory, KeyValues)
        known = memory is None
        if memory is not None:
            cache.memory.fill(self._memory(_hidden(memory, mask, x.shape[1])))
        key, value = cache.memory.read()
        return self._attend(self._query(x), key, value, mask, cache.position, positioned=False, known=known)

    def _extended(self, x: Tensor, mask: Mask | None, segments: Segments) -> Tensor:
        both = self._memory(segments.extend(_hidden(x, mask, x.shape[1])))
        key, value = both.chunk(2, dim=1)
        start = key.shape[2] - x.shape[1]
        return self._attend(self._query(x), key, value, mask, start, positioned=True)

    def _project(self, x: Tensor, memory: Tensor | None, mask: Mask | None) -> tuple[Tensor, Tensor, Tensor]:
        if memory is not None:
            key, value = self._memory(_hidden(memory, mask, x.shape[1])).chunk(2, dim=1)
            return self._query(x), key, value
        if self.memory_projection is not None:
            raise ShapeError("this layer was built for cross-attention (memory_dim): pass memory")
        packed = self._heads(self.projection(_hidden(x, mask, x.shape[1])))
        query, rest = packed[:, : self.num_heads], packed[:, self.num_heads :]
        if self.shared == "none":
            key, value = rest.chunk(2, dim=1)
            return query, key, value
        return query, *{"qk": (query, rest), "kv": (rest, rest), "qkv": (query, query)}[self.shared]

    def _query(self, x: Tensor) -> Tensor:
        if self.memory_projection is not None:
            return self._heads(self.projection(x))
        bias = None if self.projection.bias is None else self.projection.bias[: self._query_width]
        # views: the first rows of the packed matrix are the query's
        return self._heads(F.linear(x, self.projection.weight[: self._query_width], bias))

    def _memory(self, memory: Tensor) -> Tensor:
        if self.memory_projection is not None:
            both = self._heads(self.memory_projection(memory))
        else:
            bias = None if self.projection.bias is None else self.projection.bias[self._memory_start :]
            both = self._heads(F.linear(memory, self.projection.weight[self._memory_start :], bias))
        return both if self.shared in ("none", "qk") else torch.cat((both, both), dim=1)

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)

    def _joined(self, heads: Tensor) -> Tensor:
        joined = heads.transpose(1, 2).flatten(2) if self.combine == "concat" else heads.mean(1)
        output: Tensor = self.output(joined)
        return output

    def _turn(self, heads: Tensor, cache: AttentionStep) -> Tensor:
        if self.position is None:
            return heads
        if cache.beams == 1:
            return self.position.rotate(heads, cache.position)
        # beams side by side share one position
        return self.position.rotate(heads.unsqueeze(-2), cache.position).squeeze(-2)


def check_heads(d_model: int, num_heads: int, num_kv_heads: int | None, head_dim: int | None = None) -> None:
    """Raises: ConfigError if the heads do not fit the width, naming the nearest numbers that do."""
    if num_heads < 1 or (head_dim is None and d_model % num_heads):
        fitting = [heads for heads in range(1, d_model + 1) if d_model % heads == 0]
        nearest = sorted(sorted(fitting, key=lambda heads: abs(heads - num_heads))[:3])
        raise ConfigError(
            f"num_heads ({num_heads}) must divide d_model ({d_model}); nearest that do: {_listed(nearest)}"
        )
    if num_kv_heads is not None and (num_kv_heads < 1 or num_heads % num_kv_heads):
        fitting = [heads for heads in range(1, num_heads + 1) if num_heads % heads == 0]
        raise ConfigError(
            f"num_kv_heads ({num_kv_heads}) must divide num_heads ({num_heads}); these do: {_listed(fitting)}"
        )


def _check_shared(shared: str, num_heads: int, num_kv_heads: int | None, memory_dim: int | None) -> None:
    if shared in ("qk", "qkv") and num_kv_heads not in (None, num_heads):
        raise ConfigError(
            f"shared='{shared}' needs as many key heads as query heads, got {num_kv_heads} and {num_heads}"
        )
    if shared in ("qk", "qkv") and memory_dim is not None:
        raise ConfigError(f"shared='{shared}' projects x and the memory alike: leave memory_dim out")


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))


def _added(one: Tensor | None, two: Tensor | None) -> Tensor | None:
    if one is None or two is None:
        return two if one is None else one
    return one + two


def _hidden(source: Tensor, mask: Mask | None, query_len: int) -> Tensor:
    """The source with zeros for what no query may see, if it holds NaN or infinity: 0 x NaN would spoil gradients."""
    if mask is None:
        return source
    eager = source.device.type == "cpu" and not torch.compiler.is_compiling()
    if eager and math.isfinite(source.detach().sum(dtype=torch.float32).item()):
        return source
    keep = mask.prepared(source.shape[0], 1, query_len, source.shape[1], 0, source.device).keep
    seen = keep.any(2).any(1).expand(source.shape[0], source.shape[1])
    return source.masked_fill(~seen.unsqueeze(-1), 0.0)

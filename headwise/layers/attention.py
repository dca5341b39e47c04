"""Multi-head attention: heads, projections and memory around any mechanism."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.masks import Mask
from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.caches import AttentionStep
from headwise.errors import ConfigError, ShapeError
from headwise.positions.position import Position


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
    Raises:
        ConfigError: sizes that do not divide; the message names sizes that do.
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
    ):
        super().__init__()
        check_heads(d_model, num_heads, num_kv_heads, head_dim)
        self.d_model, self.num_heads, self.num_kv_heads = d_model, num_heads, num_kv_heads or num_heads
        self.head_dim = head_dim or d_model // num_heads
        self.mechanism = mechanism
        self.position = position
        self._query_width = self.num_heads * self.head_dim
        memory_width = 2 * self.num_kv_heads * self.head_dim
        own = memory_width if memory_dim is None else 0
        self.projection = nn.Linear(d_model, self._query_width + own, bias=bias)
        self.memory_projection = None if memory_dim is None else nn.Linear(memory_dim, memory_width, bias=bias)
        self.output = nn.Linear(self._query_width, d_model, bias=bias)

    def forward(
        self,
        x: Float[Tensor, "batch length d_model"],
        memory: Float[Tensor, "batch memory_len memory_dim"] | None = None,
        *,
        mask: Mask | None = None,
        cache: AttentionStep | None = None,
    ) -> Float[Tensor, "batch length d_model"]:
        """Self-attention over x, or cross-attention from x to a memory.

        With a cache, self-attention appends its keys and values to it and sees all stored ones; cross-attention
        projects its memory at the first call and reads it from then on, when `memory` is left out.
        """
        start = 0 if cache is None else cache.position
        ancestry = None if cache is None or memory is not None or cache.memory.fixed else cache.ancestry
        known = False
        if cache is not None and cache.memory.fixed:
            query, (key, value), known = self._query(x), cache.memory.read(), True
        else:
            query, both = self._project(x, memory, mask)
            key, value = both.chunk(2, dim=1)
            if memory is None and self.position is not None:
                query, key = self._turn(query, start, ancestry), self._turn(key, start, ancestry)
                both = both if cache is None else torch.cat((key, value), dim=1)
            if cache is not None and memory is not None:
                cache.memory.fill(both)
            elif cache is not None:
                key, value = cache.memory.append(both)
        bias, relative = ancestry, None
        if memory is None and not known and self.position is not None:
            bias = _added(self.position.bias(query, key, start), ancestry)
            low, high = 1 - start - query.shape[2], key.shape[2] - 1 - start
            relative = self.position.relative(query, key, min(low, 0), max(high, 0))
        heads = self.mechanism(
            query,
            key,
            value,
            mask=mask,
            bias=bias,
            relative=relative,
            query_start=start,
            finite=known or ancestry is not None,
        )
        return self.output(heads.transpose(1, 2).flatten(2))

    def project_memory(
        self, memory: Float[Tensor, "batch memory_len memory_dim"], mask: Mask | None
    ) -> Float[Tensor, "batch twice memory_len head_dim"]:
        """Keys, then values, of a memory, to be kept while it is attended to; what no query may see becomes finite."""
        return self._memory(_hidden(memory, mask, 1))

    def parts(self) -> list[Tensor]:
        """The weight matrices packed in the projections, for initialisation: W_q, W_k, W_v and W_o."""
        width = self.num_kv_heads * self.head_dim
        if self.memory_projection is None:
            packed = list(self.projection.weight.split([self._query_width, width, width]))
        else:
            packed = [self.projection.weight, *self.memory_projection.weight.split([width, width])]
        return [*packed, self.output.weight]

    def extra_repr(self) -> str:
        return f"d_model={self.d_model}, heads={self.num_heads}, kv_heads={self.num_kv_heads}, head_dim={self.head_dim}"

    def _project(self, x: Tensor, memory: Tensor | None, mask: Mask | None) -> tuple[Tensor, Tensor]:
        if memory is not None:
            return self._query(x), self._memory(_hidden(memory, mask, x.shape[1]))
        if self.memory_projection is not None:
            raise ShapeError("this layer was built for cross-attention (memory_dim): pass memory")
        twice = 2 * self.num_kv_heads
        packed = self._heads(self.projection(_hidden(x, mask, x.shape[1])), self.num_heads + twice)
        query, both = packed.split([self.num_heads, twice], dim=1)
        return query, both

    def _query(self, x: Tensor) -> Tensor:
        if self.memory_projection is not None:
            return self._heads(self.projection(x), self.num_heads)
        bias = None if self.projection.bias is None else self.projection.bias[: self._query_width]
        # views: the first rows of the packed matrix are the query's
        return self._heads(F.linear(x, self.projection.weight[: self._query_width], bias), self.num_heads)

    def _memory(self, memory: Tensor) -> Tensor:
        if self.memory_projection is not None:
            return self._heads(self.memory_projection(memory), 2 * self.num_kv_heads)
        bias = None if self.projection.bias is None else self.projection.bias[self._query_width :]
        both = F.linear(memory, self.projection.weight[self._query_width :], bias)
        return self._heads(both, 2 * self.num_kv_heads)

    def _heads(self, x: Tensor, heads: int) -> Tensor:
        return x.unflatten(-1, (heads, self.head_dim)).transpose(1, 2)

    def _turn(self, heads: Tensor, start: int, ancestry: Tensor | None) -> Tensor:
        assert self.position is not None
        if ancestry is None:
            return self.position.rotate(heads, start)
        # beams side by side share one position
        return self.position.rotate(heads.unsqueeze(-2), start).squeeze(-2)


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

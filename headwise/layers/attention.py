"""Multi-head attention: heads, projections and memory around any mechanism."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.attention import mechanisms
from headwise.attention.call import Call
from headwise.attention.masks import Mask, Place, Shared, parts
from headwise.attention.mechanisms.mechanism import Mechanism, Recurrent, is_of_keys
from headwise.attention.mechanisms.scored import Scored
from headwise.attention.relative import Relative
from headwise.attention.scores import Dot
from headwise.attention.scores.score import times
from headwise.attention.zeros import zeroed
from headwise.caches import AttentionStep, KeyValues, Segments, States
from headwise.errors import ConfigError, ShapeError, Unsupported
from headwise.layers.around import Around, Closing, FirstValues, ShortConvolution
from headwise.layers.latent import Latent, LatentProjection, turned_columns
from headwise.positions.position import Ids, Position

Vectors = Float[Tensor, "batch length d_model"]
Memory = Float[Tensor, "batch memory_len memory_dim"]
SharedProjection = Literal["none", "qk", "kv", "qkv"]
Combine = Literal["concat", "mean"]


class Factored(nn.Module):
    """x U V: maps in two stages, side by side, each through a narrow vector of its own.

    Equal to one matrix U V of rank `rank` at most for each map, with rank (in + out) numbers in place of in x out.
    With rank = d_model it is the two stages in which heads are often drawn: q = x U first, then q V_i for each head.

    Args:
        in_features: width of x.
        widths: columns of each map's result; 0: there is no such map.
        rank: width between the stages.
        bias: of the second stage.
    Source: Wang et al. 2020, arXiv:2006.04768, section 3, on matrices of low rank; Lee, LeeDL tutorial, figure 6.29, on
        two stages.

    >>> Factored(8, (4, 4, 6), 2, bias=True)(torch.ones(1, 3, 8)).shape
    torch.Size([1, 3, 14])
    """

    def __init__(self, in_features: int, widths: Sequence[int], rank: int, *, bias: bool):
        super().__init__()
        self.in_features, self.out_features, self.rank = in_features, sum(widths), rank
        wide = [width for width in widths if width]
        self.inner = nn.Linear(in_features, rank * len(wide), bias=False)
        self.outer = nn.ModuleList(nn.Linear(rank, width, bias=bias) for width in wide)

    def forward(self, x: Float[Tensor, "*rows in"]) -> Float[Tensor, "*rows out"]:
        parts = self.inner(x).split(self.rank, -1)
        return torch.cat([outer(part) for outer, part in zip(self.outer, parts, strict=True)], -1)

    def matrices(self) -> list[Tensor]:
        """The weight matrices, those that are packed one by one, for initialisation."""
        outer = [linear.weight for linear in self.outer if isinstance(linear, nn.Linear)]
        return [*self.inner.weight.split(self.rank), *outer]


class Projected(NamedTuple):
    """What a self-attention makes of its input; gates are those that the mechanism takes, ids those of the tokens."""

    query: Float[Tensor, "batch heads length head_dim"]
    key: Float[Tensor, "batch kv_heads length head_dim"]
    value: Float[Tensor, "batch kv_heads length value_dim"]
    gates: Float[Tensor, "batch heads length gates"] | None
    ids: Ids | None = None


class MultiHeadAttention(nn.Module):
    """Concat(head_1 ... head_h) W_o with head_i = mechanism(x W_q,i, m W_k,i, m W_v,i); m is x or a memory.

    Projections of one input are a single matrix product: rows of `projection` are W_q, W_k and W_v, head by head. A
    layer that is used for cross-attention alone should be built with `memory_dim`, which gives the memory a matrix of
    its own; without it both inputs go through the whole of `projection`. Modules are called, never read, so adapters,
    quantised layers and hooks in their place act on every path. What no query may see of a memory reaches nothing; the
    tokens of a self-attention are queries too, so a model zeroes what lies beyond the lengths at its input.

    Args:
        d_model: width of x and of the result.
        num_heads: heads of the query.
        mechanism: what each head computes, an object or a name of `headwise list mechanisms`, which is built for 512
            positions without dropout; `Scored()` if None.
        num_kv_heads: heads of key and value, a divisor of num_heads (grouped-query; 1: multi-query); all if None.
        head_dim: width of a head's queries and keys; d_model / num_heads if None.
        value_dim: width of a head's values; head_dim if None.
        memory_dim: width of the memory, for a layer that is only ever used for cross-attention; None: as x.
        position: a scheme that acts on queries, keys or scores (rotary); self-attention only.
        norm: of queries and of keys before they are rotated by the position, as a function from the width of a head to
            a module, such as `nn.RMSNorm`; score "qk_norm" norms after the rotation.
        bias: whether the projections have biases; "qkv": all but that of the output.
        shared: "qk", "kv" or "qkv" give queries and keys, keys and values, or all three, one matrix. With Q = K most
            of a row's weight lies on its diagonal, so a layer of this kind is nearly a position-wise one.
        combine: "concat" joins the heads' outputs before W_o, "mean" averages them, for heads as wide as the model.
        rank: the projections of queries, keys and values are `Factored` through so many numbers; None: one matrix each.
        around: a convolution before the heads, a norm and a gate behind them. A convolution reads the tokens before
            one, so it takes no masks but `Causal()` and those of keys.
        latent: keys and values are made of one narrow vector for all heads, which is what a cache keeps (MLA), see
            `LatentProjection`; position is then `Rotary` with some of the columns, or None.
        limit: which pairs its self-attention is limited to besides the mask of a call, as `Window(127, 0)` in the local
            layers of Gemma; None: all.
    Raises:
        ConfigError: sizes that do not divide, or do not fit what is shared; the message names those that do.
        ShapeError: inputs of another width than the layer was built for.
    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.2; Ainslie et al. 2023, arXiv:2305.13245 (grouped-query);
        norm: Yang et al. 2025, arXiv:2505.09388 (Qwen3).

    >>> MultiHeadAttention(100, 5)(torch.ones(2, 4, 100), torch.ones(2, 6, 100)).shape
    torch.Size([2, 4, 100])
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        mechanism: Mechanism | str | None = None,
        *,
        num_kv_heads: int | None = None,
        head_dim: int | None = None,
        value_dim: int | None = None,
        memory_dim: int | None = None,
        position: Position | None = None,
        norm: Callable[[int], nn.Module] | None = None,
        bias: bool | Literal["qkv"] = True,
        shared: SharedProjection = "none",
        combine: Combine = "concat",
        rank: int | None = None,
        around: Around | None = None,
        latent: Latent | None = None,
        limit: Mask | None = None,
    ):
        super().__init__()
        _check_kinds(around, latent)
        check_heads(d_model, num_heads, num_kv_heads, head_dim, value_dim, rank)
        self.d_model, self.num_heads, self.num_kv_heads = d_model, num_heads, num_kv_heads or num_heads
        self.head_dim = head_dim or d_model // num_heads
        self.value_dim = value_dim or self.head_dim
        self.memory_dim, self.shared, self.combine = memory_dim, shared, combine
        self._check_shared()
        self.mechanism, self.position = _mechanism(mechanism, self.head_dim, num_heads), position
        query, *others = self.widths()
        own = [query, *(others if memory_dim is None else ())]
        self.latent, self.limit = latent is not None, limit
        if self.latent:
            self._check_latent(norm, rank, around)
        self.projection = self._own_projection(own, rank, latent, bias=bool(bias))
        self.memory_projection = None if memory_dim is None else _projection(memory_dim, others, rank, bias=bool(bias))
        joined = self.value_dim * (num_heads if combine == "concat" else 1)
        self.output = nn.Linear(joined, d_model, bias=bias is True)
        self.query_norm, self.key_norm = (nn.Identity() if norm is None else norm(self.head_dim) for _ in range(2))
        self._surround(sum(own), around or Around(), bias=bool(bias))

    def widths(self) -> tuple[int, int, int]:
        """Columns of the queries, keys and values that are projected; 0 for what another one stands in for."""
        key, value = self.num_kv_heads * self.head_dim, self.num_kv_heads * self.value_dim
        key = 0 if self.shared in ("qk", "qkv") else key
        return self.num_heads * self.head_dim, key, 0 if self.shared in ("kv", "qkv") else value

    def forward(
        self,
        x: Vectors,
        memory: Memory | None = None,
        *,
        mask: Mask | None = None,
        cache: AttentionStep | None = None,
        ids: Ids | None = None,
        first: FirstValues | None = None,
    ) -> Float[Tensor, "batch length width"]:
        """Self-attention over x, or cross-attention from x to a memory.

        With a cache, self-attention appends its keys and values to it and sees all stored ones, or goes on from the
        state it holds; cross-attention projects its memory at the first call and reads it from then on, when `memory`
        is left out. With a cache of `Segments` it sees the segments before x.

        Args:
            ids: where each token of x stands along each axis of the position scheme, in place of counting them.
            first: where the first layer of a stack leaves its values for the others, if they take them.
        """
        self._check(x, memory)
        stored = None if cache is None else cache.memory
        if ids is not None:
            self._check_ids(ids, x, memory, cache)
        if memory is not None or (isinstance(stored, KeyValues) and stored.fixed):
            return self._join(self._attend_memory(x, memory, mask, stored), x)
        mask = self._limited(mask)
        if self.latent and isinstance(stored, KeyValues):
            assert cache is not None
            return self._join(self._attend_latents(x, mask, cache, ids), x)
        if cache is not None and not isinstance(stored, Segments):
            return self._join(self._attend_step(self._project(x, mask, cache, first)._replace(ids=ids), mask, cache), x)
        if not isinstance(stored, Segments):
            return self._join(self._attend(self._project(x, mask, first=first)._replace(ids=ids), mask, 0), x)
        if self.convolution is not None:
            raise Unsupported("a convolution cannot read on from a memory of segments: leave conv out, or the memory")
        projected = self._project(stored.extend(x), first=first)
        start = projected.key.shape[2] - x.shape[1]
        return self._join(self._attend(projected._replace(query=projected.query[:, :, start:]), mask, start), x)

    def new_cache(self) -> KeyValues | States:
        """An empty cache for this layer's self-attention."""
        if isinstance(self.mechanism, Recurrent):
            return States()
        # a convolution reads the past of each hypothesis, and a limit counts its keys
        placed = self.convolution is None and self.limit is None
        placed = placed and (self.position is None or self.position.side_by_side())
        return KeyValues(shares_beams=placed and self.mechanism.facts.cache == "shared")

    def project_memory(
        self, memory: Memory
    ) -> tuple[Float[Tensor, "batch kv_heads memory_len dim"], Float[Tensor, "batch kv_heads memory_len value_dim"]]:
        """Keys and values of a memory, to be kept while it is attended to."""
        if self.memory_projection is None:
            return self._project(memory)[1:3]
        key, value = self.memory_projection(memory).split(self.widths()[1:], -1)
        key = _heads(key, self.head_dim)
        return times(self.key_norm, key), key if self.shared == "kv" else _heads(value, self.value_dim)

    def matrices(self) -> list[Tensor]:
        """The weight matrices packed in the projections, for initialisation: W_q, W_k, W_v (those there are), W_o."""
        query, *others = self.widths()
        if self.memory_projection is None:
            parts = _packed(self.projection, [query, *others])
        else:
            parts = [*_packed(self.projection, [query]), *_packed(self.memory_projection, others)]
        return [*(part for part in parts if part.shape[0]), self.output.weight]

    def extra_repr(self) -> str:
        return f"d_model={self.d_model}, heads={self.num_heads}, kv_heads={self.num_kv_heads}, head_dim={self.head_dim}"

    def _limited(self, mask: Mask | None) -> Mask | None:
        if self.limit is None or mask is None:
            return self.limit or mask
        return mask.limited(self.limit) if isinstance(mask, Shared) else mask & self.limit

    def _attend(self, projected: Projected, mask: Mask | None, start: int, step: AttentionStep | None = None) -> Tensor:
        """Self-attention; with a step, queries and keys were turned before the keys were stored."""
        query, key, value, gates, ids = projected
        # zeros and minus infinities, the same in every type
        bias = None if step is None or step.ancestry is None else step.ancestry.to(query.dtype)
        relative = None
        if self.position is not None:
            if step is None:
                query = self.position.rotate(query, start if ids is None else ids)
                key = self.position.rotate_keys(key, 0 if ids is None else ids)
            bias = _added(self.position.bias(query, key, start), bias)
            relative = self._relative(query, key, start, step)
        call = Call(query, key, value, mask=mask, bias=bias, relative=relative, query_start=start, gates=gates)
        if self.convolution is not None:
            _check_convolved(call)
        return self.mechanism(call)

    def _attend_memory(
        self, x: Tensor, memory: Tensor | None, mask: Mask | None, stored: KeyValues | States | Segments | None
    ) -> Tensor:
        """Cross-attention to a memory, or to the keys and values that are kept of it."""
        if self.convolution is not None:
            raise Unsupported("a layer with a convolution reads its own tokens: build cross-attention with conv = 0")
        if not (stored is None or isinstance(stored, KeyValues)):
            raise ConfigError("cross-attention keeps its memory in KeyValues(); States are a self-attention's own")
        if memory is not None:
            key, value = self.project_memory(_without_unseen(memory, mask, self.num_heads, x.shape[1]))
            if stored is not None:
                stored.fill(key, value)
        else:
            assert stored is not None
            key, value = stored.read()
        if self.memory_projection is None:
            query = self._project(x).query
        else:
            query = times(self.query_norm, _heads(self.projection(x), self.head_dim))
        return self.mechanism(Call(query, key, value, mask=mask, cross=True))

    def _attend_step(self, new: Projected, mask: Mask | None, step: AttentionStep) -> Tensor:
        """Self-attention of new tokens after those that the cache holds."""
        if self.position is not None:
            query = rotated(self.position.rotate, new.query, step, new.ids)
            new = new._replace(query=query, key=rotated(self.position.rotate_keys, new.key, step, new.ids))
        assert not isinstance(step.memory, Segments)
        if step.beams == 1 or step.memory.shares_beams:
            return self._attend_stored(new, mask, step)
        # hypotheses that lie side by side become rows of their own
        query, key, value = (rows_of_beams(heads) for heads in new[:3])
        rows = Projected(query, key, value, None if new.gates is None else rows_of_beams(new.gates))
        return side_by_side(self._attend_stored(rows, mask, step), step.beams)

    def _attend_latents(self, x: Tensor, mask: Mask | None, step: AttentionStep, ids: Ids | None) -> Tensor:
        """Self-attention of new tokens after those of which the cache holds the narrow vectors."""
        projection, memory, place = self.projection, step.memory, step.position if ids is None else ids
        assert isinstance(projection, LatentProjection)
        assert isinstance(memory, KeyValues)
        query, latents = projection.queries(x), projection.compress(x).unsqueeze(1)
        apart = step.beams > 1 and not memory.shares_beams
        if step.beams > 1:
            # hypotheses side by side share one position: rows of their own while it turns them
            query, latents = rows_of_beams(query), rows_of_beams(latents)
        query = query if self.position is None else self.position.rotate(query, place)
        latents = projection.turned(self.position, latents, place)
        if step.beams > 1 and not apart:
            query, latents = (side_by_side(rows, step.beams) for rows in (query, latents))
        latents, _ = memory.append(latents, latents[..., :0])
        bias = None if step.ancestry is None or apart else step.ancestry.to(query.dtype)
        call: dict[str, Any] = {"mask": mask, "bias": bias, "query_start": step.position}
        mechanism = self.mechanism
        # a product with the narrow vectors is wider than one with keys: for single tokens, which would make all keys
        takes_score = type(mechanism) is Scored and mechanism.score is None
        if (step.beams > 1 or x.shape[1] == 1) and takes_score:
            score, shared = Dot(self.head_dim**-0.5), latents[..., projection.rope_dim :]
            output = projection.restore(mechanism(Call(projection.absorb(query), latents, shared, score, **call)))
        else:
            output = mechanism(Call(query, *projection.expand(latents), **call))
        return side_by_side(output, step.beams) if apart else output

    def _attend_stored(self, new: Projected, mask: Mask | None, step: AttentionStep) -> Tensor:
        memory, mechanism = step.memory, self.mechanism
        query, key, value, gates, _ = new
        if isinstance(memory, States):
            assert isinstance(mechanism, Recurrent)
            if mask is not None and not mask.structure().causal:
                raise Unsupported(f"cached steps of {type(mechanism).__name__} are causal; they honour no other mask")
            call = Call(query, key, value, query_start=step.position, gates=gates)
            heads, memory.tensors = mechanism.resume(call, memory.tensors)
            return heads
        assert isinstance(memory, KeyValues)
        key, value = memory.append(key, value)
        gates = query if mechanism.facts.cache == "queries" else gates
        gates = None if gates is None else memory.append_gates(gates)
        shared = step if memory.shares_beams else replace(step, ancestry=None, key_positions=None)
        return self._attend(Projected(query, key, value, gates), mask, step.position, shared)

    def _relative(self, query: Tensor, key: Tensor, start: int, step: AttentionStep | None) -> Relative | None:
        assert self.position is not None
        if step is None or step.key_positions is None:
            low, high = min(0, 1 - start - query.shape[2]), max(0, key.shape[2] - 1 - start)
            return self.position.relative(query, key, low, high)
        relative = self.position.relative(query, key, -start, 0)
        distances = (step.key_positions - start).expand(query.shape[2], -1)
        return None if relative is None else relative.placed(distances)

    def _project(
        self, x: Tensor, mask: Mask | None = None, cache: AttentionStep | None = None, first: FirstValues | None = None
    ) -> Projected:
        """Queries, keys, values and gates of one input; with a cache, behind what that holds."""
        if self.memory_projection is not None:
            raise ShapeError("this layer was built for cross-attention (memory_dim): pass memory")
        columns, widths, dim = self.projection(x), self.widths(), self.head_dim
        if self.convolution is not None:
            columns = self._convolved(self.convolution, columns, mask, cache)
        if self.value_dim == dim:
            query, key, value = _heads(columns, dim).split([width // dim for width in widths], 1)
        else:
            parts = zip(columns.split(widths, -1), (dim, dim, self.value_dim), strict=True)
            query, key, value = (_heads(part, part_dim) for part, part_dim in parts)
        key = query if self.shared in ("qk", "qkv") else key
        value = key if self.shared in ("kv", "qkv") else value
        gates = None if self.gates is None else self.gates(x)
        value = self._mixed(value, first)
        return Projected(times(self.query_norm, query), times(self.key_norm, key), value, gates)

    def _mixed(self, value: Tensor, first: FirstValues | None) -> Tensor:
        """The values with those of the first layer, or left for the others."""
        if self.values == "own":
            return value
        if first is not None and self.value_mix is None:
            first.value = value
            return value
        if first is None or first.value is None or self.value_mix is None:
            raise ConfigError(
                "a layer that gives or takes values stands in a stack: pass one first=FirstValues() to all"
            )
        own, other = self.value_mix.to(value.dtype).unbind()
        return own * value + other * first.value

    def _convolved(
        self, convolution: nn.Module, columns: Tensor, mask: Mask | None, cache: AttentionStep | None
    ) -> Tensor:
        """The columns after the convolution, which reads zeros where the mask hides a token."""
        if cache is None:
            return convolution(_without_unseen(columns, mask, self.num_heads, columns.shape[1]))[0]
        assert not isinstance(cache.memory, Segments)
        if cache.position == 0:
            # what comes later is there
            columns = _without_unseen(columns, mask, self.num_heads, columns.shape[1])
        beams = columns.shape[:2]
        # hypotheses side by side are rows of their own, each of one token
        rows = columns if cache.beams == 1 else columns.flatten(0, 1).unsqueeze(1)
        rows, cache.memory.columns = convolution(rows, cache.memory.columns)
        return rows if cache.beams == 1 else rows.squeeze(1).unflatten(0, beams)

    def _join(self, heads: Tensor, x: Tensor) -> Tensor:
        if self.closing is not None:
            heads = self.closing(heads, x)
        joined = heads.transpose(1, 2).flatten(2) if self.combine == "concat" else heads.mean(1)
        return self.output(joined)

    def _check(self, x: Tensor, memory: Tensor | None) -> None:
        if x.shape[-1] != self.d_model:
            raise ShapeError(f"x is {x.shape[-1]} wide, but the layer was built for d_model = {self.d_model}")
        width = self.d_model if self.memory_dim is None else self.memory_dim
        if memory is not None and memory.shape[-1] != width:
            advice = "" if self.memory_dim else "; build the layer with memory_dim for a memory of another width"
            raise ShapeError(f"the memory is {memory.shape[-1]} wide, but the layer was built for {width}{advice}")

    def _check_ids(self, ids: Ids, x: Tensor, memory: Tensor | None, cache: AttentionStep | None) -> None:
        if not isinstance(ids, Tensor) or ids.ndim != 3 or ids.is_complex():
            raise ShapeError("ids of tokens are a tensor (batch or 1, axes, length), as positions take them")
        axes, (batch, length, _) = 0 if self.position is None else self.position.axes, x.shape
        if not axes:
            name = "without positions" if self.position is None else f"with {type(self.position).__name__} positions"
            raise Unsupported(f"a layer {name} takes no ids of tokens; rotary and rotary_2d positions do")
        stored = None if cache is None else cache.memory
        elsewhere = isinstance(stored, Segments) or (isinstance(stored, KeyValues) and stored.fixed)
        if memory is not None or elsewhere or (cache is not None and cache.beams > 1):
            raise Unsupported("ids are of the tokens of a self-attention: not of a memory, beams or segments")
        if ids.shape[0] not in (1, batch) or ids.shape[1] != axes or ids.shape[2] != length:
            raise ShapeError(f"ids {tuple(ids.shape)} do not fit (batch, axes, length) = {(batch, axes, length)}")

    def _own_projection(
        self, widths: list[int], rank: int | None, latent: Latent | None, *, bias: bool
    ) -> nn.Linear | Factored | LatentProjection:
        if latent is None:
            return _projection(self.d_model, widths, rank, bias=bias)
        sizes = self.d_model, self.num_heads, self.head_dim, self.value_dim
        return LatentProjection(*sizes, rope_dim=turned_columns(self.position), latent=latent, bias=bias)

    def _surround(self, columns: int, around: Around, *, bias: bool) -> None:
        """What stands before and behind the heads."""
        self.gates = self.mechanism.gate_module(self.d_model, self.num_heads)
        if around.conv and self.memory_dim is not None:
            raise ConfigError("conv reads the tokens of a self-attention; a layer with memory_dim has none")
        self.convolution = ShortConvolution(columns, around.conv, bias=bias) if around.conv else None
        self.values = around.values
        self.value_mix = nn.Parameter(torch.full((2,), 0.5)) if around.values == "take" else None
        closes = around.gate != "none" or around.head_norm is not None
        self.closing = Closing(self.d_model, self.num_heads, self.value_dim, around, bias=bias) if closes else None

    def _check_latent(self, norm: object, rank: int | None, around: Around | None) -> None:
        """Raises: ConfigError for what keys and values of a narrow vector cannot have beside it."""
        others = {
            "memory_dim": self.memory_dim is not None,
            "num_kv_heads": self.num_kv_heads != self.num_heads,
            "norm": norm is not None,
            "shared": self.shared != "none",
            "rank": rank is not None,
            "conv": around is not None and around.conv > 0,
            "value_residual": around is not None and around.values != "own",
            f"mechanism {type(self.mechanism).__name__}": self.mechanism.facts.cache == "queries"
            or self.mechanism.gate_module(self.d_model, self.num_heads) is not None,
        }
        if wrong := [name for name, given in others.items() if given]:
            raise ConfigError(f"latent makes keys and values of one narrow vector: leave out {', '.join(wrong)}")

    def _check_shared(self) -> None:
        """Raises: ConfigError if projections that are to be one matrix differ in size."""
        name, heads, kv_heads = f"shared='{self.shared}'", self.num_heads, self.num_kv_heads
        if self.shared in ("qk", "qkv") and kv_heads != heads:
            raise ConfigError(f"{name} needs as many key heads as query heads, got {kv_heads} and {heads}")
        if self.shared in ("qk", "qkv") and self.memory_dim is not None:
            raise ConfigError(f"{name} projects x and the memory alike: leave memory_dim out")
        if self.shared in ("kv", "qkv") and self.value_dim != self.head_dim:
            raise ConfigError(f"{name} makes values as wide as keys ({self.head_dim}): leave value_dim out")


def _projection(in_features: int, widths: list[int], rank: int | None, *, bias: bool) -> nn.Linear | Factored:
    """The maps of one input to columns of these widths side by side."""
    if rank is None:
        return nn.Linear(in_features, sum(widths), bias=bias)
    return Factored(in_features, widths, rank, bias=bias)


def _packed(projection: nn.Linear | Factored | LatentProjection, widths: list[int]) -> list[Tensor]:
    """The matrices of a projection, one by one."""
    return projection.matrices() if not isinstance(projection, nn.Linear) else list(projection.weight.split(widths))


def _mechanism(mechanism: Mechanism | str | None, head_dim: int, num_heads: int) -> Mechanism:
    if mechanism is None:
        return Scored()
    if isinstance(mechanism, str):
        return mechanisms.build(mechanism, head_dim=head_dim, num_heads=num_heads, max_len=512, dropout=0.0)
    if not isinstance(mechanism, Mechanism):
        what = f"the class {mechanism.__name__}" if isinstance(mechanism, type) else type(mechanism).__name__
        raise ConfigError(f"mechanism must be a Mechanism object or a name such as 'scored', got {what}")
    return mechanism


def _without_unseen(memory: Tensor, mask: Mask | None, heads: int, query_len: int) -> Tensor:
    """The memory with zeros for what no query may see: 0 x NaN would spoil the gradient of the projection."""
    if mask is None:
        return memory
    keys = mask.structure(Place(memory.shape[0], heads, query_len, memory.shape[1], 0, memory.device)).key_mask()
    return memory if keys is None else zeroed(memory, keys.any(1).unsqueeze(-1))


def _check_convolved(call: Call) -> None:
    """Raises: Unsupported for a mask that a convolution over the tokens before one could break."""
    for part in parts(call.mask):
        if not part.structure().causal and not is_of_keys(part, call):
            raise Unsupported(
                f"a convolution mixes each token with those before it, whatever the mask {type(part).__name__} hides;"
                " it takes Causal(), padding of keys, or both: leave conv out"
            )


def _check_kinds(around: object, latent: object) -> None:
    for name, option, kind in (("around", around, Around), ("latent", latent, Latent)):
        if not isinstance(option, kind | None):
            raise ConfigError(f"{name} must be {kind.__name__}(...), got {type(option).__name__}")


def _heads(columns: Tensor, dim: int) -> Tensor:
    return columns.unflatten(-1, (columns.shape[-1] // dim, dim)).transpose(1, 2)


def rows_of_beams(heads: Float[Tensor, "batch heads beams dim"]) -> Float[Tensor, "rows heads 1 dim"]:
    """Hypotheses that lie side by side as rows of their own."""
    return heads.transpose(1, 2).flatten(0, 1).unsqueeze(2)


def side_by_side(rows: Float[Tensor, "rows heads 1 dim"], beams: int) -> Float[Tensor, "batch heads beams dim"]:
    """Rows of hypotheses side by side again."""
    return rows.squeeze(2).unflatten(0, (-1, beams)).transpose(1, 2)


def rotated(
    rotate: Callable[[Tensor, int | Tensor], Tensor], heads: Tensor, step: AttentionStep, ids: Ids | None = None
) -> Tensor:
    """Queries or keys of a step as the position scheme rotates them."""
    if step.beams == 1:
        return rotate(heads, step.position if ids is None else ids)
    # beams side by side share one position
    return rotate(heads.unsqueeze(-2), step.position).squeeze(-2)


def _added(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    if first is None or second is None:
        return second if first is None else first
    return first + second


def check_heads(
    d_model: int,
    num_heads: int,
    num_kv_heads: int | None,
    head_dim: int | None = None,
    value_dim: int | None = None,
    rank: int | None = None,
) -> None:
    """Raises: ConfigError if the heads do not fit the width, naming the nearest numbers that do."""
    for name, size in (("head_dim", head_dim), ("value_dim", value_dim), ("rank", rank)):
        if size is not None and (not isinstance(size, int) or size < 1):
            raise ConfigError(f"{name} ({size}) must be a whole number of 1 or more, or None")
    if num_heads < 1 or (head_dim is None and d_model % num_heads):
        fitting = [heads for heads in range(1, d_model + 1) if d_model % heads == 0]
        nearest = sorted(sorted(fitting, key=lambda heads: abs(heads - num_heads))[:3])
        names = ", ".join(map(str, nearest))
        raise ConfigError(f"num_heads ({num_heads}) must divide d_model ({d_model}); nearest that do: {names}")
    if num_kv_heads is not None and (num_kv_heads < 1 or num_heads % num_kv_heads):
        fitting = [heads for heads in range(1, num_heads + 1) if num_heads % heads == 0]
        names = ", ".join(map(str, fitting))
        raise ConfigError(f"num_kv_heads ({num_kv_heads}) must divide num_heads ({num_heads}); these do: {names}")

"""Seeing attention without changing it: while a record is open, every attention call is kept, and read when asked."""

import fnmatch
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention import tiles
from headwise.attention.call import Call, check
from headwise.attention.masks import Mask
from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.attention.mechanisms.scored import Scored
from headwise.attention.relative import Relative
from headwise.errors import ConfigError, unknown


@dataclass(frozen=True, slots=True, eq=False)
class RecordedCall:
    """One call of an attention layer: references to what it was given and what it returned, no copies."""

    mechanism: Mechanism
    query: Float[Tensor, "batch heads query_len query_dim"]
    key: Float[Tensor, "batch kv_heads key_len key_dim"]
    value: Float[Tensor, "batch kv_heads key_len value_dim"]
    mask: Mask | None
    bias: Float[Tensor, "#batch #heads #query_len key_len"] | None
    relative: Relative | None
    query_start: int
    output: Float[Tensor, "batch heads query_len value_dim"]

    def weights(
        self, heads: Sequence[int], queries: slice, keys: slice = slice(None)
    ) -> Float[Tensor, "batch heads query_len key_len"]:
        """Exact weights of these heads, query rows and keys, computed now from the call.

        Attention by its definition computes what is asked for; other mechanisms may not be cut, and compute all.
        """
        mechanism, query, key = self.mechanism, self.query, self.key
        mask, bias, relative, start = self.mask, self.bias, self.relative, self.query_start
        with torch.no_grad(), torch.autocast(query.device.type, enabled=False):
            if isinstance(mechanism, Scored):
                score, normalizer = mechanism.score, mechanism.normalizer
                call = Call(query, key, key, score, normalizer, mask, bias, relative, query_start=start)
                return tiles.weights(check(call), heads, queries, keys)
            whole = mechanism.effective_weights(query, key, mask=mask, bias=bias, relative=relative, query_start=start)
            return whole[:, list(heads), queries, keys]


class LayerRecord:
    """What one attention layer did while the record was open."""

    def __init__(self, name: str):
        self.name = name
        self.calls: list[RecordedCall] = []

    @property
    def kind(self) -> str:
        """ "cross" if keys come from another sequence, else "self"."""
        return "cross" if "cross" in self.name or self.name.endswith(".attention") else "self"

    @property
    def num_heads(self) -> int:
        """Heads of the query."""
        return self._last().query.shape[1]

    @property
    def output(self) -> Float[Tensor, "batch heads query_len value_dim"]:
        """What the layer returned, before heads are joined; steps of a recurrent decoder follow each other."""
        return self._last().output if len(self.calls) == 1 else torch.cat([call.output for call in self.calls], dim=2)

    @property
    def value(self) -> Float[Tensor, "batch kv_heads key_len value_dim"]:
        """The values of the latest call."""
        return self._last().value

    def weights(
        self, head: int | Sequence[int] | None = None, queries: slice = slice(None), keys: slice = slice(None)
    ) -> Float[Tensor, "batch heads query_len key_len"]:
        """Exact weights, computed now from what the layer was given; the kernel that ran is not asked again.

        Args:
            head: one, several, or all heads; the axis stays.
            queries: rows to compute; others cost nothing.
            keys: columns to show.
        """
        heads = range(self.num_heads) if head is None else [head] if isinstance(head, int) else list(head)
        wrong = [index for index in heads if not 0 <= index < self.num_heads]
        if wrong:
            raise ConfigError(f"{self.name} has heads 0 to {self.num_heads - 1}, not {wrong[0]}")
        if len(self.calls) == 1:
            return self._last().weights(heads, queries, keys)
        # a decoder that goes step by step: one row a call, over the keys there were at that step
        rows = [call.weights(heads, slice(None)) for call in self.calls]
        if len({row.shape[0] for row in rows}) > 1:
            raise ConfigError(f"{self.name} was called for different batches; read its `calls` one by one")
        longest = max(row.shape[-1] for row in rows)
        return torch.cat([F.pad(row, (0, longest - row.shape[-1])) for row in rows], dim=2)[:, :, queries, keys]

    def _last(self) -> RecordedCall:
        if not self.calls:
            raise ConfigError(f"{self.name} was not called while the record was open")
        return self.calls[-1]


class Trace:
    """The records of a model's attention layers, by layer name.

    >>> from headwise.attention.mechanisms.scored import Scored
    >>> from headwise.layers.attention import MultiHeadAttention
    >>> model = nn.ModuleDict({"self_attention": MultiHeadAttention(8, 2, Scored())})
    >>> with record(model) as trace:
    ...     _ = model["self_attention"](torch.ones(1, 3, 8))
    >>> trace["self_attention"].weights(head=1).shape
    torch.Size([1, 1, 3, 3])
    """

    def __init__(self, layers: dict[str, LayerRecord]):
        self._layers = layers

    def names(self) -> list[str]:
        """Layers that were recorded, in the order of the model."""
        return list(self._layers)

    def __getitem__(self, name: str) -> LayerRecord:
        if name not in self._layers:
            raise ConfigError(unknown("attention layer", name, self._layers))
        return self._layers[name]

    def __iter__(self) -> Iterator[LayerRecord]:
        return iter(self._layers.values())

    def clear(self) -> None:
        """Forgets the calls so far, and with them their tensors."""
        for layer in self:
            layer.calls.clear()


@contextmanager
def record(model: nn.Module, *patterns: str) -> Iterator[Trace]:
    """While open, keeps every call of the model's attention layers; numbers and kernels stay as they are.

    The calls are references, so recording copies nothing; the tensors live as long as the trace does.

    Args:
        patterns: names of layers with `*` and `?`, such as "decoder.*.cross_attention"; all layers if none.
    Raises:
        ConfigError: no layer of the model matches.
    """
    found = {_layer_name(name): module for name, module in _outermost(model)}
    chosen = {name: m for name, m in found.items() if not patterns or any(fnmatch.fnmatch(name, p) for p in patterns)}
    if not chosen:
        asked = ", ".join(patterns) or "any"
        raise ConfigError(f"no attention layer matches {asked}; there are: {', '.join(found) or 'none'}")
    layers = {name: LayerRecord(name) for name in chosen}
    handles = [module.register_forward_hook(_hook(layers[name]), with_kwargs=True) for name, module in chosen.items()]
    try:
        yield Trace(layers)
    finally:
        for handle in handles:
            handle.remove()


def _outermost(model: nn.Module) -> Iterator[tuple[str, Mechanism]]:
    """Every mechanism that is not a part of another one."""
    inside: tuple[str, ...] = ()
    for name, module in model.named_modules():
        if isinstance(module, Mechanism) and not name.startswith(inside):
            yield name, module
            inside = (*inside, f"{name}.")


def _layer_name(module_name: str) -> str:
    return module_name.removesuffix(".mechanism")


def _hook(layer: LayerRecord) -> Any:
    def keep(module: nn.Module, inputs: tuple[Tensor, ...], options: dict[str, Any], output: Tensor) -> None:
        assert isinstance(module, Mechanism)
        if torch._C._current_graph_task_id() != -1:
            # a reversible layer runs again while gradients flow: that call was kept already
            return
        query, key, value = inputs
        bias, relative = options.get("bias"), options.get("relative")
        call = RecordedCall(
            module,
            query.detach(),
            key.detach(),
            value.detach(),
            options.get("mask"),
            None if bias is None else bias.detach(),
            None if relative is None else relative.detached(),
            options.get("query_start", 0),
            output.detach(),
        )
        layer.calls.append(call)

    return keep

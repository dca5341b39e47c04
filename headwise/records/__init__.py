"""Seeing a model without changing it: while a record is open, every attention call is kept, and read when asked.

Changing it for a while is in `edits`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.module_tracker import ModuleTracker

from headwise.attention.call import Call
from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.errors import ConfigError, unknown
from headwise.records.calls import RecordedCall, recorded
from headwise.records.edits import Edit, Force, Hide, Loosen, Mute, Narrow, Replace, Swap, edit
from headwise.records.watching import Change, chosen, joined, layers
from headwise.wanted import ask

__all__ = ["Edit", "Force", "Hide", "LayerRecord", "Loosen", "Mute", "Narrow", "OutputRecord", "RecordedCall"]
__all__ += ["Replace", "Swap", "Trace", "edit", "record"]


class LayerRecord:
    """What one attention layer did while the record was open."""

    def __init__(self, name: str):
        self.name = name
        self.calls: list[RecordedCall] = []

    @property
    def kind(self) -> str:
        """ "cross" if keys come from another sequence, as the layer says with its call, else "self"."""
        return "cross" if self._last().call.cross else "self"

    @property
    def num_heads(self) -> int:
        """Heads of the query."""
        return self._last().call.query.shape[1]

    @property
    def output(self) -> Float[Tensor, "batch heads query_len value_dim"]:
        """What the layer returned, before heads are joined; steps of a decoder follow each other."""
        return self._last().output if len(self.calls) == 1 else torch.cat([call.output for call in self.calls], dim=2)

    @property
    def value(self) -> Float[Tensor, "batch kv_heads key_len value_dim"]:
        """The values of the latest call."""
        return self._last().call.value

    def weights(
        self, head: int | Sequence[int] | None = None, queries: slice = slice(None), keys: slice = slice(None)
    ) -> Float[Tensor, "batch heads query_len key_len"]:
        """Exact weights, computed now from what the layer was given; the kernel that ran is not asked again.

        They are those of the parameters at the time of the call, also after an optimizer step (`changed` of a call
        says that there was one). Open edits are part of them.

        Args:
            head: one, several, or all heads; the axis stays.
            queries: rows to show; `Scored` computes no others.
            keys: columns to show.
        """
        ask()
        heads = None if head is None else [head] if isinstance(head, int) else list(head)
        last = self._last()
        wrong = [index for index in heads or () if not 0 <= index < self.num_heads]
        if wrong:
            raise ConfigError(f"{self.name} has heads 0 to {self.num_heads - 1}, not {wrong[0]}")
        if len(self.calls) == 1:
            return last.weights(heads, queries, keys)
        # a decoder that goes step by step: the rows of each call, over the keys there were at that step
        rows = [
            F.pad(call.weights(heads), (first, 0)) for call, first in zip(self.calls, self._first_keys(), strict=True)
        ]
        if len({row.shape[0] for row in rows}) > 1:
            raise ConfigError(f"{self.name} was called for different batches; read its `calls` one by one")
        longest = max(row.shape[-1] for row in rows)
        return torch.cat([F.pad(row, (0, longest - row.shape[-1])) for row in rows], dim=2)[:, :, queries, keys]

    def shown(self) -> tuple[str, str]:
        """(what, shapes) of the latest call."""
        call = self._last().call
        output = tuple(self._last().output.shape)
        return f"{self.kind}-attention", f"weights {tuple(call.shape)}, output {output}"

    def _first_keys(self) -> list[int]:
        """The position of each call's first key: above 0 where a cache has dropped keys that no query sees any more."""
        positions: list[int] = []
        expected = 0
        for each in self.calls:
            start, new = each.call.query_start, each.call.shape[2]
            # a call from position 0 begins a sequence; a later one goes on where the one before it ended
            expected = max(start, expected) if positions and start else start
            positions.append(expected - start)
            expected += new
        return positions

    def _last(self) -> RecordedCall:
        if not self.calls:
            raise ConfigError(f"{self.name} was not called while the record was open")
        return self.calls[-1]

    def _keep(self, mechanism: Mechanism, call: Call, output: Tensor, changes: tuple[Change, ...]) -> None:
        if _again():
            return
        earlier = self.calls[-1].state if self.calls else {}
        self.calls.append(recorded(mechanism, call, output, changes, earlier))


class OutputRecord:
    """What a module that is no attention returned while the record was open: the first tensor of each result."""

    def __init__(self, name: str, kind: str):
        self.name, self.kind = name, kind
        self.calls: list[Tensor] = []

    @property
    def output(self) -> Tensor:
        """What the latest call returned."""
        if not self.calls:
            raise ConfigError(f"{self.name} was not called while the record was open, or returned no tensor")
        return self.calls[-1]

    def shown(self) -> tuple[str, str]:
        """(what, shape) of the latest call."""
        return self.kind, f"{tuple(self.output.shape)}"

    def _keep(self, module: nn.Module, inputs: tuple[Any, ...], result: Any) -> None:
        found = _first(result)
        if found is not None and not _again():
            self.calls.append(found.detach())


class Trace:
    """The records of a model's layers, by name.

    >>> from headwise.layers.attention import MultiHeadAttention
    >>> model = nn.ModuleDict({"self_attention": MultiHeadAttention(8, 2)})
    >>> with record(model) as trace:
    ...     _ = model["self_attention"](torch.ones(1, 3, 8))
    >>> trace["self_attention"].weights(head=1).shape
    torch.Size([1, 1, 3, 3])
    >>> print(trace.table())
    name            what            calls  shape
    self_attention  self-attention  1      weights (1, 2, 3, 3), output (1, 2, 3, 4)
    """

    def __init__(self, records: dict[str, LayerRecord | OutputRecord]):
        self._records = records

    def names(self) -> list[str]:
        """What was recorded, in the order of the model."""
        return list(self._records)

    def __getitem__(self, name: str) -> Any:
        if name not in self._records:
            raise ConfigError(unknown("attention layer", name, self._records))
        return self._records[name]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._records.values())

    def show(
        self, queries: Sequence[str] = (), keys: Sequence[str] = (), *, example: int = 0, height: int = 640
    ) -> Any:
        """Attention in a notebook: a page, which needs no server and loads nothing, as the last line of a cell.

        Args:
            queries, keys: the tokens of rows and columns; keys are the queries where they are left out, and a layer
                whose places are as many as neither has numbers.
            example: number of the row of the batch.
            height: of the frame, in pixels.
        Returns: a page, which `.save("attention.html")` writes to a file.
        Raises:
            ConfigError: nothing was recorded, there is no such example, or there are more weights than 32 MB.
        """
        from headwise.explorer.notebook import show

        return show(self, queries, keys, example=example, height=height)

    def clear(self) -> None:
        """Forgets the calls so far, and with them their tensors."""
        for each in self:
            each.calls.clear()

    def table(self) -> str:
        """What was called, with the shapes of the latest call, in the order of the model: a part before its whole."""
        head = ("name", "what", "calls", "shape")
        rows = [head] + [(each.name, *_with_count(each)) for each in self if each.calls]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        return "\n".join("  ".join([*map(str.ljust, row, widths), row[3]]).rstrip() for row in rows)


@contextmanager
def record(model: nn.Module, *patterns: str, kind: Literal["attention", "all"] = "attention") -> Iterator[Trace]:
    """Context manager that records every call of the model's attention layers; results and kernels do not change.

    Calls are kept by reference: tensors are not copied and live as long as the trace. A call that is recomputed in the
    backward pass (activation checkpointing, reversible layers) is recorded once. Steps of a recurrent mechanism from
    its state have no keys and therefore no weights. A program compiled before the record was opened is not recorded.

    Args:
        patterns: names of layers, `*` and `?` allowed, such as "decoder.*.cross_attention"; default: all layers.
        kind: "attention", or "all" to record also what the modules around it return: embeddings, parts of blocks,
            blocks, encoder, decoder, the model.
    Raises:
        ConfigError: a pattern that no attention layer matches.
    """
    if kind not in ("attention", "all"):
        raise ConfigError(unknown("kind of record", kind, ("attention", "all")))
    found = chosen(model, *patterns)
    records: dict[str, LayerRecord | OutputRecord] = {}
    with ExitStack() as stack:
        for name, module in _around(model) if kind == "all" else []:
            records[name] = output = OutputRecord(name, type(module).__name__)
            stack.callback(module.register_forward_hook(output._keep).remove)
        for name, (_, mechanism) in found.items():
            records[name] = layer = LayerRecord(name)
            stack.enter_context(joined(mechanism, look=layer._keep))
        yield Trace(_ordered(model, records))


# says whether gradients flow just now
_TRACKER = ModuleTracker()


def _again() -> bool:
    """Whether a checkpoint or a reversible layer computes a call again for its gradient: it was kept already."""
    return not torch.compiler.is_compiling() and _TRACKER.is_bw


def _around(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Modules that hold attention layers, and what lies in them beside the attention."""
    inner = layers(model)
    holders = {"", *(name[:end] for name in inner for end in range(len(name)) if name[end] == ".")}
    for name, module in model.named_modules():
        if name not in inner and (name in holders or name.rpartition(".")[0] in holders):
            yield name or type(model).__name__, module


def _ordered(model: nn.Module, records: dict[str, Any]) -> dict[str, Any]:
    """In the order of the model, a part before its whole."""
    names = [name for name, _ in model.named_modules()]

    def end(name: str) -> tuple[int, int]:
        inner = [place for place, other in enumerate(names) if other == name or other.startswith(f"{name}.")]
        return max(inner, default=len(names)), -len(name)

    return {name: records[name] for name in sorted(records, key=end)}


def _first(result: Any) -> Tensor | None:
    if isinstance(result, Tensor):
        return result
    parts = result.values() if isinstance(result, Mapping) else result if isinstance(result, tuple | list) else ()
    return next((part for part in parts if isinstance(part, Tensor)), None)


def _with_count(each: LayerRecord | OutputRecord) -> tuple[str, str, str]:
    what, shape = each.shown()
    return what, str(len(each.calls)), shape

"""Seeing a model without changing it: while a record is open, every attention call is kept, and read when asked.

Changing it for a while is in `edits`.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Literal

from torch import nn

from headwise.errors import ConfigError, unknown
from headwise.records.calls import RecordedCall
from headwise.records.edits import Edit, Force, Hide, Loosen, Mute, Narrow, Replace, Swap, edit
from headwise.records.layer_records import LayerRecord, OutputRecord, Room
from headwise.records.watching import chosen, layers, watch

__all__ = ["Edit", "Force", "Hide", "LayerRecord", "Loosen", "Mute", "Narrow", "OutputRecord", "RecordedCall"]
__all__ += ["Replace", "Swap", "Trace", "edit", "record"]


class Trace:
    """The records of a model's layers in its order: looked up by name or number, counted and iterated like a list.

    >>> import torch
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

    def __getitem__(self, name: str | int) -> Any:
        if isinstance(name, int):
            if not -len(self) <= name < len(self):
                raise ConfigError(f"there is no layer {name}: {len(self)} were recorded, from 0 on")
            return list(self)[name]
        if name not in self:
            raise ConfigError(unknown("attention layer", str(name), self._records))
        return self._records[name]

    def __len__(self) -> int:
        return len(self._records)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._records

    def __iter__(self) -> Iterator[Any]:
        return iter(self._records.values())

    def clear(self) -> None:
        """Forgets the calls so far, and with them their tensors."""
        for entry in self:
            entry.calls.clear()

    def table(self) -> str:
        """What was called, with the shapes of the latest call, in the order of the model: a part before its whole."""
        head = ("name", "what", "calls", "shape")
        shown = [(entry.name, *entry.shown(), len(entry.calls)) for entry in self if entry.calls]
        rows = [head] + [(name, what, str(count), shape) for name, what, shape, count in shown]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        return "\n".join("  ".join([*map(str.ljust, row, widths), row[3]]).rstrip() for row in rows)


@contextmanager
def record(
    model: nn.Module, *patterns: str, kind: Literal["attention", "all"] = "attention", most_bytes: int | None = None
) -> Iterator[Trace]:
    """Context manager that records every call of the model's attention layers; results and kernels do not change.

    Calls are kept by reference: tensors are not copied and live as long as the trace. A call that is recomputed in the
    backward pass (activation checkpointing, reversible layers) is recorded once. Steps of a recurrent mechanism from
    its state have no keys and therefore no weights. A program compiled before the record was opened is not recorded.
    One thread at a time may look at a model: a record takes the calls of all threads.

    Args:
        patterns: names of layers, `*` and `?` allowed, such as "decoder.*.cross_attention"; default: all layers.
        kind: "attention", or "all" to record also what the modules around it return: embeddings, parts of blocks,
            blocks, encoder, decoder, the model.
        most_bytes: what attention layers may keep together, in bytes; None: whatever it takes.
    Raises:
        ConfigError: a pattern that no attention layer matches.
        Unsupported: in the model's pass, as soon as more than `most_bytes` would be kept.
    """
    if kind not in ("attention", "all"):
        raise ConfigError(unknown("kind of record", kind, ("attention", "all")))
    matches = chosen(model, *patterns)
    records: dict[str, LayerRecord | OutputRecord] = {}
    room = None if most_bytes is None else Room(most_bytes)
    with ExitStack() as stack:
        for name, module in _around(model) if kind == "all" else []:
            records[name] = output = OutputRecord(name, type(module).__name__)
            stack.callback(module.register_forward_hook(output._keep).remove)
        for name, (_, mechanism) in matches.items():
            records[name] = layer = LayerRecord(name, room)
            stack.enter_context(watch(mechanism, look=layer._keep))
        yield Trace(_ordered(model, records))


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

"""The records of one module: the calls of an attention layer, the outputs of any other."""

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.module_tracker import ModuleTracker

from headwise.attention.call import Call
from headwise.attention.mechanisms.mechanism import Mechanism, Weights
from headwise.cancellation import poll_cancellation
from headwise.errors import ConfigError, Unsupported
from headwise.records.calls import RecordedCall, recorded
from headwise.records.watching import Change, Heads, head_numbers

# says whether gradients flow just now
_TRACKER = ModuleTracker()


class Room:
    """Bytes that are left for the tensors of all layers of a record."""

    def __init__(self, most: int):
        self.most, self.left = most, most

    def take(self, call: RecordedCall) -> None:
        """Raises: Unsupported where a call is larger than what is left."""
        self.left -= sum(tensor.nbytes for tensor in (*call.call.tensors, call.output))
        if self.left < 0:
            raise Unsupported(
                f"attention of this input would keep more than {self.most:,} bytes of queries, keys and values; give a"
                " shorter input, or look at a model of fewer layers"
            )


class LayerRecord:
    """What one attention layer did while the record was open.

    Args:
        room: what its calls may take, together with those of other layers; None: any number of bytes.
    """

    def __init__(self, name: str, room: Room | None = None):
        self.name, self._room = name, room
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
        """What the layer returned, before heads are joined; steps of a decoder follow each other.

        Raises: ConfigError: its calls are not the steps of one sequence.
        """
        self._check_steps()
        return torch.cat([call.output for call in self.calls], dim=2) if self.calls[1:] else self._last().output

    @property
    def value(self) -> Float[Tensor, "batch kv_heads key_len value_dim"]:
        """The values of the latest call."""
        return self._last().call.value

    def weights(self, head: Heads = None, queries: slice = slice(None), keys: slice = slice(None)) -> Weights:
        """Exact weights, computed now from what the layer was given; the kernel that ran is not asked again.

        They are those of the parameters at the time of the call, also after an optimizer step (`changed` of a call
        says that there was one). Open edits are part of them.

        Args:
            head: one, several, or all heads; the axis stays.
            queries: rows to show; `Scored` computes no others.
            keys: columns to show.
        Raises: ConfigError: there is no such head, or the calls are not the steps of one sequence.
        """
        self._check_steps()
        return self.rows(head, queries, keys)

    def sequences(self) -> list["LayerRecord"]:
        """Its calls apart: a record for each sequence, of one call and the decoding steps that go on from it.

        A layer that a model calls several times in one pass, as ALBERT does, has a sequence for each of them.
        """
        sequences: list[LayerRecord] = []
        for call in self.calls:
            if not sequences or not _goes_on(sequences[-1].calls[-1].call, call.call):
                sequences.append(LayerRecord(self.name))
            sequences[-1].calls.append(call)
        return sequences

    def rows(self, head: Heads = None, queries: slice = slice(None), keys: slice = slice(None)) -> Weights:
        """`weights` of all calls, the rows of each below those of the one before, whatever sequence they are of."""
        poll_cancellation()
        last = self._last()
        heads = None if head is None else head_numbers(self.name, head, self.num_heads)
        if len(self.calls) == 1:
            return last.weights(heads, queries, keys)
        # a decoder that goes step by step: the rows of each call, over the keys there were at that step
        firsts = [first for sequence in self.sequences() for first in sequence._first_keys()]
        rows = [F.pad(call.weights(heads), (first, 0)) for call, first in zip(self.calls, firsts, strict=True)]
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
        for entry in self.calls:
            start, new = entry.call.query_start, entry.call.shape[2]
            # a call from position 0 begins a sequence; a later one goes on where the one before it ended
            expected = max(start, expected) if positions and start else start
            positions.append(expected - start)
            expected += new
        return positions

    def _check_steps(self) -> None:
        """Raises: ConfigError if the calls are of several sequences."""
        count = len(self.sequences())
        if count > 1:
            raise ConfigError(
                f"{self.name} was called for {count} sequences, one after another: read its `sequences()` or `calls`"
                " one by one"
            )

    def _last(self) -> RecordedCall:
        if not self.calls:
            raise ConfigError(f"{self.name} was not called while the record was open")
        return self.calls[-1]

    def _keep(self, mechanism: Mechanism, call: Call, output: Tensor, changes: tuple[Change, ...]) -> None:
        if _again():
            return
        earlier = self.calls[-1].state if self.calls else {}
        call_record = recorded(mechanism, call, output, changes, earlier)
        if self._room is not None:
            self._room.take(call_record)
        self.calls.append(call_record)


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
        output = _first(result)
        if output is not None and not _again():
            self.calls.append(output.detach())


def _goes_on(before: Call, call: Call) -> bool:
    """Whether a call is a decoding step after another: behind it, or the next look at the same memory."""
    if call.cross:
        alike = call.key.shape == before.key.shape and call.key.device == before.key.device
        return before.cross and alike and torch.equal(call.key, before.key)
    # a memory of earlier segments is dropped from the front, so that queries seem to stand still
    return call.query_start > 0


def _again() -> bool:
    """Whether a checkpoint or a reversible layer computes a call again for its gradient: it was kept already."""
    return not torch.compiler.is_compiling() and _TRACKER.is_bw


def _first(result: Any) -> Tensor | None:
    if isinstance(result, Tensor):
        return result
    parts = result.values() if isinstance(result, Mapping) else result if isinstance(result, tuple | list) else ()
    return next((part for part in parts if isinstance(part, Tensor)), None)

"""One recorded call, and what is copied of it so that its weights stay what they were."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.attention.call import Call
from headwise.attention.checkpointing import call_with
from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.attention.precision import uncast
from headwise.attention.stages import Stage
from headwise.errors import Unsupported
from headwise.records.watching import Change, weights


@dataclass(frozen=True, slots=True, eq=False)
class RecordedCall:
    """One call of an attention layer: references to what it was given and what it returned.

    Copied are only the parameters and buffers of the mechanism, its score and its normalizer, which are small: an
    optimizer changes them in place.
    """

    mechanism: Mechanism
    call: Call
    output: Float[Tensor, "batch heads query_len value_dim"]
    changes: tuple[Change, ...] = ()
    state: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def changed(self) -> bool:
        """Whether parameters of the mechanism have changed since, by an optimizer step for instance."""
        return not _same(_state(self), self.state)

    def weights(
        self, heads: Sequence[int] | None = None, queries: slice = slice(None), keys: slice = slice(None)
    ) -> Float[Tensor, "batch heads query_len key_len"]:
        """Exact weights of these heads, query rows and keys, computed now from the call with the parameters of then.

        Attention by its definition computes what is asked for; other mechanisms may not be cut, and compute all.
        """
        return self._read(lambda: weights(self.mechanism, self.call, self.changes, heads, queries, keys))

    def stages(self) -> list[Stage]:
        """What the mechanism computes on the way, now, from the call with the parameters of then."""
        return list(self._read(lambda: self.mechanism.stages(self.call)))

    def _read(self, read: Callable[[], Any]) -> Any:
        with torch.no_grad(), uncast(self.output):
            return call_with(_Reader(self, read), self.state, ())

    def double(self, query: Tensor, key: Tensor, value: Tensor) -> "RecordedCall":
        """The same call in double precision, of these tensors in place of its own."""
        call, relative = self.call, self.call.relative
        if relative is not None:
            relative = replace(relative, **{f.name: _double(getattr(relative, f.name)) for f in fields(relative)})
        tensors: dict[str, Any] = {"query": query, "key": key, "value": value, "bias": _double(call.bias)}
        call = replace(call, **tensors, gates=_double(call.gates), relative=relative, clean=False)
        return replace(self, call=call, state={name: _double(tensor) for name, tensor in self.state.items()})


def recorded(
    mechanism: Mechanism, call: Call, output: Tensor, changes: tuple[Change, ...], earlier: Mapping[str, Tensor]
) -> RecordedCall:
    """A call without its graph; it shares the copies of `earlier` if no parameter has changed since.

    Raises: Unsupported inside `torch.vmap`, whose tensors mean nothing outside of it.
    """
    if not torch.compiler.is_compiling() and torch.func.debug_unwrap(output, recurse=True).ndim != output.ndim:
        raise Unsupported("a record cannot keep what torch.vmap maps: call the model without it while a record is open")
    call_record = RecordedCall(mechanism, _detached(call), output.detach(), changes)
    state = _state(call_record)
    # a compiled program cannot look at values
    if earlier and not torch.compiler.is_compiling() and _same(state, earlier):
        return replace(call_record, state=earlier)
    return replace(call_record, state={name: part.detach().clone() for name, part in state.items()})


class _Reader(nn.Module):
    """Whatever has parameters that a recorded call used, as one module, and what is read of them."""

    def __init__(self, recorded: RecordedCall, read: Callable[[], Any]):
        super().__init__()
        self.mechanism, self.score, self.normalizer = recorded.mechanism, recorded.call.score, recorded.call.normalizer
        self.read = read

    def forward(self) -> Any:
        return self.read()


def _double(value: Any) -> Any:
    return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value


def _state(recorded: RecordedCall) -> dict[str, Tensor]:
    """The tensors of the modules that a reader has, each once."""
    parts = {"mechanism": recorded.mechanism, "score": recorded.call.score, "normalizer": recorded.call.normalizer}
    tensors, ids = {}, set()
    for part, module in parts.items():
        for name, tensor in (*module.named_parameters(), *module.named_buffers()):
            if id(tensor) not in ids:
                ids.add(id(tensor))
                tensors[f"{part}.{name}"] = tensor
    return tensors


def _same(state: Mapping[str, Tensor], old: Mapping[str, Tensor]) -> bool:
    return state.keys() == old.keys() and all(
        tensor.shape == old[name].shape and tensor.device == old[name].device and torch.equal(tensor, old[name])
        for name, tensor in state.items()
    )


def _detached(call: Call) -> Call:
    bias, relative = call.bias, call.relative
    if bias is not None:
        # an optimizer would change a parameter in place
        bias = bias.detach().clone() if isinstance(bias, nn.Parameter) else bias.detach()
    if relative is not None:
        relative = relative.detached()
        names = ("scalar", "query_table", "key_table", "value_table")
        relative = replace(relative, **{n: t.clone() for n in names if (t := getattr(relative, n)) is not None})
    query, key, value = call.query.detach(), call.key.detach(), call.value.detach()
    gates = None if call.gates is None else call.gates.detach()
    return replace(call, query=query, key=key, value=value, bias=bias, relative=relative, gates=gates)

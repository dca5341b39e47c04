"""Who looks at the calls of a mechanism and who changes them: one pair of hooks a mechanism, whatever is open."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from torch import Tensor, nn
from torch.compiler import is_compiling

from headwise.attention.call import Call
from headwise.attention.mechanisms.mechanism import Mechanism, Recurrent, State
from headwise.attention.weights import select_weights
from headwise.cancellation import poll_cancellation
from headwise.errors import ConfigError, Unsupported, unknown

_SLOT = "watch"
Heads = int | Sequence[int] | None
# computes the weights of all heads, queries and keys
Weights = Callable[[], Tensor]


class Change:
    """The base of what changes the calls of a mechanism while it is open; by itself it changes nothing."""

    def before(self, call: Call) -> Call:
        """The call in place of this one."""
        return call

    def after(self, output: Tensor, call: Call, earlier: Weights) -> Tensor:
        """The output in place of this one. `earlier`: the weights as the changes before this one leave them."""
        return output

    def weights(self, weights: Tensor, call: Call) -> Tensor:
        """The weights of all heads, queries and keys in place of these."""
        return weights

    def resumed(self, output: Tensor, call: Call) -> Tensor:
        """The output of new tokens in place of this one, where a mechanism goes on from a state."""
        raise Unsupported(f"{type(self).__name__} acts on calls over a whole sequence; steps from a state have no keys")


# is told of a call as it was computed, what came out, and the changes that were open
Looker = Callable[[Mechanism, Call, Tensor, tuple[Change, ...]], None]


class Watch:
    """The changes of one mechanism in the order they were opened, then those who look; it is there while one is."""

    def __init__(self, mechanism: Mechanism):
        self.changes: list[Change] = []
        self.lookers: list[Looker] = []
        self.asleep = False
        # whether keys and values are in memory that will be written over, so that those who look need copies
        self.copies = False
        self.move(mechanism)

    def move(self, mechanism: Mechanism) -> None:
        """Watches this mechanism from now on, and no other."""
        self.leave()
        self._mechanism = mechanism
        setattr(mechanism, _SLOT, self)
        before = mechanism.register_forward_pre_hook(self._before, with_kwargs=True)
        self._handles = [before, mechanism.register_forward_hook(self._after, with_kwargs=True)]
        if isinstance(mechanism, Recurrent):
            # a step from a state is no call of the module, so no hook sees it
            self._resume, mechanism.resume = mechanism.resume, self._resumed  # type: ignore[method-assign]

    def leave(self) -> None:
        """Takes the hooks away."""
        mechanism: Mechanism | None = getattr(self, "_mechanism", None)
        if mechanism is None:
            return
        for handle in self._handles:
            handle.remove()
        delattr(mechanism, _SLOT)
        mechanism.__dict__.pop("resume", None)

    def _before(self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        if not self.changes or self.asleep:
            return None
        call = call_of(inputs, options)
        for change in self.changes:
            call = change.before(call)
        return (call,), {}

    def _after(self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any], output: Tensor) -> Any:
        if self.asleep:
            return None
        if not is_compiling():
            poll_cancellation()
        assert isinstance(module, Mechanism)
        call = call_of(inputs, options)
        for number, change in enumerate(self.changes):
            before = tuple(self.changes[:number])
            output = change.after(output, call, lambda before=before: weights(module, call, before))  # type: ignore[misc]
        if self.copies and self.lookers:
            gates = None if call.gates is None else call.gates.clone()
            call = replace(call, key=call.key.clone(), value=call.value.clone(), gates=gates)
        for look in self.lookers:
            look(module, call, output, tuple(self.changes))
        return output if self.changes else None

    def _resumed(self, call: Call, state: State | None) -> tuple[Tensor, State]:
        output, state = self._resume(call, state)
        for change in self.changes:
            output = change.resumed(output, call)
        return output, state


def watched(mechanism: Mechanism) -> Watch | None:
    """The watch of a mechanism, if anybody looks at it or changes it."""
    return mechanism.__dict__.get(_SLOT)


@contextmanager
def watch(mechanism: Mechanism, *, change: Change | None = None, look: Looker | None = None) -> Iterator[None]:
    """While open, the calls of the mechanism pass through this change or are told to this looker."""
    watch = watched(mechanism) or Watch(mechanism)
    watch.changes = watch.changes if change is None else [*watch.changes, change]
    watch.lookers = watch.lookers if look is None else [*watch.lookers, look]
    try:
        yield
    finally:
        watch.changes = [other for other in watch.changes if other is not change]
        watch.lookers = [other for other in watch.lookers if other is not look]
        if not watch.changes and not watch.lookers:
            watch.leave()


def weights(
    mechanism: Mechanism,
    call: Call,
    changes: Sequence[Change],
    heads: Sequence[int] | None = None,
    queries: slice = slice(None),
    keys: slice = slice(None),
) -> Tensor:
    """The weights of a call under these changes, before dropout, cut; without changes nothing else is computed."""
    call = replace(call, dropout=0.0)
    with _shown(mechanism):
        if not changes:
            return mechanism.weights(call, heads, queries, keys)
        full = mechanism.weights(call)
    for change in changes:
        full = change.weights(full, call)
    return select_weights(full, heads, queries, keys)


@contextmanager
def _shown(mechanism: Mechanism) -> Iterator[None]:
    """While open, the mechanism, which may have to run to show its weights, is watched by nobody and drops nothing."""
    watch, learning = watched(mechanism), [module for module in mechanism.modules() if module.training]
    if watch is not None:
        watch.asleep = True
    for module in learning:
        module.training = False
    try:
        yield
    finally:
        if watch is not None:
            watch.asleep = False
        for module in learning:
            module.training = True


def call_of(inputs: tuple[Any, ...], options: dict[str, Any]) -> Call:
    """The call that a mechanism was given, by position or by name."""
    return inputs[0] if inputs else options["call"]


def head_numbers(layer: str, heads: Heads, count: int) -> list[int]:
    """The numbers of these heads of a layer, of all if None. Raises: ConfigError for a head that it lacks."""
    numbers = list(range(count)) if heads is None else [heads] if isinstance(heads, int) else list(heads)
    if wrong := [head for head in numbers if not 0 <= head < count]:
        raise ConfigError(f"{layer} has heads 0 to {count - 1}, not {wrong[0]}")
    return numbers


def layers(model: nn.Module) -> dict[str, tuple[str, Mechanism]]:
    """(name of the module, mechanism) by the name of the layer: every mechanism that is no part of another one."""
    by_name: dict[str, tuple[str, Mechanism]] = {}
    inside: tuple[str, ...] = ()
    for name, module in model.named_modules():
        if isinstance(module, Mechanism) and not name.startswith(inside):
            # what torch.compile puts around a module is no part of its name
            shown = name.replace("_orig_mod.", "")
            shown = shown.removesuffix(".mechanism") if shown != "mechanism" else ""
            by_name[shown or type(module).__name__] = (name, module)
            inside = (*inside, f"{name}." if name else "")
    return by_name


def chosen(model: nn.Module, *patterns: str) -> dict[str, tuple[str, Mechanism]]:
    """The layers that match a pattern, all if there is none. Raises: ConfigError if a pattern matches no layer."""
    candidates = layers(model)
    if not candidates:
        raise ConfigError(f"{type(model).__name__} has no attention layer: no module of it is a Mechanism")
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in candidates):
            raise ConfigError(unknown("attention layer", pattern, candidates))
    return {name: layer for name, layer in candidates.items() if any(fnmatchcase(name, p) for p in patterns or ("*",))}

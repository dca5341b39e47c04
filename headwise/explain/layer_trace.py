"""One attention layer step by step, from its input to its output: every intermediate with name, formula and numbers."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.attention.call import per_head
from headwise.attention.precision import uncast, wide
from headwise.attention.steps import PAIRS, Step
from headwise.errors import ConfigError, Unsupported, unknown
from headwise.layers.attention import MultiHeadAttention
from headwise.records import RecordedCall, Trace, record
from headwise.records.watching import chosen

# what hooks see of the latest call alone
_OF_LAYER = ("input", "joined", "layer output")
# numbers of the weighted values, which are as many as pairs times the width of a value
_AT_MOST = 1 << 18


@dataclass(frozen=True, eq=False)
class TracedStep:
    """A step with the numbers of one example and one head; see `Step`."""

    name: str
    symbol: str
    formula: str
    axes: tuple[str, ...]
    values: Float[np.ndarray, "..."]
    text: str


@dataclass(frozen=True)
class LayerTrace:
    """What one head of one layer computed for one input.

    Args:
        queries, keys: a label for each.
        shapes: (name, what, shape) of everything that the model computed on the way, in its order.
    """

    layer: str
    head: int
    queries: list[str]
    keys: list[str]
    steps: list[TracedStep]
    shapes: list[tuple[str, str, str]] = field(default_factory=list)

    def __getitem__(self, name: str) -> TracedStep:
        """A step by its name. Raises: ConfigError for a name that is not among them."""
        found = {step.name: step for step in self.steps}
        if name not in found:
            raise ConfigError(unknown("step", name, found))
        return found[name]

    def labels(self, axis: str, length: int) -> list[str]:
        """What the rows or columns along an axis are called: tokens, or numbers from 0."""
        given = {"queries": self.queries, "keys": self.keys}.get(axis, [])
        return given if len(given) == length else [str(place) for place in range(length)]


def layer_trace(
    model: nn.Module,
    run: Callable[[], object],
    layer: str | None = None,
    head: int = 0,
    *,
    queries: Sequence[str] = (),
    keys: Sequence[str] = (),
) -> LayerTrace:
    """The steps of one layer while `run` calls the model; its calls of the layer, their first example.

    Nothing that the model computes changes. The steps are computed again from what the layer was given, so they are
    there whichever kernel ran; `output` is what the layer returned.

    Args:
        layer: a name as `headwise.record` gives it; the first attention layer if None.
        head: of the query, from 0.
        queries, keys: labels, where they are known.

    Raises:
        ConfigError: a layer or a head that is not there.
        Unsupported: the layer was not called over whole sequences.

    >>> from headwise.layers.attention import MultiHeadAttention
    >>> layer = MultiHeadAttention(8, 2)
    >>> found = layer_trace(layer, lambda: layer(torch.ones(1, 3, 8)), head=1)
    >>> [step.name for step in found.steps][:5]
    ['input', 'query', 'key', 'value', 'products']
    """
    found = chosen(model)
    name = next(iter(found)) if layer is None else layer
    if name not in found:
        raise ConfigError(unknown("attention layer", name, found))
    owner = _owner(model, found[name][0])
    with record(model, kind="all") as trace, _watched(owner) as seen, torch.no_grad():
        run()
    one = trace[name]
    if not one.calls:
        raise Unsupported(f"{name} was not called for this input, so there is no step to show")
    if not 0 <= head < one.num_heads:
        raise ConfigError(f"head {head} is not there; {name} has heads 0 to {one.num_heads - 1}")
    if len(one.calls) > 1:
        # each call has other queries, and what was projected is known of the latest alone
        seen.pop("projected", None)
    # a decoder that goes step by step has a call for each query
    rows = [_steps(call, head, owner, seen) for call in one.calls]
    return LayerTrace(name, head, list(queries), list(keys), _joined(rows), _shapes(trace))


def _joined(calls: list[list[TracedStep]]) -> list[TracedStep]:
    """The steps of several calls as of one: queries follow each other, keys and values are those of the last.

    Calls over other keys each, as with a cache, do not go together: then those of the last.
    """
    last = calls[-1]
    sizes = {tuple(step.values.shape[1:] for step in steps) for steps in calls}
    if len(calls) == 1 or len(sizes) > 1:
        return last
    return [
        replace(step, values=np.concatenate([steps[place].values for steps in calls]))
        if step.axes[0] == "queries" and step.name not in _OF_LAYER
        else step
        for place, step in enumerate(last)
    ]


def _owner(model: nn.Module, mechanism: str) -> MultiHeadAttention | None:
    """The layer around a mechanism, where it is one whose projections are known."""
    parent = model.get_submodule(mechanism.rpartition(".")[0])
    return parent if isinstance(parent, MultiHeadAttention) else None


@contextmanager
def _watched(owner: MultiHeadAttention | None) -> Iterator[dict[str, Tensor]]:
    """What goes into the latest call of a layer, what its projections make of it, and what comes out."""
    seen: dict[str, Tensor] = {}

    def into(module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        seen.clear()
        seen["input"] = given[0]
        memory = given[1] if len(given) > 1 else named.get("memory")
        if memory is not None:
            seen["memory"] = memory

    def out(module: nn.Module, given: tuple[Any, ...], result: Tensor) -> None:
        seen["joined"], seen["layer output"] = given[0], result

    with ExitStack() as stack:
        if owner is not None:
            stack.callback(owner.register_forward_pre_hook(into, with_kwargs=True).remove)
            stack.callback(owner.output.register_forward_hook(out).remove)
            stack.callback(
                owner.projection.register_forward_hook(lambda _, given, made: seen.update(projected=made)).remove
            )
        yield seen


def _steps(
    recorded: RecordedCall, head: int, owner: MultiHeadAttention | None, seen: dict[str, Tensor]
) -> list[TracedStep]:
    call = recorded.call
    with torch.no_grad(), uncast(recorded.output):
        steps = [*_before(recorded, owner, seen), *recorded.mechanism.stages(call)]
        if recorded.changes:
            text = "the weights that count, after what was changed"
            steps.append(Step("changed weights", "A'", "A'", PAIRS, recorded.weights(), text))
        if (weighted := _weighted(call.value, steps[-1].values, call.query.shape[1], head)) is not None:
            text = "each value times its weight; their sum over the keys is the output"
            steps.append(Step("weighted values", "W", r"W_{ij} = A_{ij} v_j", (*PAIRS, "features"), weighted, text))
        text = "what this head returns"
        formula = r"O = A V" if call.relative is None or call.relative.value_table is None else r"O = A V + R_V"
        steps.append(Step("output", "O", formula, ("queries", "features"), recorded.output, text))
        steps += _after(owner, seen)
    return [_of_head(step, head) for step in steps]


def _weighted(value: Tensor, weights: Tensor, heads: int, head: int) -> Tensor | None:
    """A vector for each pair of one head; None where that would be too many numbers to look at."""
    of_head = wide(per_head(value, heads))[:1, head : head + 1, None, : weights.shape[-1]]
    own = weights[:1, head : head + 1].unsqueeze(-1)
    return own * of_head if own.numel() * of_head.shape[-1] <= _AT_MOST else None


def _before(recorded: RecordedCall, owner: MultiHeadAttention | None, seen: dict[str, Tensor]) -> list[Step]:
    call = recorded.call
    heads = call.query.shape[1]
    found = []
    if "input" in seen:
        found.append(Step("input", "X", "X", ("queries", "features"), _one(seen["input"]), "what the layer is given"))
    if "memory" in seen:
        text = "what is looked at: another sequence"
        found.append(Step("memory", "C", "C", ("keys", "features"), _one(seen["memory"]), text))
    plain = None if owner is None or call.cross else _unturned(owner, seen, call.query.shape)
    if plain is not None and not torch.equal(plain, call.query):
        text = "before norms and position turn it"
        found.append(Step("plain query", "Q_0", _product("Q_0", "X", owner), ("queries", "features"), plain, text))
    key, value = (per_head(tensor, heads) for tensor in (call.key, call.value))
    other = "C" if call.cross else "X"
    formula = _product("Q", "X", owner) if plain is None or torch.equal(plain, call.query) else r"Q = r(Q_0)"
    return [
        *found,
        Step("query", "Q", formula, ("queries", "features"), call.query, "what each position asks for"),
        Step("key", "K", _product("K", other, owner), ("keys", "features"), key, "what each position is found by"),
        Step("value", "V", _product("V", other, owner), ("keys", "features"), value, "what each position hands on"),
    ]


def _product(symbol: str, given: str, owner: MultiHeadAttention | None) -> str:
    """How a layer makes queries, keys or values; where it is not known, the symbol alone."""
    if owner is None:
        return symbol
    name = symbol.partition("_")[0]
    return f"{symbol} = {given} W_{name}" + (f" + b_{name}" if owner.projection.bias is not None else "")


def _unturned(owner: MultiHeadAttention, seen: dict[str, Tensor], shape: torch.Size) -> Tensor | None:
    """The queries as they are projected; None where they cannot be told from the projection."""
    if "projected" not in seen:
        return None
    plain = seen["projected"][..., : owner.widths()[0]].unflatten(-1, (shape[1], -1)).transpose(1, 2)
    return plain if plain.shape == shape else None


def _after(owner: MultiHeadAttention | None, seen: dict[str, Tensor]) -> list[Step]:
    if owner is None or "joined" not in seen or isinstance(owner.output, nn.Identity):
        return []
    axes = ("queries", "features")
    side = owner.combine == "concat"
    formula = r"H = [O_1 \dots O_h]" if side else r"H = \frac{1}{h} \sum_i O_i"
    text = "the outputs of all heads, side by side" if side else "the mean of the outputs of all heads"
    bias = " + b_O" if getattr(owner.output, "bias", None) is not None else ""
    return [
        Step("joined", "H", formula, axes, _one(seen["joined"]), text),
        Step("layer output", "Y", rf"Y = H W_O{bias}", axes, _one(seen["layer output"]), "what the layer returns"),
    ]


def _one(tensor: Tensor) -> Tensor:
    """What all heads share, with an axis of one head."""
    return tensor.detach().unsqueeze(1)


def _of_head(step: Step, head: int) -> TracedStep:
    values = step.values.detach()
    numbers = values[0, head if values.shape[1] > 1 else 0].double().cpu().numpy()
    return TracedStep(step.name, step.symbol, step.formula, step.axes, numbers, step.text)


def _shapes(trace: Trace) -> list[tuple[str, str, str]]:
    """Everything that was called, with its shape as the model had it."""
    return [(each.name, *each.shown()) for each in trace if each.calls]

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
from headwise.attention.mechanisms.scored import Scored
from headwise.attention.precision import uncast, wide
from headwise.attention.stages import PAIRS, Stage
from headwise.errors import ConfigError, Unsupported, unknown
from headwise.layers.attention import MultiHeadAttention
from headwise.records import RecordedCall, record
from headwise.records.watching import chosen

# hooks see these steps of the latest call only
_HOOKED = ("input", "joined", "layer output")
# the weighted values are as many as pairs times the width of a value; above this number they are left out
_MOST_NUMBERS = 1 << 18

# a worked example: an input of three vectors, and a layer of whole numbers
_INPUT = [[1, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]]
_QUERY = [[1, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 1]]
_KEY = [[0, 0, 1], [1, 1, 0], [0, 1, 0], [1, 1, 0]]
_VALUE = [[0, 2, 0], [0, 3, 0], [1, 0, 3], [1, 1, 0]]
# the score of the layer in each example
EXAMPLES = {"illustrated": "dot", "illustrated-scaled": "scaled_dot"}


@dataclass(frozen=True, eq=False)
class TracedStep:
    """A step with the numbers of one example and one head; see `Stage`."""

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
        shapes: (name, what, shape) of everything that the model computed on the way, in its order.
    """

    layer: str
    head: int
    queries: list[str]
    keys: list[str]
    steps: list[TracedStep]
    shapes: list[tuple[str, str, str]] = field(default_factory=list)

    def __getitem__(self, name: str) -> TracedStep:
        """A step by its name. Raises: ConfigError for an unknown name."""
        steps = {step.name: step for step in self.steps}
        if name not in steps:
            raise ConfigError(unknown("step", name, steps))
        return steps[name]

    def labels(self, axis: str, length: int) -> list[str]:
        """The labels along an axis: tokens, or numbers from 0."""
        tokens = {"queries": self.queries, "keys": self.keys}.get(axis, [])
        return tokens if len(tokens) == length else [str(number) for number in range(length)]


def layer_trace(
    model: nn.Module,
    run: Callable[[], object],
    layer: str | None = None,
    head: int = 0,
    *,
    queries: Sequence[str] = (),
    keys: Sequence[str] = (),
) -> LayerTrace:
    """The steps of one layer while `run` calls the model, for the first sequence of the batch.

    No output of the model changes. The steps are recomputed from the recorded calls, whichever kernel ran; `output` is
    the output of the layer itself.

    Args:
        layer: a name as `headwise.record` gives it; the first attention layer if None.
        head: a query head, from 0.
        queries, keys: labels, where they are known.
    Raises:
        ConfigError: an unknown layer or head.
        Unsupported: the layer was not called over whole sequences.

    >>> from headwise.layers.attention import MultiHeadAttention
    >>> layer = MultiHeadAttention(8, 2)
    >>> trace = layer_trace(layer, lambda: layer(torch.ones(1, 3, 8)), head=1)
    >>> [step.name for step in trace.steps][:5]
    ['input', 'query', 'key', 'value', 'products']
    """
    mechanisms = chosen(model)
    name = next(iter(mechanisms)) if layer is None else layer
    if name not in mechanisms:
        raise ConfigError(unknown("attention layer", name, mechanisms))
    parent = model.get_submodule(mechanisms[name][0].rpartition(".")[0])
    # the layer around the mechanism, where its projections are known
    attention = parent if isinstance(parent, MultiHeadAttention) else None
    with record(model, kind="all") as trace, _hooks(attention) as tensors, torch.no_grad():
        run()
    layer_record = trace[name]
    if not layer_record.calls:
        raise Unsupported(f"{name} was not called for this input, so there is no step to show")
    if not 0 <= head < layer_record.num_heads:
        raise ConfigError(f"head {head} is not there; {name} has heads 0 to {layer_record.num_heads - 1}")
    if len(layer_record.calls) > 1:
        # each call has other queries, and the hooks saw the projection of the latest only
        tensors.pop("projected", None)
    # a decoder that goes step by step has a call for each query
    steps = _concatenate([_steps(call, head, attention, tensors) for call in layer_record.calls])
    shapes = [(entry.name, *entry.shown()) for entry in trace if entry.calls]
    return LayerTrace(name, head, list(queries), list(keys), steps, shapes)


def example_trace(name: str) -> LayerTrace:
    """The steps of an example of `EXAMPLES`, which can be checked by hand.

    Source of the numbers: the worked example of three inputs of width 4 in Karim 2019, "Illustrated: Self-Attention".

    Raises: ConfigError for an unknown name.

    >>> example_trace("illustrated")["query"].values.astype(int).tolist()
    [[1, 0, 2], [2, 2, 2], [2, 1, 3]]
    """
    if name not in EXAMPLES:
        raise ConfigError(f"--example: {unknown('example', name, EXAMPLES)}")
    layer = MultiHeadAttention(4, 1, Scored(EXAMPLES[name]), head_dim=3, value_dim=3, bias=False).double()
    # the example has one head, whose output is that of the layer
    layer.set_submodule("output", nn.Identity())
    matrices = torch.cat([torch.tensor(matrix, dtype=torch.float64).mT for matrix in (_QUERY, _KEY, _VALUE)])
    with torch.no_grad():
        layer.projection.weight.copy_(matrices)
    inputs: Tensor = torch.tensor([_INPUT], dtype=torch.float64)
    labels = ["x1", "x2", "x3"]
    return layer_trace(nn.ModuleDict({name: layer}), lambda: layer(inputs), queries=labels, keys=labels)


def _concatenate(calls: list[list[TracedStep]]) -> list[TracedStep]:
    """The steps of several calls as those of one: queries follow each other, keys and values are those of the last.

    Calls over different keys, as with a cache, cannot be joined: the steps of the last.
    """
    last = calls[-1]
    sizes = {tuple(step.values.shape[1:] for step in steps) for steps in calls}
    if len(calls) == 1 or len(sizes) > 1:
        return last
    return [
        replace(step, values=np.concatenate([steps[number].values for steps in calls]))
        if step.axes[0] == "queries" and step.name not in _HOOKED
        else step
        for number, step in enumerate(last)
    ]


@contextmanager
def _hooks(attention: MultiHeadAttention | None) -> Iterator[dict[str, Tensor]]:
    """Tensors of the latest call of a layer by name: its inputs, its projection, input and output of its last map."""
    tensors: dict[str, Tensor] = {}

    def keep_inputs(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        tensors.clear()
        tensors["input"] = args[0]
        memory = args[1] if len(args) > 1 else kwargs.get("memory")
        if memory is not None:
            tensors["memory"] = memory

    def keep_projection(module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        tensors["projected"] = output

    def keep_output(module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        tensors["joined"], tensors["layer output"] = args[0], output

    with ExitStack() as stack:
        if attention is not None:
            stack.callback(attention.register_forward_pre_hook(keep_inputs, with_kwargs=True).remove)
            stack.callback(attention.projection.register_forward_hook(keep_projection).remove)
            stack.callback(attention.output.register_forward_hook(keep_output).remove)
        yield tensors


def _steps(
    recorded: RecordedCall, head: int, attention: MultiHeadAttention | None, tensors: dict[str, Tensor]
) -> list[TracedStep]:
    call = recorded.call
    with torch.no_grad(), uncast(recorded.output):
        steps = [*_before(recorded, attention, tensors), *recorded.mechanism.stages(call)]
        if recorded.changes:
            text = "the weights that count, after what was changed"
            steps.append(Stage("changed weights", "A'", "A'", PAIRS, recorded.weights(), text))
        if (weighted := _weighted_values(call.value, steps[-1].values, call.query.shape[1], head)) is not None:
            text = "each value times its weight; their sum over the keys is the output"
            steps.append(Stage("weighted values", "W", r"W_{ij} = A_{ij} v_j", (*PAIRS, "features"), weighted, text))
        text = "what this head returns"
        formula = r"O = A V" if call.relative is None or call.relative.value_table is None else r"O = A V + R_V"
        steps.append(Stage("output", "O", formula, ("queries", "features"), recorded.output, text))
        steps += _after(attention, tensors)
    return [_of_head(step, head) for step in steps]


def _weighted_values(value: Tensor, weights: Tensor, heads: int, head: int) -> Tensor | None:
    """A vector for each pair of one head; None where that would be too many numbers to show."""
    values = wide(per_head(value, heads))[:1, head : head + 1, None, : weights.shape[-1]]
    factors = weights[:1, head : head + 1].unsqueeze(-1)
    return factors * values if factors.numel() * values.shape[-1] <= _MOST_NUMBERS else None


def _before(recorded: RecordedCall, attention: MultiHeadAttention | None, tensors: dict[str, Tensor]) -> list[Stage]:
    """From the input to queries, keys and values."""
    call = recorded.call
    queries, keys = ("queries", "features"), ("keys", "features")
    key, value = (per_head(tensor, call.query.shape[1]) for tensor in (call.key, call.value))
    steps = []
    if "input" in tensors:
        steps.append(Stage("input", "X", "X", queries, _one_head(tensors["input"]), "what the layer is given"))
    if "memory" in tensors:
        text = "what is looked at: another sequence"
        steps.append(Stage("memory", "C", "C", keys, _one_head(tensors["memory"]), text))
    formula = _product("Q", "X", attention)
    plain = None if attention is None or call.cross else _projected_query(attention, tensors, call.query.shape)
    if plain is not None and not torch.equal(plain, call.query):
        text = "before norms and position turn it"
        steps.append(Stage("plain query", "Q_0", _product("Q_0", "X", attention), queries, plain, text))
        formula = r"Q = r(Q_0)"
    source = "C" if call.cross else "X"
    return [
        *steps,
        Stage("query", "Q", formula, queries, call.query, "what each position asks for"),
        Stage("key", "K", _product("K", source, attention), keys, key, "what each position is found by"),
        Stage("value", "V", _product("V", source, attention), keys, value, "what each position hands on"),
    ]


def _product(symbol: str, source: str, attention: MultiHeadAttention | None) -> str:
    """The formula of queries, keys or values; where the projection is not known, the symbol alone."""
    if attention is None:
        return symbol
    name = symbol.partition("_")[0]
    return f"{symbol} = {source} W_{name}" + (f" + b_{name}" if attention.projection.bias is not None else "")


def _projected_query(attention: MultiHeadAttention, tensors: dict[str, Tensor], shape: torch.Size) -> Tensor | None:
    """The queries before norms and position; None where the projection does not show them."""
    if "projected" not in tensors:
        return None
    plain = tensors["projected"][..., : attention.widths()[0]].unflatten(-1, (shape[1], -1)).transpose(1, 2)
    return plain if plain.shape == shape else None


def _after(attention: MultiHeadAttention | None, tensors: dict[str, Tensor]) -> list[Stage]:
    """From the outputs of the heads to that of the layer."""
    if attention is None or "joined" not in tensors or isinstance(attention.output, nn.Identity):
        return []
    axes = ("queries", "features")
    side = attention.combine == "concat"
    formula = r"H = [O_1 \dots O_h]" if side else r"H = \frac{1}{h} \sum_i O_i"
    text = "the outputs of all heads, side by side" if side else "the mean of the outputs of all heads"
    bias = " + b_O" if getattr(attention.output, "bias", None) is not None else ""
    return [
        Stage("joined", "H", formula, axes, _one_head(tensors["joined"]), text),
        Stage(
            "layer output", "Y", rf"Y = H W_O{bias}", axes, _one_head(tensors["layer output"]), "what the layer returns"
        ),
    ]


def _one_head(tensor: Tensor) -> Tensor:
    """A tensor that all heads share, with an axis of one head."""
    return tensor.detach().unsqueeze(1)


def _of_head(step: Stage, head: int) -> TracedStep:
    values = step.values.detach()
    numbers = values[0, head if values.shape[1] > 1 else 0].double().cpu().numpy()
    return TracedStep(step.name, step.symbol, step.formula, step.axes, numbers, step.text)

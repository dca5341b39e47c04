"""One attention layer step by step, from its input to its output: every intermediate with name, formula and numbers."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.attention.call import Call
from headwise.attention.masks import Mask
from headwise.attention.mechanisms.scored import Scored
from headwise.attention.normalizers import Normalizer
from headwise.attention.precision import uncast
from headwise.attention.stages import PAIRS, Stage, Working
from headwise.errors import ConfigError, Unsupported, unknown
from headwise.explain.projections import HEADS, Projections, near, recorded_head, score_parameters
from headwise.explain.workings import checked_working
from headwise.layers.attention import MultiHeadAttention
from headwise.records import RecordedCall, record
from headwise.records.watching import chosen

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
    working: Working | None = None


@dataclass(frozen=True)
class LayerTrace:
    """What one head of one layer computed for one input.

    Args:
        shapes: (name, what, shape) of everything that the model computed on the way, in its order.
        parameters: matrices and biases that the workings of steps name.
        difference: by how much the output of the layer itself, as its kernel computed it, differs from `output`.
    """

    layer: str
    head: int
    queries: list[str]
    keys: list[str]
    steps: list[TracedStep]
    shapes: list[tuple[str, str, str]] = field(default_factory=list)
    parameters: dict[str, Float[np.ndarray, "..."]] = field(default_factory=dict)
    difference: float = 0.0

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

    No output of the model changes. Each step is computed from those before it in double precision, from the recorded
    inputs and the parameters, so that what is shown adds up; where a layer does more than is known here, as with an
    adapter in place of its projection, a step is what the layer computed.

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
    projections = None
    if attention is not None and len(tensors) == len(layer_record.calls):
        projections = Projections(attention)
    parameters = score_parameters(getattr(layer_record.calls[0].mechanism, "score", None), head)
    parameters |= {} if projections is None else projections.parameters(head)
    calls = [
        _steps(call, head, projections, parameters, tensors[number] if projections else {})
        for number, call in enumerate(layer_record.calls)
    ]
    # a decoder that goes step by step has a call for each query
    steps, difference = _concatenate([steps for steps, _ in calls]), max(difference for _, difference in calls)
    shapes = [(entry.name, *entry.shown()) for entry in trace if entry.calls]
    return LayerTrace(name, head, list(queries), list(keys), steps, shapes, parameters, difference)


def example_trace(name: str, mask: Mask | None = None, normalizer: Normalizer | None = None) -> LayerTrace:
    """The steps of an example of `EXAMPLES`, which can be checked by hand.

    Args:
        mask, normalizer: in place of none and of softmax.

    Source of the numbers: the worked example of three inputs of width 4 in Karim 2019, "Illustrated: Self-Attention".

    Raises: ConfigError for an unknown name.

    >>> example_trace("illustrated")["query"].values.astype(int).tolist()
    [[1, 0, 2], [2, 2, 2], [2, 1, 3]]
    """
    if name not in EXAMPLES:
        raise ConfigError(f"--example: {unknown('example', name, EXAMPLES)}")
    layer = MultiHeadAttention(4, 1, Scored(EXAMPLES[name], normalizer), head_dim=3, value_dim=3, bias=False).double()
    with torch.no_grad():
        for parameter, matrix in zip(layer.matrices(), (_QUERY, _KEY, _VALUE), strict=False):
            parameter.copy_(torch.tensor(matrix).mT)
    # the example has one head, whose output is that of the layer
    layer.set_submodule("output", nn.Identity())
    inputs: Tensor = torch.tensor([_INPUT], dtype=torch.float64)
    labels = ["x1", "x2", "x3"]
    return layer_trace(nn.ModuleDict({name: layer}), lambda: layer(inputs, mask=mask), queries=labels, keys=labels)


def _concatenate(calls: list[list[TracedStep]]) -> list[TracedStep]:
    """The steps of several calls as those of one: queries follow each other, keys and values are those of the last.

    Calls over different keys, as with a cache, cannot be joined: the steps of the last.
    """
    last = calls[-1]
    sizes = {tuple(step.values.shape[1:] for step in steps) for steps in calls}
    if len(calls) == 1 or len(sizes) > 1:
        return last
    return [
        replace(step, values=np.concatenate([steps[number].values for steps in calls]), working=_whole(step.working))
        if step.axes[0] == "queries"
        else step
        for number, step in enumerate(last)
    ]


def _whole(working: Working | None) -> Working | None:
    """A working of all calls; what one has for the rows of its call alone is left out."""
    return (
        replace(working, rule="formula", numbers={}) if working and {"cos", "reach"} & set(working.numbers) else working
    )


@contextmanager
def _hooks(attention: MultiHeadAttention | None) -> Iterator[list[dict[str, Tensor]]]:
    """Tensors of each call of a layer by name: its inputs, input and output of its last map."""
    calls: list[dict[str, Tensor]] = []

    def keep_inputs(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        calls.append({"input": args[0]})
        memory = args[1] if len(args) > 1 else kwargs.get("memory")
        if memory is not None:
            calls[-1]["memory"] = memory

    def keep_output(module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        calls[-1] |= {"joined": args[0], "layer output": output}

    with ExitStack() as stack:
        if attention is not None:
            stack.callback(attention.register_forward_pre_hook(keep_inputs, with_kwargs=True).remove)
            stack.callback(attention.output.register_forward_hook(keep_output).remove)
        yield calls


def _steps(
    recorded: RecordedCall,
    head: int,
    projections: Projections | None,
    parameters: dict[str, Float[np.ndarray, "..."]],
    tensors: dict[str, Tensor],
) -> tuple[list[TracedStep], float]:
    """The steps of one head in a call, and by how much the layer itself differs from them."""
    call = recorded.call
    with torch.no_grad(), uncast(recorded.output):
        steps = [recorded_head(name, call) for name in HEADS]
        if projections is not None:
            steps = projections.before(call, tensors)
        query, key, value = (step.values for step in steps[-len(HEADS) :])
        group = slice(None, None, call.group)
        exact = recorded.double(query, key[:, group], value[:, group])
        steps += exact.stages()
        if recorded.changes:
            text, working = "the weights that count, after what was changed", Working("formula", (steps[-1].name,))
            steps.append(Stage("changed weights", "A'", "A'", PAIRS, exact.weights(), text, working))
        weights, source = steps[-1].values, steps[-1].name
        if (weighted := _weighted_values(value, weights, head)) is not None:
            text = "each value times its weight; their sum over the keys is the output"
            steps.append(Stage("weighted values", "W", r"W_{ij} = A_{ij} v_j", (*PAIRS, "features"), weighted, text))
        output = _output(call, source, weights, value, recorded.output)
        steps.append(output)
        difference = (output.values - recorded.output)[:1, head].abs()
        if projections is not None:
            steps += projections.after(output.values, tensors, head)
    traced: dict[str, TracedStep] = {}
    for step in (_of_head(step, head) for step in steps):
        before = {name: other.values for name, other in traced.items()}
        traced[step.name] = replace(step, working=checked_working(step.working, step.values, before, parameters))
    return list(traced.values()), float(difference.max()) if difference.numel() else 0.0


def _weighted_values(value: Tensor, weights: Tensor, head: int) -> Tensor | None:
    """A vector for each pair of one head; None where that would be too many numbers to show."""
    values = value[:1, head : head + 1, None, : weights.shape[-1]]
    factors = weights[:1, head : head + 1].unsqueeze(-1)
    return factors * values if factors.numel() * values.shape[-1] <= _MOST_NUMBERS else None


def _output(call: Call, source: str, weights: Tensor, value: Tensor, output: Tensor) -> Stage:
    """The sum of the weighted values, or what the layer gave where it is more than that."""
    relative = call.relative is not None and call.relative.value_table is not None
    sums, working = weights @ value[:, :, : weights.shape[-1]], Working("mix", (source, "value"))
    if relative or not near(sums, output):
        sums, working = output.double(), Working("formula", (source, "value"))
    formula, text = r"O = A V + R_V" if relative else r"O = A V", "what this head returns"
    return Stage("output", "O", formula, ("queries", "features"), sums, text, working)


def _of_head(step: Stage, head: int) -> TracedStep:
    values = step.values.detach()
    numbers = values[0, head if values.shape[1] > 1 else 0].double().cpu().numpy()
    working = step.working
    if working is not None:
        # of each head, or one for all
        rows = {name: number[head % len(number)] for name, number in working.numbers.items() if name == "vector"}
        constants = {name: _number(number) for name, number in ({**working.numbers, **rows}).items()}
        working = replace(working, numbers=constants)
    return TracedStep(step.name, step.symbol, step.formula, step.axes, numbers, step.text, working)


def _number(number: Any) -> Any:
    return number.detach().cpu().numpy() if isinstance(number, Tensor) else number

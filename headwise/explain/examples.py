"""Examples that can be checked by hand: a layer with whole numbers in it and an input of three vectors."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from headwise.attention.mechanisms.scored import Scored
from headwise.errors import ConfigError, unknown
from headwise.explain.layer_trace import LayerTrace, layer_trace
from headwise.layers.attention import MultiHeadAttention

_INPUT = [[1, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]]
_QUERY = [[1, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 1]]
_KEY = [[0, 0, 1], [1, 1, 0], [0, 1, 0], [1, 1, 0]]
_VALUE = [[0, 2, 0], [0, 3, 0], [1, 0, 3], [1, 1, 0]]


@dataclass(frozen=True)
class Example:
    """An example: what it shows, and the score of its layer."""

    shows: str
    score: str


EXAMPLES: Mapping[str, Example] = {
    "illustrated": Example("self-attention of three inputs, scores not scaled", "dot"),
    "illustrated-scaled": Example("the same with scores divided by the square root of their width", "scaled_dot"),
}


def example_trace(name: str) -> LayerTrace:
    """The steps of an example.

    Source of the numbers: the worked example of three inputs of width 4 in Karim 2019, "Illustrated: Self-Attention".

    Raises: ConfigError for a name that is not in `EXAMPLES`.

    >>> example_trace("illustrated")["query"].values.astype(int).tolist()
    [[1, 0, 2], [2, 2, 2], [2, 1, 3]]
    """
    if name not in EXAMPLES:
        raise ConfigError(f"--example: {unknown('example', name, EXAMPLES)}")
    layer = MultiHeadAttention(4, 1, Scored(EXAMPLES[name].score), head_dim=3, value_dim=3, bias=False)
    matrices = torch.cat([torch.tensor(part, dtype=torch.float64).mT for part in (_QUERY, _KEY, _VALUE)])
    # the example has one head, whose output is the layer's
    layer.double().set_submodule("output", nn.Identity())
    with torch.no_grad():
        layer.projection.weight.copy_(matrices)
    inputs: Tensor = torch.tensor([_INPUT], dtype=torch.float64)
    labels = [f"x{place}" for place in range(1, 4)]
    model = nn.ModuleDict({name: layer})
    return layer_trace(model, lambda: layer(inputs), queries=labels, keys=labels)

"""How many steps must follow each other, and how many layers lie between two tokens: read from graph and gradients."""

import warnings

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor
from torch.fx import GraphModule

from headwise.compare.subjects import Recurrent, Subject, layer, tokens
from headwise.errors import Unsupported

# a gradient may be 0 by chance, hardly so in as many draws
_DRAWS = 5
_WIDTH = 8


def chain(what: Subject, length: int, width: int = _WIDTH) -> int:
    """The longest chain of operations in a forward pass, each of which needs the result of the one before.

    Counted in the graph that `torch.export` traces, down to PyTorch's own operations, with loops unrolled; a recurrent
    layer goes cell by cell. A matrix product, a softmax or a sum is one operation.

    Raises: Unsupported where the layer cannot be traced.

    >>> from headwise.compare.subjects import subject
    >>> chain(subject("plain"), 16) == chain(subject("plain"), 64)
    True
    """
    mixer = layer(what, length, width, unrolled=True)
    try:
        with torch.no_grad(), warnings.catch_warnings():
            # of PyTorch about itself
            warnings.simplefilter("ignore")
            program = torch.export.export(mixer, (tokens(length, width),), strict=False).run_decompositions()
    except Exception as error:
        # PyTorch raises many kinds here
        raise Unsupported(f"{what.name} cannot be traced: {str(error).partition(chr(10))[0]}") from None
    return _longest(program.graph_module)


def _longest(program: GraphModule) -> int:
    depth: dict[torch.fx.Node, int] = {}
    for node in program.graph.nodes:
        before = max((depth[other] for other in node.all_input_nodes), default=0)
        depth[node] = before + (node.op == "call_function")
    return max(depth.values())


def path_length(what: Subject, length: int, width: int = _WIDTH) -> int:
    """The least number of layers after which the last token's output depends on the first token.

    Layers are stacked with tanh between them; a gradient that is not 0 in one of five draws of weights and tokens shows
    that there is a path. Of a recurrent layer the steps from state to state within it count instead: the least number
    through which gradients must go back.

    Raises: Unsupported where there is no path.

    >>> from headwise.compare.subjects import subject
    >>> [path_length(subject(name), 9) for name in ("plain", "causal-cnn", "rnn")]
    [1, 4, 8]
    """
    if length < 2:
        return 0
    for number in range(1, length + 1):
        if any(_reaches(what, length, width, number, seed) for seed in range(_DRAWS)):
            return number - what.recurrent
    raise Unsupported(f"{what.name}: after {length} layers the last token does not depend on the first")


def links(what: Subject, length: int, width: int = _WIDTH) -> Bool[np.ndarray, "outputs inputs"]:
    """Which tokens each output depends on directly: through one layer, or of a recurrent one through one of its steps.

    An entry is true where a gradient is not 0 in one of five draws of weights and tokens.

    >>> from headwise.compare.subjects import subject
    >>> links(subject("causal-cnn"), 4).astype(int).tolist()
    [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1]]
    """
    dependence = np.zeros((length, length), dtype=bool)
    for seed in range(_DRAWS):
        x = tokens(length, width, seed).requires_grad_(True)
        mixer = layer(what, length, width, seed=seed)
        if isinstance(mixer, Recurrent):
            # the state before is taken as it is
            rows = [mixer.steps(x[:, : place + 1], 1)[-1][0] for place in range(length)]
        else:
            rows = list(mixer(x)[0])
        for place, row in enumerate(rows):
            (gradient,) = torch.autograd.grad(row.sum(), x, retain_graph=True)
            dependence[place] |= (gradient[0] != 0).any(-1).numpy()
    return dependence


def _reaches(what: Subject, length: int, width: int, number: int, seed: int) -> bool:
    first = tokens(length, width, seed).requires_grad_(True)
    x: Tensor = first
    if what.recurrent:
        mixer = layer(what, length, width, seed=seed)
        assert isinstance(mixer, Recurrent)
        last = mixer.steps(x, number)[-1]
    else:
        for at in range(number):
            x = torch.tanh(layer(what, length, width, seed=_DRAWS * at + seed)(x))
        last = x[:, -1]
    (gradient,) = torch.autograd.grad(last.sum(), first)
    return bool((gradient[:, 0] != 0).any())

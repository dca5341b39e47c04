"""Every scheme under the transforms of PyTorch."""

from collections.abc import Iterable

import pytest
import torch
from torch import nn
from torch.export import Dim

from headwise import positions
from headwise.attention.relative import Relative

D_MODEL, HEAD_DIM, HEADS, MAX_LEN = 12, 4, 3, 36
# in order from the first vector on: one length for a program
GENERATED = ("flow", "recurrent")
every = pytest.mark.parametrize("name", positions.names())


class Hooks(nn.Module):
    """What a scheme does to embeddings, queries and scores; the queries are the last of the keys' positions."""

    def __init__(self, name: str):
        super().__init__()
        self.position = positions.build(name, D_MODEL, HEAD_DIM, HEADS, MAX_LEN)
        self.first = name in (*GENERATED, "convolutional")

    def forward(self, x: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> tuple[torch.Tensor, ...]:
        queries, keys = query.shape[2], key.shape[2]
        start = keys - queries
        outputs = [self.position.embed(x, 0 if self.first else start), self.position.rotate(query, start)]
        bias, relative = self.position.bias(query, key, start), self.position.relative(query, key, 1 - keys, queries)
        if relative is not None:
            bias = relative.bias(0, queries, keys, start) + (0 if bias is None else bias)
            if relative.value_table is not None:
                outputs.append(relative.values(bias.softmax(-1), 0, start))
        return (*outputs, *(() if bias is None else (bias.expand(query.shape[0], -1, -1, -1),)))


class Schemes(nn.Module):
    """Several of them in one program, which is traced once."""

    def __init__(self, names: Iterable[str]):
        super().__init__()
        self.hooks = nn.ModuleList(Hooks(name) for name in names)

    def forward(self, x: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> list[tuple[torch.Tensor, ...]]:
        return [hooks(x, query, key) for hooks in self.hooks]


def inputs(batch: int, queries: int, keys: int) -> tuple[torch.Tensor, ...]:
    widths = (queries, D_MODEL), (HEADS, queries, HEAD_DIM), (1, keys, HEAD_DIM)
    return tuple(torch.randn(batch, *shape) for shape in widths)


@pytest.fixture
def traced(untyped, monkeypatch):
    """As a user compiles the package: checks of annotations cannot be traced in objects made inside the program."""
    for name, member in vars(Relative).copy().items():
        if isinstance(member, property):
            monkeypatch.setattr(Relative, name, property(member.fget.__wrapped__))
        elif hasattr(member, "__wrapped__"):
            monkeypatch.setattr(Relative, name, member.__wrapped__)


@pytest.mark.usefixtures("traced")
def test_compiled_as_one_graph():
    torch.compiler.reset()
    schemes, given = Schemes(positions.names()), inputs(2, 5, 7)
    with torch.no_grad():
        compiled = torch.compile(schemes, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(*given), schemes(*given))


@pytest.mark.usefixtures("untyped")
def test_exported_with_dynamic_batch_and_lengths():
    schemes = Schemes(name for name in positions.names() if name not in GENERATED)
    batch, queries, keys = Dim("batch"), Dim("queries", max=30), Dim("keys", max=MAX_LEN)
    shapes = {"x": {0: batch, 1: queries}, "query": {0: batch, 2: queries}, "key": {0: batch, 2: keys}}
    exported = torch.export.export(schemes, inputs(2, 5, 7), dynamic_shapes=shapes).module()
    for sizes in ((2, 5, 7), (3, 30, 36)):
        given = inputs(*sizes)
        torch.testing.assert_close(exported(*given), schemes(*given))


@every
def test_over_a_batch_and_with_other_parameters(name):
    """vmap over sequences and functional_call equal the batch; gradients of a function are those of a backward pass."""
    hooks, given = Hooks(name), inputs(4, 5, 7)
    other = {name: torch.randn_like(parameter) for name, parameter in hooks.named_parameters()}

    def called(parameters, *given):
        return torch.func.functional_call(hooks, parameters, given)

    def alone(*given):
        return tuple(output[0] for output in called(other, *(tensor[None] for tensor in given)))

    wanted = called(other, *given)
    torch.testing.assert_close(torch.vmap(alone)(*given), wanted)
    gradients = torch.func.grad(lambda parameters: sum(output.square().sum() for output in called(parameters, *given)))
    found = gradients(other)
    hooks.load_state_dict(other)
    torch.testing.assert_close(hooks(*given), wanted)
    sum(output.square().sum() for output in hooks(*given)).backward() if other else None
    torch.testing.assert_close(found, {name: parameter.grad for name, parameter in hooks.named_parameters()})


@every
def test_shapes_alone(name):
    given = inputs(2, 5, 7)
    wanted = [output.shape for output in Hooks(name)(*given)]
    with torch.device("meta"):
        hooks = Hooks(name)
    found = hooks(*(tensor.to("meta") for tensor in given))
    assert [output.shape for output in found] == wanted
    assert all(output.is_meta for output in found)
    # a scheme built without memory has nothing but its parameters to be filled
    materialized, real = hooks.to_empty(device="cpu"), Hooks(name)
    materialized.load_state_dict(real.state_dict())
    torch.testing.assert_close(materialized(*given), real(*given))


@every
def test_under_autocast(name):
    hooks, given = Hooks(name), inputs(2, 5, 7)
    with torch.autocast("cpu", torch.bfloat16):
        found = hooks(*given)
    torch.testing.assert_close(found, hooks(*given), rtol=0.05, atol=0.05, check_dtype=False)

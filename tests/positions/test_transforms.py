"""Every scheme under the transforms of PyTorch: right, or refused by name (`REFUSED`)."""

from collections.abc import Iterable

import documented
import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.utils.checkpoint import checkpoint

from headwise import positions
from headwise.errors import Unsupported
from headwise.positions.deberta import Deberta
from headwise.positions.rotary import Rotary, Yarn

D_MODEL, HEAD_DIM, HEADS, MAX_LEN = 12, 4, 3, 36
BATCH, QUERIES, KEYS = Dim("batch"), Dim("queries", max=30), Dim("keys", max=MAX_LEN)
SHAPES = {"x": {0: BATCH, 1: QUERIES}, "query": {0: BATCH, 2: QUERIES}, "key": {0: BATCH, 2: KEYS}}
ONE_LENGTH = "positions are computed one after the other, so an exported program has one length"
# (scheme, transform): why
REFUSED = {("flow", "export"): f"Flow {ONE_LENGTH}", ("recurrent", "export"): f"Recurrent {ONE_LENGTH}"}
VARIANTS = {
    "rotary over halves": lambda: Rotary(HEAD_DIM, layout="half", scaling=Yarn(4.0, 64)),
    "deberta in buckets": lambda: Deberta(D_MODEL, HEADS, HEAD_DIM, max_distance=24, index="released", buckets=8),
}
NAMES = (*positions.names(), *VARIANTS)
every = pytest.mark.parametrize("name", NAMES)


class Hooks(nn.Module):
    """What a scheme does to embeddings, queries and scores; the queries are the last of the keys' positions."""

    def __init__(self, name: str):
        super().__init__()
        make = VARIANTS.get(name, lambda: positions.build(name, D_MODEL, HEAD_DIM, HEADS, MAX_LEN))
        self.position = make()
        # inputs before these are not there to see, or take their time
        self.first = name in ("convolutional", "flow", "recurrent")

    def forward(self, x: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> tuple[torch.Tensor, ...]:
        queries, keys = query.shape[2], key.shape[2]
        start = keys - queries
        outputs = [self.position.embed(x, 0 if self.first else start), self.position.rotate(query, start)]
        outputs.append(self.position.rotate_keys(key, 0))
        bias, relative = self.position.bias(query, key, start), self.position.relative(query, key, 1 - keys, queries)
        if relative is not None:
            bias = relative.bias(queries, keys, start) + (0 if bias is None else bias)
            if relative.value_table is not None:
                outputs.append(relative.values(bias.softmax(-1), start))
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


@pytest.mark.slow
def test_compiled_as_one_graph():
    torch.compiler.reset()
    schemes, given = Schemes(NAMES), inputs(2, 5, 7)
    with torch.no_grad():
        compiled = torch.compile(schemes, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(*given), schemes(*given))


@pytest.mark.slow
def test_exported_with_dynamic_batch_and_lengths():
    schemes = Schemes(name for name in NAMES if (name, "export") not in REFUSED)
    exported = torch.export.export(schemes, inputs(2, 5, 7), dynamic_shapes=SHAPES).module()
    for sizes in ((2, 5, 7), (3, 30, 36)):
        given = inputs(*sizes)
        torch.testing.assert_close(exported(*given), schemes(*given))


@pytest.mark.parametrize("name", [name for name, transform in REFUSED if transform == "export"])
def test_exported_with_one_length(name):
    hooks, given = Hooks(name), inputs(2, 5, 7)
    torch.testing.assert_close(torch.export.export(hooks, given).module()(*given), hooks(*given))
    with pytest.raises(Unsupported, match=REFUSED[name, "export"]):
        torch.export.export(hooks, given, dynamic_shapes=SHAPES)


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
def test_computed_again_for_the_gradient_and_kept_elsewhere(name):
    hooks, given = Hooks(name), [tensor.requires_grad_() for tensor in inputs(2, 5, 7)]
    wanted = [*given, *hooks.parameters()]

    def gradients(outputs):
        total = sum(output.square().sum() for output in outputs)
        return torch.autograd.grad(total, wanted, allow_unused=True)

    expected = gradients(hooks(*given))
    torch.testing.assert_close(gradients(checkpoint(hooks, *given, use_reentrant=False)), expected)
    with torch.autograd.graph.save_on_cpu():
        torch.testing.assert_close(gradients(hooks(*given)), expected)


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


def test_what_is_refused_is_documented():
    assert documented.refused("position") == set(REFUSED)

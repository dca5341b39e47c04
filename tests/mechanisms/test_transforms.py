"""Every mechanism under the transforms of PyTorch is what it is without, gradients too, or refused by name."""

import documented
import pytest
import torch
import transformed
from torch import nn
from torch.export import Dim
from torch.utils.checkpoint import checkpoint
from transformed import same

from headwise.attention import mechanisms
from headwise.attention.call import Call
from headwise.attention.masks import Causal, Padding
from headwise.errors import Unsupported
from headwise.testing.subject import with_gates

pytestmark = pytest.mark.filterwarnings("ignore:There is a performance drop because we have not yet implemented")

NAMES = [name for name in mechanisms.names() if name != "scored"]
LENS = torch.tensor([5, 3, 1])
# (mechanism, transform): why
REFUSED = {("location_aware", "export"): "export it for a fixed number of queries"}

# a product with the keys, a softmax of two and one with a bias; the programs of all take minutes
SHORT = ("dense_synthesizer", "differential", "selective")

every_mechanism = pytest.mark.parametrize("name", NAMES)
every_program = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name not in SHORT else []) for name in NAMES]
)


class Attention(nn.Module):
    """A mechanism over sentences of these lengths; causal if it can be."""

    def __init__(self, name):
        super().__init__()
        # short enough for several chunks, blocks and landmarks
        sizes = {"chunk": 2} if name == "reformer" else {"block": 2, "span": 2} if name == "sinkhorn" else {}
        kind = mechanisms.mechanism_type(name)
        mechanism = kind(4, 40, **sizes) if sizes else kind.sized(head_dim=4, num_heads=2, max_len=40, dropout=0.0)
        self.mechanism = with_gates(mechanism)

    def forward(self, query, key, value, lens):
        mask = Padding(lens)
        if self.mechanism.facts.causal:
            mask = Causal() & mask
        return self.mechanism(Call(query, key, value, mask=mask))


def drawn(batch=3, length=5):
    return [torch.randn(batch, 2, length, 4, requires_grad=True) for _ in range(3)]


def learned(run, module, inputs):
    """Output and gradients of inputs and parameters."""
    return transformed.learned(run, [*inputs, LENS], [*inputs, *module.parameters()])


@every_program
def test_compiled(name):
    torch.compiler.reset()
    module, inputs = Attention(name), drawn()
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    same(learned(compiled, module, inputs), learned(module, module, inputs))


@every_program
def test_exported_for_any_batch_and_length(name):
    module, inputs = Attention(name).eval(), (*drawn(), LENS)
    axes = {0: Dim("batch", min=2, max=64), 2: Dim("length", min=2, max=40)}
    shapes = (axes, axes, axes, {0: axes[0]})
    if (name, "export") in REFUSED:
        with pytest.raises(Unsupported, match=REFUSED[name, "export"]):
            torch.export.export(module, inputs, dynamic_shapes=shapes)
        shapes = ({0: axes[0]},) * 4
    program = torch.export.export(module, inputs, dynamic_shapes=shapes).module()
    for batch, length in ((2, 5), (5, 5)) if (name, "export") in REFUSED else ((2, 2), (5, 17)):
        inputs = (*drawn(batch, length), torch.randint(0, length + 1, (batch,)))
        same([program(*inputs)], [module(*inputs)])


@every_mechanism
def test_with_other_parameters(name):
    """What is given is used, forward and backward, and not what the module has."""
    module, other, inputs = Attention(name), Attention(name), drawn()
    other.load_state_dict(module.state_dict())
    for parameter in other.parameters():
        nn.init.normal_(parameter, std=0.3)
    given = dict(other.named_parameters())
    same(learned(lambda *x: torch.func.functional_call(module, given, x), other, inputs), learned(other, other, inputs))


@every_mechanism
def test_mapped_over_the_batch(name):
    module, inputs = Attention(name), drawn()

    def alone(*tensors):
        return module(*(tensor.unsqueeze(0) for tensor in tensors)).squeeze(0)

    # what learns from a loss of its own learns nothing where it is mapped
    wanted = [*inputs, *(() if mechanisms.mechanism_type(name).teaches else module.parameters())]
    mapped, plain = (transformed.learned(run, [*inputs, LENS], wanted) for run in (torch.func.vmap(alone), module))
    same(mapped, plain)


@every_mechanism
def test_checkpointed_and_kept_elsewhere_and_cast_and_on_no_device(name):
    module, inputs = Attention(name), drawn()
    expected = learned(module, module, inputs)
    same(learned(lambda *x: checkpoint(module, *x, use_reentrant=False), module, inputs), expected)
    with torch.autograd.graph.save_on_cpu():
        same(learned(module, module, inputs), expected)
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast("cpu", dtype):
            same([module(*inputs, LENS)], expected[:1])
    output = module.to("meta")(*(tensor.to("meta") for tensor in (*inputs, LENS)))
    assert output.shape == (3, 2, 5, 4)
    assert output.device.type == "meta"


def test_what_is_refused_is_documented():
    assert documented.refused("mechanism") == set(REFUSED)

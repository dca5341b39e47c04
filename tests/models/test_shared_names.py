"""A parameter under several names, lent from outside as docs/transforms.md says: every layer gets it, none keeps it."""

import copy

import pytest
import torch
from torch.func import functional_call

from headwise.models.transformer import build_transformer
from headwise.models.transformer_config import TransformerConfig

INPUTS = torch.tensor([[4, 5, 6]]), torch.tensor([3]), torch.tensor([[1, 7]])
SIZES = {"d_model": 8, "d_ff": 11, "num_heads": 2, "encoder_layers": 2, "decoder_layers": 1, "max_len": 9}


@pytest.fixture(params=["learned", "t5", "shaw"])
def case(request):
    """A model, what it says when each parameter is larger by a half, and such parameters by their identity."""
    torch.manual_seed(0)
    model = build_transformer(TransformerConfig(**SIZES, position=request.param), 11, 11, joint=False).eval()
    changed = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in changed.parameters():
            parameter.add_(0.5)
    larger = {id(parameter): parameter.detach() + 0.5 for parameter in model.parameters()}
    return model, changed(*INPUTS), larger


def test_every_name_of_a_shared_parameter_gives_it_to_every_layer(case):
    model, wanted, larger = case
    named = dict(model.named_parameters(remove_duplicate=False))
    for order in (list(named), list(named)[::-1]):
        last = {id(named[name]): name for name in order}.values()
        for names in (order, last):
            # of a copy, which PyTorch may leave with what it was lent
            given = {name: larger[id(named[name])] for name in names}
            torch.testing.assert_close(functional_call(copy.deepcopy(model), given, INPUTS), wanted)


def test_names_by_module_leave_the_model_as_it_was(case):
    model, wanted, larger = case
    before, own = model(*INPUTS), [id(parameter) for parameter in model.parameters()]
    given = {
        f"{path}.{name}": larger[id(parameter)]
        for path, module in model.named_modules()
        for name, parameter in module.named_parameters(recurse=False)
    }
    torch.testing.assert_close(functional_call(model, given, INPUTS, tie_weights=False), wanted)
    torch.testing.assert_close(model(*INPUTS), before, rtol=0, atol=0)
    assert [id(parameter) for parameter in model.parameters()] == own

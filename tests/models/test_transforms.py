"""Models under the transforms of PyTorch that trace a program: right, or refused by name."""

import pytest
import torch
from torch.export import Dim
from torch.testing import assert_close

from headwise.models.recurrent import RecurrentConfig, build_recurrent


def recurrent(**options):
    torch.manual_seed(0)
    model = build_recurrent(RecurrentConfig(embed_dim=3, hidden_dim=5, dropout=0.0, **options), 11, 13)
    return model.eval(), (torch.randint(11, (4, 7)), torch.tensor([7, 3, 0, 1]), torch.randint(13, (4, 6)))


# PyTorch's GRU keeps a list of its weights beside them
@pytest.mark.filterwarnings("ignore:The tensor attributes self.encoder")
def test_a_recurrent_model_is_exported_with_any_batch():
    model, inputs = recurrent()
    program = torch.export.export(model, inputs, dynamic_shapes=[{0: Dim.DYNAMIC}] * 3).module()
    for rows in (4, 3):
        cut = [tensor[:rows] for tensor in inputs]
        assert_close(program(*cut), model(*cut))


def test_recurrent_models_are_compiled_but_for_the_gru_of_pytorch():
    model, inputs = recurrent(cell="lstm", num_layers=1)
    assert_close(torch.compile(model, fullgraph=True, backend="aot_eager")(*inputs), model(*inputs))
    model, inputs = recurrent(num_layers=1)
    with pytest.raises(torch._dynamo.exc.Unsupported, match="Dynamo does not support RNN, GRU, or LSTM"):
        torch.compile(model, fullgraph=True, backend="aot_eager")(*inputs)

"""Recurrent layers: PyTorch's numbers, one definition for steps and sequences, exact ends of padded sequences."""

import pytest
import torch
from devices import not_simulated
from torch import nn
from torch.testing import assert_close

from headwise.errors import ConfigError
from headwise.models.recurrent import (
    CELLS,
    advance,
    build,
    build_layer,
    dropout_factors,
    initialize_with_cells,
    last_state,
    read,
    reversed_within,
)

STEPS, INPUT, HIDDEN = 7, 3, 5
LENS = torch.tensor([7, 3, 0, 1])


@pytest.fixture(params=sorted(CELLS))
def name(request):
    return request.param


def stepped(layer, x):
    """The definition: PyTorch's cell over the tokens of one sequence, from first to last; (hidden states, state)."""
    cell = {nn.GRU: nn.GRUCell, nn.LSTMCell: nn.LSTMCell, nn.RNN: nn.RNNCell}[type(layer)](INPUT, HIDDEN).to(x.dtype)
    cell.load_state_dict({key.removesuffix("_l0"): value for key, value in layer.state_dict().items()})
    state, hidden = (x.new_zeros(1, HIDDEN),) * (2 if isinstance(cell, nn.LSTMCell) else 1), []
    for token in x:
        state = advance(cell, token[None], state)
        hidden.append(state[0])
    return torch.cat(hidden) if hidden else x.new_zeros(0, HIDDEN), torch.cat(state, -1)[0]


@not_simulated("PyTorch runs recurrent cells of other devices in one kernel of theirs")
@pytest.mark.parametrize("back", [False, True])
def test_a_padded_sequence_is_read_as_its_tokens_alone(name, back):
    layer = build_layer(name, INPUT, HIDDEN).double()
    x = torch.randn(STEPS, 4, INPUT, dtype=torch.float64)
    hidden, last = read(layer, x, LENS, back)
    for row, length in enumerate(LENS.tolist()):
        alone = x[:length, row]
        states, state = stepped(layer, alone.flip(0) if back else alone)
        assert_close(hidden[:length, row], states.flip(0) if back else states, rtol=0, atol=1e-14)
        assert_close(last[row], state, rtol=0, atol=1e-14)


def test_an_empty_sequence_has_no_states(name):
    layer, lens = build_layer(name, INPUT, HIDDEN), torch.zeros(2, dtype=torch.long)
    hidden, last = read(layer, torch.zeros(0, 2, INPUT), lens, False)
    assert hidden.shape == (0, 2, HIDDEN)
    assert_close(last, torch.zeros(2, HIDDEN * (2 if name == "lstm" else 1)))


def test_reversed_within_and_last_state_stop_at_the_length():
    x = torch.arange(4.0)[:, None, None].expand(4, 3, 1)
    lens = torch.tensor([4, 2, 0])
    assert reversed_within(x, lens)[..., 0].T.tolist() == [[3, 2, 1, 0], [1, 0, 2, 3], [0, 1, 2, 3]]
    assert last_state(x, lens)[:, 0].tolist() == [3, 1, 0]


def test_dropout_factors_are_zero_or_the_inverse_of_the_kept_share():
    torch.manual_seed(0)
    factors = dropout_factors((STEPS, 2, 1000, HIDDEN), 0.25, torch.zeros(1))
    assert sorted(factors.unique().tolist()) == [0.0, pytest.approx(4 / 3, rel=1e-4)]
    assert factors.mean().item() == pytest.approx(1.0, abs=0.02)
    assert dropout_factors((STEPS, 2), 0.0, torch.zeros(1)) is None


def test_the_cells_of_a_model_can_be_filled():
    cells = nn.ModuleList([build("gru", 30, 100), build("lstm", 30, 100), build_layer("gru", 30, 100)])
    initialize_with_cells(cells, "normal")
    for key, parameter in cells.named_parameters():
        if "bias" in key:
            assert not parameter.any()
        else:
            assert parameter.std().item() == pytest.approx(0.02, rel=0.05)


def test_unknown_cell_is_named():
    with pytest.raises(ConfigError, match="unknown cell 'gruu'; did you mean 'gru'"):
        build_layer("gruu", INPUT, HIDDEN)

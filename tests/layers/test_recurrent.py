"""Recurrent cells: PyTorch's numbers, one definition for steps and sequences, exact ends of padded sequences."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from headwise.errors import ConfigError
from headwise.layers.recurrent import (
    CELLS,
    build,
    dropout_factors,
    initialize_cells,
    last_state,
    reversed_within,
)
from headwise.runtime import small_products

STEPS, BATCH, INPUT, HIDDEN = 7, 2, 3, 5
PEERS = {"gru": nn.GRU, "lstm": nn.LSTM}


@pytest.fixture(params=sorted(CELLS))
def name(request):
    return request.param


def stepped(cell, x, state):
    """The definition: one step after another, as columns."""
    states = []
    rows = state.mT
    for step in range(x.shape[0]):
        rows = cell(x[step].mT, rows)
        states.append(rows.mT)
    return torch.stack(states)


def test_cell_equals_pytorchs_layer(name):
    cell, peer = build(name, INPUT, HIDDEN).double(), PEERS[name](INPUT, HIDDEN).double()
    peer.load_state_dict({f"{key}_l0": value for key, value in cell.state_dict().items()})
    x = torch.randn(STEPS, BATCH, INPUT, dtype=torch.float64)
    states = cell.sequence(x.mT, torch.zeros(cell.state_dim, BATCH, dtype=torch.float64))
    outputs, last = peer(x)
    assert_close(states[:, :HIDDEN].mT, outputs, rtol=0, atol=1e-14)
    if name == "lstm":
        assert_close(states[-1, HIDDEN:].mT, last[1][0], rtol=0, atol=1e-14)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-13), (torch.float32, 1e-5)])
def test_sequence_equals_steps_in_outputs_and_gradients(name, dtype, tolerance):
    cell = build(name, INPUT, HIDDEN).to(dtype)
    x = torch.randn(STEPS, INPUT, BATCH, dtype=dtype, requires_grad=True)
    state = torch.randn(cell.state_dim, BATCH, dtype=dtype, requires_grad=True)
    direction = torch.randn(STEPS, cell.state_dim, BATCH, dtype=dtype)
    results = []
    for states in (cell.sequence(x, state), stepped(cell, x, state)):
        results.append([states, *torch.autograd.grad((states * direction).sum(), [x, state, *cell.parameters()])])
    for fast, plain in zip(*results, strict=True):
        assert_close(fast, plain, rtol=tolerance, atol=tolerance)


def test_sequence_gradient_is_the_derivative(name):
    cell = build(name, 2, 3).double()
    x = torch.randn(4, 2, 2, dtype=torch.float64, requires_grad=True)
    state = torch.randn(cell.state_dim, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda *inputs: cell.sequence(*inputs[:2]), (x, state, *cell.parameters()), fast_mode=True
    )


def test_sequence_keeps_its_gradient_when_the_result_is_changed(name):
    cell = build(name, INPUT, HIDDEN).double()
    x = torch.randn(STEPS, INPUT, BATCH, dtype=torch.float64, requires_grad=True)
    state = torch.zeros(cell.state_dim, BATCH, dtype=torch.float64)
    (expected,) = torch.autograd.grad(cell.sequence(x, state).sum(), x)
    (found,) = torch.autograd.grad(cell.sequence(x, state).mul_(1.0).sum(), x)
    assert_close(found, expected)


def test_an_empty_sequence_has_no_states(name):
    cell = build(name, INPUT, HIDDEN)
    states = cell.sequence(torch.zeros(0, INPUT, BATCH), torch.zeros(cell.state_dim, BATCH))
    assert states.shape == (0, cell.state_dim, BATCH)
    assert_close(last_state(states, torch.zeros(BATCH, dtype=torch.long)), torch.zeros(cell.state_dim, BATCH))


def test_states_depend_on_no_later_input(name):
    cell = build(name, INPUT, HIDDEN)
    x = torch.randn(STEPS, INPUT, BATCH)
    changed = x.clone()
    changed[4:] = torch.nan
    state = torch.zeros(cell.state_dim, BATCH)
    assert torch.equal(cell.sequence(x, state)[:4], cell.sequence(changed, state)[:4])


def test_reversed_within_and_last_state_stop_at_the_length():
    x = torch.arange(4.0)[:, None, None].expand(4, 1, 3)
    lens = torch.tensor([4, 2, 0])
    assert reversed_within(x, lens)[:, 0].T.tolist() == [[3, 2, 1, 0], [1, 0, 2, 3], [0, 1, 2, 3]]
    assert last_state(x, lens).tolist() == [[3, 1, 0]]


def test_dropout_factors_are_zero_or_the_inverse_of_the_kept_share():
    torch.manual_seed(0)
    factors = dropout_factors(STEPS, 2, HIDDEN, 1000, 0.25, torch.zeros(1))
    assert sorted(factors.unique().tolist()) == [0.0, pytest.approx(4 / 3)]
    assert factors.mean().item() == pytest.approx(1.0, abs=0.02)
    assert dropout_factors(STEPS, 2, HIDDEN, BATCH, 0.0, torch.zeros(1)) is None
    assert dropout_factors(STEPS, 0, HIDDEN, BATCH, 0.5, torch.zeros(1)) is None


def test_weights_start_as_pytorchs_do_and_can_be_filled(name):
    cell = build(name, 30, 100)
    for parameter in cell.parameters():
        assert parameter.abs().max() <= 0.1
        assert parameter.std().item() == pytest.approx(0.1 / 3**0.5, rel=0.1)
    initialize_cells(nn.ModuleList([cell]), "normal")
    assert cell.weight_hh.std().item() == pytest.approx(0.02, rel=0.05)
    assert not cell.bias_ih.any()
    assert not cell.bias_hh.any()


def test_unknown_cell_is_named():
    with pytest.raises(ConfigError, match="unknown cell 'gruu'; did you mean 'gru'"):
        build("gruu", INPUT, HIDDEN)


def test_small_products_leave_the_setting_as_it_was():
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        with small_products(96 * 32 * 64):
            assert torch.get_float32_matmul_precision() == "highest"
        assert torch.get_float32_matmul_precision() == "medium"
        with small_products(1024 * 256 * 64):
            assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)

"""Position vectors that a network generates: by a GRU, and along a differential equation."""

import math

import pytest
import torch
from devices import DEVICE, not_simulated

from headwise.errors import ConfigError
from headwise.positions.flow import Flow, runge_kutta
from headwise.positions.recurrent import Recurrent

each = pytest.mark.parametrize("make", [lambda: Recurrent(6, hidden=8), lambda: Flow(6, hidden=5)], ids=["gru", "flow"])


def zeros(length: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.zeros(1, length, 6, dtype=dtype)


@each
def test_any_length_and_longer_is_a_continuation(make):
    position = make().double()
    with torch.no_grad():
        long = position.embed(zeros(300), 0)[0]
        for start, end in ((0, 50), (200, 211), (0, 1), (64, 65), (299, 300)):
            part = position.embed(zeros(end - start), start)[0]
            torch.testing.assert_close(part, long[start:end], rtol=0, atol=1e-12)
        assert position.embed(zeros(0), 0).shape == (1, 0, 6)
    assert long.isfinite().all()
    assert torch.pdist(long[:100]).min() > 1e-3


@not_simulated("it has no autocast")
@each
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_half_precision_runs_in_single(make, dtype):
    position = make().to(dtype)
    with torch.no_grad(), torch.autocast(DEVICE, torch.bfloat16):
        added = position.embed(zeros(200, dtype), 0)
    assert added.dtype == dtype
    expected = position.double().embed(zeros(200), 0)
    # one rounding of the result, whatever the number of steps
    bound = 2e-5 + torch.finfo(dtype).eps / 2 * expected.abs().max().item()
    torch.testing.assert_close(added.double(), expected, rtol=0, atol=bound)


@each
def test_gradients(make):
    position = make().double()
    for parameter in position.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    names, values = zip(*position.named_parameters(), strict=True)

    def vectors(*values):
        return torch.func.functional_call(position, dict(zip(names, values, strict=True)), (zeros(4), 0))

    position.forward = position.embed
    assert torch.autograd.gradcheck(vectors, values, fast_mode=True)


@not_simulated("PyTorch runs recurrent cells of other devices in one kernel of theirs")
def test_the_recurrence_step_by_step():
    """Cho et al. 2014 in the order of PyTorch's gates: reset, update, candidate."""
    position = Recurrent(6, hidden=8).double()
    cell, hidden, rows = position.cell, torch.zeros(1, 8, dtype=torch.float64), []
    for index in range(9):
        given = [f(index / 10000 ** (2 * pair / 8)) for pair in range(4) for f in (math.sin, math.cos)]
        hidden = cell(torch.tensor([given], dtype=torch.float64), hidden)
        rows.append(position.readout(hidden)[0])
    torch.testing.assert_close(position.vectors(9), torch.stack(rows), rtol=0, atol=1e-12)


def test_the_flow_step_by_step():
    """p(i + 1) = p(i) + step / 6 (k1 + 2 k2 + 2 k3 + k4) with h as written in the docstring."""
    position = Flow(6, hidden=5, step=0.3).double()
    for parameter in position.parameters():
        torch.nn.init.normal_(parameter)

    def h(time, vector):
        inside = position.inner @ vector + position.drift * time + position.inner_bias
        return position.outer @ inside.tanh() + position.outer_bias

    rows = [position.first]
    for index in range(8):
        time, vector, step = 0.3 * index, rows[-1], 0.3
        one = h(time, vector)
        two = h(time + step / 2, vector + step / 2 * one)
        three = h(time + step / 2, vector + step / 2 * two)
        four = h(time + step, vector + step * three)
        rows.append(vector + step / 6 * (one + 2 * two + 2 * three + four))
    torch.testing.assert_close(position.vectors(9), torch.stack(rows), rtol=0, atol=1e-12)


def test_the_flow_is_a_solution_and_not_its_steps():
    """Ten times as many steps over the same time lead through the same points."""
    coarse, fine = Flow(6, step=0.1).double(), Flow(6, step=0.01).double()
    fine.load_state_dict(coarse.state_dict())
    torch.testing.assert_close(coarse.vectors(20), fine.vectors(191)[::10], rtol=0, atol=3e-7)


def test_the_method_is_of_order_four():
    """dp/dt = cos(t) p has the solution exp(sin t); halving the step makes the error 16 times smaller."""
    errors = []
    for steps in (10, 20, 40):
        state, step = torch.ones(1, dtype=torch.float64), 2.0 / steps
        for n in range(steps):
            state = runge_kutta(lambda place, p, step=step: math.cos(place * step / 2) * p, 2 * n, state, step)
        errors.append(abs(state.item() - math.exp(math.sin(2.0))))
    assert errors[0] / errors[1] == pytest.approx(16, rel=0.25)
    assert errors[1] / errors[2] == pytest.approx(16, rel=0.15)


@pytest.mark.parametrize(("hidden", "step"), [(0, 0.1), (8, 0.0)])
def test_no_flow(hidden, step):
    message = f"flow positions need a hidden width of at least 1 and a step above 0, got {hidden}, {step}"
    with pytest.raises(ConfigError, match=message):
        Flow(6, hidden=hidden, step=step)


@pytest.mark.parametrize("hidden", [0, 7])
def test_states_that_hold_no_sinusoids(hidden):
    message = f"recurrent positions need an even hidden width of at least 2, got {hidden}"
    with pytest.raises(ConfigError, match=message):
        Recurrent(6, hidden=hidden)

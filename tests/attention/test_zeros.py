"""Zeros and other numbers in place of what is hidden, beside `torch.where`."""

import math

import pytest
import torch
from devices import not_simulated, seeded

from headwise.attention.zeros import hide, zeroed

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
KEEPS = {
    "tokens": torch.tensor([[True, False, True], [False, False, True]]).view(2, 1, 3, 1),
    "pairs": torch.tensor([[True, False, True], [False, True, False], [True, True, False]]),
    "all": torch.arange(2 * 4 * 3 * 3).view(2, 4, 3, 3) % 3 == 1,
    "one": torch.tensor(False),
}
every_keep = pytest.mark.parametrize("kind", KEEPS)


def numbers(dtype=torch.float64):
    return torch.randn(2, 3, 4, 3, generator=seeded(0)).to(dtype).transpose(1, 2)


@every_keep
@pytest.mark.parametrize("value", [None, 0.0, -math.inf, 2.5])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("junk", [math.nan, math.inf, -math.inf, 3.0])
def test_hidden_numbers_and_their_gradients_are_replaced(kind, value, dtype, junk):
    keep = KEEPS[kind]
    x = numbers(dtype).masked_fill(~keep, junk).requires_grad_()
    output = zeroed(x, keep) if value is None else hide(x, keep, value)
    assert output.dtype == dtype
    assert torch.equal(output, torch.where(keep, x, value or 0.0))
    (gradient,) = torch.autograd.grad(output, x, torch.full_like(x, junk).masked_fill(keep, 2.0))
    assert torch.equal(gradient, torch.where(keep, 2.0, 0.0).to(dtype).expand_as(x))


def test_what_is_kept_stays_also_if_it_is_no_number():
    x = torch.tensor([[math.nan, math.inf, -math.inf, -0.0]])
    found = zeroed(x.repeat(2, 1), torch.tensor([[True], [False]]))
    assert torch.equal(found.isnan(), torch.tensor([[True, False, False, False], [False] * 4]))
    assert found.nan_to_num(0.0, 5.0, -5.0).tolist() == [[0.0, 5.0, -5.0, 0.0], [0.0] * 4]


def test_a_value_may_differ_from_row_to_row():
    keep, value = torch.tensor([[True, False, False]]), torch.tensor([[1.0], [-math.inf]])
    assert hide(torch.zeros(2, 3), keep, value).tolist() == [[0.0, 1.0, 1.0], [0.0, -math.inf, -math.inf]]
    x = torch.zeros(2, 3)
    assert hide(x, None, 1.0) is x


# PyTorch reads its formulas of forward derivatives so
@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
@not_simulated("it has no forward derivatives")
@every_keep
def test_derivatives_by_differences(kind):
    x = numbers().requires_grad_()
    for function in (zeroed, lambda x, keep: hide(x, keep, 2.0)):
        both = {"check_forward_ad": True, "check_batched_grad": True}
        assert torch.autograd.gradcheck(lambda x, f=function: f(x, KEEPS[kind]), x, fast_mode=False, **both)
        assert torch.autograd.gradgradcheck(lambda x, f=function: f(x, KEEPS[kind]), x, fast_mode=True)


@not_simulated("it has no vmap")
def test_under_vmap():
    x, keep = numbers(), KEEPS["all"]
    assert torch.equal(torch.vmap(zeroed)(x, keep), zeroed(x, keep))
    assert torch.equal(torch.vmap(zeroed, (0, None))(x, keep[0]), zeroed(x, keep[0]))
    assert torch.equal(torch.vmap(hide, (None, 0, None))(x[0], keep, 2.0), hide(x[0].expand_as(x), keep, 2.0))

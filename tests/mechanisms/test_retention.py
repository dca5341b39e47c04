"""Retention: pairs fade with their distance, at the rate of the head."""

import mechanism_checks as checks
import pytest
import torch
from devices import DEVICE, not_simulated
from mechanism_checks import CAUSAL_CASES, run

from headwise.attention.call import Call
from headwise.attention.masks import Causal
from headwise.attention.mechanisms.retention import Retention
from headwise.errors import ConfigError, ShapeError

DECAYS = torch.tensor([0.9, 1.0, 0.3, 0.75, 1e-6, 0.99], dtype=torch.float64)


def definition(query, key, allowed, start):
    gates = DECAYS.log().view(1, -1, 1, 1).expand(2, -1, 64, query.shape[-1])
    return checks.by_pairs(query / query.shape[-1] ** 0.5, key, allowed, start, gates)


@pytest.mark.parametrize("case", CAUSAL_CASES)
def test_it_is_its_definition(case):
    checks.is_defined_by(Retention(DECAYS), definition, case)


def test_golden_numbers():
    """By hand: decay 1/2, d = 1; the third output is 1 x 4 / 4 + 2 x 5 / 2 + 3 x 6."""
    query, key = torch.ones(1, 1, 3, 1), torch.tensor([1.0, 2.0, 3.0]).view(1, 1, 3, 1)
    value = torch.tensor([4.0, 5.0, 6.0]).view(1, 1, 3, 1)
    output = run(Retention(torch.tensor([0.5])), query, key, value, mask=Causal())
    torch.testing.assert_close(output.flatten(), torch.tensor([4.0, 12.0, 24.0]))


def test_step_by_step_is_all_at_once():
    checks.steps_are_all_at_once(Retention(DECAYS), 131, [1, 65, 66, 130])


@pytest.mark.parametrize("length", [1, 63, 64, 129])
def test_chunks_are_the_recurrence(length):
    query, key, value = inputs = checks.tensors(length, length, heads=6, kv_heads=6, dim=5)
    gates = DECAYS.view(1, -1, 1, 1).expand(3, -1, length, 5)
    expected = checks.by_positions(query / 5**0.5, key, value, gates)
    checks.same_with_gradients(run(Retention(DECAYS), *inputs, mask=Causal()), expected, inputs, 1e-11)


def test_no_type_of_the_module_rounds_the_decays_of_the_paper():
    """log(1 - 2^(-5 - h)) in full after a way through bfloat16."""
    sized = Retention.sized(head_dim=5, num_heads=3, max_len=7, dropout=0.5)
    expected = torch.tensor([0.96875, 0.984375, 0.9921875], dtype=torch.float64).log()
    for module in (sized, sized.double(), sized.bfloat16().double()):
        torch.testing.assert_close(module.log_decay(torch.float64).flatten(), expected, rtol=1e-15, atol=0)


def test_a_decay_that_rounds_to_nothing_gives_numbers():
    inputs = checks.tensors(70, 70, heads=6, kv_heads=6, dtype=torch.bfloat16)
    assert run(Retention(DECAYS).bfloat16(), *inputs, mask=Causal()).isfinite().all()


def test_no_digits_are_lost_over_4096_positions():
    inputs = [torch.randn(1, 6, 4096, 8) for _ in range(3)]
    actual = run(Retention(DECAYS), *inputs, mask=Causal())
    expected = run(Retention(DECAYS), *(t.double() for t in inputs), mask=Causal())
    checks.near(actual.double(), expected, 2e-6 * expected.abs().max().item())


@not_simulated("it has no autocast")
def test_sums_stay_wide_under_autocast():
    inputs = [torch.randn(1, 6, 100, 8) for _ in range(3)]
    with torch.autocast(DEVICE, torch.bfloat16):
        inside = run(Retention(DECAYS), *inputs, mask=Causal())
        stepped, (sums,) = Retention(DECAYS).resume(Call(*inputs), None)
    assert torch.equal(inside, run(Retention(DECAYS), *inputs, mask=Causal()))
    assert torch.equal(inside, stepped)
    assert sums.dtype == torch.float32


def test_padding_is_absence():
    checks.padding_is_absence(Retention(DECAYS[:4]), 7, [7, 4, 1], mask=Causal())
    checks.no_key_gives_zero(Retention(DECAYS), 5, Causal())
    checks.empty_sequences(Retention(DECAYS[:4]), Causal())


def test_gradients():
    inputs, mechanism = checks.tensors(5, 5, heads=2, kv_heads=1, dim=3, batch=2), Retention(torch.tensor([0.5, 0.9]))
    function = lambda *x: run(mechanism, *x, mask=Causal())  # noqa: E731
    assert torch.autograd.gradcheck(function, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(function, inputs, fast_mode=True)


def test_memory_grows_with_the_length():
    assert checks.memory_is_linear(Retention(DECAYS[:2])) < 2 * 1024 * 32 * 33 * 4


def test_what_it_refuses(untyped):
    checks.refuses(Retention(DECAYS[:4]))
    for decay in (0.0, 1.5, float("nan")):
        with pytest.raises(ConfigError, match="decay must be above 0 and at most 1 for each head, got"):
            Retention(torch.tensor([0.5, decay]))
    with pytest.raises(ShapeError, match="Retention was built for heads 6, got 4"):
        run(Retention(DECAYS), *checks.tensors(7, 7), mask=Causal())


def test_what_it_says_of_itself():
    sized = Retention.sized(head_dim=5, num_heads=3, max_len=7, dropout=0.5)
    assert repr(sized) == "Retention(num_heads=3)"
    assert list(sized.state_dict()) == ["fade"]
    assert not list(sized.parameters())

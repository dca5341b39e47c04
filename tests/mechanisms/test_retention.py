"""Retention: pairs fade with their distance, at the rate of the head."""

import linear_reference as reference
import pytest
import torch
from linear_reference import CAUSAL_CASES

from headwise.attention import mechanisms
from headwise.attention.masks import Causal, Padding
from headwise.attention.mechanisms.retention import Retention
from headwise.errors import ConfigError, ShapeError, Unsupported

DECAYS = torch.tensor([0.9, 1.0, 0.3, 0.75, 1e-6, 0.99])


def definition(mechanism: Retention):
    def weights(query, key, allowed, start):
        gates = mechanism.log_decay.view(1, -1, 1, 1).expand(2, -1, 64, query.shape[-1])
        return reference.by_pairs(query / query.shape[-1] ** 0.5, key, allowed, start, gates)

    return weights


@pytest.mark.parametrize("case", CAUSAL_CASES)
def test_it_is_its_definition(case):
    mechanism = Retention(DECAYS)
    reference.check_definition(mechanism, definition(mechanism), case)


def test_golden_numbers():
    """By hand: decay 1/2, d = 1; the third output is 1 x 4 / 4 + 2 x 5 / 2 + 3 x 6."""
    query, key = torch.ones(1, 1, 3, 1), torch.tensor([1.0, 2.0, 3.0]).view(1, 1, 3, 1)
    value = torch.tensor([4.0, 5.0, 6.0]).view(1, 1, 3, 1)
    output = Retention(torch.tensor([0.5]))(query, key, value, mask=Causal())
    torch.testing.assert_close(output.flatten(), torch.tensor([4.0, 12.0, 24.0]))


@pytest.mark.parametrize(("length", "cuts"), [(7, [1, 2, 3, 4, 5, 6]), (131, [1, 65, 66, 130]), (3, [0])])
def test_step_by_step_is_all_at_once(length, cuts):
    reference.check_steps(Retention(DECAYS), length, cuts)


@pytest.mark.parametrize("length", [1, 2, 63, 64, 65, 127, 129])
def test_chunks_are_the_recurrence(length):
    query, key, value = reference.drawn(6, 6, length, length, 5)
    mechanism = Retention(DECAYS.double())
    gates = DECAYS.double().view(1, -1, 1, 1).expand(2, -1, length, 5)
    expected = reference.by_positions(query / 5**0.5, key, value, gates)
    actual = mechanism(query, key, value, mask=Causal())
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-11)
    inputs, gradient = (query, key, value), torch.randn_like(actual)
    for one, two in zip(
        torch.autograd.grad(actual, inputs, gradient), torch.autograd.grad(expected, inputs, gradient), strict=True
    ):
        torch.testing.assert_close(one, two, rtol=0, atol=1e-11)


def test_no_digits_are_lost_over_4096_positions():
    query, key, value = (torch.randn(1, 6, 4096, 8) for _ in range(3))
    actual = Retention(DECAYS)(query, key, value, mask=Causal())
    expected = Retention(DECAYS.double())(query.double(), key.double(), value.double(), mask=Causal())
    torch.testing.assert_close(actual.double(), expected, rtol=0, atol=2e-6 * expected.abs().max().item())


def test_sums_stay_wide_under_autocast():
    query, key, value = (torch.randn(1, 6, 100, 8) for _ in range(3))
    with torch.autocast("cpu", torch.bfloat16):
        inside = Retention(DECAYS)(query, key, value, mask=Causal())
        stepped, (sums,) = Retention(DECAYS).resume(query, key, value, None)
    assert torch.equal(inside, Retention(DECAYS)(query, key, value, mask=Causal()))
    assert torch.equal(inside, stepped)
    assert sums.dtype == torch.float32


def test_nan_in_padding_stays_there():
    reference.check_hidden_stay_hidden(Retention(DECAYS), Causal() & Padding(torch.tensor([4, 7])))


def test_rows_without_a_key_are_zero_with_zero_gradient():
    query, key, value = reference.drawn(6, 3, 5, 5, 5)
    output = Retention(DECAYS)(query, key, value, mask=Causal() & Padding(torch.tensor([0, 5])))
    assert not output[0].any()
    output.sum().backward()
    assert not any(tensor.grad[0].any() for tensor in (query, key, value))


def test_nothing_to_see():
    reference.check_empty(Retention(DECAYS), Causal())


def test_gradients():
    tensors = reference.drawn(2, 1, 5, 5, 3)
    mechanism, mask = Retention(torch.tensor([0.5, 0.9])), Causal() & Padding(torch.tensor([0, 3]))
    function = lambda *tensors: mechanism(*tensors, mask=mask)  # noqa: E731
    assert torch.autograd.gradcheck(function, tensors, fast_mode=True)
    assert torch.autograd.gradgradcheck(function, tensors, fast_mode=True)


def test_memory_grows_with_the_length():
    reference.check_memory(Retention(DECAYS[:2]))


def test_what_it_refuses():
    reference.check_refusals(Retention(DECAYS), "retention", r"Causal\(\), alone or with padding of keys")
    x = torch.ones(2, 6, 7, 5)
    for mask, shown in ((None, "no mask"), (Padding(torch.tensor([3, 7])), "the mask Padding")):
        with pytest.raises(
            Unsupported, match=f"retention got {shown}, but its decay runs from the key to a later quer"
        ):
            Retention(DECAYS)(x, x, x, mask=mask)
    for decay in (0.0, 1.5, float("nan")):
        with pytest.raises(ConfigError, match="decay must be above 0 and at most 1 for each head, got"):
            Retention(torch.tensor([0.5, decay]))


def test_shapes_that_do_not_fit(untyped):
    reference.check_shapes(Retention(DECAYS))
    x = torch.ones(2, 4, 7, 5)
    with pytest.raises(ShapeError, match="retention was built with decays for 6 heads, got 4"):
        Retention(DECAYS)(x, x, x, mask=Causal())


def test_what_it_says_of_itself():
    assert mechanisms.mechanism_type("retention") is Retention
    sized = Retention.sized(head_dim=5, num_heads=3, max_len=7, dropout=0.5)
    # 1 - 1/32, 1 - 1/64, 1 - 1/128
    torch.testing.assert_close(sized.log_decay.exp(), torch.tensor([0.96875, 0.984375, 0.9921875]))
    assert repr(sized) == "Retention(heads=3)"
    assert list(sized.state_dict()) == ["log_decay"]
    assert not list(sized.parameters())

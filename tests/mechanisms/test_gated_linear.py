"""Gated linear attention: each key fades what came before it, feature by feature."""

import linear_reference as reference
import pytest
import torch
from linear_reference import CAUSAL_CASES

from headwise.attention import mechanisms
from headwise.attention.masks import Causal, Padding
from headwise.attention.mechanisms.gated_linear import GatedLinear
from headwise.errors import ConfigError, ShapeError, Unsupported


def built(scale: float = 30.0) -> GatedLinear:
    """With gates from open to nearly shut."""
    mechanism = GatedLinear(5, rank=3)
    torch.nn.init.normal_(mechanism.up.weight, std=scale)
    return mechanism


def definition(mechanism: GatedLinear):
    def weights(query, key, allowed, start):
        batch, heads, query_len, dim = query.shape
        exists = allowed.any(2) if start + query_len >= key.shape[2] else torch.ones_like(allowed[:, :, 0])
        gates = mechanism.log_gates(key).repeat_interleave(heads // key.shape[1], 1)
        gates = torch.where(exists.unsqueeze(-1), gates, 0.0)
        gates = torch.cat((gates, torch.zeros(batch, heads, 64, dim, dtype=gates.dtype)), 2)
        return reference.by_pairs(query / dim**0.5, key, allowed, start, gates)

    return weights


@pytest.mark.parametrize("case", CAUSAL_CASES)
def test_it_is_its_definition(case):
    mechanism = built()
    reference.check_definition(mechanism, definition(mechanism), case)


def test_golden_numbers():
    """By hand: keys 0, 1, 2 of width 1 give gates sigmoid(0), sigmoid(ln 3), sigmoid(2 ln 3) at temperature 1."""
    mechanism = GatedLinear(1, rank=1, temperature=1.0)
    for parameter, number in ((mechanism.down.weight, 1.0), (mechanism.up.weight, 1.0986123), (mechanism.up.bias, 0.0)):
        torch.nn.init.constant_(parameter, number)
    key = torch.tensor([0.0, 1.0, 2.0]).view(1, 1, 3, 1)
    value = torch.tensor([7.0, 4.0, 5.0]).view(1, 1, 3, 1)
    torch.testing.assert_close(mechanism.log_gates(key).exp().flatten(), torch.tensor([0.5, 0.75, 0.9]))
    output = mechanism(torch.ones(1, 1, 3, 1), key, value, mask=Causal())
    # 0 x 7, then 1 x 4, then 0.9 x 4 + 2 x 5
    torch.testing.assert_close(output.flatten(), torch.tensor([0.0, 4.0, 13.6]))


@pytest.mark.parametrize(("length", "cuts"), [(7, [1, 2, 3, 4, 5, 6]), (131, [1, 65, 66, 130]), (3, [0])])
def test_step_by_step_is_all_at_once(length, cuts):
    reference.check_steps(built(3.0), length, cuts)


@pytest.mark.parametrize("length", [1, 2, 3, 63, 64, 65, 127, 129])
@pytest.mark.parametrize("scale", [0.1, 30.0, 1e6])
def test_chunks_are_the_recurrence(length, scale):
    """With gates that fade slowly, fast, and that shut: exp(-1,000,000) and beyond."""
    query, key, value = reference.drawn(3, 3, length, length, 5)
    mechanism = built(scale).double()
    expected = reference.by_positions(query / 5**0.5, key, value, mechanism.log_gates(key).exp())
    actual = mechanism(query, key, value, mask=Causal())
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)
    inputs, gradient = (query, key, value, *mechanism.parameters()), torch.randn_like(actual)
    for one, two in zip(
        torch.autograd.grad(actual, inputs, gradient), torch.autograd.grad(expected, inputs, gradient), strict=True
    ):
        torch.testing.assert_close(one, two, rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize("scale", [0.1, 30.0, 1e4])
def test_no_digits_are_lost_over_4096_positions(scale):
    query, key, value = (torch.randn(1, 2, 4096, 5) for _ in range(3))
    mechanism = built(scale)
    actual = mechanism(query, key, value, mask=Causal())
    expected = mechanism.double()(query.double(), key.double(), value.double(), mask=Causal())
    torch.testing.assert_close(actual.double(), expected, rtol=0, atol=5e-6 * expected.abs().max().item())


def test_sums_stay_wide_under_autocast():
    query, key, value = (torch.randn(1, 2, 100, 5) for _ in range(3))
    mechanism = built()
    with torch.autocast("cpu", torch.bfloat16):
        inside = mechanism(query, key, value, mask=Causal())
        stepped, (sums,) = mechanism.resume(query, key, value, None)
    assert torch.equal(inside, mechanism(query, key, value, mask=Causal()))
    assert torch.equal(inside, stepped)
    assert sums.dtype == torch.float32


def test_nan_in_padding_stays_there():
    reference.check_hidden_stay_hidden(built(), Causal() & Padding(torch.tensor([4, 7])))


def test_a_hidden_key_does_not_fade_the_others():
    """Keys behind a hidden one are seen as if it had never been."""
    query, key, value = (x.detach() for x in reference.drawn(2, 2, 5, 5, 5))
    rest = [0, 1, 3, 4]
    hides = torch.tensor([[[[True, True, False, True, True]]]])
    mechanism = built().double()
    whole = mechanism(query, key, value, mask=Causal() & reference.Table(hides))
    without = mechanism(query[:, :, rest], key[:, :, rest], value[:, :, rest], mask=Causal())
    torch.testing.assert_close(whole[:, :, rest], without, rtol=0, atol=1e-12)


def test_rows_without_a_key_are_zero_with_zero_gradient():
    query, key, value = reference.drawn(6, 3, 5, 5, 5)
    output = built().double()(query, key, value, mask=Causal() & Padding(torch.tensor([0, 5])))
    assert not output[0].any()
    output.sum().backward()
    assert not any(tensor.grad[0].any() for tensor in (query, key, value))


def test_nothing_to_see():
    reference.check_empty(built(), Causal())


def test_gradients():
    tensors = reference.drawn(2, 1, 5, 5, 5)
    mechanism, mask = built(3.0).double(), Causal() & Padding(torch.tensor([0, 3]))
    function = lambda *tensors: mechanism(*tensors, mask=mask)  # noqa: E731
    assert torch.autograd.gradcheck(function, tensors, fast_mode=True)
    assert torch.autograd.gradgradcheck(function, tensors, fast_mode=True)


def test_memory_grows_with_the_length():
    reference.check_memory(GatedLinear(32))


def test_what_it_refuses():
    reference.check_refusals(built(), "gated_linear", r"Causal\(\), alone or with padding of keys")
    x = torch.ones(2, 6, 7, 5)
    for mask, shown in ((None, "no mask"), (Padding(torch.tensor([3, 7])), "the mask Padding")):
        with pytest.raises(Unsupported, match=f"gated_linear got {shown}, but .* or use mechanism 'linear'"):
            built()(x, x, x, mask=mask)
    for options in ({"rank": 0}, {"temperature": 0.0}):
        with pytest.raises(ConfigError, match=r"rank \(\d+\) must be at least 1 and temperature \([\d.]+\) above 0"):
            GatedLinear(5, **options)


def test_shapes_that_do_not_fit(untyped):
    reference.check_shapes(built())
    x = torch.ones(2, 6, 7, 4)
    with pytest.raises(ShapeError, match=r"gated_linear was built for head_dim \(5\), got vectors of width 4"):
        built()(x, x, x, mask=Causal())


def test_what_it_says_of_itself():
    assert mechanisms.mechanism_type("gated_linear") is GatedLinear
    sized = GatedLinear.sized(head_dim=5, num_heads=3, max_len=7, dropout=0.5)
    assert sized.down.weight.shape == (16, 5)
    assert sized.temperature == 16.0
    assert "temperature=16.0" in repr(sized)
    assert sorted(sized.state_dict()) == ["down.weight", "up.bias", "up.weight"]

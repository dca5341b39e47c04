"""Gated linear attention: each key fades what came before it, feature by feature."""

import mechanism_checks as checks
import pytest
import torch
from devices import DEVICE, not_simulated
from mechanism_checks import CAUSAL_CASES, run

from headwise.attention.call import Call
from headwise.attention.masks import Causal, Padding, Table
from headwise.attention.mechanisms.gated_linear import GatedLinear
from headwise.errors import ConfigError


def built(scale: float = 30.0, head_dim: int = 5) -> GatedLinear:
    """With gates from open to nearly shut."""
    mechanism = GatedLinear(head_dim, rank=3)
    torch.nn.init.normal_(mechanism.up.weight, std=scale)
    return mechanism


def definition(mechanism: GatedLinear):
    def weights(query, key, allowed, start):
        batch, heads, query_len, dim = query.shape
        exists = allowed.any(2) if start + query_len >= key.shape[2] else torch.ones_like(allowed[:, :, 0])
        gates = mechanism.log_gates(key).repeat_interleave(heads // key.shape[1], 1)
        gates = torch.where(exists.unsqueeze(-1), gates, 0.0)
        gates = torch.cat((gates, torch.zeros(batch, heads, 64, dim, dtype=gates.dtype)), 2)
        return checks.by_pairs(query / dim**0.5, key, allowed, start, gates)

    return weights


@pytest.mark.parametrize("case", CAUSAL_CASES)
def test_it_is_its_definition(case):
    checks.is_defined_by(mechanism := built(), definition(mechanism), case)


def test_golden_numbers():
    """By hand: keys 0, 1, 2 of width 1 give gates sigmoid(0), sigmoid(ln 3), sigmoid(2 ln 3) at temperature 1."""
    mechanism = GatedLinear(1, rank=1, temperature=1.0)
    for parameter, number in ((mechanism.down.weight, 1.0), (mechanism.up.weight, 1.0986123), (mechanism.up.bias, 0.0)):
        torch.nn.init.constant_(parameter, number)
    key = torch.tensor([0.0, 1.0, 2.0]).view(1, 1, 3, 1)
    value = torch.tensor([7.0, 4.0, 5.0]).view(1, 1, 3, 1)
    torch.testing.assert_close(mechanism.log_gates(key).exp().flatten(), torch.tensor([0.5, 0.75, 0.9]))
    output = run(mechanism, torch.ones(1, 1, 3, 1), key, value, mask=Causal())
    # 0 x 7, then 1 x 4, then 0.9 x 4 + 2 x 5
    torch.testing.assert_close(output.flatten(), torch.tensor([0.0, 4.0, 13.6]))


def test_step_by_step_is_all_at_once():
    checks.steps_are_all_at_once(built(3.0), 131, [1, 65, 66, 130])


@pytest.mark.parametrize(("length", "scale"), [(1, 0.1), (7, 30.0), (9, 1e6), (63, 0.1), (65, 30.0), (129, 1e6)])
def test_chunks_are_the_recurrence(length, scale):
    """With gates that fade slowly, fast, and that shut: exp(-1,000,000) and beyond."""
    query, key, value = checks.tensors(length, length, heads=3, kv_heads=3, dim=5)
    mechanism = built(scale).double()
    expected = checks.by_positions(query / 5**0.5, key, value, mechanism.log_gates(key).exp())
    actual = run(mechanism, query, key, value, mask=Causal())
    inputs = [query, key, value, *mechanism.parameters()]
    checks.near(actual, expected, 1e-12)
    gradient = torch.randn_like(actual)
    for one, two in zip(*(torch.autograd.grad(x, inputs, gradient) for x in (actual, expected)), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize("scale", [0.1, 30.0, 1e4])
def test_no_digits_are_lost_over_4096_positions(scale):
    inputs, mechanism = [torch.randn(1, 1, 4096, 5) for _ in range(3)], built(scale)
    actual = run(mechanism, *inputs, mask=Causal())
    expected = run(mechanism.double(), *(t.double() for t in inputs), mask=Causal())
    checks.near(actual.double(), expected, 5e-6 * expected.abs().max().item())


@not_simulated("it has no autocast")
def test_sums_stay_wide_under_autocast():
    inputs, mechanism = [torch.randn(1, 2, 100, 5) for _ in range(3)], built()
    with torch.autocast(DEVICE, torch.bfloat16):
        inside = run(mechanism, *inputs, mask=Causal())
        stepped, (sums,) = mechanism.resume(Call(*inputs), None)
    assert torch.equal(inside, run(mechanism, *inputs, mask=Causal()))
    assert torch.equal(inside, stepped)
    assert sums.dtype == torch.float32


def test_padding_is_absence():
    mechanism = built(head_dim=6).double()
    checks.padding_is_absence(mechanism, 7, [7, 4, 1], mask=Causal())
    checks.no_key_gives_zero(mechanism, 5, Causal())
    checks.empty_sequences(mechanism, Causal())


def test_a_hidden_key_does_not_fade_the_others():
    """Keys behind a hidden one are seen as if it had never been."""
    inputs, rest = checks.tensors(5, 5, dim=5), [0, 1, 3, 4]
    hides = torch.tensor([[[[True, True, False, True, True]]]])
    mechanism = built().double()
    whole = run(mechanism, *inputs, mask=Causal() & Table(hides))
    checks.near(whole[:, :, rest], run(mechanism, *(t[:, :, rest] for t in inputs), mask=Causal()), 1e-12)


def test_gradients():
    inputs, mechanism = checks.tensors(5, 5, heads=2, kv_heads=1, dim=5, batch=2), built(3.0).double()
    function = lambda *x: run(mechanism, *x, mask=Causal() & Padding(torch.tensor([0, 3])))  # noqa: E731
    assert torch.autograd.gradcheck(function, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(function, inputs, fast_mode=True)


def test_memory_grows_with_the_length():
    checks.memory_is_linear(GatedLinear(32))


def test_what_it_refuses(untyped):
    checks.refuses(built(head_dim=6))
    checks.wrong_width(built())
    for options in ({"rank": 0}, {"temperature": 0.0}):
        with pytest.raises(ConfigError, match=r"rank \(\d+\) must be at least 1 and temperature \([\d.]+\) above 0"):
            GatedLinear(5, **options)


def test_what_it_says_of_itself():
    sized = GatedLinear.sized(head_dim=5, num_heads=3, max_len=7, dropout=0.5)
    assert sized.down.weight.shape == (16, 5)
    assert "temperature=16.0" in repr(sized)
    assert sorted(sized.state_dict()) == ["down.weight", "up.bias", "up.weight"]

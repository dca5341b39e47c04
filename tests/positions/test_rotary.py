"""Queries and keys turned by position."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headwise.attention import attend
from headwise.attention.masks import Causal, Padding, Table
from headwise.errors import ConfigError
from headwise.positions.rotary import Rotary


def at(position: int, vector: torch.Tensor, rotary: Rotary) -> torch.Tensor:
    """The vector as it stands at this position."""
    return rotary.rotate(vector[None], position)[0]


@given(st.integers(0, 3000), st.sampled_from([2, 8, 64]))
def test_each_pair_of_neighbours_is_turned_by_its_angle(position, width):
    vector = torch.randn(width, dtype=torch.float64)
    turned = at(position, vector, Rotary(width))
    for pair in range(width // 2):
        angle = position * 10000 ** (-2 * pair / width)
        one, two = vector[2 * pair].item(), vector[2 * pair + 1].item()
        assert turned[2 * pair].item() == pytest.approx(one * math.cos(angle) - two * math.sin(angle), abs=1e-11)
        assert turned[2 * pair + 1].item() == pytest.approx(one * math.sin(angle) + two * math.cos(angle), abs=1e-11)


def test_the_first_position_is_left_alone():
    x = torch.randn(2, 3, 1, 8)
    assert torch.equal(Rotary(8).rotate(x, 0), x)


@given(st.integers(0, 2000), st.integers(0, 2000), st.sampled_from([0, 1, 100, 5000]))
def test_scores_depend_on_distance_alone_and_lengths_stay(m, n, shift):
    rotary = Rotary(16)
    query, key = torch.randn(2, 16, dtype=torch.float64).unbind()
    score = at(m, query, rotary) @ at(n, key, rotary)
    shifted = at(m + shift, query, rotary) @ at(n + shift, key, rotary)
    assert abs(float(score - shifted)) < 1e-10
    assert at(m, query, rotary).norm().item() == pytest.approx(query.norm().item(), abs=1e-12)


def test_scores_shifted_by_a_hundred():
    query, key = torch.randn(1, 2, 5, 8, dtype=torch.float64), torch.randn(1, 2, 5, 8, dtype=torch.float64)
    rotary = Rotary(8)
    scores, shifted = (rotary.rotate(query, start) @ rotary.rotate(key, start).mT for start in (0, 100))
    torch.testing.assert_close(scores, shifted, rtol=0, atol=5e-14)


@pytest.mark.parametrize("position", [10_000, 1_000_000])
def test_far_positions_are_as_exact_as_near_ones(position):
    """Angles are float64: with float32 angles the error would be 1e-3 at ten thousand, 3e-2 at a million."""
    query, key = torch.randn(2, 4, dtype=torch.float64).unbind()
    rotary = Rotary(4)
    near = at(0, query, rotary) @ at(3, key, rotary)
    far = at(position, query.float(), rotary) @ at(position + 3, key.float(), rotary)
    assert abs(float(near - far)) < 5e-6


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_the_type_stays_and_half_precision_is_turned_in_single(dtype):
    x = torch.randn(2, 3, 5, 8).to(dtype)
    output = Rotary(8).rotate(x, 11)
    assert output.dtype == dtype
    expected = Rotary(8).rotate(x.double(), 11).to(dtype)
    torch.testing.assert_close(output, expected, rtol=1e-2 if dtype != torch.float32 else 1e-5, atol=1e-6)


def test_tokens_one_by_one_are_the_tokens_at_once():
    rotary = Rotary(8)
    x = torch.randn(2, 3, 150, 8)
    steps = torch.cat([rotary.rotate(x[:, :, t : t + 1], t) for t in range(150)], 2)
    torch.testing.assert_close(steps, Rotary(8).rotate(x, 0), rtol=0, atol=1e-6)


def test_the_gradient_is_the_opposite_rotation():
    x = torch.randn(1, 2, 3, 4, dtype=torch.float64, requires_grad=True)
    rotary = Rotary(4)
    assert torch.autograd.gradcheck(lambda x: rotary.rotate(x, 7), x)
    gradient = torch.randn(1, 2, 3, 4, dtype=torch.float64)
    back = torch.autograd.grad(rotary.rotate(x, 7), x, gradient)[0]
    torch.testing.assert_close(rotary.rotate(back, 7), gradient)


def test_strides_do_not_matter():
    x = torch.randn(2, 5, 3, 8).transpose(1, 2)
    assert torch.equal(Rotary(8).rotate(x, 3), Rotary(8).rotate(x.contiguous(), 3))


def test_a_table_made_without_gradients_serves_training():
    rotary = Rotary(8)
    with torch.inference_mode():
        rotary.rotate(torch.randn(1, 1, 5, 8), 0)
    x = torch.randn(1, 1, 5, 8, requires_grad=True)
    rotary.rotate(x, 0).square().sum().backward()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("kernel", ["plain", "fused", "eager"])
def test_padding_on_the_left_or_on_the_right_or_none(kernel):
    """Only distance counts, so a sentence gives the same wherever in its row it stands."""
    rotary = Rotary(8)
    query, key, value = (torch.randn(1, 2, 5, 8) for _ in range(3))

    def padded(tensor, left, right):
        return torch.nn.functional.pad(tensor, (0, 0, left, right), value=3.0)

    alone = attend(rotary.rotate(query, 0), rotary.rotate(key, 0), value, mask=Causal(), kernel=kernel)
    for left, right in ((0, 4), (4, 0), (3, 1)):
        turned = [rotary.rotate(padded(tensor, left, right), 0) for tensor in (query, key)]
        real = torch.zeros(9, dtype=torch.bool)
        real[left : left + 5] = True
        mask = Causal() & (Padding(torch.tensor([5])) if left == 0 else Table(real.expand(9, 9)))
        output = attend(*turned, padded(value, left, right), mask=mask, kernel=kernel)
        torch.testing.assert_close(output[:, :, left : left + 5], alone, rtol=0, atol=1e-5)


def test_odd_widths_are_refused():
    with pytest.raises(ConfigError, match="rotary positions need an even head_dim, got 7"):
        Rotary(7)


def test_halves_in_place_of_neighbours_are_a_permutation():
    """Pairing column j with j + d/2, as some code does, gives the same scores for columns put in that order."""
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    halves = torch.tensor([0, 4, 1, 5, 2, 6, 3, 7])
    expected = torch.empty_like(x)
    for position in range(5):
        for pair in range(4):
            angle = position * 10000 ** (-2 * pair / 8)
            one, two = x[:, position, pair], x[:, position, pair + 4]
            expected[:, position, pair] = one * math.cos(angle) - two * math.sin(angle)
            expected[:, position, pair + 4] = one * math.sin(angle) + two * math.cos(angle)
    torch.testing.assert_close(Rotary(8).rotate(x[..., halves], 0), expected[..., halves], rtol=0, atol=1e-12)


@pytest.mark.parametrize("columns", [2, 4, 8])
def test_some_columns_are_turned_as_a_narrower_head(columns):
    x = torch.randn(2, 3, 5, 8, dtype=torch.float64, requires_grad=True)
    output = Rotary(8, columns=columns).rotate(x, 3)
    expected = torch.cat((Rotary(columns).rotate(x[..., :columns], 3), x[..., columns:]), -1)
    assert torch.equal(output, expected)
    gradient = torch.randn_like(x)
    found, wanted = (torch.autograd.grad(result, x, gradient)[0] for result in (output, expected))
    assert torch.equal(found, wanted)


def test_a_head_of_odd_width_may_be_turned_in_part():
    x = torch.randn(5, 7)
    assert torch.equal(Rotary(7, columns=6).rotate(x, 1)[:, 6], x[:, 6])


def test_interpolated_positions_are_those_in_between():
    """Chen et al. 2023, eq. 4: position m stands where m / s stood."""
    x = torch.randn(1, 8, dtype=torch.float64)
    plain, stretched = Rotary(8), Rotary(8, interpolation=4.0)
    for position in (0, 1, 17, 500):
        torch.testing.assert_close(stretched.rotate(x, 4 * position), plain.rotate(x, position), rtol=0, atol=1e-12)


def test_ntk_keeps_the_fastest_period_and_stretches_the_slowest():
    """Peng et al. 2023, section 3.1: base 10000 s^(d / (d - 2)) leaves frequency 1 and divides the last by s."""
    x = torch.tensor([[1.0, 0.0]], dtype=torch.float64).repeat(1, 4)
    plain, stretched = Rotary(8).rotate(x, 3), Rotary(8, ntk=4.0).rotate(x, 3)
    assert stretched[0, 0].item() == pytest.approx(math.cos(3))
    slowest = 10000 ** (-6 / 8) / 4
    assert stretched[0, 7].item() == pytest.approx(math.sin(3 * slowest), abs=1e-14)
    assert plain[0, 7].item() == pytest.approx(math.sin(12 * slowest), abs=1e-14)
    ratios = torch.asin(plain[0, 3::2]) / torch.asin(stretched[0, 3::2])
    assert (ratios[1:] > ratios[:-1]).all()


@pytest.mark.parametrize("options", [{"columns": 4}, {"interpolation": 8.0}, {"ntk": 8.0}, {"base": 500.0}])
def test_scores_depend_on_distance_alone_with_every_option(options):
    query, key = torch.randn(1, 2, 5, 8, dtype=torch.float64), torch.randn(1, 2, 5, 8, dtype=torch.float64)
    rotary = Rotary(8, **options)
    scores, shifted = (rotary.rotate(query, start) @ rotary.rotate(key, start).mT for start in (0, 100))
    torch.testing.assert_close(scores, shifted, rtol=0, atol=5e-14)
    assert not torch.allclose(scores, Rotary(8).rotate(query, 0) @ Rotary(8).rotate(key, 0).mT)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": 3}, "rotary positions turn an even number of columns from 2 to 8, got 3"),
        ({"columns": 10}, "an even number of columns from 2 to 8, got 10"),
        ({"columns": 0}, "an even number of columns from 2 to 8, got 0"),
        ({"interpolation": 0.0}, "base \\(10000.0\\), interpolation \\(0.0\\) and ntk \\(1.0\\) .* must be above 0"),
        ({"ntk": -1.0}, "ntk \\(-1.0\\) of rotary positions must be above 0"),
        ({"base": 0.0}, "base \\(0.0\\), interpolation"),
        ({"columns": 2, "ntk": 2.0}, "ntk lengthens slow periods only: turn at least 4 columns, or use interpolation"),
    ],
)
def test_options_that_make_no_rotation(options, message):
    with pytest.raises(ConfigError, match=message):
        Rotary(8, **options)

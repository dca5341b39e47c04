"""Queries and keys turned by position."""

import math

import pytest
import torch
from devices import DEVICE

from headwise.errors import ConfigError, ShapeError
from headwise.positions.rotary import Linear, Llama3, Ntk, Rotary, Yarn

HERE = torch.device(DEVICE)
# each layout, some columns, and every scaling
VARIANTS = {
    "interleaved": {},
    "half": {"layout": "half"},
    "columns": {"columns": 4, "layout": "half"},
    "linear": {"scaling": Linear(8.0)},
    "ntk": {"scaling": Ntk(8.0)},
    "yarn": {"scaling": Yarn(8.0, 64)},
    "llama3": {"scaling": Llama3(8.0, 64)},
}
each = pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS)


def at(position: int, vector: torch.Tensor, rotary: Rotary) -> torch.Tensor:
    """The vector as it stands at this position."""
    return rotary.rotate(vector[None], position)[0]


@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize(("position", "width"), [(0, 8), (1, 2), (17, 8), (3000, 64)])
def test_each_pair_is_turned_by_its_angle(position, width, layout):
    vector = torch.randn(width, dtype=torch.float64)
    turned, half = at(position, vector, Rotary(width, layout=layout)), width // 2
    for pair in range(half):
        angle = position * 10000 ** (-2 * pair / width)
        i, j = (pair, pair + half) if layout == "half" else (2 * pair, 2 * pair + 1)
        one, two = vector[i].item(), vector[j].item()
        assert turned[i].item() == pytest.approx(one * math.cos(angle) - two * math.sin(angle), abs=1e-11)
        assert turned[j].item() == pytest.approx(one * math.sin(angle) + two * math.cos(angle), abs=1e-11)


@each
def test_scores_depend_on_distance_alone(options):
    rotary = Rotary(8, **options)
    query, key = torch.randn(2, 1, 2, 5, 8, dtype=torch.float64).unbind()
    scores, shifted = (rotary.rotate(query, start) @ rotary.rotate(key, start).mT for start in (0, 100))
    torch.testing.assert_close(scores, shifted, rtol=0, atol=5e-14)
    amplitude = 1.0 if "scaling" not in options else options["scaling"].amplitude()
    if "columns" not in options:
        torch.testing.assert_close(rotary.rotate(query, 7).norm(dim=-1), amplitude * query.norm(dim=-1))


@pytest.mark.parametrize("position", [10_000, 1_000_000])
def test_far_positions_are_as_exact_as_near_ones(position):
    """Angles are float64: with float32 angles the error would be 1e-3 at ten thousand, 3e-2 at a million."""
    query, key = torch.randn(2, 4, dtype=torch.float64).unbind()
    rotary = Rotary(4)
    near = at(0, query, rotary) @ at(3, key, rotary)
    far = at(position, query.float(), rotary) @ at(position + 3, key.float(), rotary)
    assert abs(float(near - far)) < 5e-6


@each
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_the_type_stays_and_half_precision_is_turned_in_single(dtype, options):
    x, rotary = torch.randn(2, 3, 5, 8).to(dtype), Rotary(8, **options).to(dtype)
    output = rotary.rotate(x, 11)
    assert output.dtype == dtype
    expected = rotary.rotate(x.double(), 11).to(dtype)
    torch.testing.assert_close(output, expected, rtol=1e-2 if dtype != torch.float32 else 1e-5, atol=1e-6)


@each
def test_tokens_one_by_one_in_any_layout_of_memory(options):
    rotary, x = Rotary(8, **options), torch.randn(2, 15, 3, 8).transpose(1, 2)
    whole = rotary.rotate(x, 0)
    steps = torch.cat([rotary.rotate(x[:, :, t : t + 1], t) for t in range(15)], 2)
    torch.testing.assert_close(steps, whole, rtol=0, atol=1e-6)
    for same in (x.contiguous(), x.mT.contiguous().mT, torch.cat((x, x), -1)[..., :8]):
        torch.testing.assert_close(rotary.rotate(same, 0), whole, rtol=0, atol=1e-6)


@each
def test_the_gradient_is_the_opposite_rotation(options):
    x = torch.randn(1, 2, 3, 8, dtype=torch.float64, requires_grad=True)
    rotary = Rotary(8, **options)
    assert torch.autograd.gradcheck(lambda x: rotary.rotate(x, 7), x, fast_mode=True)
    gradient = torch.randn(1, 2, 3, 8, dtype=torch.float64)
    back = torch.autograd.grad(rotary.rotate(x, 7), x, gradient)[0]
    amplitude = 1.0 if "scaling" not in options else options["scaling"].amplitude()
    torch.testing.assert_close(rotary.rotate(back, 7), amplitude**2 * gradient)


@pytest.mark.parametrize("columns", [2, 6])
def test_some_columns_are_turned_as_a_narrower_head(columns):
    x = torch.randn(2, 3, 5, 7, dtype=torch.float64)
    expected = torch.cat((Rotary(columns).rotate(x[..., :columns], 3), x[..., columns:]), -1)
    assert torch.equal(Rotary(7, columns=columns).rotate(x, 3), expected)


def test_interpolated_positions_are_those_in_between():
    """Chen et al. 2023, eq. 4: position m stands where m / s stood."""
    x = torch.randn(1, 8, dtype=torch.float64)
    plain, stretched = Rotary(8), Rotary(8, scaling=Linear(4.0))
    for position in (0, 1, 17, 500):
        torch.testing.assert_close(stretched.rotate(x, 4 * position), plain.rotate(x, position), rtol=0, atol=1e-12)


def test_ntk_keeps_the_fastest_period_and_stretches_the_slowest():
    """Peng et al. 2023, section 3.1: base 10000 s^(d / (d - 2)) leaves frequency 1 and divides the last by s."""
    found = Rotary(8, scaling=Ntk(4.0)).frequencies(HERE).to(HERE)
    base = 10000 * 4.0 ** (8 / 6)
    torch.testing.assert_close(found, base ** (-torch.arange(0, 8, 2, dtype=torch.float64) / 8), rtol=1e-14, atol=0)
    assert found[[0, -1]].tolist() == pytest.approx([1.0, 10000 ** (-6 / 8) / 4])


def test_yarn_by_hand():
    """Peng et al. 2023: fast pairs are kept, slow ones interpolated; 0.1 ln(s) + 1 on queries and on keys."""
    plain, found = (Rotary(128, scaling=scaling).frequencies(HERE).to(HERE) for scaling in (None, Yarn(16.0, 4096)))
    turns = 4096 * plain / (2 * math.pi)
    torch.testing.assert_close(found[turns > 36], plain[turns > 36])
    torch.testing.assert_close(found[turns < 0.9], plain[turns < 0.9] / 16)
    assert ((found <= plain) & (found >= plain / 16)).all()
    assert Yarn(16.0, 4096).amplitude() == pytest.approx(0.1 * math.log(16) + 1)
    assert Yarn(0.5, 4096).amplitude() == 1.0
    assert Yarn(16.0, 4096, attention=1.25).amplitude() == 1.25


def test_rotations_know_near_from_far_before_anything_is_learned():
    """The product of a vector with itself, turned for a place further away, is smaller (Su et al. 2021, 3.3)."""
    ones, rotary = torch.ones(1, 64, dtype=torch.float64), Rotary.sized(64, 64, 1, 1)
    products = [float(rotary.rotate(ones, 0) @ rotary.rotate(ones, far).mT) for far in (0, 5, 50, 1000)]
    assert products == sorted(products, reverse=True)
    assert products[0] == pytest.approx(64)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Rotary(7), "rotary positions need an even head_dim, got 7"),
        (lambda: Rotary(8, columns=3), "rotary positions turn an even number of columns from 2 to 8, got 3"),
        (lambda: Rotary(8, columns=10), "an even number of columns from 2 to 8, got 10"),
        (lambda: Rotary(8, base=0.0), "base of rotary positions must be above 0, got 0.0"),
        (
            lambda: Rotary(8, layout="halves"),
            "layout of rotary positions must be 'interleaved' or 'half', got 'halves'",
        ),
        (lambda: Rotary(8, base=math.nan), "base of rotary positions must be above 0, got nan"),
        (lambda: Rotary(0), "rotary positions need an even head_dim, got 0"),
        (lambda: Yarn(math.nan, 64), "factor of Yarn must be above 0, got nan"),
        (lambda: Linear(0.0), "factor of Linear must be above 0, got 0.0"),
        (lambda: Yarn(4.0, -1), "original_len of Yarn must be above 0, got -1"),
        (lambda: Yarn(4.0, 64, beta_fast=1.0), "beta_fast \\(1.0\\) of Yarn must be above beta_slow \\(1.0\\)"),
        (lambda: Llama3(4.0, 64, fast=0.5), "fast \\(0.5\\) of Llama3 must be above slow \\(1.0\\)"),
        (lambda: Rotary(8, columns=2, scaling=Ntk(2.0)), "Ntk lengthens slow periods only: turn at least 4 columns"),
    ],
)
@pytest.mark.usefixtures("untyped")
def test_options_that_make_no_rotation(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


def test_heads_of_another_width():
    with pytest.raises(ShapeError, match="rotary positions of width 8 meet heads of width 16"):
        Rotary(8).rotate(torch.zeros(2, 3, 5, 16), 0)


def test_heads_that_start_at_an_odd_place_in_memory():
    numbers = torch.randn(2 * 5 * 4 + 1)
    heads = numbers[1:].view(1, 2, 5, 4)
    rotary = Rotary(4)
    torch.testing.assert_close(rotary.rotate(heads, 3), rotary.rotate(heads.clone(), 3))

"""Performer: linear attention with random features, an unbiased estimate of softmax attention."""

import math
import warnings

import mechanism_checks as checks
import pytest
import torch
from devices import seeded
from mechanism_checks import CAUSAL_CASES, OPEN_CASES, run

from headwise.attention import attend
from headwise.attention.masks import Causal
from headwise.attention.mechanisms.performer import Performer
from headwise.errors import ConfigError


def definition(mechanism: Performer):
    def weights(query, key, allowed, start):
        phi = [mechanism.log_features(x).exp() for x in (query, key)]
        return checks.normalised(checks.by_pairs(*phi, allowed, start))

    return weights


@pytest.mark.parametrize("case", CAUSAL_CASES[3:] + OPEN_CASES[:2])
def test_it_is_its_definition(case):
    checks.is_defined_by(mechanism := Performer(5, 11), definition(mechanism), case)


def test_step_by_step_is_all_at_once():
    checks.steps_are_all_at_once(Performer(5, 11), 131, [1, 65, 66, 130])


def test_features_are_those_of_the_paper():
    """phi(x)_i = exp(w_i . x' - |x'|^2 / 2) / sqrt(m), one number at a time."""
    mechanism = Performer(4, 7).double()
    x = torch.randn(1, 1, 3, 4, dtype=torch.float64)
    actual = mechanism.log_features(x).exp()
    for t in range(3):
        scaled = [number / 4**0.25 for number in x[0, 0, t].tolist()]
        for i, w in enumerate(mechanism.projection.tolist()):
            product = sum(a * b for a, b in zip(w, scaled, strict=True))
            expected = math.exp(product - sum(a * a for a in scaled) / 2) / math.sqrt(7)
            assert actual[0, 0, t, i].item() == pytest.approx(expected, rel=1e-12)


def test_features_estimate_exp_without_bias():
    """The mean over 1,000 draws of W lies within 4 of its own standard errors of exp(q . k / sqrt(d))."""
    query, key = torch.randn(2, 1, 1, 5, 4, dtype=torch.float64) * 0.7
    mechanism, generator = Performer(4, 6).double(), seeded(7)
    products = []
    for _ in range(1000):
        mechanism.redraw(generator)
        phi_query, phi_key = (mechanism.log_features(x).exp() for x in (query, key))
        products.append(phi_query @ phi_key.mT)
    estimates = torch.stack(products)
    error = estimates.mean(0) - (query @ key.mT / 2).exp()
    assert (error.abs() < 4 * estimates.std(0) / math.sqrt(1000)).all()


def error(features: int, draws: int = 12) -> float:
    """Root of the mean square difference to softmax attention."""
    generator = seeded(11)
    query, key, value = (torch.randn(1, 2, 24, 8, generator=generator, dtype=torch.float64) * 0.4 for _ in range(3))
    exact, total = attend(query, key, value), 0.0
    for _ in range(draws):
        estimate = run(Performer(8, features, generator).double(), query, key, value)
        total += (estimate - exact).square().mean().item() / draws
    return math.sqrt(total)


def test_the_error_falls_as_one_over_the_root_of_the_features():
    errors = [error(features) for features in (64, 256, 1024)]
    # sixteen times the features
    assert errors[0] / errors[2] == pytest.approx(4.0, rel=0.15)
    assert errors[2] < 0.004


def test_rows_of_w_are_orthogonal_and_as_long_as_normal_ones():
    projection = Performer(8, 8 * 500 + 3).double().projection
    assert projection.shape == (4003, 8)
    blocks = projection[:4000].view(500, 8, 8)
    products = blocks @ blocks.mT
    apart = products - torch.diag_embed(products.diagonal(dim1=1, dim2=2))
    assert apart.abs().max() < 1e-5
    # |w|^2 is chi squared with 8 degrees of freedom: mean 8, standard deviation 4
    assert projection.square().sum(1).mean().item() == pytest.approx(8.0, abs=4 * 4 / math.sqrt(4003))
    # every coordinate of every row has mean 0 and variance 1
    assert (projection[:4000].view(500, 8, 8).mean(0).abs() < 4.5 / math.sqrt(500)).all()


def test_w_follows_the_seed_and_is_saved():
    one, two = (Performer(6, 11, seeded(3)) for _ in range(2))
    assert torch.equal(one.projection, two.projection)
    torch.manual_seed(3)
    assert torch.equal(Performer(6, 11).projection, one.projection)
    old = one.projection.clone()
    one.redraw(seeded(4))
    assert not torch.equal(one.projection, old)
    two.load_state_dict(one.state_dict())
    assert list(one.state_dict()) == ["projection"]
    inputs = [t.float() for t in checks.tensors(5, 7)]
    assert torch.equal(run(one, *inputs), run(two, *inputs))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("size", [32.0, 300.0])
def test_long_vectors_give_numbers(size, causal):
    """exp(w . x - |x|^2 / 2) underflows for these vectors; with like lengths nothing of the estimate is lost."""
    direction = torch.nn.functional.normalize(torch.randn(1, 1, 9, 16), dim=-1)
    mechanism, mask = Performer(16, 64), Causal() if causal else None
    x = (direction * size).requires_grad_()
    value = torch.randn(1, 1, 9, 3)
    output = run(mechanism, x, x, value, mask=mask)
    output.sum().backward()
    assert torch.isfinite(x.grad).all()
    expected = run(mechanism.double(), x.double(), x.double(), value.double(), mask=mask)
    if size < 100:
        assert (mechanism.log_features(x.double())).max() < -60
        checks.near(output.double(), expected, 1e-4)


def test_a_later_key_that_would_overflow_gives_numbers():
    """The first key is long and the next is short: exponents of -5,000 and 0."""
    key = torch.cat((torch.full((1, 1, 1, 4), 100.0), torch.zeros(1, 1, 3, 4)), 2).requires_grad_()
    query, value = torch.randn(1, 1, 4, 4, requires_grad=True), torch.randn(1, 1, 4, 3)
    output = run(Performer(4, 8), query, key, value, mask=Causal())
    output.sum().backward()
    assert all(torch.isfinite(tensor).all() for tensor in (output, query.grad, key.grad))


@pytest.mark.parametrize("mask", [None, Causal()], ids=["all", "causal"])
def test_padding_is_absence(mask):
    mechanism = Performer(6, 11).double()
    checks.padding_is_absence(mechanism, 7, [7, 4, 1], mask=mask)
    checks.no_key_gives_zero(mechanism, 5, mask)
    checks.empty_sequences(mechanism, mask)


def test_gradients():
    inputs, mechanism = checks.tensors(4, 4, heads=2, kv_heads=1, dim=3), Performer(3, 5).double()
    assert torch.autograd.gradcheck(lambda *x: run(mechanism, *x, mask=Causal()), inputs, fast_mode=True)


def test_what_it_refuses(untyped):
    checks.refuses(Performer(6, 11))
    checks.wrong_width(Performer(6, 11))
    with pytest.raises(ConfigError, match=r"features \(0\) must be at least 1; d ln d is usual"):
        Performer(5, 0)


def test_torch_geometric_sums_the_same():
    """Their product of features, given ours, is our attention."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("torch_geometric", exc_type=ImportError)
        performer = pytest.importorskip("torch_geometric.nn.attention.performer", exc_type=ImportError)
    mechanism = Performer(6, 11).double()
    query, key, value = checks.tensors(5, 7, kv_heads=4)
    phi = [mechanism.log_features(x).exp() for x in (query, key)]
    checks.near(run(mechanism, query, key, value), performer.linear_attention(*phi, value), 1e-12)


def test_what_it_says_of_itself():
    sized = Performer.sized(head_dim=64, num_heads=3, max_len=7, dropout=0.5)
    # 64 ln 64 = 266.2
    assert repr(sized) == "Performer(head_dim=64, features=266)"
    assert Performer.sized(head_dim=1, num_heads=3, max_len=7, dropout=0.0).projection.shape == (1, 1)

"""Sparsemax and alpha-entmax: published values, the `entmax` package, long rows, the threshold without a sort."""

import itertools

import pytest
import torch

from headwise.attention import normalizers
from headwise.attention.normalizers import entmax15, softmax, sparsemax

SCORES = [0.1, 1.1, 0.2, 0.3]
SPARSE = ["sparsemax", "entmax15", "entmax:1.01", "entmax:1.3", "entmax:1.8", "entmax:2.0", "entmax:2.5"]


def test_published_values():
    """The two rows of the README of the authors' package."""
    scores = torch.tensor([[[SCORES]]])
    assert sparsemax(scores, None).flatten().tolist() == pytest.approx([0, 0.9, 0, 0.1], abs=1e-6)
    expected = [0.0880, 0.6346, 0.1201, 0.1573]
    assert entmax15(scores, None).flatten().tolist() == pytest.approx(expected, abs=5e-5)


def test_sparsemax_of_two_scores_is_a_hard_sigmoid():
    """Martins and Astudillo 2016, sec. 2.3: of (t, 0) the first weight is (t + 1) / 2, cut at 0 and 1."""
    for t in (-3.0, -1.0, -0.5, 0.0, 0.25, 1.0, 7.0):
        weights = sparsemax(torch.tensor([[[[t, 0.0]]]]), None)
        assert weights.flatten().tolist() == pytest.approx([min(1, max(0, (t + 1) / 2)), min(1, max(0, (1 - t) / 2))])


def _oracle(name, scores):
    entmax = pytest.importorskip("entmax")
    if name == "sparsemax":
        return entmax.sparsemax(scores, dim=-1)
    if name == "entmax15":
        return entmax.entmax15(scores, dim=-1)
    return entmax.entmax_bisect(scores, alpha=float(name.partition(":")[2]), dim=-1, n_iter=100)


@pytest.mark.parametrize("name", SPARSE)
@pytest.mark.parametrize("size", [0.0, 0.01, 1.0, 50.0])
def test_weights_and_gradients_are_those_of_the_authors_package(name, size):
    normalizer = normalizers.build(name)
    for key_len in (1, 2, 13, 211):
        scores = (size * torch.randn(2, 3, 5, key_len, dtype=torch.float64)).requires_grad_()
        d_weights = torch.randn(2, 3, 5, key_len, dtype=torch.float64)
        expected = _oracle(name, scores)
        wanted = torch.autograd.grad(expected, scores, d_weights)[0]
        weights = normalizer(scores, None)
        torch.testing.assert_close(weights, expected, rtol=0, atol=1e-11)
        # the package stops halving at a threshold, which a small alpha or a far key amplifies
        torch.testing.assert_close(torch.autograd.grad(weights, scores, d_weights)[0], wanted, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", SPARSE)
@pytest.mark.parametrize("size", [1e-3, 0.1, 1.0, 10.0])
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-11), (torch.float32, 2e-5)], ids=str)
def test_long_strips_need_no_sort(name, size, dtype, bound):
    normalizer = normalizers.build(name)
    scores = (size * torch.randn(2, 3, 1021, dtype=torch.float64)).to(dtype)
    # ties, an outlier, and keys that are hidden
    scores[0, 0, ::2] = scores[0, 0, 1]
    scores[0, 1, 5] = 3 * size + 2
    scores[1, 1, 7:] = -float("inf")
    scores[1, 2] = -float("inf")
    count = (scores > -float("inf")).sum(-1, keepdim=True).to(dtype)
    strip = normalizer.strip(scores.clone(), count)
    expected = _oracle(name, scores[:, :2].double())
    torch.testing.assert_close(strip[:, :2].double(), expected, rtol=0, atol=bound * max(1.0, size))
    assert not strip[1, 2].any()
    torch.testing.assert_close(strip[:, :2].sum(-1), torch.ones(2, 2, dtype=dtype))


def test_alpha_leads_from_softmax_to_sparsemax_and_on():
    scores = torch.randn(2, 3, 5, 31, dtype=torch.float64)
    near_softmax = normalizers.build("entmax:1.00001")(scores, None)
    torch.testing.assert_close(near_softmax, softmax(scores, None), rtol=0, atol=1e-4)
    torch.testing.assert_close(normalizers.build("entmax:2.0")(scores, None), sparsemax(scores, None))
    torch.testing.assert_close(normalizers.build("entmax:1.5")(scores, None), entmax15(scores, None))
    # the number of keys with a weight falls as alpha grows
    alphas = ("1.1", "1.5", "2.0", "3.0", "9.9")
    supports = [(normalizers.build(f"entmax:{alpha}")(scores, None) > 0).sum().item() for alpha in alphas]
    assert supports == sorted(supports, reverse=True)
    assert len(set(supports)) > 3


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-10), (torch.float32, 1e-4)], ids=str)
def test_a_large_alpha_solves_its_own_equation(dtype, bound):
    """Every weight above 0 has the same threshold; far from it, since there rounding of a score is all of a weight."""
    for alpha in (2.5, 4.0, 9.9):
        scores = torch.randn(2, 3, 5, 17, dtype=dtype)
        weights = normalizers.build(f"entmax:{alpha}")(scores, None)
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 5, dtype=dtype))
        taus = (alpha - 1) * scores - weights ** (alpha - 1)
        largest, least = (taus.masked_fill(weights == 0, fill) for fill in (-1e9, 1e9))
        # the rows whose sum jumps where a weight enters cannot reach 1 and are scaled: a few thousandths of tau
        assert ((largest.amax(-1) - least.amin(-1)).median() < bound).item()


@pytest.mark.parametrize("name", SPARSE)
def test_equal_scores_share_the_weight(name):
    normalizer = normalizers.build(name)
    for key_len, dtype in itertools.product((1, 2, 3, 1000), (torch.float64, torch.float32)):
        weights = normalizer(torch.full((1, 1, 1, key_len), 7.25, dtype=dtype), None)
        torch.testing.assert_close(weights, torch.full((1, 1, 1, key_len), 1 / key_len, dtype=dtype))


@pytest.mark.parametrize("name", SPARSE)
def test_large_scores_neither_overflow_nor_lose_the_largest(name):
    scores = torch.tensor([[[[3e38, -3e38, 0.0, 2.9e38]]]], requires_grad=True)
    weights = normalizers.build(name)(scores, torch.tensor([[[[True, True, True, False]]]]))
    assert weights.flatten().tolist() == [1, 0, 0, 0]
    weights.square().sum().backward()
    assert not scores.grad.any()


@pytest.mark.parametrize("name", SPARSE)
def test_a_row_that_never_settles_does_not_disturb_the_others(name):
    """As on a device, where nobody looks whether all rows are done: more steps change nothing."""
    normalizer = normalizers.build(name)
    scores = torch.randn(2, 5, 31, dtype=torch.float64)
    count = torch.full((2, 5, 1), 31.0, dtype=torch.float64)
    expected = normalizer.strip(scores.clone(), count)
    scores[1, 2, 3] = float("nan")
    weights = normalizer.strip(scores, count)
    others = ~scores.isnan().any(-1)
    torch.testing.assert_close(weights[others], expected[others], rtol=0, atol=1e-11)

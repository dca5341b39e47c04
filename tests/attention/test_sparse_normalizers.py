"""Sparsemax and alpha-entmax: published values, the `entmax` package, long rows, rows made to be hard."""

import pytest
import torch

from headwise.attention import normalizers
from headwise.attention.normalizers import NORMALIZERS, Entmax, softmax

entmax15, sparsemax = NORMALIZERS["entmax15"], NORMALIZERS["sparsemax"]

SPARSE = ["sparsemax", "entmax15", "entmax:1.01", "entmax:1.3", "entmax:2.5"]
every_sparse = pytest.mark.parametrize("name", SPARSE)
every_dtype = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)


def test_published_values():
    """The two rows of the README of the authors' package."""
    scores = torch.tensor([[[[0.1, 1.1, 0.2, 0.3]]]])
    assert sparsemax(scores, None).flatten().tolist() == pytest.approx([0, 0.9, 0, 0.1], abs=1e-6)
    expected = [0.0880, 0.6346, 0.1201, 0.1573]
    assert entmax15(scores, None).flatten().tolist() == pytest.approx(expected, abs=5e-5)


def test_sparsemax_of_two_scores_is_a_hard_sigmoid():
    """Martins and Astudillo 2016, sec. 2.3: of (t, 0) the first weight is (t + 1) / 2, cut at 0 and 1."""
    for t in (-3.0, -1.0, 0.0, 0.25, 7.0):
        weights = sparsemax(torch.tensor([[[[t, 0.0]]]]), None)
        assert weights.flatten().tolist() == pytest.approx([min(1, max(0, (t + 1) / 2)), min(1, max(0, (1 - t) / 2))])


def _oracle(name, scores):
    entmax = pytest.importorskip("entmax")
    if name == "sparsemax":
        return entmax.sparsemax(scores, dim=-1)
    if name == "entmax15":
        return entmax.entmax15(scores, dim=-1)
    return entmax.entmax_bisect(scores, alpha=float(name.partition(":")[2]), dim=-1, n_iter=60)


@every_sparse
@pytest.mark.parametrize("size", [0.01, 1.0, 50.0])
def test_weights_and_gradients_are_those_of_the_authors_package(name, size):
    for key_len in (1, 2, 211):
        scores = (size * torch.randn(2, 3, 5, key_len, dtype=torch.float64)).requires_grad_()
        d_weights = torch.randn(2, 3, 5, key_len, dtype=torch.float64)
        expected = _oracle(name, scores)
        wanted = torch.autograd.grad(expected, scores, d_weights)[0]
        weights = normalizers.build(name)(scores, None)
        torch.testing.assert_close(weights, expected, rtol=0, atol=1e-11)
        # the package stops halving at a threshold, which a small alpha or a far key amplifies
        torch.testing.assert_close(torch.autograd.grad(weights, scores, d_weights)[0], wanted, rtol=1e-6, atol=1e-9)


@every_sparse
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-12), (torch.float32, 3e-6)], ids=str)
def test_long_rows_made_to_be_hard(name, dtype, bound):
    """Ties, an outlier, gaps that halve: each step then settles one more key. In float32 to the last digits."""
    scores = torch.randn(1, 1, 5, 1021, dtype=torch.float64)
    scores[..., 0, ::2] = scores[0, 0, 0, 1]
    scores[..., 1, 5] = 5.0
    scores[..., 2, :] = -(0.5 ** torch.arange(1021, dtype=torch.float64))
    scores[..., 3, :] = -1 + 0.9 ** torch.arange(1021, dtype=torch.float64)
    scores = scores.to(dtype)
    weights = normalizers.build(name)(scores, None)
    torch.testing.assert_close(weights.double(), _oracle(name, scores.double()), rtol=0, atol=bound)
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 1, 5, dtype=dtype))


def test_alpha_leads_from_softmax_to_sparsemax_and_on():
    scores = torch.randn(2, 3, 5, 31)
    near_softmax = normalizers.build("entmax:1.00001")(scores, None)
    torch.testing.assert_close(near_softmax, softmax(scores, None), rtol=0, atol=1e-4)
    # just beside the two that have formulas of their own
    for alpha, exact in ((1.5, entmax15), (2.0, sparsemax)):
        assert torch.equal(Entmax(alpha)(scores, None), exact(scores, None))
        torch.testing.assert_close(Entmax(alpha - 1e-7)(scores, None), exact(scores, None), rtol=0, atol=1e-5)
    # the number of keys with a weight falls as alpha grows
    supports = [(Entmax(alpha)(scores, None) > 0).sum().item() for alpha in (1.1, 1.5, 2.0, 3.0, 9.9)]
    assert supports == sorted(supports, reverse=True)
    assert len(set(supports)) > 3


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-10), (torch.float32, 1e-4)], ids=str)
def test_a_large_alpha_solves_its_own_equation(dtype, bound):
    """Every weight above 0 has the same threshold; far from it, since there rounding of a score is all of a weight."""
    for alpha in (2.5, 4.0, 9.9):
        scores = torch.randn(2, 3, 5, 17, dtype=dtype)
        weights = Entmax(alpha)(scores, None)
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 5, dtype=dtype))
        taus = (alpha - 1) * scores - weights ** (alpha - 1)
        largest, least = (taus.masked_fill(weights == 0, fill) for fill in (-1e9, 1e9))
        # the rows whose sum jumps where a weight enters cannot reach 1 and are scaled: a few thousandths of tau
        assert ((largest.amax(-1) - least.amin(-1)).median() < bound).item()


@pytest.mark.parametrize("name", [*SPARSE, "entmax:9.9"])
@every_dtype
def test_equal_scores_share_the_weight(name, dtype):
    for key_len in (1, 3, 10000):
        weights = normalizers.build(name)(torch.full((1, 1, 1, key_len), 7.25, dtype=dtype), None)
        torch.testing.assert_close(weights, torch.full((1, 1, 1, key_len), 1 / key_len, dtype=dtype))


@every_sparse
def test_large_scores_neither_overflow_nor_lose_the_largest(name):
    scores = torch.tensor([[[[3e38, -3e38, 0.0, 2.9e38]]]], requires_grad=True)
    weights = normalizers.build(name)(scores, torch.tensor([[[[True, True, True, False]]]]))
    assert weights.flatten().tolist() == [1, 0, 0, 0]
    weights.square().sum().backward()
    assert not scores.grad.any()

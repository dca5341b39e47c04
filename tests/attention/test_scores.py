"""How alike a query and a key are."""

import math

import pytest
import torch

from headwise.attention import attend, plan, scores
from headwise.attention.masks import Padding
from headwise.attention.scores import Additive, Bilinear, Dot, ScaledDot
from headwise.errors import ConfigError, ShapeError


def test_the_dot_product_is_the_sum_of_products_for_each_pair():
    query, key = torch.randn(2, 3, 5, 11, dtype=torch.float64), torch.randn(2, 3, 7, 11, dtype=torch.float64)
    expected = torch.einsum("bhqd,bhkd->bhqk", query, key)
    torch.testing.assert_close(Dot()(query, key), expected)
    torch.testing.assert_close(ScaledDot()(query, key), expected / math.sqrt(11))


def test_the_sign_of_a_dot_product_tells_the_angle():
    """Zero for a right angle, above zero for an acute one, below for an obtuse one."""
    query = torch.tensor([[[[1.0, 0.0]]]])
    key = torch.tensor([[[[0.0, 2.0], [1.0, 3.0], [-1.0, 3.0]]]])
    assert Dot()(query, key).flatten().tolist() == [0.0, 1.0, -1.0]


def test_the_variance_of_a_dot_product_is_the_width_until_it_is_scaled():
    generator = torch.Generator().manual_seed(0)
    for width in (4, 16, 64, 256, 1024):
        query, key = (torch.randn(1, 1, n, width, generator=generator) for n in (251, 257))
        assert Dot()(query, key).var().item() / width == pytest.approx(1.0, abs=0.08)
        assert ScaledDot()(query, key).var().item() == pytest.approx(1.0, abs=0.08)


def test_the_bilinear_score_is_a_product_with_a_matrix_between():
    score = Bilinear(3, 5).double()
    query, key = torch.randn(2, 1, 2, 3, dtype=torch.float64), torch.randn(2, 1, 7, 5, dtype=torch.float64)
    expected = torch.einsum("bhqd,de,bhke->bhqk", query, score.weight, key)
    torch.testing.assert_close(score(query, key), expected)


def test_the_additive_score_pair_by_pair():
    score = Additive(3, 5, 4).double()
    query, key = torch.randn(2, 1, 2, 3, dtype=torch.float64), torch.randn(2, 1, 7, 5, dtype=torch.float64)
    actual = score(query, key)
    for b in range(2):
        for i in range(2):
            for j in range(7):
                hidden = torch.tanh(score.query.weight @ query[b, 0, i] + score.key.weight @ key[b, 0, j])
                expected = score.value.weight[0] @ hidden
                torch.testing.assert_close(actual[b, 0, i, j], expected)


def test_concatenating_query_and_key_is_the_same_function_as_summing():
    """v . tanh(W [q; k]) with W = [W_q W_k] equals v . tanh(W_q q + W_k k)."""
    weight, value = torch.randn(4, 8, dtype=torch.float64), torch.randn(4, dtype=torch.float64)
    query, key = torch.randn(2, 3, 5, 3, dtype=torch.float64), torch.randn(2, 3, 7, 5, dtype=torch.float64)
    score = Additive.from_concatenation(weight, value, query_dim=3)
    both = torch.cat((query.unsqueeze(3).expand(-1, -1, -1, 7, -1), key.unsqueeze(2).expand(-1, -1, 5, -1, -1)), -1)
    expected = torch.tanh(both @ weight.T) @ value
    assert (score(query, key) - expected).abs().max() < 1e-12


@pytest.mark.parametrize("query_dim", [0, 8])
def test_a_concatenation_needs_columns_for_both(query_dim):
    message = rf"query_dim \({query_dim}\) must lie between 1 and 7, the columns of the weight less one"
    with pytest.raises(ShapeError, match=message):
        Additive.from_concatenation(torch.randn(4, 8), torch.randn(4), query_dim)


def test_additive_attention_over_equal_keys_averages_the_values_within_the_lengths():
    """Queries (2, 1, 20), ten keys of width 2, values 0 to 39, lengths 2 and 6."""
    score = Additive(20, 2, 8)
    query, key = torch.randn(2, 1, 1, 20), torch.ones(2, 1, 10, 2)
    value = torch.arange(40.0).reshape(1, 1, 10, 4).expand(2, 1, 10, 4)
    assert score.query(query).shape == (2, 1, 1, 8)
    assert score.key(key).shape == (2, 1, 10, 8)
    assert score(query, key).shape == (2, 1, 1, 10)
    output = attend(query, key, value, score=score, mask=Padding(torch.tensor([2, 6])))
    assert output.shape == (2, 1, 1, 4)
    torch.testing.assert_close(output.flatten(1), torch.tensor([[2.0, 3, 4, 5], [10.0, 11, 12, 13]]))


def test_an_additive_score_keeps_a_vector_for_each_pair_and_a_dot_product_a_number():
    query, key = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 7, 4)
    additive = plan(query, key, key, score=Additive(4, 4, 8))
    assert additive.materialises == "features (2, 3, 5, 7, 8), 6,720 bytes"
    assert plan(query, key, key, kernel="plain").materialises == "scores (2, 3, 5, 7), 840 bytes"
    # multiplications for scores and for the sum of values
    assert additive.flops == 2 * 2 * 3 * 5 * 7 * (8 + 4)
    assert plan(query, key, key).flops == 2 * 2 * 3 * 5 * 7 * (4 + 4)


def test_a_dot_product_is_offered_where_the_score_is_one():
    query, key = torch.randn(2, 3, 5, 4, dtype=torch.float64), torch.randn(2, 3, 7, 4, dtype=torch.float64)
    for score in (Dot(), ScaledDot(), Bilinear(4, 4).double()):
        turned, other, scale = score.as_dot(query, key)
        torch.testing.assert_close(scale * (turned @ other.mT), score(query, key))
    assert Additive(4, 4, 3).as_dot(query, key) is None


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("kind", list(scores.SCORES))
def test_every_score_runs_in_half_precision(kind, dtype):
    score = scores.build(kind, 4, 4, 3, 3).to(dtype)
    query, key, value = (torch.randn(2, 3, n, 4).to(dtype) for n in (5, 7, 7))
    output = attend(query, key, value, score=score)
    wide = attend(query.float(), key.float(), value.float(), score=score.float())
    torch.testing.assert_close(output.float(), wide, rtol=0, atol=2e-2)


def test_widths_that_differ_are_named():
    query, key = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 7, 6)
    message = r"query_dim \(4\) and key_dim \(6\) differ: a dot product needs equal widths; use Bilinear or Additive"
    for score in ("dot", "scaled_dot"):
        with pytest.raises(ShapeError, match=message):
            attend(query, key, key, score=score)
    message = r"Bilinear was built for \(query_dim, key_dim\) = \(5, 6\), got \(4, 6\)"
    with pytest.raises(ShapeError, match=message):
        attend(query, key, key, score=Bilinear(5, 6))
    message = r"Additive was built for \(query_dim, key_dim\) = \(4, 3\), got \(4, 6\)"
    with pytest.raises(ShapeError, match=message):
        attend(query, key, key, score=Additive(4, 3, 2))


def test_building_by_name():
    built = {name: type(scores.build(name, 4, 4, 3, 1)) for name in scores.SCORES}
    assert built == {"dot": Dot, "scaled_dot": ScaledDot, "bilinear": Bilinear, "additive": Additive}
    with pytest.raises(ConfigError, match="unknown score 'aditive'; did you mean 'additive'"):
        scores.build("aditive", 4, 4, 3, 1)
    with pytest.raises(ConfigError, match="score 'dot' needs equal widths, got query 4 and key 5; use 'bilinear'"):
        scores.build("dot", 4, 5, 3, 1)
    assert list(scores.catalogue()) == list(scores.SCORES)
    assert all(scores.catalogue().values())

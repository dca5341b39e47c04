"""How alike a query and a key are."""

import math

import pytest
import torch

from headwise.attention import attend, plan, scores
from headwise.attention.masks import Padding
from headwise.attention.scores import Additive, Bilinear, Cosine, Dot, QKNorm, ScaledDot, SoftCap
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


@pytest.mark.parametrize("kind", list(scores.SCORES))
def test_a_dot_product_is_offered_where_the_score_is_one(kind):
    query, key = torch.randn(2, 3, 5, 4, dtype=torch.float64), torch.randn(2, 3, 7, 4, dtype=torch.float64)
    score = _trained(scores.build(kind, 4, 4, 3, 3))
    as_dot = score.as_dot(query, key)
    assert (as_dot is None) == (kind in ("additive", "concat", "soft_cap", "gat", "gatv2", "activation_unit"))
    # kernels look at the class
    assert (as_dot is None) == (type(score).as_dot is scores.Score.as_dot)
    if as_dot is not None:
        turned, other, scale = as_dot
        torch.testing.assert_close(scale * (turned @ other.mT), score(query, key))


@pytest.mark.parametrize("kind", list(scores.SCORES))
def test_keys_of_grouped_queries_keep_their_heads(kind):
    """One key head for all queries equals the key repeated, whether the score is a dot product or not."""
    query, key = torch.randn(2, 3, 5, 4, dtype=torch.float64), torch.randn(2, 1, 7, 4, dtype=torch.float64)
    score = _trained(scores.build(kind, 4, 4, 3, 3))
    as_dot = score.as_dot(query, key)
    if as_dot is not None:
        assert as_dot[1].shape[:3] == (2, 1, 7)
    grouped = attend(query, key, key, score=score)
    wide = key.expand(2, 3, 7, 4)
    torch.testing.assert_close(grouped, attend(query, wide, wide, score=score, kernel="plain"))


@pytest.mark.parametrize("kind", list(scores.SCORES))
def test_listed_pairs_have_the_scores_and_gradients_of_the_table(kind):
    query, key = torch.randn(1, 3, 5, 4, dtype=torch.float64), torch.randn(1, 3, 7, 4, dtype=torch.float64)
    score = _trained(scores.build(kind, 4, 4, 3, 3))
    rows, columns = torch.tensor([0, 0, 2, 4, 4, 4]), torch.tensor([1, 6, 3, 0, 1, 6])
    tensors = [query.requires_grad_(), key.requires_grad_(), *score.parameters()]
    listed = score.pairs(query[0, :, rows], key[0, :, columns])
    table = score(query, key)[0, :, rows, columns]
    torch.testing.assert_close(listed, table)
    gradient = torch.randn_like(table)
    for actual, expected in zip(
        torch.autograd.grad(listed, tensors, gradient), torch.autograd.grad(table, tensors, gradient), strict=True
    ):
        torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("kind", list(scores.SCORES))
def test_derivatives_by_differences(kind):
    score = _trained(scores.build(kind, 4, 4, 3, 3))
    query, key = torch.randn(2, 3, 2, 4, dtype=torch.float64), torch.randn(2, 3, 3, 4, dtype=torch.float64)
    names = [name for name, _ in score.named_parameters()]

    def function(query, key, *parameters):
        return torch.func.functional_call(score, dict(zip(names, parameters, strict=True)), (query, key))

    inputs = [tensor.detach().requires_grad_() for tensor in (query, key, *score.parameters())]
    assert torch.autograd.gradcheck(function, inputs)


def _trained(score: scores.Score) -> scores.Score:
    """In float64, with no parameter left at the round number it starts from."""
    score = score.double()
    with torch.no_grad():
        for parameter in score.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return score


def test_the_cosine_of_each_pair():
    score = Cosine(num_heads=3, scale=4.0).double()
    with torch.no_grad():
        score.log_scale[1:] = torch.tensor([0.5, 99.0])
    query, key = torch.randn(2, 3, 5, 11, dtype=torch.float64), 9 * torch.randn(2, 3, 7, 11, dtype=torch.float64)
    cosines = torch.cosine_similarity(query.unsqueeze(-2), key.unsqueeze(-3), dim=-1)
    # the third scale is cut
    expected = cosines * torch.tensor([4.0, math.exp(0.5), 100.0])[:, None, None]
    torch.testing.assert_close(score(query, key), expected)


def test_cosine_of_zeros_and_of_numbers_near_the_ends_of_the_range():
    score = Cosine(num_heads=1, scale=1.0)
    query = torch.tensor([[[[0.0, 0.0], [3e30, 4e30], [3e-30, 4e-30]]]], requires_grad=True)
    actual = score(query, torch.tensor([[[[0.0, 5.0], [0.0, 0.0]]]]))
    torch.testing.assert_close(actual, torch.tensor([[[[0.0, 0.0], [0.8, 0.0], [0.8, 0.0]]]]))
    actual.sum().backward()
    assert query.grad.isfinite().all()
    # at zero the gradient is that of the direction itself, not infinite
    assert query.grad[0, 0, 0].tolist() == [0.0, 1.0]


def test_a_scale_that_no_cosine_can_start_from():
    for scale in (0.0, 101.0):
        with pytest.raises(ConfigError, match=rf"scale \({scale}\) must lie above 0 and be at most the largest, 100.0"):
            Cosine(3, scale=scale)


def test_normalized_queries_and_keys_pair_by_pair():
    score = QKNorm(11).double()
    with torch.no_grad():
        score.query_gain.normal_()
        score.key_gain.normal_()
    query, key = torch.randn(1, 1, 5, 11, dtype=torch.float64), 9 * torch.randn(1, 1, 7, 11, dtype=torch.float64)
    actual = score(query, key)[0, 0]
    for i in range(5):
        for j in range(7):
            normed = [x / math.sqrt(float(x @ x) / 11 + 1e-6) for x in (query[0, 0, i], key[0, 0, j])]
            expected = (normed[0] * score.query_gain) @ (normed[1] * score.key_gain) / math.sqrt(11)
            torch.testing.assert_close(actual[i, j], expected)


def test_normalized_scores_do_not_grow_with_the_projections():
    query, key = torch.randn(2, 3, 5, 16), torch.randn(2, 3, 7, 16)
    for score in (QKNorm(16), Cosine(3)):
        torch.testing.assert_close(score(query, key), score(1e3 * query, 1e4 * key), rtol=0, atol=1e-4)


def test_a_soft_cap_bends_any_score():
    query, key = torch.randn(2, 3, 5, 4, dtype=torch.float64), torch.randn(2, 3, 7, 4, dtype=torch.float64)
    for inner in (Dot(), ScaledDot(), Additive(4, 4, 3).double()):
        expected = 2.5 * torch.tanh(inner(query, key) / 2.5)
        torch.testing.assert_close(SoftCap(inner, 2.5)(query, key), expected)
    # far below the cap nothing changes, far above all is cut
    torch.testing.assert_close(SoftCap(Dot(), 1e6)(query, key), Dot()(query, key))
    assert SoftCap(Dot(), 50.0)(1e6 * query, key).abs().max().item() == 50.0
    built = scores.build("soft_cap", 4, 4, 3, 3)
    assert isinstance(built.score, ScaledDot)
    assert (built.cap, built.pair_width(query)) == (50.0, 4)
    assert SoftCap(Additive(4, 4, 3), 1.0).pair_width(query) == 3
    assert repr(SoftCap(Dot(), 2.0)).startswith("SoftCap(\n  cap=2.0")
    with pytest.raises(ConfigError, match=r"cap \(0.0\) must lie above 0, such as 50.0"):
        SoftCap(Dot(), 0.0)


def test_a_soft_cap_checks_the_widths_of_its_score():
    query, key = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 7, 6)
    with pytest.raises(ShapeError, match=r"query_dim \(4\) and key_dim \(6\) differ"):
        attend(query, key, key, score=SoftCap(Dot(), 5.0))


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
    for score in (QKNorm(3), scores.GAT(3, 3), scores.GATv2(3, 3), scores.ActivationUnit(3)):
        message = rf"{type(score).__name__} was built for \(query_dim, key_dim\) = \(3, 3\), got \(4, 4\)"
        with pytest.raises(ShapeError, match=message):
            attend(query, query, query, score=score)


def test_scores_that_need_all_heads_at_once():
    """Those of which a part of the heads is another function."""
    built = {name: scores.build(name, 4, 4, 3, 3) for name in scores.SCORES}
    assert [name for name, score in built.items() if score.per_head()] == ["cosine", "gat", "gatv2"]
    assert SoftCap(Cosine(3), 5.0).per_head()
    for score in built.values():
        if not score.per_head():
            query, key = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 7, 4)
            torch.testing.assert_close(score(query, key)[:, 1:], score(query[:, 1:], key[:, 1:]))


def test_heads_that_differ_are_named():
    query = torch.randn(2, 3, 5, 4)
    for score in (Cosine(2), scores.GAT(2, 4), scores.GATv2(2, 4)):
        with pytest.raises(ShapeError, match=f"{type(score).__name__} was built for 2 heads, got 3"):
            attend(query, query, query, score=score)


def test_building_by_name():
    built = {name: type(scores.build(name, 4, 4, 3, 1)) for name in scores.SCORES}
    assert built == {name: kind for name, (kind, _) in scores.SCORES.items()}
    assert built["concat"] is Additive
    unequal = [name for name in scores.SCORES if name in ("bilinear", "additive", "concat")]
    for name in unequal:
        query, key = torch.randn(2, 1, 5, 4), torch.randn(2, 1, 7, 5)
        assert scores.build(name, 4, 5, 3, 1)(query, key).shape == (2, 1, 5, 7)
    for name in set(scores.SCORES) - set(unequal):
        with pytest.raises(ConfigError, match=f"score '{name}' needs equal widths, got query 4 and key 5; use 'bil"):
            scores.build(name, 4, 5, 3, 1)
    with pytest.raises(ConfigError, match="unknown score 'aditive'; did you mean 'additive'"):
        scores.build("aditive", 4, 4, 3, 1)
    assert list(scores.catalogue()) == list(scores.SCORES)
    assert all(scores.catalogue().values())

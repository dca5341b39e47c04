"""How alike a query and a key are."""

import math

import pytest
import torch
from devices import seeded
from torch import nn

from headwise.attention import attend, scores, weights
from headwise.attention.scores import Additive, Bilinear, Cosine, Dot, QKNorm, ScaledDot, Score, SoftCap, as_score
from headwise.errors import ConfigError, ShapeError, Unsupported

DOTS = ["dot", "scaled_dot", "distance", "bilinear", "cosine", "qk_norm"]


class Far(nn.Module):
    # a module that is no score of this package
    def __init__(self):
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(0.5))

    def forward(self, query, key):
        return -self.factor * (query.unsqueeze(-2) - key.unsqueeze(-3)).square().sum(-1)


class Doubled(Score):
    # a wrapper that hands on what it is asked
    def __init__(self, score):
        super().__init__()
        self.score = score

    def forward(self, query, key):
        return 2 * self.score(query, key)

    def is_dot(self):
        return self.score.is_dot()

    def as_dot(self, query, key):
        turned, other, scale = self.score.as_dot(query, key)
        return turned, other, 2 * scale


class ByHead(Score):
    # says its heads, and no more
    num_heads = 3

    def forward(self, query, key):
        return torch.tensor([1.0, 2.0, 3.0]).view(3, 1, 1) * (query @ key.mT)


MADE = {
    **{name: lambda name=name: scores.build(name, 4, 4, 3, 3) for name in scores.SCORES},
    "custom": lambda: scores.Custom(Far()),
    "soft_cap of additive": lambda: SoftCap(Additive(4, 4, 3), 2.0),
    "doubled dot": lambda: Doubled(ScaledDot()),
    "doubled additive": lambda: Doubled(Additive(4, 4, 3)),
}
every_score = pytest.mark.parametrize("kind", MADE)


def _made(kind):
    """In float64, with no parameter left at the round number it starts from."""
    score = MADE[kind]().double()
    with torch.no_grad():
        for parameter in score.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return score


def _tensors(query_dim=4, key_dim=4):
    return torch.randn(2, 3, 5, query_dim, dtype=torch.float64), torch.randn(2, 3, 7, key_dim, dtype=torch.float64)


def test_dot_products_are_sums_of_products_for_each_pair():
    query, key = _tensors(11, 11)
    expected = torch.einsum("bhqd,bhkd->bhqk", query, key)
    torch.testing.assert_close(Dot()(query, key), expected)
    torch.testing.assert_close(Dot(-0.3)(query, key), -0.3 * expected)
    torch.testing.assert_close(ScaledDot()(query, key), expected / math.sqrt(11))
    query, key = _tensors(3, 6)
    score = Bilinear(3, 6).double()
    torch.testing.assert_close(score(query, key), torch.einsum("bhqd,de,bhke->bhqk", query, score.weight, key))


def test_a_distance_is_the_square_of_the_difference():
    query, key = _tensors(11, 11)
    expected = -torch.cdist(query, key).square() / (2 * math.sqrt(11))
    torch.testing.assert_close(scores.Distance()(query, key), expected)
    # a key is nearest to itself, however long another is
    assert (scores.Distance()(key, 9 * key).argmax(-1) != scores.ScaledDot()(key, 9 * key).argmax(-1)).any()
    assert (scores.Distance()(key, key).argmax(-1) == torch.arange(7)).all()


def test_the_variance_of_a_dot_product_is_the_width_until_it_is_scaled():
    generator = seeded(0)
    for width in (4, 64, 1024):
        query, key = (torch.randn(1, 1, n, width, generator=generator) for n in (251, 257))
        assert Dot()(query, key).var().item() / width == pytest.approx(1.0, abs=0.12)
        assert ScaledDot()(query, key).var().item() == pytest.approx(1.0, abs=0.12)


def test_the_additive_score_pair_by_pair():
    score = Additive(3, 5, 4).double()
    query, key = _tensors(3, 5)
    actual = score(query, key)
    for i, j in torch.cartesian_prod(torch.arange(5), torch.arange(7)).tolist():
        hidden = torch.tanh(score.query.weight @ query[1, 2, i] + score.key.weight @ key[1, 2, j])
        torch.testing.assert_close(actual[1, 2, i, j], score.value.weight[0] @ hidden)


def test_concatenating_query_and_key_is_the_same_function_as_summing():
    """v . tanh(W [q; k]) with W = [W_q W_k] equals v . tanh(W_q q + W_k k)."""
    weight, value = torch.randn(4, 8, dtype=torch.float64), torch.randn(4, dtype=torch.float64)
    query, key = _tensors(3, 5)
    score = Additive.from_concatenation(weight, value, query_dim=3)
    both = torch.cat((query.unsqueeze(3).expand(-1, -1, -1, 7, -1), key.unsqueeze(2).expand(-1, -1, 5, -1, -1)), -1)
    torch.testing.assert_close(score(query, key), torch.tanh(both @ weight.T) @ value)
    for query_dim in (0, 8):
        message = rf"query_dim \({query_dim}\) must lie between 1 and 7, the columns of the weight less one"
        with pytest.raises(ShapeError, match=message):
            Additive.from_concatenation(weight, value, query_dim)


def test_adapters_of_the_projections_take_part():
    """The linears of a score are called as modules, so that what replaces or hooks them is not passed by."""
    score, (query, key) = Additive(4, 4, 3).double(), _tensors()
    plain = score(query, key)
    for linear in (score.query, score.key):
        handle = linear.register_forward_hook(lambda module, inputs, output: output + 1)
        assert (score(query, key) - plain).abs().max() > 1e-3
        handle.remove()


@every_score
def test_a_dot_product_is_offered_where_the_score_is_one(kind):
    score, (query, key) = _made(kind), _tensors()
    assert score.is_dot() == (kind in [*DOTS, "doubled dot"])
    if not score.is_dot():
        with pytest.raises(Unsupported, match=r"is no dot product; ask `is_dot` first"):
            score.as_dot(query, key)
        return
    turned, other, scale = score.as_dot(query, key)
    torch.testing.assert_close(scale * (turned @ other.mT), score(query, key))
    # keys of grouped queries keep their heads
    assert score.as_dot(query, key[:, :1])[1].shape[:3] == (2, 1, 7)


@every_score
def test_listed_pairs_have_the_scores_and_gradients_of_the_table(kind):
    score, (query, key) = _made(kind), _tensors()
    rows, columns = torch.tensor([0, 0, 2, 4, 4, 4]), torch.tensor([1, 6, 3, 0, 1, 6])
    tensors = [query.requires_grad_(), key.requires_grad_(), *score.parameters()]
    listed = score.pairs(query[:, :, rows], key[:, :, columns])
    table = score(query, key)[:, :, rows, columns]
    torch.testing.assert_close(listed, table)
    gradient = torch.randn_like(table)
    ours, theirs = (torch.autograd.grad(scores, tensors, gradient) for scores in (listed, table))
    for actual, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(actual, expected)
    assert score.pairs(query[:, :, :0], key[:, :, :0]).shape == (2, 3, 0)


@every_score
def test_derivatives_by_differences_and_under_vmap(kind):
    score, (query, key) = _made(kind), _tensors()
    names = [name for name, _ in score.named_parameters()]

    def function(query, key, *parameters):
        return torch.func.functional_call(score, dict(zip(names, parameters, strict=True)), (query, key))

    parameters = [parameter.detach().requires_grad_() for parameter in score.parameters()]
    inputs = [query[:, :, :2].requires_grad_(), key[:, :, :3].requires_grad_(), *parameters]
    assert torch.autograd.gradcheck(function, inputs, fast_mode=True)
    stacked = torch.stack((query, 2 * query)), torch.stack((key, key + 1))
    at_once = torch.vmap(function, in_dims=(0, 0, *[None] * len(parameters)))(*stacked, *parameters)
    torch.testing.assert_close(at_once[1], score(2 * query, key + 1))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@every_score
def test_every_score_runs_in_half_precision(kind, dtype):
    """Scores are float32, as queries and keys come from kernels, whatever the parameters are."""
    score = MADE[kind]().to(dtype)
    query, key = (x.to(dtype).float() for x in _tensors())
    actual = score(query, key)
    assert actual.dtype == torch.float32
    torch.testing.assert_close(actual, score.float()(query, key), rtol=0, atol=2e-2)


def test_the_cosine_of_each_pair():
    score = Cosine(num_heads=3, scale=4.0).double()
    with torch.no_grad():
        score.log_scale[1:] = torch.tensor([0.5, 99.0])
    query, key = _tensors(11, 11)
    cosines = torch.cosine_similarity(query.unsqueeze(-2), 9 * key.unsqueeze(-3), dim=-1)
    # the third scale is cut
    expected = cosines * torch.tensor([4.0, math.exp(0.5), 100.0])[:, None, None]
    torch.testing.assert_close(score(query, key), expected)
    for scale in (0.0, 101.0):
        with pytest.raises(ConfigError, match=rf"scale \({scale}\) must lie above 0 and be at most the largest, 100.0"):
            Cosine(3, scale=scale)


def test_cosine_of_zeros_and_of_numbers_near_the_ends_of_the_range():
    score = Cosine(num_heads=1, scale=1.0)
    query = torch.tensor([[[[0.0, 0.0], [3e30, 4e30], [3e-30, 4e-30]]]], requires_grad=True)
    actual = score(query, torch.tensor([[[[0.0, 5.0], [0.0, 0.0]]]]))
    torch.testing.assert_close(actual, torch.tensor([[[[0.0, 0.0], [0.8, 0.0], [0.8, 0.0]]]]))
    actual.sum().backward()
    assert query.grad.isfinite().all()
    # at zero the gradient is that of the direction itself, not infinite
    assert query.grad[0, 0, 0].tolist() == [0.0, 1.0]


def test_normalized_queries_and_keys_pair_by_pair():
    score = QKNorm(11).double()
    with torch.no_grad():
        score.query_gain.normal_()
        score.key_gain.normal_()
    query, key = _tensors(11, 11)
    actual = score(query, 9 * key)
    for i, j in torch.cartesian_prod(torch.arange(5), torch.arange(7)).tolist():
        normed = [x / math.sqrt(float(x @ x) / 11 + 1e-6) for x in (query[1, 2, i], 9 * key[1, 2, j])]
        expected = (normed[0] * score.query_gain) @ (normed[1] * score.key_gain) / math.sqrt(11)
        torch.testing.assert_close(actual[1, 2, i, j], expected)


def test_a_soft_cap_bends_any_score():
    query, key = _tensors()
    for inner in (Dot(), ScaledDot(), Additive(4, 4, 3).double()):
        expected = 2.5 * torch.tanh(inner(query, key) / 2.5)
        torch.testing.assert_close(SoftCap(inner, 2.5)(query, key), expected)
    # far above the cap all is cut
    assert SoftCap(Dot(), 50.0)(1e6 * query, key).abs().max().item() == 50.0
    assert SoftCap(Additive(4, 4, 3), 1.0).pair_width(query) == 3


@pytest.mark.usefixtures("untyped")
def test_options_that_are_not_allowed():
    for number in (math.inf, math.nan):
        with pytest.raises(ConfigError, match=rf"cap \({number}\) must lie above 0, such as 50.0"):
            SoftCap(Dot(), number)
        with pytest.raises(ConfigError, match=rf"scale \({number}\) of a dot product must be finite, such as 0.125"):
            Dot(number)
    with pytest.raises(ConfigError, match=r"SoftCap bends a score such as ScaledDot\(\), got <class"):
        SoftCap(Dot, 50.0)


def test_widths_and_heads_that_differ_are_named():
    query, key = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 7, 6)
    message = r"query_dim \(4\) and key_dim \(6\) differ: a dot product needs equal widths; use Bilinear or Additive"
    for score in ("dot", "scaled_dot", SoftCap(Dot(), 5.0)):
        with pytest.raises(ShapeError, match=message):
            attend(query, key, key, score=score)
    for score, built in ((Bilinear(5, 6), (5, 6)), (Additive(4, 3, 2), (4, 3)), (QKNorm(3), (3, 3))):
        with pytest.raises(ShapeError) as caught:
            attend(query, key, key, score=score)
        message = f"{type(score).__name__} was built for (query_dim, key_dim) {built}, got (4, 6)"
        assert message in str(caught.value)
    for score in (Cosine(2), scores.GAT(2, 4), scores.GATv2(2, 4)):
        with pytest.raises(ShapeError, match=f"{type(score).__name__} was built for heads 2, got 3"):
            attend(query, query, query, score=score)


def test_scores_that_need_all_heads_at_once():
    """Those of which a part of the heads is another function, or may be."""
    built = {name: make() for name, make in MADE.items()}
    assert [name for name, score in built.items() if score.per_head()] == ["cosine", "gat", "gatv2", "custom"]
    assert SoftCap(Cosine(3), 5.0).per_head()
    query, key = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 7, 4)
    whole, part = (weights(query, key, score=ByHead(), heads=heads) for heads in (None, [1]))
    torch.testing.assert_close(part, whole[:, 1:2])
    for score in built.values():
        if not score.per_head():
            torch.testing.assert_close(score(query, key)[:, 1:], score(query[:, 1:], key[:, 1:]))


def test_building_by_name():
    built = {name: type(scores.build(name, 4, 4, 3, 1)) for name in scores.SCORES}
    assert built == scores.SCORES
    unequal = ("bilinear", "additive", "concat")
    for name in unequal:
        assert scores.build(name, 4, 5, 3, 1).double()(*_tensors(4, 5)).shape == (2, 3, 5, 7)
    for name in set(scores.SCORES) - set(unequal):
        with pytest.raises(ConfigError, match=f"score '{name}' needs equal widths, got query 4 and key 5; use 'bil"):
            scores.build(name, 4, 5, 3, 1)
    with pytest.raises(ConfigError, match="unknown score 'aditive'; did you mean 'additive'"):
        scores.build("aditive", 4, 4, 3, 1)
    assert list(scores.catalogue()) == list(scores.SCORES)
    assert all(scores.catalogue().values())


def test_names_objects_functions_and_modules_are_scores():
    (query, key), own = _tensors(), ScaledDot()
    assert as_score(own) is own
    assert [type(as_score(name)) for name in ("dot", "scaled_dot", "soft_cap")] == [Dot, ScaledDot, SoftCap]
    torch.testing.assert_close(as_score(lambda q, k: q @ k.mT)(query, key), Dot()(query, key))
    custom = as_score(Far())
    torch.testing.assert_close(custom(query, key).double(), -0.5 * torch.cdist(query, key).square())
    assert [name for name, _ in custom.named_parameters()] == ["function.factor"]
    custom.check(3, 4)


@pytest.mark.usefixtures("untyped")
def test_what_is_no_score_is_refused():
    with pytest.raises(ConfigError, match=r"score is the class Dot; pass an instance, Dot\(\)"):
        as_score(Dot)
    with pytest.raises(ConfigError, match=r"score must be a name, a module or a function \(query, key\) -> scores, go"):
        as_score(3)
    with pytest.raises(ConfigError, match="score 'additive' has parameters; pass a module"):
        as_score("additive")
    with pytest.raises(ConfigError, match="unknown score 'dott'; did you mean 'dot'"):
        as_score("dott")
    with pytest.raises(
        ShapeError, match=r"score '<lambda>' must return \(2, 3, 5, 7\) torch.float64, got \(2, 3, 5, 5\)"
    ):
        as_score(lambda q, k: q @ q.mT)(*_tensors())
    with pytest.raises(ShapeError, match="score '<lambda>' must return a tensor, got float"):
        as_score(lambda q, k: 1.0)(*_tensors())


class Narrow(Score):
    """Forgets the last key."""

    def forward(self, query, key):
        return query @ key.mT[..., :-1]


@pytest.mark.parametrize("kernel", ["auto", "plain", "strips"])
def test_scores_of_a_wrong_shape_are_refused_by_name(kernel):
    x = torch.randn(2, 3, 5, 4)
    message = r"score Narrow must return \(batch, heads, query_len, key_len\) = \(2, 3, 5, 5\), got \(2, 3, 5, 4\)"
    with pytest.raises(ShapeError, match=message):
        attend(x, x, x, score=Narrow(), kernel=kernel)

"""Scores to weights: golden values, loops as the oracle, what a mask hides, derivatives, transforms, messages."""

import math

import numpy as np
import pytest
import torch
from attention_reference import ROWS
from devices import DEVICE, not_simulated
from torch import nn

from headwise.attention import normalizers
from headwise.attention.normalizers import NORMALIZERS, Function, Sinks, Softmax, Tempered, softmax
from headwise.errors import ConfigError, ShapeError

NAN, INF = float("nan"), float("inf")
NAMES = [*normalizers.NORMALIZERS, "sigmoid:-1.5", "entmax:1.3", "entmax:2.5", "top_k:3", "scalable:0.43"]
every_normalizer = pytest.mark.parametrize("name", NAMES)
HIDES = torch.tensor([[[[False] * 3, [True, True, False], [True, False, True]]]])


def _row(normalizer, scores, keep=None):
    keep = None if keep is None else torch.tensor([[[keep]]])
    return normalizer(torch.tensor([[[scores]]]), keep).flatten().tolist()


def test_zero_scores_under_lengths():
    """Lengths [[1, 3], [2, 4]] of four keys for two queries of two sequences."""
    keep = torch.arange(4) < torch.tensor([[1, 3], [2, 4]])[:, None, :, None]
    third = 1 / 3
    expected = torch.tensor([[[1, 0, 0, 0], [third, third, third, 0]], [[0.5, 0.5, 0, 0], [0.25] * 4]])
    torch.testing.assert_close(softmax(torch.zeros(2, 1, 2, 4), keep)[:, 0], expected)


def test_golden_rows():
    keep = [True, True, True, False]
    powers = [math.exp(score) for score in (0.3, -1.2, 2.0)]
    assert _row(softmax, [0.3, -1.2, 2.0]) == pytest.approx([power / sum(powers) for power in powers], rel=1e-6)
    assert _row(normalizers.build("relu"), [2.0, -1.0, 3.0, 9.0], keep) == pytest.approx([2 / 3, 0, 1, 0])
    assert _row(normalizers.build("relu"), [2.0, -1.0, 3.0, 9.0]) == pytest.approx([0.5, 0, 0.75, 2.25])
    assert _row(normalizers.build("relu2"), [2.0, -1.0, 3.0, 9.0], keep) == pytest.approx([4 / 3, 0, 3, 0])
    assert _row(normalizers.build("relu2"), [2.0, -1.0, 3.0, 9.0]) == pytest.approx([1, 0, 2.25, 20.25])
    expected = [1 / (1 + 3 * math.exp(-score)) for score in (2.0, -1.0, 3.0)]
    assert _row(normalizers.build("sigmoid"), [2.0, -1.0, 3.0, 9.0], keep) == pytest.approx([*expected, 0.0])
    expected = [1 / (1 + math.exp(3.5 - score)) for score in (2.0, -1.0)]
    assert _row(normalizers.build("sigmoid:-3.5"), [2.0, -1.0]) == pytest.approx(expected)
    # as published: n is one length for all rows, whatever they see
    published = normalizers.build("sigmoid:length=512")
    expected = [1 / (1 + 512 * math.exp(-2.0)), 1 / (1 + 512 * math.exp(1.0))]
    assert _row(published, [2.0, -1.0, 3.0], [True, True, False]) == pytest.approx([*expected, 0.0])
    assert published.name == f"sigmoid:{-math.log(512)}"


def test_softmax1_can_attend_to_nothing():
    """Four scores x give exp(x) / (1 + 4 exp(x)): nothing at -1000, a quarter at 1000, without overflow."""
    for score, weight in ((-1000.0, 0.0), (0.0, 0.2), (2.0, math.exp(2) / (1 + 4 * math.exp(2))), (1000.0, 0.25)):
        assert _row(normalizers.build("softmax1"), [score] * 4) == pytest.approx([weight] * 4)


def test_the_scalable_temperature_keeps_one_weight_as_rows_grow():
    """One score of 2 among zeros: n^(s 2) / (n^(s 2) + n - 1) with s = 0.5 stays above a half; softmax falls to 0."""
    # in float32 a sum of 10,000 exponentials rounds by its own order on every processor
    for n in (2, 10, 10000):
        scores = [2.0] + [0.0] * (n - 1)
        assert _row(normalizers.build("scalable:0.5"), scores)[0] == pytest.approx(n / (2 * n - 1), rel=1e-4)
        assert _row(softmax, scores)[0] == pytest.approx(math.exp(2) / (math.exp(2) + n - 1), rel=1e-4)


def test_a_sink_takes_weight_from_every_row():
    """Softmax over the scores and the logit of the head, as a loop; the gradient of the logit too."""
    sinks = Sinks(3).double()
    scores, keep = _scores_and_keep()
    torch.testing.assert_close(sinks(scores, keep), normalizers.build("softmax1")(scores, keep))
    with torch.no_grad():
        sinks.logits.copy_(torch.tensor([-1.0, 0.5, 4.0]))
    weights = sinks(scores, keep)
    for b, h, i in np.ndindex(2, 3, 5):
        powers = torch.where(keep[b, h, i], scores[b, h, i].exp(), 0.0)
        torch.testing.assert_close(weights[b, h, i], powers / (powers.sum() + sinks.logits[h].exp()))
    assert sinks.per_head()

    def function(logits, scores):
        return torch.func.functional_call(sinks, {"logits": logits}, (scores, keep))

    assert torch.autograd.gradcheck(function, (sinks.logits, scores.requires_grad_()), fast_mode=True)
    with pytest.raises(ShapeError, match="Sinks was built for 3 heads, got 1"):
        sinks(scores[:, :1], None)


@every_normalizer
def test_what_is_hidden_stays_hidden(name):
    """NaN and infinity under the mask reach neither weight nor gradient; a row without a key is zero, as is its own."""
    scores = torch.tensor([[[[1.0, NAN, INF], [1.0, 2.0, NAN], [0.5, -INF, 0.1]]]], requires_grad=True)
    before = scores.detach().clone()
    weights = normalizers.build(name)(scores, HIDES)
    assert not weights[~HIDES].any()
    weights.square().sum().backward()
    assert not scores.grad[~HIDES].any()
    assert scores.grad.isfinite().all()
    torch.testing.assert_close(scores.detach(), before, rtol=0, atol=0, equal_nan=True)


def test_softmax_of_a_row_that_a_bias_forbids():
    scores = torch.tensor([[[[-INF, -INF], [0.0, -INF]]]], requires_grad=True)
    weights = softmax(scores, scores > -INF)
    weights.sum().backward()
    assert weights.flatten().tolist() == [0, 0, 1, 0]
    assert not scores.grad.any()
    # an allowed score may be lower than any number that could stand for "hidden"
    assert _row(softmax, [-1e30, 0.0], [True, False]) == [1.0, 0.0]
    assert _row(softmax, [-1e30, -1e30], [False, False]) == [0.0, 0.0]


@every_normalizer
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-12), (torch.float32, 1e-5)], ids=str)
def test_weights_and_gradients_of_rows_are_those_of_the_loops(name, dtype, bound):
    scores, keep = _scores_and_keep()
    scores = scores.to(dtype).requires_grad_()
    weights = normalizers.build(name)(scores, keep)
    d_weights = torch.randn(weights.shape, dtype=dtype)
    weights.backward(d_weights)
    family, _, option = name.partition(":")
    for index in np.ndindex(*scores.shape[:-1]):
        seen = keep[index]
        expected, gradient = torch.zeros(7, dtype=torch.float64), torch.zeros(7, dtype=torch.float64)
        if seen.any():
            row, jacobian = ROWS[family](scores[index][seen].tolist(), float(option) if option else None)
            expected[seen] = torch.tensor(row)
            gradient[seen] = torch.tensor(jacobian).mT @ d_weights[index][seen].double()
        torch.testing.assert_close(weights[index].double(), expected, rtol=bound, atol=bound)
        torch.testing.assert_close(scores.grad[index].double(), gradient, rtol=10 * bound, atol=10 * bound)


def _scores_and_keep() -> tuple[torch.Tensor, torch.Tensor]:
    """Scores of several sizes; some rows have no key, one, and all."""
    sizes = torch.tensor([0.1, 1.0, 4.0, 1.0, 1.0])
    scores = torch.randn(2, 3, 5, 7, dtype=torch.float64) * sizes[:, None]
    keep = torch.rand(2, 3, 5, 7) < 0.6
    keep[0, 1], keep[1, 1] = False, True
    keep[1, 2] = torch.arange(7) == 3
    return scores, keep


@every_normalizer
def test_no_keys_give_no_weights(name):
    for keep in (None, torch.zeros(1, 1, 1, 0, dtype=torch.bool)):
        assert normalizers.build(name)(torch.zeros(2, 3, 5, 0), keep).shape == (2, 3, 5, 0)


# of PyTorch itself, the first time that it differentiates forward
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
@pytest.mark.parametrize("name", [name for name in NAMES if name != "hard"])
def test_derivatives_by_differences(name):
    """All but the hard choice, whose gradient is meant to differ; second and forward-mode derivatives too."""
    scores, keep = _scores_and_keep()
    keep, scores = keep[1:, 1:, :2], scores[1:, 1:, :2].requires_grad_()
    normalizer = normalizers.build(name)
    assert torch.autograd.gradcheck(
        lambda x: normalizer(x, keep), scores, check_forward_ad=DEVICE != "sim", fast_mode=True
    )
    assert torch.autograd.gradgradcheck(lambda x: normalizer(x, keep), scores, fast_mode=True)


def test_ties_go_to_the_first_keys():
    scores, keep = [1.0, 3.0, 3.0, 2.0, 3.0, 3.0], [True, False, True, True, True, True]
    assert _row(normalizers.build("hard"), scores) == [0, 1, 0, 0, 0, 0]
    assert _row(normalizers.build("hard"), scores, keep) == [0, 0, 1, 0, 0, 0]
    assert _row(normalizers.build("top_k:2"), scores) == [0, 0.5, 0.5, 0, 0, 0]
    assert _row(normalizers.build("top_k:2"), scores, keep) == [0, 0, 0.5, 0, 0.5, 0]
    for k in (8, 10**10):
        # no more memory than for as many as there are
        assert _row(normalizers.build(f"top_k:{k}"), scores, keep) == pytest.approx(_row(softmax, scores, keep))


def test_the_hard_choice_is_exact_and_learns_as_softmax():
    scores = torch.randn(2, 3, 5, 7, requires_grad=True)
    weights = normalizers.build("hard")(scores, None)
    assert set(weights.unique().tolist()) == {0.0, 1.0}
    assert torch.equal(weights.argmax(-1), scores.argmax(-1))
    d_weights = torch.randn(2, 3, 5, 7)
    actual = torch.autograd.grad(weights, scores, d_weights)[0]
    torch.testing.assert_close(actual, torch.autograd.grad(softmax(scores, None), scores, d_weights)[0])


def test_a_function_is_a_normalizer_and_cannot_leak():
    def careless(scores, keep):
        # gives NaN in a row without a key, and uniform weights to what is hidden
        hidden = scores if keep is None else scores.masked_fill(~keep, -INF)
        return hidden.softmax(-1) + (0.0 if keep is None else (~keep) * 1.0)

    normalizer = normalizers.build(careless)
    assert (normalizer.name, normalizer.per_head()) == ("careless", True)
    scores = torch.tensor([[[[1.0, NAN, INF], [1.0, 2.0, NAN]]]], requires_grad=True)
    weights = normalizer(scores, HIDES[:, :, :2])
    torch.testing.assert_close(weights, softmax(scores, HIDES[:, :, :2]))
    weights.square().sum().backward()
    assert scores.grad.isfinite().all()
    assert not scores.grad[~HIDES[:, :, :2]].any()


class Sharpened(nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(2.0))

    def forward(self, scores, keep):
        return softmax(self.factor * scores, keep)


def test_the_parameters_of_a_module_learn():
    normalizer = normalizers.build(Sharpened())
    assert [name for name, _ in normalizer.named_parameters()] == ["function.factor"]
    assert normalizer.name == "Sharpened"
    scores = torch.randn(2, 3, 5, 7)
    torch.testing.assert_close(normalizer(scores, None), softmax(2 * scores, None))
    normalizer(scores, None)[..., 0].sum().backward()
    assert normalizer.function.factor.grad.abs() > 0
    assert normalizers.build(softmax) is softmax


WRONG = {
    "keys": (lambda scores, keep: scores[..., 1:], r"must return \(2, 3, 5, 7\) torch.float32, got \(2, 3, 5, 6\)"),
    "type": (lambda scores, keep: scores.double(), r"got \(2, 3, 5, 7\) torch.float64"),
    "bool": (lambda scores, keep: scores > 0, r"got \(2, 3, 5, 7\) torch.bool"),
    "none": (lambda scores, keep: None, "normalizer '<lambda>' must return a tensor, got NoneType"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_function_that_returns_something_else_is_refused(case):
    with pytest.raises(ShapeError, match=WRONG[case][1]):
        normalizers.build(WRONG[case][0])(torch.randn(2, 3, 5, 7), None)


@not_simulated("it has no autocast")
def test_autocast_may_narrow_what_a_module_returns():
    linear = nn.Linear(7, 7)
    normalizer = Function(lambda scores, keep: linear(scores))
    with torch.autocast(DEVICE):
        assert normalizer(torch.randn(2, 3, 5, 7), None).dtype == torch.float32


@pytest.mark.usefixtures("untyped")
def test_what_is_no_normalizer_is_refused():
    with pytest.raises(ConfigError, match=r"normalizer is the class Softmax; pass an instance, Softmax\(\)"):
        normalizers.build(Softmax)
    with pytest.raises(ConfigError, match=r"normalizer must be a name, a module or a function \(scores, keep\) -> wei"):
        normalizers.build(3)


@pytest.mark.parametrize("name", [*NAMES, "sinks", "function"])
def test_under_vmap_of_a_gradient(name):
    """The other transforms are in test_transforms.py."""
    normalizer = Function(Sharpened()) if name == "function" else normalizers.build(name, num_heads=3)
    scores, keep = torch.randn(2, 1, 3, 5, 7), torch.rand(2, 1, 1, 5, 7) < 0.6

    def loss(scores, keep, parameters):
        return torch.func.functional_call(normalizer, parameters, (scores, keep)).square().sum()

    parameters = dict(normalizer.named_parameters())
    at_once = torch.vmap(torch.func.grad(loss, argnums=(0, 2)), in_dims=(0, 0, None))(scores, keep, parameters)
    for i in range(2):
        one = scores[i].requires_grad_()
        inputs = [one, *parameters.values()]
        expected = torch.autograd.grad(normalizer(one, keep[i]).square().sum(), inputs)
        for gradient, wanted in zip((at_once[0], *at_once[1].values()), expected, strict=True):
            torch.testing.assert_close(gradient[i], wanted)


def test_names():
    plain = ["softmax", "softmax1", "relu", "relu2", "sigmoid", "identity", "sparsemax", "entmax15", "hard"]
    assert list(normalizers.NORMALIZERS) == plain
    assert list(normalizers.catalogue()) == [*plain, "sinks", "entmax", "top_k", "scalable"]
    assert all(normalizers.catalogue().values())
    assert normalizers.build("relu") is NORMALIZERS["relu"]
    assert [normalizers.build(name).name for name in NAMES] == NAMES
    assert isinstance(normalizers.build("sinks", num_heads=3), Sinks)
    assert repr(normalizers.build("top_k:3")) == "TopK(top_k:3)"


REFUSED = {
    "sofmax": "unknown normalizer 'sofmax'; did you mean 'softmax'",
    "topk:3": "unknown normalizer 'topk'; did you mean 'top_k'",
    "sinks": r"normalizer 'sinks' has a parameter for each head; pass an object: Sinks\(num_heads\)",
    "sinks:3": "normalizer 'sinks' has no arguments, got '3'",
    "softmax:2": "normalizer 'softmax' has no arguments, got '2'",
    "entmax": "normalizer 'entmax' needs alpha",
    "entmax:low": "alpha of normalizer 'entmax' must be float, not 'low'",
    "entmax:1": r"alpha \(1.0\) of normalizer 'entmax' must lie above 1 and below 10, such as entmax:1.3; alpha 1",
    "entmax:nan": "alpha of normalizer 'entmax' must be float, not 'nan'",
    "top_k:2.5": "k of normalizer 'top_k' must be int, not '2.5'",
    "top_k:0": r"k \(0\) of normalizer 'top_k' must be at least 1, such as top_k:8",
    "scalable": "normalizer 'scalable' needs scale",
    "scalable:inf": "scale of normalizer 'scalable' must be float, not 'inf'",
    "sigmoid:length=0": r"takes a length of 1 or more \(0\) or a bias \(None\), not both",
    "sigmoid:bias=1.0,length=8": r"takes a length of 1 or more \(8\) or a bias \(1.0\), not both",
    "sigmoid:inf": "bias of normalizer 'sigmoid' must be .*, not 'inf'",
}


@pytest.mark.parametrize("name", REFUSED)
def test_names_that_are_not_allowed(name):
    with pytest.raises(ConfigError, match=REFUSED[name]):
        normalizers.build(name)


def test_a_temperature_divides_the_scores():
    scores, keep = torch.randn(2, 3, 5, 7), torch.rand(2, 3, 5, 7) > 0.3
    found = Tempered(normalizers.build("sparsemax"), 2.5)
    assert torch.equal(found(scores, keep), NORMALIZERS["sparsemax"](scores / 2.5, keep))
    assert (found.name, found.per_head()) == ("sparsemax at temperature 2.5", False)
    with pytest.raises(ConfigError, match=r"temperature \(0.0\) must be at least 1e-6"):
        Tempered(softmax, 0.0)

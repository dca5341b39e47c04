"""Linear attention: its parallel, chunked and recurrent forms are its definition, for every feature map."""

import warnings

import linear_reference as reference
import pytest
import torch
from linear_reference import CAUSAL_CASES, OPEN_CASES

from headwise.attention import mechanisms
from headwise.attention.masks import Causal, Padding
from headwise.attention.mechanisms.linear import Elu, FeatureMap, Hedgehog, Linear, Rectified
from headwise.errors import ShapeError

MAPS = [lambda: None, lambda: Rectified(5, 11), lambda: Hedgehog(5)]
NAMES = ["elu", "rectified", "hedgehog"]
every_map = pytest.mark.parametrize("features", MAPS, ids=NAMES)


def definition(mechanism: Linear):
    def weights(query, key, allowed, start):
        products = reference.by_pairs(mechanism.features(query), mechanism.features(key), allowed, start)
        return reference.normalised(products)

    return weights


@every_map
@pytest.mark.parametrize("case", CAUSAL_CASES + OPEN_CASES)
def test_it_is_its_definition(features, case):
    mechanism = Linear(features())
    reference.check_definition(mechanism, definition(mechanism), case)


@every_map
@pytest.mark.parametrize(("length", "cuts"), [(7, [1, 2, 3, 4, 5, 6]), (131, [1, 2, 65, 66, 130]), (3, [])])
def test_step_by_step_is_all_at_once(features, length, cuts):
    reference.check_steps(Linear(features()), length, cuts)


@pytest.mark.parametrize("length", [1, 2, 63, 64, 65, 127, 128, 129, 200])
def test_chunks_are_the_recurrence(length):
    query, key, value = reference.drawn(3, 3, length, length, 5)
    phi = [torch.where(x > 0, x + 1, x.exp()) for x in (query, key)]
    counted = torch.cat((value, torch.ones_like(value[..., :1])), -1)
    sums = reference.by_positions(*phi, counted, torch.ones_like(key))
    expected = sums[..., :-1] / sums[..., -1:]
    actual = Linear()(query, key, value, mask=Causal())
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)
    gradient = torch.randn_like(actual)
    inputs = (query, key, value)
    for one, two in zip(
        torch.autograd.grad(actual, inputs, gradient), torch.autograd.grad(expected, inputs, gradient), strict=True
    ):
        torch.testing.assert_close(one, two, rtol=0, atol=1e-11)


def test_gradients_of_gradients():
    tensors = reference.drawn(2, 1, 4, 4, 3)
    mask = Causal() & Padding(torch.tensor([0, 3]))
    function = lambda *tensors: Linear()(*tensors, mask=mask)  # noqa: E731
    assert torch.autograd.gradcheck(function, tensors, fast_mode=True)
    assert torch.autograd.gradgradcheck(function, tensors, fast_mode=True)


def test_no_digits_are_lost_over_4096_positions():
    query, key, value = (torch.randn(1, 2, 4096, 16) for _ in range(3))
    actual = Linear()(query, key, value, mask=Causal())
    expected = Linear()(query.double(), key.double(), value.double(), mask=Causal())
    torch.testing.assert_close(actual.double(), expected, rtol=0, atol=5e-6)
    half = Linear()(query.bfloat16(), key.bfloat16(), value.bfloat16(), mask=Causal())
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.double(), expected, rtol=0, atol=2e-2)


def test_sums_stay_wide_under_autocast():
    query, key, value = (torch.randn(1, 2, 300, 8) for _ in range(3))
    with torch.autocast("cpu", torch.bfloat16):
        inside = Linear()(query, key, value, mask=Causal())
        stepped, (sums,) = Linear().resume(query, key, value, None)
    assert torch.equal(inside, Linear()(query, key, value, mask=Causal()))
    assert torch.equal(inside, stepped)
    assert sums.dtype == torch.float32


@every_map
@pytest.mark.parametrize(
    "mask", [Padding(torch.tensor([4, 7])), Causal() & Padding(torch.tensor([4, 7]))], ids=["padding", "both"]
)
def test_nan_in_padding_stays_there(features, mask):
    reference.check_hidden_stay_hidden(Linear(features()), mask)


@pytest.mark.parametrize("causal", [True, False])
def test_rows_without_a_key_are_zero_with_zero_gradient(causal):
    query, key, value = reference.drawn(6, 3, 5, 5, 5)
    mask = Padding(torch.tensor([0, 5]))
    output = Linear()(query, key, value, mask=Causal() & mask if causal else mask)
    assert not output[0].any()
    output.sum().backward()
    for tensor in (query, key, value):
        assert not tensor.grad[0].any()
        assert torch.isfinite(tensor.grad).all()


def test_a_query_that_all_features_ignore_is_zero():
    mechanism = Linear(Rectified(5, 11))
    query, key, value = (x.float().detach().requires_grad_() for x in reference.drawn(2, 2, 4, 4, 5))
    torch.nn.init.constant_(mechanism.features.linear.bias, -1e6)
    output = mechanism(query, key, value, mask=Causal())
    assert not output.any()
    output.sum().backward()
    assert not query.grad.any()
    assert not value.grad.any()


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("far", [-50.0, -90.0, -200.0, 1e8])
def test_far_features_give_numbers(far, side):
    """Features of exp(-50) have lost no digit; those that are nearly no numbers count as no weight, the row is zero."""
    tensors = [torch.randn(1, 1, 3, 4) for _ in range(2)] + [torch.randn(1, 1, 3, 2)]
    tensors[side] = torch.full((1, 1, 3, 4), far)
    for tensor in tensors:
        tensor.requires_grad_()
    wide = [tensor.detach().double().requires_grad_() for tensor in tensors]
    output, expected = Linear()(*tensors, mask=Causal()), Linear()(*wide, mask=Causal())
    output.sum().backward()
    expected.sum().backward()
    if far in (-90.0, -200.0):
        assert not output.any()
        assert not any(tensor.grad.any() for tensor in tensors)
        return
    torch.testing.assert_close(output.double(), expected, rtol=1e-4, atol=1e-6)
    for one, two in zip(tensors, wide, strict=True):
        torch.testing.assert_close(one.grad.double(), two.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("mask", [None, Causal()])
def test_nothing_to_see(mask):
    reference.check_empty(Linear(), mask)


def test_memory_grows_with_the_length():
    reference.check_memory(Linear())


def test_what_it_refuses():
    reference.check_refusals(Linear(), "linear")


def test_shapes_that_do_not_fit(untyped):
    reference.check_shapes(Linear())
    x = torch.ones(2, 6, 7, 4)
    for features in (Rectified(5, 11), Hedgehog(5)):
        with pytest.raises(ShapeError, match=r"the feature map was built for head_dim \(5\), got vectors of width 4"):
            Linear(features)(x, x, x)


def test_feature_maps():
    x = torch.tensor([[[[-20.0, -1.0, 0.0, 2.0]]]], requires_grad=True)
    features = Elu()(x)
    # exp(-20), exp(-1), 1, 3
    torch.testing.assert_close(features, torch.tensor([[[[2.0611536e-09, 0.36787944, 1.0, 3.0]]]]))
    features.sum().backward()
    torch.testing.assert_close(x.grad, torch.tensor([[[[2.0611536e-09, 0.36787944, 1.0, 1.0]]]]))
    peaked = Hedgehog(4)(x.detach())
    # W is the identity at first: softmax of x and -x together
    torch.testing.assert_close(peaked, torch.cat((x, -x), -1).detach().softmax(-1))
    map = Rectified(4, 7)
    torch.testing.assert_close(map(x), (x @ map.linear.weight.T + map.linear.bias).clamp(min=0))


def test_torch_geometric_computes_the_same():
    """Their Performer with its ReLU kernel is linear attention with features relu(W x) + 0.001."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("torch_geometric", exc_type=ImportError)
        performer = pytest.importorskip("torch_geometric.nn.attention.performer", exc_type=ImportError)

    theirs = performer.PerformerProjection(11).double()

    class Theirs(FeatureMap):
        def forward(self, x):
            return performer.generalized_kernel(x, theirs.projection_matrix, torch.nn.ReLU())

    query, key, value = (torch.randn(2, 3, n, 11, dtype=torch.float64, requires_grad=True) for n in (5, 7, 7))
    ours, expected = Linear(Theirs())(query, key, value), theirs(query, key, value)
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-12)
    gradient = torch.randn_like(ours)
    for one, two in zip(
        torch.autograd.grad(ours, (query, key, value), gradient),
        torch.autograd.grad(expected, (query, key, value), gradient),
        strict=True,
    ):
        torch.testing.assert_close(one, two, rtol=0, atol=1e-12)


def test_what_it_says_of_itself():
    assert mechanisms.mechanism_type("linear") is Linear
    assert isinstance(Linear.sized(head_dim=5, num_heads=3, max_len=7, dropout=0.5).features, Elu)
    assert Linear.facts.causal
    assert Linear.facts.recurrent
    assert sorted(Linear(Rectified(5, 7)).state_dict()) == ["features.linear.bias", "features.linear.weight"]

"""Linear attention: its parallel, chunked and recurrent forms are its definition, for every feature map."""

import warnings

import mechanism_checks as checks
import pytest
import torch
from devices import DEVICE, not_simulated
from mechanism_checks import CAUSAL_CASES, OPEN_CASES, run

from headwise.attention import mechanisms
from headwise.attention.call import Call
from headwise.attention.masks import Causal, Padding
from headwise.attention.mechanisms.linear import Elu, FeatureMap, Hedgehog, Linear, Rectified
from headwise.errors import ShapeError

MAPS = {"elu": lambda: None, "rectified": lambda: Rectified(5, 11), "hedgehog": lambda: Hedgehog(5)}
every_map = pytest.mark.parametrize("features", MAPS.values(), ids=MAPS)


def definition(mechanism: Linear):
    def weights(query, key, allowed, start):
        products = checks.by_pairs(mechanism.features(query), mechanism.features(key), allowed, start)
        return checks.normalised(products)

    return weights


@pytest.mark.parametrize("case", CAUSAL_CASES + OPEN_CASES)
def test_it_is_its_definition(case):
    checks.is_defined_by(mechanism := Linear(), definition(mechanism), case)


@pytest.mark.parametrize("features", [MAPS["rectified"], MAPS["hedgehog"]], ids=["rectified", "hedgehog"])
@pytest.mark.parametrize("case", [CAUSAL_CASES[5], OPEN_CASES[2]])
def test_learned_maps_keep_to_the_definition(features, case):
    checks.is_defined_by(mechanism := Linear(features()), definition(mechanism), case)


@every_map
def test_step_by_step_is_all_at_once(features):
    checks.steps_are_all_at_once(Linear(features()), 131, [1, 2, 65, 66, 130])


@pytest.mark.parametrize("length", [1, 64, 65, 130])
def test_chunks_are_the_recurrence(length):
    query, key, value = inputs = checks.tensors(length, length, heads=3, kv_heads=3, dim=5)
    phi = [torch.where(x > 0, x + 1, x.exp()) for x in (query, key)]
    counted = torch.cat((value, torch.ones_like(value[..., :1])), -1)
    sums = checks.by_positions(*phi, counted, torch.ones_like(key))
    actual = run(Linear(), *inputs, mask=Causal())
    checks.same_with_gradients(actual, sums[..., :-1] / sums[..., -1:], inputs, 1e-11)


def test_gradients_of_gradients():
    inputs, mask = checks.tensors(4, 4, heads=2, kv_heads=1, dim=3), Causal() & Padding(torch.tensor([0, 3, 4]))
    function = lambda *x: run(Linear(), *x, mask=mask)  # noqa: E731
    assert torch.autograd.gradcheck(function, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(function, inputs, fast_mode=True)


def test_no_digits_are_lost_over_4096_positions():
    inputs = [torch.randn(1, 2, 4096, 16) for _ in range(3)]
    expected = run(Linear(), *(t.double() for t in inputs), mask=Causal())
    checks.near(run(Linear(), *inputs, mask=Causal()).double(), expected, 5e-6)
    half = run(Linear(), *(t.bfloat16() for t in inputs), mask=Causal())
    assert half.dtype == torch.bfloat16
    checks.near(half.double(), expected, 2e-2)


@not_simulated("it has no autocast")
def test_sums_stay_wide_under_autocast():
    inputs = [torch.randn(1, 2, 300, 8) for _ in range(3)]
    with torch.autocast(DEVICE, torch.bfloat16):
        inside = run(Linear(), *inputs, mask=Causal())
        stepped, (sums,) = Linear().resume(Call(*inputs), None)
    assert torch.equal(inside, run(Linear(), *inputs, mask=Causal()))
    assert torch.equal(inside, stepped)
    assert sums.dtype == torch.float32


@every_map
@pytest.mark.parametrize("mask", [None, Causal()], ids=["all", "causal"])
def test_padding_is_absence(features, mask):
    mechanism = Linear(None if features() is None else type(features())(6, *[7] * (features().__class__ is Rectified)))
    checks.padding_is_absence(mechanism.double(), 7, [7, 4, 1], mask=mask)
    checks.no_key_gives_zero(mechanism, 5, mask)


def test_a_query_that_all_features_ignore_is_zero():
    mechanism = Linear(Rectified(6, 11)).double()
    inputs = checks.tensors(4, 4)
    torch.nn.init.constant_(mechanism.features.linear.bias, -1e6)
    output = run(mechanism, *inputs, mask=Causal())
    assert not output.any()
    assert not any(gradient.any() for gradient in torch.autograd.grad(output.sum(), inputs))


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("far", [-50.0, -90.0, 1e8])
def test_far_features_give_numbers(far, side):
    """Features of exp(-50) have lost no digit; those that are nearly no numbers count as no weight, the row is zero."""
    tensors = [torch.randn(1, 1, 3, 4) for _ in range(2)] + [torch.randn(1, 1, 3, 2)]
    tensors[side] = torch.full((1, 1, 3, 4), far)
    for tensor in tensors:
        tensor.requires_grad_()
    wide = [tensor.detach().double().requires_grad_() for tensor in tensors]
    output, expected = run(Linear(), *tensors, mask=Causal()), run(Linear(), *wide, mask=Causal())
    output.sum().backward()
    expected.sum().backward()
    if far == -90.0:
        assert not output.any()
        assert not any(tensor.grad.any() for tensor in tensors)
        return
    torch.testing.assert_close(output.double(), expected, rtol=1e-4, atol=1e-6)
    for one, two in zip(tensors, wide, strict=True):
        torch.testing.assert_close(one.grad.double(), two.grad, rtol=1e-4, atol=1e-6)


def test_nothing_to_see():
    checks.empty_sequences(Linear())
    checks.empty_sequences(Linear(), Causal())


def test_memory_grows_with_the_length():
    # a sum for each position would be 2 heads x 1,024 x 32 x 33 numbers of 4 bytes
    assert checks.memory_is_linear(Linear()) < 2 * 1024 * 32 * 33 * 4


def test_what_it_refuses(untyped):
    checks.refuses(Linear())
    for features in (Rectified(5, 11), Hedgehog(5)):
        with pytest.raises(ShapeError, match=r"was built for head_dim 5, got 6"):
            run(Linear(features), *checks.tensors(5, 7))


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


def test_a_layer_in_the_map_is_called_as_a_module():
    """An adapter that wraps it, or a hook on it, is not passed by."""
    mechanism, inputs = Linear(Rectified(6, 7)).double(), checks.tensors(5, 7)
    before = run(mechanism, *inputs)
    mechanism.features.linear.register_forward_hook(lambda module, x, output: 2 * output + 1)
    assert not torch.allclose(run(mechanism, *inputs), before)


@not_simulated("their projection makes tensors of its own")
def test_torch_geometric_computes_the_same():
    """Their Performer with its ReLU kernel is linear attention with features relu(W x) + 0.001."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("torch_geometric", exc_type=ImportError)
        performer = pytest.importorskip("torch_geometric.nn.attention.performer", exc_type=ImportError)

    theirs = performer.PerformerProjection(11).double().to(DEVICE)

    class Theirs(FeatureMap):
        def forward(self, x):
            return performer.generalized_kernel(x, theirs.projection_matrix, torch.nn.ReLU())

    inputs = checks.tensors(5, 7, heads=3, kv_heads=3, dim=11, value_dim=11)
    checks.same_with_gradients(run(Linear(Theirs()), *inputs), theirs(*inputs), inputs, 1e-12)


def test_what_it_says_of_itself():
    assert mechanisms.mechanism_type("linear") is Linear
    assert isinstance(Linear.sized(head_dim=5, num_heads=3, max_len=7, dropout=0.5).features, Elu)
    assert Linear.facts.causal
    assert Linear.facts.recurrent
    assert sorted(Linear(Rectified(5, 7)).state_dict()) == ["features.linear.bias", "features.linear.weight"]

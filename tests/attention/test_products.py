"""Products by oneDNN are those of MKL: any layout, any size, with gradients where asked; kernels that use them too."""

from dataclasses import replace

import pytest
import torch

from headwise.attention import kernels, measured, normalizers
from headwise.attention.call import Call, check
from headwise.attention.kernels import _products
from headwise.attention.kernels._products import linear, product
from headwise.attention.masks import Causal, Padding, Window
from headwise.attention.relative import Relative
from headwise.attention.scores import Additive, ScaledDot

needs_onednn = pytest.mark.skipif(_products.linear_of_onednn() is None, reason="this PyTorch has no oneDNN")


@pytest.fixture(params=[1.0, float("inf")], ids=["onednn", "mkl"])
def library(request):
    """Every product by one library, whatever its size."""
    if request.param == 1.0 and _products.linear_of_onednn() is None:
        pytest.skip("this PyTorch has no oneDNN")
    with measured.trying(request.param):
        yield request.param


def layouts(*shape):
    """The same numbers in tensors of other strides."""
    numbers = torch.randn(shape)
    yield numbers
    yield numbers.mT.contiguous().mT
    yield torch.stack((numbers, numbers), -1)[..., 0]
    yield torch.cat((numbers, numbers), -2)[..., : shape[-2], :]


@pytest.mark.parametrize("leading", [(), (1,), (1, 1), (3,), (2, 3)])
def test_any_layout(leading, library, monkeypatch):
    monkeypatch.setattr(_products, "_COLUMNS", 1)
    for left in layouts(*leading, 5, 7):
        for right in layouts(*leading, 7, 4):
            expected = left.double() @ right.double()
            assert product(left, right).shape == expected.shape
            torch.testing.assert_close(product(left, right).double(), expected, atol=1e-5, rtol=0)
            memory = torch.full_like(expected, float("nan"), dtype=torch.float32)
            result = product(left, right, lambda memory=memory: memory)
            torch.testing.assert_close(result.double(), expected, atol=1e-5, rtol=0)
            # one product of oneDNN has memory of its own
            if library > 1.0 or expected[..., 0, 0].numel() > 1:
                assert result.data_ptr() == memory.data_ptr()


def test_a_side_that_is_expanded(library):
    left, right = torch.randn(3, 2, 5, 7), torch.randn(2, 7, 4).expand(3, -1, -1, -1)
    torch.testing.assert_close(product(left, right), left @ right, atol=1e-5, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_types_are_multiplied_as_ever(dtype, library):
    left, right = torch.randn(5, 7).to(dtype), torch.randn(7, 4).to(dtype)
    assert torch.equal(product(left, right), left @ right)


@needs_onednn
def test_small_products_and_copies_that_cost_more_stay_with_mkl():
    large, narrow = torch.randn(512, 64), torch.randn(64, 64)
    with measured.trying(512 * 64 * 64.0):
        assert _products._gaining(large, narrow) is not None
        assert _products._gaining(large[:511], narrow) is None
        # two matrices cost a copy
        assert _products._gaining(large.view(2, 256, 64), narrow.expand(2, -1, -1)) is None
        assert _products._gaining(large.mT.contiguous().mT, narrow) is None
        assert _products._gaining(large.mT.contiguous().mT, torch.randn(64, 256)) is not None
        # oneDNN's operator has no gradient
        assert _products._gaining(large.requires_grad_(), narrow) is None
        with torch.no_grad():
            assert _products._gaining(large, narrow) is not None


def test_round_sizes():
    """At most three significant bits: four sizes in each doubling."""
    round_sizes = [n for n in range(1, 129) if _products.rounded(n) == n]
    assert round_sizes == [*range(1, 9), 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128]
    assert [_products.rounded(n) for n in (0, 9, 63, 341, 2047)] == [0, 8, 56, 320, 1792]
    with measured.trying(1.0):
        assert _products.gains(512, 64, 2048)
        assert not _products.gains(512, 64, 2050)
        assert not _products.gains(513, 64, 2048)
    with measured.trying(float("inf")):
        assert not _products.gains(512, 64, 2048)


@needs_onednn
@pytest.mark.parametrize(
    ("options", "several"), [({}, False), ({"mask": Causal()}, True), ({"mask": Window(1, 1)}, True)], ids=str
)
def test_strips_that_differ_in_shape_stay_with_mkl(options, several, monkeypatch):
    """oneDNN keeps memory for every shape."""
    seen, times = [], _products.linear_of_onednn()
    monkeypatch.setattr(_products, "linear_of_onednn", lambda: lambda x, w: seen.append(x) or times(x, w))
    with measured.trying(1.0):
        kernels.kernel("rows").compute(check(a_call(**options)))
    assert several == (not seen)


def test_without_the_operator(monkeypatch):
    monkeypatch.setattr(_products, "linear_of_onednn", lambda: None)
    left, right = torch.randn(9, 64), torch.randn(64, 8)
    with measured.trying(1.0):
        assert torch.equal(product(left, right), left @ right)


def test_a_linear_layer_has_the_gradients_of_its_definition(library):
    x, weight = torch.randn(2, 3, 5).requires_grad_(), torch.randn(4, 5).requires_grad_()
    gradient = torch.randn(2, 3, 4)
    found = torch.autograd.grad(linear(x, weight), (x, weight), gradient)
    wanted = torch.autograd.grad(torch.nn.functional.linear(x, weight), (x, weight), gradient)
    for one, two in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, two, atol=1e-5, rtol=0)
    assert linear(x.detach(), weight).requires_grad
    wide = [tensor.detach().double().requires_grad_() for tensor in (x, weight)]
    assert torch.autograd.gradgradcheck(linear, wide)


def a_call(**options):
    query, key, value = (
        torch.randn(2, heads, length, 8).requires_grad_() for heads, length in ((4, 6), (2, 10), (2, 10))
    )
    return Call(query, key, value, ScaledDot(), normalizers.build(options.pop("normalizer", "softmax")), **options)


def table():
    return torch.randn(4, 14, 8, requires_grad=True)


CALLS = {
    "plain": lambda: a_call(),
    "causal": lambda: a_call(mask=Causal()),
    "padding": lambda: a_call(mask=Padding(torch.tensor([10, 4]))),
    "relu": lambda: a_call(normalizer="relu"),
    "bias": lambda: a_call(bias=torch.randn(2, 4, 6, 10).requires_grad_()),
    "table": lambda: a_call(relative=Relative(-5, query=torch.randn(2, 4, 6, 8), query_table=table())),
    "shared table": lambda: a_call(relative=Relative(-5, value_table=torch.randn(1, 14, 8).requires_grad_())),
    "additive": lambda: replace(a_call(), score=Additive(8, 8, 16)),
}


# a single head, for which no result is copied, where no other tensor has two sequences
ALONE = [(name, True) for name in ("plain", "causal", "relu", "additive")]


@pytest.mark.parametrize(("name", "one"), [*((name, False) for name in CALLS), *ALONE])
def test_kernels_on_either_library_equal_the_definition(name, one, library, monkeypatch):
    monkeypatch.setattr(_products, "_COLUMNS", 1)
    call = CALLS[name]()
    if one:
        sides = {side: getattr(call, side)[:1, :1].detach().requires_grad_() for side in ("query", "key", "value")}
        call = replace(call, **sides)
    kernel = kernels.kernel("additive" if name == "additive" else "rows")
    call = check(call)
    tensors = [call.query, call.key, call.value, *call.relative_tensors, *call.score.parameters()]
    tensors = [t for t in (*tensors, call.bias) if t is not None and t.requires_grad]
    results = []
    for way in (kernel, kernels.kernel("plain")):
        output = way.compute(call)
        direction = torch.randn(output.shape, generator=torch.Generator().manual_seed(3))
        results.append([output, *torch.autograd.grad(output, tensors, direction)])
    for ours, theirs in zip(*results, strict=True):
        assert ours.shape == theirs.shape
        torch.testing.assert_close(ours, theirs, atol=2e-5, rtol=1e-4)

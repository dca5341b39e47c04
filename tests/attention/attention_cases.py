"""Random attention calls for the property tests: shapes, masks of every kind and combination, tensors from a seed."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import torch
from attention_reference import Allowed, Reference, reference
from devices import seeded
from hypothesis import strategies as st
from torch import Tensor

from headwise.attention import kernels, normalizers, planner
from headwise.attention.call import Call
from headwise.attention.masks import Causal, Mask, Padding, Table, Window
from headwise.attention.relative import Relative
from headwise.attention.scores import ScaledDot
from headwise.errors import Unsupported

# the one for an accelerator refuses every call here, which its own tests say
KERNELS = ["auto", *(name for name in list(kernels.KERNELS) if name != "flex")]
# those that take any softmax over dot products
GENERAL = ["auto", "fused", "plain", "strips"]
# by the names that users write; the identity has a test of its own, since its weights may be negative
NORMALIZERS = ["softmax", "softmax1", "relu", "relu2", "sigmoid", "sparsemax", "entmax15", "hard"]
NORMALIZERS += ["sigmoid:-1.5", "entmax:1.3", "top_k:3", "scalable:0.43"]
DTYPES = [torch.float64, torch.float32, torch.bfloat16]
NAN, INF = float("nan"), float("inf")
# largest error relative to the largest number, for scores of a few units
TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-5, torch.bfloat16: 2e-2}


@dataclass(frozen=True)
class Case:
    """A call as small numbers, from which tensors are built; `spec` is the mask as nested tuples, or None."""

    batch: int = 2
    heads: int = 3
    kv_heads: int = 3
    query_len: int = 5
    key_len: int = 7
    dim: int = 4
    value_dim: int = 3
    size: float = 1.0
    seed: int = 0
    start: int = 0
    bias: tuple[bool, bool, bool] | None = None
    spec: Any = None
    normalizer: str = "softmax"
    tensors: dict[str, Tensor] = field(default_factory=dict)

    def build(self, dtype: torch.dtype, *, grad: bool = False, dropout: float = 0.0) -> Call:
        """The call with tensors of this type."""
        generator = seeded(self.seed)

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        query = self.size * normal(self.batch, self.heads, self.query_len, self.dim)
        key = normal(self.batch, self.kv_heads, self.key_len, self.dim)
        value = normal(self.batch, self.kv_heads, self.key_len, self.value_dim)
        bias = None
        if self.bias is not None:
            wide = (self.batch, self.heads, self.query_len)
            bias = normal(*(n if full else 1 for n, full in zip(wide, self.bias, strict=True)), self.key_len).to(dtype)
        tensors = [tensor.to(dtype).requires_grad_(grad) for tensor in (query, key, value)]
        normalizer = normalizers.build(self.normalizer)
        call = Call(*tensors, ScaledDot(), normalizer, self.mask(), bias, dropout=dropout, query_start=self.start)
        return call

    def mask(self) -> Mask | None:
        return None if self.spec is None else _mask(self.spec, self)

    def allowed(self) -> Allowed:
        """The mask again, as a condition on one pair, independent of the package."""
        if self.spec is None:
            return lambda b, h, i, j: True
        pair = _pair(self.spec, self)
        return lambda b, h, i, j: pair(b, h, self.start + i, j)

    def keep(self) -> np.ndarray:
        """The mask as a table from those conditions."""
        allowed = self.allowed()
        table = np.zeros((self.batch, self.heads, self.query_len, self.key_len), bool)
        for index in np.ndindex(*table.shape):
            table[index] = allowed(*index)
        return table

    def expected(self, call: Call, gradient: Tensor | None = None) -> Reference:
        """The reference for a call of this case, from the numbers that the call holds."""
        query, key, value = (_array(t) for t in (call.query, call.key, call.value))
        return reference(
            query,
            key,
            value,
            scale=max(1, self.dim) ** -0.5,
            normalizer=self.normalizer,
            allowed=self.allowed(),
            bias=None if call.bias is None else _array(call.bias),
            gradient=None if gradient is None else _array(gradient),
        )


def run(call: Call, kernel: str) -> Tensor | None:
    """The output, or None where the kernel refuses the call."""
    if kernel != "auto" and kernels.KERNELS[kernel].refusal(call) is not None:
        return None
    return planner.run(call, kernel)


def gradients(call: Call, output: Tensor, gradient: Tensor) -> list[Tensor]:
    """Gradients of query, key and value."""
    return list(torch.autograd.grad(output, (call.query, call.key, call.value), gradient))


def assert_near(actual: Tensor, expected: np.ndarray, tolerance: float) -> None:
    """Equal up to `tolerance` times the largest expected number, or 1."""
    if expected.size == 0:
        assert tuple(actual.shape) == expected.shape
        return
    bound = tolerance * max(1.0, float(np.abs(expected).max()))
    wanted = torch.tensor(np.ascontiguousarray(expected))
    torch.testing.assert_close(actual.detach().double(), wanted, rtol=0, atol=bound)


def definition(query, key, value, table):
    """Softmax over what the table (batch, heads, query_len, key_len) allows, written out; zero where it is nothing."""
    group = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
    some = table.any(-1, keepdim=True)
    scores = (query @ key.mT / math.sqrt(query.shape[-1])).masked_fill(~table & some, -math.inf)
    return scores.softmax(-1) * some @ value


def assert_same(output, expected, inputs, tolerance=1e-11):
    """Outputs and gradients are equal."""
    torch.testing.assert_close(output, expected, rtol=0, atol=tolerance)
    gradient = torch.randn_like(expected)
    found, right = (torch.autograd.grad(o, inputs, gradient, materialize_grads=True) for o in (output, expected))
    for one, two in zip(found, right, strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=tolerance)


def tolerance(dtype: torch.dtype, size: float) -> float:
    """The error allowed for scores of this size: rounding of a score is an error of the exponent."""
    return TOLERANCE[dtype] if dtype == torch.bfloat16 else TOLERANCE[dtype] * max(1.0, size)


def numbers_like(tensor: Tensor, seed: int) -> Tensor:
    generator = seeded(seed)
    return torch.randn(tensor.shape, generator=generator, dtype=torch.float64).to(tensor.dtype)


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().double().cpu().numpy()


# masks


def _draw(spec: tuple, case: Case) -> np.random.Generator:
    return np.random.default_rng([case.seed, spec[1]])


def _lengths(spec: tuple, case: Case) -> np.ndarray:
    shape = (case.batch,) if spec[0] == "lengths" else (case.batch, case.start + case.query_len)
    return _draw(spec, case).integers(0, case.key_len + 1, shape)


def _pattern(spec: tuple, case: Case) -> np.ndarray:
    _, _, axes, density = spec
    shape = (case.batch, case.heads, case.start + case.query_len, case.key_len)
    shape = {2: shape[2:], 3: (shape[0], *shape[2:]), 4: shape}[axes]
    return _draw(spec, case).random(shape) < density


def _mask(spec: tuple, case: Case) -> Mask:
    kind = spec[0]
    if kind == "causal":
        return Causal()
    if kind == "window":
        return Window(spec[1], spec[2])
    if kind in ("lengths", "query_lengths"):
        return Padding(torch.tensor(_lengths(spec, case)))
    if kind == "table":
        return Table(torch.tensor(_pattern(spec, case)))
    if kind == "not":
        return ~_mask(spec[1], case)
    one, two = _mask(spec[1], case), _mask(spec[2], case)
    return one & two if kind == "and" else one | two


def _pair(spec: tuple, case: Case) -> Callable[[int, int, int, int], bool]:
    kind = spec[0]
    if kind == "causal":
        return lambda b, h, i, j: j <= i
    if kind == "window":
        return lambda b, h, i, j: i - spec[1] <= j <= i + spec[2]
    if kind == "lengths":
        lengths = _lengths(spec, case)
        return lambda b, h, i, j: j < lengths[b]
    if kind == "query_lengths":
        lengths = _lengths(spec, case)
        return lambda b, h, i, j: j < lengths[b, i]
    if kind == "table":
        pattern = _pattern(spec, case)
        pick = {2: lambda b, h, i, j: (i, j), 3: lambda b, h, i, j: (b, i, j), 4: lambda b, h, i, j: (b, h, i, j)}
        return lambda b, h, i, j: bool(pattern[pick[spec[2]](b, h, i, j)])
    if kind == "not":
        inner = _pair(spec[1], case)
        return lambda b, h, i, j: not inner(b, h, i, j)
    one, two = _pair(spec[1], case), _pair(spec[2], case)
    if kind == "and":
        return lambda b, h, i, j: one(b, h, i, j) and two(b, h, i, j)
    return lambda b, h, i, j: one(b, h, i, j) or two(b, h, i, j)


def mask_specs() -> st.SearchStrategy[Any]:
    """Every mask kind, and combinations of them."""
    number = st.integers(0, 99)
    leaf = st.one_of(
        st.just(("causal",)),
        st.tuples(st.just("lengths"), number),
        st.tuples(st.just("query_lengths"), number),
        st.tuples(st.just("window"), st.integers(0, 3), st.integers(0, 3)),
        st.tuples(st.just("table"), number, st.sampled_from([2, 3, 4]), st.sampled_from([0.0, 0.3, 0.9, 1.0])),
    )

    def combined(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.one_of(
            st.tuples(st.just("not"), inner),
            st.tuples(st.just("and"), inner, inner),
            st.tuples(st.just("or"), inner, inner),
        )

    return st.recursive(leaf, combined, max_leaves=3)


# made once: what hypothesis finds out about a strategy it keeps with it
MASK_SPECS = mask_specs()


@st.composite
def cases(
    draw: Any,
    *,
    masked: bool | None = None,
    biased: bool | None = None,
    normalizer: str | None = None,
    least: int = 0,
    sizes: tuple[float, ...] = (0.0, 1e-3, 1.0, 10.0, 50.0),
) -> Case:
    """Calls of every shape; `masked` and `biased` force a mask or a bias to be there or not, `least` the lengths."""
    kv_heads, group = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    with_mask = draw(st.booleans()) if masked is None else masked
    with_bias = draw(st.booleans()) if biased is None else biased
    return Case(
        batch=draw(st.integers(1, 3)),
        heads=kv_heads * group,
        kv_heads=kv_heads,
        query_len=draw(st.integers(least, 9)),
        key_len=draw(st.integers(least, 9)),
        dim=draw(st.integers(1, 8)),
        value_dim=draw(st.integers(1, 8)),
        size=draw(st.sampled_from(sizes)),
        seed=draw(st.integers(0, 2**16)),
        start=draw(st.sampled_from([0, 0, 2])),
        bias=draw(st.tuples(st.booleans(), st.booleans(), st.booleans())) if with_bias else None,
        spec=draw(MASK_SPECS) if with_mask else None,
        normalizer=draw(st.sampled_from(NORMALIZERS)) if normalizer is None else normalizer,
    )


def without(call: Call, **tensors: Tensor) -> Call:
    """The call with some of its tensors replaced by these."""
    return replace(call, **tensors)


# what kernels for listed pairs do not compute, and what they say of it
NOT_LISTED = {
    "bias": ({"bias": torch.zeros(1, 1, 1, 7)}, "there is a bias"),
    "relative": ({"relative": Relative(low=0, scalar=torch.zeros(1, 1))}, "there are relative positions"),
    "function": ({"normalizer": lambda scores, keep: scores}, "the normalizer <lambda> is a function"),
    "no width": ({"value": torch.zeros(2, 1, 7, 0)}, "an axis is empty"),
}


def refuses(kernel: str, mask: Mask, changes: dict[str, object], why: str) -> None:
    """The kernel takes a call under the mask, and refuses it with these changes."""
    call = Call(torch.zeros(2, 3, 5, 4), torch.zeros(2, 1, 7, 4), torch.zeros(2, 1, 7, 3), mask=mask)
    assert kernels.KERNELS[kernel].refusal(call) is None
    with pytest.raises(Unsupported, match=why):
        planner.run(replace(call, **changes), kernel)

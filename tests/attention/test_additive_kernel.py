"""Additive attention without the numbers inside tanh: cached blocks and compiled loops equal the definition."""

import math
import shutil
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
import torch
from attention_cases import DTYPES, TOLERANCE, Case, assert_near, cases, numbers_like
from hypothesis import given
from hypothesis import strategies as st

from headwise.attention import normalizers, planner
from headwise.attention.call import Call, check
from headwise.attention.dropout import draw, kept_scale
from headwise.attention.kernels import _additive_compiled, _additive_scores, additive, plain
from headwise.attention.masks import Causal, Padding, Table, Window
from headwise.attention.relative import Relative
from headwise.attention.scores import Additive, ScaledDot
from headwise.errors import Unsupported


def _call(dtype=torch.float64, *, query_len=5, key_len=7, heads=4, kv_heads=2, hidden=11, **changes):
    def numbers(*shape):
        return torch.randn(*shape, dtype=torch.float64).to(dtype).requires_grad_()

    score = Additive(3, 13, hidden).to(dtype)
    query = numbers(2, heads, query_len, 3)
    key, value = numbers(2, kv_heads, key_len, 13), numbers(2, kv_heads, key_len, 6)
    return check(Call(query, key, value, score, **changes))


def _learned(call):
    tensors = [call.query, call.key, call.value, *call.score.parameters()]
    return tensors if call.bias is None else [*tensors, call.bias]


def _both(call, definition=plain.compute, seed=0):
    """Output and gradients of the kernel and of the definition in float64."""
    results = []
    for compute in (additive.compute, definition):
        output = compute(call)
        gradient = numbers_like(output, seed)
        results.append([output, *torch.autograd.grad(output, _learned(call), gradient)])
    return zip(*results, strict=True)


def _assert_plain(call):
    accuracy = {torch.float64: 1e-12, torch.float32: 2e-5, torch.bfloat16: 4e-2}[call.query.dtype]
    for found, right in _both(call):
        assert found.dtype == right.dtype
        assert_near(found, right.detach().double().numpy(), accuracy)


def test_output_by_loops():
    call = _call(mask=Causal() & Padding(torch.tensor([7, 0])), scale=0.7)
    output = additive.compute(call)
    query, key, value = (tensor.detach().numpy() for tensor in (call.query, call.key, call.value))
    w_query, w_key, v = (parameter.detach().numpy() for parameter in call.score.parameters())
    expected = np.zeros(output.shape)
    for b, h, i in np.ndindex(2, 4, 5):
        seen = range(min(i + 1, (7, 0)[b]))
        scores = [0.7 * float(v[0] @ np.tanh(w_query @ query[b, h, i] + w_key @ key[b, h // 2, j])) for j in seen]
        powers = [math.exp(score) for score in scores]
        for j, power in zip(seen, powers, strict=True):
            expected[b, h, i] += power / sum(powers) * value[b, h // 2, j]
    assert_near(output, expected, 1e-12)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@given(case=cases(least=1), cached=st.sampled_from([1, 9, 30, 65536]))
def test_outputs_and_gradients_are_those_of_the_definition(dtype, case, cached):
    torch.manual_seed(case.seed)
    call = replace(case.build(dtype, grad=True), score=Additive(case.dim, case.dim, 3).to(dtype))
    if call.bias is not None:
        call = replace(call, bias=call.bias.clone().requires_grad_())
    # blocks that split the hidden numbers of no pair, and every other axis
    with patch.object(_additive_scores, "_CACHED", cached):
        for found, right in _both(call):
            assert found.dtype == right.dtype
            accuracy = 4 * TOLERANCE[dtype] * max(1.0, case.size)
            assert_near(found, right.detach().double().numpy(), accuracy)


@pytest.mark.parametrize("normalizer", ["softmax", "relu", "sigmoid"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_mask_at_odd_lengths(dtype, normalizer):
    lengths, by_query = Padding(torch.tensor([19, 0])), Padding(torch.randint(0, 20, (2, 17)))
    table = Table(torch.rand(2, 4, 17, 19) < 0.3)
    for mask in (None, Causal(), lengths, by_query & Window(5, 2), ~lengths | Causal(), table):
        call = _call(dtype, query_len=17, key_len=19, mask=mask, normalizer=normalizers.build(normalizer))
        _assert_plain(call)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_one_query_and_one_key(dtype):
    for query_len, key_len in ((1, 7), (5, 1), (1, 1)):
        for kv_heads in (1, 4):
            _assert_plain(_call(dtype, query_len=query_len, key_len=key_len, kv_heads=kv_heads))


def test_a_normalizer_of_whole_tables():
    class Whole(normalizers.Normalizer):
        def __call__(self, scores, keep):
            return scores.square() if keep is None else scores.square().masked_fill(~keep, 0.0)

    _assert_plain(_call(normalizer=Whole(), mask=Causal()))
    _assert_plain(_call(torch.bfloat16, normalizer=Whole()))


def test_projections_of_any_size_are_exact():
    """Beyond exp(86) the powers leave float32, and sums of two large numbers may be small."""
    for size in (20.0, 42.9, 43.1, 300.0):
        call = _call(torch.float32, heads=1, kv_heads=1, query_len=3, key_len=3, hidden=2)
        with torch.no_grad():
            for projection, sign in ((call.score.query, 1.0), (call.score.key, -1.0)):
                projection.weight.zero_()
                projection.weight[:, 0] = sign * size
            call.query[..., 0] = torch.tensor([1.0, -1.0, 0.99])
            call.key[..., 0] = torch.tensor([1.0, -1.0, 0.98])
        wide = replace(call.replaced(call.query.double(), call.key.double(), call.value.double()), score=call.score)
        assert_near(additive.compute(call), plain.compute(wide).detach().numpy(), 2e-5)
        _assert_plain(call)


def test_a_token_far_out_changes_no_bit_of_the_others():
    near = _call(torch.float32, mask=Causal(), query_len=7)
    key, value = near.key.detach().clone(), near.value.detach().clone()
    key[:, :, 5:] *= 1e6
    value[:, :, 5:] = 3.0
    far = replace(near, key=key.requires_grad_(), value=value)
    output = additive.compute(far)
    assert torch.equal(output[:, :, :5], additive.compute(near)[:, :, :5])
    assert not torch.equal(output[:, :, 5:], additive.compute(near)[:, :, 5:])
    early = [
        torch.autograd.grad(
            additive.compute(call)[:, :, :5].square().sum(), (call.query, call.key, *call.score.parameters())
        )
        for call in (near, far)
    ]
    assert all(map(torch.equal, *early))


def test_not_a_number_stays_in_its_row():
    call = _call(mask=Padding(torch.tensor([7, 4])))
    key, query = call.key.detach().clone(), call.query.detach().clone()
    key[1, :, 4:] = float("nan")
    query[0, 2, 3] = float("inf")
    output, clean = planner.run(replace(call, key=key, query=query), "additive"), planner.run(call, "additive")
    assert output[0, 2, 3].isnan().all()
    clean = clean.detach().clone()
    clean[0, 2, 3] = float("nan")
    torch.testing.assert_close(output, clean, rtol=0, atol=1e-12, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_dropout_drops_weights(dtype):
    call = _call(dtype, dropout=0.4, mask=Causal())

    def by_hand(call):
        torch.manual_seed(3)
        used = plain.weights(call) * draw((2, 4, 5, 7), 0.4, call.query.device) * kept_scale(0.4)
        return (used @ call.value.repeat_interleave(2, 1).to(used.dtype)).to(dtype)

    torch.manual_seed(3)
    for found, right in _both(call, by_hand):
        assert_near(found, right.detach().double().numpy(), 1e-12 if dtype == torch.float64 else 4e-2)


def test_nothing_of_hidden_size_is_kept():
    call = _call(torch.float32, query_len=23, key_len=29, hidden=31)
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: saved.append(tensor) or tensor, lambda tensor: tensor):
        additive.compute(call)
    pairs, tokens = 2 * 4 * 23 * 29, 2 * 4 * 29
    assert max(tensor.numel() for tensor in saved) <= max(pairs, tokens * 31)


def test_its_gradient_has_no_gradient():
    call = _call()
    with pytest.raises(Unsupported, match="kernel 'additive' has no second derivative; use kernel='plain'"):
        torch.autograd.grad(additive.compute(call).square().sum(), call.query, create_graph=True)
    scores = _additive_scores.pair_scores(call.query.flatten(0, 1), call.query.flatten(0, 1), call.query[0, 0, 0])
    with pytest.raises(Unsupported, match="kernel 'additive' has no second derivative"):
        torch.autograd.grad(scores.square().sum(), call.query, create_graph=True)


REFUSALS = {
    "score": ({"score": ScaledDot()}, "its score is Additive, not ScaledDot"),
    "relative": ({"relative": Relative(low=0, scalar=torch.zeros(1, 1))}, "it has no relative positions"),
    "no width": ({"value": torch.zeros(2, 3, 7, 0)}, "an axis is empty"),
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_what_it_refuses(kind):
    changes, why = REFUSALS[kind]
    call = replace(Case().build(torch.float32), **{"score": Additive(4, 4, 2), **changes})
    with pytest.raises(Unsupported, match=f"kernel 'additive' cannot compute this attention exactly: {why}"):
        planner.run(call, "additive")


def test_it_refuses_half_precision_and_accelerators():
    assert additive.refusal(_call(torch.float16)) == "half-precision products are slow here"
    call = _call()
    elsewhere = replace(call, query=call.query.detach().to("meta"))
    assert additive.refusal(elsewhere) == "it looks at values, for which an accelerator or a compiled model would wait"


def test_large_calls_are_counted_as_compiled():
    def terms(query_len, dtype=torch.float32, heads=4, hidden=128):
        query = torch.empty(1, heads, query_len, 3, dtype=dtype)
        key = torch.empty(1, 2, 1024, 13, dtype=dtype)
        return additive.terms(Call(query, key, key, Additive(3, 13, hidden)))

    with patch.object(_additive_compiled, "_failures", []):
        numbers = 4 * 32 * 1024 * 128
        assert terms(32)["compiled"] == numbers == 2**24
        assert terms(31)["hidden"] == numbers / 32 * 31
        assert "hidden" in terms(32, torch.float64)
        # a single query has no use for powers, however many keys there are
        assert "hidden" in terms(1, heads=2, hidden=2**17)
        assert terms(32)["tokens"] == (4 * 32 + 2 * 1024) * 128
        _additive_compiled._failures.append("no compiler")
        assert "compiled" not in terms(32)


def test_without_a_compiler_the_blocks_serve():
    def fails(function, shapes):
        raise RuntimeError("no C++ compiler\nlong story")

    call = _call(torch.float32)
    with (
        patch.object(_additive_scores, "_COMPILED_FROM", 0),
        patch.object(_additive_compiled, "_failures", []),
        patch.object(_additive_compiled, "_compiled", fails),
    ):
        _assert_plain(call)
        assert _additive_compiled.failure() == "no C++ compiler"
        _assert_plain(call)
        assert _additive_compiled._failures == ["no C++ compiler"]


def test_a_compiler_that_fails_in_the_backward_pass():
    def fails(function, shapes):
        raise RuntimeError

    call = _call(torch.float32)
    with patch.object(_additive_scores, "_COMPILED_FROM", 0), patch.object(_additive_compiled, "_failures", []):
        with patch.object(_additive_compiled, "scores", lambda *tensors: None):
            output = additive.compute(call)
        with patch.object(_additive_compiled, "_compiled", fails):
            found = torch.autograd.grad(output.sum(), _learned(call))
        assert _additive_compiled.failure() == "RuntimeError"
    for one, two in zip(found, torch.autograd.grad(plain.compute(call).sum(), _learned(call)), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-5)


def test_loops_that_are_not_compiled_are_not_run():
    """`torch.compile` hands back the function itself where it is switched off, and that would keep every number."""
    tensor = torch.ones(2, 3, 5)
    for function in (_additive_compiled._scores, _additive_compiled._sums):
        with pytest.raises(RuntimeError, match=r"torch.compile is switched off"):
            function(tensor, tensor, tensor)


@pytest.mark.slow
@pytest.mark.skipif(not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="no C++ compiler")
def test_compiled_loops_equal_the_definition():
    """One of them serves every size; sizes of 1 have their own."""
    with patch.object(_additive_scores, "_COMPILED_FROM", 0), patch.object(_additive_compiled, "_failures", []):
        for query_len, key_len, hidden in ((5, 7, 11), (97, 101, 103), (64, 64, 64)):
            for mask in (None, Padding(torch.tensor([3, 0]))):
                _assert_plain(_call(torch.float32, query_len=query_len, key_len=key_len, hidden=hidden, mask=mask))
                assert _additive_compiled.failure() is None
        _assert_plain(_call(torch.float32, key_len=1))
        _assert_plain(_call(torch.bfloat16, query_len=13, key_len=17))
        with torch.inference_mode():
            call = _call(torch.float32)
            torch.testing.assert_close(additive.compute(call), plain.compute(call), rtol=0, atol=2e-5)
        assert _additive_compiled.failure() is None
    # float64 is never compiled
    assert not _additive_scores.compiles(2**30, torch.float64)

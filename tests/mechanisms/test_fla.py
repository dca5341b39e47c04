"""fla's kernels as the recurrence is handed to them: functions of their definitions, token by token, stand for them."""

import sys
from types import SimpleNamespace

import pytest
import torch
from devices import on_the_host, seeded

from headwise.attention import mechanisms
from headwise.attention.call import Call
from headwise.attention.masks import Causal, Padding
from headwise.attention.mechanisms import _fla
from headwise.attention.mechanisms._scan import Terms
from headwise.attention.mechanisms._scan import scan as chunks
from headwise.attention.mechanisms.log_linear import LogLinear
from headwise.attention.mechanisms.retention import Retention
from headwise.errors import ConfigError, Unsupported

HALF = torch.bfloat16
NAMES = tuple(name for name in mechanisms.names() if mechanisms.mechanism_type(name).facts.recurrent)


def loop(inputs, transition, added, *, scale, initial_state, output_final_state):
    """out_i = scale q_i S_i, S_i = transition(i, S_(i-1)) + added(i) v_i^T; (batch, length, heads, ...)."""
    q, k, v = (x.float() for x in inputs)
    batch, length, heads, features = q.shape
    # what the 16-bit kernels read whole
    assert q.shape == k.shape
    assert features % 16 == 0
    assert v.shape[-1] % 16 == 0
    assert initial_state is None or initial_state.dtype == torch.float32
    assert output_final_state
    state = q.new_zeros(batch, heads, features, v.shape[-1]) if initial_state is None else initial_state
    outputs = []
    for i in range(length):
        state = transition(i, state) + added(i).unsqueeze(-1) * v[:, i].unsqueeze(-2)
        outputs.append(scale * (q[:, i].unsqueeze(-2) @ state).squeeze(-2))
    return torch.stack(outputs, 1).to(inputs[0].dtype), state


def simple_gla(*, q, k, v, g=None, **rest):
    fade = torch.ones(q.shape[:3]) if g is None else g.exp()
    return loop((q, k, v), lambda i, state: fade[:, i, :, None, None] * state, lambda i: k[:, i], **rest)


def gla(*, q, k, v, g, **rest):
    assert g.shape == k.shape
    assert g.dtype == torch.float32
    return loop((q, k, v), lambda i, state: g[:, i].exp().unsqueeze(-1) * state, lambda i: k[:, i], **rest)


def delta(*, q, k, v, beta, g=None, **rest):
    assert beta.shape == q.shape[:3]
    fade = torch.ones(*q.shape[:3], 1) if g is None else (g if g.ndim == 4 else g.unsqueeze(-1)).exp()
    key, added = k.float(), beta.unsqueeze(-1) * k.float()

    def transition(i, state):
        state = fade[:, i].unsqueeze(-1) * state
        return state - added[:, i].unsqueeze(-1) * (key[:, i].unsqueeze(-2) @ state)

    return loop((q, k, v), transition, lambda i: added[:, i], **rest)


def dplr(*, q, k, v, a, b, gk, lower_bound=None, **rest):
    assert lower_bound is None or bool((gk >= lower_bound).all())
    first, second = a.float(), b.float()

    def transition(i, state):
        return gk[:, i].exp().unsqueeze(-1) * state + second[:, i].unsqueeze(-1) * (first[:, i].unsqueeze(-2) @ state)

    return loop((q, k, v), transition, lambda i: k[:, i], **rest)


FUNCTIONS = {
    "chunk_simple_gla": simple_gla,
    "chunk_gla": gla,
    "chunk_delta_rule": delta,
    "chunk_gated_delta_rule": delta,
    "chunk_kda": delta,
    "chunk_dplr_delta_rule": dplr,
}


def drawn(fades, erases, length, *, features=5, wide=3, heads=2, kv_heads=2):
    generator = seeded(length)

    def draw(heads, width):
        return torch.randn(2, heads, length, width, generator=generator)

    query, key, value = draw(heads, features), draw(kv_heads, features), draw(kv_heads, wide)
    gates = {"nothing": 0, "head": 1, "features": features}[fades]
    decay = -draw(heads, gates).abs() if gates else None
    read = torch.nn.functional.normalize(draw(heads, features), dim=-1)
    share = draw(heads, 1).sigmoid()
    if erases == "key":
        key = read * share
    erase = read * 0.5 + 0.1 if erases == "vector" else None
    terms = Terms(query, key, value, decay, None if erases == "nothing" else read, erase)
    return terms, share


@pytest.mark.parametrize(("fades", "erases"), _fla.TABLE)
@pytest.mark.parametrize("length", [1, 7, 65])
@pytest.mark.parametrize("past", [False, True])
def test_each_transition_is_the_recurrence_with_gradients(fades, erases, length, past):
    terms, share = drawn(fades, erases, length)
    function = FUNCTIONS[_fla.TABLE[fades, erases].name]
    sums = torch.randn(2, 2, 5, 3, generator=seeded(3)) if past else None
    results = []
    for run in (lambda t, s: _fla.scan_with(function, t, s, -9.0, torch.float32), lambda t, s: chunks(t, s)):
        leaves = [None if x is None else x.clone().requires_grad_() for x in (*terms[:6], sums)]
        made = Terms(*leaves[:6])
        # of a delta rule the key is a share of what is read
        made = made._replace(key=made.read * share) if erases == "key" else made
        output, last = run(made, leaves[6])
        wanted = [x for x in leaves if x is not None]
        total = (output * torch.randn(output.shape, generator=seeded(7))).sum() + (
            last * torch.randn(last.shape, generator=seeded(8))
        ).sum()
        results.append((output, last, *torch.autograd.grad(total, wanted, allow_unused=True, materialize_grads=True)))
    assert results[0][1].shape == (2, 2, 5, 3)
    for actual, expected in zip(*results, strict=True):
        torch.testing.assert_close(actual, expected, rtol=0, atol=2e-5 * max(1.0, float(expected.detach().abs().max())))


@pytest.mark.parametrize("fades", ["nothing", "head", "features"])
def test_one_feature_and_strong_gates(fades):
    for features, strength in ((1, 1.0), (16, 1.0), (5, 1e4)):
        terms, _ = drawn(fades, "nothing", 9, features=features)
        terms = terms._replace(log_decay=None if terms.log_decay is None else terms.log_decay * strength)
        function = FUNCTIONS[_fla.TABLE[_fla.transition(terms)].name]
        for actual, expected in zip(
            _fla.scan_with(function, terms, None, -9.0, torch.float32), chunks(terms, None), strict=True
        ):
            torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


def test_queries_that_share_a_key_share_its_state():
    terms, _ = drawn("nothing", "nothing", 7, heads=6)
    sums = torch.randn(2, 2, 5, 3, generator=seeded(3))
    output, last = _fla.scan_with(simple_gla, terms, sums, -9.0, torch.float32)
    for actual, expected in zip((output, last), chunks(terms, sums), strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


@pytest.fixture
def here(monkeypatch):
    """fla on the host: its functions above, and no question of the device or of what is installed."""
    calls = []

    def function(module, name):
        calls.append(name)
        return FUNCTIONS[name]

    monkeypatch.setattr(_fla, "_function", function)
    monkeypatch.setattr(_fla, "refusal", _fla.unfit)
    return calls


def built(name):
    torch.manual_seed(0)
    mechanism = mechanisms.mechanism_type(name).sized(head_dim=8, num_heads=4, max_len=80, dropout=0.0)
    module = mechanism.gate_module(32, 4)
    gates = None if module is None else module(torch.randn(2, 80, 32)).detach().to(HALF)
    kv_heads = 4 if name == "log_linear" else 2
    query, key, value = (torch.randn(2, heads, 80, 8).to(HALF) for heads in (4, kv_heads, kv_heads))
    return mechanism, Call(query, key, value, mask=Causal() & Padding(torch.tensor([80, 33])), gates=gates)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "log_linear"])
def test_every_recurrence_runs_by_it_whole_and_from_a_past(name, here):
    mechanism, call = built(name)
    results = {}
    for kernel in ("chunks", "fla"):
        mechanism.kernel = kernel
        whole = mechanism(call)
        cut = [None if x is None else x[:, :, :70] for x in (call.query, call.key, call.value, call.gates)]
        rest = [None if x is None else x[:, :, 70:] for x in (call.query, call.key, call.value, call.gates)]
        outputs, state = mechanism.resume(Call(*cut[:3], mask=Causal(), gates=cut[3]), None)
        more, state = mechanism.resume(Call(*rest[:3], mask=Causal(), gates=rest[3]), state)
        results[kernel] = (whole, outputs, more, state[0])
    assert len(here) == 3
    assert len(set(here)) == 1
    for actual, expected in zip(results["fla"], results["chunks"], strict=True):
        assert actual.dtype == expected.dtype
        size = float(expected.detach().abs().max())
        torch.testing.assert_close(actual.float(), expected.float(), rtol=0, atol=0.02 * size)


def test_a_token_is_a_step_and_a_short_text_is_no_chunk(here):
    mechanism, call = built("gated_linear")
    short = Call(*(x[:, :, :63] for x in (call.query, call.key, call.value)), mask=Causal())
    mechanism(short)
    _, state = mechanism.resume(short, None)
    one = Call(*(x[:, :, 63:64] for x in (call.query, call.key, call.value)), mask=Causal())
    mechanism.kernel = "fla"
    mechanism.resume(one, state)
    assert not here
    mechanism.kernel = "auto"
    mechanism(call)
    assert here == ["chunk_gla"]
    assert str(mechanism.plan(call)) == (
        "kernel   fla: fla's chunked kernel, chunk_gla\nnot      chunks: fla comes first"
    )
    assert mechanism.plan(short).refusals == {"fla": "exact, but faster only from 64 tokens on"}
    # where nothing fades or goes, chunks are fast
    assert built("linear")[0].plan(call).refusals == {"fla": "exact, but faster only from 4,096 tokens on"}


def test_there_is_no_second_derivative(here):
    mechanism, call = built("retention")
    mechanism.kernel = "fla"
    query = call.query.clone().requires_grad_()
    output = mechanism(Call(query, call.key, call.value, mask=Causal()))
    torch.autograd.grad(output.sum(), query, retain_graph=True)
    with pytest.raises(Unsupported, match=r"fla's kernels have no second derivative: set mechanism.kernel = 'chunks'"):
        torch.autograd.grad(output.sum(), query, create_graph=True)


@on_the_host("the message names it")
def test_what_is_insisted_on_and_cannot_be(monkeypatch):
    mechanism, call = built("retention")
    mechanism.kernel = "fla"
    with pytest.raises(
        Unsupported, match="kernel 'fla' cannot compute this recurrence: the tensors are on cpu, and fla's"
    ):
        mechanism(call)
    mechanism.kernel = "flah"
    with pytest.raises(ConfigError, match="unknown kernel 'flah'; did you mean 'fla'"):
        mechanism(call)
    tree, call = built("log_linear")
    assert isinstance(tree, LogLinear)
    assert tree.plan(call).refusals == {"fla": "its states are a tree"}
    tree.kernel = "fla"
    with pytest.raises(Unsupported, match="recurrence: its states are a tree"):
        tree(call)


@pytest.mark.parametrize(
    ("fades", "erases", "dtype", "changes", "why"),
    [
        ("head", "nothing", HALF, {}, None),
        ("head", "nothing", torch.float32, {}, "it is in float32, which fla rounds to TF32 in products; allow it by"),
        ("nothing", "key", torch.float32, {}, "it is in float32, which chunk_delta_rule does not take"),
        ("features", "vector", torch.float32, {}, "it is in float32, which chunk_dplr_delta_rule does not take"),
        ("features", "key", torch.float16, {}, "it is in float16, which chunk_kda does not take"),
        ("features", "key", torch.float64, {}, "it is in float64, which chunk_kda does not take"),
        ("features", "nothing", HALF, {"features": 257}, "its keys have 257 features, and fla takes 256 at most"),
        ("features", "nothing", HALF, {"wide": 0}, "an axis is empty"),
    ],
)
def test_what_it_does_not_compute(fades, erases, dtype, changes, why):
    terms, _ = drawn(fades, erases, 1, **changes)
    reason = _fla.unfit(terms, dtype)
    assert reason is None if why is None else reason.startswith(why)


@pytest.fixture
def rounded():
    """Products of float32 on a GPU may round to TF32."""
    before = torch.backends.cuda.matmul.fp32_precision
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    yield
    torch.backends.cuda.matmul.fp32_precision = before


def test_float32_is_taken_where_products_may_round(rounded):
    terms, _ = drawn("features", "key", 1)
    assert _fla.unfit(terms, torch.float32) is None


def test_the_gradient_that_triton_compiles_wrongly_is_refused(monkeypatch):
    terms, _ = drawn("head", "key", 1)
    learns = terms._replace(query=terms.query.clone().requires_grad_())
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    for capability, release, refused in (
        ((9, 0), "3.6.0", True),
        ((9, 0), "3.7.0+git1", True),
        ((9, 0), "3.7.1", False),
        ((9, 0), "3.3.1", False),
        ((8, 0), "3.6.0", False),
    ):
        monkeypatch.setitem(sys.modules, "triton", SimpleNamespace(__version__=release))
        assert bool(_fla._miscompiled(learns)) == refused, (capability, release)
        assert _fla._miscompiled(terms) is None
        assert _fla._miscompiled(learns._replace(log_decay=None)) is None


def test_what_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr(_fla, "find_spec", lambda name: None)
    _fla._missing.cache_clear()
    assert _fla._missing() == "fla and triton cannot be imported: pip install 'headwise[fla]'"
    _fla._missing.cache_clear()


def test_retention_is_one_of_many_that_the_table_serves():
    """No mechanism names its kernel: the terms do."""
    call = built("retention")[1]
    terms, _ = Retention(torch.full((4,), 0.9)).terms(call, (), None)
    assert _fla.TABLE[_fla.transition(terms)].name == "chunk_simple_gla"


on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available() or bool(_fla._missing()), reason="needs CUDA and fla")
# of the largest number of an output, or of all gradients
TOLERANCES = {HALF: 0.02, torch.float32: 0.005}


def device_results(run, terms, share, sums, learns, **place):
    """Outputs, last state and gradients of this recurrence there, in float64 on the host."""
    leaves = [None if x is None else x.detach().to(**place).requires_grad_(learns) for x in (*terms[:6], sums)]
    placed = Terms(*leaves[:6])
    outputs = run(placed if share is None else placed._replace(key=placed.read * share.to(**place)), leaves[6])
    results = list(outputs)
    if learns:
        total = sum((x * torch.randn(x.shape, generator=seeded(7)).to(x)).sum() for x in outputs)
        inputs = [x for x in leaves if x is not None]
        results += torch.autograd.grad(total, inputs, allow_unused=True, materialize_grads=True)
    return [x.detach().double().cpu() for x in results]


@on_a_gpu
@pytest.mark.parametrize("dtype", TOLERANCES, ids=["bfloat16", "float32"])
@pytest.mark.parametrize(("fades", "erases"), _fla.TABLE)
@pytest.mark.parametrize("past", [False, True])
def test_the_kernels_are_the_recurrence_in_float64(fades, erases, past, dtype, rounded):
    for length in (1, 63, 64, 65, 1000):
        terms, share = drawn(fades, erases, length, features=64, wide=65)
        # numbers that the type holds, and a long memory
        terms = Terms(*(None if x is None else x.to(dtype).double() for x in terms))
        if terms.log_decay is not None:
            terms = terms._replace(log_decay=0.1 * terms.log_decay)
        share = share if erases == "key" else None
        sums = torch.randn(2, 2, 64, 65, generator=seeded(3), dtype=torch.float64) if past else None
        near = terms.map(lambda x: x.to("cuda", torch.float32))
        if _fla.refusal(near, dtype) is not None:
            pytest.skip(_fla.refusal(near, dtype))
        # forward alone where the gradient is refused
        learns = _fla.refusal(near.map(lambda x: x.requires_grad_()), dtype) is None
        results = device_results(
            lambda terms, sums: _fla.scan(terms, sums, float("-inf"), dtype),
            terms,
            share,
            sums,
            learns,
            device="cuda",
            dtype=torch.float32,
        )
        expected = device_results(chunks, terms, share, sums, learns, dtype=torch.float64)
        sizes = [max(1.0, float(exact.abs().max())) for exact in expected]
        for number, (near, exact) in enumerate(zip(results, expected, strict=True)):
            # a gradient of a decay is a difference of the others'
            error = float((near - exact).abs().max()) / (sizes[number] if number < 2 else max(sizes[2:]))
            assert error <= TOLERANCES[dtype], f"length {length}, tensor {number}: off by {error:.2g}"


@on_a_gpu
@pytest.mark.parametrize("name", ["gated_linear", "delta_rule", "kimi_delta", "rwkv7", "linear", "mlstm"])
def test_steps_follow_a_prefill_by_the_kernels(name):
    mechanism, call = built(name)
    mechanism.cuda()
    results = {}
    for kernel in ("chunks", "fla"):
        mechanism.kernel = kernel
        with torch.no_grad():
            state, outputs = None, []
            for low, high in ((0, 70), (70, 71), (71, 72), (72, 80)):
                query, key, value, gates = (
                    None if x is None else x[:, :, low:high].cuda()
                    for x in (call.query, call.key, call.value, call.gates)
                )
                output, state = mechanism.resume(Call(query, key, value, mask=Causal(), gates=gates), state)
                outputs.append(output)
        results[kernel] = torch.cat(outputs, 2).float()
    size = float(results["chunks"].abs().max())
    torch.testing.assert_close(results["fla"], results["chunks"], rtol=0, atol=0.02 * size)

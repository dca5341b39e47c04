"""Products and steps in C++: the numbers of PyTorch's operators."""

import copy
import ctypes
import pickle
import shutil
import subprocess
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from devices import on_the_host, seeded
from test_inference import LENS, decoded, memory_of, model
from test_native import needs_compiler
from torch import nn

from headwise import native
from headwise.caches import Cache
from headwise.decoding.beam import beam_search
from headwise.decoding.constraints import constraints
from headwise.decoding.sampling import greedy, sample
from headwise.errors import MachineError, ShapeError
from headwise.layers import compiled, inference
from headwise.layers.compiled import NativeProduct, NativeSearch
from headwise.layers.inference import DecodingBlock, for_inference, int8_product
from headwise.models.decoder_only import build_decoder
from headwise.models.transformer_config import DecoderConfig

pytestmark = [needs_compiler, on_the_host("C++ runs on a processor")]


@pytest.fixture
def all_rounded(monkeypatch):
    monkeypatch.setattr(inference, "SMALLEST_INT8", 1)


def by_pytorch(monkeypatch, make):
    """What is made where nothing can be compiled."""
    with monkeypatch.context() as patch:
        for module in (inference, compiled):
            patch.setattr(module, "build", lambda: native.Build(None, "as without a compiler"))
        return make()


@pytest.fixture
def calls(monkeypatch):
    """The number of searches that each step of whole decoders in C++ was for."""
    counts, step = [], NativeSearch.step

    def counted(self, x, parts):
        counts.append(len(parts))
        return step(self, x, parts)

    monkeypatch.setattr(NativeSearch, "step", counted)
    return counts


def nearly_the_same(fast, slow, steps, beams):
    """Logits of all steps, but for a few in which a number just between two of 8 bits is rounded the other way."""
    with torch.inference_mode():
        both = zip(decoded(fast, steps, beams), decoded(slow, steps, beams), strict=True)
        apart = torch.stack([(own - other).abs().max() / other.abs().max() for own, other in both])
    assert apart.max() < 0.03
    assert (apart > 1e-4).float().mean() < 0.2


@pytest.mark.parametrize("bits", [7, 8])
@pytest.mark.parametrize("sizes", [(97, 301), (4, 16), (1, 1), (128, 33), (2_048, 37)])
def test_a_product_is_that_of_pytorch(monkeypatch, sizes, bits):
    if bits > inference.int8_bits():
        pytest.skip("this processor has no exact sums of 8 bits")
    monkeypatch.setattr(inference, "int8_bits", lambda engine=None: bits)
    torch.manual_seed(3)
    plain = nn.Linear(*sizes)
    # of many rows oneDNN rounds a number between two of 8 bits the other way now and then
    fast, slow = int8_product(plain).native, by_pytorch(monkeypatch, lambda: int8_product(plain))._few
    generator = seeded(5)
    with torch.inference_mode():
        for rows in (*range(1, 17), 31, 32, 33, 70, 258):
            x = torch.randn(rows, sizes[0], generator=generator)
            for inputs in (
                x,
                x.abs(),
                -x.abs(),
                x * 1e-6,
                x * 1e5,
                torch.zeros_like(x),
                x.expand(2, rows, -1)[:1],
                torch._neg_view(x),
            ):
                torch.testing.assert_close(fast(inputs), slow(inputs), rtol=1e-6, atol=1e-6)


# what a processor without each of these computes with, and one whose tiles the system does not lend
OLDER = [
    [],
    ["-mno-amx-int8"],
    ["-mno-amx-int8", "-mno-avx512vnni"],
    ["-mno-amx-int8", "-mno-avx512vnni", "-mno-avxvnni"],
]


@pytest.mark.slow
@pytest.mark.parametrize("without", OLDER, ids=lambda flags: flags[-1] if flags else "not-lent")
def test_older_processors_compute_the_same(tmp_path, without):
    compiler = next(filter(None, map(shutil.which, native._COMPILERS)))
    path, source, text = tmp_path / "older.so", tmp_path / "older.cpp", native.SOURCE.read_text(encoding="utf-8")
    assert "REQUEST = 0x1023" in text
    source.write_text(text.replace("REQUEST = 0x1023", "REQUEST = 0x1fff"), encoding="utf-8")
    flags = [*native.FLAGS, *without, "-shared", "-fPIC"]
    if subprocess.run([compiler, *flags, "-o", path, source], capture_output=True, timeout=60).returncode:
        pytest.skip("no such processor")
    older, own = native._declared(ctypes.CDLL(str(path))), native.build().library
    assert not older.has_tiles()
    bits, generator = min(older.bits(), own.bits()), seeded(6)
    for inputs, outputs in ((97, 301), (64, 70), (1, 1)):
        weight = torch.randint(-127, 128, (outputs, inputs), dtype=torch.int8, generator=generator)
        sizes = weight, torch.rand(outputs, generator=generator), torch.randn(outputs, generator=generator), bits
        products = [NativeProduct(library, *sizes) for library in (older, own)]
        for rows in (1, 8, 9, 16, 17, 33, 70, 257):
            x = torch.randn(rows, inputs, generator=generator)
            torch.testing.assert_close(products[0](x), products[1](x), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("tiles", "threads", "rows", "few"),
    [
        *((True, 2, 1_000, True), (True, 3, 9, True), (True, 3, 40, True), (True, 3, 1_000, False)),
        *(
            (False, 1, 70, True),
            (False, 1, 75, False),
            (False, 2, 20, True),
            (False, 2, 40, False),
            (False, 2, 9, True),
        ),
    ],
)
def test_threads_share_a_large_product(monkeypatch, tiles, threads, rows, few):
    monkeypatch.setattr(compiled, "has_tiles", lambda: tiles)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    assert compiled.is_few(rows, 1_000_000) == few


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_number_that_is_not_finite_makes_all_nan(bad):
    x = torch.ones(3, 97)
    x[1, 5] = bad
    assert int8_product(nn.Linear(97, 5))(x).isnan().all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rows", [1, 5, 40])
def test_rows_of_another_type_are_read_in_float32(dtype, rows):
    product, x = int8_product(nn.Linear(97, 31)), torch.randn(rows, 97, generator=seeded(5)).to(dtype)
    output = product(x)
    assert output.dtype == dtype
    torch.testing.assert_close(output, product(x.float()).to(dtype))
    assert product(x[:0]).dtype == dtype


@pytest.mark.parametrize(
    "x", [torch.ones(2, 97).double(), torch.ones(2, 97, device="meta"), torch.ones(2, 96), torch.ones(2, 194)]
)
def test_cpp_reads_no_other_rows(x):
    product = int8_product(nn.Linear(97, 31))
    for whole in (torch.ones(2, 97).long(), torch.ones(2, 97).bool()):
        with pytest.raises(ShapeError, match="reads 97 numbers of float32 a row"):
            product(whole)
    with pytest.raises(ShapeError, match=f"reads 97 numbers of float32 a row on a processor, got rows of {x.shape[1]}"):
        product.native(x)


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda layer: pickle.loads(pickle.dumps(layer))], ids=["copied", "pickled"]
)
@pytest.mark.parametrize("bias", [True, False])
# what PyTorch multiplies many rows by, without tiles, is read by a storage that it means to remove
@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_a_product_may_be_copied(copied, bias):
    layer = inference.RoundedLinear(nn.Linear(97, 31, bias=bias), int8_product)
    other, x = copied(layer), torch.randn(5, 97, generator=seeded(5))
    assert other.product.native is not layer.product.native
    torch.testing.assert_close(other(x), layer(x), rtol=0, atol=0)


def test_a_pickled_product_is_not_read_without_a_compiler(monkeypatch):
    pickled = pickle.dumps(int8_product(nn.Linear(97, 31)))
    with pytest.raises(MachineError, match=r"in C\+\+ cannot be read here \(as without a compiler\): round the layer"):
        by_pytorch(monkeypatch, lambda: pickle.loads(pickled))


def test_a_twin_may_be_copied(all_rounded, calls):
    made = model(torch.float32).eval()
    plain, twin = for_inference(made), for_inference(made, "int8")
    pairs = [(copy.deepcopy(twin), twin), (for_inference(twin, "int8"), twin), (for_inference(plain, "int8"), twin)]
    with torch.inference_mode():
        for other, own in (*pairs, (for_inference(twin), plain)):
            torch.testing.assert_close(decoded(other, 5, 3), decoded(own, 5, 3), rtol=0, atol=0)
    assert len(calls) == 36


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("rows", [1, 5, 40])
def test_what_is_traced_computes_the_same(rows):
    layer = inference.RoundedLinear(nn.Linear(97, 31), int8_product)
    x, other = torch.randn(2, rows, 97, generator=seeded(5))
    with torch.no_grad():
        traced = torch.jit.trace(layer, x)
    torch.testing.assert_close(traced(other), layer(other), rtol=1e-5, atol=0.02)


def test_autocast_searches_like_float32(all_rounded):
    twin = for_inference(model(torch.float32).eval(), "int8")
    with torch.inference_mode():
        plain = decoded(twin, 5, 3)
        with torch.autocast("cpu", torch.bfloat16):
            cache = twin.decoder.start(memory_of(twin), torch.tensor([5, 0, 3]))
            # which C++ cannot read
            assert cache.layers[0][1].keys.dtype == torch.bfloat16
            for own, other in zip(decoded(twin, 5, 3), plain, strict=True):
                torch.testing.assert_close(own.float(), other, rtol=0, atol=0.1 * float(other.abs().max()))


OPTIONS = pytest.mark.parametrize(
    "options",
    [
        {"norm_order": "pre"},
        {"norm_order": "post", "position": "learned"},
        {"activation": "gelu", "num_kv_heads": 1},
        {"norm": "none", "d_model": 128, "num_heads": 2},
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)


@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize("few", [True, False])
def test_a_step_takes_one_token_of_each_row(monkeypatch, all_rounded, precision, few):
    for module in (compiled, inference):
        monkeypatch.setattr(module, "is_few", lambda rows, weights: few)
    twin = for_inference(model(torch.float32).eval(), precision)
    with torch.inference_mode():
        cache = twin.decoder.start(memory_of(twin), LENS)
        for rows in (0, 2, 4):
            with pytest.raises(ShapeError, match=f"each hypothesis, here 3 sentences x 1, got {rows}"):
                twin.decoder.step(torch.full((rows,), 5), cache)
        assert cache.length == 0
        assert twin.decoder.step(torch.full((3,), 5), cache).shape == (3, 19)


@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize(
    ("lens", "match"),
    [
        ([5, 9, 3], "up to 9, but there are 5 keys"),
        ([5, 3], r"\(2,\) do not fit; expected \(3\)"),
        ([5, -1, 3], "Padding: valid_lens"),
    ],
)
def test_lengths_are_those_of_the_memory(all_rounded, precision, lens, match):
    twin = for_inference(model(torch.float32).eval(), precision)
    with torch.inference_mode(), pytest.raises(ShapeError, match=match):
        twin.decoder.start(memory_of(twin), torch.tensor(lens))


@OPTIONS
@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("few", [True, False])
def test_a_step_is_that_of_pytorch(monkeypatch, all_rounded, calls, options, beams, few):
    made = model(torch.float32, **options).eval()
    fast = for_inference(made, "int8")
    slow = by_pytorch(monkeypatch, lambda: for_inference(made, "int8"))
    assert all(block.is_compiled for block in fast.decoder.blocks)
    assert not any(block.is_compiled for block in slow.decoder.blocks)
    # by one call, or product by product
    for module in (compiled, inference):
        monkeypatch.setattr(module, "is_few", lambda rows, weights: few)
    nearly_the_same(fast, slow, 21, beams)
    assert calls == [1] * 22 * few


@pytest.mark.parametrize(
    "options", [{"position": "rotary", "d_model": 18}, {"activation": "swiglu"}, {"norm": "rms"}, {"d_ff": 0}]
)
def test_what_is_not_in_cpp_stays_in_python(all_rounded, options):
    twin = for_inference(model(torch.float32, **options).eval(), "int8")
    blocks = [block for block in twin.decoder.blocks if isinstance(block, DecodingBlock)]
    assert not any(block.is_compiled for block in blocks)
    assert len(decoded(twin, 3, 2)) == 4


def test_only_products_of_8_bits_are_in_cpp():
    assert not any(block.is_compiled for block in for_inference(model(torch.float32)).decoder.blocks)


def test_more_hypotheses_than_lie_side_by_side_are_computed_in_python(monkeypatch, all_rounded):
    monkeypatch.setattr("headwise.models.transformer_cache.SIDE_BY_SIDE", 2)
    made = model(torch.float32).eval()
    fast = for_inference(made, "int8")
    slow = by_pytorch(monkeypatch, lambda: for_inference(made, "int8"))
    nearly_the_same(fast, slow, 5, 3)


@pytest.mark.parametrize("lens", [torch.tensor([[5, 9], [1, 9], [3, 9]])[:, 0], torch.tensor(5).expand(3)])
def test_lengths_may_be_a_view(all_rounded, lens):
    twin = for_inference(model(torch.float32).eval(), "int8")
    with torch.inference_mode():
        memory, logits = memory_of(twin), []
        for own in (lens, lens.clone().contiguous()):
            logits.append(twin.decoder.step(torch.tensor([4, 5, 6]), twin.decoder.start(memory, own)))
    torch.testing.assert_close(*logits, rtol=1e-3, atol=1e-3)


def test_a_norm_may_change_and_move(all_rounded):
    made = model(torch.float32).eval()
    twin = for_inference(made, "int8")
    with torch.inference_mode():
        before = decoded(twin, 2, 1)[0]
    norm = made.decoder.blocks[0].self_residual.before
    norm.weight.data = norm.weight.data * 2
    fresh = for_inference(made, "int8")
    with torch.inference_mode():
        torch.testing.assert_close(decoded(twin, 2, 1)[0], decoded(fresh, 2, 1)[0])
        assert not torch.equal(decoded(twin, 2, 1)[0], before)


def test_a_search_keeps_the_norms_that_it_reads(all_rounded):
    made = model(torch.float32).eval()
    twin, norms = for_inference(made, "int8"), [made.decoder.blocks[0].cross_residual.before, made.decoder.norm]
    with torch.inference_mode():
        expected = decoded(twin, 2, 1)
    parameters = [parameter for norm in norms for parameter in norm.parameters()]
    held = []
    for parameter in parameters:
        numbers = parameter.detach().numpy().copy()
        held.append(weakref.ref(numbers))
        parameter.data = torch.from_numpy(numbers)
    del numbers
    with torch.inference_mode():
        cache = twin.decoder.start(memory_of(twin), LENS)
        for parameter in parameters:
            parameter.data = torch.full_like(parameter, 7.0)
        # another search shows the new ones to its own steps alone
        others = twin.decoder.start(memory_of(twin), LENS)
        tokens = torch.randint(4, 19, (3,), generator=seeded(9))
        torch.testing.assert_close(twin.decoder.step(tokens, cache), expected[0], rtol=0, atol=0)
        assert not torch.equal(twin.decoder.step(tokens, others), expected[0])
        assert all(own() is not None for own in held)
        del cache
        assert all(own() is None for own in held)


def test_parameters_of_norms_may_be_views(all_rounded):
    made = model(torch.float32).eval()
    with torch.inference_mode():
        norm = made.decoder.blocks[0].self_residual.before
        norm.bias.fill_(0.3)
        plain = decoded(for_inference(made, "int8"), 2, 1)
    norm.weight = nn.Parameter(torch.stack([norm.weight.detach()] * 2, 1)[:, 0])
    norm.bias = nn.Parameter(torch.tensor([0.3]).expand(12))
    with torch.inference_mode():
        for own, other in zip(decoded(for_inference(made, "int8"), 2, 1), plain, strict=True):
            torch.testing.assert_close(own, other, rtol=0, atol=0)


def test_a_norm_that_cpp_cannot_read_leaves_the_search_to_python(all_rounded):
    made = model(torch.float32).eval()
    twin, norm = for_inference(made, "int8"), made.decoder.blocks[1].feed_forward_residual.before
    with torch.inference_mode():
        assert twin.decoder.start(memory_of(twin), LENS).native is not None
        norm.weight.data = norm.weight.data.double()
        assert twin.decoder.start(memory_of(twin), LENS).native is None


@OPTIONS
@pytest.mark.parametrize(
    "rules",
    [{}, {"min_len": 4, "banned": [3, 7]}, {"prefix": [[5], [], [6, 7]]}, {"no_repeat_ngram": 1}],
    ids=str,
)
def test_searches_find_the_same(monkeypatch, all_rounded, options, rules):
    made = model(torch.float32, **options).eval()
    twins = [for_inference(made, "int8"), by_pytorch(monkeypatch, lambda: for_inference(made, "int8"))]
    lens = torch.tensor([5, 0, 3])
    results = []
    for twin in twins:
        with torch.inference_mode():
            memory = twin.encoder(torch.randint(4, 19, (3, 5), generator=seeded(4)), lens)
            start = [twin.decoder.start(memory, lens) for _ in range(2)]
        limits = constraints([9, 7, 11], bos_id=1, eos_id=2, **rules)
        searches = [greedy(twin.decoder, start[0], limits), beam_search(twin.decoder, start[1], limits, beam_size=3)]
        results.append([hypothesis for found in searches for own in found for hypothesis in own])
    equal = [
        own.tokens == other.tokens and own.log_prob == pytest.approx(other.log_prob, abs=1e-4)
        for own, other in zip(*results, strict=True)
    ]
    # a number between two of 8 bits may be rounded either way
    assert sum(equal) >= len(equal) - 1


@pytest.fixture(scope="module")
def writers():
    """A decoder without memory, in C++ and by PyTorch."""
    torch.manual_seed(3)
    config = DecoderConfig(d_model=12, d_ff=23, num_heads=3, num_layers=2, max_len=97, position="learned")
    made = build_decoder(config, 19).eval()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inference, "SMALLEST_INT8", 1)
        return for_inference(made, "int8"), by_pytorch(patch, lambda: for_inference(made, "int8"))


@pytest.mark.parametrize("length", [0, 1, 6])
@pytest.mark.parametrize("beams", [1, 3])
def test_a_decoder_without_memory_goes_on_after_a_prompt(writers, length, beams):
    prompts = torch.randint(4, 19, (2, length), generator=seeded(5))
    fast, slow = ([], [])
    for twin, logits in zip(writers, (fast, slow), strict=True):
        with torch.inference_mode():
            cache = twin.start(prompts)
            assert cache.compiled == (twin is writers[0])
            logits.append(twin.step(torch.tensor([5, 6]), cache))
            cache.expand(beams)
            for step in range(20):
                rows = torch.randint(4, 19, (2 * beams,), generator=seeded(step))
                logits.append(twin.step(rows, cache))
    apart = torch.stack([(own - other).abs().max() for own, other in zip(fast, slow, strict=True)])
    assert apart.max() < 0.03 * slow[0].abs().max()


def test_searches_at_different_steps_share_one_call(all_rounded, calls):
    twin, tokens = for_inference(model(torch.float32).eval(), "int8"), torch.tensor([4, 5, 6])
    with torch.inference_mode():
        memory = memory_of(twin)

        def caches():
            first, second = (twin.decoder.start(memory, torch.tensor([5, 1, 3])) for _ in range(2))
            twin.decoder.step(tokens, first)
            first.expand(2)
            first.keep(torch.tensor([2, 0]))
            return first, second

        rows = torch.tensor([7, 8, 9, 10]), tokens
        both = caches()
        calls.clear()
        together = twin.decoder.step_all(rows, both)
        assert calls == [2]
        alone = torch.cat([twin.decoder.step(own, cache) for own, cache in zip(rows, caches(), strict=True)])
    # one scale for the rows of all
    torch.testing.assert_close(together, alone, rtol=0, atol=0.03 * float(alone.abs().max()))


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_samples_are_drawn_from_the_same_distributions(monkeypatch, all_rounded, temperature):
    made = model(torch.float32).eval()
    twins = [for_inference(made, "int8"), by_pytorch(monkeypatch, lambda: for_inference(made, "int8"))]
    found = []
    for twin in twins:
        with torch.inference_mode():
            cache = twin.decoder.start(memory_of(twin), torch.tensor([5, 0, 3]))
        rules = constraints([9, 7, 11], bos_id=1, eos_id=2)
        options = {"num_samples": 4, "temperature": temperature, "top_k": 5, "top_p": 0.9, "generator": seeded(8)}
        found.append([own.tokens for drawn in sample(twin.decoder, cache, rules, **options) for own in drawn])
    # a number on the border of two tokens may fall on either side
    assert sum(own == other for own, other in zip(*found, strict=True)) >= 10


def test_threads_search_at_once_with_one_twin(all_rounded):
    twin = for_inference(model(torch.float32).eval(), "int8")
    before = [decoded(twin, 30, beams) for beams in (1, 2, 3)]

    def search(beams):
        with torch.inference_mode():
            return decoded(twin, 30, beams)

    with ThreadPoolExecutor(3) as pool:
        for own, other in zip(pool.map(search, (1, 2, 3)), before, strict=True):
            torch.testing.assert_close(own, other, rtol=0, atol=0)


def test_rows_may_be_a_view(all_rounded):
    twin = for_inference(model(torch.float32).eval(), "int8")
    with torch.inference_mode():
        steps = []
        for rows in (torch.randn(12, 3, generator=seeded(2)).T, torch.randn(12, 3, generator=seeded(2)).T.contiguous()):
            cache = twin.decoder.start(memory_of(twin), torch.tensor([5, 0, 3]))
            steps.append(cache.native.step(rows, [cache.native.parts(rows, cache, cache.advance())]))
    torch.testing.assert_close(*steps, rtol=0, atol=0)


def test_a_search_may_change_between_cpp_and_python(monkeypatch, all_rounded, calls):
    made = model(torch.float32).eval()
    mixed, slow = for_inference(made, "int8"), by_pytorch(monkeypatch, lambda: for_inference(made, "int8"))
    count = iter(range(100))
    monkeypatch.setattr(compiled, "is_few", lambda rows, weights: next(count) // 3 % 2 == 0)
    nearly_the_same(mixed, slow, 30, 3)
    assert 5 < len(calls) < 26


@pytest.mark.parametrize("beams", [1, 3])
def test_a_search_goes_on_from_a_copy_of_its_cache(all_rounded, calls, beams):
    twin = for_inference(model(torch.float32).eval(), "int8")
    rows = torch.randint(4, 19, (3 * beams,), generator=seeded(5))
    with torch.inference_mode():
        cache = twin.decoder.start(memory_of(twin), LENS)
        twin.decoder.step(torch.tensor([4, 5, 6]), cache)
        cache.expand(beams)
        twin.decoder.step(rows, cache)
        copied, logits = copy.deepcopy(cache), ([], [])
        # in turn: neither writes into the other
        for step in range(20):
            own = torch.randint(4, 19, (2, 3 * beams), generator=seeded(step))
            logits[0].append(twin.decoder.step(own[0], cache))
            twin.decoder.step(own[1], copied)
        again = copy.deepcopy(twin.decoder.start(memory_of(twin), LENS))
        twin.decoder.step(torch.tensor([4, 5, 6]), again)
        again.expand(beams)
        twin.decoder.step(rows, again)
        for step in range(20):
            own = torch.randint(4, 19, (2, 3 * beams), generator=seeded(step))
            logits[1].append(twin.decoder.step(own[0], again))
    torch.testing.assert_close(*logits, rtol=0, atol=0)
    assert len(calls) == 64


def test_what_a_search_left_is_not_kept_alive(all_rounded):
    twin = for_inference(model(torch.float32).eval(), "int8")
    with torch.inference_mode():
        cache = twin.decoder.start(memory_of(twin), LENS)
        twin.decoder.step(torch.tensor([4, 5, 6]), cache)
        left = [weakref.ref(part) for layer in cache.layers for kept in layer for part in (kept.keys, kept.values)]
        cache.keep(torch.tensor([2, 0]))
    assert all(own() is None for own in left)


def test_a_step_with_the_cache_of_another_decoder_says_what_it_takes(all_rounded):
    class Other(Cache):
        expand = reorder = keep = print

    twin = for_inference(model(torch.float32).eval(), "int8")
    with pytest.raises(AssertionError, match=r"those that its start\(\) and empty\(\) make"):
        twin.decoder.step(torch.tensor([4, 5, 6]), Other())

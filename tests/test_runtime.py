"""Settings of the machine: chosen from measurements that tests make up, left alone when set before, told truthfully."""

import math

import pytest
import torch

import headwise
from headwise import runtime
from headwise.errors import ConfigError
from headwise.runtime import Measured, better, describe_set, training_precision

MATMUL = torch.backends.mkldnn.matmul


@pytest.fixture(autouse=True)
def restored(monkeypatch):
    """The process as it was: threads and product path; its allocator is never touched."""
    threads, precision = torch.get_num_threads(), MATMUL.fp32_precision
    monkeypatch.setattr(runtime, "keep_freed_memory", lambda: True)
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)
    yield
    torch.set_num_threads(threads)
    MATMUL.fp32_precision = precision


def measures(monkeypatch, default, other):
    """Makes the two paths look as measured, whatever this processor does."""

    def now():
        return other if MATMUL.fp32_precision == "bf16" else default

    monkeypatch.setattr(runtime, "_error", lambda: now().error)
    monkeypatch.setattr(runtime, "_seconds", lambda run: now().seconds)


EXACT = 8e-7


@pytest.mark.parametrize(
    ("default", "other", "expected", "reason"),
    [
        ((2.0, 4e-7), (1.0, EXACT), "oneDNN", "2.00 times the speed of the default, error 8e-07 against 4e-07"),
        ((1.04, 4e-7), (1.0, EXACT), "default", "oneDNN has 1.04 times its speed, error 8e-07 against 4e-07"),
        ((1.0, 4e-7), (2.0, EXACT), "default", "oneDNN has 0.50 times its speed, error 8e-07 against 4e-07"),
        # fast, but not the same numbers: processors with fast bfloat16
        ((2.0, 4e-7), (0.5, 3e-3), "default", "oneDNN would round to bfloat16 here, error 3e-03 against 4e-07"),
        ((1.0, 4e-7), (0.0, EXACT), "default", "the clock of this machine is too coarse to compare with oneDNN"),
        ((0.0, 4e-7), (0.0, EXACT), "default", "the clock of this machine is too coarse to compare with oneDNN"),
        ((1.0, 4e-7), (math.nan, EXACT), "default", "the clock of this machine is too coarse to compare with oneDNN"),
    ],
)
def test_the_faster_product_is_chosen_if_it_is_as_accurate(monkeypatch, default, other, expected, reason):
    default, other = Measured(*default), Measured(*other)
    chosen, why = better(default, other)
    assert chosen == expected
    assert why.startswith(reason)
    measures(monkeypatch, default, other)
    before = MATMUL.fp32_precision
    settings = runtime.apply()
    assert (settings.products, settings.reason) == (chosen, why)
    assert MATMUL.fp32_precision == ("bf16" if expected == "oneDNN" else before)


def test_only_products_of_the_processor_are_set(monkeypatch):
    measures(monkeypatch, Measured(2.0, 4e-7), Measured(1.0, EXACT))
    before = torch.backends.cuda.matmul.fp32_precision
    assert runtime.apply().products == "oneDNN"
    assert torch.backends.cuda.matmul.fp32_precision == before


def test_a_setting_that_changes_no_product_is_not_kept_for_a_lucky_time(monkeypatch):
    measures(monkeypatch, Measured(2.0, EXACT), Measured(1.0, EXACT))
    before = MATMUL.fp32_precision
    settings = runtime.apply()
    assert (settings.products, settings.reason) == ("default", "oneDNN takes no float32 products here")
    assert MATMUL.fp32_precision == before


def test_small_recurrent_cells_multiply_too_few_numbers_for_onednn(monkeypatch):
    measures(monkeypatch, Measured(1.0, 4e-7), Measured(1.0, EXACT))
    for before, model, inside in (
        ("bf16", torch.nn.Sequential(torch.nn.GRUCell(2, 2)), "ieee"),
        ("bf16", torch.nn.LSTM(2, 2), "ieee"),
        ("bf16", torch.nn.Linear(2, 2), "bf16"),
        ("bf16", torch.nn.GRUCell(128, 128), "bf16"),
        ("none", torch.nn.GRUCell(2, 2), "none"),
    ):
        MATMUL.fp32_precision = before
        with runtime.products_for(model):
            assert MATMUL.fp32_precision == inside
        assert MATMUL.fp32_precision == before


@pytest.mark.parametrize(
    ("error", "words"),
    [(3e-3, "products are not float32, error 3e-03"), (EXACT, "products are float32, error 8e-07")],
)
def test_what_was_set_before_is_kept_and_told(monkeypatch, error, words):
    measures(monkeypatch, Measured(1.0, EXACT), Measured(1.0, error))
    MATMUL.fp32_precision = "bf16"
    settings = runtime.apply()
    assert (settings.products, settings.reason) == ("oneDNN", f"precision 'bf16' was set before: {words}")
    assert settings.reason == describe_set("bf16", error)
    assert MATMUL.fp32_precision == "bf16"


@pytest.mark.parametrize(
    ("where", "name", "value", "reason"),
    [
        (torch.accelerator, "is_available", lambda: True, "as PyTorch sets it, since there is an accelerator"),
        (torch.backends.mkldnn, "is_available", lambda: False, "this PyTorch has no oneDNN"),
    ],
)
def test_where_nothing_is_tried(monkeypatch, where, name, value, reason):
    monkeypatch.setattr(where, name, value)
    monkeypatch.setattr(runtime, "_seconds", lambda run: pytest.fail("measured"))
    assert runtime.apply().reason == reason


def test_what_is_switched_off_is_left_alone(monkeypatch):
    monkeypatch.setattr(runtime, "_seconds", lambda run: pytest.fail("measured"))
    monkeypatch.setattr(runtime, "keep_freed_memory", lambda: pytest.fail("set"))
    settings = runtime.apply(threads=2, keep_memory=False, fast_products=False)
    assert settings == runtime.Settings(2, False, "default", "as PyTorch sets it")
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("threads", [0, -1])
def test_number_of_threads(threads):
    with pytest.raises(ConfigError, match=rf"threads \({threads}\) must be at least 1"):
        runtime.apply(threads=threads)


def test_the_real_measurement_changes_no_number_and_no_random_state():
    state = torch.get_rng_state()
    runtime.apply()
    assert runtime.gigaflops(torch.float32, 64) > 0
    assert torch.equal(torch.get_rng_state(), state)
    left, right = torch.randn(211, 307), torch.randn(307, 101)
    torch.testing.assert_close(left @ right, (left.double() @ right.double()).float(), rtol=1e-5, atol=1e-4)


def test_a_clock_that_stands_still_divides_by_nothing(monkeypatch):
    monkeypatch.setattr(runtime, "process_time", lambda: 1.0)
    assert math.isfinite(runtime.gigaflops(torch.float32, 8))
    assert runtime.apply().products in ("default", "oneDNN")


def test_a_clock_of_coarse_ticks_still_measures(monkeypatch):
    passed = [0.0]
    monkeypatch.setattr(runtime, "process_time", lambda: passed[0] // 0.004 * 0.004)

    def run():
        passed[0] += 0.001

    assert runtime._seconds_each(run) == pytest.approx(0.001, rel=0.1)


@pytest.mark.parametrize(("ratio", "expected"), [(6.0, "bf16"), (1.5, "bf16"), (1.4, "fp32"), (0.1, "fp32")])
def test_precision_of_training_follows_the_rates(ratio, expected):
    precision, reason = training_precision(100.0, 100.0 * ratio)
    assert precision == expected
    assert reason == f"products in bfloat16 have {ratio} times the rate of float32 here"


def test_report_is_in_words(monkeypatch):
    settings = runtime.Settings(1, True, "default", "measured")
    monkeypatch.setattr(runtime, "apply", lambda: settings)
    monkeypatch.setattr(runtime, "gigaflops", lambda dtype, size=768: 100.0 if dtype == torch.float32 else 400.0)
    rows = {what: (value, advice) for what, value, advice in runtime.report()}
    assert rows["processor"][0].endswith("cores")
    assert rows["threads"] == ("1", "--threads N uses more cores")
    assert rows["matrix products"] == ("float32 100, bfloat16 400 GFLOP/s a thread", "")
    assert rows["float32 products"] == ("default: measured", "")
    assert rows["freed memory"] == ("kept after a step", "")
    assert rows["bfloat16"] == ("fast here", "training.precision=auto trains faster")
    settings = runtime.Settings(2, False, "oneDNN", "measured")
    monkeypatch.setattr(runtime, "gigaflops", lambda dtype, size=768: 100.0)
    rows = {what: (value, advice) for what, value, advice in runtime.report()}
    given = "given back to the system after a step"
    assert rows["freed memory"] == (given, "needs glibc; large tensors cost page faults")
    assert rows["threads"] == ("2", "")
    assert rows["bfloat16"] == ("not faster", "")


def test_tune_is_the_public_name():
    assert headwise.tune is runtime.apply


def test_memory_setting_is_asked_of_glibc_alone(monkeypatch):
    asked = []

    class Library:
        def mallopt(self, what, value):
            asked.append((what, value))
            return 1

        def malloc_trim(self, pad):
            asked.append(pad)
            return 1

    monkeypatch.undo()
    monkeypatch.setattr(runtime.ctypes, "CDLL", lambda name: Library())
    monkeypatch.setattr(runtime.sys, "platform", "linux")
    monkeypatch.setattr(runtime.platform, "libc_ver", lambda: ("glibc", "2.36"))
    assert runtime.keep_freed_memory()
    # no memory maps for large blocks, and no giving back from the end
    assert asked == [(-4, 0), (-1, 2**31 - 1)]
    # large blocks have maps of their own again, and the end goes back
    assert runtime.return_freed_memory()
    assert {option for option, _ in asked[2:]} == {-4, -3, -1}
    assert asked[2:][0] == (-4, 2**16)
    del asked[2:]
    assert runtime.release_freed_memory()
    assert asked[2:] == [0]
    monkeypatch.setattr(runtime.platform, "libc_ver", lambda: ("", ""))
    assert not runtime.keep_freed_memory()
    assert not runtime.return_freed_memory()
    assert not runtime.release_freed_memory()

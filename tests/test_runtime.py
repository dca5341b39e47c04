"""Settings of the machine: applied once, undone by nobody, refused when they make no sense, reported in words."""

import subprocess
import sys

import pytest
import torch

import headwise
from headwise import runtime
from headwise.errors import ConfigError


@pytest.fixture(autouse=True)
def restored(monkeypatch):
    """The process as it was: threads, product path, and whether settings were applied."""
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    monkeypatch.setattr(runtime, "_applied", None)
    # the allocator of the test process stays as it is
    monkeypatch.setattr(runtime, "keep_freed_memory", lambda: True)
    yield
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision(precision)


def chosen(monkeypatch, fast, slow, error):
    """What is chosen when the second path takes `fast` against `slow` seconds and is wrong by `error`."""
    settings = iter([slow, fast] * 7)
    monkeypatch.setattr(runtime, "_seconds", lambda left, right: next(settings))
    plain = torch.Tensor.__matmul__

    def product(left, right):
        result = plain(left, right)
        return result * (1 + error) if torch.get_float32_matmul_precision() == "medium" else result

    monkeypatch.setattr(torch.Tensor, "__matmul__", product)
    return runtime.choose_products()


def test_settings_are_applied_once(monkeypatch):
    counted = []
    monkeypatch.setattr(runtime, "choose_products", lambda: counted.append(1) or ("highest", "measured"))
    first = runtime.apply(threads=1)
    assert (first.threads, first.keeps_memory, first.products, first.reason) == (1, True, "highest", "measured")
    assert runtime.apply() == first
    assert runtime.apply(threads=2).threads == 2
    assert torch.get_num_threads() == 2
    assert counted == [1]


def test_what_is_switched_off_is_left_alone(monkeypatch):
    monkeypatch.setattr(runtime, "choose_products", lambda: pytest.fail("measured"))
    monkeypatch.setattr(runtime, "keep_freed_memory", lambda: pytest.fail("set"))
    settings = runtime.apply(keep_memory=False, fast_products=False)
    assert (settings.keeps_memory, settings.products, settings.reason) == (False, "highest", "as PyTorch sets it")


@pytest.mark.parametrize("threads", [0, -1])
def test_number_of_threads(threads):
    with pytest.raises(ConfigError, match=rf"threads \({threads}\) must be at least 1"):
        runtime.apply(threads=threads)


@pytest.mark.parametrize(
    ("fast", "slow", "error", "expected"),
    [
        (1.0, 2.0, 0.0, "medium"),
        (1.0, 1.04, 0.0, "highest"),
        (2.0, 1.0, 0.0, "highest"),
        # bfloat16 rounding: fast, but not the same numbers
        (1.0, 2.0, 2**-8, "highest"),
    ],
)
def test_the_faster_product_is_chosen_if_it_is_as_accurate(monkeypatch, fast, slow, error, expected):
    setting, reason = chosen(monkeypatch, fast, slow, error)
    assert setting == expected
    assert torch.get_float32_matmul_precision() == expected
    assert reason.startswith(f"oneDNN {slow / fast:.2f} times the speed of MKL, error ")


def test_products_keep_their_accuracy():
    runtime.choose_products()
    left, right = torch.randn(211, 307), torch.randn(307, 101)
    torch.testing.assert_close(left @ right, (left.double() @ right.double()).float(), rtol=1e-5, atol=1e-4)


def test_report_is_in_words(monkeypatch):
    monkeypatch.setattr(runtime, "gigaflops", lambda dtype, size=768: 100.0 if dtype == torch.float32 else 400.0)
    monkeypatch.setattr(runtime, "choose_products", lambda: ("highest", "measured"))
    rows = {what: (value, advice) for what, value, advice in runtime.report()}
    assert rows["threads"] == ("1", "--threads N uses more cores")
    assert rows["matrix products"] == ("float32 100, bfloat16 400 GFLOP/s a thread", "")
    assert rows["float32 products"] == ("highest: measured", "")
    assert rows["freed memory"] == ("kept after a step", "")
    assert rows["bfloat16"] == ("fast here", "training.precision=bf16 trains faster")
    monkeypatch.setattr(runtime, "gigaflops", lambda dtype, size=768: 100.0)
    assert {what: value for what, value, _ in runtime.report()}["bfloat16"] == "not faster than float32 here"
    assert all(isinstance(text, str) for row in runtime.report() for text in row)


def test_report_tells_what_is_missing(monkeypatch):
    monkeypatch.setattr(runtime, "keep_freed_memory", lambda: False)
    monkeypatch.setattr(runtime, "choose_products", lambda: ("highest", "measured"))
    monkeypatch.setattr(runtime, "gigaflops", lambda dtype, size=768: 1.0)
    rows = {what: (value, advice) for what, value, advice in runtime.report()}
    given = "given back to the system after a step"
    assert rows["freed memory"] == (given, "needs glibc; large tensors cost page faults")


def test_rate_and_name():
    assert runtime.gigaflops(torch.float32, 64) > 0
    assert runtime.processor().endswith("cores")


def test_tune_is_the_public_name():
    assert headwise.tune is runtime.apply


@pytest.mark.slow
def test_memory_setting_is_taken_in_a_process_of_its_own():
    code = "import platform, sys; from headwise.runtime import keep_freed_memory as keep;"
    code += "sys.exit(0 if keep() == (platform.libc_ver()[0] == 'glibc') else 1)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

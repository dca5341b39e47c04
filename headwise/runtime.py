"""What this machine does well: threads, memory allocator, the fast exact path of float32 products.

Applied by the command line and by `headwise.tune()`, never by an import; `headwise doctor` reports it. Nothing here
changes what is computed beyond float32 rounding, which is measured before use.
"""

import ctypes
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import process_time

import torch

from headwise.errors import ConfigError

# parameters of mallopt(3) in glibc
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4


@dataclass(frozen=True)
class Settings:
    """What was applied: threads in use, whether freed memory is kept, and the float32 product path with its reason."""

    threads: int
    keeps_memory: bool
    products: str
    reason: str


_applied: Settings | None = None


def apply(threads: int | None = None, *, keep_memory: bool = True, fast_products: bool = True) -> Settings:
    """Sets up this process for speed, once; a later call changes only the number of threads.

    Args:
        threads: processor threads; PyTorch's own choice if None.
        keep_memory: do not give freed memory back to the system after every step.
        fast_products: use the faster of two float32 product paths if it is as accurate.
    """
    global _applied
    if threads is not None:
        if threads < 1:
            raise ConfigError(f"threads ({threads}) must be at least 1")
        torch.set_num_threads(threads)
    if _applied is None:
        kept = keep_memory and keep_freed_memory()
        products, reason = choose_products() if fast_products else ("highest", "as PyTorch sets it")
        _applied = Settings(torch.get_num_threads(), kept, products, reason)
    else:
        _applied = Settings(torch.get_num_threads(), _applied.keeps_memory, _applied.products, _applied.reason)
    return _applied


def keep_freed_memory() -> bool:
    """Tells glibc to keep what is freed: else every large tensor is new pages from the kernel, cleared on first touch.

    Returns whether the C library took it. Costs some resident memory.
    """
    if sys.platform != "linux" or platform.libc_ver()[0] != "glibc":
        return False
    library = ctypes.CDLL(None)
    return bool(library.mallopt(_M_MMAP_MAX, 0)) and bool(library.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1))


def choose_products() -> tuple[str, str]:
    """Measures both float32 product paths of the CPU and sets the better one: (setting, reason).

    PyTorch multiplies float32 matrices with MKL; "medium" moves them to oneDNN, which is twice as fast on some
    processors. On others "medium" may round to bfloat16: it is used only if its error is that of float32.
    """
    generator = torch.Generator().manual_seed(0)
    # the shape of a training step; smaller ones are for `small_products`
    left = torch.randn(1024, 256, generator=generator)
    right = torch.randn(256, 1024, generator=generator)
    exact = left.double() @ right.double()
    before = torch.get_float32_matmul_precision()
    seconds: dict[str, list[float]] = {"highest": [], "medium": []}
    errors: dict[str, float] = {}
    # turn by turn, in processor time: what else runs on the machine slows both alike
    for _ in range(7):
        for setting, times in seconds.items():
            torch.set_float32_matmul_precision(setting)
            errors[setting] = float(((left @ right).double() - exact).abs().max() / exact.abs().max())
            times.append(_seconds(left, right))
    ratio = min(seconds["highest"]) / min(seconds["medium"])
    accurate = errors["medium"] <= 4 * errors["highest"] + 1e-7
    chosen = "medium" if accurate and ratio > 1.05 else "highest"
    torch.set_float32_matmul_precision(chosen if chosen == "medium" else before)
    facts = f"oneDNN {ratio:.2f} times the speed of MKL, error {errors['medium']:.0e} against {errors['highest']:.0e}"
    return chosen, facts


@contextmanager
def small_products(multiplications: int = 0) -> Iterator[None]:
    """Inside, float32 products of about this size take MKL: oneDNN costs some 15 microseconds a call, more if new.

    For loops over few rows, such as decoding, where large weights are packed for oneDNN anyway.
    """
    before = torch.get_float32_matmul_precision()
    if before == "highest" or multiplications > 1_000_000:
        yield
        return
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _seconds(left: torch.Tensor, right: torch.Tensor) -> float:
    start = process_time()
    _ = left @ right
    return process_time() - start


def gigaflops(dtype: torch.dtype, size: int = 768) -> float:
    """Rate of a square matrix product with the present settings, in 10^9 operations per second of one thread."""
    left = torch.randn(size, size).to(dtype)
    fastest = min(_seconds(left, left) for _ in range(8))
    return 2 * size**3 / fastest / 1e9


def processor() -> str:
    """Name of the processor, its vector instructions as PyTorch uses them, and the number of cores."""
    name = _about("model name") or platform.processor() or platform.machine()
    return f"{name}, {torch.backends.cpu.get_cpu_capability()}, {os.cpu_count()} cores"


def is_wide_amd() -> bool:
    """Whether this is an AMD processor with AVX-512."""
    return _about("vendor_id") == "AuthenticAMD" and torch.backends.cpu.get_cpu_capability() == "AVX512"


def _about(field: str) -> str:
    """A field of the first processor, as Linux tells it; "" if it does not."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().split("\n") if info.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(field)), "")


def report() -> list[tuple[str, str, str]]:
    """(what, value, advice) rows for `headwise doctor`; advice is empty where nothing is to be done."""
    settings = apply()
    rates = f"float32 {gigaflops(torch.float32):.0f}, bfloat16 {gigaflops(torch.bfloat16):.0f} GFLOP/s a thread"
    kept = "kept after a step" if settings.keeps_memory else "given back to the system after a step"
    return [
        ("processor", processor(), ""),
        ("accelerator", torch.cuda.get_device_name() if torch.cuda.is_available() else "none", ""),
        ("threads", str(settings.threads), "" if settings.threads > 1 else "--threads N uses more cores"),
        ("matrix products", rates, ""),
        ("float32 products", f"{settings.products}: {settings.reason}", ""),
        ("freed memory", kept, "" if settings.keeps_memory else "needs glibc; large tensors cost page faults"),
        ("bfloat16", *_bfloat16()),
    ]


def _bfloat16() -> tuple[str, str]:
    fast = gigaflops(torch.bfloat16) > 1.3 * gigaflops(torch.float32)
    return ("fast here", "training.precision=bf16 trains faster") if fast else ("not faster than float32 here", "")

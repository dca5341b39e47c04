"""What this machine does well: threads, memory allocator, the faster exact path of float32 products.

Applied by the command line and by `headwise.tune()`, never by an import or inside a call; `headwise doctor` applies it
and reports.
Nothing here changes what is computed beyond float32 rounding, which is measured before use.
"""

import ctypes
import math
import os
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from time import process_time
from typing import Any

import torch
from torch import nn

from headwise.errors import ConfigError

# typed as a module, which says nothing of its settings
_mkldnn: Any = torch.backends.mkldnn

# parameters of mallopt(3) in glibc
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_MMAP_MAX = -1, -3, -4
# how the allocators of the host and of Metal say that memory is out
_OUT_OF_MEMORY = ("DefaultCPUAllocator", "not enough memory", "out of memory")
# the largest error of a float32 product in relation to its largest number; bfloat16 has some 3e-3
_FLOAT32_ERROR = 1e-5
# with 64 rows, what oneDNN gains on a product of this weight is about the 20 us in which it prepares one
_SMALL_WEIGHT = 2**15
# processor time that any clock measures well, and runs that are tried for it
_VISIBLE_S, _MOST_RUNS = 0.05, 64


@dataclass(frozen=True)
class Settings:
    """What is in effect: threads, whether freed memory is kept, who multiplies float32 matrices, and why.

    `products` is "default" (PyTorch's choice, MKL on most processors) or "oneDNN".
    """

    threads: int
    keeps_memory: bool
    products: str
    reason: str


@dataclass(frozen=True)
class Measured:
    """One path of float32 products: seconds of the fastest run, and its largest error in relation to the result."""

    seconds: float
    error: float


def apply(threads: int | None = None, *, keep_memory: bool = True, fast_products: bool = True) -> Settings:
    """Sets up this process for speed and returns the settings in effect. Call it before other threads compute.

    How float32 matrices are multiplied is chosen for training. Decoding multiplies few rows at a time, for which oneDNN
    has a slow start, so the verbs that only predict leave it out. A precision that was set before is kept and reported.

    Args:
        threads: number of CPU threads; None for PyTorch's choice.
        keep_memory: do not return freed memory to the system after every step.
        fast_products: let oneDNN multiply float32 matrices if that is faster here and as accurate.
    Raises: ConfigError: threads below 1.
    """
    if threads is not None:
        if threads < 1:
            raise ConfigError(f"threads ({threads}) must be at least 1")
        torch.set_num_threads(threads)
    keeps_memory = keep_memory and keep_freed_memory()
    products, reason = choose_products(try_other=fast_products)
    return Settings(torch.get_num_threads(), keeps_memory, products, reason)


@contextmanager
def threads_of(count: int) -> Iterator[None]:
    """So many threads of PyTorch for what is inside; then as many as before.

    >>> with threads_of(1):
    ...     torch.get_num_threads()
    1
    """
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def keep_freed_memory() -> bool:
    """Tells glibc to keep what is freed: else every large tensor is new pages from the kernel, cleared on first touch.

    Returns whether the C library took it. Costs some resident memory.
    """
    library = _glibc()
    if library is None:
        return False
    return bool(library.mallopt(_M_MMAP_MAX, 0)) and bool(library.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1))


def return_freed_memory() -> bool:
    """Tells glibc to give every large tensor pages of its own, which go back when it is freed: so memory is measured.

    Returns whether the C library took it. The opposite of `keep_freed_memory`, which is told again where speed counts.
    """
    library = _glibc()
    options = {_M_MMAP_MAX: 2**16, _M_MMAP_THRESHOLD: 2**16, _M_TRIM_THRESHOLD: 2**17}
    return library is not None and all(library.mallopt(option, value) for option, value in options.items())


def release_freed_memory() -> bool:
    """Returns to the system what glibc has kept so far, in some 10 ms; whether there was any."""
    library = _glibc()
    return library is not None and bool(library.malloc_trim(0))


def _glibc() -> Any:
    if sys.platform != "linux" or platform.libc_ver()[0] != "glibc":
        return None
    return ctypes.CDLL(None)


def choose_products(*, try_other: bool = True) -> tuple[str, str]:
    """Measures the paths of float32 products of the processor and sets the better one: ("default" or "oneDNN", why).

    `torch.backends.mkldnn.matmul.fp32_precision = "bf16"` moves products to oneDNN and allows it to round to bfloat16.
    Processors without fast bfloat16 do not round, and some multiply faster so; those that would round keep the default.
    Short rows of attention, whose products oneDNN prepares one by one, are then computed by the definition.
    """
    matmul = _mkldnn.matmul
    before = matmul.fp32_precision
    if before not in ("none", "ieee"):
        return "oneDNN", describe_set(before, _error())
    if not try_other:
        return "default", "as PyTorch sets it"
    if torch.accelerator.is_available():
        # the setting reaches products of Intel's accelerators, and compiled code of others asks for one value of both
        return "default", "as PyTorch sets it, since there is an accelerator"
    if not torch.backends.mkldnn.is_available():
        return "default", "this PyTorch has no oneDNN"
    default = Measured(math.inf, _error())
    with products_as(before):
        matmul.fp32_precision = "bf16"
        other = Measured(math.inf, _error())
        if other.error == default.error:
            # to the last digit: the same products, whose times would differ by chance
            return "default", "oneDNN takes no float32 products here"
        if other.error <= _FLOAT32_ERROR:
            default, other = _timed(default, other)
    chosen, reason = better(default, other)
    if chosen == "oneDNN":
        matmul.fp32_precision = "bf16"
    return chosen, reason


@contextmanager
def products_as(precision: str) -> Iterator[bool]:
    """Float32 products as they were in another process, `fp32_precision` being `precision`, for work that must repeat.

    Gives whether they are so: not where they would not be float32 here. The setting of before is put back.
    """
    before = _mkldnn.matmul.fp32_precision
    try:
        if precision in ("none", "ieee", "bf16") and precision != before:
            _mkldnn.matmul.fp32_precision = precision
            if _error() > _FLOAT32_ERROR:
                _mkldnn.matmul.fp32_precision = before
        yield _mkldnn.matmul.fp32_precision == precision
    finally:
        _mkldnn.matmul.fp32_precision = before


@contextmanager
def products_for(model: nn.Module) -> Iterator[None]:
    """Float32 products by PyTorch's choice for a model of small recurrent cells; the setting of before is put back.

    They multiply the rows of one time step, too few numbers to make up for oneDNN's slow start.
    """
    cells = [part for part in model.modules() if isinstance(part, nn.RNNBase | nn.RNNCellBase)]
    small = all(weight.numel() < _SMALL_WEIGHT for cell in cells for weight in cell.parameters())
    before = _mkldnn.matmul.fp32_precision
    with products_as("ieee" if cells and small and before != "none" else before):
        yield


def onednn_multiplies() -> bool:
    """Whether `fp32_precision = "bf16"` changes a float32 product here: none differs where oneDNN takes none."""
    with products_as("ieee"):
        default = _error()
        _mkldnn.matmul.fp32_precision = "bf16"
        return _error() != default


def better(default: Measured, other: Measured) -> tuple[str, str]:
    """Which of two measured paths to take, ("default" or "oneDNN", why).

    >>> better(Measured(2.0, 4e-7), Measured(1.0, 8e-7))
    ('oneDNN', '2.00 times the speed of the default, error 8e-07 against 4e-07')
    """
    errors = f"error {other.error:.0e} against {default.error:.0e}"
    if other.error > _FLOAT32_ERROR:
        return "default", f"oneDNN would round to bfloat16 here, {errors}"
    if not (other.seconds > 0 and math.isfinite(other.seconds)):
        return "default", f"the clock of this machine is too coarse to compare with oneDNN, {errors}"
    ratio = default.seconds / other.seconds
    if ratio <= 1.05:
        return "default", f"oneDNN has {ratio:.2f} times its speed, {errors}"
    return "oneDNN", f"{ratio:.2f} times the speed of the default, {errors}"


def describe_set(precision: str, error: float) -> str:
    """What to say of a precision that was set before: whether products are float32 all the same.

    >>> describe_set("bf16", 3e-3)
    "precision 'bf16' was set before: products are not float32, error 3e-03"
    """
    exact = "products are float32" if error <= _FLOAT32_ERROR else "products are not float32"
    return f"precision '{precision}' was set before: {exact}, error {error:.0e}"


def _error() -> float:
    """Largest error of products at present, in relation to the largest number; each shape may have its own kernel."""
    worst = 0.0
    for batch, rows, inner, columns in ((1, 1024, 256, 512), (1, 8, 512, 512), (6, 48, 64, 48)):
        left, right = _numbers(batch, rows, inner), _numbers(batch, inner, columns)
        exact = left.double() @ right.double()
        worst = max(worst, float(((left @ right).double() - exact).abs().max() / exact.abs().max()))
    return worst


def _timed(default: Measured, other: Measured) -> tuple[Measured, Measured]:
    """Both with their seconds; leaves the setting at the other one."""
    left, right, times = _numbers(1024, 256), _numbers(256, 1024), {"ieee": math.inf, "bf16": math.inf}
    # turn by turn, in processor time: what else runs on the machine slows both alike
    for _ in range(7):
        for setting in times:
            _mkldnn.matmul.fp32_precision = setting
            times[setting] = min(times[setting], _seconds(lambda: left @ right))
    return Measured(times["ieee"], default.error), Measured(times["bf16"], other.error)


def _numbers(*shape: int) -> torch.Tensor:
    """Random numbers of the processor's memory; those of the process stay what they were."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)), device="cpu")


def _seconds(run: Callable[[], object]) -> float:
    start = process_time()
    run()
    return process_time() - start


def _seconds_each(run: Callable[[], object]) -> float:
    """Seconds of one run, over so many that a coarse clock tells them: under `ulimit -t` it ticks every 4 ms or so."""
    runs, passed, start = 0, 0.0, process_time()
    while passed < _VISIBLE_S and runs < _MOST_RUNS:
        run()
        runs, passed = runs + 1, process_time() - start
    return passed / runs


def is_out_of_memory(error: RuntimeError) -> bool:
    """True for what PyTorch raises when the memory of the host or of a device is full."""
    return isinstance(error, torch.OutOfMemoryError) or any(sign in str(error) for sign in _OUT_OF_MEMORY)


def gigaflops(dtype: torch.dtype, size: int = 768) -> float:
    """Rate of a square matrix product with the present settings, in 10^9 operations per second of one thread."""
    left = _numbers(size, size).to(dtype)
    fastest = min(_seconds_each(lambda: left @ left) for _ in range(3))
    # a clock that stands still sees no time pass
    return 2 * size**3 / max(fastest, 1e-6) / 1e9


def training_precision(float32: float, bfloat16: float) -> tuple[str, str]:
    """What `training.precision = "auto"` is on a processor with these rates of products in GFLOP/s: (setting, why).

    Below 1.5 times the rate of float32 the casts of a step cost more than its products gain.

    >>> training_precision(100.0, 600.0)
    ('bf16', 'products in bfloat16 have 6.0 times the rate of float32 here')
    """
    ratio = bfloat16 / float32
    return "bf16" if ratio >= 1.5 else "fp32", f"products in bfloat16 have {ratio:.1f} times the rate of float32 here"


def processor() -> str:
    """Name of the processor, its vector instructions as PyTorch uses them, and the number of cores.

    Reads `/proc/cpuinfo`: for reports, not for decisions.
    """
    info = Path("/proc/cpuinfo")
    lines = info.read_text().split("\n") if info.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    name = next(names, "") or platform.processor() or platform.machine()
    return f"{name}, {torch.backends.cpu.get_cpu_capability()}, {os.cpu_count()} cores"


def report() -> list[tuple[str, str, str]]:
    """(what, value, advice) rows for `headwise doctor`; advice is empty where nothing is to be done."""
    settings = apply()
    float32, bfloat16 = gigaflops(torch.float32), gigaflops(torch.bfloat16)
    freed_memory = "kept after a step" if settings.keeps_memory else "given back to the system after a step"
    fast = training_precision(float32, bfloat16)[0] == "bf16"
    return [
        ("processor", processor(), ""),
        ("accelerator", torch.cuda.get_device_name() if torch.cuda.is_available() else "none", ""),
        ("threads", str(settings.threads), "" if settings.threads > 1 else "--threads N uses more cores"),
        ("matrix products", f"float32 {float32:.0f}, bfloat16 {bfloat16:.0f} GFLOP/s a thread", ""),
        ("float32 products", f"{settings.products}: {settings.reason}", ""),
        ("freed memory", freed_memory, "" if settings.keeps_memory else "needs glibc; large tensors cost page faults"),
        ("bfloat16", "fast here", "training.precision=auto trains faster") if fast else ("bfloat16", "not faster", ""),
    ]


def version() -> str:
    """The version of this program, as it is installed."""
    try:
        return metadata.version("headwise")
    except metadata.PackageNotFoundError:
        return "(not installed)"

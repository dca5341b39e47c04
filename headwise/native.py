"""`native.cpp`: steps of a decoder in C++, compiled once on a machine that has a compiler."""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
from ctypes import c_int64, c_void_p
from functools import cache
from pathlib import Path
from typing import NamedTuple

from headwise.errors import HeadwiseError, MachineError
from headwise.files import replacing, user_cache
from headwise.locks import turn

SOURCE = Path(__file__).with_name("native.cpp")
# no -ffast-math: NaN and infinities keep their meaning
FLAGS = ("-std=c++17", "-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-fopenmp-simd")
_COMPILERS = ("c++", "g++", "clang++")
_LONGEST_S = 60


class Build(NamedTuple):
    """The compiled functions, or why there are none; `tiles`: they use those of AMX."""

    library: ctypes.CDLL | None
    reason: str
    tiles: bool = False

    def __str__(self) -> str:
        return f"by {'PyTorch' if self.library is None else 'C++'}: {self.reason}"


@cache
def build() -> Build:
    """Compiles `native.cpp` for this processor, or loads what was compiled before; in the user's cache folder.

    A file's name is the digest of the source, the flags, the compiler and the processor; one that is not what was
    compiled is compiled again.
    """
    compiler = next(filter(None, map(shutil.which, _COMPILERS)), None)
    if compiler is None:
        return Build(None, f"no C++ compiler: none of {', '.join(_COMPILERS)} is installed")
    try:
        library = _declared(ctypes.CDLL(str(_compiled(compiler))))
        tiles = bool(library.has_tiles())
        return Build(library, f"compiled by {compiler}{', with the tiles of AMX' if tiles else ''}", tiles)
    except subprocess.CalledProcessError as error:
        lines = [line for line in error.stderr.splitlines() if "error" in line]
        return Build(None, f"{compiler} failed: {lines[0] if lines else error}")
    except (OSError, subprocess.SubprocessError, HeadwiseError) as error:
        return Build(None, f"{compiler}: {error}")


def _compiled(compiler: str) -> Path:
    version = _run(compiler, "--version").stdout
    identity = [SOURCE.read_bytes(), " ".join(FLAGS).encode(), version.encode(), _processor().encode()]
    digest = hashlib.sha256(b"\0".join(identity)).hexdigest()
    folder = user_cache() / "native"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path, seal = folder / f"{digest}.so", folder / f"{digest}.sha256"
    _check_own(folder)
    if _is_whole(path, seal):
        return path
    with turn(path):
        # another process may have been faster
        if _is_whole(path, seal):
            return path
        with replacing(path) as temporary:
            _run(compiler, *FLAGS, "-shared", "-fPIC", "-o", str(temporary), str(SOURCE))
        with replacing(seal) as temporary:
            temporary.write_text(hashlib.sha256(path.read_bytes()).hexdigest(), encoding="ascii")
    return path


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    # a compiler quotes paths of any bytes
    return subprocess.run(
        command, capture_output=True, check=True, encoding="utf-8", errors="replace", timeout=_LONGEST_S
    )


def _check_own(folder: Path) -> None:
    """Raises: MachineError: others can write what would be run from this folder."""
    state = folder.stat()
    if os.name == "posix" and (state.st_uid != os.getuid() or state.st_mode & 0o022):
        raise MachineError(f"{folder} can be written by others than you: remove it, or chmod 700 it")


def _is_whole(path: Path, seal: Path) -> bool:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() == seal.read_text(encoding="ascii")
    except (OSError, ValueError):
        return False


def _processor() -> str:
    """What a program compiled for this processor may run on: its make and what it can do."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    facts = [line for line in lines if line.startswith(("model name", "flags", "Features"))][:2]
    return "\n".join([platform.platform(), platform.processor(), *facts])


def _declared(library: ctypes.CDLL) -> ctypes.CDLL:
    library.multiply.argtypes = [c_void_p, c_void_p, c_int64, c_void_p]
    library.steps.argtypes = [c_void_p, c_int64, c_void_p, c_void_p, c_int64, c_void_p, c_int64]
    library.attend.argtypes = [c_void_p, c_void_p, c_int64, c_void_p, c_void_p]
    library.continuations.argtypes = [c_void_p, c_void_p, c_void_p, c_void_p]
    for function in (library.multiply, library.steps, library.attend):
        function.restype = None
    return library

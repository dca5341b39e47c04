"""Code from outside the installed packages runs only if the user trusts it, by the digest of its source.

`module:attribute` in a recipe or a run folder names code, and a folder may come from a stranger. The decision falls
here, where a source file would be executed.
"""

import errno
import hashlib
import importlib
import inspect
import os
import site
import sys
import sysconfig
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

from headwise.errors import Untrusted
from headwise.files import replacing

_trusting: ContextVar[bool] = ContextVar("trusting", default=False)


@contextmanager
def trusting(trust: bool = True) -> Iterator[None]:
    """Inside, with `trust`, code that a recipe or run names is executed, and trusted from then on.

    The SHA-256 of each source file is stored: a file that changes is no longer trusted.
    """
    token = _trusting.set(trust or _trusting.get())
    try:
        yield
    finally:
        _trusting.reset(token)


def import_trusted(name: str) -> ModuleType:
    """Imports a module, from the current folder first.

    Modules of installed packages, and those already imported, need no trust. Any other source file is executed only if
    its digest is stored, or inside `trusting`; its byte code is not used. The same holds for imports of such a file, at
    once or when one of its functions is called.

    Raises: Untrusted naming the module and its file; any error of the import.
    """
    guard = _Guard()
    if not any(isinstance(finder, _LateGuard) for finder in sys.meta_path):
        sys.meta_path.insert(0, _LateGuard())
    # the current folder, which may be gone
    sys.path.insert(0, "")
    sys.meta_path.insert(0, guard)
    try:
        return importlib.import_module(name)
    finally:
        sys.meta_path.remove(guard)
        sys.path.remove("")


def trust_folder() -> Path:
    """The folder of trusted digests, a file each: its name is the digest, its text the path of the source."""
    name, usual = ("APPDATA", "~/AppData/Roaming") if sys.platform == "win32" else ("XDG_CONFIG_HOME", "~/.config")
    base = os.environ.get(name, "")
    # a relative path could lead into a stranger's folder
    return Path(base if os.path.isabs(base) else os.path.expanduser(usual)) / "headwise" / "trusted"


def here() -> str:
    """The current folder, as messages name it."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return "a folder that is gone"


class _Guard(MetaPathFinder):
    """Finds modules outside the installed packages before all other finders, and checks their sources."""

    def find_spec(
        self, fullname: str, path: Iterable[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return _checked_spec(fullname, path, target, _trusting.get())


class _LateGuard(MetaPathFinder):
    """The same for imports of checked code that happen later, when its functions are called."""

    def find_spec(
        self, fullname: str, path: Iterable[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        loader = _importing_loader()
        if not isinstance(loader, _CheckedLoader):
            return None
        return _checked_spec(fullname, path, target, loader.trusting or _trusting.get())


class _CheckedLoader(SourceFileLoader):
    """Executes exactly the bytes whose digest was checked, never byte code beside them.

    `trusting`: the user allowed it when it was found; its later imports are allowed too.
    """

    trusting = False

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        source = self.get_data(path)
        _check(fullname, path, source, self.trusting)
        code: CodeType = self.source_to_code(source, path)
        return code


def _checked_spec(
    fullname: str, path: Iterable[str] | None, target: ModuleType | None, trusting: bool
) -> ModuleSpec | None:
    if _is_own(fullname):
        return None
    spec = _spec_of_others(fullname, path, target)
    if spec is None or spec.origin is None or not spec.has_location or _is_installed(spec.origin):
        return spec
    if not isinstance(spec.loader, SourceFileLoader):
        raise Untrusted(
            f"module '{fullname}' would run {_shown(spec.origin)}, which is no source file and not part of an "
            "installed package; install its package, or import it in a program of your own"
        )
    loader = _CheckedLoader(fullname, spec.origin)
    loader.trusting = trusting
    places = spec.submodule_search_locations
    return spec_from_file_location(fullname, spec.origin, loader=loader, submodule_search_locations=places)


def _is_own(fullname: str) -> bool:
    """Whether this program imported the module's package by itself; a folder without __init__.py has no file."""
    package = sys.modules.get(fullname.partition(".")[0])
    return bool(getattr(package, "__file__", None)) and not isinstance(
        getattr(package, "__loader__", None), _CheckedLoader
    )


def _spec_of_others(fullname: str, path: Iterable[str] | None, target: ModuleType | None) -> ModuleSpec | None:
    """The spec of the other finders; editable installations add their own."""
    for finder in sys.meta_path:
        if isinstance(finder, _Guard | _LateGuard) or not hasattr(finder, "find_spec"):
            continue
        # a namespace has a path that is no sequence
        spec = finder.find_spec(fullname, path, target)  # type: ignore[arg-type]
        if spec is not None:
            return spec
    return None


def _importing_loader() -> object:
    """The loader of the code whose import statement called this finder."""
    frame, is_inside = inspect.currentframe(), False
    while frame is not None:
        is_import = str(frame.f_globals.get("__name__")).partition(".")[0] == "importlib"
        if is_inside and not is_import:
            return frame.f_globals.get("__loader__")
        frame, is_inside = frame.f_back, is_inside or is_import
    return None


def _check(module: str, path: str, content: bytes, trusting: bool) -> None:
    digest = hashlib.sha256(content).hexdigest()
    entry = trust_folder() / digest
    if entry.is_absolute() and entry.exists():
        return
    if not trusting:
        raise Untrusted(
            f"module '{module}' would run {_shown(path)}, which is not part of an installed package; read it, then "
            f"allow it with --trust (in Python: trust=True, or import {module} yourself)"
        )
    try:
        if not entry.is_absolute():
            raise OSError(errno.ENOENT, "there is no home folder")
        entry.parent.mkdir(parents=True, exist_ok=True)
        with replacing(entry) as temporary:
            temporary.write_text(f"{os.path.abspath(path)}\n", encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        # trusted this time all the same
        warnings.warn(
            f"{entry.parent}: trust cannot be stored there ({error.strerror}); --trust is needed again", stacklevel=2
        )


def _shown(path: str) -> str:
    """The path from the current folder, where it lies below it."""
    return path.removeprefix(f"{here()}{os.sep}")


def _is_installed(origin: str) -> bool:
    """Whether a file lies in a folder that packages are installed into."""
    places = (Path(os.path.abspath(origin)), Path(origin).resolve())
    return any(place.is_relative_to(folder) for place in places for folder in _installed_folders())


def _installed_folders() -> tuple[Path, ...]:
    """The folders of the standard library and of installed packages."""
    names = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    names |= {*site.getsitepackages(), site.getusersitepackages()}
    return tuple(place for name in names if name for place in (Path(os.path.abspath(name)), Path(name).resolve()))

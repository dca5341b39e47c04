"""Code from outside the installed packages: it runs only where the user trusts it, by the digest of its source.

`module:attribute` in a recipe or a run folder names code, and a folder may come from a stranger. What may run is
decided here alone, where a source file would be executed.
"""

import hashlib
import importlib
import os
import site
import sys
import sysconfig
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.abc import MetaPathFinder
from importlib.machinery import BuiltinImporter, FrozenImporter, ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

from headwise.errors import Untrusted
from headwise.files import replacing

_trusting: ContextVar[bool] = ContextVar("trusting", default=False)


@contextmanager
def trusting(trust: bool = True) -> Iterator[None]:
    """Inside, with `trust`, code that a recipe or run names is executed, and remembered as trusted for later.

    What is remembered is the SHA-256 of each source file: a file that changes is no longer trusted.
    """
    token = _trusting.set(trust or _trusting.get())
    try:
        yield
    finally:
        _trusting.reset(token)


def import_trusted(name: str) -> ModuleType:
    """The module of this name, which is looked for in the current folder first.

    Modules of installed packages, and those that this program has imported already, are taken as they are. Any other
    source file is executed only if its digest is remembered, or inside `trusting`; byte code beside it is not used.

    Raises: Untrusted naming the module and its file; whatever the import raises.
    """
    guard, folder = _Guard(), str(Path.cwd())
    sys.path.insert(0, folder)
    sys.meta_path.insert(0, guard)
    try:
        return importlib.import_module(name)
    finally:
        sys.meta_path.remove(guard)
        sys.path.remove(folder)


def trust_folder() -> Path:
    """Where trusted digests are kept, a file each: its name is the digest, its text the path of the source."""
    if sys.platform == "win32":
        base = os.environ.get("APPDATA") or os.path.expanduser("~/AppData/Roaming")
    else:
        base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(base) / "headwise" / "trusted"


class _Guard(MetaPathFinder):
    """Finds modules outside the installed packages before anything else does, and has their sources checked."""

    def __init__(self) -> None:
        # packages that this program imported by itself; a folder without __init__.py has no file
        self._own = {
            name
            for name, module in list(sys.modules.items())
            if getattr(module, "__file__", None) and not isinstance(getattr(module, "__loader__", None), _CheckedLoader)
        }

    def find_spec(
        self, fullname: str, path: Iterable[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] in self._own:
            return None
        if BuiltinImporter.find_spec(fullname) or FrozenImporter.find_spec(fullname):
            return None
        # a namespace has a path that is no sequence
        spec = PathFinder.find_spec(fullname, path, target)  # type: ignore[arg-type]
        if spec is None or spec.origin is None or _is_installed(spec.origin):
            return None
        if not isinstance(spec.loader, SourceFileLoader):
            raise Untrusted(
                f"module '{fullname}' would run {_shown(spec.origin)}, which is no source file and not part of an "
                "installed package; install its package, or import it in a program of your own"
            )
        return spec_from_file_location(
            fullname,
            spec.origin,
            loader=_CheckedLoader(fullname, spec.origin),
            submodule_search_locations=spec.submodule_search_locations,
        )


class _CheckedLoader(SourceFileLoader):
    """Executes the very bytes whose digest was checked, never byte code that lies beside them."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        source = self.get_data(path)
        _check(fullname, path, source)
        code: CodeType = self.source_to_code(source, path)
        return code


def _check(module: str, path: str, content: bytes) -> None:
    digest = hashlib.sha256(content).hexdigest()
    entry = trust_folder() / digest
    if entry.exists():
        return
    if not _trusting.get():
        raise Untrusted(
            f"module '{module}' would run {_shown(path)}, which is not part of an installed package; read it, then "
            f"allow it with --trust (in Python: trust=True, or import {module} yourself)"
        )
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        with replacing(entry) as temporary:
            temporary.write_text(f"{os.path.abspath(path)}\n", encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        # it is trusted this time all the same
        told = f"{entry.parent}: what you trust cannot be remembered there ({error.strerror}): --trust is needed again"
        warnings.warn(told, stacklevel=2)


def _shown(path: str) -> str:
    """The path from the current folder, where it lies below it."""
    return path.removeprefix(f"{os.getcwd()}{os.sep}")


def _is_installed(origin: str) -> bool:
    """Whether a file lies in a folder that packages are installed into."""
    places = (Path(os.path.abspath(origin)), Path(origin).resolve())
    return any(place.is_relative_to(folder) for place in places for folder in _installed_folders())


def _installed_folders() -> tuple[Path, ...]:
    """The folders of the standard library and of installed packages."""
    names = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    names |= {*site.getsitepackages(), site.getusersitepackages()}
    return tuple(place for name in names if name for place in (Path(os.path.abspath(name)), Path(name).resolve()))

"""The scripts of the explorer as one: every module a function, in the order in which they need each other."""

import functools
import posixpath
import re
from importlib.resources import files

# the scripts keep to these two forms, which a test checks
_IMPORT = re.compile(r'^import (?:\* as (?P<all>\w+)|\{(?P<some>[^}]*)\}) from "(?P<path>\.[^"]+)";$', re.M)
# one that is loaded when it is needed; in a comment the name of a type follows
_LAZY = re.compile(r'\bimport\("(?P<path>\.[^"]+)"\)(?!\.[A-Z])')
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function\*?|const|class) (\w+))", re.M)
_STATIC = files("headwise.explorer") / "static"


@functools.cache
def page(name: str) -> str:
    """A script that shows a page by itself, with what the document holds."""
    entry = f"pages/{name}.js"
    return f'(() => {{\n{script("alone.js", entry)}\nmodules["alone.js"].begin(modules["{entry}"]);\n}})();\n'


def script(*entries: str) -> str:
    """A script that needs no other, from modules below `static/js` and all that they import.

    Raises: ValueError for modules that need each other, or that say so in a way that is not read here.
    """
    order: list[str] = []
    parts: dict[str, str] = {}
    for entry in entries:
        _collect(entry, (), order, parts)
    return "\n".join(['"use strict";', "const modules = {};", *(parts[name] for name in order)])


@functools.cache
def style(name: str) -> str:
    """The style sheet of all pages, and that of this page if it has one."""
    own = f"css/{name}.css"
    return _read("css/app.css") + (_read(own) if (_STATIC / own).is_file() else "")


def _collect(name: str, above: tuple[str, ...], order: list[str], parts: dict[str, str]) -> None:
    if name in above:
        raise ValueError(f"scripts need each other: {' > '.join((*above, name))}")
    if name in parts:
        return
    text = _read(f"js/{name}")
    for match in (*_IMPORT.finditer(text), *_LAZY.finditer(text)):
        _collect(_resolve(name, match["path"]), (*above, name), order, parts)
    exports = _EXPORT.findall(text)
    body = _EXPORT.sub("", _IMPORT.sub(lambda match: _bind_import(name, match), text))
    body = _LAZY.sub(lambda match: f'Promise.resolve(modules["{_resolve(name, match["path"])}"])', body)
    if left := re.search(r"^(import|export)\b.*|\bimport\((?!\")|</script", body, re.M):
        raise ValueError(f"{name}: '{left[0]}' cannot be part of one script")
    parts[name] = f'modules["{name}"] = (() => {{\n{body}return {{ {", ".join(exports)} }};\n}})();'
    order.append(name)


def _bind_import(name: str, match: re.Match[str]) -> str:
    """An import as it stands in one script."""
    names = match["all"] or f"{{{match['some'].replace(' as ', ': ')}}}"
    return f'const {names} = modules["{_resolve(name, match["path"])}"];'


def _resolve(name: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), path))


def _read(name: str) -> str:
    return (_STATIC / name).read_text(encoding="utf-8").replace("\r\n", "\n")

"""What this package never does, read from its syntax trees: unsafe loading, shells, printing; how long things are."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import headwise

ROOT = Path(headwise.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
REPOSITORY = ROOT.parent

MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "yaml", "telnetlib"}
CALLS = {"eval", "exec", "compile", "__import__", "breakpoint", "input"}
METHODS = {
    "os.system", "os.popen", "torch.load", "torch.save", "numpy.load", "np.load", "np.save", "yaml.load",
    "marshal.loads", "tempfile.mktemp", "torch.hub.load",
}  # fmt: skip
# archives are never unpacked by the package
UNPACKING = {"extractall", "extract", "unpack_archive"}
WORDS = [r"\bTODO\b", r"\bFIXME\b", r"\bXXX\b", r"\bHACK\b"]
# where this copy lies, and where people keep theirs
PLACES = [re.escape(str(REPOSITORY)), r"/home/[a-z]", r"/Users/", r"C:\\\\Users"]


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def name_of(node: ast.expr) -> str:
    """The dotted name that is called, as far as it is one."""
    if isinstance(node, ast.Attribute):
        return f"{name_of(node.value)}.{node.attr}".lstrip(".")
    return node.id if isinstance(node, ast.Name) else ""


def banned(source: ast.Module, library: bool) -> list[str]:
    """Every banned construct of a file, with its line."""
    found = []
    for node in ast.walk(source):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            found += [f"{node.lineno}: import of {name}" for name in names if name.partition(".")[0] in MODULES]
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            found.append(f"{node.lineno}: from __future__: annotations are checked in tests")
        if isinstance(node, ast.Call):
            found += [f"{node.lineno}: {why}" for why in _wrong_call(node, library)]
        if isinstance(node, ast.ExceptHandler) and node.type is None:
            found.append(f"{node.lineno}: except without a type")
    return found


def _wrong_call(node: ast.Call, library: bool) -> list[str]:
    name, found = name_of(node.func), []
    last = name.rpartition(".")[2] or getattr(node.func, "attr", "")
    if name in CALLS or name in METHODS:
        found.append(f"call of {name}")
    if last in UNPACKING:
        found.append(f"call of {last}")
    if name == "print" and library:
        found.append("print")
    for keyword in node.keywords:
        true = isinstance(keyword.value, ast.Constant) and keyword.value.value is True
        if keyword.arg == "shell" and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is False):
            found.append("shell=")
        if keyword.arg in ("trust_remote_code", "allow_pickle") and true:
            found.append(f"{keyword.arg}=True")
    return found


def test_nothing_banned():
    wrong = [
        f"{path.relative_to(ROOT)}:{what}"
        for path in FILES
        for what in banned(tree(path), library="cli" not in path.relative_to(ROOT).parts)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "code",
    [
        "import pickle", "from pickle import loads", "import yaml", "eval('1')", "exec('1')", "torch.load('x')",
        "torch.load('x', weights_only=True)", "subprocess.run('ls', shell=True)", "subprocess.run('ls', shell=flag)",
        "archive.extractall('x')", "tarfile.open('x').extractall()", "print(1)", "os.system('ls')",
        "np.load('x', allow_pickle=True)", "from __future__ import annotations", "try:\n  pass\nexcept:\n  pass",
    ],
)  # fmt: skip
def test_the_check_sees_what_is_banned(code):
    assert banned(ast.parse(code), library=True)


@pytest.mark.parametrize("code", ["model.eval()", "re.compile('a')", "subprocess.run(['ls'], shell=False)", "x.load()"])
def test_the_check_leaves_the_rest(code):
    assert not banned(ast.parse(code), library=True)


def test_the_command_line_may_print():
    assert not banned(ast.parse("print(1)"), library=False)


def _texts() -> list[Path]:
    kinds = ("*.py", "*.md", "*.toml", "Makefile")
    folders = [ROOT, REPOSITORY / "recipes", REPOSITORY / "docs", REPOSITORY / "examples", REPOSITORY / "benchmarks"]
    found = [path for folder in folders if folder.is_dir() for kind in kinds for path in folder.rglob(kind)]
    return found + [path for kind in kinds for path in REPOSITORY.glob(kind)]


@pytest.mark.parametrize("pattern", WORDS + PLACES)
def test_no_unfinished_business_and_no_private_places(pattern):
    found = [
        f"{path.relative_to(REPOSITORY)}:{number}: {line.strip()}"
        for path in _texts()
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1)
        if re.search(pattern, line)
    ]
    assert not found, "\n".join(found)


def _lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function from its name on, without its docstring."""
    total = node.end_lineno - node.lineno + 1
    first = node.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        total -= first.end_lineno - first.lineno + 1
    return total


def _nesting(node: ast.AST, depth: int = 0) -> int:
    """How deep loops, conditions and the like stand in each other; an `elif` is no deeper than its `if`."""
    deepest = depth
    for child in ast.iter_child_nodes(node):
        chained = isinstance(node, ast.If) and isinstance(child, ast.If) and child in node.orelse
        blocks = isinstance(child, ast.If | ast.For | ast.While | ast.With | ast.Try) and not chained
        deepest = max(deepest, _nesting(child, depth + blocks))
    return deepest


def _functions(path: Path):
    return [node for node in ast.walk(tree(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def test_files_are_at_most_600_lines():
    long = {str(path.relative_to(ROOT)): len(path.read_text().split("\n")) - 1 for path in FILES}
    assert not {name: lines for name, lines in long.items() if lines > 600}


def test_functions_are_at_most_40_lines():
    long = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {_lines(node)}"
        for path in FILES
        for node in _functions(path)
        if _lines(node) > 40
    ]
    assert not long, "\n".join(long)


def test_nesting_is_at_most_3():
    deep = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {_nesting(node)}"
        for path in FILES
        for node in _functions(path)
        if _nesting(node) > 3
    ]
    assert not deep, "\n".join(deep)


def test_every_module_says_what_lives_in_it():
    bad = []
    for path in FILES:
        text = ast.get_docstring(tree(path))
        if text is None or not 1 <= len(text.split("\n")) <= 7:
            bad.append(str(path.relative_to(ROOT)))
    assert not bad, "\n".join(bad)


def test_no_module_is_named_after_nothing():
    names = {path.stem for path in FILES} | {path.parent.name for path in FILES}
    assert names.isdisjoint({"utils", "util", "helpers", "helper", "common", "misc"})


def test_no_open_arguments_in_constructors_and_forwards():
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path in FILES
        for node in _functions(path)
        if node.name in ("__init__", "forward")
        and (node.args.vararg or node.args.kwarg)
        # the static forward of a gradient function takes what its tape holds
        and not node.decorator_list
    ]
    assert not wrong, "\n".join(wrong)

"""Imports go one way, and a third-party package is imported where it is at home; read from the source."""

import ast
import sys
import tomllib
from functools import cache
from pathlib import Path

import headwise

ROOT = Path(headwise.__file__).parent

FAMILIES = {f"tasks.{path.parent.name}" for path in (ROOT / "tasks").glob("*/__init__.py")}

# a part may import from itself and from the levels before its own
LEVELS = [
    {"errors"},
    {"problems", "files", "cancellation"},
    {"trust"},
    {"registry"},
    {"config", "runtime", "caches", "labels", "locks", "processes"},
    {"native"},
    {"attention"},
    {"positions"},
    {"records", "layers"},
    {"models", "testing", "adoption"},
    {"data"},
    {"decoding", "metrics", "runs"},
    {"explain"},
    {"predictors"},
    {"tasks"},
    {"tasks.text"},
    {"textbook"} | FAMILIES - {"tasks.text"},
    {"exchange"},
    {"training"},
    {"compare", "export"},
    {"service"},
    {"explorer"},
    {"cli"},
    {"__main__"},
]

# where a part knows less than the levels before it would allow
NARROW = {
    "errors": set(),
    "problems": {"errors"},
    "config": {"errors", "problems", "registry"},
    "runtime": {"errors"},
    "registry": {"errors", "trust"},
    "trust": {"errors", "files"},
    "caches": {"errors"},
    "files": set(),
    "locks": {"errors", "files"},
    "processes": {"errors", "cancellation"},
    "cancellation": set(),
    "records": {"errors", "config", "attention", "cancellation"},
    "adoption": {"errors", "config", "attention", "records"},
    "data": {"errors", "config", "files", "locks"},
    "native": {"errors", "files", "locks"},
    # decoding knows no model
    "decoding": {"errors", "config", "caches", "native", "runtime"},
    "metrics": {"errors"},
    # a run folder holds files and events, whatever they are of
    "runs": {"errors", "files"},
}

# what families draw
PAGES = {f"tasks.{name}" for name in ("graphs.neighbours", "images.pages", "ranking.history_pages", "series.pages")}
PAGES |= {"tasks.speech.pages", "tasks.vectors.projection_page"}

THIRD_PARTY = {
    "torch": None,
    "numpy": None,
    "jaxtyping": None,
    "pydantic": None,
    "pydantic_core": {"problems"},
    "tomli_w": {"config", "cli.init", "runs.migration"},
    "typer": {"cli", *(f"{family}.cli" for family in FAMILIES)},
    "rich": {"cli", "runs.display", "labels"},
    "tokenizers": {"data.cutting", "data.tokenizers", "data.unigram"},
    "safetensors": {"runs.tensors", "predictors.saved", "exchange.safetensors"},
    "filelock": {"locks"},
    "sacrebleu": {"metrics"},
    "matplotlib": {"explain", "textbook.figures"} | PAGES,
    "mpl_toolkits": {"explain"},
    "tensorboard": {"runs.trackers"},
    "wandb": {"runs.trackers"},
    "mlflow": {"runs.trackers"},
    "trackio": {"runs.trackers"},
    "transformers": {"adoption"},
    "PIL": {"tasks.images.pixels"},
    "fastapi": {"service", "explorer"},
    "h11": {"service"},
    "uvicorn": {"service"},
    "prometheus_client": {"service"},
    "networkx": {"explorer.layout"},
    "soundfile": {"tasks.speech.sounds"},
    "soxr": {"tasks.speech.sounds"},
    "rdkit": {"tasks.graphs.molecules"},
    "sklearn": {"predictors.baselines", "tasks.series.baselines"},
    "threadpoolctl": {"tasks.series.baselines"},
    "scipy": {
        "explain.curves",
        "predictors.intervals",
        "metrics",
        "tasks.series.baselines",
        "tasks.graphs.node_labeller",
        "tasks.ranking.ranker",
        "compare",
        "explain.attribution",
    },
}


# asked for by name, with the extra to install in the message
EXTRAS = {"tensorboard", "wandb", "mlflow", "trackio", "transformers", "PIL", "soundfile", "soxr", "rdkit"}
EXTRAS |= {"fastapi", "uvicorn", "h11", "prometheus_client"}


def module_of(path: Path) -> str:
    parts = list(path.relative_to(ROOT.parent).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = sorted(ROOT.rglob("*.py"))
NAMES = {module_of(path) for path in FILES}


@cache
def imports(path: Path) -> list[tuple[int, str]]:
    """(line, module) of every import of a file, those inside functions and conditions too."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            # `from package import module` imports the module
            deeper = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [(node.lineno, name if name in NAMES else str(node.module)) for name in deeper]
    return found


def part_of(module: str) -> str:
    """The folder of a module; a family of tasks is a part of its own."""
    names = module.split(".")
    family = ".".join(names[1:3])
    return family if family in FAMILIES else names[1] if len(names) > 1 else ""


def level_of(part: str) -> int:
    return next(number for number, parts in enumerate(LEVELS) if part in parts)


def broken(path: Path, module: str, imported: str) -> str | None:
    """Why a module may not import another one of the package, or None."""
    own, other = part_of(module), part_of(imported)
    if other == own or own == "":
        return None
    if other in FAMILIES and not (other == "tasks.text" and own in FAMILIES):
        return f"{other} is a family of tasks, which is found by name"
    # the commands of a family are a door, as those of cli
    if own == "cli" or module == f"headwise.{own}.cli":
        return None
    if other == "":
        return "the package itself is for its users"
    if level_of(other) >= level_of(own):
        return f"{other} is not below {own}"
    if own in NARROW and other not in NARROW[own]:
        return f"{own} knows only {', '.join(sorted(NARROW[own])) or 'nothing'}"
    return None


def test_every_part_has_a_level():
    parts = {part_of(module_of(path)) for path in FILES} - {""}
    assert parts == set().union(*LEVELS)


def test_imports_go_one_way():
    wrong = [
        f"{path.name}:{line} imports {name}: {why}"
        for path in FILES
        for line, name in imports(path)
        if name.partition(".")[0] == "headwise" and (why := broken(path, module_of(path), name))
    ]
    assert not wrong, "\n".join(wrong)


def test_third_party_packages_stay_at_home():
    wrong = []
    for path, (line, name) in [(file, place) for file in FILES for place in imports(file)]:
        module = module_of(path).removeprefix("headwise").removeprefix(".")
        package = name.partition(".")[0]
        if package == "headwise" or package in sys.stdlib_module_names:
            continue
        homes = THIRD_PARTY.get(package, set())
        if name.startswith("torch.utils.tensorboard"):
            homes = {"runs.trackers"}
        if homes is not None and not any(module == home or module.startswith(f"{home}.") for home in homes):
            wrong.append(f"{path.name}:{line} imports {name}, whose home is {', '.join(sorted(homes)) or 'nowhere'}")
    assert not wrong, "\n".join(wrong)


def test_package_imports_nothing_of_itself_when_imported():
    tree = ast.parse((ROOT / "__init__.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.ImportFrom | ast.Import):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [str(node.module)]
            assert all(name.partition(".")[0] in sys.stdlib_module_names for name in names)


def test_no_module_imports_itself_in_a_circle():
    graph = {module_of(path): {name for _, name in imports(path) if name in NAMES} for path in FILES}
    done: set[str] = set()

    def visit(module, trail):
        assert module not in trail, " -> ".join([*trail, module])
        if module in done:
            return
        for name in sorted(graph[module]):
            visit(name, [*trail, module])
        done.add(module)

    for module in sorted(graph):
        if not module.startswith("headwise.cli") and module != "headwise":
            visit(module, [])


def test_declared_dependencies_are_those_imported():
    declared = tomllib.loads((ROOT.parent / "pyproject.toml").read_text())["project"]["dependencies"]
    names = {dependency.partition(">")[0].strip().replace("-", "_") for dependency in declared}
    imported = {name.partition(".")[0] for path in FILES for _, name in imports(path)}
    used = imported - set(sys.stdlib_module_names) - {"headwise"} | (
        {"scikit_learn"} if "sklearn" in imported else set()
    )
    # what comes along with a declared one
    assert used - {"pydantic_core", "mpl_toolkits", "sklearn", "threadpoolctl"} - EXTRAS == names


def test_the_check_sees_a_wrong_import():
    path = ROOT / "layers" / "loss.py"
    assert broken(path, "headwise.layers.loss", "headwise.models.protocols") == "models is not below layers"
    assert broken(path, "headwise.layers.loss", "headwise.records") == "records is not below layers"
    assert (
        broken(path, "headwise.decoding.beam", "headwise.models.protocols")
        == "decoding knows only caches, config, errors, native, runtime"
    )
    assert broken(path, "headwise.training.loop", "headwise.tasks.translation.translate")
    assert broken(path, "headwise.training.loop", "headwise.tasks.task") is None
    assert broken(path, "headwise.layers.loss", "headwise.attention.masks") is None
    assert (
        broken(path, "headwise.data.readers", "headwise.layers.loss") == "data knows only config, errors, files, locks"
    )
    assert broken(path, "headwise.models.transformer", "headwise") == "the package itself is for its users"


def test_no_file_of_the_package_is_hidden_from_git():
    # git, and the tool that builds the wheel, leave out what `.gitignore` names, at any depth unless it begins with "/"
    patterns = (ROOT.parent / ".gitignore").read_text().split()
    anywhere = {pattern.strip("/") for pattern in patterns if not pattern.startswith("/")}
    for folder in (ROOT, ROOT.parent / "tests"):
        hidden = [path for path in folder.rglob("*.py") if not anywhere.isdisjoint(path.relative_to(ROOT.parent).parts)]
        assert not hidden

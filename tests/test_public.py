"""The public names, what importing them costs, and that no name is promised in vain."""

import importlib
import pkgutil
import subprocess
import sys

import pytest

import headwise

HEAVY = ("torch", "numpy", "pydantic", "matplotlib", "tokenizers", "safetensors", "sacrebleu", "rich", "tensorboard")


def modules_after(code):
    """Names of the modules that a fresh interpreter holds after some code."""
    command = [sys.executable, "-c", f"{code}\nimport sys\nprint('modules:', *sys.modules)"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return set(output.rpartition("modules:")[2].split())


def test_attention_does_not_import_the_compiler():
    # which takes as long as PyTorch itself
    assert "torch._dynamo" not in modules_after("import headwise.attention, headwise.training.train")


def test_all_is_alphabetical_and_importable():
    assert headwise.__all__ == sorted(headwise.__all__)
    for name in headwise.__all__:
        assert getattr(headwise, name) is not None
        assert callable(getattr(headwise, name))


def test_all_of_a_package_is_there():
    names = [each.name for each in pkgutil.walk_packages(headwise.__path__, "headwise.")]
    modules = [importlib.import_module(name) for name in names if not name.endswith("__main__")]
    missing = [
        (module.__name__, each)
        for module in modules
        for each in getattr(module, "__all__", ())
        if not hasattr(module, each)
    ]
    assert not missing


def test_names_are_those_of_their_homes():
    from headwise.attention.masks import Causal
    from headwise.layers.attention import MultiHeadAttention
    from headwise.training.train import train

    assert headwise.Causal is Causal
    assert headwise.MultiHeadAttention is MultiHeadAttention
    assert headwise.train is train


def test_errors_of_the_package_are_caught_by_one_name():
    for name in headwise.__all__:
        found = getattr(headwise, name)
        if isinstance(found, type) and issubclass(found, Exception):
            assert issubclass(found, headwise.HeadwiseError)


def test_unknown_name():
    with pytest.raises(AttributeError, match="module 'headwise' has no attribute 'atend'"):
        headwise.atend  # noqa: B018


def test_version_is_that_of_the_distribution():
    from importlib.metadata import version

    assert headwise.__version__ == version("headwise")


@pytest.mark.parametrize(
    "code",
    [
        "import headwise",
        "import headwise; dir(headwise); headwise.__all__",
        "from headwise import ConfigError, HeadwiseError",
        "import headwise.cli.main",
    ],
)
def test_imports_that_cost_nothing(code):
    loaded = {name.partition(".")[0] for name in modules_after(code)}
    # Typer itself may bring rich
    allowed = {"rich"} if "cli" in code else set()
    assert loaded.isdisjoint(set(HEAVY) - allowed)


def test_help_needs_no_torch():
    start = "import sys\nsys.argv = ['headwise', '--help']\nfrom headwise.cli.main import run\n"
    code = f"{start}try: run()\nexcept SystemExit: pass"
    loaded = {name.partition(".")[0] for name in modules_after(code)}
    assert loaded.isdisjoint({"torch", "numpy", "matplotlib", "tokenizers"})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("headwise.config", {"torch", "numpy"}),
        ("headwise.data.readers", {"torch"}),
        ("headwise.data.report", {"torch"}),
        ("headwise.data.splits", {"torch"}),
        ("headwise.data.tokenizers", {"torch"}),
        ("headwise.training.recipe", {"matplotlib", "tensorboard"}),
        ("headwise.attention", {"matplotlib", "tokenizers", "pydantic"}),
        ("headwise.layers.attention", {"matplotlib", "tokenizers", "pydantic"}),
        ("headwise.tasks.translation.translate", {"matplotlib", "tensorboard"}),
        ("headwise.training.train", {"matplotlib", "tensorboard"}),
    ],
)
def test_light_modules_stay_light(module, unwanted):
    loaded = {name.partition(".")[0] for name in modules_after(f"import {module}")}
    assert loaded.isdisjoint(unwanted)

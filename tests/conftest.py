"""What every test runs under: checked annotations, fixed seeds, poisoned memory, hypothesis profiles.

Annotations, shapes included, take a quarter of the time. `HEADWISE_TEST_ANNOTATIONS` says which cases check them:
"none" (`make test`), "all" (`make test-all`), or, if it is not set, the first case of every test and one of eight
others. Annotations that are checked cannot be traced by a compiler, so the files `test_transforms.py` run apart, with
"none"; so do the certificates, which are about numbers.
More drawn examples: `pytest --hypothesis-profile=thorough`. `HEADWISE_TEST_DEVICE=cuda` makes tensors and modules on
that device: see devices.py.
"""

import gc
import importlib
import os
import random
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings
from jaxtyping import config as jaxtyping_config
from jaxtyping import install_import_hook

# a test imports the helpers that lie beside it by name
sys.path += [str(folder) for folder in (Path(__file__).parent, *Path(__file__).parent.rglob("*")) if folder.is_dir()]

import devices

ANNOTATIONS = os.environ.get("HEADWISE_TEST_ANNOTATIONS", "some")
if ANNOTATIONS != "none":
    # before anything of the package is imported
    install_import_hook("headwise", "beartype.beartype")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Without the files that run apart where annotations are checked."""
    apart = collection_path.name in {"test_transforms.py", "test_conformance.py"}
    return True if apart and ANNOTATIONS != "none" else None


def pytest_collection_finish() -> None:
    """Cases live until the end: nothing looks among them for what can go."""
    gc.freeze()


_slow_is_fine = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile(
    "quick", max_examples=12, deadline=None, derandomize=True, database=None, suppress_health_check=_slow_is_fine
)
settings.register_profile(
    "thorough", max_examples=1000, deadline=None, database=None, suppress_health_check=_slow_is_fine
)
settings.load_profile("quick")

# a fifteenth of the time went into looking for cycles, most of it among cases: see pytest_collection_finish
gc.set_threshold(20_000, 20, 20)
devices.choose()
torch.set_num_threads(1)
# as training does, so that every larger tensor is not new pages
importlib.import_module("headwise.runtime").keep_freed_memory()
# memory that nobody initialised is NaN, so a test that depends on it fails
# as use_deterministic_algorithms(True), which also imports a compiler for four seconds
torch.set_deterministic_debug_mode("error")
torch.utils.deterministic.fill_uninitialized_memory = True


@pytest.fixture(autouse=True)
def _trusts_nothing(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a developer trusts is no part of a test."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "config"))


@pytest.fixture(autouse=True)
def _seeds() -> None:
    """Every test starts from the same random states and one thread, whatever ran before it.

    Threads that a command was given stay, and wait for one another at full speed: a fifth of all tests' time.
    """
    torch.set_num_threads(1)
    random.seed(0)
    np.random.seed(0)
    devices.seed(0)


@pytest.fixture(autouse=True)
def _annotations(request: pytest.FixtureRequest) -> Iterator[None]:
    """Annotations are checked in some cases, which follow from the name of the case alone."""
    case = request.node
    first = not any(case.callspec.indices.values()) if hasattr(case, "callspec") else True
    check = ANNOTATIONS == "all" or first or zlib.crc32(case.name.encode()) % 8 == 0
    jaxtyping_config.update("jaxtyping_disable", not check)
    yield
    jaxtyping_config.update("jaxtyping_disable", False)


@pytest.fixture
def untyped(_annotations: None) -> None:
    """As a user runs the package: annotations unchecked, so that its own messages for wrong shapes are met."""
    jaxtyping_config.update("jaxtyping_disable", True)

"""What every test runs under: checked annotations, fixed seeds, poisoned memory, hypothesis profiles.

More examples: `pytest --hypothesis-profile=thorough`. Annotations that are checked cannot be traced by a compiler, so
the files `test_transforms.py` run apart, in a process with `HEADWISE_TEST_UNTYPED=1`. `HEADWISE_TEST_DEVICE=cuda` makes
tensors and modules on that device: see devices.py.
"""

import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings
from jaxtyping import config as jaxtyping_config
from jaxtyping import install_import_hook

# a test imports the helpers that lie beside it by name
sys.path += [str(folder) for folder in (Path(__file__).parent, *Path(__file__).parent.iterdir()) if folder.is_dir()]

import devices

UNTYPED = "HEADWISE_TEST_UNTYPED" in os.environ
if not UNTYPED:
    # before anything of the package is imported: every annotation, shapes included, is checked while tests run
    install_import_hook("headwise", "beartype.beartype")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Without the files on transforms where annotations are checked."""
    return True if collection_path.name == "test_transforms.py" and not UNTYPED else None


_slow_is_fine = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile(
    "quick", max_examples=16, deadline=None, derandomize=True, database=None, suppress_health_check=_slow_is_fine
)
settings.register_profile(
    "thorough", max_examples=1000, deadline=None, database=None, suppress_health_check=_slow_is_fine
)
settings.load_profile("quick")

devices.choose()
torch.set_num_threads(1)
# memory that nobody initialised is NaN, so a test that depends on it fails
torch.use_deterministic_algorithms(True)
torch.utils.deterministic.fill_uninitialized_memory = True


@pytest.fixture(autouse=True)
def _seeds() -> None:
    """Every test starts from the same random states, whatever ran before it."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture
def untyped() -> Iterator[None]:
    """As a user runs the package: annotations unchecked, so that its own messages for wrong shapes are met."""
    jaxtyping_config.update("jaxtyping_disable", True)
    yield
    jaxtyping_config.update("jaxtyping_disable", False)

"""The toy task is known to every test of training; one thread, so that a test costs what it says."""

import os
import sys
import tempfile
from pathlib import Path

import pytest
import torch

from headwise.tasks import registry

# tests are imported without their folder on the path; the toy is shared by the tests here and by tools/
sys.path.insert(0, str(Path(__file__).parent))

import training_toy


@pytest.fixture
def tmp_path():
    """A folder in memory where there is one: these tests sync thousands of times."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


@pytest.fixture(autouse=True)
def _toy(monkeypatch):
    monkeypatch.setattr(registry, "task_type", registry.task_type)
    training_toy.install()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)

"""These tests sync thousands of times, so their folders are in memory where there is one."""

import os
import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def tmp_path():
    """A folder in memory where there is one."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)

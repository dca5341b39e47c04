"""Model, batches, averages, memory and checkpoints follow the device; a run moves between devices."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_tasks import CASES

HERE = Path(__file__).parent
FUSED = ("translate, recurrent", "regress")  # the simulated device has no recurrent cells


@pytest.mark.slow
@pytest.mark.parametrize("name", ["toy", *(name for name in CASES if name not in FUSED)])
def test_a_run_on_a_second_device_resumes_there_and_elsewhere(tmp_path, name):
    paths = [
        *map(str, (HERE.parents[1], HERE.parent, HERE, HERE.parent / "tasks", HERE.parent / "data")),
        os.environ.get("PYTHONPATH", ""),
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-W", "ignore", str(HERE / "on_second_device.py"), str(tmp_path), name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    text = (tmp_path / "moved" / "log.txt").read_text()
    assert "not bit-exact from here: the run began on {'" in text
    assert "'device': 'sim'" in text

"""The tools that kill and corrupt, with few rounds; `python tools/killtest.py -n 200 --case all` is the whole test."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"


def _ran(name, *options):
    done = subprocess.run([sys.executable, TOOLS / name, *options], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return {line[:-8].strip(): line.split()[-1] for line in done.stdout.splitlines()}


@pytest.mark.slow
@pytest.mark.parametrize("case", ["toy", "translate", "language-model, with memory", "image-classify", "node-classify"])
def test_twenty_kills(case):
    table = _ran("killtest.py", "-n", "20", "--case", case)
    assert table["kills"] == "20"
    assert table["problems"] == "0"


@pytest.mark.slow
def test_forty_damages():
    assert _ran("corrupt.py", "--flips", "30", "--truncations", "10")["all"] == "40"

"""A browser that reaches nothing but this machine, and an explorer to look at in it."""

import shutil
import subprocess
import sys
from contextlib import contextmanager

import pytest

CHROMIUM = shutil.which("chromium")
IN_BROWSER = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")]


@contextmanager
def explored_at(runs):
    """The address at which these runs are shown."""
    command = [sys.executable, "-m", "headwise", "explore", *map(str, runs), "--no-browser", "--threads", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        line = process.stdout.readline()
        yield line.split()[2].rstrip(";")
        process.terminate()

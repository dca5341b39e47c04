"""A browser that reaches nothing but this machine, and an explorer to look at in it."""

import shutil
import subprocess
import sys
from contextlib import contextmanager

import pytest

CHROMIUM = shutil.which("chromium")
ABSENT = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")
IN_BROWSER = [pytest.mark.slow, ABSENT]
OFFLINE = "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"


@contextmanager
def started(*flags):
    """A browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as library:
        args = ["--no-sandbox", "--disable-gpu", OFFLINE, *flags]
        found = library.chromium.launch(executable_path=CHROMIUM, args=args)
        yield found
        found.close()


@contextmanager
def explored_at(runs, *options):
    """The address at which these runs are shown."""
    command = [sys.executable, "-m", "headwise", "explore", *map(str, runs), "--no-browser", "--threads", "1"]
    with subprocess.Popen([*command, *map(str, options)], stdout=subprocess.PIPE, text=True) as process:
        line = process.stdout.readline()
        yield line.split()[2].rstrip(";")
        process.terminate()

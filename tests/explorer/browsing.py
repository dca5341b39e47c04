"""A browser that reaches nothing but this machine, and an explorer to look at in it."""

import io
import shutil
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest

CHROMIUM = shutil.which("chromium")
ABSENT = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")
IN_BROWSER = [pytest.mark.slow, ABSENT]
OFFLINE = "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"


def hatched(canvas, rows, columns):
    """Whether each cell of a map has more than one colour, away from its edges and its number."""
    read = """(canvas) => { const context = canvas.getContext('2d');
        return [canvas.height, canvas.width, ...context.getImageData(0, 0, canvas.width, canvas.height).data]; }"""
    height, width, *found = canvas.evaluate(read)
    image = np.array(found).reshape(height, width, 4)
    tall, wide = height / rows, width / columns
    # the chosen cell has a line around it
    rim = 4 if min(tall, wide) >= 20 else 2

    def inside(q, k):
        return image[
            round(q * tall) + rim : round((q + (0.35 if tall >= 34 else 1)) * tall) - rim,
            round(k * wide) + rim : round((k + 1) * wide) - rim,
        ]

    cells = [[len(np.unique(inside(q, k).reshape(-1, 4), axis=0)) > 1 for k in range(columns)] for q in range(rows)]
    return np.array(cells)


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
        try:
            yield line.split()[2].rstrip(";")
        finally:
            process.terminate()


def unfold(page):
    """Opens what is behind a line on narrow screens: what saves and shows a map, and the settings of Trace."""
    settings = page.locator("button.settings[aria-expanded=false]:visible")
    if settings.count():
        settings.click()
    for summary in page.locator("details:not([open]) > summary.side").all():
        summary.click()


def opened(page, site, path, ready=""):
    """Goes to a page and waits until it says that it is ready."""
    page.goto(site + path)
    page.wait_for_selector(f"html[data-ready^='{ready}']")


def numbers(page, site, model, name, asked, **given):
    """A part of a trace of an input, as the service gives it."""
    body = {"model": model, **given}
    told = page.request.post(f"{site}api/v1/traces", data=body).json()
    answer = page.request.get(f"{site}api/v1/traces/{told['trace_id']}/{name}", params=asked)
    return np.load(io.BytesIO(answer.body()), allow_pickle=False).astype(float)

"""Budgets of the explorer in a browser, with large models: `make acceptance`, on a machine that does nothing else.

Each figure is printed; a budget that is missed is measured once more before it counts.
"""

import re
import shutil
import statistics
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

import headwise
from headwise.explorer import pages as served_pages

CHROMIUM = shutil.which("chromium")
pytestmark = [pytest.mark.perf, pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")]
PAGES = ("", "attend", "translate", "trace", "positions", "vision", "graph", "compare", "film")
SENTENCE = "the quick brown fox jumps over the lazy dog "
# 500 characters, the longest that is looked at
LONG = (SENTENCE * 12)[:500].strip()
SIZES = {"medium": (6, 8), "large": (24, 16)}
FRAMES = """() => new Promise((done) => { const at = []; const tick = (now) => { at.push(now);
    if (now - at[0] < 2500) requestAnimationFrame(tick); else done(at); }; requestAnimationFrame(tick); })"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    place = tmp_path_factory.mktemp("large")
    (place / "text.txt").write_text(f"{SENTENCE}\n" * 200)
    for name, (layers, heads) in SIZES.items():
        recipe = {
            "task": "language-model",
            "data": {"train": str(place / "text.txt")},
            "length": 512,
            "tokenizer": {"kind": "char"},
            "model": {"kind": "decoder", "d_model": 8 * heads, "d_ff": 32, "num_heads": heads, "num_layers": layers},
            "decoding": {"method": "greedy", "max_len": 1},
            "training": {"max_steps": 1, "batch_tokens": 512, "validate_every_epochs": 0, "warmup_steps": 1},
        }
        headwise.train(recipe, place / name)
    command = [sys.executable, "-m", "headwise", "explore", *(str(place / name) for name in SIZES)]
    with subprocess.Popen([*command, "--no-browser", "--threads", "1"], stdout=subprocess.PIPE, text=True) as process:
        yield process.stdout.readline().split()[2].rstrip(";")
        process.terminate()


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        flags = ["--no-sandbox", "--disable-gpu", "--js-flags=--expose-gc", "--enable-precise-memory-info"]
        found = started.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield found
        found.close()


@pytest.fixture
def page(browser):
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    yield context.new_page()
    context.close()


def within(name, budget, measure):
    """The smaller of at most two measurements is within the budget."""
    found = measure()
    if found > budget:
        found = min(found, measure())
    print(f"{name}: {found:,.1f} (at most {budget:,})")
    assert found <= budget, name


def attend(page, site, model, **chosen):
    asked = "&".join(f"{key}={value}" for key, value in {"m": model, "x": LONG.replace(" ", "+"), **chosen}.items())
    page.goto("about:blank")
    page.goto(f"{site}#/attend?{asked}")
    page.wait_for_selector("html[data-ready]", timeout=120_000)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_painted_at_once(browser, site, name):
    def painted():
        context = browser.new_context()
        page, asked = context.new_page(), []
        page.on("response", lambda one: asked.append(one))
        page.goto(f"{site}#/{name}")
        page.wait_for_selector("html[data-shell]")
        page.wait_for_timeout(500)
        entries = "performance.getEntriesByName('first-contentful-paint').map((one) => one.startTime)"
        (found,) = page.evaluate(entries)
        assert len(asked) <= 60
        scripts = sum(len(one.body()) for one in asked if re.search(r"\.(js|css)$", one.url))
        assert scripts <= 200_000
        context.close()
        return found

    within(f"first paint of #/{name}, ms", 1000, painted)


def test_all_files_are_small():
    folder = Path(served_pages.__file__).parent / "static"
    total = sum(one.stat().st_size for one in folder.rglob("*") if one.is_file())
    print(f"all static files: {total:,} bytes")
    assert total <= 1 << 20


def test_hovering_is_smooth(page, site):
    attend(page, site, "medium", h=1)
    canvas = page.locator("canvas.heat")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()

    def gaps():
        page.evaluate(f"window.frames_seen = ({FRAMES})()")
        for step in range(100):
            page.mouse.move(box["x"] + 5 + (7 * step) % (box["width"] - 10), box["y"] + 5 + (5 * step) % 400)
        at = page.evaluate("window.frames_seen")
        return sorted(b - a for a, b in pairwise(at))

    within("hover over 500 x 500: mean frame, ms", 1000 / 55, lambda: statistics.mean(gaps()))
    within("hover over 500 x 500: 95th percentile, ms", 20, lambda: (found := gaps())[int(0.95 * len(found))])


def test_a_head_is_switched_at_once(page, site):
    attend(page, site, "medium")

    def switched():
        return statistics.median(page.evaluate(SWITCH, ".") for _ in range(10))

    within("switch of a head at n = 500, ms", 250, switched)


SWITCH = """async (key) => { const root = document.documentElement, old = root.dataset.ready, from = performance.now();
    document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
    while (root.dataset.ready === old) await new Promise((done) => requestAnimationFrame(done));
    return performance.now() - from; }"""


def test_links_are_drawn_at_once(page, site):
    attend(page, site, "medium", v="heat")
    page.keyboard.press("v")
    page.wait_for_selector("html[data-ready$='links']")
    count = page.evaluate("document.querySelectorAll('main path, main line').length")
    assert count <= 40_000


def test_a_large_trace_sends_little_before_a_head_is_chosen(page, site):
    told = page.request.post(f"{site}api/v1/traces", data={"model": "large", "text": LONG})
    group = told.json()["groups"][0]
    trace = f"{site}api/v1/traces/{told.json()['trace_id']}"
    asked = {"group": group["name"]}
    sent = len(told.body()) + len(page.request.get(f"{trace}/summary", params=asked).body())
    for first in range(0, 24, 8):
        answer = page.request.get(f"{trace}/thumbs", params={**asked, "first": first, "count": 8, "size": 32})
        sent += len(answer.body())
    matrix = page.request.get(f"{trace}/matrix", params={"layer": group["layers"][0], "head": 0})
    size = len(group["queries"])
    print(f"24 x 16 heads, {size} tokens: {sent:,} bytes before a head, {len(matrix.body()):,} for one")
    assert sent <= 1 << 20
    assert len(matrix.body()) <= 2 * size * size + 256


def test_switching_heads_keeps_memory(page, site):
    attend(page, site, "medium")

    def heap():
        page.evaluate("gc()")
        return page.evaluate("performance.memory.usedJSHeapSize") / 2**20

    for _ in range(16):
        page.evaluate(SWITCH, ".")
    before = heap()
    for _ in range(50):
        page.evaluate(SWITCH, ".")
    grown = heap() - before
    print(f"heap after 50 switches of heads at n = 500: {grown:+.1f} MiB")
    assert grown < 20


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_axe_finds_nothing(browser, site, scheme, width):
    from axe_playwright_python.sync_playwright import Axe

    found = []
    for name in PAGES:
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True, reduced_motion="reduce"
        )
        page = context.new_page()
        page.goto(f"{site}#/{name}?m=medium&x=the+quick+fox")
        page.wait_for_selector("html[data-shell]")
        page.wait_for_timeout(1500)
        told = Axe().run(page).response["violations"]
        found += [f"{name}: {one['id']}: {one['nodes'][0]['html'][:150]}" for one in told]
        context.close()
    assert not found, "\n".join(found)


@pytest.mark.parametrize("width", [390, 768, 1280, 1920])
def test_nothing_is_wider_than_the_screen_or_too_small_to_touch(browser, site, width):
    context = browser.new_context(viewport={"width": width, "height": 900})
    page, wrong = context.new_page(), []
    small = """() => [...document.querySelectorAll('button, select, input, nav a')].filter((one) => {
        const box = one.getBoundingClientRect();
        return box.width && (box.height < 24 || box.width < 24);
    }).map((one) => one.outerHTML.slice(0, 80))"""
    for name in PAGES:
        page.goto("about:blank")
        page.goto(f"{site}#/{name}?m=medium&x=the+quick+fox")
        page.wait_for_selector("html[data-shell]")
        page.wait_for_timeout(1000)
        if not page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"):
            wrong.append(f"{name} is wider than {width}")
        wrong += [f"{name}: {one}" for one in page.evaluate(small)]
    context.close()
    assert not wrong, "\n".join(wrong)

"""Budgets of the explorer in a browser, with large models: `make acceptance`, on a machine that does nothing else.

Each figure is printed; a budget that is missed is measured once more before it counts.
"""

import re
import statistics
import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
from browsing import ABSENT, explored_at, started
from serving_runs import filmed_of, long_of, task_run, words_of

import headwise
from headwise.explorer import pages as served_pages

pytestmark = [pytest.mark.perf, ABSENT]
# each with a run that it has something to show of
PAGES = {
    "": "",
    "attend": "?m=medium&x=the+quick+fox",
    "translate": "?m=film-run&x=a+and+g+.",
    "trace": "?m=film-run&x=a+and+g+.",
    "positions": "",
    "vision": "?m=image-classify-patches&ex=0",
    "graph": "?m=node-classify&ex=0",
    "compare": "?m=film-run&x=a+and+g+.",
    "film": "?m=film-run",
}
SENTENCE = "the quick brown fox jumps over the lazy dog "
# 500 characters, nearly as many tokens as are looked at
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
    runs = [place / name for name in SIZES] + [filmed_of(place)]
    for name in ("image-classify, patches", "node-classify"):
        (place / name).mkdir()
        runs.append(task_run(place / name, name))
    with explored_at(runs) as found:
        yield found


@pytest.fixture(scope="module")
def browser():
    with started("--js-flags=--expose-gc", "--enable-precise-memory-info") as found:
        yield found


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


def attend(page, site, model, text=LONG, **chosen):
    asked = "&".join(f"{key}={value}" for key, value in {"m": model, "x": text.replace(" ", "+"), **chosen}.items())
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
        page.wait_for_selector("#main > *")
        framed = len(asked)
        page.wait_for_selector("html[data-ready]")
        page.wait_for_load_state("networkidle")
        (found,) = page.evaluate("performance.getEntriesByName('first-contentful-paint').map((one) => one.startTime)")
        files = [one for one in asked if re.search(r"\.(js|css)$", one.url)]
        sent = sum(one.request.sizes()["responseBodySize"] for one in files)
        whole = sum(len(one.body()) for one in files)
        print(f"#/{name}: {framed} requests until its frame stands, {len(asked)} in all;", end=" ")
        print(f"scripts and styles: {sent:,} bytes, {whole:,} unpacked")
        assert framed <= 60
        assert sent <= 120_000
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
    page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": 4})
    within("the same at a quarter of the speed: mean frame, ms", 1000 / 45, lambda: statistics.mean(gaps()))


def test_the_first_picture_is_drawn_at_once(browser, site):
    def drawn():
        context = browser.new_context()
        page = context.new_page()
        page.request.post(f"{site}api/v1/traces", data={"model": "medium", "text": "the quick fox"})
        begun = time.perf_counter()
        page.goto(f"{site}#/attend{PAGES['attend']}")
        page.wait_for_selector("html[data-ready]")
        found = 1000 * (time.perf_counter() - begun)
        context.close()
        return found

    within("Attend with an example drawn, ms", 1500, drawn)


@pytest.mark.parametrize(("length", "budget"), [(256, 150), (500, 250)])
def test_a_head_is_switched_at_once(page, site, length, budget):
    # of its tokens the first stands for the beginning, the last is written
    attend(page, site, "medium", (SENTENCE * 12)[: length - 2].strip() if length < 500 else LONG)
    size = page.evaluate("import('/static/js/state.js').then((one) => one.trace.value.groups[0].keys.length)")
    assert abs(size - length) <= 2

    def switched():
        return statistics.median(page.evaluate(SWITCH, ".") for _ in range(10))

    within(f"switch of a head at n = {length}, ms", budget, switched)


SWITCH = """async (key) => { const root = document.documentElement, old = root.dataset.ready, from = performance.now();
    document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
    while (root.dataset.ready === old) await new Promise((done) => requestAnimationFrame(done));
    return performance.now() - from; }"""


DRAWN = """async ([view, layers, heads, n]) => { const state = await import('/static/js/state.js');
    const place = document.body.appendChild(document.createElement('div'));
    const names = (count) => Array.from({ length: count }, (_, at) => `t${at}`);
    const [queries, keys] = [names(n), names(n)];
    const group = { name: 'g', kind: 'self', layers: names(layers), heads, queries, keys, causal: false };
    const module = await import(`/static/js/views/${view}.js`), from = performance.now();
    if (view === 'head_grid') {
        const data = Uint8Array.from({ length: layers * heads * 32 * 32 }, (_, at) => at % 256);
        module.mount(place, group, { shape: [layers, heads, 32, 32], data }, false);
        place.getBoundingClientRect();
        return [performance.now() - from];
    }
    const weights = Float32Array.from({ length: n * n }, (_, at) => ((7 * at) % 101) / (50 * n));
    const coloured = Array.from({ length: heads }, (_, head) => ({ head, place: head, weights }));
    module.mount(place, { weights, group, title: 't', coloured, count: heads, chosen: 0 });
    const first = performance.now() - from, again = performance.now();
    state.hovered.value = { q: 3, k: -1 };
    return [first, performance.now() - again]; }"""


@pytest.mark.parametrize(
    ("view", "size", "budgets"),
    [
        ("head_grid", (6, 8, 32), [50]),
        ("head_grid", (24, 16, 32), [500]),
        ("links", (1, 8, 128), [200, 16]),
        ("links", (1, 1, 500), [200, 16]),
    ],
)
def test_views_are_drawn_at_once(page, site, view, size, budgets):
    page.goto(site)
    page.wait_for_selector("html[data-shell]")
    # the cards of Home, which are another page's work
    page.wait_for_load_state("networkidle")
    page.evaluate(DRAWN, [view, *size])
    for at, budget in enumerate(budgets):
        what = f"{view} of {' x '.join(map(str, size))}, {('drawn', 'a token hovered')[at]}, script ms"
        within(what, budget, lambda at=at: page.evaluate(DRAWN, [view, *size])[at])


def test_links_are_bounded(page, site):
    page.goto(site)
    page.wait_for_selector("html[data-shell]")
    count = """async () => { const { strongest } = await import('/static/js/core/links.js');
        const found = strongest(new Float32Array(500 * 500).fill(1), 500, 500, 0.9, -1);
        return [found.links.length, found.cut]; }"""
    assert page.evaluate(count) == [40_000, True]


def test_writing_begins_at_once(page, site):
    page.goto(site)
    page.wait_for_selector("html[data-shell]")
    asked = """async () => { const { postLines } = await import('/static/js/api.js'), at = [], from = performance.now();
        const told = (line) => at.push(performance.now() - from);
        const body = { model: 'film-run', text: 'a and g .' };
        await postLines('/api/v1/generate', body, new AbortController().signal, told); return at; }"""
    within("first event of a stream, cold server, ms", 500, lambda: page.evaluate(asked)[0])
    within("between two tokens of a stream, ms", 100, lambda: max(b - a for a, b in pairwise(page.evaluate(asked))))


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


def test_a_large_model_is_seen_and_its_heads_are_switched_at_once(browser, site):
    def first():
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        page = context.new_page()
        page.request.post(f"{site}api/v1/traces", data={"model": "large", "text": LONG}, timeout=120_000)
        begun = time.perf_counter()
        attend(page, site, "large")
        found = 1000 * (time.perf_counter() - begun)
        page.locator("canvas.thumb").nth(24 * 16 - 1).wait_for(timeout=120_000)
        print(f"24 x 16 heads, all small pictures: {1000 * (time.perf_counter() - begun):,.0f} ms")
        page.locator(".finder button").first.wait_for(timeout=120_000)
        print(f"24 x 16 heads, heads by what they do: {1000 * (time.perf_counter() - begun):,.0f} ms")
        box = page.locator("canvas.heat").bounding_box()
        assert box["y"] + box["height"] <= 900
        switches.append(statistics.median(page.evaluate(SWITCH, ".") for _ in range(10)))
        context.close()
        return found

    switches = []
    within("24 x 16 heads, 512 tokens: first map, ms", 4000, first)
    print(f"24 x 16 heads, 512 tokens: switch of a head, ms: {min(switches):,.1f} (at most 250)")
    assert min(switches) <= 250


@pytest.fixture(scope="module")
def long_site(tmp_path_factory):
    """A model of six layers of eight heads that reads 8,192 tokens; the process of its explorer."""
    folder = long_of(tmp_path_factory.mktemp("long"), length=8192, heads=8, layers=6)
    with explored_at([folder]) as found:
        yield found


def peak_of(site):
    """Bytes that the process at an address has had in memory at most, as Linux counts them."""
    port = site.rstrip("/").rpartition(":")[2]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command, status = (process / "cmdline").read_bytes(), (process / "status").read_text()
        except OSError:
            continue
        if b"headwise\0explore" in command and port_of(process) == port:
            return 1024 * int(re.search(r"VmHWM:\s+(\d+)", status)[1])
    raise AssertionError(f"no process listens at {site}")


def port_of(process):
    """The port at which a process listens."""
    sockets = set()
    for link in (process / "fd").glob("*"):
        # a connection may end meanwhile
        with suppress(FileNotFoundError):
            sockets.add(link.readlink().name)
    for line in (process / "net" / "tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
            return str(int(fields[1].rpartition(":")[2], 16))
    return None


# moves the window by steps, each to the next picture without gaps
PANNED = """async () => { const root = document.querySelector('canvas.heat'), at = [];
    const state = await import('/static/js/state.js');
    for (let step = 0; step < 20; step += 1) {
        const from = performance.now(), span = state.span.value;
        state.span.value = { ...span, y: span.y + 16 };
        do await new Promise((done) => requestAnimationFrame(done)); while (root.dataset.complete !== 'true');
        at.push(performance.now() - from);
    }
    return at; }"""
ROW = """async (q) => { const state = await import('/static/js/state.js'), from = performance.now();
    state.lock({ q, k: 0 });
    do await new Promise((done) => requestAnimationFrame(done));
    while (document.querySelector('.read .waiting') || !document.querySelector('.read .shares'));
    return performance.now() - from; }"""


def test_an_input_of_8192_tokens_is_seen_whole_and_to_its_single_weights(browser, long_site):
    text = words_of(8190)
    begun = time.perf_counter()
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    told = page.request.post(f"{long_site}api/v1/traces", data={"text": text}, timeout=120_000)
    assert len(told.json()["groups"][0]["queries"]) == 8192
    print(f"8,192 tokens: the model's own passes and the trace, ms: {1000 * (time.perf_counter() - begun):,.0f}")
    heads = iter(range(48))

    def first():
        # a head of which nothing is known yet
        layer, head = divmod(next(heads), 8)
        begun = time.perf_counter()
        attend(page, long_site, "long", text, l=layer, h=head)
        page.locator("canvas.heat[data-complete='true']").wait_for(timeout=60_000)
        return 1000 * (time.perf_counter() - begun)

    within("8,192 tokens: first map, ms", 5000, first)
    within("8,192 tokens: switch of a head, ms", 3000, lambda: page.evaluate(SWITCH, "."))
    rows = iter(range(100, 8000, 700))
    within("8,192 tokens: a row on demand, ms", 1000, lambda: page.evaluate(ROW, next(rows)))
    # until a weight has a pixel of its own, also where the map has 300 of them
    for _ in range(9):
        page.keyboard.press("+")
    page.locator("canvas.heat[data-block='1'][data-complete='true']").wait_for(timeout=60_000)
    within("8,192 tokens: a step of panning, median, ms", 50, lambda: statistics.median(page.evaluate(PANNED)))
    context.close()
    within("8,192 tokens: peak memory of the process, bytes", 1_500_000_000, lambda: peak_of(long_site))


def test_switching_heads_keeps_memory(page, site):
    attend(page, site, "medium")

    def heap():
        # what a switch leaves is free when the page has come to rest
        for _ in range(3):
            page.evaluate("new Promise((done) => requestIdleCallback(() => done(gc())))")
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
        page.goto(f"{site}#/{name}{PAGES[name]}")
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
        page.goto(f"{site}#/{name}{PAGES[name]}")
        page.wait_for_selector("html[data-shell]")
        page.wait_for_timeout(1000)
        if not page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"):
            wrong.append(f"{name} is wider than {width}")
        wrong += [f"{name}: {one}" for one in page.evaluate(small)]
    context.close()
    assert not wrong, "\n".join(wrong)

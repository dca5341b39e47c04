"""The page of films in a browser: frames under the slider, the address, the keyboard, nothing from elsewhere."""

import itertools
import re

import numpy as np
import pytest
from browsing import IN_BROWSER, explored_at, hatched
from serving_runs import filler_of, filmed_of

from headwise.explain.reel import Reel

pytestmark = IN_BROWSER
LAYER = "encoder.blocks.0.self_attention"


@pytest.fixture(scope="module")
def reel(tmp_path_factory):
    return Reel(filmed_of(tmp_path_factory.mktemp("shown")))


@pytest.fixture(scope="module")
def site(reel, tmp_path_factory):
    with explored_at([reel._film.folder.parent, filler_of(tmp_path_factory.mktemp("other"))]) as found:
        yield found


def at(page, step, probe=0, layer=LAYER, head=0):
    page.wait_for_selector(f"html[data-ready='film/{step}/{probe}/{layer}/{head}']")


def under(page, q, k, exact):
    canvas = page.locator("canvas.heat")
    box, (rows, columns) = canvas.bounding_box(), exact.shape
    canvas.hover(position={"x": (k + 0.5) * box["width"] / columns, "y": (q + 0.5) * box["height"] / rows})
    return float(page.locator(".tip").inner_text().split()[-1])


def test_each_frame_has_the_numbers_of_its_step(page, site, reel):
    page.goto(site + "#/film?l=0&p=1&h=1")
    at(page, 3, probe=1, head=1)
    for step in (3, 0):
        if step == 0:
            page.locator("input[type=range]").fill("0")
            at(page, 0, probe=1, head=1)
        exact = reel.weights(step, 1, LAYER)[1]
        for q, k in ((0, 0), (1, 3), (4, 4)):
            assert under(page, q, k, exact) == pytest.approx(exact[q, k], rel=6e-3)
    # an untrained model does not translate: what is fed to it is not called its answer
    caption = "answer, fed in each frame" if reel.probes[1]["target"] else "answer"
    assert page.locator(".side", has_text=f"{caption}: ").count() == 1
    entropy = page.locator("figure", has_text="entropy").locator(".now").inner_text()
    assert float(entropy) == pytest.approx(float(reel.curves(LAYER)[0, 0, 1]), rel=6e-3)


def test_a_film_opens_on_what_reads_the_source_in_the_probe_that_turns_most(page, site, reel):
    page.goto(site + "#/film")
    cross = [name for name in reel.layers if "cross" in name][-1]
    peaks = [reel.weights(3, probe, cross).mean(0).argmax(1).tolist() for probe in range(len(reel.probes))]
    turned = [(sum(b < a for a, b in itertools.pairwise(rows)), len(rows)) for rows in peaks]
    at(page, 3, turned.index(max(turned)), cross)


def test_what_a_mask_forbids_is_hatched(page, site, reel):
    masked = "decoder.blocks.0.self_attention"
    number = list(reel.layers).index(masked)
    page.goto(f"{site}#/film?l={number}&p=0")
    at(page, 3, layer=masked)
    page.wait_for_timeout(100)
    allowed = reel.allowed(3, 0, masked)[0]
    assert 0 < allowed.sum() < allowed.size
    np.testing.assert_array_equal(hatched(page.locator("canvas.heat"), *allowed.shape), ~allowed)
    assert "forbidden by the mask" in page.locator(".panel.wide div.legend").inner_text()


def test_the_keyboard_plays_and_the_address_follows(page, site):
    page.goto(site + "#/film?l=0&p=0")
    at(page, 3)
    page.keyboard.press("Home")
    at(page, 0)
    assert re.search(r"#/film\?l=0&s=0&p=0$", page.url)
    page.keyboard.press("ArrowRight")
    at(page, 1)
    page.keyboard.press(".")
    at(page, 1, head=1)
    page.keyboard.press("]")
    at(page, 1, layer="encoder.blocks.1.self_attention", head=1)
    page.reload()
    at(page, 1, layer="encoder.blocks.1.self_attention", head=1)
    page.keyboard.press("Home")
    page.keyboard.press("Space")
    at(page, 3, layer="encoder.blocks.1.self_attention", head=1)
    page.wait_for_selector("button.play[aria-pressed=false]")
    page.get_by_label("recorded input", exact=True).select_option("1")
    at(page, 3, probe=1, layer="encoder.blocks.1.self_attention", head=1)


def test_a_click_on_a_curve_goes_to_its_step(page, site):
    page.goto(site + "#/film?l=0&p=0")
    at(page, 3)
    curve = page.locator("canvas.curve").first
    box = curve.bounding_box()
    curve.click(position={"x": 40 + (box["width"] - 46) / 3, "y": 50})
    at(page, 1)
    read = "(one) => Array.from(one.getContext('2d').getImageData(0, 0, one.width, one.height).data)"
    pixels = np.array(curve.evaluate(read)).reshape(-1, 4)[:, 3]
    assert np.count_nonzero(pixels) > 500


def test_the_page_fits_and_has_targets_to_touch(page, site):
    page.goto(site + "#/film?l=0&p=0")
    at(page, 3)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    for button in page.locator("main button, main select").all():
        box = button.bounding_box()
        assert min(box["width"], box["height"]) >= 24


def test_a_sentence_says_when_the_alignment_appears(page, site, reel):
    number, layer = len(reel.layers) - 1, list(reel.layers)[-1]
    page.goto(f"{site}#/film?l={number}&p=0")
    at(page, 3, layer=layer)
    said = page.locator(".settled .say")
    said.wait_for()
    curve = [value >= 0.8 for value in reel.agreement(layer)[:, 0]]
    first = len(curve) - next((n for n, on in enumerate(reversed(curve)) if not on), len(curve))
    if any(flag.head == 0 for flag in reel.flags.get(layer, [])):
        assert "chooses no key" in said.inner_text()
    elif first >= len(curve) - 1:
        assert "still changes" in said.inner_text()
    elif first == 0:
        assert "from the first frame on" in said.inner_text()
    else:
        page.locator(".settled button").first.click()
        at(page, reel.steps[first], layer=layer)
    assert page.locator("figure", has_text="as at the end").locator(".now").inner_text().strip() == "1"


SETTLED = """async ([data, heads]) => { const { settled } = await import('/static/js/views/film_settled.js');
    return settled({ data, shape: [data.length / heads, heads] }, 0); }"""


@pytest.mark.parametrize(
    ("curve", "frame"),
    [
        ([0, 0.5, 0.9, 1], 2),
        ([0.9, 0.5, 0.8, 0.9, 1], 2),
        ([0.9, 0.8, 1], 0),
        ([0, 0, 0.7, 1], -1),
        ([1], -1),
        ([None, 0.9, 1], 1),
    ],
)
def test_an_alignment_appears_where_it_stays(page, site, curve, frame):
    page.goto(site)
    page.wait_for_selector("html[data-shell]")
    assert page.evaluate(SETTLED, [curve, 1]) == frame


def test_a_run_without_a_film_says_how_to_get_one(page, site):
    page.goto(site + "#/film?m=filler&lang=zh")
    page.wait_for_selector("html[data-ready='film/none']")
    said = page.locator("main").inner_text()
    assert "headwise train filler/config.toml film.every=50 --run-folder filler-film" in said
    assert "逐帧" in said
    # its keys do nothing here, and nothing is typed
    assert "空格" not in said
    assert not page.locator("#input").is_visible()
    # a run that has one is a click away
    page.locator(".offers button", has_text="film-run").click()
    page.wait_for_selector("html[data-ready^='film/3/']")
    assert page.locator(".offers").count() == 0


def test_what_stands_without_a_film_ends_with_its_page(page, site):
    page.goto(site + "#/film?m=filler")
    page.wait_for_selector("html[data-ready='film/none']")
    page.locator("nav a[href^='#/positions']").click()
    page.wait_for_selector("html[data-ready^='positions']")
    seen = """() => { const at = document.documentElement; window.seen = [];
        const watch = new MutationObserver(() => window.seen.push(at.dataset.ready));
        watch.observe(at, {attributeFilter: ["data-ready"]}); }"""
    page.evaluate(seen)
    page.get_by_role("button", name="中文").click()
    page.wait_for_function("() => window.seen.some((name) => name?.startsWith('positions'))")
    assert "film/none" not in page.evaluate("window.seen")

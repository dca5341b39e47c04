"""The pages in a browser: numbers under the pointer, the address, the keyboard, nothing from elsewhere."""

import io
import re

import numpy as np
import pytest
from browsing import IN_BROWSER, explored_at, unfold
from serving_runs import TEXT, folder_of

from headwise.explain.ramps import CONTROLS, LINES, PALETTE, hexadecimal, ramp, to_rgb

pytestmark = IN_BROWSER
LAYER = "decoder.blocks.0.cross_attention"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with explored_at([folder_of(tmp_path_factory.mktemp("shown"))]) as found:
        yield found


def opened(page, site, path):
    page.goto(site + path)
    page.wait_for_selector("html[data-ready]" if "?" in path else "html[data-shell]")


def number_of(client, site, name, **asked):
    told = client.request.post(f"{site}api/v1/traces", data={"text": TEXT}).json()
    answer = client.request.get(f"{site}api/v1/traces/{told['trace_id']}/{name}", params=asked)
    return np.load(io.BytesIO(answer.body()), allow_pickle=False).astype(float)


def test_the_number_under_the_pointer_is_the_weight(page, site):
    opened(page, site, "#/attend?x=a+and+g+.&g=decoder+cross&h=1")
    exact = number_of(page, site, "matrix", layer=LAYER, head=1)
    canvas = page.locator("canvas.heat")
    box = canvas.bounding_box()
    rows, columns = exact.shape
    for q in range(0, rows, 2):
        for k in range(columns):
            place = {"x": (k + 0.5) * box["width"] / columns, "y": (q + 0.5) * box["height"] / rows}
            canvas.hover(position=place)
            shown = page.locator(".tip").inner_text()
            assert float(shown.split()[-1]) == pytest.approx(exact[q, k], rel=6e-3)


def test_the_names_of_the_pages_take_no_more_room_than_they_need(page, site):
    opened(page, site, "")
    links = page.locator("nav a")
    heights = links.evaluate_all("(all) => all.map((one) => one.getBoundingClientRect().height)")
    assert max(heights) < 48


TABLES = """async (names) => { const { ramp } = await import('/static/js/core/color.js');
    return names.map((name) => Array.from(ramp(name))); }"""


def test_the_tables_of_the_pages_are_those_of_the_figures(page, site):
    opened(page, site, "")
    for name, table in zip(CONTROLS, page.evaluate(TABLES, list(CONTROLS)), strict=True):
        found = np.array(table).reshape(256, 4)
        assert [f"#{bytes(colour.astype(np.uint8)).hex()}" for colour in found[:, :3]] == hexadecimal(name)
        assert (found[:, 3] == 255).all()
    lists = {"palette": PALETTE} | {f"lines {scheme}": colours for scheme, colours in LINES.items()}
    for colours, table in zip(lists.values(), page.evaluate(TABLES, list(lists)), strict=True):
        assert np.array(table).reshape(256, 4)[:8, :3].tolist() == [list(to_rgb(colour)) for colour in colours]


def test_cells_have_the_colours_of_the_ramp(page, site):
    opened(page, site, "#/attend?x=a+and+g+.&g=decoder+cross&l=0&h=0&sc=linear")
    exact = number_of(page, site, "matrix", layer=LAYER, head=0)
    page.wait_for_timeout(100)
    read = """(canvas) => { const c = canvas.getContext('2d'), n = [canvas.height, canvas.width];
        return [n, Array.from(c.getImageData(0, 0, n[1], n[0]).data)]; }"""
    (height, width), pixels = page.locator("canvas.heat").evaluate(read)
    image = np.array(pixels, dtype=float).reshape(height, width, 4)
    colours = ramp(f"ink {page.scheme}") * 255
    for q, k in ((0, 0), (1, 3), (exact.shape[0] - 1, exact.shape[1] - 1)):
        entry = round(255 * exact[q, k] / exact.max())
        seen = image[int((q + 0.2) * height / exact.shape[0]), int((k + 0.2) * width / exact.shape[1]), :3]
        near = colours[max(0, entry - 1) : entry + 2]
        assert np.abs(near - seen).max(axis=1).min() <= 2


def test_the_address_holds_what_is_shown(page, site):
    opened(page, site, "#/attend?x=a+and+g+.&g=decoder+cross&l=0&h=0")
    page.locator("canvas.heat").click(position={"x": 5, "y": 5})
    page.keyboard.press(".")
    page.wait_for_selector("html[data-ready='decoder cross/0/1/heat']")
    assert re.search(r"h=1&q=0&k=0", page.url)
    page.reload()
    page.wait_for_selector("html[data-ready='decoder cross/0/1/heat']")
    page.keyboard.press("v")
    page.wait_for_selector("html[data-ready='decoder cross/0/1/links']")
    page.go_back()
    page.wait_for_selector("html[data-ready='decoder cross/0/1/heat']")


def test_the_keyboard_is_enough(page, site):
    opened(page, site, "#/")
    page.keyboard.press("/")
    page.keyboard.type(TEXT)
    page.keyboard.press("Enter")
    page.wait_for_selector("html[data-ready]")
    page.locator("body").focus()
    page.keyboard.press("Tab")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("ArrowDown")
    page.wait_for_selector("p.status:has-text('→')")
    for view in ("links", "text"):
        page.keyboard.press("v")
        page.wait_for_selector(f"html[data-ready$='{view}']")


@pytest.mark.parametrize("path", ["#/", "#/attend?x=a+and+g+.", "#/attend?x=a+and+g+.&v=links", "#/trace?x=a+and+g+."])
def test_no_page_is_wider_than_the_screen(page, site, path):
    opened(page, site, path)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_what_is_typed_is_text(page, site):
    opened(page, site, "#/")
    evil = "<img src=x onerror=window.hurt=1> <b>g</b> .  𝔘 العربية"
    page.fill("#input", evil)
    page.press("#input", "Enter")
    page.wait_for_selector("html[data-ready]")
    for view in "vvv":
        page.keyboard.press(view)
        page.wait_for_timeout(100)
    assert page.evaluate("window.hurt") is None
    assert page.locator("main img, main b").count() == 0


def test_steps_and_tables_show_the_same_numbers(page, site):
    opened(page, site, "#/trace?x=a+and+g+.&g=decoder+cross&h=1")
    exact = number_of(page, site, "matrix", layer=LAYER, head=1)
    page.get_by_role("tab", name="Softmax").click()
    for q in range(exact.shape[0]):
        cells = page.locator(f"td[data-at^='weights.{q}.']").all_inner_texts()
        # a weight in a cell has three decimals, and no zero before them
        shown = [float(text.replace("·", "0").replace(">", "")) for text in cells]
        np.testing.assert_allclose(shown, exact[q], atol=2e-3)


def test_both_languages_have_every_word(page, site):
    opened(page, site, "#/attend?x=a+and+g+.&lang=zh")
    names = page.locator("nav a").all_inner_texts()
    assert {"首页", "注意力", "逐步计算", "翻译"} <= set(names)
    assert not any(re.search("[a-z]", name) for name in names)
    assert page.locator("html").get_attribute("lang") == "zh-Hans"


@pytest.mark.parametrize("kind", ["HTML", "npz"])
def test_all_that_is_shown_is_saved_as_one_file(page, site, kind):
    opened(page, site, "#/attend?x=a+and+g+.&g=decoder+cross&h=1")
    exact = number_of(page, site, "matrix", layer=LAYER, head=1)
    unfold(page)
    with page.expect_download() as waiting:
        page.locator(".saving button", has_text=kind).click()
    assert waiting.value.suggested_filename == f"attention.{kind.lower()}"
    assert re.search(r"attention\.\w+, \d+ KB", page.locator("p.status").inner_text())
    if kind == "npz":
        with np.load(waiting.value.path()) as found:
            np.testing.assert_allclose(found[f"{LAYER}.weights"][1], exact, atol=5e-4)
    else:
        assert waiting.value.path().read_bytes().startswith(b"<!doctype html>")

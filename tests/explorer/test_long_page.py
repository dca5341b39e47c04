"""Attend of a long input in a browser: what is shown is said, zoomed in to exact weights, any row read exactly."""

import re

import numpy as np
import pytest
from browsing import IN_BROWSER, explored_at
from serving_runs import long_of, words_of

import headwise

pytestmark = IN_BROWSER
TEXT = words_of(898)
ATTEND = f"#/attend?x={TEXT.replace(' ', '+')}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return long_of(tmp_path_factory.mktemp("long"))


@pytest.fixture(scope="module")
def site(folder):
    with explored_at([folder]) as address:
        yield address


@pytest.fixture(scope="module")
def exact(folder):
    """The weights of the first head."""
    return headwise.load(folder).explain(TEXT).layers["decoder.blocks.0.self_attention"].weights[0]


def opened(page, site, more=""):
    page.goto("about:blank")
    page.goto(f"{site}{ATTEND}{more}")
    page.wait_for_selector("html[data-ready$='long']", timeout=60_000)
    page.wait_for_selector("canvas.heat[data-complete='true']", timeout=60_000)


def test_the_whole_map_says_what_its_cells_are(page, site):
    opened(page, site)
    note = page.locator(".legend.folded")
    # all of it is seen, so a cell stands for several weights
    assert re.match(r"Each cell is the largest of [24] × [24] weights, of 900 × 900", note.inner_text())
    page.get_by_role("button", name="Means").click()
    page.get_by_text(re.compile("Each cell is the mean of")).wait_for()
    assert "po=mean" in page.url
    # nothing that needs all weights at once is offered
    assert page.get_by_role("button", name="Raw scores").count() == 0
    page.locator(".heads-of-all[data-complete='true']").wait_for(timeout=60_000)
    assert page.locator("canvas.thumb").count() == 4


def test_zooming_in_comes_to_exact_weights(page, site, exact):
    opened(page, site, "&q=700&k=300")
    for _ in range(12):
        page.keyboard.press("+")
    page.wait_for_selector("canvas.heat[data-block='1'][data-complete='true']", timeout=60_000)
    assert "Each cell is one exact weight, of 900 × 900" in page.locator(".legend.folded").inner_text()
    canvas = page.locator("canvas.heat")
    box = canvas.bounding_box()
    canvas.scroll_into_view_if_needed()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.locator(".tip:not([hidden])").wait_for()
    at = page.evaluate("import('/static/js/state.js').then((one) => one.hovered.value)")
    told = page.locator(".tip").inner_text()
    weight = exact[at["q"], at["k"]]
    assert (
        told.endswith(" forbidden") if at["k"] > at["q"] else float(told.split()[-1]) == pytest.approx(weight, rel=5e-3)
    )


def test_a_row_is_read_exactly_and_survives_in_the_address(page, site, exact):
    opened(page, site, "&q=812&k=17")
    read = page.locator(".read .shares > div")
    read.first.wait_for()
    shown = [float(text.split()[-2]) / 100 for text in read.all_inner_texts()]
    np.testing.assert_allclose(shown, np.sort(exact[812])[::-1][: len(shown)], atol=6e-4)
    page.keyboard.press("ArrowDown")
    address = page.url.replace("q=812", "q=813")
    page.wait_for_url(address)
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector("html[data-ready$='long']", timeout=60_000)
    read.first.wait_for()
    shown = [float(text.split()[-2]) / 100 for text in read.all_inner_texts()]
    np.testing.assert_allclose(shown, np.sort(exact[813])[::-1][: len(shown)], atol=6e-4)


def test_views_that_need_all_weights_say_so(page, site):
    opened(page, site)
    page.get_by_role("button", name="Text", exact=True).click()
    page.get_by_text("Text would need all 810,000 weights of a head at once (900 tokens)").wait_for()
    assert "810,000 weights" in page.get_by_role("button", name="Text", exact=True).get_attribute("title")
    # the row below is there for whoever came by an address
    page.wait_for_selector("html[data-ready='decoder self/text/none']")
    assert page.locator(".linked .token").count() > 1


def test_another_head_is_drawn_when_it_is_chosen(page, site):
    opened(page, site)
    page.keyboard.press(".")
    page.wait_for_selector("html[data-ready='decoder self/0/1/long']", timeout=60_000)
    assert page.locator(".wide h2").inner_text().endswith("head 2")


def test_links_of_a_long_input_are_those_of_one_row(page, site, exact):
    opened(page, site, "&q=812")
    page.get_by_role("button", name="Links").click()
    page.wait_for_selector("html[data-ready='decoder self/0/0/links']")
    keys = page.locator(".linked .ends").last.locator(".token")

    def largest(row):
        return sorted(np.argsort(-exact[row][: row + 1], kind="stable")[:16])

    def positions():
        return [int(re.search(r"\((\d+)\)$", text)[1]) - 1 for text in keys.all_inner_texts()]

    assert positions() == largest(812)
    shares = [float(one.get_attribute("data-share").split()[0].lstrip("<>")) for one in keys.all()]
    np.testing.assert_allclose(shares, 100 * exact[812][positions()], atol=0.06)
    # a key leads to its own row
    clicked = positions()[3]
    keys.nth(3).click()
    page.locator(".from .token", has_text=f"({clicked + 1})").wait_for()
    assert f"q={clicked}" in page.url
    assert len(positions()) == min(16, clicked + 1)
    # one may be asked for by its position, and a wrong position is refused
    page.get_by_label("Another row, by its position").fill("901")
    page.get_by_role("button", name="Show its row").click()
    page.get_by_text("901 is no position: give one from 1 to 900.").wait_for()
    page.get_by_label("Another row, by its position").fill("3")
    page.keyboard.press("Enter")
    page.locator(".from .token", has_text="(3)").wait_for()
    assert positions() == [0, 1, 2]

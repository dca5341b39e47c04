"""What the pages promise: the server's numbers, masks that are seen, links that open anywhere, the keyboard."""

import io
import random
import re

import numpy as np
import pytest
from browsing import IN_BROWSER, explored_at, hatched
from serving_runs import folder_of, writer_of

pytestmark = IN_BROWSER
WRITTEN = "#/attend?m=text&x=a1+b1&g=decoder+self&sc=linear"
FORBIDDEN = "forbidden by the mask"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    place = tmp_path_factory.mktemp("true")
    with explored_at([folder_of(place), writer_of(place)]) as found:
        yield found


def weights(page, site):
    told = page.request.post(f"{site}api/v1/traces", data={"model": "text", "text": "a1 b1"}).json()
    asked = {"layer": told["groups"][0]["layers"][0], "head": 0}
    answer = page.request.get(f"{site}api/v1/traces/{told['trace_id']}/matrix", params=asked)
    return np.load(io.BytesIO(answer.body()), allow_pickle=False).astype(float)


def middle(box, shape, q, k):
    return {"x": (k + 0.5) * box["width"] / shape[1], "y": (q + 0.5) * box["height"] / shape[0]}


def test_random_cells_tell_the_numbers_of_the_server(page, site):
    page.goto(site + WRITTEN)
    page.wait_for_selector("html[data-ready]")
    exact = weights(page, site)
    np.testing.assert_allclose(exact.sum(axis=1), 1, atol=2e-3)
    canvas = page.locator("canvas.heat")
    box = canvas.bounding_box()
    cells = [(q, k) for q in range(exact.shape[0]) for k in range(exact.shape[1])]
    assert len(cells) >= 100
    told = {True: 0, False: 0}
    for q, k in random.Random(page.scheme).sample(cells, 100):
        canvas.hover(position=middle(box, exact.shape, q, k))
        shown = page.locator(".tip").inner_text()
        told[k > q] += 1
        if k > q:
            assert shown.endswith(FORBIDDEN)
        else:
            assert float(shown.split()[-1]) == pytest.approx(exact[q, k], rel=6e-3, abs=1e-6)
    assert min(told.values()) > 10


def test_forbidden_cells_are_hatched_and_zeros_are_not(page, site):
    page.goto(site + WRITTEN)
    page.wait_for_selector("html[data-ready]")
    page.wait_for_timeout(100)
    size = weights(page, site).shape[0]
    np.testing.assert_array_equal(hatched(page.locator("canvas.heat"), size, size), ~np.tri(size, dtype=bool))
    page.locator("canvas.heat").click(position={"x": 3, "y": 3})
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(f"p.status:has-text('{FORBIDDEN}')")


def test_a_comparison_hatches_what_both_masks_forbid(page, site):
    side = "decoder+self"
    page.goto(f"{site}#/compare?m=text&x=a1+b1&g={side}&g2={side}")
    page.wait_for_selector("html[data-ready^=compare]")
    size = weights(page, site).shape[0]
    maps = page.locator("canvas.heat")
    assert maps.count() == 3
    for one in maps.all():
        np.testing.assert_array_equal(hatched(one, size, size), ~np.tri(size, dtype=bool))
    box = maps.nth(2).bounding_box()
    maps.nth(2).hover(position=middle(box, (size, size), 0, size - 1))
    assert [tip.endswith(FORBIDDEN) for tip in page.locator(".tip:visible").all_inner_texts()] == [True] * 3
    assert page.locator("div.legend", has_text=FORBIDDEN).count() == 3


def test_an_edited_mask_is_seen_too(page, site):
    page.goto(f"{site}#/attend?m=run&x=a+and+g+.&g=encoder+self")
    page.wait_for_selector("html[data-ready]")
    assert FORBIDDEN not in page.locator("div.legend").inner_text()
    page.locator(".controls .set", has_text="Narrow mask").get_by_role("button").click()
    page.wait_for_selector(f"div.legend:has-text('{FORBIDDEN}')")


def test_a_link_shows_the_same_in_a_fresh_profile(page, site, browser):
    page.goto(site + WRITTEN)
    page.wait_for_selector("html[data-ready]")
    for key in ("]", ".", "n"):
        page.keyboard.press(key)
    page.wait_for_selector("html[data-ready='decoder self/1/1/heat']")
    page.locator("canvas.heat").click(position={"x": 3, "y": 50})
    page.mouse.move(0, 0)
    context = browser.new_context(viewport=page.viewport_size, color_scheme=page.scheme)
    other = context.new_page()
    other.goto(page.url)
    other.wait_for_selector("html[data-ready='decoder self/1/1/heat']")
    page.wait_for_timeout(200)
    other.wait_for_timeout(200)
    pictures = [one.locator("canvas.heat").evaluate("(canvas) => canvas.toDataURL()") for one in (page, other)]
    assert pictures[0] == pictures[1]
    assert other.locator("div.legend").inner_text() == page.locator("div.legend").inner_text()
    context.close()


def focus(page, selector):
    """Goes to an element by the tabulator alone."""
    for _ in range(80):
        page.keyboard.press("Tab")
        if page.evaluate("(selector) => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"{selector} cannot be reached")


def test_attend_trace_translate_by_keyboard_alone(page, site):
    page.emulate_media(reduced_motion="reduce")
    page.goto(f"{site}#/")
    page.wait_for_selector("html[data-shell]")
    focus(page, "#input")
    page.keyboard.type("a and g .")
    page.keyboard.press("Enter")
    page.wait_for_selector("html[data-ready$='/heat']")
    focus(page, ".grid .cell")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("html[data-ready='decoder cross/0/1/heat']")
    focus(page, "canvas.heat")
    page.keyboard.press("ArrowDown")
    page.wait_for_selector("p.status:has-text('→')")
    focus(page, "nav a[href^='#/trace']")
    page.keyboard.press("Enter")
    page.wait_for_selector("html[data-ready='steps/decoder.blocks.0.cross_attention/1']")
    focus(page, "main select")
    page.keyboard.press("ArrowUp")
    page.wait_for_selector("html[data-ready^='steps/decoder.blocks.0.self']")
    focus(page, "nav a[href^='#/translate']")
    page.keyboard.press("Enter")
    page.wait_for_selector("html[data-ready^=written]")
    page.keyboard.press("Home")
    page.wait_for_selector(".count:has-text('1 /')")


def test_formulas_are_drawn_not_spelled(page, site):
    page.goto(f"{site}#/trace?m=text&x=a1+b1")
    page.wait_for_selector("html[data-ready^=steps]")
    for at in range(page.locator("[role=tab]").count()):
        page.locator("[role=tab]").nth(at).click()
        assert not re.search(r"[\\{}]", page.locator("main .trace").inner_text())


def test_a_touch_locks_a_cell(browser, site):
    context = browser.new_context(viewport={"width": 390, "height": 900}, has_touch=True)
    touched = context.new_page()
    touched.goto(site + WRITTEN)
    touched.wait_for_selector("html[data-ready]")
    touched.locator("canvas.heat").tap(position={"x": 3, "y": 3})
    touched.wait_for_selector("p.status:has-text('→')")
    assert "q=0&k=0" in touched.url
    context.close()


def test_every_answer_forbids_what_is_not_its_own(page, site):
    answer = page.goto(f"{site}#/")
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert "http" not in policy

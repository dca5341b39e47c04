"""What the pages promise: the server's numbers, masks that are seen, links that open anywhere, the keyboard."""

import io
import random
import re

import numpy as np
import pytest
from browsing import IN_BROWSER, explored_at, hatched
from scipy.spatial.distance import jensenshannon
from serving_runs import folder_of, writer_of

import headwise

pytestmark = IN_BROWSER
WRITTEN = "#/attend?m=text&x=a1+b1&g=decoder+self&sc=linear&l=0&h=0"
FORBIDDEN = "forbidden by the mask"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    place = tmp_path_factory.mktemp("true")
    return [folder_of(place), writer_of(place)]


@pytest.fixture(scope="module")
def site(runs):
    with explored_at(runs) as found:
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
    # whichever head it opens on
    for key, head in (("ArrowLeft", 0), ("ArrowRight", 1)):
        page.keyboard.press(key)
        page.wait_for_selector(f"html[data-ready='decoder cross/0/{head}/heat']")
    focus(page, "canvas.heat")
    page.keyboard.press("ArrowDown")
    page.wait_for_selector("p.status:has-text('→')")
    focus(page, "nav a[href^='#/trace']")
    page.keyboard.press("Enter")
    page.wait_for_selector("html[data-ready='steps/decoder.blocks.0.cross_attention/1']")
    # the settings are behind a line on narrow screens
    if page.locator("button.settings").is_visible():
        focus(page, "button.settings")
        page.keyboard.press("Enter")
    focus(page, "main select:not([data-at])")
    page.keyboard.press("ArrowUp")
    page.wait_for_selector("html[data-ready^='steps/decoder.blocks.0.self']")
    focus(page, "nav a[href^='#/translate']")
    page.keyboard.press("Enter")
    page.wait_for_selector("html[data-ready^=written]")
    page.keyboard.press("Home")
    page.wait_for_selector(".count:has-text('step 1 of')")


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


SOURCE = "a and g . b and h ."
# the shares of every row that Text shows, and those of both sides that Compare shows
TINTED = """async () => { const state = await import('/static/js/state.js');
    const [queries, keys] = [...document.querySelectorAll('.wide .tokens')].map((side) => [...side.children]);
    return queries.map((_, q) => { state.lock({ q, k: -1 }); return keys.map((key) => key.dataset.share); }); }"""
PAIRED = """async (rows) => { const state = await import('/static/js/state.js');
    return Array.from({ length: rows }, (_, q) => { state.lock({ q, k: 0 });
        return [...document.querySelectorAll('.pairs > div:has(bdi)')].map((row) =>
            [...row.querySelectorAll(':scope > span:not(.tracks)')].map((cell) => cell.textContent)); }); }"""


def same(shown, exact, places):
    """Whether a number is shown as one rounded to so many decimals is; bounds that it only nearly reaches are named."""
    text = shown.removesuffix(" %").strip()
    step = 10.0**-places
    if text[0] in "<>":
        limit = float(text[1:])
        return exact < limit + step * 1e-2 if text[0] == "<" else exact > limit - step * 1e-2
    # weights are sent with 16 bits
    return abs(float(text) - exact) <= 0.51 * step + 1e-3 * abs(exact)


def exact_of(page, site, told, layer, head, **stage):
    asked = {"layer": layer, "head": head} | stage
    answer = page.request.get(f"{site}api/v1/traces/{told['trace_id']}/matrix", params=asked)
    return np.load(io.BytesIO(answer.body()), allow_pickle=False).astype(float)


def of_table(weights):
    """Entropy, keys looked at, first key and largest weight, all means over the rows."""
    entropy = -np.sum(weights * np.log(np.where(weights > 0, weights, 1)), axis=1)
    return [entropy.mean(), np.exp(entropy).mean(), weights[:, 0].mean(), weights.max(axis=1).mean()]


def test_all_shares_of_text_table_and_compare_are_those_of_the_arrays(page, site):
    told = page.request.post(f"{site}api/v1/traces", data={"model": "run", "text": SOURCE}).json()
    source, checked, wrong = SOURCE.replace(" ", "+"), 0, []

    def check(where, shown, exact, places):
        nonlocal checked
        checked += 1
        if not same(shown, exact, places):
            wrong.append((where, shown, exact))

    for group in told["groups"]:
        name = group["name"].replace(" ", "+")
        for at, layer in enumerate(group["layers"]):
            for head in range(group["heads"]):
                page.goto(f"{site}#/attend?m=run&x={source}&g={name}&l={at}&h={head}&v=text")
                page.wait_for_selector(f"html[data-ready='{group['name']}/{at}/{head}/text']")
                exact = exact_of(page, site, told, layer, head)
                shares = np.array(page.evaluate(TINTED))
                # hidden pairs have no share, and no others
                hidden = np.isneginf(exact_of(page, site, told, layer, head, stage="masked"))
                np.testing.assert_array_equal(shares == "", hidden)
                for q, k in np.argwhere(~hidden):
                    check((layer, head, q, k), shares[q, k], 100 * exact[q, k], 1)
        page.goto(f"{site}#/attend?m=run&x={source}&g={name}&v=table")
        page.wait_for_selector(f"html[data-ready='{group['name']}/table']")
        titles = page.locator("table.heads th").all_inner_texts()
        places = [titles.index(one) for one in ("entropy (nats)", "keys looked at", "first key", "largest weight")]
        for line, row in enumerate(page.locator("table.heads tbody tr").all()):
            cells = row.locator("td").all_inner_texts()
            layer = group["layers"][line // group["heads"]]
            numbers = of_table(exact_of(page, site, told, layer, line % group["heads"]))
            for place, number in zip(places, numbers, strict=True):
                check((layer, line, titles[place]), cells[place], number, 2)
    page.goto(f"{site}#/compare?m=run&x={source}&g=decoder+cross&g2=decoder+cross")
    page.wait_for_selector("html[data-ready^=compare]")
    sides = [exact_of(page, site, told, "decoder.blocks.0.cross_attention", head) for head in (0, 1)]
    for q, row in enumerate(page.evaluate(PAIRED, len(sides[0]))):
        for k, shares in enumerate(row):
            for side, shown in zip(sides, shares, strict=True):
                check(("compare", q, k), shown, 100 * side[q, k], 1)
    assert checked >= 500
    assert not wrong, wrong[:5]


def wrong_cells(page, exact):
    """Of cells that are drawn from all of a map, those whose tips tell another number, and how many there were."""
    canvas = page.locator("main canvas[tabindex]").first
    cells = [(q, k) for q in range(exact.shape[0]) for k in range(exact.shape[1])]
    cells = random.Random(page.scheme).sample(cells, min(60, len(cells)))
    shown = {}
    for q, k in cells:
        canvas.hover(position=middle(canvas.bounding_box(), exact.shape, q, k))
        tip = page.locator(".tip:visible").inner_text().replace("\u2212", "-")
        # a head is like itself
        shown[q, k] = 1.0 if tip.endswith("the same head") else float(tip.split()[-1])
    return {at: shown[at] for at in cells if shown[at] != pytest.approx(exact[at], rel=6e-3, abs=1e-3)}, len(cells)


def test_what_counts_by_a_method_is_that_of_python(page, site, runs):
    predictor, checked = headwise.load(runs[0]), 0
    shown = {
        "norms": "decoder.blocks.0.cross_attention",
        "rollout": "rollout from encoder",
        "gradient": "gradient of the source",
        "integrated": "integrated of the source",
        "occlusion": "occlusion of the source",
    }
    for by, name in shown.items():
        page.goto(f"{site}#/attend?m=run&x={SOURCE.replace(' ', '+')}&g=decoder+cross&by={by}")
        page.wait_for_selector(f"html[data-ready='decoder cross/{by}/heat']")
        found = headwise.attribute(predictor, SOURCE, by=by)
        wrong, count = wrong_cells(page, found.values(name))
        checked += count
        assert not wrong, by
    assert checked >= 200


def test_similarity_is_that_of_scipy(page, site):
    told = page.request.post(f"{site}api/v1/traces", data={"model": "run", "text": SOURCE}).json()
    (group,) = [group for group in told["groups"] if group["name"] == "encoder self"]
    heads = [exact_of(page, site, told, layer, head) for layer in group["layers"] for head in range(group["heads"])]
    exact = np.array([[1 - jensenshannon(a, b, base=2, axis=1).mean() for a in heads] for b in heads])
    page.goto(f"{site}#/attend?m=run&x={SOURCE.replace(' ', '+')}&g=encoder+self&v=needs")
    page.wait_for_selector("html[data-ready='encoder self/needs']")
    wrong, count = wrong_cells(page, exact)
    assert (count, wrong) == (len(heads) ** 2, {})

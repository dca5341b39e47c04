"""Attend at first sight: what it opens on, how large the map is, what the chosen cell says, raw scores, titles."""

import io
import re

import numpy as np
import pytest
from browsing import IN_BROWSER, explored_at
from serving_runs import TEXT, folder_of

from headwise.explain.explanation import Explanation, Layer
from headwise.explorer.notebook import show

pytestmark = IN_BROWSER
LAYER = "decoder.blocks.0.cross_attention"
ATTEND = f"#/attend?x={TEXT.replace(' ', '+')}"
SCREENS = [(1280, 800), (390, 844)]


def named(labels, at):
    """A token as sentences name it: with its position where another one is written the same."""
    return labels[at] if labels.count(labels[at]) == 1 else f"{labels[at]} ({at + 1})"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with explored_at([folder_of(tmp_path_factory.mktemp("first"))]) as address:
        yield address


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A saved page of 24 layers, 16 heads and 40 tokens, some seen more than others."""
    random, tokens = np.random.default_rng(7), [f"word{n}" for n in range(40)]
    layers = {
        f"decoder.blocks.{n}.self_attention": Layer(
            random.dirichlet(np.full(40, 0.1), (16, 40)), tokens, tokens, "self"
        )
        for n in range(24)
    }
    return show(Explanation(" ".join(tokens), "word40", layers)).save(tmp_path_factory.mktemp("many") / "page.html")


def opened(page, address, ready=""):
    page.set_default_timeout(10_000)
    page.goto(address)
    page.wait_for_selector(f"html[data-ready^='{ready}']" if ready else "html[data-ready]")
    page.locator("canvas.thumb").first.wait_for()
    page.wait_for_timeout(100)


def matrix(page, site, **asked):
    trace = page.request.post(f"{site}api/v1/traces", data={"text": TEXT}).json()
    answer = page.request.get(f"{site}api/v1/traces/{trace['trace_id']}/matrix", params={"layer": LAYER, **asked})
    (group,) = (group for group in trace["groups"] if group["layers"] == [LAYER])
    return np.load(io.BytesIO(answer.body()), allow_pickle=False).astype(float), group


@pytest.fixture(params=SCREENS, ids=lambda size: f"{size[0]}x{size[1]}")
def screen(request, browser):
    context = browser.new_context(viewport=dict(zip(("width", "height"), request.param, strict=True)))
    yield context.new_page()
    context.close()


def test_it_opens_on_what_a_translation_reads_and_on_the_cell_that_tells_most(page, site):
    opened(page, site + ATTEND, "decoder cross/0/")
    head = int(page.locator("html").get_attribute("data-ready").split("/")[2])
    weights, group = matrix(page, site, head=head)
    assert group["opens"] == [0, head]
    # the largest weight; what is not the largest of its row comes after what is
    first = np.where(weights == weights.max(1, keepdims=True), 1, 1e-3)
    words = weights[: group["queries"].index("<eos>"), : group["keys"].index("<eos>")]
    merits = words * first[: len(words), : words.shape[1]] * np.minimum(1, 10 * (1 - words))
    q, k = np.unravel_index(merits.argmax(), words.shape)
    said = page.locator("p.say").inner_text()
    share = f"{100 * words[q, k]:.1f} %"
    names = named(group["queries"], q), named(group["keys"], k)
    assert said == f"To write {names[0]}, head {head + 1} takes {share} of its values from {names[1]}."
    chosen = page.locator(".axis .on").all_inner_texts()
    assert sorted(chosen) == sorted(names)
    # nothing of it is in the address, so another head shows its own cell
    assert "q=" not in page.url


def test_the_answer_stands_above_the_map_and_chooses_rows(page, site):
    opened(page, f"{site}{ATTEND}&l=0&h=0")
    _, group = matrix(page, site, head=0)
    answer, read = page.locator(".answer button"), page.locator(".input button")
    assert answer.all_inner_texts() == group["queries"]
    assert read.all_inner_texts() == group["keys"]
    assert answer.first.bounding_box()["y"] < page.locator("canvas.heat").bounding_box()["y"]
    answer.nth(1).click()
    assert "q=1" in page.url
    assert page.locator("p.say strong").first.inner_text() == named(group["queries"], 1)
    read.nth(2).click()
    assert "q=1&k=2" in page.url
    weights, _ = matrix(page, site, head=0)
    assert f"{100 * weights[1, 2]:.1f} %" in page.locator("p.say").inner_text()
    page.keyboard.press("Escape")
    assert "q=" not in page.url
    # of what writes, the token chooses the row that it is written from
    page.get_by_role("button", name=re.compile("^decoder self")).click()
    page.wait_for_selector("html[data-ready^='decoder self']")
    answer.nth(2).click()
    assert "q=2" in page.url
    assert read.first.is_disabled()
    # and of what reads, the token itself
    page.get_by_role("button", name=re.compile("^encoder self")).click()
    page.wait_for_selector("html[data-ready^='encoder self']")
    read.nth(1).click()
    assert "q=1" in page.url
    assert "&k=" not in page.url
    assert page.locator("p.say").inner_text().startswith(f"At {group['keys'][1]}, ")


def test_layers_and_heads_are_counted_from_1_and_named(page, site):
    opened(page, f"{site}{ATTEND}&h=1")
    title = page.locator(".wide h2")
    assert title.inner_text() == "Decoder layer 1, cross-attention, head 2"
    assert title.get_attribute("title") == LAYER
    assert page.locator(".numbers-of-heads").inner_text().split() == ["1", "2"]
    # that in which it opens comes first
    names = ["cross-attention", "encoder self-attention", "decoder self-attention"]
    if page.viewport_size["width"] < 760:
        names = [name.removesuffix("-attention") for name in names]
    assert page.locator(".seg").first.locator("button").all_inner_texts() == names
    assert page.locator(".axis-title").all_inner_texts() == [
        "attends to: what is read",
        "attends from: what is written",
    ]
    page.goto(f"{site}{ATTEND}&h=1&lang=zh")
    page.wait_for_selector("h2:text-is('解码器第 1 层，交叉注意力，第 2 头')")


@pytest.mark.parametrize("size", SCREENS, ids=lambda size: f"{size[0]}x{size[1]}")
def test_one_control_shows_raw_scores(browser, site, size):
    page = browser.new_context(viewport=dict(zip(("width", "height"), size, strict=True))).new_page()
    opened(page, f"{site}{ATTEND}&g=decoder+cross&l=0&h=0")
    exact, _ = matrix(page, site, head=0, stage="masked")
    page.get_by_role("button", name="Raw scores").click()
    page.wait_for_selector(".colours:has-text('raw score')")
    assert "st=scores" in page.url
    box = page.locator("canvas.heat").bounding_box()
    for q, k in ((0, 0), (1, 2), (exact.shape[0] - 1, 1)):
        at = {"x": (k + 0.5) * box["width"] / exact.shape[1], "y": (q + 0.5) * box["height"] / exact.shape[0]}
        page.locator("canvas.heat").hover(position=at)
        shown = page.locator(".tip").inner_text().split()[-1]
        assert float(shown.replace("−", "-")) == pytest.approx(exact[q, k], rel=6e-3, abs=1e-3)
    ticks = [float(text.replace("−", "-")) for text in page.locator(".ticks span").all_inner_texts()]
    assert ticks[0] == -ticks[-1] == pytest.approx(-abs(exact).max(), rel=0.06)
    page.keyboard.press("r")
    page.wait_for_selector(".colours:has-text('attention weight')")
    # links are of weights, and a map that comes in their place is said
    page.keyboard.press("r")
    assert "as a map" not in page.locator("p.status").inner_text()
    page.keyboard.press("v")
    page.wait_for_selector("html[data-ready$='/links']")
    page.get_by_role("button", name="Raw scores").click()
    page.wait_for_selector(".colours:has-text('raw score')")
    page.wait_for_selector("p.status:has-text('Raw scores: as a map')")
    page.keyboard.press("v")
    page.wait_for_selector("html[data-ready$='/links']")
    assert page.get_by_role("button", name="Weights", exact=True).get_attribute("aria-pressed") == "true"
    page.context.close()


def test_a_map_of_few_tokens_has_large_cells_with_numbers(browser, site):
    page = browser.new_context(viewport={"width": 1280, "height": 1000}).new_page()
    opened(page, f"{site}{ATTEND}&sc=linear&l=0&h=0")
    exact, _ = matrix(page, site, head=0)
    box = page.locator("canvas.heat").bounding_box()
    side = round(box["width"] / exact.shape[1])
    assert 58 <= side <= 68
    assert (box["width"], box["height"]) == (side * exact.shape[1], side * exact.shape[0])
    read = """(canvas) => { const c = canvas.getContext('2d'), n = [canvas.height, canvas.width];
        return [n, Array.from(c.getImageData(0, 0, n[1], n[0]).data)]; }"""
    (height, width), pixels = page.locator("canvas.heat").evaluate(read)
    image = np.array(pixels).reshape(height, width, 4)
    middle = image[2 * side + 18 : 2 * side + 40, side + 10 : side + 48].reshape(-1, 4)
    assert len(np.unique(middle, axis=0)) > 5
    assert page.locator(".columns.level").count() == 1
    # a bar with marks in place of a line of numbers
    marks = page.locator(".ticks span").all_inner_texts()
    assert (marks[0], len(marks) > 3) == ("0", True)
    assert float(marks[-1]) == pytest.approx(exact.max(), rel=6e-3)
    page.context.close()


def test_the_map_stays_on_the_screen_beside_any_number_of_heads(screen, many):
    opened(screen, many.as_uri())
    size, box = screen.viewport_size, screen.locator("canvas.heat").bounding_box()
    assert box["y"] + box["height"] <= size["height"]
    assert box["x"] + box["width"] <= size["width"]
    # cells are squares of one size, and as large as the room lets them be
    assert box["width"] == box["height"] >= 40 * (6 if size["width"] > 400 else 5)
    assert screen.locator("canvas.thumb").count() == 24 * 16
    if size["width"] > 400:
        last = screen.locator("canvas.thumb").last.bounding_box()
        assert last["x"] + last["width"] < box["x"]
        assert last["y"] + last["height"] <= size["height"]
    screen.locator(".cell").nth(20).click()
    screen.wait_for_selector("h2:has-text('Decoder layer 2'):has-text('head 5')")
    again = screen.locator("canvas.heat").bounding_box()
    assert again == box
    # what only a model can answer is not offered
    assert screen.get_by_role("button", name="Raw scores").count() == 0


def test_another_size_of_the_window_is_another_size_of_the_map(screen, site):
    opened(screen, site + ATTEND)
    before = screen.locator("canvas.heat").bounding_box()
    screen.set_viewport_size({"width": screen.viewport_size["width"], "height": 560})
    smaller = """async (height) => { const now = () => document.querySelector('canvas.heat')?.clientHeight ?? height;
        while (now() >= height) await new Promise(requestAnimationFrame); }"""
    screen.evaluate(smaller, before["height"] - 4)


def test_a_small_map_leaves_its_room_to_what_reads_it(browser, site):
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    opened(page, f"{site}{ATTEND}&l=0&h=0")
    before = page.locator("canvas.heat").bounding_box()
    wide = page.locator(".panel.read").bounding_box()["width"]
    assert 288 < wide <= 480
    page.locator(".cell").nth(1).click()
    page.wait_for_selector("html[data-ready$='/1/heat']")
    assert page.locator("canvas.heat").bounding_box() == before
    page.get_by_role("button", name="Links", exact=True).click()
    page.wait_for_selector("html[data-ready$='/links']")
    assert page.locator(".panel.read").bounding_box()["width"] == 288
    page.context.close()

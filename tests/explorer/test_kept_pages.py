"""Every page is saved as it is: a file that opens from disk, asks for nothing, and shows other heads and steps too."""

import re

import pytest
from browsing import IN_BROWSER, explored_at
from serving_runs import filmed_of, task_run

pytestmark = IN_BROWSER
TEXT = "a+and+g+."


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    place = tmp_path_factory.mktemp("kept")
    film, made = filmed_of(place), []
    for name in ("caption", "node-classify"):
        folder = place / name
        folder.mkdir()
        made.append(task_run(folder, name))
    with explored_at([film, *made]) as found:
        yield found


@pytest.fixture
def page(browser, site):
    context = browser.new_context(viewport={"width": 1000, "height": 900}, reduced_motion="reduce")
    made = context.new_page()
    told, asked = [], []
    made.on("console", lambda message: told.append(message.text))
    made.on("pageerror", lambda error: told.append(str(error)))
    made.on("request", lambda one: asked.append(one.url))
    made.asked = asked
    yield made
    context.close()
    assert told == []


@pytest.fixture
def kept(page, site, tmp_path):
    """Opens a page, saves it, and opens what was saved."""

    def work(address, ready, before=lambda: None):
        page.goto(site + address)
        page.wait_for_selector(f"html[data-ready{ready}]")
        before()
        # a chart comes later than what it is of
        page.wait_for_load_state("networkidle")
        shown = page.locator("main canvas").count()
        with page.expect_download() as waiting:
            page.locator("header .keeps").click()
        path = tmp_path / waiting.value.suggested_filename
        waiting.value.save_as(path)
        page.goto("about:blank")
        page.asked.clear()
        page.goto(path.as_uri())
        page.wait_for_selector(f"html[data-ready{ready}]")
        assert page.locator("main canvas").count() == shown
        return path

    yield work
    # the file itself, and pictures that the page makes
    assert [url for url in page.asked if not url.startswith(("data:", "blob:", "file:", "about:"))] == []


def worked(page):
    return page.locator("main .trace").inner_text()


def test_the_steps_of_every_head_are_kept(page, site, kept):
    address = f"#/trace?m=film-run&x={TEXT}&g=encoder+self"
    page.goto(f"{site}{address}&l=1&h=1")
    page.wait_for_selector("html[data-ready$='/1']")
    other = worked(page)
    kept(address, "^=steps")
    first = worked(page)
    for keys in ("]", "."):
        page.keyboard.press(keys)
    page.wait_for_selector("html[data-ready='steps/encoder.blocks.1.self_attention/1']")
    assert worked(page) == other != first
    assert "l=1" in page.url
    # the terms of every step are in the file
    page.get_by_role("tab", name="Q, K, V").click()
    assert page.locator(".terms li").count() == 8
    page.locator("details.to-do summary").click()
    page.locator(".exercise").first.wait_for()


def test_an_output_is_written_again(page, kept):
    def rows():
        page.locator(".writes .rows span").first.wait_for()
        return page.locator(".writes .rows span").all_inner_texts()

    found = []
    path = kept(f"#/translate?m=film-run&x={TEXT}", "$=end", lambda: found.extend(rows()))
    assert rows() == found != []
    assert page.locator("header .said").inner_text() == "a and g ."
    page.keyboard.press("Home")
    # a token that is alone has no position beside it
    assert rows() == [re.sub(r" \(\d+\)$", "", found[0])]
    # it opened on the one layer; before that are all together
    for layer in (-1, 0):
        page.keyboard.press("]")
        assert f"tl={layer}" in page.url
    assert page.locator("h2", has_text="Alignment").count() == 1
    # what only a model can do is not offered
    assert not page.locator("#forced").is_visible()
    assert not page.locator(".again").is_visible()
    page.locator(".likely:not([disabled])").first.click()
    page.locator("p.status", has_text="This saved page holds what it showed").wait_for()
    assert "<\\/script" not in path.read_text()


def test_every_query_of_a_picture_is_kept(page, site, kept):
    address = "#/vision?m=caption&ex=1"
    page.goto(f"{site}{address}&q=1")
    page.wait_for_selector("html[data-ready^=vision]")
    other = page.locator(".seen canvas.over").first.get_attribute("aria-label")
    kept(address, "^=vision")
    assert page.locator(".seen canvas.over").first.get_attribute("aria-label") != other
    page.locator(".panel.seen .tokens .token").nth(2).click()
    page.wait_for_selector("html[data-ready$='/1']")
    assert page.locator(".seen canvas.over").first.get_attribute("aria-label") == other
    assert page.locator("#examples").count() == 0


def test_a_graph_is_kept_with_its_heads_and_steps(page, kept):
    kept("#/graph?m=node-classify&ex=0&l=0&h=0", "^=graph")
    before = page.locator(".node").count()
    page.get_by_label("neighbours up to").select_option(index=1)
    page.wait_for_selector("html[data-ready$='/2']")
    assert page.locator(".node").count() >= before
    page.keyboard.press(".")
    page.wait_for_selector("html[data-ready*='/0/1/']")


def test_a_comparison_is_kept(page, kept):
    kept(f"#/compare?m=film-run&x={TEXT}&h2=1", "^=compare")
    if page.viewport_size["width"] < 700:
        page.locator(".choices-of-sides > summary").click()
    page.locator("fieldset").nth(1).locator("select").last.wait_for()
    page.locator("label", has_text="head").last.locator("select").select_option("0")
    page.wait_for_selector("html[data-ready$='/0']")


def test_a_film_plays_from_disk(page, kept):
    kept("#/film?m=film-run", "^=film")
    last = page.locator("html").get_attribute("data-ready")
    page.keyboard.press("Home")
    page.wait_for_selector("html[data-ready^='film/0/']")
    page.keyboard.press("]")
    page.wait_for_selector("html[data-ready*='/encoder.blocks.0.']")
    assert re.match(r"film/\d+/\d+/", last)


def test_positions_are_kept(kept, page):
    def both():
        # each half is drawn when its numbers have come
        for half in page.locator("section.half").all():
            half.locator("canvas").first.wait_for()

    kept("#/positions", "", both)
    assert page.locator("main canvas").count() > 2


def test_home_and_the_map_have_no_such_button(page, site):
    for address in ("", f"#/attend?m=film-run&x={TEXT}"):
        page.goto(site + address)
        page.wait_for_selector("html[data-shell=ready]")
        assert not page.locator("header .keeps").is_visible()
    assert page.request.get(f"{site}api/v1/shell?page=home").status == 404

"""Links and Text of hundreds of tokens: what is drawn of them is said, and the rest is reached."""

import re

import numpy as np
import pytest
from browsing import IN_BROWSER, unfold
from serving_runs import exact_of, long_site, words_of

pytestmark = IN_BROWSER
TEXT = words_of(198)
long_folder, site = long_site(length=256, layers=1)
exact = exact_of(TEXT)


def opened(page, site, rest):
    page.goto("about:blank")
    page.goto(f"{site}#/attend?x={TEXT.replace(' ', '+')}{rest}")
    page.wait_for_selector("html[data-ready]", timeout=30_000)


def box_colours(page):
    colours = """all => all.map((one) => getComputedStyle(one).backgroundColor)"""
    shown = page.locator(".with-shares").last.locator(".token").evaluate_all(colours)
    return [tuple(int(part) for part in re.findall(r"\d+", colour)[:3]) for colour in shown]


def positions(tokens):
    return [int(re.search(r"\((\d+)\)", text)[1]) - 1 for text in tokens.all_inner_texts()]


def test_links_draw_the_chosen_row_of_the_named_head(page, site, exact):
    opened(page, site, "&v=links&q=150&h=1")
    rows, keys = (page.locator(".linked .ends").nth(side).locator(".token") for side in (0, 1))
    assert positions(rows) == list(range(142, 158))
    drawn, row = positions(keys), exact[1][150]
    assert len(drawn) == 16
    # what the bars name is among them
    assert set(np.argsort(-row, kind="stable")[:7]) <= set(drawn)
    shares = [float(key.get_attribute("data-share").split()[0].lstrip("<>")) for key in keys.all()]
    np.testing.assert_allclose(shares, 100 * row[drawn], atol=0.06)
    note = page.locator(".wide > .note").inner_text()
    assert f"16 of {len(row)} keys" in note
    assert f"hold {100 * row[drawn].sum():.0f} % of the row of" in note
    assert page.locator(".chip[aria-pressed=true]").all_inner_texts() == ["head 2"]
    assert page.locator("input[type=range]").count() == 0
    # a head more is named in the title and above its blocks
    page.get_by_role("button", name="head 1", exact=True).click()
    page.locator(".of-blocks").wait_for()
    assert page.locator(".of-blocks span").all_inner_texts() == ["1", "2"]
    assert page.locator(".wide h2").inner_text().endswith("head 2 with head 1")


def test_a_long_text_says_what_is_in_sight_and_goes_to_what_is_clicked(page, site, exact):
    opened(page, site, "&v=text&q=150&h=0")
    box = page.locator(".many").last
    count = exact.shape[-1]
    assert box.get_attribute("tabindex") == "0"
    assert box.get_attribute("aria-label")
    keys, row = box.locator(".token"), exact[0][150]
    assert positions(keys) == list(range(count))

    def in_sight():
        return [int(n) for n in re.findall(r"\d+", page.locator(".seen").last.inner_text())]

    first, last, whole = in_sight()
    assert whole == count
    assert 1 <= first < last < count
    # the box ends between two lines
    edge = box.bounding_box()["y"] + box.bounding_box()["height"]
    bottoms = [one.bounding_box() for one in keys.all()[last - 1 : last + 1]]
    assert bottoms[0]["y"] + bottoms[0]["height"] <= edge + 1
    assert bottoms[1]["y"] >= edge - 3
    sentence = page.locator(".wide > .legend", has_text="in sight above")
    assert f"hold {100 * row[first - 1 : last].sum():.0f} %" in sentence.inner_text()
    # a bar of a token that is out of sight
    bars = page.locator(".read .shares button")
    names = [int(re.search(r"\((\d+)\)", text)[1]) for text in bars.all_inner_texts()]
    away = next((at for at, name in enumerate(names) if not first <= name <= last), 0)
    bars.nth(away).click()
    page.wait_for_selector(f".many .token[aria-pressed=true]:has-text('({names[away]})')")
    first, last, _ = in_sight()
    assert first <= names[away] <= last
    assert f"k={names[away] - 1}" in page.url


def test_pointing_at_a_token_moves_none_and_a_click_on_a_key_keeps_the_row(page, site, exact):
    opened(page, site, "&v=text&q=150&h=0")
    keys = page.locator(".many").last.locator(".token")
    first = int(re.search(r"\d+", page.locator(".seen").last.inner_text())[0])
    key = keys.nth(first + 5)
    key.scroll_into_view_if_needed()
    before = key.bounding_box()
    key.hover()
    page.wait_for_selector(f".many .token[data-looked]:has-text('({first + 6})')")
    assert key.bounding_box() == before
    # tint and number are of what is pointed at
    rows = page.locator(".with-shares").first.locator(".token")
    seen = float(rows.nth(150).get_attribute("data-now").rstrip(" %").replace("·", "0"))
    assert seen == pytest.approx(100 * exact[0][150, first + 5], abs=0.1)
    assert {keys.nth(at).get_attribute("data-now") for at in range(5)} == {""}
    key.click()
    page.wait_for_function(f"location.hash.includes('k={first + 5}')")
    assert "q=150" in page.url
    assert key.get_attribute("aria-pressed") == "true"
    share = key.get_attribute("data-share")
    weight = exact[0][150, first + 5]
    assert share == ("·" if weight < 0.001 else f"{100 * weight:.1f} %")


def test_a_text_opens_where_the_row_has_its_largest_key(page, site, exact):
    opened(page, site, "&v=text&q=150&h=0")
    largest = int(exact[0][150].argmax())
    first, last, _ = (int(n) for n in re.findall(r"\d+", page.locator(".seen").last.inner_text()))
    assert first <= largest + 1 <= last


def test_an_input_that_is_cut_is_shown_whole_by_its_tokens(page, site):
    opened(page, site, "")
    tokens = page.locator(".input .toks button")
    line = page.locator(".input bdi")
    assert line.evaluate("(one) => one.scrollWidth > one.clientWidth || one.scrollHeight > one.clientHeight + 1")
    assert tokens.count() == 0
    page.locator(".input").get_by_role("button", name="show all").click()
    assert "".join(tokens.all_inner_texts()).replace("␣", " ").strip().endswith(TEXT[-14:])
    # a chosen one is framed, and nothing closes
    tokens.nth(150).click()
    page.wait_for_selector(".input .toks button:nth-child(151)[aria-pressed=true]")
    assert page.evaluate("import('/static/js/state.js').then((one) => one.query.value)") == 150
    page.locator(".input").get_by_role("button", name="show less").click()
    assert line.is_visible()


def test_what_is_read_stays_in_sight_where_lines_break_elsewhere(page, site):
    opened(page, site, "&v=text&q=150&h=0")
    page.wait_for_selector(".many .token[data-looked]")
    inside = """() => { const box = document.querySelector('.many'), one = box.querySelector('[data-looked]');
        const [outer, inner] = [box, one].map((node) => node.getBoundingClientRect());
        return inner.top >= outer.top - 1 && inner.bottom <= outer.bottom + 1; }"""
    page.wait_for_function(inside)
    page.evaluate("() => { document.querySelector('.many').style.width = '40%'; }")
    page.wait_for_function(inside)


def test_a_text_opens_on_a_row_with_many_keys_and_its_tints_are_on_the_screen(page, site, exact):
    page.set_viewport_size({"width": 1440, "height": 900})
    opened(page, site, "&v=text&h=0")
    page.wait_for_selector(".many .token[data-looked]")
    (q,) = positions(page.locator(".many .token[data-looked]"))
    assert q >= exact.shape[-1] // 2
    box = page.locator(".many").last.bounding_box()
    assert box["y"] + box["height"] <= 900
    assert box["height"] > page.locator(".many").first.bounding_box()["height"]
    # what comes after it has no weight: a mask hides it
    hidden = page.locator(".with-shares").last.locator(".forbidden")
    assert positions(hidden) == list(range(q + 1, exact.shape[-1]))
    assert set(hidden.evaluate_all("(all) => all.map((one) => one.dataset.share)")) == {""}
    assert hidden.first.get_attribute("title").endswith("forbidden by the mask")
    page.locator(".wide .legend", has_text="▨ forbidden by the mask").wait_for()
    written = """async (shares) => { const { percentage } = await import('/static/js/views/text.js');
        return shares.map(percentage); }"""
    ends = [text.replace("\u00a0", " ") for text in page.evaluate(written, [0.99999, 3e-9, 0.0123456, 0.5, 1])]
    assert ends == [">99.9 %", "0.0000003 %", "1.23 %", "50 %", "100 %"]
    # a picture of it has its colours, and lines in place of those of the hidden ones
    unfold(page)
    with page.expect_download() as download:
        page.get_by_role("toolbar", name="this picture").get_by_role("button", name="Save SVG").click()
    picture = download.value.path().read_text()
    fills = re.findall(r'<rect [^>]*fill="(#\w+)"', picture)[2::2]
    parts = [tuple(int(fill[at : at + 2], 16) for at in (1, 3, 5)) for fill in fills]
    shown = box_colours(page)
    assert parts[: q + 1] == shown[: q + 1]
    assert len(set(parts[q + 1 :])) == 1
    assert picture.count("<line") > exact.shape[-1] - q - 1
    assert "▨ forbidden by the mask" in picture
    # its largest weight has the darkest colour
    marks = page.locator(".wide .ticks span").all_inner_texts()
    assert float(marks[-1].split()[0]) == pytest.approx(100 * exact[0][q].max(), rel=6e-3)
    page.get_by_role("button", name="what attends to a token").click()
    page.wait_for_function("""() => { const [from, to] = document.querySelectorAll('.many');
        return from.offsetHeight > to.offsetHeight; }""")


def test_what_attends_to_a_token_is_of_the_chosen_query_too(page, site, exact):
    opened(page, site, "&v=text&q=150&h=0")
    page.get_by_role("button", name="what attends to a token").click()
    page.mouse.move(0, 0)
    rows = page.locator(".with-shares").first.locator(".token")
    # the column of the query's own position
    assert float(rows.nth(180).get_attribute("title").split()[-1]) == pytest.approx(exact[0][180, 150], rel=6e-3)
    assert "(151)" in page.locator(".wide > .legend", has_text="What attends to").inner_text()


def test_a_bar_is_pressed_anywhere_keeps_the_focus_and_is_said_at_the_foot(page, site):
    opened(page, site, "&v=text&q=150&h=0")
    page.locator(".many").first.locator(".token").nth(149).click()
    assert page.locator(".status").inner_text().endswith("(150)")
    bars = page.locator(".read .shares button")
    assert min(one.bounding_box()["height"] for one in bars.all()) >= 24
    row = page.locator(".read .shares > div").nth(3)
    name = bars.nth(3).inner_text()
    row.scroll_into_view_if_needed()
    box = row.bounding_box()
    page.mouse.click(box["x"] + box["width"] - 5, box["y"] + box["height"] / 2)
    page.wait_for_function("(name) => document.querySelector('.read .say').textContent.includes(name)", arg=name)
    assert name in page.locator(".status").inner_text()
    assert bars.nth(3).evaluate("(one) => one === document.activeElement")
    page.get_by_text(re.compile(r"A full bar is [\d.]+ %")).wait_for()
    # of this length every step can be seen
    assert page.get_by_role("link", name="See how this number is made").count() == 1


def test_arrows_go_by_lines_and_to_the_ends_of_a_text(page, site):
    opened(page, site, "&v=text&q=150&h=0")
    focused = "document.activeElement.getBoundingClientRect()"
    page.locator(".with-shares .token[tabindex='0']").focus()
    for key in ("ArrowDown", "ArrowUp"):
        before = page.evaluate(f"[{focused}.left, {focused}.width, document.activeElement.textContent]")
        page.keyboard.press(key)
        assert page.evaluate(
            "[...document.querySelectorAll('.with-shares')[0].children].includes(document.activeElement)"
        )
        after = page.evaluate(f"[{focused}.left, {focused}.width, document.activeElement.textContent]")
        assert before[2] != after[2]
        assert abs(before[0] + before[1] / 2 - after[0] - after[1] / 2) < max(before[1], after[1])
    page.keyboard.press("End")
    assert "(200)" in page.evaluate("document.activeElement.textContent")
    # behind the last line come the keys
    page.keyboard.press("ArrowDown")
    assert page.evaluate("[...document.querySelectorAll('.with-shares')[1].children].includes(document.activeElement)")
    page.keyboard.press("Home")
    assert "(1)" in page.evaluate("document.activeElement.textContent")

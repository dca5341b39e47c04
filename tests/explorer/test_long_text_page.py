"""Links and Text of hundreds of tokens: what is drawn of them is said, and the rest is reached."""

import re

import numpy as np
import pytest
from browsing import IN_BROWSER, explored_at
from serving_runs import long_of, words_of

import headwise

pytestmark = IN_BROWSER
COUNT = 198
TEXT = words_of(COUNT)
LAYER = "decoder.blocks.0.self_attention"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return long_of(tmp_path_factory.mktemp("texts"), length=256, layers=1)


@pytest.fixture(scope="module")
def site(folder):
    with explored_at([folder]) as address:
        yield address


@pytest.fixture(scope="module")
def exact(folder):
    """The weights of both heads."""
    return headwise.load(folder).explain(TEXT).layers[LAYER].weights


def opened(page, site, rest):
    page.goto("about:blank")
    page.goto(f"{site}#/attend?x={TEXT.replace(' ', '+')}{rest}")
    page.wait_for_selector("html[data-ready]", timeout=30_000)


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

"""Links of several heads, text in both directions, and heads that are looked for by what they do."""

import io
import re

import numpy as np
import pytest
from browsing import IN_BROWSER, explored_at
from serving_runs import TEXT, folder_of

pytestmark = IN_BROWSER
ATTEND = f"#/attend?m=run&x={TEXT.replace(' ', '+')}"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with explored_at([folder_of(tmp_path_factory.mktemp("links"))]) as address:
        yield address


def opened(page, site, rest):
    page.set_default_timeout(15_000)
    page.goto("about:blank")
    page.goto(f"{site}{ATTEND}{rest}")
    page.wait_for_selector("html[data-ready]")


def traced(page, site, name):
    trace = page.request.post(f"{site}api/v1/traces", data={"model": "run", "text": TEXT}).json()
    (group,) = [group for group in trace["groups"] if group["name"] == name]
    return f"{site}api/v1/traces/{trace['trace_id']}", group


def heads_of(page, at, group):
    found = []
    for head in range(group["heads"]):
        answer = page.request.get(f"{at}/matrix", params={"layer": group["layers"][-1], "head": head})
        found.append(np.load(io.BytesIO(answer.body())).astype(float))
    return found


def counted(heads, mass):
    """Links until each row has this share, and all of them."""
    drawn = 0
    for weights in heads:
        for row in weights:
            order = np.sort(row)[::-1]
            held = 0.0
            for weight in order:
                if weight <= 0 or held >= mass * row.sum():
                    break
                held += weight
                drawn += 1
    return drawn, int(sum((weights > 0).sum() for weights in heads))


def test_all_heads_are_drawn_and_the_cut_is_said(page, site):
    opened(page, site, "&v=links")
    at, group = traced(page, site, "decoder cross")
    heads = heads_of(page, at, group)
    note = page.locator(".legend", has_text="of its weight")

    def told():
        return tuple(map(int, re.findall(r"\d+", note.inner_text())[:2]))

    assert told() == counted(heads, 0.9)
    page.locator("input[type=range]").fill("60")
    page.wait_for_selector(".legend:has-text('60 %')")
    assert told() == counted(heads, 0.6)
    assert "ma=60" in page.url
    # a head less; the chosen one is always shown
    page.get_by_role("button", name="head 2", exact=True).click()
    page.wait_for_selector(".chip[aria-pressed=false]")
    assert told() == counted(heads[:1], 0.6)
    page.get_by_role("button", name="head 2", exact=True).click(modifiers=["Shift"])
    page.wait_for_selector("html[data-ready='decoder cross/0/1/links']")
    assert told() == counted(heads[1:], 0.6)


def test_the_tokens_of_links_are_one_stop_with_arrows(page, site):
    opened(page, site, "&v=links")
    tokens = page.locator(".ends .token")
    assert [token.get_attribute("tabindex") for token in tokens.all()].count("0") == 1
    page.locator(".ends .token[tabindex='0']").focus()
    for _ in range(tokens.count()):
        page.keyboard.press("ArrowUp")
    assert page.locator(".ends.from .token").first.evaluate("one => one === document.activeElement")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert "k=1" in page.url
    page.locator(".ends.from .token").nth(2).click()
    assert "q=2" in page.url


def test_text_shows_both_directions(page, site):
    opened(page, site, "&v=text&q=1&k=2&l=0&h=0")
    at, group = traced(page, site, "decoder cross")
    weights = heads_of(page, at, group)[0]
    titles = "(all) => all.map((one) => one.title)"
    shown = page.locator(".tokens").last.locator(".token").evaluate_all(titles)
    assert [float(text.lstrip("<>")) for text in shown] == pytest.approx(weights[1], rel=6e-3)
    page.get_by_role("button", name="what attends to a token").click()
    page.mouse.move(0, 0)
    assert "tx=keys" in page.url
    shown = page.locator(".tokens").first.locator(".token").evaluate_all(titles)
    assert [float(text.lstrip("<>")) for text in shown] == pytest.approx(weights[:, 2], rel=6e-3)


def test_a_head_is_found_by_what_it_looks_at_and_muted(page, site):
    opened(page, site, "&g=encoder+self")
    at, group = traced(page, site, "encoder self")
    heads = page.request.get(f"{at}/summary", params={"group": group["name"]}).json()["heads"]
    names = {"previous": "previous token", "next": "next token", "diagonal": "itself", "first": "first token"}
    tables = {name: np.array([[head[name] for head in row] for row in heads]) for name in names}
    notable = [name for name in names if tables[name].max() >= 1.5 / len(group["keys"])]
    page.locator(".finder button", has_text="sharpest").wait_for()
    # what a head without a preference nearly reaches is no find
    shown = page.locator(".finder .kind-of-head").all_inner_texts()
    assert [name for name in names if any(names[name] in text for text in shown)] == notable
    # a model of three steps need not have one
    spread = np.array([[-head["effective"] for head in row] for row in heads])
    table = tables[notable[0]] if notable else spread
    layer, head = np.unravel_index(table.argmax(), table.shape)
    button = page.locator(".finder button", has_text=names[notable[0]] if notable else "sharpest")
    assert (f"{100 * table.max():.1f} %" if notable else f"{-table.max():.1f} keys a row") in button.inner_text()
    button.click()
    page.wait_for_selector(f"html[data-ready='encoder self/{layer}/{head}/heat']")
    words = page.locator(".read .say strong").all_inner_texts()
    page.get_by_role("button", name=re.compile("^Mute layer")).click()
    page.wait_for_selector("ol.edits li")
    page.wait_for_selector(".legend:has-text('every weight is 0')")
    # what is read stays the same pair, whose weight is now none, without a bar
    page.wait_for_function("document.querySelector('.read .say').innerText.includes(' 0 %')")
    assert [word for word in page.locator(".read .say strong").all_inner_texts() if "%" not in word] == [
        word for word in words if "%" not in word
    ]
    assert set(page.locator(".read .track").evaluate_all("(all) => all.map((one) => one.offsetWidth)")) == {0}
    assert all(cell.endswith(" %") for cell in page.locator(".places tbody td:nth-child(3)").all_inner_texts())


def test_links_name_the_head_and_mark_what_is_chosen_in_the_colour_of_no_head(page, site):
    opened(page, site, "&v=links&h=1")
    assert "head 2 takes" in page.locator(".say").inner_text()
    assert "head" in page.locator(".legend", has_text="Width is the weight").inner_text()
    colour = "(all) => all.map((one) => getComputedStyle(one).borderColor)"
    heads = page.locator(".chip").evaluate_all(colour)
    page.locator(".token").first.click()
    (chosen,) = set(page.locator(".token.chosen").evaluate_all(colour))
    strong = page.locator(".say strong").first.evaluate("(one) => getComputedStyle(one).color")
    assert strong not in heads
    assert chosen not in heads

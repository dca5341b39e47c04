"""Attend of a long input in a browser: what is shown is said, zoomed in to exact weights, any row read exactly."""

import re

import numpy as np
import pytest
from browsing import IN_BROWSER
from serving_runs import exact_of, long_site, words_of

pytestmark = IN_BROWSER
TEXT = words_of(898)
long_folder, site = long_site()
exact = exact_of(TEXT)
ATTEND = f"#/attend?x={TEXT.replace(' ', '+')}"


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
    # the first rows choose between few keys: neither the colours nor the cell that is read are theirs
    assert page.locator(".wide .legend .ticks span").last.inner_text().startswith("≥")
    assert int(page.evaluate("document.querySelector('.read').innerText.match(/\\((\\d+)\\)/)[1]")) > 450
    page.get_by_role("button", name="Means").click()
    page.get_by_text(re.compile("Each cell is the mean of")).wait_for()
    assert "po=mean" in page.url
    # nothing that needs all weights at once is offered
    assert page.get_by_role("button", name="Raw scores").count() == 0
    page.locator(".heads-of-all[data-complete='true']").wait_for(timeout=60_000)
    assert page.locator("canvas.thumb").count() == 4


def test_what_the_colours_mean_is_on_the_screen_and_a_row_keeps_its_marks(page, site):
    page.set_viewport_size({"width": 1440, "height": 900})
    opened(page, site, "&q=700&k=300")
    page.locator(".read .say").wait_for()
    foot = page.locator(".wide .legend .colours").bounding_box()
    assert foot["y"] + foot["height"] <= 900
    squares = """() => { const { width, height } = document.querySelector('canvas.heat');
        const copy = new OffscreenCanvas(width, height).getContext('2d', { willReadFrequently: true });
        copy.drawImage(document.querySelector('canvas.heat'), 0, 0);
        const dots = copy.getImageData(0, 0, width, height).data;
        const at = Math.round((700.5 * height) / 900);
        let marked = 0;
        for (let x = 0; x < width; x += 1) {
          const [r, , b] = dots.slice(4 * ((at - 4) * width + x), 4 * ((at - 4) * width + x) + 3);
          marked += r > b + 60; }
        return marked; }"""
    page.wait_for_function(f"({squares})() > 20")
    page.locator("canvas.heat").hover(position={"x": 40, "y": 40})
    page.locator(".tip:not([hidden])").wait_for()
    # the row that the text speaks of keeps its squares
    page.wait_for_function(f"({squares})() > 20")


def test_zooming_in_comes_to_exact_weights(page, site, exact):
    opened(page, site, "&q=700&k=300")
    for _ in range(12):
        page.keyboard.press("+")
    page.wait_for_selector("canvas.heat[data-block='1'][data-complete='true']", timeout=60_000)
    assert "Each cell is one exact weight, of 900 × 900" in page.locator(".legend.folded").inner_text()
    canvas = page.locator("canvas.heat")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.locator(".tip:not([hidden])").wait_for()
    at = page.evaluate("import('/static/js/state.js').then((one) => one.hovered.value)")
    told = page.locator(".tip").inner_text()
    weight = exact[0][at["q"], at["k"]]
    assert (
        told.endswith(" forbidden") if at["k"] > at["q"] else float(told.split()[-1]) == pytest.approx(weight, rel=5e-3)
    )


def test_a_row_is_read_exactly_and_survives_in_the_address(page, site, exact):
    opened(page, site, "&q=812&k=17")
    read = page.locator(".read .shares > div")
    read.first.wait_for()
    shown = [float(text.split()[-2]) / 100 for text in read.all_inner_texts()]
    np.testing.assert_allclose(shown, np.sort(exact[0][812])[::-1][: len(shown)], atol=6e-4)
    page.keyboard.press("ArrowDown")
    address = page.url.replace("q=812", "q=813")
    page.wait_for_url(address)
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector("html[data-ready$='long']", timeout=60_000)
    read.first.wait_for()
    shown = [float(text.split()[-2]) / 100 for text in read.all_inner_texts()]
    np.testing.assert_allclose(shown, np.sort(exact[0][813])[::-1][: len(shown)], atol=6e-4)


def test_views_that_need_all_weights_say_so(page, site):
    def too_large(route):
        answer = route.fetch()
        route.fulfill(response=answer, body=answer.text().replace('"whole": true', '"whole": false'))

    page.route("**/api/v1/traces", too_large)
    opened(page, site)
    page.get_by_role("button", name="Table", exact=True).click()
    page.get_by_text("Table would need all 810,000 weights of a head at once (900 tokens)").wait_for()
    assert "810,000 weights" in page.get_by_role("button", name="Table", exact=True).get_attribute("title")
    # the row below is there for whoever came by an address
    page.wait_for_selector("html[data-ready='decoder self/table/none']")
    shade = "(one) => getComputedStyle(one).backgroundColor"
    page.mouse.move(0, 0)
    tab, look = page.locator(".tab.chosen.lacking"), page.get_by_role("button", name="Look")
    assert tab.evaluate(shade) != look.evaluate(shade)
    assert page.locator(".linked .token").count() > 1


def straight(page, site, more):
    """A view that needs no map first."""
    page.goto("about:blank")
    page.goto(f"{site}{ATTEND}{more}")
    page.wait_for_selector("html[data-ready^='decoder self/']", timeout=60_000)


def numbers(text):
    return [int(number) for number in re.findall(r"\d+", text)]


def test_the_text_of_a_long_input_is_a_window_around_the_row(page, site, exact):
    straight(page, site, "&v=text&q=812")
    note, keys = page.locator(".wide .note").first, page.locator(".of-part .tokens").last.locator(".token")
    row = exact[0][812]

    def window():
        first, last, count, share = numbers(note.inner_text().split("tokens", 1)[1])[:4]
        assert count == 900
        assert keys.count() == last - first + 1
        assert share == pytest.approx(100 * row[first - 1 : last].sum(), abs=0.51)
        shares = [text.rstrip(" %").replace("·", "0").lstrip("<") for text in shown()]
        np.testing.assert_allclose(list(map(float, shares)), 100 * row[first - 1 : last], atol=0.11)
        return first, last

    def shown():
        return keys.evaluate_all("(all) => all.map((one) => one.dataset.share)")

    # the scale has the unit of the shares
    marks = page.locator(".wide .ticks span").all_inner_texts()
    assert all(re.fullmatch(r"[\d.]+\s%", mark) for mark in marks[1:])
    assert float(marks[-1].split()[0]) == pytest.approx(100 * row.max(), rel=6e-3)

    assert window()[1] == 813
    assert "in head 1" in note.inner_text()
    before = window()
    page.get_by_role("button", name="← Tokens before").click()
    assert window()[1] == before[0] - 1
    largest = int(row.argmax())
    aside = page.get_by_role("button", name="Tokens after →" if largest < 450 else "← Tokens before")
    # the second time the chosen cell is the same
    for _ in range(2):
        page.get_by_role("button", name=re.compile("^Largest weight")).click()
        page.wait_for_url(f"**&k={largest}**")
        page.locator(".of-part .tokens").last.locator(".chosen").wait_for()
        first, last = window()
        assert first <= largest + 1 <= last
        aside.click()
        assert not window()[0] <= largest + 1 <= window()[1]


def test_the_windows_of_a_text_end_where_it_ends(page, site):
    straight(page, site, "&v=text&q=812")
    button = page.get_by_role("button", name="Tokens after →")
    for _ in range(20):
        button.press("Enter")
    assert button.get_attribute("aria-disabled") == "true"
    assert button.evaluate("(one) => one === document.activeElement")
    assert numbers(page.locator(".wide .note[role=status]").inner_text().split("tokens", 1)[1])[1] == 813


def test_a_token_of_a_window_leads_to_its_row(page, site):
    straight(page, site, "&v=text&q=812")
    keys = page.locator(".of-part .tokens").last.locator(".token")
    first = numbers(page.locator(".wide .note").first.inner_text().split("tokens", 1)[1])[0]
    # a column is not to be had
    page.get_by_text("What attends to a token, a column, needs all weights at once").wait_for()
    assert page.get_by_role("button", name="what attends to a token").count() == 0
    # a token leads to its row
    keys.nth(5).click()
    page.wait_for_url(f"**q={first + 4}**")
    page.locator(".wide .note", has_text=f"({first + 5})").wait_for()


def test_trace_says_once_that_a_text_is_too_long_for_it(page, site):
    page.goto(f"{site}{ATTEND.replace('attend', 'trace')}")
    for words in ("This input is too long to show every step", "输入过长，无法显示一个头的每一步"):
        page.get_by_text(words).wait_for(timeout=60_000)
        assert page.locator("body").inner_text().count(words) == 1
        page.evaluate("import('/static/js/state.js').then((state) => (state.language.value = 'zh'))")
    assert all("413" in line for line in page.told)
    page.told.clear()


@pytest.mark.parametrize("view", ["text", "links"])
def test_a_row_of_a_long_input_opens_where_there_is_much_to_see(page, site, view):
    straight(page, site, f"&v={view}")
    note = page.locator(".wide .note").first.inner_text()
    assert numbers(note.split("(", 1)[1])[0] >= 450
    assert "900" in note
    assert "in head 1" in note


@pytest.mark.parametrize("q", [899, 648])
def test_all_of_the_links_of_a_row_is_within_its_panel(page, site, q):
    straight(page, site, f"&v=links&q={q}")
    outside = """() => { const end = document.querySelector('.linked').getBoundingClientRect().right + 0.5;
      const within = (one) => one.getBoundingClientRect().right <= end && one.scrollWidth <= one.clientWidth + 1;
      return [...document.querySelectorAll('.linked .token, .linked .side span, .linked .name')]
        .filter((one) => !within(one)).map((one) => one.textContent); }"""
    assert page.evaluate(outside) == []
    # a name stands before its position
    name, at = (page.locator(f".linked .from .{part}").bounding_box() for part in ("name", "at"))
    assert name["x"] + name["width"] <= at["x"] + 1
    # steps of so long an input are too many
    assert page.get_by_role("link", name="See how this number is made").count() == 0
    page.get_by_text("Every step of this number can be shown of shorter inputs; 900 tokens are too many.").wait_for()
    notes = page.locator(".wide .note, .read .note").all_inner_texts()
    assert any("<unk> is a word that the vocabulary lacks." in note for note in notes)


def test_a_token_that_looks_at_itself_is_said_to(page, site):
    straight(page, site, "&v=links&q=812&k=812")
    page.locator(".read .say").wait_for()
    assert re.match(r"At .*\(813\), head \d+ takes .* of its values from itself\.", page.locator(".say").inner_text())


def test_all_columns_of_the_table_are_in_sight(page, site):
    page.set_viewport_size({"width": 1440, "height": 900})
    straight(page, site, "&v=table")
    assert page.locator(".scrolls:has(.heads)").evaluate("(one) => one.scrollWidth <= one.clientWidth")


def test_bars_of_the_table_can_be_compared_and_bold_is_one_number_of_a_column(page, site):
    page.set_viewport_size({"width": 390, "height": 844})
    straight(page, site, "&v=table")
    # words about its columns wait folded until they are asked for
    assert not page.get_by_text("Entropy: how spread").is_visible()
    page.get_by_text("What the columns mean").click()
    page.get_by_text("Entropy: how spread").wait_for()
    assert min(page.locator(".whole-bar").evaluate_all("(all) => all.map((one) => one.offsetWidth)")) >= 30
    lines = page.locator(".heads tbody tr").evaluate_all(
        "(all) => all.map((row) => [...row.cells].slice(2).map((c) => [Number(c.textContent), c.matches('.most')]))"
    )
    for column in zip(*lines, strict=True):
        largest = max(number for number, _ in column)
        alone = [number for number, _ in column].count(largest) == 1
        assert [number for number, bold in column if bold] == [largest] * alone


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
        return sorted(np.argsort(-exact[0][row][: row + 1], kind="stable")[:16])

    def positions():
        return [int(re.search(r"\((\d+)\)$", text)[1]) - 1 for text in keys.all_inner_texts()]

    assert positions() == largest(812)
    shares = [float(one.get_attribute("data-share").split()[0].lstrip("<>")) for one in keys.all()]
    np.testing.assert_allclose(shares, 100 * exact[0][812][positions()], atol=0.06)
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


def test_the_text_of_a_row_ends_where_its_mask_does(page, site):
    straight(page, site, "&v=text&q=419")
    page.get_by_role("button", name=re.compile("^Largest weight")).click()
    after = page.get_by_role("button", name="Tokens after →")
    while after.get_attribute("aria-disabled") == "false":
        after.click()
    assert "(420)" in page.locator(".of-part .tokens").last.locator(".token").last.inner_text()

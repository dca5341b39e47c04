"""Choosing tokens, nodes and inputs in a browser: what is chosen is what is edited, drawn and told of."""

import io
import re

import numpy as np
import pytest
from browsing import IN_BROWSER, explored_at
from serving_runs import TEXT, folder_of, task_run, writer_of

pytestmark = IN_BROWSER


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    place = tmp_path_factory.mktemp("choosing")
    with explored_at([folder_of(place), writer_of(place), task_run(place, "node-classify")]) as found:
        yield found


def opened(page, site, path):
    page.set_default_timeout(10_000)
    page.goto(site + path)
    page.wait_for_selector("html[data-ready]")
    page.wait_for_timeout(100)


def hide(page):
    page.get_by_role("button", name="Hide token").click()


@pytest.mark.parametrize("view", ["links", "text"])
def test_a_token_that_is_hidden_is_the_one_that_was_chosen(page, site, view):
    opened(page, site, f"#/attend?m=text&x=a1+b1&v={view}")
    side = ".ends" if view == "links" else ".tokens"
    token = page.locator(side).first.locator("button.token").nth(1)
    token.click()
    assert re.search("q=1(&|$)", page.url)
    assert "&k=" not in page.url
    assert page.locator("p.status").inner_text() == token.inner_text()
    hide(page)
    page.wait_for_selector("ol.edits li")
    assert "tokens" not in page.locator("p.status").inner_text()
    assert re.search(r"e=hide~[^&]*~1(&|$)", page.url.replace("%7E", "~"))


def test_a_query_of_another_sequence_hides_nothing(page, site):
    opened(page, site, f"#/attend?m=run&x={TEXT.replace(' ', '+')}&g=decoder+cross&v=links")
    queries, keys = page.locator(".ends").first, page.locator(".ends").last
    queries.locator("button").nth(1).click()
    hide(page)
    page.wait_for_selector("p.status:has-text('Choose a key first')")
    assert page.locator("ol.edits li").count() == 0
    # a key behind a query makes a pair
    keys.locator("button").nth(2).click()
    assert {"q=1", "k=2"} <= set(re.split("[&?]", page.url))
    # a query begins anew, a second click takes it back
    queries.locator("button").nth(0).click()
    assert "q=0" in page.url
    assert "&k=" not in page.url
    queries.locator("button").nth(0).click()
    assert "&q=" not in page.url
    keys.locator("button").nth(2).click()
    assert page.locator(".ends button[aria-pressed=true]").count() == 1
    hide(page)
    page.wait_for_selector("ol.edits li")
    assert re.search(r"~2(&|$)", page.url.replace("%7E", "~"))


def test_positions_of_two_sequences_are_no_columns(page, site):
    titles = {}
    for group in ("encoder+self", "decoder+cross"):
        opened(page, site, f"#/attend?m=run&x={TEXT.replace(' ', '+')}&g={group}&v=table")
        page.wait_for_selector("table.heads")
        titles[group] = page.locator("table.heads th").all_inner_texts()
        numbers = page.locator("table.heads tbody td:nth-child(n+3)").all_inner_texts()
        assert all(re.fullmatch(r"[<>]?\d+\.\d{2}", one) for one in numbers)
    assert len(titles["encoder+self"]) == 11
    assert titles["decoder+cross"] == [
        "layer", "head", "entropy (nats)", "keys looked at", "first key", "largest weight"
    ]  # fmt: skip


# each line that is drawn: where from, where to, how wide, at the last time that the canvas was painted
LINES = """(() => { const kind = CanvasRenderingContext2D.prototype, { stroke, moveTo, lineTo } = kind;
    kind.moveTo = function (x, y) { this.from = [x, y]; return moveTo.call(this, x, y); };
    kind.lineTo = function (x, y) { this.to = [x, y]; return lineTo.call(this, x, y); };
    kind.stroke = function () { const all = this.canvas.lines = this.canvas.lines || [];
        all.push([...this.from, ...this.to, this.lineWidth / devicePixelRatio]); return stroke.call(this); };
    const size = Object.getOwnPropertyDescriptor(HTMLCanvasElement.prototype, 'height');
    Object.defineProperty(HTMLCanvasElement.prototype, 'height', { ...size,
        set(value) { this.lines = []; size.set.call(this, value); } }); })()"""
DRAWN = "canvas => canvas.lines"


def widths(page, drawn):
    """How wide the line of each pair (query, key) is, and whether it goes all the way."""
    strokes = page.locator("canvas.edges").evaluate(DRAWN)
    canvas = page.locator("canvas.edges").bounding_box()
    boxes = [node.bounding_box() for node in page.locator("button.node").all()]
    spots = [[box[at] + box[size] / 2 - canvas[at] for at, size in (("x", "width"), ("y", "height"))] for box in boxes]
    lines = {}
    for q, k in drawn["pairs"]:
        for length in (0.5, 1):
            end = [start + length * (stop - start) for start, stop in zip(spots[q], spots[k], strict=True)]
            near = [line[4] for line in strokes if line[:4] == pytest.approx([*spots[q], *end], abs=1)]
            if q != k and near:
                lines[q, k, length] = near[-1]
    return lines


def test_a_line_is_as_wide_as_the_weight_of_the_node_at_its_end(page, site):
    page.add_init_script(LINES)
    opened(page, site, "#/graph?m=node-classify&hp=2&l=0&h=0")
    told = page.request.post(f"{site}api/v1/traces", data={"model": "node-classify", "example": 0}).json()
    asked, at = {"group": "mixers self", "hops": 2}, f"{site}api/v1/traces/{told['trace_id']}"
    drawn = page.request.get(f"{at}/graph", params=asked).json()
    edges = np.load(io.BytesIO(page.request.get(f"{at}/edges", params=asked).body()))[0, 0].astype(float)
    weights = {tuple(pair): edges[number] for number, pair in enumerate(drawn["pairs"]) if pair[0] != pair[1]}
    page.locator("button.node").first.click()
    page.wait_for_timeout(100)
    mine = {pair: weight for pair, weight in weights.items() if pair[0] == 0}
    lines = {(q, k): wide for (q, k, length), wide in widths(page, drawn).items() if length == 1 and q == 0}
    for (q, k), weight in mine.items():
        assert lines[q, k] == pytest.approx(max(0.5, 9 * weight / max(mine.values())), rel=1e-2)


def test_classes_have_the_colours_of_the_model(page, site):
    opened(page, site, "#/graph?m=node-classify&hp=2")
    told = page.request.post(f"{site}api/v1/traces", data={"model": "node-classify", "example": 0}).json()
    asked = {"group": "mixers self", "hops": 2}
    drawn = page.request.get(f"{site}api/v1/traces/{told['trace_id']}/graph", params=asked).json()
    colours = dict(drawn["kinds"])
    legend = page.locator(".kinds").first.locator(".kind").all_inner_texts()
    assert legend == list(colours)
    for node, one in zip(page.locator("button.node").all(), drawn["nodes"], strict=True):
        red, green, blue = (int(colours[one["kind"]][at : at + 2], 16) for at in (1, 3, 5))
        assert node.evaluate("one => one.style.backgroundColor") == f"rgb({red}, {green}, {blue})"


def test_an_answer_does_not_stay_beside_an_empty_input(page, site):
    opened(page, site, f"#/attend?m=run&x={TEXT.replace(' ', '+')}")
    page.wait_for_selector(".answer:has-text('answer')")
    page.fill("#input", "")
    page.press("#input", "Enter")
    page.wait_for_selector("p:has-text('Type an input above')")
    assert page.locator(".answer-line .answer").count() == 0
    assert page.locator("p.status").inner_text() == ""


def test_a_muted_head_says_why_its_map_is_blank(page, site):
    opened(page, site, f"#/attend?m=run&x={TEXT.replace(' ', '+')}&g=encoder+self")
    page.get_by_role("button", name="Mute head").click()
    page.wait_for_selector(".legend:has-text('every weight is 0')")


def test_a_text_over_the_limit_is_refused_with_the_limit(page, site):
    opened(page, site, f"#/attend?m=run&x={TEXT.replace(' ', '+')}")
    page.fill("#input", "a " * 8200)
    page.press("#input", "Enter")
    page.locator("p.state.failed", has_text=re.compile("at most 8,?192")).wait_for()
    assert page.locator(".answer-line:visible, .attend .panel:visible").count() == 0
    # the browser reports the refusal
    assert all("422" in line for line in page.told)
    page.told.clear()
    # another input takes it back
    page.fill("#input", TEXT)
    page.press("#input", "Enter")
    page.wait_for_selector(".answer:has-text('answer')")
    assert page.locator("p.state:visible").count() == 0


def test_a_muted_map_says_that_it_is_muted(page, site):
    at = f"#/attend?m=run&x={TEXT.replace(' ', '+')}&g=encoder+self"
    opened(page, site, f"{at}&l=0&e=mute~encoder.blocks.0.self_attention~0")
    page.wait_for_selector(".folded:has-text('muted')")
    opened(page, site, f"{at}&l=0&h=1&e=mute~encoder.blocks.0.self_attention~0")
    page.wait_for_selector("html[data-ready^='encoder self/0/1']")
    assert page.locator(".folded:visible").count() == 0


def test_a_muted_head_is_compared_with_none_and_can_be_taken_back_there(page, site):
    at = f"#/attend?m=run&x={TEXT.replace(' ', '+')}&g=encoder+self&v=needs&l=0&h=0"
    opened(page, site, at)
    page.wait_for_selector("html[data-ready$='/needs']")
    page.get_by_role("button", name="Mute layer 1, head 1, and see").click()
    page.wait_for_selector(".similarity .unshown:has-text('Muted, and so left out: layer 1, head 1.')")
    page.wait_for_selector("div.legend:has-text('▨ muted')")
    # what it changes stands here too
    page.wait_for_selector(".change .say, .change p")
    assert page.locator(".edits li").count() == 1
    assert "layer 1, head 1" not in page.locator(".similarity > div > .say").first.inner_text()
    page.get_by_role("button", name="Table").click()
    page.wait_for_selector("table.heads")
    assert page.locator("table.heads tbody tr").first.inner_text().split() == ["1", "1", "muted"]
    page.get_by_role("button", name="Similarity").click()
    page.locator(".similarity .unshown button").click()
    page.wait_for_selector("button:has-text('Mute layer 1, head 1, and see')")
    assert "e=" not in page.url
    page.locator(".similarity .unshown").wait_for(state="detached")


def test_what_is_read_beside_the_map_does_not_cover_the_foot_of_the_screen(page, site):
    opened(page, site, f"#/attend?m=run&x={TEXT.replace(' ', '+')}&g=encoder+self")
    foot = page.locator("p.status")
    page.locator("canvas.heat").click(position={"x": 3, "y": 3})
    page.wait_for_selector("p.status.unseen:has-text('→')", state="attached")
    assert foot.evaluate("(line) => getComputedStyle(line).clipPath") == "inset(50%)"
    # what stands nowhere else is seen
    page.evaluate("import('/static/js/state.js').then((state) => { state.status.value = 'unread'; })")
    page.wait_for_selector("p.status:not(.unseen):has-text('unread')")
    page.get_by_role("button", name="Similarity").click()
    page.wait_for_selector("html[data-ready$='/needs']")
    page.locator("canvas.heat").click(position={"x": 3, "y": 3})
    page.wait_for_selector("p.status.unseen:has-text('the same head')", state="attached")


@pytest.mark.parametrize(
    ("group", "masks"),
    [("encoder+self", ["causal", "window"]), ("decoder+self", ["window"]), ("decoder+cross", [])],
)
def test_masks_are_offered_where_they_change_something(page, site, group, masks):
    opened(page, site, f"#/attend?m=run&x={TEXT.replace(' ', '+')}&g={group}")
    page.get_by_role("button", name="Mute head").wait_for()
    names = page.get_by_label("Narrow mask").locator("option").all_inner_texts()
    assert list(dict.fromkeys(name.split()[0] for name in names)) == masks
    assert page.get_by_role("button", name="Narrow mask").is_visible() == bool(masks)


def test_chinese_has_no_blank_between_its_own_words(page, site):
    opened(page, site, f"#/attend?m=run&x={TEXT.replace(' ', '+')}&g=encoder+self&lang=zh&q=1&k=1")
    page.wait_for_selector(".read .say:has-text('取自自身')")
    closed = """async (parts) => (await import('/static/js/core/phrases.js')).closed(parts).join('')"""
    assert page.evaluate(closed, ["更多的 ", "40 %", " 取自 ", "自身", "。"]) == "更多的 40 % 取自自身。"
    assert page.evaluate(closed, ["屏蔽 ", "交叉注意力 L2H4", " 时"]) == "屏蔽交叉注意力 L2H4 时"
    assert page.evaluate(closed, ["值取自 ", "apple", "。"]) == "值取自 apple。"


def test_a_graph_shows_each_head_that_is_chosen(page, site):
    """The first one too, where it opens on another."""

    def opening_on_the_second(route):
        answer = route.fetch()
        trace = answer.json()
        groups = [{**group, "opens": [0, 1]} for group in trace["groups"]]
        route.fulfill(response=answer, json={**trace, "groups": groups})

    page.route("**/api/v1/traces", opening_on_the_second)
    opened(page, site, "#/graph?m=node-classify&hp=2")
    shown = "import('/static/js/state.js').then((state) => state.place(state.chosen()).head)"
    assert page.evaluate(shown) == 1
    page.get_by_label("head", exact=True).select_option(index=0)
    assert page.evaluate(shown) == 0


def test_an_example_that_is_not_there_leads_to_one_that_is(page, site):
    opened(page, site, "#/attend?m=run&ex=99999")
    line = page.locator("p.failed")
    assert re.search(r"no example 99999: they are numbered 0 to \d+\.", line.inner_text())
    # a number would be read as a text
    assert page.input_value("#input") == ""
    # the browser names what was refused
    assert "404" in page.told.pop()
    page.get_by_role("button", name="Open example 0").click()
    page.wait_for_function("() => document.querySelector('#input').value.length > 3")
    assert re.search(r"ex=0(&|$)", page.url)
    # Enter keeps it an example, with what its data says of it
    page.press("#input", "Enter")
    assert re.search(r"ex=0(&|$)", page.url)
    assert "x=" not in page.url.split("ex=0")[0]


def test_without_an_input_one_sentence_says_how_to_begin(page, site):
    opened(page, site, "#/attend?m=text")
    page.locator("p:visible:has-text('Type an input above, or begin with one of these:')").wait_for()
    assert page.locator("p:visible:has-text('an input')").count() == 1
    # what a picture is stands above them
    page.locator("p.note:has-text('Each picture is a map of one head') + .examples").wait_for()


def test_what_is_typed_on_a_page_that_cannot_show_it_opens_the_page_that_can(page, site):
    opened(page, site, "#/translate?m=node-classify")
    page.locator("p:has-text('Or look at node-classify on the page Graph:')").wait_for()
    name = page.locator("a.example bdi").first.inner_text().split()[0]
    page.fill("#input", name)
    page.press("#input", "Enter")
    page.wait_for_selector("html[data-ready^='graph/']")
    assert "#/graph?" in page.url
    assert page.input_value("#input") == name


def test_what_a_model_wrote_is_set_off_from_what_it_read(page, site):
    opened(page, site, "#/attend?m=text&x=a1+b1")
    page.wait_for_selector("html[data-ready$='/heat']")
    trace = page.request.post(f"{site}api/v1/traces", data={"model": "text", "text": "a1 b1"}).json()
    count = len(trace["groups"][0]["queries"])
    strip = [page.locator(f".answer-line .{side} .toks button") for side in ("input", "answer")]
    read, written = (tokens.count() for tokens in strip)
    assert read + written == count
    assert 0 < read < count
    assert page.locator(".answer-line .answer .side").inner_text() == "→ continuation"
    assert "below the line, bold: written by the model" in page.locator(".legend").last.inner_text()
    labels = page.locator(".rows.axis span").all_inner_texts()
    # a token that returns has its position
    assert len(set(labels)) == len(labels)
    weights = page.locator(".rows.axis span").evaluate_all("all => all.map((one) => getComputedStyle(one).fontWeight)")
    assert weights.count("700") < len(weights)
    colours = page.locator("canvas.heat").evaluate(
        """(canvas, share) => { const at = Math.round(share * canvas.height);
        const ink = getComputedStyle(canvas).color.match(/\\d+/g).slice(0, 3).map(Number);
        const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', { willReadFrequently: true });
        copy.drawImage(canvas, 0, 0);
        const of = (y) => [...copy.getImageData(3, y, 1, 1).data].slice(0, 3);
        return [ink, of(at), of(at - 6)]; }""",
        read / count,
    )
    assert colours[0] == colours[1] != colours[2]


def test_a_head_of_several_kinds_is_framed_once(page, site):
    opened(page, site, "#/attend?m=text&x=a1+b1")
    page.wait_for_selector(".finder button")
    buttons = page.locator(".finder button")
    for number in range(buttons.count()):
        buttons.nth(number).click()
        framed = [button.get_attribute("aria-pressed") for button in buttons.all()]
        assert framed == [str(at == number).lower() for at in range(len(framed))]


def test_titles_of_the_table_show_how_it_is_sorted(page, site):
    opened(page, site, "#/attend?m=text&x=a1+b1&v=table")
    title = page.locator(".heads th", has_text="entropy")
    title.wait_for()
    mark = "node => getComputedStyle(node.querySelector('button'), '::after').content"
    marks = [title.evaluate(mark)]
    for _ in range(2):
        title.locator("button").click()
        marks.append(title.evaluate(mark))
    assert [next(one for one in "↕▼▲" if one in content) for content in marks] == ["↕", "▼", "▲"]
    assert "Entropy: how spread a row is" in page.locator(".wide details .note").text_content()


def test_the_labels_follow_the_pointer_and_the_frame_the_keys(page, site):
    opened(page, site, "#/attend?m=text&x=a1+b1&q=0&k=0")
    canvas = page.locator("canvas.heat")
    canvas.wait_for()
    box = canvas.bounding_box()
    chosen = page.locator(".axis .on")
    before = chosen.evaluate_all("all => all.map((one) => one.style.cssText)")
    page.mouse.move(box["x"] + box["width"] - 4, box["y"] + box["height"] - 4)
    page.wait_for_timeout(100)
    assert chosen.evaluate_all("all => all.map((one) => one.style.cssText)") != before
    page.keyboard.press("ArrowDown")
    page.wait_for_selector(".tip", state="hidden")


def test_a_score_is_explained_where_one_stands(page, site):
    opened(page, site, "#/attend?m=text&x=a1+b1")
    page.locator(".facts dt", has_text="score").wait_for()
    assert page.locator(".facts + .note").inner_text().startswith("Score: ")

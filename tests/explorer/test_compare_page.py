"""Edits, similar heads and comparisons in a browser: what is shown is what the server says, and is in the address."""

import io
import json
import re
import shutil

import numpy as np
import pytest
from browsing import IN_BROWSER, explored_at
from serving_runs import TEXT, filler_of, folder_of, writer_of

pytestmark = IN_BROWSER
LAYER = "decoder.blocks.0.cross_attention"
TITLES = {
    "encoder.blocks.0.self_attention": "Encoder layer 1, self-attention",
    "encoder.blocks.1.self_attention": "Encoder layer 2, self-attention",
    "decoder.blocks.0.self_attention": "Decoder layer 1, self-attention",
    LAYER: "Decoder layer 1, cross-attention",
}
SHORT = {layer: layer.split(".")[0] + " self" for layer in TITLES} | {LAYER: "cross"}
ATTEND = "#/attend?m=run&x=a+and+g+.&g=decoder+cross"
RECORD = {"d": 64, "heads": 8, "dtype": "float32", "device": "cpu", "hardware": "some processor", "mem_mib": 2.0}
RECORDS = [
    {**RECORD, "mechanism": name, "n": n, "fwd_ms": {"p50": n**power / 1000, "p90": n**power / 900}}
    for name, power in (("scored", 2), ("linear", 1))
    for n in (128, 256, 512)
]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    place = tmp_path_factory.mktemp("compared")
    (place / "lengths.json").write_text(json.dumps({"records": RECORDS}))
    run = folder_of(place)
    twin = shutil.copytree(run, place / "twin")
    with explored_at(
        [run, filler_of(place), twin, writer_of(place, length=64)], "--bench", place / "lengths.json"
    ) as found:
        yield found


def opened(page, site, path, mark):
    page.goto(site + path)
    page.wait_for_selector(f"html[{mark}]")


def unfolded(page):
    """Both sides' choices, which a narrow screen folds."""
    if page.viewport_size["width"] < 700:
        page.locator(".choices-of-sides > summary").click()
    return page.locator("fieldset")


def traced(page, site, *edits):
    body = {"model": "run", "text": TEXT, "options": {"edits": list(edits)}}
    return page.request.post(f"{site}api/v1/traces", data=body).json()


def matrix(page, site, told, head):
    asked = {"layer": LAYER, "head": head}
    answer = page.request.get(f"{site}api/v1/traces/{told['trace_id']}/matrix", params=asked)
    return np.load(io.BytesIO(answer.body()), allow_pickle=False).astype(float)


def under(page, canvas, shape, q, k):
    """What the tips say with the pointer over a cell."""
    box = canvas.bounding_box()
    canvas.hover(position={"x": (k + 0.5) * box["width"] / shape[1], "y": (q + 0.5) * box["height"] / shape[0]})
    return [float(tip.split()[-1].replace("−", "-")) for tip in page.locator(".tip:visible").all_inner_texts()]


def bring(page, name):
    """Where the maps lie above each other, this one is shown."""
    button = page.locator(".which-map").get_by_role("button", name=name, exact=True)
    if page.viewport_size["width"] <= 700:
        button.click()
    assert button.is_visible() == (page.viewport_size["width"] <= 700)


def percents(text):
    return [float(part) / 100 for part in re.findall(r"(\d+(?:\.\d+)?)\s%", text)]


def test_edits_are_made_told_undone_and_kept_in_the_address(page, site):
    opened(page, site, f"{ATTEND}&h=1&q=1&k=2", "data-ready")
    page.get_by_role("button", name="Mute head").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("html[data-changed]")
    change = traced(page, site, {"kind": "mute", "layer": LAYER, "heads": [1]})["change"]
    shown = page.locator(".change").inner_text()
    told = re.search(r"KL divergence \(nats\) (\S+) · change of log-probability (\S+)", shown)
    assert float(told[1]) == pytest.approx(change["effect"]["divergence"], rel=6e-3)
    assert float(told[2].replace("−", "-")) == pytest.approx(change["effect"]["log_prob"], rel=6e-3)
    old, new = change["answer"]["before"], change["answer"]["after"]
    assert (f"The answer stays {old}" if old == new else f"The answer was {old}, now it is {new}") in shown
    before, after = (np.exp([place[when] for place in change["places"]]) for when in ("before", "after"))
    most = np.abs(after - before).argmax()
    assert percents(page.locator(".change .say").inner_text()) == [
        pytest.approx(before[most], abs=6e-4),
        pytest.approx(after[most], abs=6e-4),
    ]
    rows = page.locator(".places tbody tr")
    assert rows.count() == len(change["places"])
    after = [percents(row.locator("td").nth(3).inner_text())[0] for row in rows.all()]
    np.testing.assert_allclose(after, np.exp([place["after"] for place in change["places"]]), atol=6e-4)
    page.wait_for_selector(".raw:has-text('%')")
    before = matrix(page, site, traced(page, site), 1)[1, 2]
    raw = percents(page.locator(".raw").inner_text())
    assert raw == [pytest.approx(before, abs=6e-4), 0]
    page.get_by_label("weight", exact=True).fill("0.6")
    page.get_by_role("button", name="Set weight").click()
    page.get_by_role("button", name="Hide token").click()
    page.locator(".edits li").nth(2).wait_for()
    page.reload()
    page.wait_for_selector("html[data-changed]")
    assert page.locator(".edits li").count() == 3
    page.get_by_role("button", name="Undo").click()
    page.locator(".edits li button").first.click()
    page.wait_for_selector(".edits li")
    assert "force~" in page.evaluate("new URLSearchParams(location.hash.split('?')[1]).get('e')")
    page.get_by_role("button", name="Clear").click()
    page.wait_for_selector(".change:empty", state="attached")
    assert page.locator(".edits li").count() == 0
    assert "e=" not in page.url.partition("?")[2]


def test_an_address_with_edits_that_are_none_is_read_without_them(page, site):
    wrong = "mute~x|explode~1~2|force~a~b~c~d~e~f|swap~y~score~|narrow~z~window~x|hide"
    opened(page, site, f"{ATTEND}&e={wrong}", "data-ready")
    assert page.locator(".edits li").count() == 0


def test_a_head_is_muted_once_and_what_changes_stands_above_the_map_until_it_is_undone(page, site):
    opened(page, site, ATTEND, "data-ready")
    mute = page.get_by_role("button", name="Mute head", exact=True)
    mute.click()
    page.wait_for_selector("html[data-changed]")
    mute.click()
    assert page.locator(".edits li").count() == 1
    above = page.locator(".answer-line + .say")
    assert above.inner_text() == page.locator(".change .say").inner_text()
    page.get_by_role("button", name="Undo").click()
    above.wait_for(state="detached")


def test_a_layer_with_another_mechanism_or_mask(page, site):
    opened(page, site, ATTEND.replace("decoder+cross", "encoder+self"), "data-ready")
    page.get_by_role("button", name="Swap mechanism").click()
    page.wait_for_selector("html[data-changed]")
    page.get_by_role("button", name="Narrow mask").click()
    page.wait_for_selector(".edits li:nth-child(2)")
    assert "sparsemax" in page.locator(".edits li").first.inner_text()
    page.wait_for_selector(".answer:has-text('answer')")
    # what is edited is told and taken back by a table too
    page.get_by_role("button", name="Table").click()
    page.wait_for_selector("table.heads")
    page.get_by_role("button", name="Clear").click()
    # without edits it has nothing to hide or to set: these need a cell
    page.wait_for_function("!document.querySelector('.edits li')")
    assert not page.get_by_role("button", name="Set weight").is_visible()


def test_heads_that_are_alike_and_what_each_does(page, site):
    opened(page, site, f"{ATTEND}&v=needs", "data-ready='decoder cross/needs'")
    told = traced(page, site)
    address = f"{site}api/v1/traces/{told['trace_id']}/similar?group=decoder+cross"
    exact = np.load(io.BytesIO(page.request.get(address).body()), allow_pickle=False).astype(float)
    (shown,) = under(page, page.locator("canvas.heat"), exact.shape, 0, 1)
    assert shown == pytest.approx(exact[0, 1], rel=6e-3)
    other = page.request.post(f"{site}api/v1/traces", data={"model": "run", "text": "b and h ."}).json()
    both = np.load(io.BytesIO(page.request.get(f"{address}&beside={other['trace_id']}").body())).astype(float)
    page.get_by_label("Inputs, one a line").fill(f"{TEXT}\nb and h .\n")
    page.get_by_role("button", name="Compare over these inputs").click()
    page.wait_for_selector("html[data-ready='decoder cross/needs/2']")
    assert both[0, 1] != exact[0, 1]
    assert under(page, page.locator("canvas.heat"), both.shape, 0, 1) == [pytest.approx(both[0, 1], rel=6e-3)]
    page.get_by_label("Inputs, one a line").fill(TEXT)
    page.get_by_role("button", name="Mute each head alone").click()
    page.wait_for_selector(".similarity .say[role=status]")
    # the line at the foot says nothing more, and covers nothing
    assert page.locator("p.status").inner_text() == ""
    lines = page.request.post(f"{site}api/v1/ablations", data={"model": "run", "texts": [TEXT]}).text().splitlines()
    found = {(line["layer"], line["head"]): line for line in map(json.loads, lines[1:-1])}
    lines = page.locator(".muted tbody tr").all()
    rows = [row.locator("td").all_inner_texts() for row in lines]
    assert len(rows) == len(found) == 8
    top = max(effect["divergence"] for effect in found.values())
    for line, (title, head, divergence, *_) in zip(lines, rows, strict=True):
        layer = line.locator("td").first.get_attribute("title")
        number, at = re.fullmatch(r"L(\d+)H(\d+)", head).groups()
        assert (title, int(number) - 1) == (SHORT[layer], int(re.search(r"\d+", layer)[0]))
        exact = found[layer, int(at) - 1]["divergence"]
        assert float(divergence.lstrip("<")) == pytest.approx(exact, abs=6e-3 * top)
    assert not any("-" in cell for row in rows for cell in row[1:])
    shown = [
        found[line.locator("td").first.get_attribute("title"), int(row[1].split("H")[1]) - 1]
        for line, row in zip(lines, rows, strict=True)
    ]
    assert [one["divergence"] for one in shown] == sorted((one["divergence"] for one in shown), reverse=True)
    for width in (1440, 390):
        page.set_viewport_size({"width": width, "height": 844})
        page.wait_for_function(
            "() => { const one = document.querySelector('.muted'); "
            "return one && one.offsetWidth <= one.parentElement.clientWidth; }"
        )
    # what was measured stays while another group of layers is looked at
    page.locator(".muted button").last.click()
    page.wait_for_selector("html[data-ready$='/needs']")
    page.locator(".muted tbody tr").nth(7).wait_for()
    assert "The answer changes most without" in page.locator("main").inner_text()


def test_of_some_of_the_heads_it_is_not_said_which_matters_most(page, site):
    opened(page, site, f"{ATTEND}&v=needs", "data-ready='decoder cross/needs'")
    inputs = f"{TEXT}\nb and h ."
    lines = page.request.post(f"{site}api/v1/ablations", data={"model": "run", "texts": [TEXT]}).text().splitlines()
    # as where it is stopped before the fourth head
    page.route("**/api/v1/ablations", lambda route: route.fulfill(body="\n".join(lines[:4]) + "\n"))
    page.get_by_label("Inputs, one a line").fill(inputs)
    page.get_by_role("button", name="Mute each head alone").click()
    page.wait_for_selector(".muted tbody tr:nth-child(3)")
    page.wait_for_selector("button:text-is('Stop'):disabled")
    stopped = page.locator("main").inner_text()
    page.get_by_role("button", name="encoder self").first.click()
    page.wait_for_selector("html[data-ready='encoder self/needs']")
    assert "changes most without" not in stopped + page.locator("main").inner_text()
    # the numbers stand beside the inputs that they are of
    assert page.locator(".muted tbody tr").count() == 3
    assert page.get_by_label("Inputs, one a line").input_value() == inputs


def test_heads_of_an_edited_model_are_compared_over_inputs(page, site):
    opened(page, site, f"{ATTEND}&v=needs&e=mute~{LAYER}~1", "data-ready='decoder cross/needs'")
    page.get_by_label("Inputs, one a line").fill(f"{TEXT}\nb and h .\n")
    page.get_by_role("button", name="Compare over these inputs").click()
    page.wait_for_selector("html[data-ready='decoder cross/needs/2']")
    assert "Inputs compared: 2." in page.locator("main").inner_text()


def test_more_inputs_than_are_compared_are_refused_until_there_are_fewer(page, site):
    opened(page, site, f"{ATTEND}&v=needs", "data-ready='decoder cross/needs'")
    inputs, button = page.get_by_label("Inputs, one a line"), page.get_by_role("button", name="Compare over")
    inputs.fill(f"{TEXT}\n" * 65)
    button.click()
    page.wait_for_selector("p.status:has-text('At most 64 inputs')")
    assert "Inputs compared: 65" not in page.locator("main").inner_text()
    inputs.fill(f"{TEXT}\n" * 64)
    button.click()
    page.wait_for_selector("html[data-ready='decoder cross/needs/64']")
    assert page.locator("p.status").inner_text() == ""


def test_an_example_is_compared_with_itself_and_with_what_another_run_makes_of_it(page, site):
    opened(page, site, "#/compare?m=run&ex=1&g=decoder+cross&g2=decoder+cross", "data-ready^=compare")
    _, first, _, second, _ = page.locator("html").get_attribute("data-ready").split("/")
    assert first == second
    sides = unfolded(page)
    inputs = sides.locator("input[type=text]")
    # what A is of stands in the bar above
    assert [one.input_value() for one in inputs.all()] == [""]
    with page.expect_request(lambda one: one.method == "POST" and '"twin"' in one.post_data) as sent:
        sides.nth(1).get_by_label("model").select_option("twin")
    told = page.request.post(f"{site}api/v1/traces", data={"model": "run", "example": 1}).json()
    assert sent.value.post_data_json["text"] == told["source"]
    # what is typed takes the place of the example
    page.fill("#input", TEXT)
    page.press("#input", "Enter")
    page.wait_for_function("new URLSearchParams(location.hash.split('?')[1]).get('x') === 'a and g .'")
    assert "ex=" not in page.url


def test_two_heads_their_difference_and_one_pointer_for_all(page, site):
    opened(page, site, "#/compare?m=run&x=a+and+g+.&g=decoder+cross&g2=decoder+cross", "data-ready^=compare")
    told = traced(page, site)
    one, two = (matrix(page, site, told, head) for head in (0, 1))
    maps = page.locator("canvas.heat")
    for q, k in ((0, 0), (2, 3), (one.shape[0] - 1, 1)):
        shown = under(page, maps.nth(2), one.shape, q, k)
        assert shown == [
            pytest.approx(one[q, k], rel=6e-3),
            pytest.approx(two[q, k], rel=6e-3),
            pytest.approx(two[q, k] - one[q, k], rel=6e-3, abs=1e-6),
        ]
    second = unfolded(page).nth(1)
    second.get_by_label("head").select_option("0")
    page.wait_for_selector("html[data-ready$='/0']")
    assert all(value == 0 for value in under(page, maps.nth(2), one.shape, 0, 0)[2:])
    # what a map says of a cell is cut by no panel
    for k in range(one.shape[1]):
        under(page, maps.nth(2), one.shape, 0, k)
        for tip in page.locator(".tip").all():
            inner, outer = tip.bounding_box(), tip.locator("xpath=ancestor::section").bounding_box()
            assert outer["x"] <= inner["x"] <= inner["x"] + inner["width"] <= outer["x"] + outer["width"]
    second.get_by_label("mechanism").select_option("normalizer~sparsemax")
    page.wait_for_selector("fieldset:nth-of-type(2) p:has-text('sparsemax')")
    assert "e2=" in page.url


def test_what_differs_is_said_in_sentences_and_shown_in_a_row(page, site):
    swap = f"swap~{LAYER}~normalizer~sparsemax"
    opened(page, site, f"#/compare?m=run&x=a+and+g+.&g=decoder+cross&g2=decoder+cross&e2={swap}", "data-ready^=compare")
    # nothing but the mechanism differs, so both sides are of one head
    assert page.locator("html").get_attribute("data-ready").split("/")[2::2] == ["0", "0"]
    other = traced(page, site, {"kind": "swap", "layer": LAYER, "normalizer": "sparsemax"})
    one, two = matrix(page, site, traced(page, site), 0), matrix(page, site, other, 0)
    # each map lies within its panel
    for panel in page.locator(".three > .panel").all():
        inner, outer = panel.locator("canvas.heat").bounding_box(), panel.bounding_box()
        assert inner["x"] + inner["width"] <= outer["x"] + outer["width"]
    lines = page.locator(".differs li").all_inner_texts()
    (group,) = [each for each in other["groups"] if LAYER in each["layers"]]
    words = [np.array([label not in {".", "<eos>"} for label in group[side]]) for side in ("queries", "keys")]
    q, k = np.unravel_index((np.abs(two - one) * np.outer(*words)).argmax(), one.shape)
    assert percents(lines[1]) == [pytest.approx(one[q, k], abs=6e-4), pytest.approx(two[q, k], abs=6e-4)]
    agreed = int((one.argmax(1) == two.argmax(1)).sum())
    assert lines[2] == f"In {agreed} of {len(one)} rows both look most at the same key."
    spread = [np.exp(-np.sum(rows * np.log(np.where(rows > 0, rows, 1)), axis=1)).mean() for rows in (one, two)]
    assert [float(part) for part in re.findall(r"\d+\.\d", lines[3])] == [pytest.approx(n, abs=0.06) for n in spread]
    # a softmax gives no weight of exactly 0
    assert not (one == 0).any()
    assert lines[4].startswith("No weight of A is exactly 0")
    assert percents(lines[4]) == [pytest.approx((two == 0).mean(), abs=6e-4)]
    # a click on another cell shows its row
    maps = page.locator("canvas.heat")
    assert page.locator(".pairs > div").first.inner_text().split() == ["A", "B"]
    bring(page, "A")
    box = maps.first.bounding_box()
    maps.first.click(position={"x": box["width"] / one.shape[1] / 2, "y": 1.5 * box["height"] / one.shape[0]})
    page.mouse.move(0, 0)
    for row, key in zip(page.locator(".pairs > div:has(bdi)").all(), range(one.shape[1]), strict=True):
        shown = percents(row.inner_text())
        assert shown == [pytest.approx(one[1, key], abs=6e-4), pytest.approx(two[1, key], abs=6e-4)]
    assert "q=1&k=0" in page.url


def test_two_runs_are_compared_by_the_mean_of_their_heads_with_their_metrics(page, site):
    sides = "g=decoder+cross&g2=decoder+cross"
    opened(page, site, f"#/compare?m=run&m2=twin&x=a+and+g+.&{sides}", "data-ready^=compare")
    assert page.locator("html").get_attribute("data-ready").split("/")[2::2] == ["-1", "-1"]
    mean = np.mean([matrix(page, site, traced(page, site), head) for head in (0, 1)], axis=0)
    bring(page, "A")
    shown = under(page, page.locator("canvas.heat").first, mean.shape, 1, 2)
    assert shown == [pytest.approx(mean[1, 2], rel=6e-3), pytest.approx(mean[1, 2], rel=6e-3), 0]
    assert "Both maps are the same." in page.locator(".differs").inner_text()
    assert "do not correspond" in page.locator("main").inner_text()
    # the first head, which an address need not name, can be chosen, and stays
    unfolded(page).first.get_by_label("head").select_option("0")
    page.wait_for_selector("html[data-ready*='/0/'][data-ready$='/-1']")
    page.reload()
    page.wait_for_selector("html[data-ready*='/0/'][data-ready$='/-1']")


def test_the_second_head_of_a_layer_is_beside_the_first(page, site):
    opened(page, site, "#/compare?m=run&x=a+and+g+.&g=decoder+cross&g2=decoder+cross&h=1", "data-ready^=compare")
    assert page.locator("html").get_attribute("data-ready").split("/")[2::2] == ["1", "0"]
    unfolded(page).first.get_by_label("head").select_option("-1")
    page.wait_for_selector("html[data-ready$='/-1']")
    assert "mean of heads" in page.locator("main").inner_text()


def test_the_second_side_follows_to_the_kind_of_layer_of_the_first(page, site):
    opened(page, site, "#/compare?m=run&m2=twin&x=a+and+g+.", "data-ready^=compare")
    sides = unfolded(page)
    for name in ("encoder self", "decoder cross", "decoder self"):
        sides.first.get_by_label("layers").select_option(name)
        page.wait_for_function(
            "(name) => document.querySelector('fieldset:nth-of-type(2) label:nth-of-type(3) select').value === name",
            arg=name,
        )


@pytest.mark.parametrize("other", [f"e2=swap~{LAYER}~normalizer~sparsemax", "x2=b+and+k+."])
def test_maps_stand_in_line_however_long_titles_and_labels_are(page, site, other):
    opened(page, site, f"#/compare?m=run&x=a+and+g+.&{other}", "data-ready^=compare")
    if page.viewport_size["width"] > 1000:
        tall = []
        for width in (1280, 820, 1280):
            page.set_viewport_size({"width": width, "height": 900})
            tops = [one.bounding_box()["y"] for one in page.locator(".three canvas.heat").all()]
            assert max(tops) - min(tops) < 2
            tall.append(page.locator(".three h2").first.bounding_box()["height"])
        # no title keeps the height that a narrow window gave it
        assert tall[0] == tall[2]
    uncut = """(one) => { const free = one.cloneNode(true); free.style.maxWidth = 'none'; one.parentNode.append(free);
        const wide = free.offsetWidth; free.remove(); return wide <= one.offsetWidth + 1; }"""
    sides = unfolded(page)
    # the longest name of a group of layers stands uncut
    sides.first.get_by_label("layers").select_option("decoder self")
    page.wait_for_selector("html[data-ready^=compare]")
    assert all(select.evaluate(uncut) for select in sides.locator("select").all())


def test_no_other_page_is_named_while_examples_come(page, site):
    page.route("**/api/v1/cards*", lambda route: None)
    opened(page, site, "#/compare?m=run", "data-ready=none")
    page.locator(".state").wait_for(state="attached")
    assert page.locator(".state:visible").count() == 0
    # what stands below has its place at once
    assert page.locator(".awaited").bounding_box()["height"] > 100
    assert page.locator(".awaited").get_attribute("data-said") == "computing …"
    page.unroute("**/api/v1/cards*")
    # where none come it says what to do
    page.route("**/api/v1/cards*", lambda route: route.fulfill(json={"stages": [], "examples": []}))
    page.reload()
    page.wait_for_selector("html[data-ready=begin]")
    assert page.locator(".state:visible").count() == 1


def test_without_an_input_cards_open_on_the_page_and_keep_the_other_side(page, site):
    opened(page, site, "#/compare?m=run&m2=twin", "data-ready=begin")
    assert page.locator("p:visible:has-text('an input')").count() == 1
    card = page.locator("a.example").first
    card.locator("canvas").wait_for()
    card.click()
    page.wait_for_selector("html[data-ready^='compare/']")
    assert "#/compare?" in page.url
    assert "m2=twin" in page.url
    assert page.locator("a.example").count() == 0
    assert page.locator("canvas.heat").count() == 3


def test_a_finger_chooses_a_cell(page, site, browser):
    context = browser.new_context(viewport=page.viewport_size, has_touch=True)
    touched = context.new_page()
    opened(touched, site, "#/compare?m=run&m2=twin&x=a+and+g+.&g=encoder+self&g2=encoder+self", "data-ready^=compare")
    bring(touched, "B")
    touched.locator("canvas.heat").nth(1).tap(position={"x": 3, "y": 3})
    touched.wait_for_function("() => location.hash.includes('q=0&k=0')")
    assert touched.locator(".tip:visible").count() > 0
    context.close()


LONGER = "a1+b2+c+a3+b4+c+a5+b1+c+a2+b3+c+a4+b2+c"
COLLIDING = """(spans, side) => { const boxes = spans.map((one) => one.getBoundingClientRect());
    boxes.sort((a, b) => (side === 'rows' ? a.y - b.y : a.x - b.x));
    return boxes.slice(1).filter((box, at) => (side === 'rows' ? box.y - boxes[at].bottom : box.x - boxes[at].right)
        < -0.5).length; }"""


def test_labels_of_small_cells_stand_apart_and_the_mask_is_named_once(page, site):
    opened(page, site, f"#/compare?m=text&x={LONGER}", "data-ready^=compare")
    for side in ("rows", "columns"):
        for labels in page.locator(f".three .{side}").all():
            spans = labels.locator("span")
            assert spans.count() > 5
            assert spans.evaluate_all(COLLIDING, side) == 0
    for panel in page.locator(".three > .panel").all():
        assert panel.inner_text().count("forbidden by the mask") == 1
    # a key that the mask forbids is none of a row's
    keys = page.locator(".pairs > div bdi").all_inner_texts()
    assert keys
    assert len(keys) == len(set(keys))


def test_of_other_inputs_both_tokens_are_named_and_a_dot_is_explained(page, site):
    sides = "g=encoder+self&g2=encoder+self"
    opened(page, site, f"#/compare?m=run&x=a+and+g+.&x2=b+and+h+.&q=0&k=0&{sides}", "data-ready^=compare")
    keys = page.locator(".pairs > div bdi").all_inner_texts()
    assert keys[:2] == ["a / b", "and"]
    # the map of the difference names them so too
    bring(page, "Difference")
    map_of_both = page.locator(".three > .panel").nth(2)
    assert "a/b" in map_of_both.locator(".rows span").all_inner_texts()
    map_of_both.locator("canvas.heat").hover(position={"x": 3, "y": 3})
    assert map_of_both.locator(".tip").inner_text().startswith("a / b → a / b ")
    assert "the tokens differ" in page.locator(".three > .panel").nth(2).inner_text()
    # the same twice: every difference is 0, which is written as a dot
    opened(page, site, f"#/compare?m=run&m2=twin&x=a+and+g+.&{sides}", "data-ready$='/-1'")
    bring(page, "Difference")
    assert "· is below .005" in page.locator(".three > .panel").nth(2).inner_text()


def test_rows_that_a_model_wrote_are_not_titled_as_read(page, site):
    opened(page, site, "#/compare?m=text&x=a+and+g+.", "data-ready^=compare")
    titles = page.locator(".three > .panel").first.locator(".axis-title").all_inner_texts()
    assert "attends from" in titles


def test_runs_of_other_tasks_have_measures_that_do_not_compare(page, site):
    opened(page, site, "#/compare?m=run&m2=text&x=a+and+g+.", "data-ready^=compare")
    page.wait_for_selector(".answers")
    told = page.locator("section:has(> h2:text-is('Two models'))").inner_text()
    assert "translation · pairs.tsv" in told
    assert "language model · lines.txt" in told
    assert "cannot be compared" in told
    assert "One seed each" not in told
    # a cell of one map says nothing of the other's, and no answer begins with a blank
    assert not re.search(r"“\s", page.locator(".differs").inner_text())
    bring(page, "A")
    maps = page.locator("canvas.heat")
    maps.first.hover()
    assert page.locator(".tip:visible").count() == 1
    page.goto(f"{site}#/compare?m=run&m2=twin&x=a+and+g+.")
    page.wait_for_selector(".answers")
    page.wait_for_selector("p:has-text('One seed each')")


def altered(route, **values):
    """An answer of the server with other values."""
    answer = route.fetch()
    route.fulfill(response=answer, json=answer.json() | values)


def test_files_of_one_name_and_answers_that_differ_in_blanks_are_not_taken_for_the_same(page, site):
    page.route("**/api/v1/cards?model=twin*", lambda route: altered(route, digests={"train": "of another file"}))
    page.route(
        "**/api/v1/traces",
        lambda route: altered(route, output="g" if route.request.post_data_json["model"] == "run" else " g"),
    )
    opened(page, site, "#/compare?m=run&m2=twin&x=a+and+g+.", "data-ready^=compare")
    page.wait_for_selector("p:has-text('cannot be compared')")
    assert "Both answer “g”, but not with the same blanks" in page.locator(".differs").inner_text()


def test_what_does_not_fit_is_told(page, site):
    opened(page, site, "#/compare?m=run&x=a+and+g+.&m2=filler&x2=a1+%5BMASK%5D+c", "data-ready^=compare")
    assert "same number of rows and of columns" in page.locator(".two > .panel").last.inner_text()
    assert page.locator("canvas.heat").count() == 2


def test_curves_and_pictures_of_pairs(page, site):
    opened(page, site, "#/compare", f"data-curves='{len(RECORDS)}'][data-gallery")
    assert "some processor" in page.locator("main").inner_text()
    key = page.locator(".key li").all_inner_texts()
    assert [one.split() for one in key] == [["scored", "×4"], ["linear", "×2"]]
    assert page.locator("figure.curves canvas").count() == 2
    page.locator("details details summary").click()
    assert page.locator("details tbody tr").count() == len(RECORDS)
    answer = page.request.get(site + page.locator("a[download]").get_attribute("href").lstrip("/"))
    assert len(answer.text().splitlines()) == len(RECORDS) + 1
    assert page.locator("canvas.pattern").count() == int(page.locator("html").get_attribute("data-gallery"))


def test_a_page_without_measurements_names_the_command(page, site):
    page.route(
        "**/api/v1/bench", lambda route: route.fulfill(json={"records": [], "made_by": "make", "shown_by": "show"})
    )
    opened(page, site, "#/compare?lang=zh", "data-curves='none'")
    assert "make" in page.locator("main details code").all_text_contents()

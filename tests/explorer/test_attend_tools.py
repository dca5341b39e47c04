"""Attend and Trace in a browser: words, special tokens, rollout, zoom, sound, what is supposed, and every key."""

import base64
import io
import re

import numpy as np
import pytest
from browsing import IN_BROWSER, explored_at, unfold
from serving_runs import small, task_run, writer_of

from headwise.explain.alignment import merge

pytestmark = IN_BROWSER
TEXT = "cats and dogs sleep ."
MERGED = f"#/attend?m=pieces&x={TEXT.replace(' ', '+')}&g=decoder+cross&sc=linear&l=0&h=0"
LONG = "#/attend?m=text&l=0&h=0&x=" + "+".join(["a1+b1+c"] * 13)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    place = tmp_path_factory.mktemp("tools")
    ones, others = ("cats", "birds", "sheep", "foxes", "hens", "bees"), ("dogs", "horses", "owls", "goats", "ants")
    pairs = [f"{one} and {other} sleep .\t{other} und {one} sleep ." for one in ones for other in others]
    (place / "pairs.tsv").write_text("\n".join(pairs) + "\n")
    sizes = {"d_model": 8, "d_ff": 8, "num_heads": 2, "encoder_layers": 2, "decoder_layers": 1}
    recipe = {
        "task": "translate",
        "data": {"train": str(place / "pairs.tsv")},
        "tokenizer": {"kind": "bpe", "vocab_size": 32},
        "model": {"kind": "transformer", **sizes},
        "decoding": {"max_len": 30},
    }
    runs = [small(place / "pieces", recipe), writer_of(place, 128), task_run(place, "speech-classify")]
    with explored_at(runs) as found:
        yield found


def traced(page, site, **asked):
    return page.request.post(f"{site}api/v1/traces", data=asked).json()


def numbers(page, site, told, name, **asked):
    answer = page.request.get(f"{site}api/v1/traces/{told['trace_id']}/{name}", params=asked)
    return np.load(io.BytesIO(answer.body()), allow_pickle=False).astype(float)


def opened(page, site, path, ready=""):
    page.set_default_timeout(10_000)
    page.goto(site + path)
    page.wait_for_selector(f"html[data-ready^='{ready}']" if ready else "html[data-ready]")
    page.wait_for_timeout(100)
    unfold(page)


def hovered(page, shape, q, k):
    """What stands under the pointer in a cell of a map that is seen whole."""
    box = page.locator("canvas.heat").bounding_box()
    place = {"x": (k + 0.5) * box["width"] / shape[1], "y": (q + 0.5) * box["height"] / shape[0]}
    page.locator("canvas.heat").hover(position=place)
    return page.locator(".tip").inner_text()


def cross(page, site):
    """The weights of a head between tokens, and what is known of these."""
    told = traced(page, site, model="pieces", text=TEXT)
    (group,) = (one for one in told["groups"] if one["name"] == "decoder cross")
    weights = numbers(page, site, told, "matrix", layer=group["layers"][0], head=0)
    return weights, told["axes"]["decoder cross"], group


def test_words_hold_the_sum_of_their_keys_and_the_mean_of_their_queries(page, site):
    weights, axes, _ = cross(page, site)
    opened(page, site, MERGED)
    page.get_by_role("button", name="Merge sub-words").click()
    page.wait_for_selector("p.folded:has-text('summed over keys')")
    assert "w=1" in page.url
    # special tokens are words of their own here
    words = [[word if word >= 0 else 900 + at for at, word in enumerate(axes[side]["words"])] for side in axes]
    numbered = [[sorted(set(side), key=side.index).index(word) for word in side] for side in words]
    exact = merge(weights, *numbered)
    assert exact.shape < weights.shape
    for q in range(exact.shape[0]):
        for k in range(exact.shape[1]):
            shown = hovered(page, exact.shape, q, k)
            assert float(shown.split()[-1]) == pytest.approx(exact[q, k], rel=6e-3)
    assert hovered(page, exact.shape, 0, 0).split(" → ")[1].startswith("cats ")
    page.keyboard.press("w")
    page.locator("p.folded:visible").wait_for(state="detached")


def test_special_tokens_are_hidden_and_rows_add_up(page, site):
    weights, axes, group = cross(page, site)
    rows, columns = (np.delete(np.arange(len(group[side])), axes[side]["special"]) for side in ("queries", "keys"))
    left = weights[np.ix_(rows, columns)]
    opened(page, site, MERGED)
    page.keyboard.press("s")
    page.wait_for_selector("p.folded:has-text('of a row is left')")
    assert float(page.locator("p.folded:visible").inner_text().rstrip(".").split()[-1]) == pytest.approx(
        left.sum(1).mean(), rel=6e-3
    )
    assert float(hovered(page, left.shape, 1, 2).split()[-1]) == pytest.approx(left[1, 2], rel=6e-3)
    assert "<eos>" not in page.locator(".frame").inner_text()
    page.keyboard.press("s")
    page.wait_for_selector("p.folded:has-text('scaled to the sum')")
    assert "sp=share" in page.url
    whole = left[1] * weights[1].sum() / left[1].sum()
    assert float(hovered(page, left.shape, 1, 2).split()[-1]) == pytest.approx(whole[2], rel=6e-3)
    for view in ("links", "text"):
        page.keyboard.press("v")
        page.wait_for_selector(f"html[data-ready$='{view}']")
        assert "<eos>" not in page.locator(".panel.wide").inner_text()
    page.keyboard.press("v")
    page.wait_for_selector("html[data-ready$='/table']")
    # the small pictures and the table are of what the map shows
    told = traced(page, site, model="pieces", text=TEXT)
    asked = {"group": "decoder cross", "special": "share", "count": 64}
    assert numbers(page, site, told, "thumbs", **asked).shape[2:] == left.shape
    thumb = page.locator("canvas.thumb").first
    assert thumb.evaluate("one => [one.height, one.width]") == list(left.shape)
    share = left / left.sum(1, keepdims=True)
    entropy = -(share * np.log(share)).sum(1).mean()
    shown = page.locator("table.heads tbody tr").first.locator("td").nth(2).inner_text()
    assert float(shown) == pytest.approx(entropy, abs=6e-3)


def test_a_cell_that_is_locked_stays_locked_in_words(page, site):
    _, _, group = cross(page, site)
    last = len(group["keys"]) - 2
    opened(page, site, f"{MERGED}&q=1&k={last}&w=1")
    page.locator("canvas.heat").focus()
    page.keyboard.press("Home")
    page.wait_for_selector("p.status:has-text('→ cats')")
    assert "k=0" in page.url
    page.keyboard.press("End")
    page.wait_for_selector("p.status:has-text('→ <eos>')")


def test_rollout_is_an_entry_beside_the_heads(page, site):
    told = traced(page, site, model="pieces", text=TEXT)
    exact = numbers(page, site, told, "rollout", group="encoder self")
    opened(page, site, MERGED.replace("decoder+cross", "encoder+self"))
    page.get_by_role("button", name="Rollout").click()
    page.wait_for_selector("html[data-ready='encoder self/rollout/heat']")
    assert "h=-1" in page.url
    # what was followed through the layers is made from no score
    assert page.locator(".facts dt", has_text="score").count() == 0
    assert page.locator(".facts + .note").inner_text().startswith("Entropy: ")
    for q, k in ((0, 0), (2, 3), (exact.shape[0] - 1, 1)):
        assert float(hovered(page, exact.shape, q, k).split()[-1]) == pytest.approx(exact[q, k], rel=6e-3)
    page.keyboard.press(".")
    page.wait_for_selector("html[data-ready='encoder self/0/0/heat']")
    page.keyboard.press(",")
    page.wait_for_selector("html[data-ready='encoder self/rollout/heat']")
    # the one layer that looks at the source is followed by none
    page.keyboard.press("g")
    page.keyboard.press("g")
    page.wait_for_selector("html[data-ready^='decoder cross/']")
    assert page.get_by_role("button", name="Rollout").count() == 0


ZOOM = """async (calls) => { const zoom = await import('/static/js/core/zoom.js');
    return calls.map(([name, ...given]) => zoom[name](...given)); }"""
BOUNDS = {"rows": 100, "columns": 200, "width": 400, "height": 200, "least": 2, "most": 40}


def test_a_window_stays_on_its_matrix(page, site):
    page.goto(site)
    at = {"x": 0, "y": 0, "side": 2}
    calls = [
        ["whole", BOUNDS],
        ["zoomed", at, BOUNDS, 2, {"x": 100, "y": 50}],
        ["zoomed", at, BOUNDS, 100, {"x": 400, "y": 200}],
        ["zoomed", {"x": 50, "y": 20, "side": 4}, BOUNDS, 0.1, {"x": 7, "y": 7}],
        ["moved", {"x": 50, "y": 20, "side": 4}, BOUNDS, 1000, -40],
        ["showing", {"x": 50, "y": 20, "side": 4}, BOUNDS, {"q": 5, "k": 160}],
        ["showing", {"x": 50, "y": 20, "side": 4}, BOUNDS, {"q": 30, "k": -1}],
        ["cellAt", {"x": 50.5, "y": 20, "side": 4}, BOUNDS, {"x": 3, "y": 9}],
        ["cellAt", at, BOUNDS, {"x": -1, "y": 9}],
    ]
    found = page.evaluate(ZOOM, calls)
    # rows are as high as columns are wide, where they need not be higher
    assert all(window.pop("tall", window["side"]) == window["side"] for window in found[:7])
    assert found == [
        at,
        {"x": 25, "y": 12.5, "side": 4},
        {"x": 190, "y": 95, "side": 40},
        at,
        {"x": 100, "y": 10, "side": 4},
        {"x": 61, "y": 5, "side": 4},
        {"x": 50, "y": 20, "side": 4},
        {"q": 22, "k": 51},
        None,
    ]
    pooled = """async () => { const { pooled } = await import('/static/js/core/zoom.js');
        const found = pooled(Int16Array.from([-1, -1, 0, 7, -1, 3, 0, 0, 1, 1, 1, 1]), 3, 4, 2);
        return [[...found.entries], found.rows, found.columns]; }"""
    assert page.evaluate(pooled) == [[3, 7, 1, 1], 2, 2]


@pytest.mark.parametrize(("output", "count"), [(" ben", 3), ("n", 4), ("en", 5), ("", 5), ("to be ben", 1)])
def test_what_goes_on_from_its_input_knows_where_that_ends(page, site, output, count):
    page.goto(site)
    read = """async ([labels, output]) => (await import('/static/js/views/spelled.js')).readOf(labels, output)"""
    assert page.evaluate(read, [["\n", "to", " be", " be", "n"], output]) == count


WIDE = """async ([columns, at, scores]) => { const { mount } = await import('/static/js/views/heat.js');
    const labels = (count) => Array.from({ length: count }, () => 'word');
    const group = { name: 'g', kind: 'cross', layers: ['l'], heads: 1, queries: labels(3), keys: labels(columns) };
    const weights = new Float32Array(3 * columns);
    at.forEach((column) => (weights[columns + column] = scores ? -1 : 1));
    document.querySelectorAll('.trial').forEach((old) => old.remove());
    const place = document.body.appendChild(document.createElement('div'));
    place.className = 'trial';
    place.style.width = '340px';
    mount(place, { weights, group, title: 't', scores, fitsScreen: true });
    await import('/static/js/views/blocks.js');
    for (let frame = 0; frame < 3; frame += 1) await new Promise(requestAnimationFrame);
    const canvas = place.querySelector('canvas.heat');
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', { willReadFrequently: true });
    copy.drawImage(canvas, 0, 0);
    const row = copy.getImageData(0, Math.floor(canvas.height / 2), canvas.width, 1).data;
    const blank = copy.getImageData(0, canvas.height - 4, canvas.width, 1).data;
    const dark = [];
    for (let x = 0; x < canvas.width; x += 1)
      if (Math.abs(row[4 * x] - blank[4 * x]) > 60) dark.push(x / canvas.width);
    return [dark, place.querySelector('.legend.folded').innerText,
      [...place.querySelectorAll('.columns.axis span')].map((one) => one.innerText)]; }"""


@pytest.mark.parametrize(("columns", "scores"), [(200, False), (901, False), (901, True), (2500, False)])
def test_every_column_of_a_wide_map_is_in_the_drawing(page, site, columns, scores):
    page.goto(site)
    page.wait_for_selector("html[data-shell]")
    places = [0, 1, columns // 3, columns // 2, columns - 2, columns - 1]
    for at in places:
        dark, note, _ = page.evaluate(WIDE, [columns, [at], scores])
        # a weight of its own is seen where its column is
        assert dark, at
        assert all(abs(share - at / columns) < 0.02 for share in dark), (at, dark)
        across = re.search(r"largest of 1 × (\d+) weights, of 3 × ", note)
        assert bool(across) == (columns > 340)
    # the positions are written, not some of the words
    _, _, labels = page.evaluate(WIDE, [columns, [columns // 2], scores])
    numbers = [int(label.replace(",", "")) for label in labels if not label.startswith("word")]
    assert len(numbers) >= 5
    assert all(number % 10 == 0 for number in numbers)


FILLED = """async (rows) => { const { mount } = await import('/static/js/views/heat.js');
    const labels = Array.from({ length: rows }, () => 'word');
    const group = { name: 'g', kind: 'self', layers: ['l'], heads: 1, queries: labels, keys: labels, causal: true };
    const weights = Float32Array.from({ length: rows * rows }, (_, at) => at % rows > at / rows ? -Infinity : 1 / rows);
    const place = document.body.appendChild(document.createElement('div'));
    place.style.width = '620px';
    document.querySelector('#app').remove();
    mount(place, { weights, group, title: 't', fitsScreen: true, seam: rows - 1 });
    return [place.querySelector('canvas.heat').clientWidth, place.querySelector('.legend:not(.folded)').innerText]; }"""


def test_a_map_of_some_300_tokens_fills_its_place_and_names_no_line_that_nobody_sees(page, site):
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(site)
    page.wait_for_selector("html[data-shell]")
    wide, legend = page.evaluate(FILLED, 302)
    assert 1.4 * 302 < wide < 2 * 302
    assert "forbidden by the mask" in legend
    assert "written by the model" not in legend


def seen_at(page, x, y):
    """The cell that is told at a place of the map, as labels."""
    page.locator("canvas.heat").hover(position={"x": x, "y": y})
    return page.locator(".tip").inner_text()


def window(page):
    read = "async () => (await import('/static/js/state.js')).span.value"
    return page.evaluate(read)


def test_a_large_map_is_zoomed_by_keys_wheel_and_drag(page, site):
    opened(page, site, LONG)
    canvas = page.locator("canvas.heat")
    size = canvas.bounding_box()["width"]
    labels = page.locator(".columns.axis span")
    assert page.locator("canvas.minimap").count() == 1
    assert size < page.viewport_size["width"]
    first = labels.count()
    page.keyboard.press("+")
    page.keyboard.press("+")
    page.wait_for_timeout(100)
    assert window(page)["times"] == pytest.approx(2.25)
    page.keyboard.press("0")
    assert window(page) == {"x": 0, "y": 0, "times": 1}
    canvas.scroll_into_view_if_needed()
    canvas.hover(position={"x": size / 2, "y": size / 2})
    before = seen_at(page, size / 2, size / 2)
    for _ in range(4):
        page.mouse.wheel(0, -300)
    page.wait_for_timeout(200)
    assert window(page)["times"] > 3
    # what was under the pointer still is, and every label can be read
    assert page.locator(".tip").inner_text() == before
    assert labels.count() < first * 2
    tops = [float(one.evaluate("(node) => node.offsetHeight")) for one in page.locator(".rows.axis span").all()[:3]]
    assert min(tops) >= 12
    was = window(page)
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + size / 2, box["y"] + size / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + size / 2 - 60, box["y"] + size / 2 - 30, steps=3)
    page.mouse.up()
    assert window(page)["x"] > was["x"]
    assert window(page)["y"] > was["y"]
    # a drag locks no cell
    assert "q=" not in page.url
    page.keyboard.press("]")
    page.wait_for_selector("html[data-ready='decoder self/1/0/heat']")
    assert window(page)["times"] > 3


def test_keys_zoom_around_the_chosen_cell(page, site):
    opened(page, site, f"{LONG}&q=60&k=8")
    for _ in range(5):
        page.keyboard.press("+")
    assert page.locator(".rows.axis .on").count() == page.locator(".columns.axis .on").count() == 1
    at, part = window(page), 1 / window(page)["times"]
    size = page.evaluate("import('/static/js/state.js').then((one) => one.trace.value.groups[0].queries.length)")
    assert at["y"] <= 60 <= at["y"] + part * size
    assert at["x"] <= 8 <= at["x"] + part * size


def test_the_small_map_moves_the_window(page, site):
    opened(page, site, LONG)
    for _ in range(4):
        page.keyboard.press("+")
    page.locator("canvas.minimap").click(position={"x": 90, "y": 90})
    end = window(page)
    assert end["x"] > 0
    page.locator("canvas.minimap").click(position={"x": 2, "y": 2})
    assert (window(page)["x"], window(page)["y"]) == (0, 0)
    page.locator("canvas.heat").focus()
    # the cell that keys move to is seen
    page.keyboard.press("End")
    page.wait_for_selector("p.status:has-text('→')")
    page.wait_for_timeout(100)
    assert window(page)["x"] == pytest.approx(end["x"], abs=1e-6)


def test_two_fingers_zoom(browser, site):
    context = browser.new_context(viewport={"width": 390, "height": 900}, has_touch=True)
    touched = context.new_page()
    touched.goto(site + LONG)
    touched.wait_for_selector("html[data-ready]")
    touched.locator("canvas.heat").scroll_into_view_if_needed()
    box = touched.locator("canvas.heat").bounding_box()
    x, y = box["x"] + box["width"] / 2, max(box["y"], 0) + 120
    sent = touched.context.new_cdp_session(touched)

    def fingers(kind, *places):
        points = [{"x": at, "y": y, "id": number} for number, at in enumerate(places)]
        sent.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    fingers("touchStart", x - 20, x + 20)
    for far in range(25, 85, 10):
        fingers("touchMove", x - far, x + far)
    fingers("touchEnd")
    assert window(touched)["times"] > 2
    assert touched.evaluate("visualViewport.scale") == 1
    context.close()


def test_a_saved_page_of_a_recording_has_its_spectrogram(page, site, browser, tmp_path):
    told = traced(page, site, model="speech-classify", example=0)
    saved = page.request.get(f"{site}api/v1/traces/{told['trace_id']}/export?as=html")
    (tmp_path / "page.html").write_bytes(saved.body())
    page.goto(site)
    context = browser.new_context(viewport=page.viewport_size, color_scheme=page.scheme)
    alone = context.new_page()
    alone.goto((tmp_path / "page.html").as_uri() + "#/attend?g=encoder+self")
    alone.wait_for_selector("html[data-ready^='encoder self']")
    alone.wait_for_timeout(100)
    # what the page was given is what the server tells, and both strips are drawn from it
    exact = numbers(page, site, told, "sound")
    script = "() => JSON.parse(document.querySelector('#answers').textContent).sound"
    found = np.load(io.BytesIO(base64.b64decode(alone.evaluate(script))), allow_pickle=False)
    np.testing.assert_array_equal(found, exact)
    strips = alone.locator("canvas.strip-of-sound")
    assert strips.count() == 2
    read = "(one) => Array.from(one.getContext('2d').getImageData(0, 0, one.width, one.height).data)"
    for strip in strips.all():
        colours = np.unique(np.array(strip.evaluate(read)).reshape(-1, 4), axis=0)
        assert len(colours) > 10
    context.close()


def test_a_spectrogram_is_explained_and_its_times_are_read(page, site):
    opened(page, site, "#/attend?m=speech-classify&ex=0", "pooling")
    told = page.locator(".legend", has_text="louder").first.inner_text()
    assert "line: weights of the chosen row; lighter: louder" in told
    strip = page.locator("canvas.strip-of-sound")
    # as on Home, in both themes: what is quiet is nearly black
    darkest = "one => { const { data } = one.getContext('2d').getImageData(0, 0, one.width, one.height);"
    darkest += " return Math.min(...data.filter((_, at) => at % 4 === 1)); }"
    assert strip.evaluate(darkest) < 64
    box = strip.bounding_box()
    strip.hover(position={"x": box["width"] - 2, "y": 5})
    page.locator(".tip:not([hidden])").wait_for()
    strip.click(position={"x": box["width"] - 2, "y": 5})
    page.wait_for_function("() => /[?&]k=\\d/.test(location.hash)")


def test_times_stand_beside_what_was_heard(page, site):
    told = traced(page, site, model="speech-classify", example=0)
    exact = numbers(page, site, told, "sound")
    opened(page, site, "#/attend?m=speech-classify&ex=0&g=encoder+self")
    strips = page.locator("canvas.strip-of-sound")
    assert strips.count() == 2
    boxes = [one.bounding_box() for one in (*strips.all(), page.locator("canvas.heat"))]
    assert boxes[0]["width"] == pytest.approx(boxes[2]["width"], abs=3)
    assert boxes[1]["height"] == pytest.approx(boxes[2]["height"], abs=3)
    read = """(canvas) => { const c = canvas.getContext('2d'), n = [canvas.height, canvas.width];
        return [n, Array.from(c.getImageData(0, 0, n[1], n[0]).data)]; }"""
    (height, width), pixels = strips.first.evaluate(read)
    image = np.array(pixels, dtype=float).reshape(height, width, 4)[..., :3].sum(-1)
    middle = [image[round((band + 0.5) * height / len(exact))] for band in range(len(exact))]
    shade = [[row[round((at + 0.5) * width / exact.shape[1])] for at in range(0, exact.shape[1], 5)] for row in middle]
    # louder is lighter; the weights of the chosen row lie alike over all bands
    shade, heard = (values - values.mean(0) for values in (np.array(shade), exact[:, ::5]))
    assert np.corrcoef(shade.ravel(), heard.ravel())[0, 1] > 0.8
    page.locator(".tab", has_text="attention pooling").click()
    page.wait_for_selector("html[data-ready^='pooling']")
    page.wait_for_timeout(100)
    assert strips.count() == 1


def test_steps_are_supposed_and_go_back(page, site):
    opened(page, site, "#/trace?m=text&x=a1+b1&tr=weights&l=0&h=0", "steps")
    note = page.get_by_text("no longer what the model did")
    assert not note.is_visible()
    weights = page.locator("[role=grid]").last
    before = weights.inner_text()
    page.get_by_label("causal mask").uncheck()
    page.wait_for_selector("html[data-ready$='/false']")
    assert note.is_visible()
    assert weights.inner_text() != before
    page.get_by_label("Temperature").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("[role=tab]:has-text('Temperature')")
    assert re.search(r"te=1\.06&um=causal", page.url)
    page.reload()
    page.wait_for_selector("[role=tab]:has-text('Temperature')")
    unfold(page)
    page.get_by_role("button", name="Back to what the model did").click()
    page.wait_for_selector("html[data-ready$='/0']")
    assert weights.inner_text() == before
    assert not note.is_visible()
    assert "te=" not in page.url
    page.go_back()
    page.wait_for_selector("html[data-ready$='1.06/false']")


def test_every_key_that_is_listed_works_and_letters_can_be_switched_off(page, site):
    opened(page, site, MERGED)
    page.keyboard.press("?")
    dialog = page.locator("dialog.help")
    dialog.wait_for()
    listed = dialog.locator("kbd").all_inner_texts()
    assert {"g", "v", "n", "w", "s", "+ - 0", "[ ]", ", .", "/", "?", "Esc", "Home End"} <= set(listed)
    page.keyboard.press("v")
    dialog.get_by_role("checkbox").uncheck()
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")
    for key in "gvnws.]":
        page.keyboard.press(key)
    page.wait_for_timeout(100)
    assert page.url.endswith("sc=linear")
    page.locator("header").get_by_role("button", name="Keys").click()
    dialog.get_by_role("checkbox").check()
    page.get_by_role("button", name="Close").click()
    page.keyboard.press("g")
    page.wait_for_selector("html[data-ready^='encoder self']")
    page.keyboard.press("n")
    assert "sc=log" in page.url


@pytest.mark.parametrize("path", [f"{MERGED}&w=1&sp=hide", LONG, "#/trace?m=text&x=a1+b1&te=2&um=causal"])
def test_the_tools_are_open_to_all(page, site, browser, path):
    from axe_playwright_python.sync_playwright import Axe

    context = browser.new_context(viewport=page.viewport_size, color_scheme=page.scheme, bypass_csp=True)
    opened_too = context.new_page()
    opened_too.goto(site + path)
    opened_too.wait_for_selector("html[data-ready]")
    opened_too.wait_for_timeout(300)
    found = Axe().run(opened_too).response["violations"]
    opened_too.keyboard.press("?")
    found += Axe().run(opened_too).response["violations"]
    context.close()
    assert [f"{one['id']}: {one['nodes'][0]['html'][:150]}" for one in found] == []


def test_similar_heads_of_a_recording_ask_for_no_texts(page, site):
    opened(page, site, "#/attend?m=speech-classify&ex=0&g=encoder+self&v=needs")
    page.wait_for_selector("canvas.heat")
    assert "where inputs are typed" in page.locator("main").inner_text()
    assert page.locator("textarea").count() == 0
    assert page.get_by_role("button", name="Mute each head").count() == 0

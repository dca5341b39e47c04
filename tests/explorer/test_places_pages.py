"""The pages Positions and Vision in a browser: what is shown is what the server told, nothing from elsewhere."""

import io
import math
import re

import numpy as np
import pytest
from browsing import IN_BROWSER, explored_at, numbers, opened
from serving_runs import task_run

from headwise import positions
from headwise.tasks.images.picture_files import encode

pytestmark = IN_BROWSER
VIT = "image-classify-patches"
# its first picture; without a number the page opens on one that it gets right
VISION = f"#/vision?m={VIT}&ex=0"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    place = tmp_path_factory.mktemp("places")
    runs = []
    for name in ("image-classify, patches", "caption", "node-classify", "graph-regress", "image-segment, patches"):
        (place / name).mkdir()
        runs.append(str(task_run(place / name, name)))
    with explored_at(runs) as found:
        yield found


def unfolded(page):
    """What says how a picture is shown, which is folded on a narrow screen."""
    page.locator("details.how").evaluate("one => one.open = true")
    return page.locator("details.how")


def choice(page, name):
    return unfolded(page).get_by_label(name)


def place_of(box, row, column):
    """The middle of a place of a grid of 2 x 2."""
    return {"x": (column + 0.5) * box["width"] / 2, "y": (row + 0.5) * box["height"] / 2}


def test_a_picture_opens_on_the_head_that_looks_at_fewest_places(page, site):
    opened(page, site, VISION, "vision/")
    _, _, _, head, query = page.get_attribute("html", "data-ready").rsplit("/", 4)
    rows = numbers(page, site, VIT, "row", {"group": "encoder self", "q": int(query)}, example=0)[0, :, 1:]
    shares = rows / rows.sum(1, keepdims=True)
    entropies = np.where(rows.sum(1) > 0.5, -(shares * np.log(shares)).sum(1), np.inf)
    assert int(head) == entropies.argmin()
    assert page.locator("button.cell.chosen").count() == 1
    first, *_ = page.locator(".seen .ticks").first.inner_text().split()
    assert first == "0"


def test_it_opens_on_a_picture_that_the_model_gets_right(page, site):
    listed = page.request.get(f"{site}api/v1/examples", params={"model": VIT}).json()
    opened(page, site, f"#/vision?m={VIT}", "vision/")
    assert page.locator("#examples").input_value() == str(listed["opens"])
    traces = (
        page.request.post(f"{site}api/v1/traces", data={"model": VIT, "example": number}).json()
        for number in range(len(listed["examples"]))
    )
    right = (number for number, trace in enumerate(traces) if trace["output"].split()[0] == trace["label"])
    assert listed["opens"] == next(right, 0)


def test_a_click_on_a_patch_makes_it_the_query(page, site):
    opened(page, site, f"{VISION}&ea=mean", "vision/")
    canvas = page.locator(".seen canvas.over").first
    canvas.click(position=place_of(canvas.bounding_box(), 1, 0))
    page.wait_for_selector("html[data-ready$='/3']")
    assert re.search("q=3", page.url)
    exact = numbers(page, site, VIT, "row", {"group": "encoder self", "q": 3}, example=0)
    for row in range(2):
        for column in range(2):
            canvas.hover(position=place_of(canvas.bounding_box(), row, column))
            place, share, key = page.locator(".read .say strong").all_inner_texts()
            assert (place, key) == ("row 2, column 1", f"row {row + 1}, column {column + 1}")
            mean = exact[0, :, 1 + 2 * row + column].mean()
            assert float(share.removesuffix(" %")) == pytest.approx(100 * mean, abs=0.051)
    # the first button is the mean of the heads, the others are these
    page.locator("button.cell").nth(2).click()
    page.wait_for_selector("html[data-ready$='/0/1/3']")
    page.reload()
    page.wait_for_selector("html[data-ready$='/0/1/3']")


def test_rows_and_columns_of_a_picture_are_numbered_at_its_edges(page, site):
    opened(page, site, f"{VISION}&q=3", "vision/")
    above, beside = (page.locator(".wide .numerals").nth(at) for at in range(2))
    assert [edge.locator("span").all_inner_texts() for edge in (above, beside)] == [["1", "2"]] * 2
    canvas = page.locator(".seen canvas.over").first
    for row in range(2):
        for column in range(2):
            canvas.hover(position=place_of(canvas.bounding_box(), row, column))
            marked = [edge.locator(".on").all_inner_texts() for edge in (beside, above)]
            assert marked == [[str(row + 1)], [str(column + 1)]]
    # the number is over the middle of its column
    box, label = canvas.bounding_box(), above.locator("span").nth(1).bounding_box()
    assert label["x"] + label["width"] / 2 == pytest.approx(box["x"] + 0.75 * box["width"], abs=2)
    # a panel is as wide as it is, whatever its canvas was measured to be before it was seen
    canvas.evaluate("canvas => (canvas.width = canvas.height = 1)")
    assert canvas.bounding_box() == pytest.approx(box)
    # the list of examples is the only way to choose one
    assert not page.locator("#input").is_visible()


def test_the_arrows_move_the_place_that_was_clicked(page, site):
    opened(page, site, VISION, "vision/")
    canvas = page.locator(".seen canvas.over").first
    canvas.click(position=place_of(canvas.bounding_box(), 0, 0))
    for key, q in (("ArrowRight", 2), ("ArrowDown", 4), ("ArrowLeft", 3), ("ArrowUp", 1)):
        page.keyboard.press(key)
        page.wait_for_selector(f"html[data-ready$='/{q}']")


def test_where_nothing_glows_the_image_is_seen(page, site):
    opened(page, site, VISION, "vision/")
    read = """(canvas) => { const copy = document.createElement('canvas');
        const c = copy.getContext('2d', { willReadFrequently: true });
        c.drawImage(canvas, canvas.width / 4 - 3, canvas.height / 4 - 3, 1, 1, 0, 0, 1, 1);
        return Array.from(c.getImageData(0, 0, 1, 1).data).slice(0, 3); }"""
    canvas = page.locator(".seen canvas.over").first
    image = numbers(page, site, VIT, "image", {}, example=0)
    choice(page, "Grid").click()
    glowing = canvas.evaluate(read)
    choice(page, "Overlay").click()
    assert canvas.evaluate(read) == [image[1, 1, 0]] * 3
    choice(page, "Overlay").click()
    assert canvas.evaluate(read) == glowing != [image[1, 1, 0]] * 3
    hide = unfolded(page).get_by_role("button", name="Hold to hide")
    hide.dispatch_event("pointerdown")
    assert canvas.evaluate(read) == [image[1, 1, 0]] * 3
    hide.dispatch_event("pointerup")
    assert canvas.evaluate(read) == glowing


def test_a_picture_of_ones_own_is_looked_at(page, site, tmp_path):
    opened(page, site, VISION, "vision/")
    before = page.locator(".seen canvas.over").first.get_attribute("aria-label")
    picture = tmp_path / "own.png"
    picture.write_bytes(encode(np.random.default_rng(0).integers(0, 256, (9, 9, 3), dtype=np.uint8)))
    page.set_input_files("#file", picture)
    page.wait_for_selector("#examples")
    page.locator(f".seen canvas.over:not([aria-label={before!r}])").first.wait_for()
    assert page.locator("#examples").input_value() == ""


def test_true_labels_stand_beside_the_predicted_ones(page, site):
    run = "image-segment-patches"
    opened(page, site, f"#/vision?m={run}&ex=0", "vision/")
    page.wait_for_selector(".labelled figure")
    said, true = numbers(page, site, run, "labels", {}, example=0)
    assert page.locator(".labelled figcaption").all_inner_texts() == ["predicted", "true"]
    counts = true != 255
    right = f"{100 * (said == true)[counts].mean():.1f} % ({(said == true)[counts].sum()} / {counts.sum()})"
    told = page.locator(".labelled + .legend")
    assert told.inner_text() == f"pixels that are right: {right}"
    body = {"model": run, "example": 0}
    classes = page.request.post(f"{site}api/v1/traces", data=body).json()["places"]["classes"]
    read = "(one) => Array.from(one.getContext('2d').getImageData(0, 0, one.width, one.height).data)"
    for canvas, labels in zip(page.locator(".labelled canvas").all(), (said, true), strict=True):
        image = np.array(canvas.evaluate(read)).reshape(*labels.shape, 4)
        for label, (_, colour) in enumerate(classes):
            seen = image[labels == label, :3]
            assert (seen == [int(colour[at : at + 2], 16) for at in (1, 3, 5)]).all()
        assert (image[labels == 255, 3] == 0).all()
    canvas = page.locator(".labelled canvas").first
    canvas.scroll_into_view_if_needed()
    canvas.hover(position={"x": 2, "y": 2})
    name = classes[int(said[0, 0])][0]
    assert told.inner_text().startswith(f"row 1, column 1: predicted {name}, true ")


def test_words_are_queries_of_a_caption(page, site):
    opened(page, site, "#/vision?m=caption&ea=mean", "vision/decoder cross/")
    word = page.locator("button.token").nth(1)
    word.click()
    page.wait_for_selector("html[data-ready='vision/decoder cross/0/-1/0']")
    assert page.locator("button.token.chosen").inner_text() == word.inner_text()


ORANGE = """(canvas, [row, column, rows, columns]) => {
    const x = Math.round(((column + 0.5) * canvas.width) / columns), y = Math.round((row * canvas.height) / rows);
    const c = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    c.drawImage(canvas, x, Math.max(0, y - 1), 1, 3, 0, 0, 1, 3);
    const { data } = c.getImageData(0, 0, 1, 3);
    return [0, 4, 8].some((at) => data[at] > data[at + 2] + 60); }"""


def test_a_patch_of_a_caption_is_chosen_and_read(page, site):
    opened(page, site, "#/vision?m=caption&ex=0&ea=mean", "vision/decoder cross/")
    told = page.request.post(f"{site}api/v1/traces", data={"model": "caption", "example": 0}).json()
    rows, columns = told["axes"]["decoder cross"]["keys"]["grid"]
    shown = page.locator("html").get_attribute("data-ready")
    exact = numbers(page, site, "caption", "row", {"group": "decoder cross", "q": int(shown.split("/")[-1])}, example=0)
    canvas = page.locator(".seen canvas.over").first

    def read(row, column):
        page.wait_for_selector(f".read .say strong:has-text('row {row + 1}, column {column + 1}')")
        share = page.locator(".read .say strong").nth(1).inner_text().removesuffix(" %")
        mean = 100 * exact[0, :, columns * row + column].mean()
        assert float(share.removeprefix("<")) == pytest.approx(mean, abs=0.11)
        assert canvas.evaluate(ORANGE, [row, column, rows, columns])
        assert f"k={columns * row + column}" in page.url.split("&")
        assert re.search(r"[?&]q=\d", page.url)

    for row, column in ((1, 0), (0, 1)):
        box = canvas.bounding_box()
        spot = {"x": (column + 0.5) * box["width"] / columns, "y": (row + 0.5) * box["height"] / rows}
        canvas.click(position=spot)
        page.mouse.move(0, 0)
        read(row, column)
    canvas.focus()
    page.keyboard.press("ArrowDown")
    read(1, 1)
    page.reload()
    page.wait_for_selector(f"html[data-ready='{shown}']")
    read(1, 1)


def test_a_caption_that_is_not_that_of_the_data_is_marked_and_not_cut(page, site):
    page.set_viewport_size({"width": 390, "height": 844})
    opened(page, site, "#/vision?m=caption&ex=0", "vision/decoder cross/")
    label = page.locator(".answer-line .errs")
    assert label.inner_text().startswith("✗")
    long = "one => { one.textContent = 'a red triangle '.repeat(9); return one.scrollWidth <= one.clientWidth; }"
    assert label.locator("bdi").evaluate(long)


@pytest.mark.parametrize("by", ["norms", "rollout", "integrated"])
def test_what_counts_by_a_method_stands_over_the_picture(page, site, by):
    opened(page, site, f"{VISION}&ea=mean", "vision/")
    unfolded(page).get_by_label("What counts, by").select_option(by)
    page.wait_for_selector(f"html[data-ready^='vision/encoder self/{by}/']")
    told = page.request.post(f"{site}api/v1/traces", data={"model": VIT, "example": 0}).json()
    at = f"{site}api/v1/traces/{told['trace_id']}/attribution"
    method = page.request.get(at, params={"by": by}).json()
    shown = method["maps"][-1]
    answer = page.request.get(f"{at}/map", params={"by": by, "layer": shown["name"]})
    (row,) = np.load(io.BytesIO(answer.body()), allow_pickle=False).astype(float)
    text = page.locator("dl.method").inner_text()
    assert all(method[part] in text for part in ("source", "limit"))
    assert page.locator(".seen .colours .heading").first.inner_text() == shown["quantity"]
    canvas = page.locator(".seen canvas.over").first
    for place in range(4):
        canvas.hover(position=place_of(canvas.bounding_box(), *divmod(place, 2)))
        value = page.locator(".read .say strong").last.inner_text().replace("−", "-")
        exact = row[len(row) - 4 + place]
        if shown["signed"]:
            assert float(value) == pytest.approx(exact, rel=6e-3, abs=1e-6)
        else:
            assert float(value.removesuffix(" %")) == pytest.approx(100 * exact, abs=0.051)
    unfolded(page).get_by_label("What counts, by").select_option("")
    page.wait_for_selector("html[data-ready$='/-1/0']")


def test_the_heads_of_a_picture_stand_left_of_it(page, site):
    page.set_viewport_size({"width": 1280, "height": 800})
    opened(page, site, VISION, "vision/")
    heads, picture, read = (
        page.locator(f".attend > {name}").bounding_box() for name in (":first-child", ".wide", ".read")
    )
    assert heads["x"] < picture["x"] < read["x"]
    assert heads["width"] < picture["width"] > read["width"]


def test_positions_stand_side_by_side_and_sliders_are_in_the_address(page, site):
    opened(page, site, "#/positions", "positions/")
    page.locator("canvas.cellwise").nth(1).wait_for()
    page.locator("#slide-count").fill("16")
    page.wait_for_selector("html[data-ready$='/16x32'], html[data-ready$='/16x16']")
    assert "n=16" in page.url
    page.locator("section.half select").first.select_option("alibi")
    page.wait_for_selector("html[data-ready='positions/alibi/16x16']")
    half = page.locator("section.half").first
    half.locator("canvas.cellwise").hover(position={"x": 2, "y": 2})
    assert half.locator("p.legend").inner_text() == "query at 0, key at 0: 0"
    # the slope of the first of eight heads is 1/2
    assert half.locator(".say").inner_text() == (
        "Far keys lose: −0.5 for neighbours, −7.5 at a distance of 15. Only the distance counts."
    )
    assert half.locator(".marks.down").inner_text().split() == ["0", "4", "8", "12"]
    page.reload()
    page.wait_for_selector("html[data-ready^='positions/']")
    assert page.locator("section.half select").first.input_value() == "alibi"
    page.locator("section.half select").first.select_option("none")
    page.locator("section.half p.note", has_text="nothing to draw").wait_for()


def test_cells_and_hands_of_positions_say_their_angle_and_period(page, site):
    opened(page, site, "#/positions?pa=rotary&pb=learned&n=16&d=8&ba=10000", "positions/")
    half = page.locator("section.half").first
    canvas = half.locator("canvas.cellwise")
    # position 8 of the second pair turns by 8 / 10000^(2/8) = 0.8 rad, once in 2 pi / 0.1 positions
    box = canvas.bounding_box()
    canvas.hover(position={"x": 2.5 * box["width"] / 8, "y": 8.5 * box["height"] / 16})
    assert half.locator("p.legend").inner_text() == "position 8, pair 1: angle 0.8 rad, period 62.8 positions"
    cosines = [sum(math.cos(k / 10**j) for j in range(4)) / 4 for k in range(16)]
    near, far = cosines[1], sum(cosines[8:]) / 8
    assert half.locator(".say").inner_text().startswith(f"Neighbours are alike ({near:.2f}), ")
    assert f"less ({far:.2f}). Only the distance counts." in half.locator(".say").inner_text()
    assert "position 8" in half.locator("canvas.dials").get_attribute("aria-label")
    page.locator("#slide-spot").fill("3")
    assert "position 3" in half.locator("canvas.dials").get_attribute("aria-label")
    assert page.locator("section.half").nth(1).locator(".say").inner_text().endswith("More than the distance counts.")


def test_every_scheme_of_the_library_has_its_chinese_words(page, site):
    opened(page, site, "#/positions?lang=zh&pa=none", "positions/")
    script = page.evaluate("performance.getEntriesByType('resource').map((e) => e.name)")
    address = next(name for name in script if name.endswith("words/positions.js"))
    words = page.evaluate("(address) => import(address).then((found) => found.SCHEMES)", address)
    assert set(positions.names()) <= set(words)
    for kind, (name, *sentences) in words.items():
        assert name[1], kind
        assert all(re.search("[\u4e00-\u9fff]{4}", chinese) for _, chinese in sentences), kind
    half = page.locator("section.half").first
    for kind in positions.names():
        half.locator("select").select_option(kind)
        half.locator(".about", has_text=words[kind][1][1]).wait_for()
        assert not re.search("[A-Za-z]{3,} [a-z]{3,}", half.locator(".about p:not(.note, .formula)").inner_text())


def test_pages_of_other_runs_say_which_run_to_choose(page, site):
    opened(page, site, f"#/graph?m={VIT}", "none")
    page.locator("main button.choose", has_text="graph-regress").click()
    page.locator("button.node").first.wait_for()
    assert "m=graph-regress" in page.url


def test_the_pages_speak_chinese(page, site):
    opened(page, site, f"{VISION}&lang=zh", "vision/")
    assert page.get_by_label("叠加").count() == 1
    opened(page, site, "#/positions?lang=zh", "positions/")
    assert page.locator("h1").inner_text() == "模型如何得知词元的位置"


def test_a_caption_opens_on_a_word_that_says_what_is_seen(page, site):
    opened(page, site, "#/vision?m=caption", "vision/decoder cross/")
    told = page.request.post(f"{site}api/v1/traces", data={"model": "caption", "example": 0}).json()
    words = next(group["queries"] for group in told["groups"] if group["kind"] == "cross")
    telling = next((at for at, word in enumerate(words) if len(word.strip()) > 2), 0)
    page.wait_for_selector(f"html[data-ready$='/{telling}']")
    page.get_by_role("button", name="mean of all queries").click()
    page.wait_for_selector("html[data-ready$='/-1']")


def test_a_molecule_of_a_card_breaks_between_its_atoms(page, site):
    opened(page, site, "#/?m=graph-regress", "home/")
    page.locator("a.example canvas").first.wait_for()
    parts = "(all) => all.flatMap((one) => [...one.childNodes].map((part) => part.textContent).filter(Boolean))"
    atoms = page.locator(".smiles").evaluate_all(parts)
    assert atoms
    # an atom with the bond and brackets before it, the numbers and brackets after it
    assert all(re.fullmatch(r"[-=#(/\\]*(\[[^\]]*\]|Cl|Br|.)[\d%)]*", atom) for atom in atoms)
    assert "".join(atoms).count("Cl") == sum("Cl" in atom for atom in atoms)
    # what the sentence names is written in the picture, in the colour of marks
    mark = """(one) => {
        const hex = getComputedStyle(one).getPropertyValue('--mark').match(/\\w\\w/g);
        const [red, green, blue] = hex.map((part) => parseInt(part, 16));
        const { data } = one.getContext('2d').getImageData(0, 0, one.width, one.height);
        let seen = 0;
        for (let at = 0; at < data.length; at += 4)
            seen += data[at] === red && data[at + 1] === green && data[at + 2] === blue;
        return seen; }"""
    page.locator("a.example .story bdi").first.wait_for()
    assert page.locator("a.example canvas").first.evaluate(mark) > 20


@pytest.mark.parametrize("run", [VIT, "caption", "node-classify", "graph-regress"])
def test_the_cards_of_home_say_where_the_model_looks(page, site, run):
    opened(page, site, f"#/?m={run}", "home/")
    card = page.locator("a.example").first
    card.locator("canvas").wait_for()
    card.locator(".story bdi, .story:has-text('looks most at')").first.wait_for()
    assert page.locator(".examples .failed").count() == 0
    story = card.locator(".story").inner_text()
    share = re.search(r"([\d.]+)\s%", story)[1]
    card.click()
    page.wait_for_selector("html[data-ready^='vision/'], html[data-ready^='graph/']")
    # the page opens on what the card tells
    assert f"{share} %" in page.locator(".say").first.inner_text()


def test_a_tap_on_a_map_of_positions_stays_and_no_tick_is_rounding(browser, site):
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
    page = context.new_page()
    opened(page, site, "#/positions", "positions/")
    half = page.locator("section.half").first
    line = half.locator("p.legend[aria-live]").first
    resting = line.inner_text()
    half.locator("canvas.cellwise").first.tap(position={"x": 4, "y": 4})
    page.wait_for_timeout(100)
    assert line.inner_text() != resting
    assert "0" in line.inner_text()
    steps = """async () => { const { ticks } = await import(`${location.origin}/static/js/core/chart.js`);
        return ticks({ low: -0.42, high: 1.04, name: "" }, 8); }"""
    assert 0 in page.evaluate(steps)
    context.close()


def test_a_line_of_the_patches_frames_its_patch(page, site):
    opened(page, site, VISION, "vision/")
    # the last one of those that are places
    line = page.locator(".read .shares > div", has_text=",").last
    name = line.locator("bdi").inner_text()
    line.hover()
    page.wait_for_function(
        """(name) => { const [row, column] = name.split(", ");
        return document.querySelector(".seen .patch").textContent.startsWith(`row ${row}, column ${column}`); }""",
        arg=name,
    )


def test_a_map_of_patches_has_the_picture_and_counts_from_one(page, site):
    opened(page, site, f"#/attend?m={VIT}&ex=0&q=1&k=4", "encoder self")
    picture = page.locator("canvas.patched")
    picture.wait_for()
    beside = page.locator(".patches")
    assert "2,2 (framed): row 2, column 2 of the picture's 2 × 2 patches" in beside.inner_text()
    picture.click(position=place_of(picture.bounding_box(), 0, 1))
    page.wait_for_function("() => location.hash.includes('k=2')")
    assert "1,2 (framed): row 1, column 2" in beside.inner_text()
    assert page.locator(".read .say").inner_text().endswith("from 1,2.")
    beside.get_by_role("link").click()
    page.wait_for_selector("html[data-ready^='vision/']")

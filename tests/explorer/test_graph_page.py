"""The page Graph in a browser: what is shown is what the server told, and it stays where it is."""

import re
from urllib.parse import quote

import numpy as np
import pytest
from browsing import IN_BROWSER, explored_at, numbers, opened
from serving_runs import task_run

pytestmark = IN_BROWSER


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    place = tmp_path_factory.mktemp("graphs")
    with explored_at([task_run(place, name) for name in ("node-classify", "graph-regress")]) as address:
        yield address


def test_nodes_show_what_they_attend_to(page, site):
    opened(page, site, "#/graph?m=node-classify&hp=2&l=0&h=0", "graph/")
    names = page.locator("button.node").evaluate_all("all => all.map((one) => one.getAttribute('aria-label'))")
    assert len(names) == 9
    asked = {"group": "mixers self", "hops": 2}
    exact = numbers(page, site, "node-classify", "edges", asked, example=0)
    number = 1
    page.locator("button.node").nth(number).click()
    assert re.search(f"q={number}", page.url)
    told = page.request.post(f"{site}api/v1/traces", data={"model": "node-classify", "example": 0}).json()
    drawn = page.request.get(f"{site}api/v1/traces/{told['trace_id']}/graph", params=asked).json()
    mine = sorted((exact[0, 0, at] for at, (q, _) in enumerate(drawn["pairs"]) if q == number), reverse=True)
    bars = page.locator(".graph .shares > div")
    cells = [text.removesuffix(" %") for text in bars.locator("> :last-child").all_inner_texts()]
    np.testing.assert_allclose([float(cell) for cell in cells], 100 * np.array(mine), atol=0.051)
    # the widest line of the head, and its widest ring, are as the legend says, whichever node is looked at
    pairs = list(zip(exact[0, 0], drawn["pairs"], strict=True))
    for name, width in (
        (".width", max(weight for weight, (q, k) in pairs if q != k)),
        (".ring", max(weight for weight, (q, k) in pairs if q == k)),
    ):
        assert float(page.locator(f".kind:has({name})").last.inner_text()) == pytest.approx(width, rel=6e-3)
    page.get_by_label("Self-loops").click()
    assert bars.count() == len(mine) - 1
    # all nodes are one stop of the tabulator; an arrow looks at the next one
    assert page.locator("button.node[tabindex='0']").count() == 1
    page.locator("button.node[tabindex='0']").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator(".graph .say").inner_text().startswith(f"{names[number + 1].split()[0]} takes ")
    page.locator("button.node").nth(number).focus()
    # above the bars, of which a panel has no room for many
    centre = page.get_by_role("button", name="Centre here")
    assert centre.bounding_box()["y"] < page.locator(".graph .shares").bounding_box()["y"]
    centre.click()
    page.locator("button.node.middle[aria-label^='" + names[number].split()[0] + " ']").wait_for()


def test_a_row_with_neighbours_that_are_not_drawn_is_the_whole(page, site):
    opened(page, site, "#/graph?m=node-classify&hp=1&l=0&h=0", "graph/")
    nodes = page.locator("button.node")
    left = []
    for number in range(nodes.count()):
        nodes.nth(number).click()
        bars = page.locator(".graph .shares > div > :last-child").all_inner_texts()
        note = page.locator(".graph .read .legend", has_text="not drawn")
        left += re.findall(
            r"and ([\d.]+) % from neighbours that are not drawn \(\d+\)", "".join(note.all_inner_texts())
        )
        rest = float(left[-1]) if note.count() else 0
        assert sum(float(bar.removesuffix(" %")) for bar in bars) + rest == pytest.approx(100, abs=0.5)
    assert left
    page.get_by_label("neighbours up to").select_option(index=1)
    page.wait_for_selector("html[data-ready$='/2']")
    assert page.locator(".graph .read .legend", has_text="not drawn").count() == 0


def test_of_a_muted_head_nothing_comes_from_what_is_not_drawn(page, site):
    told = page.request.post(f"{site}api/v1/traces", data={"model": "node-classify", "example": 0}).json()
    layer = next(group for group in told["groups"] if group["name"] == "mixers self")["layers"][0]
    notes = page.locator(".graph .read .legend", has_text="not drawn")
    for edit, count in (("", 1), (f"&e=mute~{layer}~0", 0)):
        page.goto("about:blank")
        opened(page, site, f"#/graph?m=node-classify&hp=1&l=0&h=0{edit}", "graph/")
        seen = set()
        for node in page.locator("button.node").all():
            node.click()
            seen.add(notes.count())
        assert max(seen) == count


def test_an_atom_that_is_tapped_is_said_at_the_foot(browser, site):
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
    page = context.new_page()
    opened(page, site, f"#/graph?m=graph-regress&x={quote(RING)}", "graph/")
    assert page.locator(".status").inner_text() == ""
    page.locator("button.node").nth(8).tap()
    page.wait_for_function("document.querySelector('.status').textContent.startsWith('O9 takes ')")
    foot = page.locator(".status").bounding_box()
    assert foot["y"] + foot["height"] <= 844
    page.locator("button.node").nth(8).tap()
    page.wait_for_function(
        "document.querySelector('.status').textContent === document.querySelector('.say').textContent"
    )
    context.close()


def test_keys_go_to_the_first_and_the_last_atom(page, site):
    opened(page, site, "#/graph?m=graph-regress&x=C%3DCON", "graph/")
    before = page.locator(".graph .read").inner_text()
    page.locator("button.node").nth(1).focus()
    assert page.locator(".graph .read").inner_text() == before
    for key, name in (("End", "N4"), ("ArrowRight", "C1"), ("ArrowLeft", "N4"), ("Home", "C1")):
        page.keyboard.press(key)
        assert page.evaluate("document.activeElement.title").startswith(name)


def test_molecules_are_drawn_with_their_atoms(page, site):
    opened(page, site, "#/graph?m=graph-regress&x=C%3DCO", "graph/")
    assert page.locator("button.node").all_inner_texts() == ["C", "C", "O"]
    names = "all => all.map((one) => one.title)"
    assert page.locator("button.node").evaluate_all(names) == ["C1 (C)", "C2 (C)", "O3 (O)"]
    page.fill("#input", "CCN")
    page.press("#input", "Enter")
    page.locator("button.node", has_text="N").wait_for()


def centres(page):
    boxes = [one.bounding_box() for one in page.locator("button.node").all()]
    return np.array([[box["x"] + box["width"] / 2, box["y"] + box["height"] / 2] for box in boxes])


def test_heads_stand_where_all_nodes_spread_almost_evenly(page, site):
    """Bars of nodes would all be full: a line for each head that lacks something of the entropy of equal weights."""
    opened(page, site, "#/graph?m=graph-regress&x=CC(C)CO", "graph/")
    page.locator(".spread .shares").wait_for()
    told = page.request.post(f"{site}api/v1/traces", data={"model": "graph-regress", "text": "CC(C)CO"}).json()
    asked = {"group": told["groups"][0]["name"], "hops": 1, "most": 120}
    drawn = page.request.get(f"{site}api/v1/traces/{told['trace_id']}/graph", params=asked).json()
    even = np.log([node["heard"] for node in drawn["nodes"]])
    spread = numbers(page, site, "graph-regress", "spread", asked, text="CC(C)CO")
    lacking = 100 * (1 - spread / even).mean(-1)
    lines = [re.findall(r"[\d.]+", text) for text in page.locator(".spread .shares > div").all_inner_texts()]
    shown = {(int(layer) - 1, int(head) - 1): float(percent) for layer, head, percent in lines}
    assert {place for place in np.ndindex(lacking.shape) if lacking[place] >= 0.06} <= set(shown)
    for place, percent in shown.items():
        assert percent == pytest.approx(lacking[place], abs=0.1)
    shares = (spread / even)[tuple(told["groups"][0]["opens"])]
    # which atoms choose is said beside the drawing
    said = page.locator(".spread > p").first.inner_text()
    assert said.startswith(f"On average {100 * shares.mean():.1f} % of the entropy of equal weights")


@pytest.mark.parametrize("width", [1440, 390])
def test_a_molecule_has_bonds_of_one_length_and_all_of_its_rows(page, site, width):
    page.set_viewport_size({"width": width, "height": 900})
    opened(page, site, "#/graph?m=graph-regress&x=CC(C)Cc1ccc(cc1)C(C)C(=O)O", "graph/")
    spots = centres(page)
    bonds = [(0, 1), (1, 2), (1, 3), (3, 4), (4, 5), (4, 9), (7, 10), (12, 13), (12, 14)]
    lengths = np.linalg.norm(spots[[one for one, _ in bonds]] - spots[[two for _, two in bonds]], axis=1)
    np.testing.assert_allclose(lengths, lengths[0], rtol=0.02)
    assert lengths[0] > 40
    field = page.locator(".field").bounding_box()
    assert field["x"] < spots[:, 0].min()
    assert spots[:, 0].max() < field["x"] + field["width"]
    assert field["y"] < spots[:, 1].min()
    assert spots[:, 1].max() < field["y"] + field["height"]
    # no row of the map is cut: cells are as high as they are wide
    box = page.locator("canvas.heat").bounding_box()
    assert box["height"] == pytest.approx(box["width"], abs=1)


CHAIN, RING = "CCCCCCCCCCCCCC", "CCCCC1(CC)C(=O)NC(=O)NC1=O"


def at_rest(page):
    """Where all nodes and the end of the page are, once a frame for some frames."""
    return page.evaluate(
        """async () => {
            const seen = [];
            for (let frame = 0; frame < 4; frame += 1) {
              await new Promise(requestAnimationFrame);
              const boxes = [...document.querySelectorAll("button.node")].map((node) => node.getBoundingClientRect());
              const map = document.querySelector("canvas.heat").getBoundingClientRect();
              seen.push([...boxes.flatMap(({ x, y }) => [x, y]), map.y, document.documentElement.scrollHeight]);
            }
            return seen;
        }"""
    )


@pytest.mark.parametrize("text", [CHAIN, RING, "Cc1ccc(C)cc1"])
def test_nothing_moves_while_a_pointer_or_a_key_looks_at_an_atom(page, site, text):
    """A page that was as high as its words moved the atom away from the pointer, without end, and lost clicks."""
    page.set_viewport_size({"width": 1440, "height": 900})
    opened(page, site, f"#/graph?m=graph-regress&x={quote(text)}", "graph/")
    for late in ("canvas.heat", ".spread .shares"):
        page.locator(late).wait_for()
    (before, *_) = at_rest(page)
    atoms = page.locator("button.node")
    for number in range(atoms.count()):
        box = atoms.nth(number).bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        assert at_rest(page) == [before] * 4
        page.mouse.down()
        assert at_rest(page) == [before] * 4
        page.mouse.up()
        assert at_rest(page) == [before] * 4
        assert re.search(rf"[?&]q={number}(&|$)", page.url)
    read = page.locator(".read")
    assert read.evaluate("panel => panel.scrollHeight <= panel.clientHeight")
    page.mouse.move(5, 5)
    atoms.first.focus()
    for key in ("ArrowRight", "ArrowDown", "Enter", "ArrowRight", "Escape"):
        page.keyboard.press(key)
        assert at_rest(page) == [before] * 4
        assert page.locator(".field").evaluate("field => field.scrollTop") == 0


def test_the_map_keeps_its_place_on_a_narrow_screen(page, site):
    page.set_viewport_size({"width": 390, "height": 844})
    opened(page, site, f"#/graph?m=graph-regress&x={quote(RING)}", "graph/")
    for late in ("canvas.heat", ".spread .shares"):
        page.locator(late).wait_for()
    (before, *_) = at_rest(page)
    for number in range(3):
        page.evaluate("number => document.querySelectorAll('button.node')[number].click()", number)
        # the line at the foot, which comes with the first one, makes the page longer
        assert [places[:-1] for places in at_rest(page)] == [before[:-1]] * 4


def test_what_is_said_is_of_the_chosen_pair(page, site):
    opened(page, site, f"#/graph?m=graph-regress&x={quote(RING)}", "graph/")
    map_of_pairs, say = page.locator("canvas.heat"), page.locator(".graph .say")
    box = map_of_pairs.bounding_box()

    def cell(q, k):
        return {"x": (k + 0.5) * box["width"] / 15, "y": (q + 0.5) * box["height"] / 15}

    map_of_pairs.click(position=cell(6, 9))
    assert say.inner_text() == "C7 takes nothing from N10: there is no bond between them."
    assert "no bond" in page.locator(".status").inner_text()
    map_of_pairs.click(position=cell(7, 9))
    page.mouse.move(5, 5)
    assert re.fullmatch(r"C8 takes [\d.]+ % of its values from N10\.", say.inner_text())
    assert page.locator(".graph .shares .on").inner_text().startswith("N10")
    # keys go from pair to pair, as in the map of Attend
    map_of_pairs.focus()
    page.keyboard.press("ArrowLeft")
    assert re.fullmatch(r"C8 takes [\d.]+ % of its values from O9\.", say.inner_text())
    page.keyboard.press("ArrowUp")
    assert say.inner_text() == "C7 takes nothing from O9: there is no bond between them."
    page.keyboard.press("End")
    assert say.inner_text() == "C7 takes nothing from O15: there is no bond between them."
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")
    assert re.fullmatch(r"C1 takes [\d.]+ % of its values from itself\.", say.inner_text())
    # a row of the list is a pair that can be chosen, by keys too
    page.keyboard.press("Escape")
    first = page.locator(".graph .shares button").first
    query, key = first.inner_text().split(" → ")
    first.focus()
    page.keyboard.press("Enter")
    assert re.fullmatch(rf"{query} takes [\d.]+ % of its values from {key}\.", say.inner_text())
    assert page.locator(".graph .shares .on button").evaluate("row => row === document.activeElement")


def test_a_key_without_a_query_is_no_pair(page, site):
    """The words named an arbitrary pair that ends there, and those of one atom did not come at all."""
    opened(page, site, "#/graph?m=graph-regress&x=C&k=0", "graph/")
    assert page.locator(".graph .read p").first.inner_text() == "It attends to no other node."
    texts = []
    for rest in ("&k=3", ""):
        page.goto("about:blank")
        opened(page, site, f"#/graph?m=graph-regress&x={quote(RING)}{rest}", "graph/")
        texts.append(page.locator(".graph .say").inner_text())
    assert texts[0] == texts[1]


def test_self_loops_are_hidden_not_forbidden(page, site):
    opened(page, site, f"#/graph?m=graph-regress&x={quote(RING)}", "graph/")
    legend = page.locator(".panels div.legend", has=page.locator(".ramp"))
    legend.wait_for()
    assert legend.inner_text().endswith("▨ no bond")
    page.get_by_label("Self-loops").click()
    page.locator("canvas.heat").wait_for()
    assert legend.inner_text().endswith("▨ no bond · □ hidden self-loop")
    assert "entropies still count them" in page.locator("main .tabs .box").inner_text()
    box = page.locator("canvas.heat").bounding_box()
    page.locator("canvas.heat").click(position={"x": box["width"] / 30, "y": box["height"] / 30})
    assert page.locator(".status").inner_text() == "C1 → C1 hidden self-loop"
    assert page.locator(".graph .say").inner_text() == "What C1 takes from itself is hidden."
    opened(page, site, "#/graph?m=node-classify&hp=2&l=0&h=0", "graph/")
    page.locator(".panels div.legend", has_text="▨ no edge").first.wait_for()


@pytest.mark.parametrize("text", [CHAIN, RING])
def test_numbers_of_a_molecule_lie_on_no_ring_and_on_no_other(page, site, text):
    page.add_init_script(
        """const write = CanvasRenderingContext2D.prototype.fillText;
        CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
          if (this.canvas.className === "edges") (this.canvas.texts ||= []).push([text, x, y]);
          write.call(this, text, x, y);
        };"""
    )
    page.set_viewport_size({"width": 390, "height": 844})
    opened(page, site, f"#/graph?m=graph-regress&x={quote(text)}", "graph/")
    # what was written at once, from the number of the first atom on
    texts = page.locator("canvas.edges").evaluate(
        "({ texts }) => texts.slice(texts.findLastIndex(([text]) => text === '1'))"
    )
    field = page.locator(".field").bounding_box()
    spots = centres(page) - np.array([field["x"] + 1, field["y"] + 1])
    sizes = page.locator("button.node").evaluate_all(
        """all => all.map((one) => {
          const ring = getComputedStyle(one).boxShadow.match(/(\\d+)px$/);
          return one.offsetWidth / 2 + Number(ring ? ring[1] : 0);
        })"""
    )
    assert len(texts) > len(spots)
    for number, (text, x, y) in enumerate(texts):
        half = 3.5 * len(text)
        far = np.hypot(np.maximum(0, abs(spots[:, 0] - x) - half), np.maximum(0, abs(spots[:, 1] - y) - 5))
        assert (far >= np.array(sizes) - 1).all(), text
        assert half < x < field["width"] - half
        for other, left, top in texts[number + 1 :]:
            assert abs(left - x) >= half + 3.5 * len(other) or abs(top - y) >= 11, (text, other)
        if "." not in text:
            assert np.argmin(np.hypot(*(spots - [x, y]).T)) == int(text) - 1


def test_layers_are_one_choice_in_whatever_group_they_are(page, site):
    opened(page, site, "#/graph?m=graph-regress&x=C%3DCO", "graph/")
    told = page.request.post(f"{site}api/v1/traces", data={"model": "graph-regress", "text": "C=CO"}).json()
    between = [one for one in told["groups"] if len(one["queries"]) == 3]
    heads, layers = between[0]["heads"], [layer for one in between for layer in one["layers"]]
    bar = page.locator("main .tabs:has(select)").last
    assert bar.locator("button").count() == 0
    for name, count in (("layer", len(layers)), ("head", heads)):
        choice = bar.get_by_label(name, exact=True)
        # what leaves no choice is not shown
        assert choice.count() == (count > 1)
        if count > 1:
            assert choice.locator("option").all_inner_texts() == [str(at + 1) for at in range(count)]


def test_the_page_begins_with_a_molecule_that_has_a_ring(page, site):
    listed = page.request.get(f"{site}api/v1/examples?model=graph-regress").json()["examples"]
    opened(page, site, "#/graph?m=graph-regress", "graph/")
    ring = [
        at
        for at, one in enumerate(listed)
        if re.search(r"\d", one["title"]) and re.search("[NOSonsF]|Cl", one["title"])
    ]
    assert page.locator("#examples").input_value() == str((ring or [0])[0])


def test_a_class_that_is_almost_sure_is_one_too(page, site):
    opened(page, site, "#/graph?m=node-classify&hp=1", "graph/")
    words = "(answer) => import('/static/js/views/answer.js').then(({ said }) => said(answer))"
    assert page.evaluate(words, "2 (>0.99)").replace("\u00a0", " ") == "class 2, probability >99 %"
    # a class that has a name is called by it, as a node is
    assert page.evaluate(words, "Theory (0.91)").replace("\u00a0", " ") == "Theory, probability 91 %"


def test_a_class_and_its_probability_are_told_apart(page, site):
    opened(page, site, "#/graph?m=node-classify&x=n2", "graph/")
    told = page.request.post(f"{site}api/v1/traces", data={"model": "node-classify", "text": "n2"}).json()
    name, share = re.fullmatch(r"(.+) \((.+)\)", told["output"]).groups()
    answer = page.locator("main .answer").inner_text().replace("\xa0", " ")
    assert f"{name}, probability {100 * float(share):.0f} %" in answer
    # a node that is typed has the label that it has among the examples
    label = page.locator("main .answer-line .label").inner_text()
    if told["label"] == name:
        assert label == "✓ as in the data"
    else:
        assert re.match(rf"✗\s+label in the data:\s*{told['label']}\b", label)
    opened(page, site, "#/graph?m=node-classify&x=n2&lang=zh", "graph/")
    assert re.search(r"共 24 个节点，画出 \d+ 个。", page.locator("main").inner_text())
    assert re.match(r"n2 有 [\d.]+ % 的值取自 ", page.locator(".graph .say").inner_text())


def test_a_map_of_a_molecule_says_what_its_names_are_and_leads_to_its_drawing(page, site):
    page.set_viewport_size({"width": 390, "height": 844})
    opened(page, site, "#/attend?m=graph-regress&x=CC(C)CO", "encoder")
    assert page.locator(".answer-line a:has-text('See the molecule')").is_visible()
    assert page.locator(".read .note:has-text('C2: carbon, the second atom of the formula')").is_visible()


def test_a_graph_too_large_to_trace_has_a_way_to_its_node_and_the_worked_example(browser, site):
    page = browser.new_page(locale="en-GB")
    detail = "mixers.0 has 2,708 x 2,708 pairs, too many to be shown at once; look at a node on the page Graph"
    page.route("**/steps?*", lambda route: route.fulfill(status=422, json={"detail": detail}))
    opened(page, site, "#/trace?m=node-classify&ex=0", "steps/textbook")
    note = page.locator("p.flag").first
    assert "too many pairs to trace at once" in note.inner_text()
    # nothing stands there that would do nothing
    assert page.get_by_text("Type an input above").count() == page.get_by_role("button", name="This run").count() == 0
    note.get_by_role("link", name="Graph").click()
    page.wait_for_selector("html[data-ready^='graph/']")
    opened(page, site, "#/trace?m=node-classify&lang=zh", "steps/textbook")
    assert page.locator("p.flag").first.get_by_role("link").get_attribute("href").startswith("#/graph?m=node-classify")
    page.context.close()

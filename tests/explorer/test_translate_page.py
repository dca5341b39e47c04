"""The page that shows an output as it is written, in a browser: step by step, beam by beam, forced, stopped."""

import base64
import json
import random
import re

import numpy as np
import pytest
from browsing import IN_BROWSER, explored_at
from serving_runs import TEXT, folder_of, writer_of

pytestmark = IN_BROWSER
AT = "#/translate?m=run&x=a+and+g+."


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    place = tmp_path_factory.mktemp("shown")
    with explored_at([folder_of(place), writer_of(place)]) as found:
        yield found


@pytest.fixture(scope="module")
def lines(site, browser):
    """What the server tells of the text, and of the language model."""
    context = browser.new_context()
    asked = {"run": {"text": TEXT}, "text": {"text": "a1", "beam": 3}}
    found = {}
    for model, body in asked.items():
        told = context.request.post(f"{site}api/v1/generate", data={"model": model, "top_k": 10, **body}).text()
        found[model] = [json.loads(line) for line in told.splitlines()]
    context.close()
    return found


def opened(page, site, path):
    page.emulate_media(reduced_motion="reduce")
    page.goto(site + path)
    page.wait_for_selector("html[data-ready^=written]")


def rows(page):
    """The tokens of the rows; one that returns has its position behind it."""
    labels = page.locator(".writes .rows span").all_inner_texts()
    tokens = [re.sub(r" \(\d+\)$", "", label) for label in labels]
    again = [f"{token} ({at + 1})" if tokens.count(token) > 1 else token for at, token in enumerate(tokens)]
    assert labels == again
    return tokens


def written(page):
    return page.locator(".strip .tokens").nth(1).locator(".token:not(.later)").all_inner_texts()


def path_of(lines, number):
    """The beams from the first token to this one."""
    beams = {beam["id"]: beam for line in lines if "step" in line for beam in line["step"]["beams"]}
    found = []
    while number:
        found.insert(0, beams[number])
        number = beams[number]["parent"]
    return found


def exact(lines, number):
    """Where each token of a path looks: of each step (layers, heads, keys)."""
    found = []
    for line, beam in zip(lines[1:-1], path_of(lines, number), strict=False):
        told = line["step"]["cross"]
        weights = np.frombuffer(base64.b64decode(told["b64"]), told["dtype"]).reshape(told["shape"])
        place = [one["id"] for one in line["step"]["topk"]].index(beam["parent"])
        found.append(weights[place].astype(float))
    return found


def test_the_matrix_grows_a_row_a_token(page, site, lines):
    best = [beam["text"] for beam in path_of(lines["run"], lines["run"][-1]["end"]["hypotheses"][0]["id"])]
    opened(page, site, f"{AT}&t=0")
    assert rows(page) == written(page) == best[:1]
    page.keyboard.press("ArrowRight")
    assert rows(page) == written(page) == best[:2]
    assert "t=1" in page.url
    page.reload()
    page.wait_for_selector("html[data-ready^=written]")
    assert rows(page) == best[:2]
    page.keyboard.press("End")
    assert rows(page) == best
    assert "t=" not in page.url
    page.locator(".scrub").fill("2")
    assert rows(page) == best[:3]
    page.locator(".strip .tokens").nth(1).locator(".token").first.click()
    assert rows(page) == best[:1]


@pytest.mark.parametrize(
    ("model", "asked"), [("run", ""), ("run", "&tl=-1&th=-1"), ("run", "&tl=0&th=1"), ("text", "&tl=1&th=0")]
)
def test_numbers_are_those_of_the_server(page, site, lines, model, asked):
    text = {"run": "a+and+g+.", "text": "a1&b=3"}[model]
    opened(page, site, f"#/translate?m={model}&x={text}{asked}")
    weights = exact(lines[model], lines[model][-1]["end"]["hypotheses"][0]["id"])
    # it opens at the step that looks at most words; the last has every row
    page.keyboard.press("End")
    canvas = page.locator("canvas.heat")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    columns = weights[-1].shape[-1]
    for q in (0, len(weights) - 1):
        if "-" in asked:
            wanted = weights[q].mean((0, 1))
        else:
            layer, head = map(int, re.findall(r"\d", asked)) if asked else lines[model][-1]["end"]["opens"]
            wanted = weights[q][layer, head]
        for k in (0, len(wanted) - 1):
            place = {"x": (k + 0.5) * box["width"] / columns, "y": (q + 0.5) * box["height"] / len(weights)}
            canvas.hover(position=place)
            shown = page.locator(".tip").inner_text()
            assert float(shown.split()[-1].lstrip("<")) == pytest.approx(wanted[k], rel=6e-3, abs=1e-5)
    if model == "text":
        # what was not there yet
        canvas.hover(position={"x": box["width"] - 2, "y": 2})
        assert "forbidden" in page.locator(".tip").inner_text()


def test_the_sentence_follows_the_cell_that_is_chosen(page, site):
    opened(page, site, AT)
    page.keyboard.press("End")
    page.locator("canvas.heat").click(position={"x": 3, "y": 3})
    tokens, read = written(page), page.locator(".strip .token").first.inner_text()
    assert page.locator(".say strong").all_inner_texts()[::2] == [tokens[0], read]
    assert page.locator(".rows .on").inner_text().removesuffix(" (1)") == tokens[0]
    # nothing lies over the tree
    assert page.locator("p.status.unseen").count() == 1
    # steps go on from the row that is told of
    page.keyboard.press("ArrowRight")
    assert page.locator(".say strong").first.inner_text().strip("“”") == tokens[1]
    assert page.locator(".count").inner_text().split()[1] == "2"
    assert "&q=" not in page.url


def test_a_beam_shows_its_own_hypothesis(page, site, lines):
    opened(page, site, AT)
    ended = [beam for line in lines["run"][1:-1] for beam in line["step"]["beams"] if beam["done"]]
    best = lines["run"][-1]["end"]["hypotheses"][0]["id"]
    other = next(beam for beam in ended if beam["id"] != best)
    page.keyboard.press("End")
    page.locator(f".leaf[data-id='{other['id']}']").click()
    assert rows(page) == [beam["text"] for beam in path_of(lines["run"], other["id"])]
    assert f"nd={other['id']}" in page.url
    # the steps are those of what is shown
    assert str(len(rows(page))) in page.locator(".count").inner_text().split()
    chosen = page.locator(".leaf.chosen").evaluate_all("(all) => all.map((one) => Number(one.dataset.id))")
    assert set(chosen) == {beam["id"] for beam in path_of(lines["run"], other["id"])}
    page.keyboard.press("Escape")
    assert rows(page) == [beam["text"] for beam in path_of(lines["run"], best)]
    page.go_back()
    assert f"nd={other['id']}" in page.url
    back = page.get_by_role("button", name="the best hypothesis")
    back.wait_for()
    # nothing leads to the best from a leaf of it
    first = path_of(lines["run"], best)[0]["id"]
    page.locator(f".leaf[data-id='{first}']").click()
    back.wait_for(state="hidden")
    assert f"nd={first}" in page.url


def test_another_token_is_forced_and_released(page, site):
    opened(page, site, f"{AT}&t=1")
    first = written(page)[0]
    button = page.locator(".likely:not([disabled])").first
    name, token = button.locator(".name").inner_text(), button.get_attribute("data-token")
    button.click()
    page.wait_for_selector("html[data-ready^=written]")
    # the next step is a click away, and what follows is pale
    assert written(page) == [first, name]
    assert page.locator(".token.forced").count() == 2
    assert page.locator(".token.later").count() > 0
    forced = page.url.split("f=")[1].split("&")[0].replace("%2C", ",").split(",")
    assert forced[1] == token
    body = {"model": "run", "text": TEXT, "force": [int(one) for one in forced]}
    told = page.request.post(f"{site}api/v1/generate", data=body).text().splitlines()
    answer = json.loads(told[-1])["end"]["output"]
    # the page says nothing twice
    assert page.locator("p.status").inner_text() == ""
    page.keyboard.press("End")
    assert "".join(written(page)).removesuffix("<eos>") == answer.replace(" ", "")
    page.locator(".release").click()
    page.wait_for_selector("html[data-ready^=written]")
    assert "f=" not in page.url
    assert page.locator(".token.forced").count() == 0
    page.go_back()
    page.wait_for_selector(".token.forced")


def test_it_plays_by_itself_unless_nothing_may_move(page, site):
    held = []
    page.route("**/api/v1/generate", lambda route: held.append(route))
    page.clock.install()
    page.goto(site + AT)
    page.wait_for_selector(".play[aria-label=Pause]")
    # however long the first token takes
    page.clock.run_for(2000)
    assert page.locator(".play").get_attribute("aria-label") == "Pause"
    held[0].continue_()
    page.unroute("**/api/v1/generate")
    ended = ".player:has(.count:text-is('step 9 of 9')) .play[aria-label=Play]"
    page.wait_for_selector(ended)
    page.keyboard.press("Home")
    page.keyboard.press(" ")
    page.keyboard.press(" ")
    page.wait_for_selector(".play[aria-label=Play]")
    assert not page.locator(ended).count()
    page.keyboard.press(" ")
    page.wait_for_selector(ended)
    opened(page, site, f"{AT}&b=2")
    assert page.locator(".play").get_attribute("aria-label") == "Play"
    assert len(written(page)) > 1


ANEW = """async () => { const [{ player }, { signal }] =
    await Promise.all(['views/player.js', 'store.js'].map((name) => import(`/static/js/${name}`)));
    const [count, open] = [signal(3), signal(null)];
    window.it = { count, open, self: player(signal(-1), count, open) };
    // while a step is shown all is asked for once more
    it.self.play(1); open.value = {}; count.value = 0; }"""


def test_playing_waits_for_what_is_asked_anew(page, site):
    page.clock.install()
    page.goto(site)
    page.evaluate(ANEW)
    page.clock.run_for(2000)
    assert page.evaluate("it.self.playing()")
    page.evaluate("it.open.value = null, it.count.value = 3")
    page.clock.run_for(500)
    assert page.evaluate("[it.self.playing(), it.self.step()]") == [True, 2]


def test_the_sentence_quotes_a_mark_and_says_which_of_several_it_means(page, site):
    opened(page, site, AT)
    page.keyboard.press("End")
    for _ in written(page):
        token = written(page)[-1]
        name = token if token.strip(".,") else f"“{token}”"
        assert page.locator(".say strong").first.inner_text() == name
        page.keyboard.press("ArrowLeft")
    opened(page, site, "#/translate?m=text&x=a1&b=1")
    told = page.locator(".say strong").last.inner_text()
    keys = page.locator(".strip .token").all_inner_texts()
    plain = re.sub(r"[“”]| \(\d+\)$", "", told)
    assert keys.count(plain) > 0
    assert bool(re.search(r"\(\d+\)$", told)) == (keys.count(plain) > 1)


def test_stop_ends_the_request(page, site):
    failed = []
    page.on("requestfailed", lambda one: failed.append(one.url))
    page.route("**/api/v1/generate", lambda route: None)
    page.goto(site + AT)
    page.locator(".stop").click()
    page.wait_for_selector("html[data-ready='written/0/cut']")
    assert page.locator("p.status").inner_text() == "stopped"
    assert [url.rpartition("/")[2] for url in failed] == ["generate"]
    page.unroute("**/api/v1/generate")
    page.locator(".again").click()
    page.wait_for_selector("html[data-ready='written/9/end']")


def test_the_keyboard_is_enough(page, site):
    page.emulate_media(reduced_motion="reduce")
    page.goto(f"{site}#/translate?m=text&b=3&tl=-1&th=-1")
    page.wait_for_selector("html[data-shell]")
    page.keyboard.press("/")
    page.keyboard.type("a1")
    page.keyboard.press("Enter")
    page.wait_for_selector("html[data-ready^=written]")
    page.evaluate("document.activeElement.blur()")
    for keys, told in (
        ("]", "tl=0"),
        ("]", "tl=1"),
        (".", "th=0"),
        ("[", "tl=0"),
        ("Home", "t=0"),
        ("ArrowRight", "t=1"),
    ):
        page.keyboard.press(keys)
        assert told in page.url
    page.locator(".leaf:visible").last.focus()
    page.keyboard.press("Enter")
    assert "nd=" in page.url
    page.locator(".likely:not([disabled])").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".token.forced")
    assert "f=" in page.url


def test_another_text_is_not_forced(page, site):
    opened(page, site, f"{AT}&f=5")
    assert page.locator(".token.forced").count() == 1
    page.fill("#input", "b and h .")
    page.press("#input", "Enter")
    page.wait_for_selector("html[data-ready^=written]")
    assert "x=b" in page.url
    assert "f=" not in page.url
    assert page.locator(".token.forced").count() == 0


def test_without_an_input_cards_are_written_on_this_page(page, site):
    page.emulate_media(reduced_motion="reduce")
    page.goto(f"{site}#/translate?m=run&b=2")
    page.wait_for_selector("html[data-ready=begin]")
    # nothing speaks of what is not there
    assert page.locator(".player:visible, .tree:visible, .options:visible, .panel:visible").count() == 0
    assert page.locator("p:visible:has-text('an input')").count() == 1
    card = page.locator("a.example").first
    title = card.locator("bdi").first.inner_text()
    card.locator("canvas").wait_for()
    card.click()
    page.wait_for_selector("html[data-ready^=written]")
    assert "#/translate?" in page.url
    assert "b=2" in page.url
    assert page.input_value("#input") == title.replace("\u00a0", " ")
    assert page.locator("a.example").count() == 0
    assert written(page)
    # one step back are the cards again
    page.go_back()
    page.locator("a.example").first.wait_for()
    assert not page.locator(".player").is_visible()


def test_what_cannot_be_written_is_told(page, site):
    page.emulate_media(reduced_motion="reduce")
    page.goto(f"{site}{AT}&f=99999")
    page.wait_for_selector("html[data-ready='written/0/cut']")
    assert "outside the vocabulary" in page.locator("p.status").inner_text()
    # neither likely tokens nor a tree of nothing
    assert page.locator(".count").inner_text() == ""
    assert page.locator(".writes .panel:visible").count() == 1
    # a refused request is told by the browser too
    assert [message for message in page.told if "422" not in message] == []
    page.told.clear()
    page.fill("#input", "<img src=x onerror=window.hurt=1> <b>g</b> ." + 400 * "é")
    page.press("#input", "Enter")
    page.wait_for_selector("html[data-ready$=end]")
    assert page.evaluate("window.hurt") is None
    assert page.locator("main img, main b").count() == 0


@pytest.mark.parametrize("asked", ["", "&t=3", "&b=8", "&lang=zh"])
def test_it_is_no_wider_than_the_screen(page, site, asked):
    opened(page, site, AT + asked)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    small = "(all) => all.filter((one) => one.offsetParent && Math.min(one.offsetWidth, one.offsetHeight) < 24).length"
    assert page.locator("main button, main select").evaluate_all(small) == 0
    title = page.locator(".writes h2").first.inner_text()
    assert title == ("对齐" if "zh" in asked else "Alignment")


TREE = """async ([beams, best]) => { const { layout } = await import('/static/js/core/tree.js');
    const { places, heirs, lanes, steps } = layout(beams, best);
    return { places: [...places].map(([id, at]) => [id, at.x, at.y]), heirs: [...heirs], lanes, steps }; }"""


def tree(beams, best):
    return [{"id": i, "parent": parent, "t": t, "score": score, "done": False} for i, parent, t, score in beams], best


def test_a_tree_in_lanes(page, site):
    page.goto(site)
    beams = [(1, 0, 0, -1), (2, 0, 0, -2), (3, 2, 1, -1), (4, 1, 1, -2), (5, 3, 2, -1), (6, 3, 2, -3), (7, 1, 1, -9)]
    found = page.evaluate(TREE, tree(beams, 5))
    # the best line is on top; 1 and 4 go below it, 6 below its parent, 7 where it fits
    assert found["places"] == [[2, 0, 0], [3, 1, 0], [5, 2, 0], [1, 0, 1], [4, 1, 1], [6, 2, 1], [7, 1, 2]]
    assert (found["lanes"], found["steps"]) == (3, 3)
    assert page.evaluate(TREE, tree([], 0)) == {"places": [], "heirs": [], "lanes": 0, "steps": 0}


def test_no_beams_of_a_tree_share_a_place(page, site):
    page.goto(site)
    drawn = random.Random(3)
    for _ in range(5):
        beams, alive = [], [0]
        for t in range(30):
            born = [(len(beams) + n + 1, drawn.choice(alive), t, drawn.uniform(-3, 0)) for n in range(5)]
            beams += born
            alive = [one[0] for one in born]
        best = alive[2]
        found = page.evaluate(TREE, tree(beams, best))
        places = {number: (x, y) for number, x, y in found["places"]}
        assert len(set(places.values())) == len(beams)
        parents = {number: parent for number, parent, _, _ in beams}
        assert all(places[number][0] == t for number, _, t, _ in beams)
        while best:
            assert places[best][1] == 0
            best = parents[best]
        # an heir stays in the lane of its parent
        assert all(places[child][1] == places[parent][1] for parent, child in found["heirs"] if parent)
        assert found["lanes"] <= 15


def test_a_search_is_known_as_far_as_it_is_told(page, site, lines):
    page.goto(site)
    read = """async (lines) => { const core = await import('/static/js/core/search.js');
        const search = core.begun(), told = [];
        for (const line of lines) { core.take(search, line); told.push(core.best(search)); }
        const path = core.pathTo(search, core.best(search));
        const { weights, queries, keys } = core.alignment(search, path, 1, 0);
        const likely = core.likelyAt(search, path[1]);
        return { told, weights: [...weights].map((one) => one === -Infinity ? null : one), queries, keys, likely }; }"""
    found = page.evaluate(read, lines["text"])
    best = lines["text"][-1]["end"]["hypotheses"][0]["id"]
    nodes = path_of(lines["text"], best)
    assert found["told"][0] == 0
    assert found["told"][-1] == best
    assert found["queries"] == [one["text"] for one in nodes]
    assert found["keys"] == [*lines["text"][0]["start"]["axes"]["src"], *found["queries"][:-1]]
    assert found["likely"] == next(
        one["tokens"] for one in lines["text"][2]["step"]["topk"] if one["id"] == nodes[1]["parent"]
    )
    table = np.array(found["weights"], dtype=float).reshape(len(nodes), len(found["keys"]))
    for row, weights in zip(table, exact(lines["text"], best), strict=True):
        keys = weights.shape[-1]
        np.testing.assert_allclose(row[:keys], weights[1, 0])
        assert np.isnan(row[keys:]).all()


def test_arrows_choose_a_row_of_which_all_is_told_and_scroll_elsewhere(page, site):
    opened(page, site, AT)
    page.locator("canvas.heat").focus()
    rows = []
    for key in ("ArrowUp", "ArrowDown"):
        page.keyboard.press(key)
        page.locator(".say strong").first.wait_for()
        rows.append(page.evaluate("import('/static/js/state.js').then((one) => one.query.value)"))
        assert page.evaluate("document.activeElement.className") == "heat"
        # what is written and what was likely there are those of the row
        chips = page.locator(".latest .token").evaluate_all("(all) => all.map((one) => one.className)")
        assert [at for at, name in enumerate(chips) if "chosen" in name] == rows[-1:]
        assert page.locator(".likely.chosen").inner_text().startswith(page.locator(".latest .chosen").inner_text())
    assert rows == [0, 1]
    page.locator("canvas.heat").blur()
    page.keyboard.press("ArrowUp")
    assert page.evaluate("import('/static/js/state.js').then((one) => one.query.value)") == rows[1]

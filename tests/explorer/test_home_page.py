"""Home: inputs that open on the cell they show, what "it" looks at, the last inputs, and Home without a run."""

import io
import re

import numpy as np
import pytest
from browsing import IN_BROWSER, explored_at
from serving_runs import TEXT, filler_of, folder_of, small

from headwise.explorer.cards import SENTENCES

pytestmark = IN_BROWSER


def speaker_of(place):
    """A language model that knows the letters of the sentences, and so their words."""
    (place / "sentences.txt").write_text("\n".join([*SENTENCES, "it was too wide"] * 9) + "\n")
    recipe = {
        "task": "language-model",
        "length": 80,
        "data": {"train": str(place / "sentences.txt")},
        "tokenizer": {"kind": "char"},
        "model": {"kind": "decoder", "d_model": 8, "d_ff": 8, "num_heads": 2, "num_layers": 2},
        "decoding": {"method": "greedy", "max_len": 2},
    }
    return small(place / "speaker", recipe)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    place = tmp_path_factory.mktemp("home")
    with explored_at([folder_of(place), filler_of(place), speaker_of(place)]) as address:
        yield address


def opened(page, address, ready="home"):
    page.set_default_timeout(15_000)
    page.goto(address)
    page.wait_for_selector(f"html[data-ready^='{ready}']")


def test_an_example_opens_on_the_cell_that_its_card_names(page, site):
    opened(page, f"{site}#/?m=run")
    card = page.locator("a.example").first
    card.locator("canvas").wait_for()
    story = re.fullmatch(
        r"“(.+)” takes (\S+ %) from “(.+)”", card.locator(".story").inner_text().replace("\u00a0", " ")
    )
    card.click()
    page.wait_for_selector("html[data-ready^='decoder cross']")
    strong = page.locator("p.say strong").all_inner_texts()
    # the sentence numbers what is written twice
    assert [re.sub(r" \(\d+\)$", "", words) for words in strong] == [story[1], story[2], story[3]]
    # it is what was looked at last, in this browser
    page.goto(f"{site}#/?m=run")
    page.wait_for_selector("html[data-ready^='home']")
    assert page.locator("ul.last a").count() == 1
    page.get_by_role("button", name="Forget them").click()
    assert page.locator("ul.last a").count() == 0
    assert page.evaluate("localStorage.getItem('headwise.inputs')") == "[]"


def test_the_shares_of_it_are_those_of_the_weights(page, site):
    opened(page, f"{site}#/?m=speaker")
    row = page.locator("ul.pronouns > li").first
    row.locator(".shares").wait_for()
    told = page.request.post(f"{site}api/v1/traces", data={"model": "speaker", "text": SENTENCES[0]}).json()
    (group,) = told["groups"]
    labels = "".join(label if len(label) == 1 else "~" for label in group["queries"])
    it = labels.index(" it ") + 1
    path = f"{site}api/v1/traces/{told['trace_id']}/row"
    answer = page.request.get(path, params={"group": group["name"], "q": it + 1})
    weights = np.load(io.BytesIO(answer.body())).astype(float)
    for place, word in enumerate(("animal", "street")):
        at = labels.index(word)
        share = weights[..., at : at + len(word)].sum(-1).mean()
        shown = row.locator(".shares div").nth(place).locator("span").last.inner_text()
        assert float(shown.removesuffix(" %")) == pytest.approx(100 * share, abs=0.06)
    row.locator("a").click()
    page.wait_for_selector("html[data-ready^='decoder self']")
    assert f"q={it + 1}&" in page.url


def test_a_run_that_does_not_know_the_words_says_so(page, site):
    body = {"model": "run", "text": "a red apple", "options": {"edits": []}}
    page.route("**/api/v1/traces", lambda route: route.continue_(post_data=body))
    opened(page, f"{site}#/?m=run")
    # once for all sentences, without a list of links
    note = page.locator(".pronouns + .note", has_text="does not know")
    note.wait_for()
    assert note.inner_text().count("“animal”") == 1
    assert "“milk”" in note.inner_text()
    assert not page.locator(".pronouns").is_visible()


def test_runs_are_one_stop_of_the_tabulator_which_keeps_the_focus(page, site):
    opened(page, f"{site}#/?m=run", "home/run")
    assert page.locator(".note.reading").inner_text().startswith("Each picture is a map of one head")
    runs = page.locator(".runs button")
    assert runs.count() == 3
    page.focus("button.main")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "run"
    page.keyboard.press("ArrowLeft")
    chosen = page.evaluate("document.activeElement.textContent")
    assert chosen == runs.last.inner_text()
    page.keyboard.press("Enter")
    page.wait_for_selector(f"html[data-ready='home/{chosen}']")
    page.wait_for_function(f"document.activeElement.textContent === '{chosen}'")
    assert page.locator(".runs button[tabindex='0']").all_inner_texts() == [chosen]
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className.split(' ')[0]") == "example"


def test_the_keyboard_comes_to_the_map_in_five_presses(page, site):
    opened(page, f"{site}#/attend?m=run&x={TEXT.replace(' ', '+')}", "decoder cross")
    page.locator("canvas.thumb").first.wait_for()
    page.locator(".finder button").first.wait_for()
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.className") == "heat"
    page.focus("#input")
    stops = []
    for _ in range(5):
        page.keyboard.press("Tab")
        stops.append(page.evaluate("document.activeElement.className"))
    assert "heat" in stops


def test_without_a_run_home_shows_what_needs_none(page, site):
    page.route("**/api/v1/meta", lambda route: route.fulfill(json={"models": [], "limits": {}}))
    opened(page, f"{site}#/")
    assert [link.get_attribute("href") for link in page.locator("a.example").all()] == [
        "#/trace",
        "#/positions",
        "#/compare",
    ]
    assert "headwise demo translate" in page.locator(".demos").inner_text()
    assert not page.locator("form").is_visible()


@pytest.mark.parametrize(
    ("refusal", "english", "chinese"),
    [
        (
            "there is no example 999; the last is 41",
            "There is no example 999: they are numbered 0 to 41.",
            "没有示例 999：编号为 0 至 41。",
        ),
        (
            "unknown node 'z'; known: 0, 1, 10, 100 and 2,628 more",
            "There is no node “z” in this graph. Type the name of a node, such as 0, 1 or 10.",
            "图中没有节点“z”。请输入节点名称，例如 0、1 或 10。",
        ),
        ("nothing known", "This failed: nothing known", "服务器拒绝了请求，它的说明是英文：nothing known"),
    ],
)
def test_refusals_say_what_to_do_in_both_languages(page, site, refusal, english, chinese):
    opened(page, f"{site}#/")
    worded = (
        "([text, chinese]) => import('/static/js/words/refusals.js').then((words) => words.worded(text, chinese)[0])"
    )
    assert page.evaluate(worded, [refusal, False]) == english
    assert page.evaluate(worded, [refusal, True]) == chinese

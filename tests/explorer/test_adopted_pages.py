"""Models of transformers in a browser: an output as it is written, and what a chat template makes of a text."""

import io
import re

import numpy as np
import pytest
from browsing import IN_BROWSER, explored_at

transformers = pytest.importorskip("transformers")

from adopted_models import made, tokenizer  # noqa: E402

pytestmark = IN_BROWSER
TEMPLATE = "{% for message in messages %}<s> {{ message.content }} </s>{% endfor %} <s> big"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    place = tmp_path_factory.mktemp("adopted")
    chat, words = made(place / "chat", "LlamaForCausalLM"), tokenizer()
    words.chat_template = TEMPLATE
    words.save_pretrained(chat)
    bytes_ = made(place / "bytes", "GPT2LMHeadModel", byte_level=True, n_positions=80)
    # scores so large that heads are far from even
    wide = {"n_positions": 80, "n_embd": 64, "scale_attn_weights": False}
    sharp = made(place / "sharp", "GPT2LMHeadModel", byte_level=True, **wide)
    # a few of its rows are far from even, no head is as a whole
    masked = made(place / "masked", "BertForMaskedLM", byte_level=True, max_position_embeddings=80)
    vit = made(place / "vit", "ViTForImageClassification")
    folders = (chat, bytes_, sharp, masked, vit)
    with explored_at([], *(part for folder in folders for part in ("--hf", folder))) as address:
        yield address


def opened(page, site, path):
    page.emulate_media(reduced_motion="reduce")
    page.goto(site + path)
    page.wait_for_selector("html[data-ready^=written]")


def strip(page, number):
    return page.locator(".strip .tokens").nth(number).locator(".token").all_inner_texts()


def test_an_output_is_shown_as_it_is_written(page, site):
    opened(page, site, "#/translate?m=bytes&x=caf%C3%A9&max=4")
    assert strip(page, 0)[:6] == ["<s>", "c", "a", "f", "é(1/2)", "é(2/2)"]
    assert 1 <= len(strip(page, 1)) <= 5


def test_the_chat_template_is_said_and_can_be_left_out(page, site):
    opened(page, site, "#/translate?m=chat&x=the%20cat&max=3&t=0")
    box = page.get_by_label("chat template")
    assert box.is_checked()
    assert strip(page, 0) == ["<s>", "the", "cat", "</s>", "<s>", "big"]
    box.uncheck()
    # what it writes follows
    page.wait_for_function(
        "() => /^<s>thecat<.s>(?!<s>big)/.test(document.querySelector('.strip .tokens').textContent)"
    )
    assert "pl=1" in page.url
    # another model has none
    page.locator("form select").select_option("bytes")
    assert not box.is_visible()


def test_home_says_what_a_model_is_and_which_pages_it_lacks(page, site):
    page.goto(f"{site}#/?m=bytes")
    page.wait_for_selector("html[data-ready='home/bytes']")
    card = page.locator(".card-of-run").inner_text()
    for part in ("language model", "A decoder", "GPT2LMHeadModel", "2 × 4", "self-attention, causal"):
        assert part in card, part
    lacking = {link.inner_text(): link.get_attribute("title") for link in page.locator("nav .lacking").all()}
    assert set(lacking) == {"Vision", "Graph", "Film"}
    assert lacking["Vision"] == "needs a run that reads pictures"


def entropies(page, trace, group, query):
    """Of a row of every layer and head, in nats."""
    answer = page.request.get(f"{trace}/row", params={"group": group, "q": query})
    rows = np.load(io.BytesIO(answer.body())).astype(float)
    return -(rows * np.log(np.where(rows > 0, rows, 1))).sum(-1).ravel()


@pytest.mark.parametrize("name", ["bytes", "masked"])
def test_a_model_whose_heads_are_near_even_is_called_so_once(page, site, name):
    page.emulate_media(color_scheme="light")
    page.goto(f"{site}#/?m={name}")
    page.wait_for_selector(f"html[data-ready='home/{name}']")
    page.locator(".pronouns + .note:has-text('near even here')").wait_for()
    least = []
    for text in page.locator("a.example bdi").all_inner_texts():
        trace = page.request.post(f"{site}api/v1/traces", data={"model": name, "text": text}).json()
        (group,) = trace["groups"]
        rows = range(len(group["queries"]))
        spread = np.array([entropies(page, f"{site}api/v1/traces/{trace['trace_id']}", group["name"], q) for q in rows])
        visible = [q + 1 if group["causal"] else len(rows) for q in rows]
        # a head as a whole, over all of its rows
        least.append(spread.mean(0).min() / np.log(visible).mean())
    note = page.locator(".note:has-text('hardly learned')").first.inner_text()
    assert float(re.search(r"([\d.]+)\s%", note)[1]) == pytest.approx(100 * min(least), abs=0.2)
    assert ("itself and all before it" in note) == ("below the first rows" in note) == (name == "bytes")
    # no cell stands out but those of a word that has hardly another to look at
    shades = """canvas => {
      const { width, height } = canvas, side = Math.floor(width / 2);
      const { data } = canvas.getContext('2d').getImageData(0, side, side, height - side);
      return Math.min(...Array.from({ length: data.length / 4 }, (_, at) => (data[4 * at + 3] ? data[4 * at] : 255)));
    }"""
    assert min(canvas.evaluate(shades) for canvas in page.locator("a.example canvas").all()) > 80
    # what it answers and where it looks is not said card by card
    assert not "".join(page.locator(".example :is(.answer, .story)").all_inner_texts()).strip()
    # no links without bars: nothing stands out
    assert not page.locator(".pronouns").is_visible()


def test_a_doubtful_answer_is_doubted_beside_it_on_a_narrow_screen(page, site):
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{site}#/attend?m=bytes&x=the+cat")
    beside = page.locator(".answer-line + .note:has-text('hardly learned')")
    beside.wait_for()
    assert "What it answers means little." in beside.inner_text()
    assert page.locator(".note:has-text('hardly learned')").count() == 1
    # of another page there is none
    page.goto(f"{site}#/positions")
    page.wait_for_selector("html[data-ready^=positions]")
    assert page.locator(".note:has-text('hardly learned')").count() == 0


def test_marks_that_are_no_words_are_explained(page, site):
    page.goto(f"{site}#/attend?m=vit&sample=house")
    page.locator(".patches .note:has-text('“class” is an extra token')").wait_for()
    page.goto(f"{site}#/attend?m=bytes&x=a%0Ab")
    page.locator(".read .note:has-text('↵ is a line break.')").wait_for()


def test_a_card_shows_and_names_words_in_place_of_their_pieces(page, site):
    page.goto(f"{site}#/?m=sharp")
    page.wait_for_selector("html[data-ready='home/sharp']")
    link = page.locator("a.example").first
    link.locator("canvas").wait_for()
    words = [word.inner_text().strip("“”") for word in link.locator(".story bdi").all()]
    sentence = link.locator("p.side").first.inner_text().split()
    assert len(words) == 2
    assert set(words) <= set(sentence)
    # a long word has more for its length alone
    even = float(re.search(r"evenly: ([\d.]+)", link.locator(".story").inner_text())[1])
    share = float(re.search(r"takes\s([\d.]+)", link.locator(".story").inner_text())[1])
    assert 0 < even < share
    # once all are traced
    page.locator(".note:has-text('Evenly: what the word would get')").wait_for()
    link.click()
    page.wait_for_selector("html[data-ready^='transformer self']")
    assert "w=1" in page.url
    assert page.locator("p.say strong").first.inner_text() == words[0]


def test_what_is_typed_stays_and_a_space_is_an_open_box(page, site):
    shown = (
        """async (texts) => { const { shown } = await import('/static/js/core/text.js'); return texts.map(shown); }"""
    )
    page.goto(site)
    assert page.evaluate(shown, ["\\xe4", "\u2581", "\ufffd\ufffd"]) == ["\\xe4", "␣", "\ufffd"]


@pytest.mark.parametrize("given", ["", "&ex=0"])
def test_a_model_of_pictures_without_examples_asks_for_one(page, site, given):
    page.goto(f"{site}#/vision?m=vit{given}")
    page.wait_for_selector("html[data-ready=none]")
    page.get_by_text("Send a picture (PNG or JPEG), or try a drawn one.").wait_for()
    page.get_by_role("button", name="中文").click()
    page.get_by_text("请发送一幅图像").wait_for()
    # it has nothing to offer, and no number of an example is asked for
    assert not page.locator(".offered > *").count()
    assert not page.locator("#input").is_visible()
    # an example that is asked for and is not there is a refusal, which the browser notes
    assert [message for message in page.told if "404" not in message] == []
    page.told.clear()


def test_a_map_of_many_letters_is_one_of_words(page, site):
    page.goto(f"{site}#/?m=bytes")
    page.wait_for_selector("html[data-ready='home/bytes']")
    link = page.locator("a.example", has_text="The animal didn't cross the street").first
    link.locator("canvas").wait_for()
    # more than 64 letters, fewer than 20 words: its cells are seen apart
    corner = "canvas => Array.from(canvas.getContext('2d').getImageData(0, 0, canvas.width, 1).data.slice(0, 24))"
    pixels = link.locator("canvas").evaluate(corner)
    assert len({tuple(pixels[at : at + 4]) for at in range(0, 24, 4)}) == 1


def test_home_of_a_model_of_pictures_opens_a_drawn_one(page, site):
    page.goto(f"{site}#/?m=vit")
    page.wait_for_selector("html[data-ready='home/vit']")
    drawn = page.locator("[aria-label='Or try a drawn one:'] button")
    drawn.nth(2).wait_for()
    assert "vocabulary" not in page.locator(".card-of-run").inner_text()
    assert "cut into patches" in page.locator(".card-of-run").inner_text()
    drawn.nth(1).click()
    page.wait_for_selector("html[data-ready^='vision/']")
    page.get_by_text("a house under the sun").first.wait_for()
    assert page.url.endswith("#/vision?m=vit&sample=house")


def test_the_address_of_a_drawn_picture_shows_it_again(page, site):
    page.goto(f"{site}#/vision?m=vit&sample=seven")
    page.wait_for_selector("html[data-ready^='vision/']")
    assert "a white 7 on black" in page.locator(".answer-line").inner_text()
    page.locator("[aria-label='Or try a drawn one:'] button").nth(1).click()
    page.get_by_text("a house under the sun").first.wait_for()
    page.go_back()
    page.get_by_text("a white 7 on black").first.wait_for()
    page.get_by_role("link", name="Trace").click()
    page.locator(".note", has_text="a white 7 on black").wait_for()
    # a name that is none is no picture
    page.goto("about:blank")
    page.goto(f"{site}#/vision?m=vit&sample=none")
    page.get_by_text("Send a picture (PNG or JPEG), or try a drawn one.").wait_for()
    assert "sample" not in page.url


def test_a_drawn_picture_is_there_to_try(page, site):
    page.goto(f"{site}#/vision?m=vit")
    drawn = page.locator("[aria-label='Or try a drawn one:'] button")
    drawn.nth(2).wait_for()
    assert drawn.count() == 3
    large = drawn.nth(1).bounding_box()
    drawn.nth(1).click()
    page.wait_for_selector("html[data-ready^='vision/']")
    # the others stay beside it, smaller
    assert [one.get_attribute("aria-pressed") for one in drawn.all()] == ["false", "true", "false"]
    assert 24 <= drawn.nth(1).bounding_box()["width"] < large["width"]
    page.get_by_text("The picture is grey so that colour shows weights alone.").wait_for()

"""Eight tasks of a new user, by the page alone: each in at most so many clicks, choices and keys, from an open Home."""

import re

import numpy as np
import pytest
from browsing import IN_BROWSER, explored_at
from PIL import Image
from serving_runs import filmed_of

pytestmark = IN_BROWSER
transformers = pytest.importorskip("transformers")

from adopted_models import made  # noqa: E402


class User:
    """A person at a page, whose presses are counted: clicks, choices from a list, keys that are no text."""

    def __init__(self, page, address):
        self.page, self.presses = page, 0
        page.goto(address)
        page.wait_for_selector("html[data-ready^=home]")

    def click(self, locator):
        locator.click()
        self.presses += 1

    def choose(self, locator, value):
        """Opens a list and takes an entry."""
        locator.select_option(value)
        self.presses += 2

    def open_example(self):
        card = self.page.locator(".examples a").first
        # its line names the cell that it leads to
        card.locator(".story", has_text="%").wait_for()
        self.click(card)
        self.page.wait_for_selector("html[data-ready$='/heat']")

    def go(self, name):
        self.click(self.page.get_by_role("navigation").get_by_role("link", name=name, exact=True))

    def reads(self, selector):
        """What is written there, once it is."""
        self.page.locator(selector).first.wait_for()
        return self.page.locator(selector).first.inner_text()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    place = tmp_path_factory.mktemp("tasks")
    # scores so large that heads are far from even, as those of a model that has learned
    wide = {"n_positions": 80, "n_embd": 64, "scale_attn_weights": False}
    made(place / "gpt2", "GPT2LMHeadModel", byte_level=True, **wide)
    with explored_at([filmed_of(place)], "--hf", place / "gpt2") as address:
        yield address


@pytest.fixture
def user(page, site):
    page.emulate_media(reduced_motion="reduce")
    return User(page, f"{site}#/")


def test_which_source_word_each_target_word_looks_at(user):
    user.open_example()
    assert "of its values from" in user.reads(".read .say")
    assert "what is read" in user.page.locator(".frame").inner_text()
    # another word of the answer is one more
    user.click(user.page.locator(".answer .toks button").nth(1))
    word = user.page.locator(".answer .toks button").nth(1).inner_text()
    user.page.locator(".read .say", has_text=word).wait_for()
    assert user.presses <= 2


def test_a_head_is_found_by_what_it_looks_at(user):
    """A model of three steps need not have one for each kind; `test_links_page` compares them with the summary."""
    user.open_example()
    user.click(user.page.get_by_role("button", name=re.compile("^encoder self")))
    first = user.page.locator(".finder button").first
    user.click(first)
    layer, head = re.search(r"layer (\d+), head (\d+)", first.inner_text()).groups()
    user.page.locator(".panel.wide h2", has_text=f"layer {layer}, self-attention, head {head}").wait_for()
    assert user.presses <= 3


def test_a_head_is_muted_and_the_change_is_seen(user):
    user.open_example()
    user.click(user.page.locator(".find a, .find button").filter(has_text="mute layer").first)
    user.page.wait_for_selector("html[data-changed]")
    assert "log-probability" in user.reads(".change")
    assert user.presses <= 2


def test_one_dot_product_is_checked_by_hand(user):
    user.open_example()
    user.click(user.page.get_by_role("link", name="See how this number is made"))
    user.page.wait_for_selector("html[data-ready^=steps]")
    step = user.page.get_by_role("tab", name=re.compile("Product"))
    if step.get_attribute("aria-selected") != "true":
        user.click(step)
    total = float(user.reads(".formula .result").replace("−", "-"))
    products = [float(text.replace("−", "-")) for text in user.page.locator(".terms .product").all_inner_texts()]
    assert len(products) > 1
    # of two decimals each
    assert sum(products) == pytest.approx(total, abs=0.005 * len(products) + 0.01)
    assert user.presses <= 3


def test_when_the_alignment_appears_in_a_training(user):
    user.go("Film")
    user.page.wait_for_selector("html[data-ready^=film]")
    assert re.search("appears at|from the first frame|still changes|chooses no key", user.reads(".settled .say"))
    layers = user.page.get_by_label("layer", exact=True)
    user.choose(layers, str(layers.locator("option").count() - 1))
    user.page.wait_for_selector("html[data-ready*=cross]")
    assert user.presses <= 3


def test_two_mechanisms_on_one_sentence(user):
    user.open_example()
    user.go("Compare")
    user.page.wait_for_selector("html[data-ready^=compare]")
    narrow = user.page.viewport_size["width"] < 700
    if narrow:
        user.click(user.page.locator(".choices-of-sides > summary"))
    second = user.page.locator("fieldset").nth(1)
    user.choose(second.get_by_label("mechanism"), "normalizer~sparsemax")
    user.page.wait_for_selector("fieldset:nth-of-type(2) p:has-text('sparsemax')")
    user.page.locator(".differs", has_text="exactly 0").wait_for()
    told = user.reads(".differs")
    assert "differ most at" in told or "Both maps are the same" in told
    assert user.page.locator("canvas.heat").count() == 3
    assert user.presses <= 4 + narrow


@pytest.mark.parametrize("kind", ["PNG", "SVG"])
def test_a_picture_for_a_lecture(user, tmp_path, kind):
    user.open_example()
    with user.page.expect_download() as download:
        user.click(user.page.locator(".panel.wide").get_by_role("button", name=f"Save {kind}"))
    file = tmp_path / f"picture.{kind}"
    download.value.save_as(file)
    assert user.presses <= 2
    if kind == "SVG":
        assert "attends to" in file.read_text()
        return
    with Image.open(file) as picture:
        # as wide or as high as a slide, and no empty sheet
        assert max(picture.size) >= 1919
        assert len(np.unique(np.asarray(picture.convert("L")))) > 20


def test_what_a_model_of_transformers_writes(user):
    user.click(user.page.locator("button.choose", has_text="gpt2"))
    user.page.wait_for_selector("html[data-ready='home/gpt2']")
    # sentences stand ready
    user.page.locator(".examples", has_text="cat").wait_for()
    # a first row that sees itself alone tells nothing
    user.page.locator(".examples .story", has_text="%").first.wait_for()
    assert "100.0 %" not in user.page.locator(".examples .story").first.inner_text()
    user.open_example()
    # on a narrow screen the bar of pages leads there alone
    user.click(
        user.page.get_by_role("link", name=re.compile("Watch it being written|^Translate")).locator("visible=true").last
    )
    user.page.wait_for_selector("html[data-ready^=written]", timeout=60_000)
    written = user.page.locator(".strip .tokens").nth(1).locator(".token")
    assert written.count() >= 1
    assert user.page.locator("canvas.heat").count() == 1
    assert user.presses <= 3

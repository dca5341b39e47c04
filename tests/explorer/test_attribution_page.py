"""Attend with what counts by a method in place of weights: numbers, formula, source and limit, in both languages."""

import io
import re

import numpy as np
import pytest
from browsing import IN_BROWSER, explored_at, unfold
from serving_runs import TEXT, folder_of

import headwise
from headwise.explain.methods import METHODS, POINTS
from headwise.explorer.attributing import OFFERED
from headwise.explorer.notebook import show
from headwise.predictors.attribution.attribute import attribute

pytestmark = IN_BROWSER
ATTEND = f"#/attend?x={TEXT.replace(' ', '+')}&g=decoder+cross"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with explored_at([folder_of(tmp_path_factory.mktemp("attributed"))]) as address:
        yield address


@pytest.fixture(scope="module")
def predictor(tmp_path_factory):
    return headwise.load(folder_of(tmp_path_factory.mktemp("saved")))


def opened(page, address, ready):
    page.set_default_timeout(10_000)
    page.goto(address)
    page.wait_for_selector(f"html[data-ready='{ready}']" if ready else "html[data-ready]")


def numbers(page, site, by, layer):
    trace = page.request.post(f"{site}api/v1/traces", data={"text": TEXT}).json()["trace_id"]
    params = {"by": by, "layer": layer}
    answer = page.request.get(f"{site}api/v1/traces/{trace}/attribution/map", params=params)
    return np.load(io.BytesIO(answer.body()), allow_pickle=False).astype(float)


def under_pointer(page, shape, q, k):
    box = page.locator("canvas.heat").bounding_box()
    at = {"x": (k + 0.5) * box["width"] / shape[1], "y": (q + 0.5) * box["height"] / shape[0]}
    page.locator("canvas.heat").hover(position=at)
    return float(page.locator(".tip").inner_text().split()[-1].replace("−", "-"))


@pytest.mark.parametrize(
    ("by", "layer"),
    [
        ("norms", "decoder.blocks.0.cross_attention"),
        ("rollout", "rollout from encoder"),
        ("integrated", "integrated of the source"),
    ],
)
def test_one_control_shows_what_counts(page, site, by, layer):
    opened(page, f"{site}{ATTEND}&l=0&h=0", "decoder cross/0/0/heat")
    page.get_by_label("What counts, by method").select_option(by)
    page.wait_for_selector(f"html[data-ready='decoder cross/{by}/heat']")
    assert f"by={by}" in page.url
    exact = numbers(page, site, by, layer)
    for q, k in ((0, 0), (1, 2), (exact.shape[0] - 1, 1)):
        assert under_pointer(page, exact.shape, q, k) == pytest.approx(exact[q, k], rel=6e-3, abs=1e-3)
    text = page.locator("dl.method").inner_text()
    assert all(part in text for part in (METHODS[by].source, METHODS[by].limit))
    assert page.locator("dl.method math").count() > 0
    assert "$" not in text
    assert "||" not in text
    words = re.findall(r"(?<![\w\\])[a-z]{4,}", METHODS[by].formula)
    assert all(word in text for word in words)
    keys = exact.shape[1]
    assert page.locator(".read .shares > div").count() == min(7, keys)
    quantity = METHODS[by].signed or METHODS[by].quantity
    assert quantity in page.locator(".colours").inner_text()
    page.get_by_role("button", name="Weights", exact=True).click()
    page.wait_for_selector("html[data-ready='decoder cross/0/0/heat']")


def test_it_offers_the_methods_that_need_no_other_input_in_both_languages(page, site):
    for language in ("", "zh"):
        opened(page, f"{site}{ATTEND}&by=alti&lang={language}", "decoder cross/alti/heat")
        options = page.locator("select.methods option")
        assert [option.get_attribute("value") for option in options.all()] == ["", *OFFERED]
        assert not any(text.startswith("by_") for text in options.all_inner_texts())
        assert bool(re.search("[\u4e00-\u9fff]", page.locator("dl.method").inner_text())) == bool(language)


@pytest.mark.parametrize("by", OFFERED)
def test_formula_source_and_limit_are_translated_where_they_have_words(page, site, by):
    opened(page, f"{site}{ATTEND}&by={by}&lang=zh", f"decoder cross/{by}/heat")
    formula, source, limit = page.locator("dl.method dd").all_inner_texts()
    assert not formula.isascii()
    assert not limit.isascii()
    # names of papers stay, the words between them do not
    assert not re.search("section|added here|middle of", source)
    assert re.findall(r"arXiv:[\d.]+", source) == re.findall(r"arXiv:\d+\.\d+", METHODS[by].source)
    assert (by != "integrated") or str(POINTS) in formula


# the map, a part of its sentence, and what the number is made of
SENTENCES = {
    "norms": ("decoder.blocks.0.cross_attention", "By norms, ", lambda value: f"{100 * value:.1f} %"),
    "occlusion": ("occlusion of the source", "hidden, the log-probability of", lambda value: -value),
    "gradient": ("gradient of the source", "gradient × input is", lambda value: value),
    "integrated": ("integrated of the source", "In place of an unknown token", lambda value: value),
    "ablation": ("ablation of decoder cross, 2 heads", "Without head 1 of layer 1", lambda value: value),
    "lens": ("lens of decoder.blocks", "Were block 1 the last one", lambda value: f"{100 * value:.1f} %"),
}


@pytest.mark.parametrize("by", SENTENCES)
def test_a_cell_is_read_in_a_sentence_of_its_method(page, site, by):
    name, words, expected = SENTENCES[by]
    opened(page, f"{site}{ATTEND}&by={by}&q=0&k=0", f"decoder cross/{by}/heat")
    exact = float(numbers(page, site, by, name)[0, 0])
    sentence = page.locator(".read .say").inner_text().replace("−", "-")
    assert words in sentence
    if isinstance(expected(exact), str):
        assert expected(exact) in sentence
    else:
        number = sentence.replace("×10", "e").translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789"))
        shown = [float(part) for part in re.findall(r"-?\d+\.\d+(?:e-?\d+)?", number)]
        assert any(value == pytest.approx(expected(exact), rel=6e-3) for value in shown)
    if by == "gradient":
        assert ("less likely" in sentence) == (exact < 0)
    if by == "ablation":
        assert any(value == pytest.approx(np.exp(exact), rel=6e-3) for value in shown)


def test_a_method_is_saved_as_it_is_shown(page, site, browser, tmp_path):
    opened(page, f"{site}{ATTEND}&by=occlusion", "decoder cross/occlusion/heat")
    assert page.locator(".heads-of-all + .more").get_by_role("button", name="PNG").count() == 0
    unfold(page)
    for kind in ("SVG", "HTML", "npz"):
        with page.expect_download() as download:
            page.get_by_role("button", name=f"Save {kind}").click()
        download.value.save_as(tmp_path / f"saved.{kind}")
    assert METHODS["occlusion"].signed in (tmp_path / "saved.SVG").read_text()
    with np.load(tmp_path / "saved.npz", allow_pickle=False) as arrays:
        signed = arrays["occlusion of the source.signed"]
    np.testing.assert_allclose(
        signed, numbers(page, site, "occlusion", "occlusion of the source"), rtol=1e-3, atol=1e-4
    )
    other = browser.new_page()
    other.goto((tmp_path / "saved.HTML").rename(tmp_path / "saved.html").as_uri())
    other.wait_for_selector("html[data-ready$='/occlusion/heat']")
    other.close()


def test_an_edited_model_says_that_it_has_no_attribution(page, site):
    edit = "mute~decoder.blocks.0.cross_attention~1"
    opened(page, f"{site}{ATTEND}&by=norms&e={edit}&lang=zh", "decoder cross/norms/refused")
    assert not page.locator(".panel.wide p.state").inner_text().isascii()
    page.locator(".panel.wide button").click()
    page.wait_for_selector("html[data-ready='decoder cross/norms/heat']")


def test_maps_of_other_inputs_and_heads_are_one_press_away(page, site):
    opened(page, f"{site}{ATTEND}&by=rollout", "decoder cross/rollout/heat")
    page.get_by_role("button", name="from what is written before").click()
    page.wait_for_selector("h2:text-is('Rollout from what is written before')")
    page.goto(f"{site}{ATTEND}&by=norms&l=0&h=0")
    page.wait_for_selector("html[data-ready='decoder cross/norms/heat']")
    page.get_by_role("button", name="This head").click()
    page.wait_for_selector("h2:text-is('Norms: Decoder layer 1, cross-attention, head 1')")


def test_what_a_model_has_not_is_said(page, site):
    opened(page, f"{site}{ATTEND}&by=nothing", "decoder cross/nothing/refused")
    assert "unknown attribution" in page.locator(".panel.wide").inner_text()
    # a browser tells of every refusal
    page.told.clear()


@pytest.mark.parametrize("by", ["norms", "rollout", "ablation"])
def test_a_saved_page_shows_the_method_and_no_attention(browser, predictor, tmp_path, by):
    attribution, page = attribute(predictor, TEXT, by), browser.new_page()
    page.goto(show(attribution).save(tmp_path / "page.html").as_uri())
    page.wait_for_selector(f"html[data-ready$='/{by}/heat']")
    assert METHODS[by].limit in page.locator("dl.method").inner_text()
    assert page.get_by_role("button", name="Links").count() == page.locator("canvas.thumb").count() == 0
    if by == "rollout":
        page.get_by_role("button", name="from what is written before").click()
        page.wait_for_selector("h2:text-is('Rollout from what is written before')")
        exact = attribution.values("rollout from decoder")
        assert under_pointer(page, exact.shape, 1, 0) == pytest.approx(exact[1, 0], rel=6e-3, abs=1e-3)
    page.close()

"""Saved pages in a browser: opened from disk and inside a notebook's frame, they ask for nothing and show the same."""

import json
import struct
import xml.etree.ElementTree as tree

import numpy as np
import pytest
import torch
from browsing import IN_BROWSER, unfold

from headwise.attention.masks import Table
from headwise.explain.explanation import Explanation, Layer
from headwise.explain.places import Tokens
from headwise.explain.ramps import hexadecimal
from headwise.explorer.notebook import show
from headwise.labels import visible
from headwise.layers.attention import MultiHeadAttention
from headwise.records import record

pytestmark = IN_BROWSER
EVIL = "</script><script>window.hurt=1</script><img src=x onerror=window.hurt=1>"
HOSTILE = [
    "<!--<script>window.hurt=1",
    "-->",
    "]]>",
    "null</script>",
    "'\"`\\",
    "${window.hurt=1}",
    "$&$1$`",
    "{policy}",
    "&lt;b&gt;",
]
HOSTILE += [
    "a\u2028b\u2029c",
    "nul\0nul\r",
    "\ud800",
    "lone\udc00",
    "\u202e99.0",
    "\u2066open",
    "\ufeff",
    "\uffff",
    "x" * 10_000,
]
HOSTILE += ["\U0001f469\u200d\U0001f467\U0001f3f3\ufe0f", "e\u0301\u0301", "__proto__", "constructor"]
SVG = "{http://www.w3.org/2000/svg}"


def made(queries=5, keys=7):
    """An explanation of two layers and three heads."""
    weights = np.random.default_rng(3).dirichlet(np.full(keys, 0.4), (2, 3, queries))
    rows, columns = [f"q{n}" for n in range(queries)], [EVIL, *(f"k{n}" for n in range(1, keys))]
    layers = {f"decoder.{n}": Layer(weights[n], rows, columns, "cross") for n in range(2)}
    layers["encoder.0"] = Layer(np.full((1, keys, keys), 1 / keys), columns, columns, "self")
    return Explanation(EVIL, "said", layers)


@pytest.fixture(params=[("light", 1280), ("dark", 390)], ids=lambda how: f"{how[0]}-{how[1]}")
def page(request, browser):
    scheme, width = request.param
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    opened = context.new_page()
    told, asked = [], []
    opened.on("console", lambda message: told.append(message.text))
    opened.on("pageerror", lambda error: told.append(str(error)))
    opened.on("request", lambda one: asked.append(one.url))
    opened.scheme = scheme
    yield opened
    context.close()
    assert told == []
    # the file itself, and pictures that the page makes
    assert [url for url in asked if not url.startswith(("data:", "blob:"))] == [opened.address]


def opened(page, path, content):
    path.write_bytes(content) if isinstance(content, bytes) else path.write_text(content)
    page.address = path.as_uri()
    page.goto(page.address)
    return page


def test_every_view_works_from_disk(page, tmp_path):
    found = made()
    opened(page, tmp_path / "page.html", show(found).html)
    page.wait_for_selector("html[data-ready='decoder cross/1/0/heat']")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    page.locator(".cell").nth(4).click()
    page.wait_for_selector("html[data-ready='decoder cross/1/1/heat']")
    canvas = page.locator("canvas.heat")
    box = canvas.bounding_box()
    canvas.hover(position={"x": 2.5 * box["width"] / 7, "y": 3.5 * box["height"] / 5})
    told = page.locator(".tip").inner_text().split()
    assert told[:3] == ["q3", "→", "k2"]
    assert float(told[3]) == pytest.approx(found.layers["decoder.1"].weights[1, 3, 2], rel=6e-3, abs=1e-6)
    for view in ("links", "text"):
        page.keyboard.press("v")
        page.wait_for_selector(f"html[data-ready='decoder cross/1/1/{view}']")
    page.locator("button.token", has_text="q2").click()
    page.keyboard.press("v")
    page.wait_for_selector("html[data-ready='decoder cross/table']")
    assert page.locator("table.heads tbody tr").count() == 6
    page.locator(".tab", has_text="encoder self").click()
    page.wait_for_selector("table.heads tbody tr:only-child")
    # nothing that was read is markup
    assert page.evaluate("window.hurt") is None
    assert page.locator("main img, header img").count() == 0


def test_hostile_tokens_are_text_and_turn_no_number(page, tmp_path):
    labels = [EVIL, *HOSTILE, "", " \n\t", "\u05e9\u05dc\u05d5\u05dd"]
    count = len(labels)
    weights = np.random.default_rng(3).dirichlet(np.full(count, 0.4), (1, count))
    found = Explanation(" ".join(labels), "", {"__proto__": Layer(weights, labels, labels, "self")})
    opened(page, tmp_path / "page.html", show(found).html)
    page.wait_for_selector("html[data-ready]")
    held = page.evaluate(
        "JSON.stringify(JSON.parse(document.querySelector('#answers').textContent).trace.groups[0].keys)"
    )
    assert json.loads(held) == labels
    # what turns the text around it is an escape, as it is for the command line, or stands by itself
    told = [visible(one.replace(" ", "␣").replace("\n", "↵").replace("\t", "⇥")) or "∅" for one in labels]
    told[-1] = f"\u2068{told[-1]}\u2069"
    canvas = page.locator("canvas.heat")
    side = canvas.bounding_box()["width"] / count
    for k, label in enumerate(told):
        canvas.hover(position={"x": (k + 0.5) * side, "y": 0.5 * side})
        tip = page.locator(".tip")
        assert tip.text_content().split(" → ")[1].rsplit(" ", 1)[0] == (f"{label[:59]}…" if len(label) > 60 else label)
        share = tip.text_content().split()[-1]
        assert float(share.lstrip("<")) == pytest.approx(weights[0, 0, k], rel=6e-3, abs=1e-5)
        assert tip.bounding_box()["width"] < 1280
    for kind in ("SVG", "PNG"):
        assert saved(page, kind, ".panel.wide")
    page.keyboard.press("v")
    page.keyboard.press("v")
    for side in page.locator(".tokens").all():
        assert side.locator("button.token").all_text_contents() == told
    # the longest word makes the picture wider than a canvas may be
    (svg, png) = (saved(page, kind, ".panel.wide") for kind in ("SVG", "PNG"))
    assert max(struct.unpack(">II", png[16:24])) == 16384
    assert told[-1] in [node.text for node in tree.fromstring(svg.decode()).iter(f"{SVG}text")]
    assert page.evaluate("window.hurt") is None
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_words_and_rollout_are_inside(page, tmp_path):
    rows = np.random.default_rng(5).dirichlet(np.ones(4), (2, 3, 4))
    names = ["watch", "ing", "it", "<eos>"]
    layers = {f"encoder.{n}": Layer(rows[n], names, names, "self") for n in range(2)}
    found = Explanation("watching it", "", layers, tokens=[Tokens(names, [0, 0, 1, -1], [3])])
    opened(page, tmp_path / "page.html", show(found).html)
    page.wait_for_selector("html[data-ready='encoder self/0/0/heat']")
    page.keyboard.press("w")
    page.wait_for_selector(".rows.axis span:has-text('watching')")
    page.keyboard.press("s")
    page.wait_for_selector("p.folded:has-text('4 × 4 → 2 × 2')")
    box = page.locator("canvas.heat").bounding_box()
    page.locator("canvas.heat").hover(position={"x": box["width"] / 4, "y": box["height"] / 4})
    exact = rows[0, 0, :2, :2].sum() / 2
    assert float(page.locator(".tip").inner_text().split()[-1]) == pytest.approx(exact, rel=6e-3)
    # the small pictures are of these two words too
    drawn = "[...document.querySelectorAll('canvas.thumb')].every((one) => one.width * one.height === 4)"
    page.wait_for_function(drawn)
    assert page.locator("canvas.thumb").count() == 6
    unfold(page)
    page.get_by_role("button", name="Rollout").click()
    page.wait_for_selector("html[data-ready='encoder self/rollout/heat']")


def test_the_address_language_and_colours_work_from_disk(page, tmp_path):
    opened(page, tmp_path / "page.html", show(made()).html)
    page.wait_for_selector("html[data-ready]")
    page.keyboard.press(".")
    page.wait_for_selector("html[data-ready='decoder cross/1/1/heat']")
    assert "h=1" in page.url
    page.go_back()
    page.wait_for_selector("html[data-ready='decoder cross/1/0/heat']")
    page.locator("header button").last.click()
    page.wait_for_selector("html[lang='zh-Hans']")
    assert page.locator(".tab.chosen").last.inner_text() == "热图"
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    for _ in range(2 if page.scheme == "light" else 1):
        page.locator("header button").first.click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before


def test_a_notebook_shows_the_same(page, tmp_path):
    # as a notebook has it: one part of a page that is somebody else's
    frame = show(made())._repr_html_()
    opened(page, tmp_path / "notebook.html", f"<!doctype html><title>notebook</title><div>{frame}</div>")
    inner = page.frame_locator("iframe")
    inner.locator("canvas.heat").wait_for()
    inner.locator(".cell").nth(1).click()
    inner.locator("h2", has_text="head 2").wait_for()
    inner.locator("canvas.heat").click(position={"x": 3, "y": 3})
    assert inner.locator("p.status").inner_text().startswith("q0 →")
    assert page.evaluate("window.hurt") is None


@pytest.mark.parametrize("view", ["heat", "links", "text", "table"])
def test_pictures_are_saved(page, tmp_path, view):
    found = made()
    opened(page, tmp_path / "page.html", show(found).html)
    page.wait_for_selector("html[data-ready]")
    for _ in range(["heat", "links", "text", "table"].index(view)):
        page.keyboard.press("v")
    (svg, png) = (saved(page, kind, ".panel.wide") for kind in ("SVG", "PNG"))
    root = tree.fromstring(svg.decode())
    assert root.tag == f"{SVG}svg"
    # a picture holds no script, and text as text
    assert {node.tag.removeprefix(SVG) for node in root.iter()} <= {"svg", "title", "rect", "line", "text", "image"}
    # two dots a unit, and more where its longer side would have less than 1,920
    (width, height) = (int(root.get("width")), int(root.get("height")))
    dots = max(2, 1920 / max(width, height))
    assert struct.unpack(">II", png[16:24]) == pytest.approx((dots * width, dots * height), abs=1)
    if view == "heat":
        cells = [node for node in root.iter(f"{SVG}rect") if node.get("width") == node.get("height")]
        weights = found.layers["decoder.1"].weights[0].astype(np.float16).astype(float)
        ramp = hexadecimal(f"ink {page.scheme}")
        wanted = [ramp[int(255 * (one / weights.max()) ** 0.5 + 0.5)] for one in weights.flat]
        assert [node.get("fill") for node in cells] == wanted
    if view == "text":
        assert EVIL.replace(" ", "␣") in [node.text for node in root.iter(f"{SVG}text")]


def saved(page, kind, place):
    unfold(page)
    with page.expect_download() as waiting:
        page.locator(f"{place} .saving button", has_text=kind).click()
    return waiting.value.path().read_bytes()


def test_a_large_map_is_one_image_in_its_picture(page, tmp_path):
    opened(page, tmp_path / "page.html", show(made(150, 130)).html)
    page.wait_for_selector("html[data-ready]")
    root = tree.fromstring(saved(page, "SVG", ".panel.wide").decode())
    (image,) = root.iter(f"{SVG}image")
    assert (image.get("width"), image.get("height")) == ("520", "600")
    assert len(list(root.iter(f"{SVG}rect"))) < 100
    assert len(list(tree.fromstring(saved(page, "SVG", ".panel:first-child").decode()).iter(f"{SVG}image"))) == 6


def test_whatever_a_mask_forbids_is_hatched(page, tmp_path):
    # a window of its own, in the second head a causal one
    keep = abs(torch.arange(6)[:, None] - torch.arange(6)) < 2
    keep = torch.stack([keep, keep.tril()])
    layer = MultiHeadAttention(8, 2).eval()
    with record(layer) as trace:
        layer(torch.randn(1, 6, 8), mask=Table(keep[None]))
    opened(page, tmp_path / "page.html", show(trace, [*"abcdef"]).html)
    for head in range(2):
        page.wait_for_selector(f"html[data-ready$='/0/{head}/heat']")
        canvas = page.locator("canvas.heat")
        side = canvas.bounding_box()["width"] / 6
        for q, k in ((0, 0), (2, 3), (3, 2), (0, 4), (5, 1)):
            canvas.hover(position={"x": (k + 0.5) * side, "y": (q + 0.5) * side})
            told = page.locator(".tip").inner_text()
            assert told.endswith("forbidden by the mask") == (not keep[head, q, k]), (head, q, k, told)
        page.keyboard.press(".")

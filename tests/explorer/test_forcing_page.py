"""A token that is typed is forced, and pictures and sounds are written about, in a browser."""

import base64
import json

import numpy as np
import pytest
from browsing import IN_BROWSER, explored_at
from serving_runs import folder_of, task_run

pytestmark = IN_BROWSER
SPEECH = "transcribe-a-decoder-with-attention"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    place = tmp_path_factory.mktemp("forced")
    made = []
    for name in ("caption", "transcribe, a decoder with attention", "image-classify"):
        folder = place / name.partition(",")[0]
        folder.mkdir()
        made.append(task_run(folder, name))
    with explored_at([folder_of(place), *made]) as found:
        yield found


def opened(page, site, path):
    page.emulate_media(reduced_motion="reduce")
    page.goto(site + path)
    page.wait_for_selector("html[data-ready^=written]")


def written(page):
    return page.locator(".strip .tokens").nth(1).locator(".token:not(.later)").all_inner_texts()


def test_what_is_typed_is_forced_if_the_vocabulary_has_it(page, site):
    opened(page, site, "#/translate?m=run&x=a+and+g+.&t=1")
    first = written(page)[0]
    page.locator("#forced").press_sequentially("un")
    page.locator(".forces .token").wait_for()
    assert page.locator(".forces .token").all_inner_texts() == ["und"]
    page.press("#forced", "Enter")
    page.locator(".forces .note", has_text="“un” is no token of this model's vocabulary. 1 begin so.").wait_for()
    page.fill("#forced", "zebra")
    page.press("#forced", "Enter")
    page.locator(".forces .note", has_text="None begins so.").wait_for()
    assert "f=" not in page.url
    page.fill("#forced", "und")
    page.press("#forced", "Enter")
    page.wait_for_url("**f=**")
    page.wait_for_selector("html[data-ready^=written]")
    assert written(page)[:2] == [first, "und"]
    assert page.locator("#forced").input_value() == ""
    page.locator("#forced").press_sequentially("g")
    page.locator(".forces .token", has_text="g").click()
    page.wait_for_selector("html[data-ready$='end']")
    # its step stays
    assert written(page) == [first, "g"]
    assert page.locator(".note:visible", has_text="Dashed").count() == 1
    page.keyboard.press("Escape")
    page.wait_for_function("!location.hash.includes('f=')")


def test_a_caption_is_written_over_its_picture(page, site):
    opened(page, site, "#/translate?m=caption")
    page.wait_for_selector("canvas.over.read")
    # the examples of the run are offered, the first is shown
    assert "ex=0" in page.url
    told = page.request.post(f"{site}api/v1/generate", data={"model": "caption", "example": 0}).text()
    lines = [json.loads(line) for line in told.splitlines()]
    count = len(lines) - 2
    page.keyboard.press("End")
    page.locator(".look").nth(count - 1).wait_for()
    assert page.locator(".look").count() == count
    cross = lines[1]["step"]["cross"]
    look = np.frombuffer(base64.b64decode(cross["b64"]), cross["dtype"]).reshape(cross["shape"])[0].mean((0, 1))
    place = int(look.argmax())
    label = page.locator(".look").first.get_attribute("aria-label")
    assert f"{lines[0]['start']['axes']['src'][place]} {100 * look[place]:.0f} %" in label
    page.locator(".look").first.click()
    assert page.locator(".look").count() == (1 if count > 1 else count)
    page.locator("#forced").fill("zebra")
    page.press("#forced", "Enter")
    page.locator(".forces .note", has_text="is no token").wait_for()
    page.locator(".likely:not([disabled])").first.click()
    page.wait_for_selector(".token.forced")


def test_speech_is_written_over_time(page, site):
    opened(page, site, f"#/translate?m={SPEECH}")
    read = page.locator(".strip .tokens").first.locator(".token").all_inner_texts()
    assert read[0] == "0.00 s"
    # the chosen one is drawn last
    assert sorted(page.locator(".writes .columns span").all_inner_texts()) == sorted(read)
    assert page.locator("canvas.over").count() == 0
    assert written(page)


def test_a_run_that_writes_nothing_says_so(page, site):
    page.goto(f"{site}#/translate?m=image-classify")
    page.get_by_text("writes no text word by word").wait_for()
    assert page.locator("main p a").first.get_attribute("href").startswith("#/vision?m=image-classify")
    assert not page.locator("#forced").is_visible()
    # those that do are a click away
    page.locator("main button.choose", has_text="caption").click()
    page.wait_for_selector("canvas.over.read")


def test_the_list_of_examples_stays_while_others_are_chosen(page, site):
    asked = []
    page.on("request", lambda one: asked.append(one.url))
    page.emulate_media(reduced_motion="reduce")
    page.goto(f"{site}#/translate?m=caption")
    page.wait_for_selector("html[data-ready^=written]")
    select = page.locator("#examples")
    select.focus()
    for number in ("1", "2"):
        select.select_option(number)
        page.wait_for_function("(at) => location.hash.includes(`ex=${at}`)", arg=number)
        page.wait_for_function("document.activeElement.id === 'examples'")
    assert sum("/examples?" in url for url in asked) == 1

"""A page of a browser, in light and wide and in dark and narrow, of a module's fixture `site`."""

import pytest
from browsing import CHROMIUM


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        flags = ["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"]
        found = started.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield found
        found.close()


@pytest.fixture(params=[("light", 1280), ("dark", 390)], ids=lambda how: f"{how[0]}-{how[1]}")
def page(request, browser, site):
    scheme, width = request.param
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    made = context.new_page()
    told, asked = [], []
    made.on("console", lambda message: told.append(message.text))
    made.on("pageerror", lambda error: told.append(str(error)))
    made.on("request", lambda one: asked.append(one.url))
    made.scheme, made.told = scheme, told
    yield made
    context.close()
    assert told == []
    assert all(url.startswith((site, "data:", "blob:")) for url in asked)

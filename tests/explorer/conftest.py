"""A page of a browser, in light and wide and in dark and narrow, of a module's fixture `site`."""

import pytest
from browsing import started


@pytest.fixture(scope="module")
def browser():
    with started() as found:
        yield found


@pytest.fixture(params=[("light", 1280), ("dark", 390)], ids=lambda how: f"{how[0]}-{how[1]}")
def page(request, browser, site):
    scheme, width = request.param
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    made = context.new_page()
    # a machine that does much else loads a page slowly; what a test waits for is another matter
    made.set_default_navigation_timeout(30_000)
    told, asked = [], []
    made.on("console", lambda message: told.append(message.text))
    made.on("pageerror", lambda error: told.append(str(error)))
    made.on("request", lambda one: asked.append(one.url))
    made.scheme, made.told = scheme, told
    yield made
    # whatever page it is, it is no wider than the screen
    wide = made.evaluate("document.documentElement.scrollWidth > window.innerWidth")
    context.close()
    assert not wide
    assert told == []
    assert all(url.startswith((site, "data:", "blob:")) for url in asked)

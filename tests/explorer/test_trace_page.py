"""Trace in a browser: every number that is worked is that of the parameters, by pointer and by keyboard, in both
languages; the worked example without a run; exercises; a page to print."""

import re

import numpy as np
import pytest
from browsing import IN_BROWSER, explored_at
from serving_runs import TEXT, folder_of, small

import headwise

pytestmark = IN_BROWSER
HEAD = 1
ADDRESS = f"x={TEXT.replace(' ', '+')}&h={HEAD}"
WRITERS = {
    "turned": {"num_kv_heads": 2, "position": "rotary", "qk_norm": True},
    "sparse": {"normalizer": "sparsemax"},
    "linear": {"mechanism": "linear"},
    "faded": {"mechanism": "retention"},
    "added": {"score": "additive"},
    "far": {"position": "alibi"},
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    place = tmp_path_factory.mktemp("traced")
    (place / "lines.txt").write_text("".join(f"a{n % 7} b{n % 5} c\n" for n in range(60)))
    folders = {"run": folder_of(place)}
    for name, parts in WRITERS.items():
        recipe = {
            "task": "language-model",
            "length": 16,
            "data": {"train": str(place / "lines.txt")},
            "tokenizer": {"kind": "char"},
            "model": {"kind": "decoder", "d_model": 16, "d_ff": 8, "num_heads": 4, "num_layers": 1, **parts},
            "decoding": {"method": "greedy", "max_len": 3},
        }
        folders[name] = small(place / name, recipe)
    return folders


@pytest.fixture(scope="module")
def site(runs):
    with explored_at(runs.values()) as found:
        yield found


def opened(page, site, path):
    page.set_default_timeout(10_000)
    page.goto("about:blank")
    page.goto(f"{site}#/trace?{path}")
    page.wait_for_selector("html[data-ready^=steps]")
    page.wait_for_selector(".worked .formula")


def read(text):
    """A number as the page writes it."""
    raised = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
    mantissa, _, power = text.replace("−", "-").partition("×10")
    return float(mantissa) * 10.0 ** int(power.translate(raised) or 0) if mantissa != "-∞" else -np.inf


def result(page):
    return read(page.locator(".worked .result").inner_text())


def factors(page):
    """Both factors of each card and their product."""
    titles = page.locator(".terms li").evaluate_all("(all) => all.map((one) => one.title)")
    return np.array([[read(part) for part in re.split(" [×=] ", title)] for title in titles])


def rows(page):
    """The numbers of the table of keys, and its last line."""
    table = page.locator(".row-of-keys")
    lines = table.locator("tbody tr").evaluate_all(
        "(all) => all.map((row) => [...row.cells].map((c) => c.textContent))"
    )
    return [[read(cell) for cell in line[1:]] for line in lines]


class Layer:
    """One head of a layer, computed here from its inputs and parameters alone."""

    def __init__(self, run, name, text, *, causal=False):
        predictor = headwise.load(run)
        layer = predictor.model.get_submodule(name)
        inputs = []
        layer.register_forward_pre_hook(
            lambda _, args, kwargs: inputs.append((*args, kwargs.get("memory"))), with_kwargs=True
        )
        predictor.explain(text)
        x, memory = [None if tensor is None else tensor[0].detach().double().numpy() for tensor in inputs[-1][:2]]
        self.x, self.memory = x, x if memory is None else memory
        self.dim, self.heads, self.kv = layer.head_dim, layer.num_heads, layer.num_kv_heads
        self.parameters = {key: value.detach().double().numpy() for key, value in layer.state_dict().items()}
        self.turned, self.normed = layer.position is not None, "query_norm.weight" in self.parameters
        self.causal = causal

    def matrix(self, what, head):
        """Rows and biases that make the queries, keys or values of a query head."""
        first = {"query": 0, "key": self.heads * self.dim, "value": (self.heads + self.kv) * self.dim}[what]
        name = "projection"
        if what != "query" and "memory_projection.weight" in self.parameters:
            name, first = "memory_projection", first - self.heads * self.dim
        number = head if what == "query" else head * self.kv // self.heads
        at = slice(first + number * self.dim, first + (number + 1) * self.dim)
        return self.parameters[f"{name}.weight"][at], self.parameters[f"{name}.bias"][at]

    def plain(self, what, head=HEAD):
        weight, bias = self.matrix(what, head)
        return (self.x if what == "query" else self.memory) @ weight.T + bias

    def vectors(self, what, head=HEAD):
        vectors = self.plain(what, head)
        if self.normed and what != "value":
            gain = self.parameters[f"{what}_norm.weight"]
            vectors = vectors / np.sqrt((vectors**2).mean(1, keepdims=True) + 1e-6) * gain
        if self.turned and what != "value":
            turned = vectors.copy()
            for i in range(len(vectors)):
                for pair in range(self.dim // 2):
                    angle, (a, b) = i * 10000.0 ** (-2 * pair / self.dim), vectors[i, 2 * pair : 2 * pair + 2]
                    turned[i, 2 * pair] = a * np.cos(angle) - b * np.sin(angle)
                    turned[i, 2 * pair + 1] = b * np.cos(angle) + a * np.sin(angle)
            vectors = turned
        return vectors

    def scores(self, head=HEAD):
        scores = self.vectors("query", head) @ self.vectors("key", head).T / np.sqrt(self.dim)
        return np.where(np.tri(*scores.shape, dtype=bool), scores, -np.inf) if self.causal else scores

    def weights(self, head=HEAD):
        powers = np.exp(self.scores(head) - self.scores(head).max(1, keepdims=True))
        return powers / powers.sum(1, keepdims=True)

    def output(self, head=HEAD):
        return self.weights(head) @ self.vectors("value", head)


@pytest.mark.parametrize(
    ("run", "layer", "address", "text", "causal"),
    [
        ("run", "decoder.blocks.0.cross_attention", "g=decoder+cross", TEXT, False),
        ("run", "decoder.blocks.0.self_attention", "g=decoder+self", TEXT, True),
        ("run", "encoder.blocks.1.self_attention", "g=encoder+self&l=1", TEXT, False),
        ("turned", "blocks.0.self_attention", "", "a1 b1", True),
    ],
)
def test_every_term_is_that_of_the_parameters(page, site, runs, run, layer, address, text, causal):
    predicted = [name for name, _ in headwise.load(runs[run]).model.named_modules() if name.endswith(layer)]
    own = Layer(runs[run], predicted[0], text, causal=causal)
    query, key, value = (own.vectors(name) for name in ("query", "key", "value"))
    random = np.random.default_rng(len(run))
    for _ in range(2):
        q = int(random.integers(1, len(query)))
        k, c = int(random.integers(0, q if causal else len(key))), int(random.integers(own.dim))
        at = f"m={run}&x={text.replace(' ', '+')}&h={HEAD}&{address}&q={q}&k={k}&c={c}"
        for what, i in (("query", q), ("key", k), ("value", k)):
            name = what if what == "value" or not own.turned else f"plain {what}"
            opened(page, site, f"{at}&tr=project&of={name.replace(' ', '+')}")
            weight, bias = own.matrix(what, HEAD)
            source = own.x if what == "query" else own.memory
            expected = np.stack([source[i], weight[c], source[i] * weight[c]], 1)
            np.testing.assert_allclose(factors(page), expected, rtol=1e-4, atol=2e-5)
            assert result(page) == pytest.approx(own.plain(what)[i, c], rel=1e-3, abs=1e-5)
            assert result(page) == pytest.approx(sum(expected[:, 2]) + bias[c], rel=1e-3, abs=1e-5)
        opened(page, site, f"{at}&tr=score")
        np.testing.assert_allclose(
            factors(page), np.stack([query[q], key[k], query[q] * key[k]], 1), rtol=1e-4, atol=2e-5
        )
        assert result(page) == pytest.approx(query[q] @ key[k], rel=1e-3, abs=1e-5)
        opened(page, site, f"{at}&tr=scale")
        assert result(page) == pytest.approx(query[q] @ key[k] / np.sqrt(own.dim), rel=1e-3, abs=1e-5)
        # a narrow screen has room for four decimals
        exact = 5.1e-5 if page.viewport_size["width"] < 700 else 2e-6
        opened(page, site, f"{at}&tr=weights")
        scores, weights = own.scores()[q], own.weights()[q]
        powers = np.exp(scores - scores.max())
        expected = np.stack([scores, scores - scores.max(), powers, weights], 1)
        np.testing.assert_allclose(rows(page), expected, rtol=6e-3, atol=exact)
        assert result(page) == pytest.approx(weights[k], rel=1e-4)
        opened(page, site, f"{at}&tr=out")
        products = weights * value[: len(weights), c]
        expected = np.stack([weights, value[: len(weights), c], products, products.cumsum()], 1)
        np.testing.assert_allclose(rows(page), expected, rtol=6e-3, atol=exact)
        assert result(page) == pytest.approx(own.output()[q, c], rel=1e-4, abs=1e-6)
        opened(page, site, f"{at}&tr=layer")
        joined = np.concatenate([own.output(head)[q] for head in range(own.heads)])
        mixed = joined @ own.parameters["output.weight"][c] + own.parameters["output.bias"][c]
        np.testing.assert_allclose(factors(page)[:, 0], joined, rtol=1e-4, atol=2e-5)
        assert result(page) == pytest.approx(mixed, rel=1e-3, abs=1e-5)


def test_a_turn_and_a_norm_are_steps_of_their_own(page, site, runs):
    own = Layer(runs["turned"], turned_layer(runs), "a1 b1")
    at = f"m=turned&x=a1+b1&h={HEAD}&q=3&k=2&c=1"
    opened(page, site, f"{at}&tr=turn&of=key")
    assert result(page) == pytest.approx(own.vectors("key")[2, 1], rel=1e-3, abs=1e-5)
    assert factors(page)[:, 2].sum() == pytest.approx(own.vectors("key")[2, 1], rel=1e-3, abs=1e-5)
    np.testing.assert_allclose(abs(factors(page)[:, 1]), abs(np.array([np.cos(2), np.sin(2)])), atol=1e-5)
    opened(page, site, f"{at}&tr=norm&of=normed+query")
    plain = own.plain("query")[3]
    normed = plain[1] / np.sqrt((plain**2).mean() + 1e-6) * own.parameters["query_norm.weight"][1]
    assert result(page) == pytest.approx(normed, rel=1e-3)


def turned_layer(runs):
    names = [name for name, _ in headwise.load(runs["turned"]).model.named_modules()]
    return next(name for name in names if name.endswith("self_attention"))


def steps(page, site, run, text):
    told = page.request.post(f"{site}api/v1/traces", data={"model": run, "text": text}).json()
    layer = told["groups"][0]["layers"][0]
    answer = page.request.get(f"{site}api/v1/traces/{told['trace_id']}/steps", params={"layer": layer, "head": HEAD})
    return {step["name"]: np.array(step["values"], dtype=float) for step in answer.json()["steps"]}


def test_other_mechanisms_show_their_own_way(page, site):
    own = steps(page, site, "sparse", "a1 b1")
    opened(page, site, "m=sparse&x=a1+b1&h=1&q=3&k=2&tr=weights")
    scores = own["scaled"][3, :4]
    ordered = np.sort(scores)[::-1]
    size = max(n for n in range(1, 5) if 1 + n * ordered[n - 1] > ordered[:n].sum())
    threshold = (ordered[:size].sum() - 1) / size
    expected = np.stack([scores, scores - threshold, np.maximum(scores - threshold, 0)], 1)
    np.testing.assert_allclose(rows(page)[:4], expected, rtol=6e-3, atol=2e-6)
    own = steps(page, site, "linear", "a1 b1")
    opened(page, site, "m=linear&x=a1+b1&h=1&q=3&k=2&tr=score")
    np.testing.assert_allclose(factors(page)[:, 0], own["query features"][3], rtol=1e-4)
    assert result(page) == pytest.approx(own["query features"][3] @ own["key features"][2], rel=1e-3)
    opened(page, site, "m=linear&x=a1+b1&h=1&q=3&k=2&tr=weights")
    counted = np.where(np.arange(len(own["products"])) <= 3, own["products"][3], 0)
    np.testing.assert_allclose(rows(page), np.stack([counted, counted / counted.sum()], 1), rtol=6e-3, atol=2e-6)
    own = steps(page, site, "faded", "a1 b1")
    opened(page, site, "m=faded&x=a1+b1&h=1&q=3&k=2&tr=weights")
    assert result(page) == pytest.approx(own["scaled"][3, 2] * (1 - 2.0**-6), rel=1e-3)
    own = steps(page, site, "added", "a1 b1")
    opened(page, site, "m=added&x=a1+b1&h=1&q=3&k=2&tr=score")
    np.testing.assert_allclose(factors(page)[:, 1], np.tanh(own["query part"][3] + own["key part"][2]), rtol=1e-4)
    assert result(page) == pytest.approx(own["scores"][3, 2], rel=1e-3)
    opened(page, site, "m=added&x=a1+b1&h=1&q=3&k=2&c=1&tr=features")
    assert result(page) == pytest.approx(own["query part"][3, 1], rel=1e-3)
    assert factors(page)[:, 2].sum() == pytest.approx(own["query part"][3, 1], rel=1e-2, abs=1e-4)
    own = steps(page, site, "far", "a1 b1")
    opened(page, site, "m=far&x=a1+b1&h=1&q=3&k=1&tr=added")
    assert result(page) == pytest.approx(own["scaled"][3, 1] - 2 * 2.0**-4, rel=1e-3)
    # what is not worked term by term is the formula, with what it is of
    opened(page, site, "m=linear&x=a1+b1&h=1&q=3&k=2&tr=features")
    assert page.locator(".worked .terms").count() == 0
    assert page.locator(".worked .operands math, .worked .formula math").count() == 1


def test_a_click_on_any_cell_works_its_number(page, site):
    opened(page, site, f"m=run&{ADDRESS}&g=decoder+cross&tr=score")
    page.locator("td[data-at='products.2.1']").click()
    assert re.search(r"q=2&k=1", page.url)
    assert result(page) == pytest.approx(cell(page, "products.2.1"), rel=1e-3)
    # a number of another step is worked where it is made
    page.locator("td[data-at='key.3.2']").click()
    assert "tr=project" in page.url
    assert result(page) == pytest.approx(cell(page, "key.3.2"), rel=1e-3)
    page.locator(".row-of-keys").wait_for(state="detached")
    page.get_by_role("tab", name="Softmax").click()
    page.locator(".row-of-keys tbody tr").nth(0).click()
    assert "k=0" in page.url


def cell(page, at):
    """The five digits of a cell."""
    return read(page.locator(f"td[data-at='{at}']").get_attribute("title").rpartition(": ")[2])


def test_every_step_by_keyboard_alone(page, site):
    opened(page, site, f"m=run&{ADDRESS}&g=decoder+cross&q=1&k=1")
    page.locator("[role=tab][aria-selected=true]").focus()
    names = []
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    for _ in range(page.locator("[role=tab]").count()):
        selected = page.locator("[role=tab][aria-selected=true]")
        assert selected.evaluate("(node) => node === document.activeElement")
        names.append(selected.locator(".name").inner_text()[2:])
        page.keyboard.press("ArrowRight")
    assert names == [
        "Input",
        "Q, K, V",
        "Product q·k",
        "Scale",
        "Mask",
        "Softmax",
        "Weighted values",
        "Output",
        "All heads",
    ]
    page.get_by_role("tab", name="Product").click()
    page.locator("td[data-at='products.1.1']").focus()
    for key, at in (("ArrowRight", "products.1.2"), ("ArrowDown", "products.2.2"), ("ArrowLeft", "products.2.1")):
        page.keyboard.press(key)
        assert page.evaluate("document.activeElement.dataset.at") == at
        assert result(page) == pytest.approx(cell(page, at), rel=1e-3)
    # each matrix is one stop
    stops = "(all) => all.map((grid) => grid.querySelectorAll('td[tabindex=\"0\"]').length)"
    assert set(page.locator("[role=grid]").evaluate_all(stops)) == {1}


def test_it_plays_when_it_is_pressed_and_rests_at_the_end(page, site):
    opened(page, site, f"m=run&{ADDRESS}&g=decoder+cross&tr=out")
    page.get_by_role("button", name="Play").click()
    page.get_by_role("button", name="Pause").wait_for()
    page.wait_for_selector("[role=tab][aria-selected=true] :text('All heads')")
    page.get_by_role("button", name="Play").wait_for()
    page.get_by_role("button", name="Back").click()
    assert "tr=out" in page.url


def test_all_columns_have_their_numbers_by_one_button(page, site):
    opened(page, site, f"m=turned&x=a1+b1&h={HEAD}&tr=input")
    assert page.locator("td[data-at='input.1.15']").inner_text() == ""
    page.get_by_role("button", name="Numbers in all 16 columns").click()
    shown = page.locator("td[data-at='input.1.15']")
    assert read(shown.inner_text()) == pytest.approx(cell(page, "input.1.15"), abs=0.006)
    assert "al=1" in page.url


@pytest.mark.parametrize("language", ["", "zh"])
@pytest.mark.parametrize("run", ["run", "turned", "linear"])
def test_every_step_has_words_in_both_languages(page, site, language, run):
    opened(page, site, f"m={run}&{ADDRESS if run == 'run' else 'x=a1+b1&h=1'}&lang={language}")
    for at in range(page.locator("[role=tab]").count()):
        page.locator("[role=tab]").nth(at).click()
        text = page.locator("main").inner_text()
        assert not re.search(r"\b(link|lead|what|way|rule|ask|hint)_", text)
        assert "\\" not in text
        lead = page.locator(".lead p").inner_text()
        assert bool(re.search("[一-鿿]", lead)) == bool(language)
        chip = page.locator("[role=tab]").nth(at).locator(".name").inner_text()
        assert language == "" or re.search("[一-鿿]|Softmax|Q、K、V", chip)


@pytest.mark.parametrize(
    "path", ["bk=1&tr=weights", "tr=project", "tr=mix&al=1", "tr=layer&lang=zh", "g=decoder+self&tr=mask"]
)
def test_the_page_is_open_to_all(page, site, browser, path):
    from axe_playwright_python.sync_playwright import Axe

    context = browser.new_context(viewport=page.viewport_size, color_scheme=page.scheme, bypass_csp=True)
    other = context.new_page()
    opened(other, site, f"m=run&{ADDRESS}&{path}")
    other.locator("details.to-do summary").click()
    other.locator(".exercise").first.wait_for()
    found = Axe().run(other).response["violations"]
    context.close()
    assert [f"{one['id']}: {one['nodes'][0]['html'][:150]}" for one in found] == []


def test_the_textbook_needs_no_run_and_its_boxes_recompute(browser):
    with explored_at([]) as empty:
        page = browser.new_page()
        opened(page, empty, "tr=score")
        assert page.locator("h2").first.inner_text() == "How x1 attends to x2"
        cells = page.locator("td[data-at^='scores.']").all_inner_texts()
        assert list(map(int, cells)) == [2, 4, 4, 4, 16, 12, 4, 12, 10]
        np.testing.assert_array_equal(factors(page), [[1, 4, 4], [0, 4, 0], [2, 0, 0]])
        page.get_by_role("tab", name="Softmax").click()
        page.wait_for_selector(".row-of-keys")
        assert [row[-1] for row in rows(page)] == [0.063379, 0.468311, 0.468311]
        page.get_by_label("√3").check()
        page.wait_for_selector("html[data-ready='steps/textbook/0/true']")
        scores = np.array([2, 4, 4]) / np.sqrt(3)
        expected = np.exp(scores) / np.exp(scores).sum()
        assert [row[-1] for row in rows(page)] == pytest.approx(expected, abs=1e-6)
        page.get_by_label("causal mask").check()
        page.wait_for_selector("html[data-ready='steps/textbook/0/true/true']")
        assert [row[-1] for row in rows(page)] == [1, 0, 0]
        page.get_by_role("button", name="Back to what").click()
        page.wait_for_selector("html[data-ready='steps/textbook/0']")
        page.close()


def covered(page):
    """Where the open step has a number that an exercise asks for; neither what is read nor what is heard tells it."""
    cells = page.locator(".open-step td[data-at]", has_text=re.compile(r"^\?$"))
    for name in ("aria-label", "title"):
        assert all(
            text.endswith(": ?")
            for text in cells.evaluate_all(f"(all) => all.map((one) => one.getAttribute('{name}'))")
        )
    return set(cells.evaluate_all("(all) => all.map((one) => one.dataset.at)"))


def test_a_small_matrix_and_the_thread_are_cut_nowhere(page, site):
    opened(page, site, f"m=run&{ADDRESS}")
    thread = page.locator(".thread")
    left = """(one) => Math.min(...[...one.children].map((chip) =>
        Math.abs(chip.offsetLeft - one.offsetLeft - one.scrollLeft)))"""
    assert thread.evaluate(left) <= 3
    cut = "(all) => all.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.dataset.of)"
    assert page.locator(".scrolls[data-of]").count() >= 3
    assert page.locator(".scrolls[data-of]").evaluate_all(cut) == []


@pytest.mark.parametrize(("width", "beyond"), [(1280, 0), (390, 1)])
def test_a_wide_matrix_is_whole_where_there_is_room_and_else_fades(page, site, width, beyond):
    def wider(route):
        answer = route.fetch()
        told = answer.json()
        step = next(one for one in told["steps"] if one["name"] == "input")
        step["values"] = [row * 6 for row in step["values"]]
        step["shape"][-1] *= 6
        assert step["shape"][-1] == 96
        route.fulfill(response=answer, json=told)

    page.set_viewport_size({"width": width, "height": 844})
    page.route("**/steps?*", wider)
    opened(page, site, f"m=added&{ADDRESS}&tr=input")
    wide = page.locator(".scrolls[data-of=input]")
    assert wide.evaluate("(one) => Number(one.scrollWidth > one.clientWidth)") == beyond
    assert wide.evaluate("(one) => Number(getComputedStyle(one).maskImage !== 'none')") == beyond


def test_exercises_are_checked_at_once_with_a_way_to_the_working(page, site):
    opened(page, site, f"m=run&{ADDRESS}&g=decoder+self")
    page.locator("details.to-do summary").focus()
    page.keyboard.press("Enter")
    first = page.locator(".exercises > li").first
    first.wait_for()
    kinds = page.locator(".exercises > li").all_inner_texts()
    assert any("hidden from" in text for text in kinds)
    assert any("largest weight" in text for text in kinds)
    # the number that is asked for stands nowhere above until its working is seen
    page.locator(".open-step td", has_text=re.compile(r"^\?$")).first.wait_for()
    hidden = covered(page)
    assert len(hidden) >= 1
    page.locator(f".open-step td[data-at='{min(hidden)}']").click()
    chosen = page.locator("[role=tab][aria-selected=true] .value")
    page.locator(".worked .result", has_text="?").wait_for()
    assert chosen.inner_text() == page.locator(".worked .result").first.inner_text() == "?"
    page.locator("details.to-do summary").click()
    page.locator(".worked .result", has_text=re.compile(r"\d")).wait_for()
    assert covered(page) == set()
    page.locator("details.to-do summary").click()
    page.locator(".worked .result", has_text="?").wait_for()
    # nor beside the other heads
    assert any("What is the output" in text for text in kinds)
    page.locator("[role=tab]").last.click()
    page.locator(".open-step td", has_text=re.compile(r"^\?$")).first.wait_for()
    ((name, _, column),) = (cell.split(".") for cell in covered(page))
    assert name == "joined"
    assert int(column) // 4 == HEAD
    first.get_by_label("Your answer").focus()
    page.keyboard.type("77,5")
    page.keyboard.press("Enter")
    assert first.get_by_role("status").inner_text().startswith("Not yet.")
    first.get_by_role("button", name="See the working").press("Enter")
    page.wait_for_selector("[role=tab][aria-selected=true]:focus")
    worked = page.locator(".open-step td.on").evaluate_all("(all) => all.map((one) => one.dataset.at)")
    assert len(worked) >= 1
    assert not covered(page) & set(worked)
    first.get_by_label("Your answer").fill(str(result(page)))
    page.keyboard.press("Enter")
    assert first.get_by_role("status").inner_text().startswith("Right:")
    first.get_by_label("Your answer").fill("many")
    page.keyboard.press("Enter")
    assert first.get_by_role("status").inner_text() == "Type a number."
    # each choice has one right answer, and its working shows it
    masked = page.locator(".exercises > li", has_text="hidden from")
    options = masked.locator("option").count()
    verdicts = []
    for at in range(1, options):
        masked.get_by_label("Your answer").select_option(index=at)
        masked.get_by_role("button", name="Check").click()
        verdicts.append(masked.get_by_role("status").inner_text().startswith("Right"))
    assert verdicts.count(True) == 1
    before = first.inner_text()
    page.get_by_role("button", name="Other numbers").click()
    page.wait_for_timeout(50)
    assert page.locator(".exercises > li").first.inner_text() != before


def test_a_worksheet_is_printed_with_blanks_and_solutions(page, site):
    opened(page, site, "bk=1")
    page.evaluate("window.print = () => { window.printed = true; }")
    page.locator("details.to-do summary").click()
    page.get_by_role("button", name="Print a worksheet").click()
    assert page.evaluate("window.printed")
    sheet = page.locator(".worksheet")
    assert not sheet.is_visible()
    page.emulate_media(media="print")
    assert sheet.is_visible()
    assert not page.locator("#app").is_visible()
    tables = sheet.locator("> .matrices table")
    blanks = sheet.locator("> .matrices .missing")
    assert blanks.count() >= 2
    assert set(blanks.all_inner_texts()) == {""}
    assert sheet.locator(".solutions .missing").count() == 0
    assert sheet.locator(".solutions table").count() == tables.count()
    assert sheet.locator("> ol > li").count() == sheet.locator(".solutions ol > li").count() >= 5
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen")
    assert sheet.count() == 0


def test_long_inputs_are_drawn_as_a_picture(page, site):
    # 70 x 70 pairs
    text = "+".join(["a+and+g+."] * 17)
    opened(page, site, f"m=run&x={text}&g=encoder+self&tr=weights&q=3&k=5")
    canvas = page.locator(".open-step canvas.heat")
    canvas.first.wait_for()
    box = canvas.last.bounding_box()
    size = len(steps(page, site, "run", text.replace("+", " "))["weights"])
    canvas.last.click(position={"x": 10.5 * box["width"] / size, "y": 7.5 * box["height"] / size})
    page.wait_for_selector("html[data-ready^=steps]")
    assert re.search(r"q=7&k=10", page.url)


@pytest.mark.parametrize("language", ["", "zh"])
def test_vectors_as_columns_are_the_same_numbers_turned(page, site, language):
    opened(page, site, f"m=run&{ADDRESS}&g=decoder+cross&tr=score&lang={language}")
    shape = "[...document.querySelectorAll(\"[data-of='products'] tbody tr\")].map((row) => row.cells.length - 1)"
    read_all = "(one) => one.getAttribute('aria-label')"
    before = page.locator("td[data-at='products.1.0']").evaluate(read_all)
    height, width = len(page.evaluate(shape)), page.evaluate(shape)[0]
    assert height != width
    formula = page.locator(".convention math").first
    assert formula.get_attribute("aria-label") == r"P = Q K^\top"
    number = page.locator("#open-step + .worked").inner_text()
    page.get_by_role("button", name="向量作列" if language else "Vectors as columns").click()
    assert formula.get_attribute("aria-label") == r"P = K^\top Q"
    assert page.evaluate(shape) == [height] * width
    turned = page.locator("td[data-at='products.0.1']")
    assert turned.evaluate(read_all).split()[-1] == before.split()[-1]
    assert page.locator("#open-step + .worked").inner_text() == number
    turned.click()
    assert re.search("q=1&k=0", page.url)
    page.locator("td[data-at='products.0.1'][aria-selected=true]").wait_for()
    assert "vc=1" in page.url


def test_settings_stand_beside_the_pair_on_a_narrow_screen_and_boxes_have_a_border(browser, site):
    page = browser.new_context(viewport={"width": 390, "height": 844}, color_scheme="dark").new_page()
    opened(page, site, f"m=run&{ADDRESS}&g=decoder+cross&tr=score")
    # a pair and what is folded are one line
    settings, pair = (page.locator(f".choices {one}").first.bounding_box() for one in (".settings", "select"))
    assert abs(settings["y"] + settings["height"] / 2 - pair["y"] - pair["height"] / 2) < pair["height"] / 2
    page.locator(".settings").click()
    box = page.locator("input[type=checkbox]").first
    # of the colour of what is pressed, for it is ticked
    assert box.evaluate("(one) => getComputedStyle(one).borderTopColor") == "rgb(155, 188, 255)"
    assert box.evaluate("(one) => getComputedStyle(one).appearance") == "none"
    page.context.close()


@pytest.mark.parametrize("link", ["weights", "out", "score", "mix", "project"])
def test_columns_are_seen_and_stand_in_line_on_a_narrow_screen(browser, site, link):
    page = browser.new_context(viewport={"width": 390, "height": 844}).new_page()
    opened(page, site, f"m=run&{ADDRESS}&g=decoder+cross&tr={link}")
    # neither words nor formulas are cut
    assert page.locator(".lead p").evaluate("(one) => one.getBoundingClientRect().right") <= 390
    if link in ("weights", "out"):
        assert page.locator(".worked .scrolls").evaluate("(box) => box.scrollWidth - box.clientWidth") <= 0
    else:
        firsts = "(all) => all.map((one) => one.querySelector('td[data-at]').getBoundingClientRect().x)"
        starts = page.locator(".open-step .scrolls[data-of]").evaluate_all(firsts)
        assert len(starts) > 1
        assert max(starts) - min(starts) < 1
    page.context.close()


def test_a_weighted_value_has_its_own_formula_and_number(page, site, runs):
    opened(page, site, f"m=run&{ADDRESS}&g=decoder+cross&tr=out&q=1&k=2&c=3")
    # weight, value, their product, the sum so far
    terms = np.array(rows(page))
    opened(page, site, f"m=run&{ADDRESS}&g=decoder+cross&tr=mix&q=1&k=2&c=3")
    np.testing.assert_allclose(rows(page), terms[:, :3], atol=1e-5)
    assert result(page) == pytest.approx(terms[2, 2], rel=1e-3, abs=1e-4)
    assert page.locator(".worked tfoot").count() == 0
    assert page.locator(".convention math").first.get_attribute("aria-label") == "a_{j} v_{j}"


def test_the_columns_of_a_head_stand_out_among_those_of_all(page, site):
    opened(page, site, f"m=run&{ADDRESS}&g=decoder+cross&l=0&h=1&tr=layer")
    text = page.locator(".matrix", has_text="all heads side by side").first.locator(".caption").inner_text()
    first, last = map(int, re.search(r"columns (\d+) to (\d+)", text).groups())
    joined = page.locator("[data-of=joined] tbody tr").first.locator("td")
    pale = joined.evaluate_all("(cells) => cells.map((cell) => cell.className.includes('others'))")
    assert [at + 1 for at, other in enumerate(pale) if not other] == list(range(first, last + 1))
    assert 1 < first <= last


def test_labels_have_the_colours_of_query_and_key(page, site):
    opened(page, site, f"m=run&{ADDRESS}&g=decoder+cross&tr=score")
    colours = "(nodes) => nodes.map((node) => getComputedStyle(node).color)"
    query, key = page.locator(".row-of h2 bdi").evaluate_all(colours)
    products = page.locator("[data-of=products], [data-of=scores]").first
    assert products.locator("tbody th.on").evaluate_all(colours) == [query]
    assert products.locator("thead th.on").evaluate_all(colours) == [key]

"""One file that holds what is shown: its numbers are the model's, its policy forbids everything, text stays text."""

import base64
import hashlib
import io
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient
from serving_runs import TEXT, folder_of

import headwise
from headwise.attention.masks import Table
from headwise.cli.main import main
from headwise.errors import ConfigError, DataError, Unsupported
from headwise.explain.explanation import Explanation, Layer
from headwise.explorer import bundle, saving
from headwise.explorer.api import add_explorer
from headwise.explorer.content import content_of, of_explanation
from headwise.explorer.notebook import Page, show
from headwise.layers.attention import MultiHeadAttention
from headwise.records import record
from headwise.service.app import create_app
from headwise.service.loaded import load_runs

EVIL = "</script><script>window.hurt=1</script><!-- <img src=x onerror=window.hurt=1> &amp; \u2028"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return folder_of(tmp_path_factory.mktemp("saved"))


@pytest.fixture(scope="module")
def runs(run):
    return load_runs([run])


@pytest.fixture
def client(runs):
    with TestClient(create_app(runs, more=[add_explorer]), base_url="http://127.0.0.1:8000") as found:
        yield found


class Parts(HTMLParser):
    """The elements of a page with their attributes and the text of those that hold scripts or styles."""

    def __init__(self, text):
        super().__init__()
        self.found, self.texts = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        if self.found and self.found[-1][0] in ("script", "style") and data.strip():
            self.texts.append(data)


def held(made):
    """What a page holds for its scripts."""
    parts = Parts(made.decode())
    return json.loads(next(text for text in parts.texts if text.startswith("{")))


def numbers(text):
    return np.load(io.BytesIO(base64.b64decode(text)), allow_pickle=False)


def explanation(**given):
    weights = torch.rand(2, 3, 5).softmax(-1).double().numpy()
    layers = {"decoder.0": Layer(weights, list("abc"), [EVIL, *"wxyz"], "cross")}
    return Explanation(**{"source": EVIL, "output": "b", "layers": layers} | given)


def test_a_page_holds_the_weights_of_the_model(client, runs):
    name = client.post("/api/v1/traces", json={"text": TEXT}).json()["trace_id"]
    answer = client.get(f"/api/v1/traces/{name}/export", params={"as": "html"})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-disposition"] == 'attachment; filename="attention.html"'
    told, exact = held(answer.content), runs["run"].predictor.explain(TEXT).layers
    assert set(told["matrix"]) == set(exact)
    for layer, heads in told["matrix"].items():
        for head, text in enumerate(heads):
            np.testing.assert_array_equal(numbers(text), exact[layer].weights[head].astype(np.float16))
    asked = {"group": "decoder cross", "count": 64, "size": 32}
    thumbs = client.get(f"/api/v1/traces/{name}/thumbs", params=asked)
    small = told["small"]["decoder cross"]
    assert base64.b64decode(small["/"]["thumbs"]) == thumbs.content
    assert set(small) == {"/", "/hide", "/share"}
    for special in ("", "hide", "share"):
        folded = {"group": "decoder cross", "special": special}
        summary = client.get(f"/api/v1/traces/{name}/summary", params=folded)
        assert small[f"/{special}"]["summary"] == summary.json()
        thumbs = client.get(f"/api/v1/traces/{name}/thumbs", params={**folded, "count": 64})
        assert base64.b64decode(small[f"/{special}"]["thumbs"]) == thumbs.content


def test_an_archive_holds_them_in_single_precision(client, runs):
    name = client.post("/api/v1/traces", json={"text": TEXT}).json()["trace_id"]
    answer = client.get(f"/api/v1/traces/{name}/export", params={"as": "npz", "group": "decoder cross"})
    found, (layer,) = np.load(io.BytesIO(answer.content), allow_pickle=False), ["decoder.blocks.0.cross_attention"]
    exact = runs["run"].predictor.explain(TEXT).layers[layer]
    assert set(found) == {"source", "output", f"{layer}.weights", f"{layer}.queries", f"{layer}.keys"}
    np.testing.assert_array_equal(found[f"{layer}.weights"], exact.weights.astype(np.float32))
    assert found[f"{layer}.keys"].tolist() == exact.keys
    assert str(found["source"]) == TEXT


@pytest.mark.parametrize("asked", [{"as": "pdf"}, {"as": "html", "group": "x"}])
def test_what_cannot_be_saved_is_refused(client, asked):
    name = client.post("/api/v1/traces", json={"text": TEXT}).json()["trace_id"]
    assert client.get(f"/api/v1/traces/{name}/export", params=asked).status_code == 422
    assert client.get("/api/v1/traces/nothing/export").status_code == 404


def test_what_is_too_large_is_refused_before_it_is_made(client, monkeypatch):
    name = client.post("/api/v1/traces", json={"text": TEXT}).json()["trace_id"]
    monkeypatch.setattr(saving, "MOST_BYTES", saving._BESIDE + 900)
    answer = client.get(f"/api/v1/traces/{name}/export", params={"as": "npz"})
    assert (answer.status_code, answer.json()["hint"]) == (413, "group=NAME saves a group of layers")
    one = client.get(f"/api/v1/traces/{name}/export", params={"as": "npz", "group": "decoder cross"})
    assert one.status_code == 200
    with pytest.raises(ConfigError, match=r"and at most 0 MB are written; give a shorter text, or save a part"):
        saving.page(of_explanation(explanation(layers={"a": Layer(np.ones((9, 9, 9)), [""] * 9, [""] * 9, "self")})))


def test_the_policy_allows_this_script_and_style_alone():
    text = saving.page(of_explanation(explanation())).decode()
    parts = Parts(text)
    (policy,) = [found["content"] for tag, found in parts.found if found.get("http-equiv")]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    style, _, script = parts.texts
    for one in (style, script):
        digest = base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert [tag for tag, found in parts.found if "src" in found] == []
    assert [found["href"] for tag, found in parts.found if "href" in found] == ["data:,"]


def test_text_that_looks_like_a_page_stays_text():
    made = saving.page(of_explanation(explanation()))
    assert [tag for tag, _ in Parts(made.decode()).found].count("script") == 2
    assert not re.search(rb"<img|<!--", made)
    told = held(made)
    assert told["trace"]["source"] == EVIL
    assert told["trace"]["groups"][0]["keys"][0] == EVIL


def test_a_trace_is_shown_with_the_tokens_that_fit():
    layer = MultiHeadAttention(8, 2).eval()
    with record(layer) as trace:
        layer(torch.randn(2, 3, 8), torch.randn(2, 5, 8))
    made = show(trace, ["a", "b", "<c>"], [*"vwxyz"], example=1, height=300)
    assert isinstance(made, Page)
    told = held(made.html)
    (group,) = told["trace"]["groups"]
    assert (group["queries"], group["keys"]) == (["a", "b", "<c>"], [*"vwxyz"])
    exact = trace["Scored"].weights()[1].numpy()
    np.testing.assert_allclose(numbers(told["matrix"]["Scored"][1]), exact[1], atol=5e-4)
    frame = made._repr_html_()
    assert frame.startswith("<iframe ")
    (found,) = [found for _, found in Parts(frame).found]
    assert found["srcdoc"] == made.html.decode()
    assert (found["sandbox"], found["height"]) == ("allow-scripts allow-downloads", "300")
    numbered = held(show(trace).html)["trace"]["groups"][0]
    assert numbered["keys"] == ["0", "1", "2", "3", "4"]


def test_what_cannot_be_shown_is_refused(tmp_path):
    layer = MultiHeadAttention(8, 2).eval()
    with record(layer) as trace:
        pass
    with pytest.raises(ConfigError, match="run the model while the record is open"):
        show(trace)
    with record(layer) as trace:
        layer(torch.randn(2, 3, 8))
    with pytest.raises(ConfigError, match="the batch has examples 0 to 1"):
        show(trace, example=2)
    with pytest.raises(ConfigError, match="a trace or an explanation is shown, not int"):
        show(3)
    with pytest.raises(ConfigError, match="has its own tokens"):
        show(explanation(), ["a"])
    with pytest.raises(Unsupported, match="no attention"):
        show(explanation(layers={}))
    with pytest.raises(ConfigError, match=r"did you mean 'decoder\.0'"):
        content_of(explanation()).layer("decoder.9")
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"x\.html cannot be written"):
        show(explanation()).save(tmp_path / "file" / "x.html")


def test_the_command_line_writes_a_page(run, tmp_path, capsys):
    path = tmp_path / "new" / "page.html"
    assert main(["explain", str(run), TEXT, "--html", str(path), "--layer", "0"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"{path} ({path.stat().st_size / 1e3:,.0f} KB)"
    assert list(held(path.read_bytes())["matrix"]) == ["decoder.blocks.0.cross_attention"]
    assert not (tmp_path / "figures").exists()
    assert main(["explain", str(run), TEXT, "--html", str(path), "--all"]) == 2
    assert "--html writes one page" in capsys.readouterr().err


def test_scripts_become_one(monkeypatch):
    made = bundle.script("alone.js")
    assert made.index('modules["store.js"] =') < made.index('modules["dom.js"] =') < made.index('modules["alone.js"] =')
    assert not re.search(r"^\s*(import|export) ", made, re.M)
    assert "pages/home" not in made
    texts = {"js/a.js": 'import { b as c } from "./b.js";\n', "js/b.js": 'import { a } from "./a.js";\n'}
    monkeypatch.setattr(bundle, "_read", texts.__getitem__)
    with pytest.raises(ValueError, match=r"need each other: a\.js > b\.js > a\.js"):
        bundle.script("a.js")
    texts["js/b.js"] = "export default 3;\n"
    with pytest.raises(ValueError, match="'export default 3;' cannot be part"):
        bundle.script("a.js")
    texts["js/b.js"] = "export const b = 3;\n"
    assert 'const { b: c } = modules["b.js"];' in bundle.script("a.js")


def test_pages_are_alike_in_every_run():
    found = explanation()
    assert show(found).html == show(found).html
    assert headwise.__name__ in repr(type(show(found)))


def windowed():
    """Attention over a window of its own, of which a head is causal too."""
    keep = abs(torch.arange(5)[:, None] - torch.arange(5)) < 2
    return torch.stack([keep, keep.tril()])[None]


def test_what_a_mask_forbids_is_told():
    layer, keep = MultiHeadAttention(8, 2).eval(), windowed()
    with record(layer) as trace:
        layer(torch.randn(1, 5, 8), mask=Table(keep))
    told = held(show(trace, [*"abcde"]).html)
    hidden = np.stack([numbers(text) for text in told["masks"]["Scored"]])
    np.testing.assert_array_equal(hidden, ~keep[0].numpy())
    with record(layer) as trace:
        layer(torch.randn(1, 5, 8))
    assert held(show(trace).html)["masks"] == {}


def test_no_more_is_told_than_the_shape_of_a_causal_mask(client, runs):
    found = runs["run"].predictor.explain(TEXT)
    causal = found.layers["decoder.blocks.0.self_attention"]
    assert causal.causal
    np.testing.assert_array_equal(causal.allowed[0], np.tri(len(causal.queries), dtype=bool))
    assert held(show(found).html)["masks"] == {}
    name = client.post("/api/v1/traces", json={"text": TEXT}).json()["trace_id"]
    assert held(client.get(f"/api/v1/traces/{name}/export", params={"as": "html"}).content)["masks"] == {}

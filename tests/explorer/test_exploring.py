"""`headwise.explore`: a server beside the program, for models of transformers in memory, predictors and folders."""

import json
import sys
import types
from urllib.request import Request, urlopen

import pytest
import torch

transformers = pytest.importorskip("transformers")

from adopted_models import made, tokenizer  # noqa: E402
from serving_runs import TEXT, folder_of  # noqa: E402

import headwise  # noqa: E402
from headwise.adoption import is_adopted  # noqa: E402
from headwise.errors import ConfigError, MachineError  # noqa: E402


def got(address, path, **asked):
    body = json.dumps(asked).encode() if asked else None
    with urlopen(Request(f"{address}{path}", body, {"Content-Type": "application/json"}), timeout=30) as answer:
        text = answer.read().decode()
        return answer.headers, json.loads(text) if path else text


def in_memory(tmp_path, name):
    folder = made(tmp_path / name, name)
    return folder, getattr(transformers, name).from_pretrained(folder), tokenizer()


def test_a_model_in_memory_is_shown_and_given_back(tmp_path, monkeypatch):
    _, model, words = in_memory(tmp_path, "BertForMaskedLM")
    tokens = torch.tensor([[1, 5, 6, 2]])
    before, opened = model.eval()(tokens).logits, []
    monkeypatch.setattr("webbrowser.open", opened.append)
    with headwise.explore(model, words, wait=False) as exploration:
        assert opened == [exploration.address]
        assert is_adopted(model)
        headers, page = got(exploration.address, "")
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "/static/" in page
        _, meta = got(exploration.address, "api/v1/meta")
        assert [one["name"] for one in meta["models"]] == ["BertForMaskedLM"]
        _, trace = got(exploration.address, "api/v1/traces", text="the cat")
        assert trace["groups"][0]["queries"] == ["<s>", "the", "cat", "</s>"]
        _, examples = got(exploration.address, "api/v1/examples?model=BertForMaskedLM")
        assert examples["examples"] == []
    assert not is_adopted(model)
    assert torch.equal(model(tokens).logits, before)
    with pytest.raises(OSError, match="refused"):
        got(exploration.address, "")


def test_a_notebook_shows_it_in_a_frame(tmp_path, monkeypatch):
    _, model, words = in_memory(tmp_path, "BertForMaskedLM")
    shell = types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setattr("webbrowser.open", lambda _: pytest.fail("the browser was opened"))
    with headwise.explore(headwise.adopt(model), words, height=500) as exploration:
        assert f'src="{exploration.address}" width="100%" height="500"' in exploration._repr_html_()
        headers, _ = got(exploration.address, "")
        assert "frame-ancestors http://127.0.0.1:* http://localhost:*" in headers["content-security-policy"]
    # it was adopted before
    assert is_adopted(model)


def test_a_script_waits_for_ctrl_c(tmp_path, monkeypatch, capsys):
    _, model, words = in_memory(tmp_path, "BertForMaskedLM")
    serving = pytest.importorskip("headwise.explorer.serving")

    def interrupted(thread, timeout=None):
        if timeout is None and thread.name == "headwise explorer":
            raise KeyboardInterrupt
        return joined(thread, timeout)

    joined = serving.threading.Thread.join
    monkeypatch.setattr(serving.threading.Thread, "join", interrupted)
    exploration = headwise.explore(model, words, browser=False)
    assert exploration.address in capsys.readouterr().out
    assert not is_adopted(model)


def test_folders_and_predictors_are_shown(tmp_path):
    folder, _, words = in_memory(tmp_path, "BertForMaskedLM")
    run = folder_of(tmp_path)
    for model, name, text in (
        (folder, folder.name, "the cat"),
        (run, "run", TEXT),
        (headwise.load(run), "Seq2Seq", TEXT),
    ):
        with headwise.explore(model, browser=False, wait=False) as exploration:
            _, trace = got(exploration.address, "api/v1/traces", text=text)
            assert trace["model"] == name
        with pytest.raises(ConfigError, match="its own tokenizer"):
            headwise.explore(model, words)


def test_what_cannot_be_shown_is_refused(tmp_path):
    _, model, words = in_memory(tmp_path, "BertForMaskedLM")
    with pytest.raises(ConfigError, match="with its tokenizer"):
        headwise.explore(model)
    with pytest.raises(ConfigError, match="a model of transformers, a predictor or a folder"):
        headwise.explore(torch.nn.Linear(2, 3), words)
    with headwise.explore(model, words, browser=False, wait=False) as exploration:
        port = int(exploration.address.rstrip("/").rpartition(":")[2])
        with pytest.raises(MachineError, match="cannot be had"):
            headwise.explore(model, words, port=port, browser=False, wait=False)

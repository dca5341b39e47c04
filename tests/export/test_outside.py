"""The pages of `examples/`: exported folders run without Headwise, and say what the run says."""

import functools
import http.server
import json
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from browsing import CHROMIUM
from life import steps
from tiny_tasks import CASES

import headwise
from headwise.export import formats
from headwise.training.recipe import read_recipe
from headwise.training.train import train

EXAMPLES = Path(__file__).parents[2] / "examples"
ORT = EXAMPLES / "onnxruntime_web" / "node_modules" / "onnxruntime-web" / "dist"
SENTENCES = ["a g .", "f k", "b h c i d"]


def trained(folder, name, **changed):
    """A run of a few steps of one of the tiny tasks."""
    folder.mkdir()
    values = CASES[name].whole(folder, 4)
    values["data"] = {**values["data"], "train": str(folder / values["data"]["train"])}
    train(read_recipe({**values, **changed, "training": steps(4)}), folder / "run")
    return folder / "run"


def ran(page, *arguments):
    """The lines that an example prints."""
    command = [sys.executable, str(EXAMPLES / page), *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout.splitlines()


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("outside") / "translate", "translate")


@pytest.mark.slow
def test_onnxruntime_writes_what_the_run_does(translator, tmp_path, untyped):
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    formats.export(translator, "onnx", tmp_path / "out")
    assert ran("onnxruntime_translate.py", tmp_path / "out", *SENTENCES) == headwise.load(translator).translate(
        SENTENCES
    )


@pytest.mark.slow
def test_ctranslate2_writes(translator, tmp_path):
    pytest.importorskip("ctranslate2")
    formats.export(translator, "ctranslate2", tmp_path / "out")
    assert len(ran("ctranslate2_translate.py", tmp_path / "out", *SENTENCES)) == len(SENTENCES)


@pytest.mark.slow
def test_transformers_writes(translator, tmp_path):
    pytest.importorskip("transformers")
    formats.export(translator, "huggingface", tmp_path / "out")
    assert ran("transformers_pipeline.py", tmp_path / "out", *SENTENCES) == headwise.load(translator).translate(
        SENTENCES
    )


@pytest.mark.slow
@pytest.mark.skipif(not ORT.is_dir(), reason="npm install in examples/onnxruntime_web")
def test_a_page_classifies_and_draws_the_attention(tmp_path, untyped):
    playwright = pytest.importorskip("playwright.sync_api")
    pytest.importorskip("onnxscript")
    run = trained(tmp_path / "classify", "classify")
    place = tmp_path / "page"
    formats.export(run, "onnx", place / "model", options={"attention": True})
    shutil.copy(EXAMPLES / "onnxruntime_web" / "index.html", place)
    (place / "ort").symlink_to(ORT)
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(place))
    handler.log_message = lambda *words: None
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            shown = _shown(playwright, f"http://127.0.0.1:{server.server_port}/")
        finally:
            server.shutdown()
    (answer,) = headwise.load(run).predict(["the film is great"])
    assert shown["answer"] == f"{answer.label} ({answer.probability:.4f})"
    programs = json.loads((place / "model" / "meta.json").read_bytes())["programs"]
    # two heads of the encoder's layer, and those of the pooling
    assert shown["pictures"] >= 2 + len(programs["model"]["attention"]) - 1
    assert shown["dark"] > 0


def _shown(playwright, address):
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM)
        page = browser.new_page()
        page.goto(address)
        page.wait_for_function("document.querySelector('[role=status]').textContent", timeout=120_000)
        dark = """() => [...document.querySelectorAll('canvas')].filter((canvas) => canvas.getContext('2d')
            .getImageData(0, 0, canvas.width, canvas.height).data.some((value) => value)).length"""
        found = {
            "answer": page.text_content("[role=status]"),
            "pictures": page.locator("canvas").count(),
            "dark": page.evaluate(dark),
        }
        browser.close()
    return found

"""Exported runs: equal to the run or not there at all."""

import functools
import json
import re
from pathlib import Path

import pytest
import torch

pytest.importorskip("transformers")
pytest.importorskip("ctranslate2")

import headwise
from headwise.cli.main import main
from headwise.errors import CheckpointError, ConfigError, Unsupported
from headwise.export import ctranslate2, formats, huggingface
from headwise.export.answers import subject_of
from headwise.training.recipe import read_recipe
from headwise.training.recipes import read as read_named
from headwise.training.start import Start
from headwise.training.train import train

SMALL = ["data.limit=400", "data.valid_fraction=0.05", "data.test_fraction=0.1", "training.max_steps=30"]
SMALL += ["model.d_model=16", "model.d_ff=20", "model.num_heads=2", "decoding.max_len=12", "tokenizer.joint=true"]
SHAPES = {
    "pegasus": [],
    # greedily: CTranslate2 normalises without the tokens that are never written, which matters to beams of new models
    "marian": ["model.norm_order=post", "model.activation=silu", "decoding.method=greedy"],
    "bart": [
        "model.norm_order=post",
        "model.position=learned",
        "model.tie_positions=false",
        "model.embedding_norm=true",
        "model.max_len=64",
        "decoding.method=greedy",
    ],
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The run of a shape, trained when it is first asked for."""
    place = tmp_path_factory.mktemp("runs")

    @functools.cache
    def run(name):
        train(read_named("phrasebook", [*SMALL, *SHAPES[name]]), place / name)
        return place / name

    return run


@pytest.mark.parametrize("format", ["huggingface", "ctranslate2"])
@pytest.mark.parametrize(
    "name", ["pegasus", *(pytest.param(name, marks=pytest.mark.slow) for name in ("marian", "bart"))]
)
def test_both_sides_write_the_same(trained, tmp_path, name, format):
    parity = formats.export(trained(name), format, tmp_path / "out")
    assert parity.identical + parity.ties == parity.compared > 20
    assert parity.largest_difference <= 1e-5
    assert parity.metrics["headwise"]["bleu"] == pytest.approx(parity.metrics[format]["bleu"], abs=1e-3)
    assert json.loads((tmp_path / "out" / "parity.json").read_bytes())["compared"] == parity.compared
    assert f"{parity.compared} of the test part (all there are" in (tmp_path / "out" / "PARITY.md").read_text()
    assert formats.check(tmp_path / "out").identical == parity.identical


def test_what_comes_back_has_the_same_weights(trained, tmp_path):
    formats.export(trained("pegasus"), "huggingface", tmp_path / "out")
    back = Start.read(tmp_path / "out")
    before = headwise.load(trained("pegasus"))
    tensors = before.model.state_dict()
    assert all(torch.equal(tensor, tensors[name]) for name, tensor in back.tensors.items())
    back.publish(tmp_path / "back")
    after = headwise.load(tmp_path / "back")
    texts = ["go .", "i'm home ."]
    assert after.translate(texts, config=before.decoding) == before.translate(texts)


@pytest.mark.parametrize("format", ["huggingface", "ctranslate2"])
def test_an_export_that_is_not_equal_leaves_nothing(trained, tmp_path, monkeypatch, format):
    module = {"huggingface": huggingface, "ctranslate2": ctranslate2}[format]
    kind = module.HuggingFaceRunner if format == "huggingface" else module.CTranslate2Runner
    right = kind.log_probs
    monkeypatch.setattr(kind, "log_probs", lambda self, cases: [[x + 1e-4 for x in row] for row in right(self, cases)])
    with pytest.raises(CheckpointError, match=r"not equal: log-probabilities differ by up to 3\.0\de-05"):
        formats.export(trained("pegasus"), format, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_quantized_models_are_judged_by_their_scores(trained, tmp_path):
    parity = formats.export(trained("pegasus"), "ctranslate2", tmp_path / "out", options={"quantization": "int8"})
    assert parity.quantized
    assert parity.largest_difference > 1e-5


@pytest.mark.parametrize(
    ("settings", "messages"),
    [
        (["model.mechanism=linear"], ("model.mechanism = 'linear'", "model.mechanism = 'linear'")),
        (["model.normalizer=sparsemax"], ("model.normalizer = 'sparsemax'", "model.normalizer = 'sparsemax'")),
        (["model.position=t5"], ("model.position = 't5'", "model.position = 't5'")),
        (["model.reversible=true"], ("model.reversible = True", "model.reversible = True")),
    ],
)
def test_what_a_format_cannot_hold_is_refused_by_its_key(tmp_path, settings, messages):
    train(read_named("phrasebook", [*SMALL, *settings, "training.max_steps=1"]), tmp_path / "run")
    for format, message in zip(("huggingface", "ctranslate2"), messages, strict=True):
        with pytest.raises(Unsupported, match=message):
            formats.export(tmp_path / "run", format, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_language_model_becomes_a_llama(tmp_path):
    (tmp_path / "text.txt").write_text("the cat sat on the mat .\na dog ran home .\n" * 60)
    model = {"d_model": 16, "d_ff": 20, "num_heads": 2, "num_kv_heads": 1, "num_layers": 2, "position": "rotary"}
    model |= {"norm": "rms", "activation": "swiglu", "qk_norm": False}
    values = {"task": "language-model", "data": {"train": str(tmp_path / "text.txt")}, "length": 12, "model": model}
    values |= {"tokenizer": {"vocab_size": 60}, "training": {"max_steps": 5, "batch_tokens": 240, "baseline_cpu_s": 0}}
    train(read_recipe(values), tmp_path / "run")
    for format in ("huggingface", "ctranslate2"):
        parity = formats.export(tmp_path / "run", format, tmp_path / format, split="train")
        assert parity.identical == parity.compared
    config = json.loads((tmp_path / "huggingface" / "config.json").read_bytes())
    assert config["architectures"] == ["LlamaForCausalLM"]
    assert subject_of(tmp_path / "run", "train", None).predictor.begin()


def test_the_example_of_the_page_runs_outside_headwise(trained, tmp_path, monkeypatch, capsys):
    formats.export(trained("marian"), "ctranslate2", tmp_path / "FAST")
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "exchange.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    exec(compile(example, "exchange.md", "exec"), {})
    assert capsys.readouterr().out.startswith("[")


def test_a_folder_that_is_there_stays(trained, tmp_path, capsys):
    with pytest.raises(ConfigError, match="is there already"):
        formats.export(trained("pegasus"), "huggingface", tmp_path)
    assert main(["export", str(trained("pegasus")), "--to", "onyx", str(tmp_path / "out")]) == 2
    assert "unknown format 'onyx'" in capsys.readouterr().err
    assert main(["export", "--check", str(tmp_path)]) == 4
    assert "has no parity.json" in capsys.readouterr().err

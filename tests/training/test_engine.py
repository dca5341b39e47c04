"""CTranslate2 as the engine of a run: what it writes is what Headwise writes, and what it cannot do Headwise does."""

import json
import shutil
from itertools import chain

import pytest
import torch

pytest.importorskip("ctranslate2")

import headwise
from headwise.cli.main import main
from headwise.decoding.search import DecodingConfig
from headwise.errors import CheckpointError, ConfigError, MachineError, Unsupported
from headwise.exchange import ctranslate2
from headwise.training.engine import FILE, FOLDER, CTranslate2, Opening, digest_of
from headwise.training.recipe import read_recipe
from headwise.training.recipes import read as read_named
from headwise.training.train import train

SMALL = ["data.limit=400", "data.valid_fraction=0.05", "data.test_fraction=0.1", "training.max_steps=30"]
SMALL += ["model.d_model=16", "model.d_ff=20", "model.num_heads=2", "decoding.max_len=12"]
TEXTS = ["go .", "i'm home .", "", "where is the old station ?", "she gave me the book .", "no .", "we know him ."]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("engine") / "run"
    train(read_named("phrasebook", SMALL), folder)
    return folder


@pytest.fixture(scope="module")
def run(trained, tmp_path_factory):
    """A run whose engine was opened."""
    folder = tmp_path_factory.mktemp("opened") / "run"
    shutil.copytree(trained, folder)
    headwise.load(folder).predict(["go ."], options(headwise.load(folder), engine="ctranslate2"))
    return folder


def options(predictor, **values):
    return predictor.options(values)


SEARCHES = [{"method": "greedy"}, {"beam_size": 1}, {"beam_size": 3, "n_best": 3}, {"beam_size": 5, "max_len": 2}]
SEARCHES += [{"beam_size": 4, "length_penalty": 0.0}, {"beam_size": 4, "n_best": 2, "length_penalty": 2.0}]


@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_both_engines_write_the_same(run, search):
    predictor = headwise.load(run)
    own = predictor.predict(TEXTS, options(predictor, **search))
    other = predictor.predict(TEXTS, options(predictor, **search, engine="ctranslate2"))
    assert [[output.tokens for output in outputs] for outputs in other] == [
        [output.tokens for output in outputs] for outputs in own
    ]
    for first, second in zip(chain(*own), chain(*other), strict=True):
        assert first.text == second.text
        assert first.score == pytest.approx(second.score, abs=1e-5)
        assert first.log_prob == pytest.approx(second.log_prob, abs=1e-4)
    (report, *fallen) = predictor.engines().reports
    assert report.startswith("ctranslate2: float32, ")
    assert all("tokens that are never written" in line or "limits of their own" in line for line in fallen)


def test_most_are_written_by_the_engine(run):
    predictor = headwise.load(run)
    engine = predictor.engines().opened(predictor.model, "ctranslate2", "fp32").engine
    rows = predictor.source_tokenizer.encode_batch([text for text in TEXTS if text])
    rows = [[*row, predictor.target_tokenizer.eos_id] for row in rows]
    found = engine.search(rows, [12] * len(rows), predictor.decoding)
    assert sum(isinstance(outputs, list) for outputs in found) > len(rows) // 2


@pytest.mark.parametrize(("calls", "left"), [(None, False), (1, True)])
def test_a_limit_of_each_source_is_its_own(run, calls, left):
    predictor = headwise.load(run)
    config = predictor.decoding.model_copy(update={"max_len_a": 1.0, "max_len_b": 0.0, "n_best": 2})
    predictor.engines().opened(predictor.model, "ctranslate2", "fp32").engine._calls = calls
    own = predictor.n_best(TEXTS, config)
    other = predictor.n_best(TEXTS, config.model_copy(update={"engine": "ctranslate2"}))
    assert [[x.tokens for x in outputs] for outputs in other] == [[x.tokens for x in outputs] for outputs in own]
    assert any("limits of their own" in line for line in predictor.engines().reports) == left


@pytest.mark.parametrize(
    ("update", "reason"),
    [
        ({"method": "sample"}, "samples are drawn from the random numbers of Headwise"),
        ({"stopping": "bound"}, "CTranslate2 has no stopping = 'bound'"),
        ({"min_len": 3}, "the probability of what min_len forbids"),
        ({"no_repeat_ngram": 2}, "the probability of what no_repeat_ngram forbids"),
    ],
)
def test_what_the_engine_cannot_do_is_done_by_name(run, update, reason):
    predictor = headwise.load(run)
    config = predictor.decoding.model_copy(update=update)
    own, other = headwise.load(run), config.model_copy(update={"engine": "ctranslate2"})
    torch.manual_seed(0)
    expected = own.n_best(["go ."], config)
    torch.manual_seed(0)
    assert predictor.n_best(["go ."], other) == expected
    assert any(reason in line and line.startswith("headwise for 1 inputs") for line in predictor.engines().reports)


def test_positions_have_an_end_there(run):
    predictor = headwise.load(run)
    engine = predictor.engines().opened(predictor.model, "ctranslate2", "fp32").engine
    assert (
        engine.search([[5, 2], [5] * 600], [513, 3], predictor.decoding)
        == ["the model in CTranslate2 has 512 positions"] * 2
    )


def test_a_forced_beginning_is_searched_for_by_headwise(run):
    predictor = headwise.load(run)
    prefix = predictor.target_tokenizer.encode("il")
    own = predictor.predict(["go ."], options(predictor, prefix=prefix))
    assert predictor.predict(["go ."], options(predictor, prefix=prefix, engine="ctranslate2")) == own
    assert any("a forced beginning" in line for line in predictor.engines().reports)


def test_what_is_never_written_is_left_to_headwise(run, monkeypatch):
    predictor = headwise.load(run)
    engine = predictor.engines().opened(predictor.model, "ctranslate2", "fp32").engine
    often = predictor.predict(["go ."])[0][0].tokens[0]
    del engine._numbers[predictor.target_tokenizer.entries()[often]]
    own = predictor.translate(["go ."])
    assert predictor.translate(["go ."], config=predictor.decoding.model_copy(update={"engine": "ctranslate2"})) == own
    assert any("tokens that are never written are too probable" in line for line in predictor.engines().reports)


def test_changed_or_watched_weights_are_searched_with_by_headwise(run):
    predictor = headwise.load(run)
    config = predictor.decoding.model_copy(update={"engine": "ctranslate2"})
    predictor.n_best(["go ."], config)
    with headwise.record(predictor.model):
        predictor.n_best(["go ."], config)
    with torch.no_grad():
        predictor.model.decoder.output.weight.mul_(-1.0)
    assert predictor.n_best(["go ."], config) == predictor.n_best(["go ."])
    lines = "\n".join(predictor.engines().reports)
    assert "attention is recorded" in lines
    assert "the weights have changed" in lines


def test_the_folder_is_tied_to_the_weights(run, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    written = (folder / FOLDER / "model.bin").stat().st_mtime_ns
    predictor = headwise.load(folder)
    predictor.predict(["go ."], options(predictor, engine="ctranslate2"))
    assert (folder / FOLDER / "model.bin").stat().st_mtime_ns == written
    saved = json.loads((folder / FOLDER / FILE).read_bytes())
    assert saved["weights"] == digest_of(predictor.model)
    (folder / FOLDER / FILE).write_text(json.dumps({**saved, "weights": "0"}))
    predictor = headwise.load(folder)
    predictor.predict(["go ."], options(predictor, engine="ctranslate2"))
    assert (folder / FOLDER / "model.bin").stat().st_mtime_ns > written
    assert json.loads((folder / FOLDER / FILE).read_bytes()) == saved


def test_an_engine_that_is_not_equal_is_never_used(trained, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "run"
    shutil.copytree(trained, folder)
    right = CTranslate2._hypothesis
    monkeypatch.setattr(CTranslate2, "_hypothesis", lambda self, tokens, score, p: right(self, tokens, score - 1e-4, p))
    with pytest.raises(CheckpointError, match=r"does not compute what this run computes: log-probabilities differ"):
        headwise.load(folder).translate(["go ."], config=DecodingConfig(engine="ctranslate2"))
    assert [path.name for path in (folder / FOLDER).iterdir()] == [FILE]
    monkeypatch.undo()
    # it is remembered, and the other engine takes its place
    assert main(["predict", str(folder), "go .", "--engine", "auto"]) == 0
    assert "engine headwise: CTranslate2 does not compute what this run computes" in capsys.readouterr().err
    assert main(["predict", str(folder), "go .", "--engine", "ctranslate2"]) != 0


def test_a_run_without_examples_is_compared_on_made_up_inputs(trained, tmp_path):
    predictor = headwise.load(trained)

    def no_examples(split):
        raise ConfigError("there are none")

    shutil.copytree(trained, tmp_path / "run")
    flat = {**_flat(trained), "decoding.max_len": 12}
    opening = Opening(tmp_path / "run", predictor, flat, no_examples)
    engine, reason = opening("fp32")
    assert reason.endswith("on made-up inputs")
    assert isinstance(engine, CTranslate2)
    with pytest.raises(CheckpointError, match="no held-out part to check int8 by; take fp32"):
        opening("int8")
    assert "no held-out part" in opening("auto")[1]


def _flat(run):
    from headwise.training.loading import recipe_of
    from headwise.training.recipe import flattened

    return flattened(recipe_of(run))


def test_products_of_8_bits_are_checked_by_their_bleu(run, monkeypatch):
    predictor = headwise.load(run)
    predictor.predict(["go ."], options(predictor, engine="ctranslate2", precision="int8"))
    assert predictor.engines().reports[0].startswith("ctranslate2: int8, BLEU ")
    saved = json.loads((run / FOLDER / FILE).read_bytes())
    (run / FOLDER / FILE).write_text(json.dumps({**saved, "int8": {"failure": "int8 would lose too much: BLEU"}}))
    predictor = headwise.load(run)
    with pytest.raises(CheckpointError, match="int8 would lose too much"):
        predictor.predict(["go ."], options(predictor, engine="ctranslate2", precision="int8"))
    predictor = headwise.load(run)
    predictor.predict(["go ."], options(predictor, engine="auto", precision="auto"))
    assert "ctranslate2: float32, " in predictor.engines().reports[0]
    (run / FOLDER / FILE).write_text(json.dumps(saved))


def test_what_maps_not_is_refused_by_its_key(tmp_path):
    train(read_named("phrasebook", [*SMALL, "model.mechanism=linear", "training.max_steps=1"]), tmp_path / "run")
    with pytest.raises(Unsupported, match=r"model\.mechanism = 'linear'"):
        headwise.load(tmp_path / "run").translate("go .", config=DecodingConfig(engine="ctranslate2"))
    predictor = headwise.load(tmp_path / "run")
    assert predictor.translate("go .", config=DecodingConfig(engine="auto")) == predictor.translate(
        "go .", config=DecodingConfig()
    )
    assert not (tmp_path / "run" / FOLDER).exists()


def test_without_the_package_it_says_what_to_install(trained, monkeypatch):
    def missing():
        raise MachineError("CTranslate2 is not installed: pip install 'headwise[ctranslate2]'")

    monkeypatch.setattr(ctranslate2, "library", missing)
    with pytest.raises(MachineError, match="pip install"):
        headwise.load(trained).translate("go .", config=DecodingConfig(engine="ctranslate2"))


def test_a_language_model_is_continued_the_same(tmp_path, capsys):
    (tmp_path / "text.txt").write_text("the cat sat on the mat .\na dog ran home .\n" * 60)
    model = {"d_model": 16, "d_ff": 20, "num_heads": 2, "num_layers": 2, "position": "rotary"}
    values = {"task": "language-model", "data": {"train": str(tmp_path / "text.txt")}, "length": 12, "model": model}
    values |= {"tokenizer": {"vocab_size": 60}, "training": {"max_steps": 5, "batch_tokens": 240, "baseline_cpu_s": 0}}
    train(read_recipe(values), tmp_path / "run")
    predictor, prompts = headwise.load(tmp_path / "run"), ["the cat", "a", "", "the dog ran home"]
    for search in ({"method": "greedy", "max_len": 7}, {"beam_size": 3, "n_best": 2, "max_len": 5}):
        own = predictor.predict(prompts, options(predictor, **search))
        other = predictor.predict(prompts, options(predictor, **search, engine="ctranslate2"))
        for first, second in zip(chain(*own), chain(*other), strict=True):
            assert first.tokens == second.tokens
            assert first.score == pytest.approx(second.score, abs=1e-5)
    (report, *fallen) = predictor.engines().reports
    assert report.startswith("ctranslate2: float32, ")
    assert not fallen
    assert main(["evaluate", str(tmp_path / "run"), "--split", "train", "--engine", "ctranslate2", "--limit", "3"]) == 0


def test_evaluate_gives_the_same_scores(run, capsys):
    printed = []
    for engine in ("headwise", "ctranslate2"):
        assert main(["evaluate", str(run), "--engine", engine, "--json", "--limit", "20"]) == 0
        captured = capsys.readouterr()
        printed.append(json.loads(captured.out))
    assert captured.err.startswith("engine ctranslate2: float32, ")
    assert {**printed[0], "baselines": 0} == {**printed[1], "baselines": 0}


def test_a_service_answers_as_predict_does(run, trained, capsys):
    pytest.importorskip("fastapi")
    from fastapi.testclient import TestClient

    from headwise.cli import serve
    from headwise.service.app import create_app
    from headwise.service.loaded import load_runs

    runs = load_runs([run])
    serve._search_by(runs["run"], "ctranslate2", None)
    assert capsys.readouterr().out.startswith("run: engine ctranslate2: float32, ")
    texts, search = [text for text in TEXTS if text], {"beam_size": 3, "n_best": 2}
    with TestClient(create_app(runs, hosts={"testserver"})) as client:
        body = {"texts": texts, "options": search}
        answers = client.post("/api/v1/translate", json=body).json()["outputs"]
        drawn = client.post("/api/v1/translate", json={"texts": texts, "options": {"method": "sample"}})
    predictor = headwise.load(run)
    chosen = options(predictor, **search, engine="ctranslate2")
    expected = predictor.predict(texts, chosen)
    assert answers == [
        json.loads(predictor.write(*pair, "json", chosen)[0]) for pair in zip(texts, expected, strict=True)
    ]
    assert drawn.status_code == 200
    assert "samples are drawn" in runs["run"].predictor.engines().reports[-1]
    # without the option nothing is opened, and no request opens anything
    other = load_runs([trained])["run"]
    serve._search_by(other, None, None)
    config = other.predictor.decoding.model_copy(update={"engine": "ctranslate2"})
    assert other.predictor.translate("go .", config=config) == other.predictor.translate("go .")
    assert not (trained / FOLDER).exists()


def test_a_continuation_is_streamed_by_headwise(tmp_path):
    pytest.importorskip("fastapi")
    from fastapi.testclient import TestClient

    from headwise.cli import serve
    from headwise.service.app import create_app
    from headwise.service.loaded import load_runs

    (tmp_path / "text.txt").write_text("the cat sat on the mat .\na dog ran home .\n" * 30)
    model = {"d_model": 8, "d_ff": 8, "num_heads": 2, "num_layers": 1}
    values = {"task": "language-model", "data": {"train": str(tmp_path / "text.txt")}, "length": 12, "model": model}
    values |= {"tokenizer": {"kind": "char"}, "decoding": {"method": "greedy", "max_len": 6}}
    train(
        read_recipe({**values, "training": {"max_steps": 1, "batch_tokens": 64, "baseline_cpu_s": 0}}), tmp_path / "lm"
    )
    runs = load_runs([tmp_path / "lm"])
    serve._search_by(runs["lm"], "ctranslate2", None)
    with TestClient(create_app(runs, hosts={"testserver"})) as client:
        answer = client.post("/api/v1/complete", json={"texts": ["the"]}).json()["outputs"][0]
        lines = client.post("/api/v1/complete", json={"texts": ["the"], "stream": True}).text.splitlines()
    assert "".join(json.loads(line).get("text", "") for line in lines) == answer["continuations"][0]["text"]
    assert len(lines) > 2


def test_other_models_have_no_such_engine(tmp_path, capsys):
    from headwise.tasks.text.writer import Request

    with pytest.raises(ConfigError, match="runs models that read and write texts"):
        Request.of(DecodingConfig(), {"engine": "ctranslate2"})
    assert Request.of(DecodingConfig(), {"engine": "auto"}).decoding.engine == "auto"

"""The task language-model on a tiny text: windows, losses, scores, memory, files, and a run that is resumed."""

import math
from functools import partial
from pathlib import Path

import pytest
import torch

import headwise
from headwise.config import build as validated
from headwise.data.sources import Limits
from headwise.data.streams import Stream
from headwise.errors import CheckpointError, ConfigError
from headwise.tasks import registry
from headwise.tasks.language import language_model
from headwise.tasks.language.language_model import Continuer, LanguageModel, LanguageModelConfig
from headwise.tasks.language.ngram import NGrams
from headwise.tasks.task import Assets
from headwise.training.ledger import account
from headwise.training.loading import baselines_of, examples, recipe_of
from headwise.training.train import train

TEXT = "".join(f"{'abc' * (1 + line % 3)} has  {line % 7}.\n" for line in range(60))
MODEL = {"d_model": 16, "d_ff": 23, "num_heads": 2, "num_layers": 2, "position": "rotary", "dropout": 0.0}


@pytest.fixture
def path(tmp_path):
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    return str(tmp_path / "text.txt")


@pytest.fixture
def values(path):
    return {
        "data": {"train": path, "valid_fraction": 0.2, "test_fraction": 0.1},
        "tokenizer": {"kind": "char"},
        "model": MODEL,
        "length": 11,
        "decoding": {"method": "greedy", "max_len": 9},
        "show": ["ab"],
    }


@pytest.fixture
def make(values):
    def made(**fields):
        config = validated(LanguageModelConfig, values | fields, "recipe")
        return LanguageModel(config, LanguageModel.prepare(config))

    return made


def built_of(task, seed=3):
    torch.manual_seed(seed)
    return task.build().double().eval()


def batches_of(task, split, tokens=44, **limits):
    return list(task.source(split, Limits(tokens, **limits)).once())


def scores_of(task, model, **limits):
    with torch.no_grad():
        return task.summarise(task.measure(model, batches_of(task, "valid", **limits)))


def test_is_found_by_its_name_with_a_hyphen():
    assert registry.task_type("language-model") is LanguageModel is registry.task_type("language_model")
    assert {"language-model", "translate"} <= set(registry.task_names())
    assert registry.catalogue()["language-model"].startswith("Writing on")
    with pytest.raises(ConfigError, match="did you mean 'language-model'"):
        registry.task_type("langage-model")


@pytest.mark.parametrize("kind", ["char", "bpe", "unigram", "word"])
def test_bits_per_character_are_those_of_the_raw_text(make, kind):
    task = make(tokenizer={"kind": kind, "vocab_size": 60})
    model, text = built_of(task), task.assets.data["valid"]
    total = 0.0
    for start in range(0, len(text), 11):
        window = torch.tensor(text.tokens[start : start + 12].astype("int64"))
        odds = model(window[None, :-1])[0].log_softmax(-1)
        total -= sum(odds[place, token].item() for place, token in enumerate(window[1:]))
    raw = task.tokenizer.decode(text.tokens[1:].tolist())
    assert raw in TEXT
    assert text.chars == len(raw)
    scores = scores_of(task, model)
    assert scores["loss"] == pytest.approx(total / len(text), rel=1e-9)
    assert scores["perplexity"] == pytest.approx(math.exp(total / len(text)), rel=1e-9)
    assert scores["bits_per_char"] == pytest.approx(total / math.log(2) / len(raw), rel=1e-9)
    assert set(scores) == {metric.name for metric in task.metrics}


def test_the_loss_is_a_sum_over_real_tokens_and_counts_add_up(make):
    task = make()
    model = built_of(task)
    batches = batches_of(task, "valid", 55)
    assert batches[-1].num_tokens < batches[-1].targets.numel()
    for batch in (batches[0], batches[-1]):
        odds = model(batch.inputs).log_softmax(-1)
        wanted = [odds[row, place, batch.targets[row, place]] for row in range(len(batch.lens)) for place in
                  range(int(batch.lens[row]))]  # fmt: skip
        torch.testing.assert_close(task.loss(model, batch), -sum(wanted), rtol=1e-10, atol=1e-10)
    with torch.no_grad():
        parts = [task.measure(model, [batch]) for batch in batches]
    together = {name: sum(part[name] for part in parts) for name in parts[0]}
    assert task.summarise(together) == pytest.approx(scores_of(task, model))


def test_limits_say_how_many_windows(make):
    task = make()
    assert {len(batch.lens) for batch in batches_of(task, "train")[:-1]} == {4}
    assert {len(batch.lens) for batch in batches_of(task, "train", sentences=2)[:-1]} == {2}
    # the lines that end within 3 windows of 11 tokens
    assert sum(batch.num_tokens for batch in batches_of(task, "valid", examples=3)) == 27
    assert task.source("valid", Limits(44)).take(1)[0].indices == [0, 11, 22, 33]
    with pytest.raises(ConfigError, match=r"batch_tokens \(10\) is less than one window: length is 11"):
        task.source("train", Limits(10))
    assert LanguageModel(task.config, Assets(task.assets.files)).source("train", Limits(44)) is None


def test_a_memory_goes_on_in_training_and_validation(make):
    task = make(model=MODEL | {"num_layers": 1, "memory_len": 600})
    model, source = built_of(task).train(), task.source("train", Limits(22))
    assert isinstance(source, Stream)
    first, second = source.take(2)
    losses = task.loss(model, first), task.loss(model, second)
    both = torch.cat([first.inputs, second.inputs], 1)
    odds = model(both).log_softmax(-1)
    gold = odds.gather(-1, torch.cat([first.targets, second.targets], 1)[..., None]).squeeze(-1)
    torch.testing.assert_close(torch.stack(losses), -torch.stack([gold[:, :11].sum(), gold[:, 11:].sum()]))
    losses[1].backward()
    # a validation in one row is one long pass
    text = task.assets.data["valid"]
    whole = torch.from_numpy(text.tokens.astype("int64"))[None]
    odds = model.eval()(whole[:, :-1]).log_softmax(-1).gather(-1, whole[:, 1:, None])
    assert scores_of(task, model, tokens=11)["loss"] == pytest.approx(-odds.mean().item(), rel=1e-9)


def test_what_is_shown_and_told(make, path):
    task = make(show=["ab", ""], show_len=5)
    shown = task.samples(built_of(task))
    assert [line.partition("  →  ")[0] for line in shown] == ["ab", ""]
    assert not any("\n" in line for line in shown)
    assert task.assets.notes[0].startswith("train: ")
    assert list(task.assets.digests) == ["train"]
    card = task.card({"loss": 1.23456})
    assert "loss 1.235" in card
    assert "over char tokens" in card
    short = make(length=5000)
    assert any("less than one window (5000)" in note for note in short.assets.notes)
    lost = make(tokenizer={"kind": "char", "vocab_size": 10})
    assert any("tokens are unknown" in note for note in lost.assets.notes)


@pytest.mark.parametrize("order", [1, 3])
def test_an_n_gram_model_of_the_training_tokens_is_told(make, path, order):
    task = make(ngram=order)
    data = task.assets.data
    counts = NGrams(data["train"].tokens, order, task.tokenizer.vocab_size)
    for part in ("valid", "test"):
        (note,) = [note for note in task.assets.notes if note.startswith(f"{part}: an n-gram model of order {order} ")]
        nll = counts.nll(data[part])
        assert f"perplexity of {math.exp(nll / len(data[part])):.4g}," in note
        assert f" {nll / math.log(2) / data[part].chars:.4g} bits per character" in note
    assert not any("n-gram" in note for note in make(ngram=0).assets.notes)
    whole = make(data={"train": path, "valid_fraction": 0, "test_fraction": 0})
    assert not any("n-gram" in note for note in whole.assets.notes)


def test_what_is_not_counted_is_told(make, monkeypatch):
    monkeypatch.setattr(language_model, "COUNTED", 9)
    assert make().assets.notes[-1] == "the n-gram model counts the first 9 tokens of the text"


def test_the_n_gram_model_stands_beside_the_scores_while_its_text_is_there(values, path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("other.txt").write_text(TEXT)
    data = values["data"] | {"valid": "other.txt"}
    recipe = values | {"data": data, "task": "language-model", "ngram": 2, "training": {"max_steps": 1}}
    train(recipe, tmp_path / "run")
    predictor, lines = headwise.load(tmp_path / "run"), examples(tmp_path / "run", "test")
    own = predictor.evaluate(lines)
    found = baselines_of(tmp_path / "run", predictor, lines, own)
    Path("other.txt").unlink()
    assert baselines_of(tmp_path / "run", predictor, lines, own) == found
    Path("other.txt").write_text(TEXT)
    config = recipe_of(tmp_path / "run")
    task = LanguageModel(config, LanguageModel.prepare(config))
    text = task.assets.data["test"]
    nll = NGrams(task.assets.data["train"].tokens, 2, task.tokenizer.vocab_size).nll(text)
    words = sum(len(line.split()) + 1 for line in lines)
    wanted = {
        "loss": nll / len(text),
        "perplexity": math.exp(nll / len(text)),
        "word_perplexity": math.exp(nll / words),
    }
    counted = found.scores()["2-gram model"]
    assert {name: counted[name] for name in wanted} == pytest.approx(wanted)
    assert own["word_perplexity"] == pytest.approx(math.exp(own["loss"] * len(text) / words))
    assert account(tmp_path / "run").baselines == found.scores()
    # another text than that of the run tells nothing of the run
    Path(path).write_text(TEXT + "more\n", encoding="utf-8")
    lost = baselines_of(tmp_path / "run", predictor, lines, own)
    assert (lost.scores(), lost.comparison) == ({}, None)
    assert "left out: it has changed or is not there" in lost.notes[0]
    Path(path).unlink()
    lost = baselines_of(tmp_path / "run", predictor, lines, own)
    assert (lost.scores(), lost.comparison) == ({}, None)
    assert "left out: it has changed or is not there" in lost.notes[0]


def test_the_unknown_word_of_a_text_is_a_word(make, path):
    text = "".join(f" the <unk> is {number % 3} <unk> . \n" for number in range(60))
    Path(path).write_text(text, encoding="utf-8")
    task = make(tokenizer={"kind": "word", "split_punctuation": False})
    tokens = task.assets.data["valid"].tokens
    assert task.tokenizer.unk_id not in tokens
    assert task.tokenizer.decode(tokens[1:].tolist()) in text


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"ngram": -1}, "ngram"),
        ({"tokenizer": {"spaces": "joined"}}, 'set tokenizer.spaces to "kept"'),
        ({"decoding": {"max_len_b": 5.0}}, "max_len_b is for outputs with a source"),
        ({"model": MODEL | {"position": "learned", "max_len": 7}}, r"length \(11\) is above the 7 places"),
        ({"length": 0}, "length"),
    ],
)
def test_what_is_refused(make, fields, message):
    with pytest.raises(ConfigError, match=message):
        make(**fields)


def test_files_restore_a_predictor_and_building_needs_none(make):
    task = make()
    again = LanguageModel(task.config, Assets(task.assets.files))
    with torch.device("meta"):
        assert again.build().output.weight.is_meta
    model = built_of(task)
    other = built_of(again, 99)
    other.load_state_dict(model.state_dict())
    ours, theirs = task.predictor(model), again.predictor(other)
    assert isinstance(theirs, Continuer)
    assert ours.predict(["abc", "has"]) == theirs.predict(["abc", "has"])
    with pytest.raises(CheckpointError, match=r"text.tokenizer.json is missing"):
        LanguageModel(task.config, Assets({}))


@pytest.mark.parametrize("memory_len", [0, 7])
def test_a_run_from_recipe_to_continuation_with_resume(values, tmp_path, memory_len):
    training = {
        "learning_rate": 1e-2,
        "warmup_steps": 2,
        "batch_tokens": 88,
        "max_epochs": 0,
        "monitor": "bits_per_char",
    }
    recipe = values | {"task": "language-model", "training": training | {"max_steps": 8, "validate_every": 4}}
    recipe["model"] = recipe["model"] | ({"memory_len": memory_len, "position": "shaw"} if memory_len else {})
    whole = train(recipe, tmp_path / "whole")
    half = partial(train, recipe, tmp_path / "half")
    half(overrides=["training.max_steps=4"])
    resumed = half()
    assert resumed.steps == whole.steps == 8
    assert resumed.metrics == whole.metrics
    assert resumed.metrics["bits_per_char"] < 6
    weights = [(tmp_path / name / "state/step-00000008/model.safetensors").read_bytes() for name in ("whole", "half")]
    assert weights[0] == weights[1]
    continuer = headwise.load(tmp_path / "half")
    assert continuer.predict(["ab"]) == headwise.load(tmp_path / "whole").predict(["ab"])
    assert continuer.evaluate([TEXT])["bits_per_char"] < 6

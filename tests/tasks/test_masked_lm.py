"""The task masked-lm on a tiny text: its loss, scores, baselines, what it fills, and runs that start from it."""

import json
import math
import shutil
from pathlib import Path

import life
import pytest
import tiny_tasks
import torch
from life import batch_of, built_of, task_of

import headwise
from headwise.data.sources import Limits
from headwise.errors import CheckpointError, ConfigError, DataError
from headwise.predictors.filler import masked_loss
from headwise.training.train import train

CASE = tiny_tasks.CASES["masked-lm"]
TOKENIZER = {"kind": "word", "vocab_size": 60}


@pytest.fixture
def make(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    CASE.write(tmp_path)
    return lambda **fields: task_of("masked-lm", {**CASE.recipe, **fields})


def test_loss_is_the_cross_entropy_of_what_is_masked(make):
    task = make()
    model, batch = built_of(task).double().eval(), batch_of(task)
    total = 0.0
    for place, wanted in zip(batch.places.tolist(), batch.targets.tolist(), strict=True):
        row, column = divmod(place, batch.inputs.shape[1])
        one = batch.inputs[row : row + 1, : int(batch.lens[row])]
        logits = model(one, batch.lens[row : row + 1], torch.tensor([column]))
        total -= logits[0].log_softmax(-1)[wanted].detach().item()
    with torch.no_grad():
        assert masked_loss(model, batch).item() == pytest.approx(total, rel=1e-9)
        scores = task.summarise(task.measure(model, [batch]))
    assert scores["loss"] == pytest.approx(total / batch.num_tokens)
    assert scores["perplexity"] == pytest.approx(math.exp(total / batch.num_tokens))


def test_a_batch_in_which_nothing_is_masked_has_no_loss_and_no_gradient(make):
    task = make(masking={"share": 1e-9})
    model, batch = built_of(task), batch_of(task)
    loss = task.loss(model, batch)
    loss.backward()
    assert (batch.num_tokens, loss.detach().item()) == (0, 0.0)
    assert all(one.grad is None or not one.grad.any() for one in model.parameters())
    with torch.no_grad():
        assert math.isnan(task.summarise(task.measure(model, [batch]))["accuracy"])


@pytest.mark.parametrize("tied", [True, False])
def test_the_output_is_tied_by_choice(make, tied):
    model = built_of(make(tie_output=tied))
    assert (model.output.weight is model.embedding.weight) == tied


@pytest.mark.parametrize("kind", ["window", "cnn", "rnn", "token"])
def test_every_encoder_fits(make, kind):
    task = make(model={"kind": kind, "d_model": 6})
    assert math.isfinite(task.loss(built_of(task), batch_of(task)).detach().item())


def test_baselines_are_told(make):
    Path("other.txt").write_text("ab\n")
    task = make(data={"train": "text.txt", "valid": "other.txt", "test_fraction": 0})
    told = [note for note in task.assets.notes if note.startswith("valid: always")]
    train = [token for token in task.assets.data["train"].tokens[1:].tolist() if token > 3]
    size = task.tokenizer.vocab_size - 4
    a, b = (task.tokenizer.encode(letter)[0] for letter in "ab")
    share = {token: (train.count(token) + 1) / (len(train) + size) for token in (a, b, task.tokenizer.encode("\n")[0])}
    perplexity = math.exp(-sum(math.log(one) for one in share.values()) / 3)
    assert told == [
        "valid: always saying 'a' is right for 33.3% of the tokens; their frequencies in training have a perplexity"
        f" of {perplexity:.4g}"
    ]


def test_masks_are_filled_and_shown(make):
    task = make()
    filler = task.predictor(built_of(task).eval())
    (found,) = filler.predict(["abc[MASK] ha[MASK]"])
    assert [len(one) for one in found.choices] == [5, 5]
    best = [next(iter(one)) for one in found.choices]
    assert found.text == f"abc{best[0]} ha{best[1]}"
    for one in found.choices:
        assert list(one.values()) == sorted(one.values(), reverse=True)
        assert 0 < sum(one.values()) <= 1
    lines = filler.write("", *filler.predict(["[MASK] ab[MASK]"], 3), "text", 3)
    assert len(lines) == 3
    assert all(len(line.split("\t")) == 4 for line in lines)
    shown = filler.explain("abc[MASK] ha[MASK]")
    (layer,) = shown.layers.values()
    assert [row.split()[0] for row in layer.queries] == ["→", "→"]
    assert layer.weights.shape == (2, 2, len(layer.keys))
    assert layer.keys[3] == "[MASK]"


@pytest.mark.parametrize(
    ("text", "message"), [("no mask", r"write \[MASK\] in place"), ("abc" * 9 + "[MASK]", "has 28 tokens, but 13 are")]
)
def test_what_cannot_be_filled_is_refused(make, text, message):
    task = make()
    with pytest.raises(ConfigError, match=message):
        task.predictor(built_of(task)).predict([text])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"show": ["abc"]}, r"show: 'abc' has nothing to tell"),
        ({"model": {**tiny_tasks.ATTENTION, "position": "learned", "max_len": 5}}, "above the 5 places"),
    ],
)
def test_recipes_that_cannot_work_are_refused(make, fields, message):
    with pytest.raises(ConfigError, match=message):
        make(**fields)


def test_a_text_without_a_known_token_is_refused(make):
    with pytest.raises(DataError, match="no token of the training part is known"):
        make(tokenizer={"kind": "word", "min_frequency": 999, "spaces": "joined"})


def test_a_window_more_than_a_batch_is_refused(make):
    with pytest.raises(ConfigError, match="less than one window"):
        make().source("train", Limits(12))


@pytest.fixture
def parent(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tiny_tasks.reviews(tmp_path)
    lines = (tmp_path / "reviews.csv").read_text().split("\n")[1:]
    (tmp_path / "text.txt").write_text("\n".join(line.split(",")[0] for line in lines))
    recipe = {**CASE.recipe, "tokenizer": TOKENIZER, "model": tiny_tasks.ATTENTION, "show": []}
    train({**recipe, "task": "masked-lm", "training": life.steps(2)}, tmp_path / "parent")
    return tmp_path / "parent"


def started(task="classify", **fields):
    case = tiny_tasks.CASES[task]
    start = {"weights": "parent/model.safetensors", **fields.pop("start", {})}
    values = {**case.recipe, "tokenizer": TOKENIZER, "model": tiny_tasks.ATTENTION, **fields, "start": start}
    return {**values, "task": task, "training": life.steps(2, **case.training)}


@pytest.mark.parametrize("task", ["classify", "regress"])
def test_a_run_starts_from_another_and_then_needs_it_no_more(parent, tmp_path, task, capsys):
    values = started(task)
    one = task_of(task, {name: value for name, value in values.items() if name not in ("task", "training")})
    model = built_of(one)
    (told,) = one.initialise(model, 0)
    assert "tensors of embedding and encoder are taken over; new: head" in told
    theirs = headwise.load(parent).model.state_dict()
    ours = {name: value for name, value in model.state_dict().items() if name.startswith(("embedding", "encoder"))}
    assert ours
    assert all(torch.equal(theirs[name], value) for name, value in ours.items())
    assert one.assets.files["tokenizer.json"] == (parent / "text.tokenizer.json").read_bytes()
    whole = {**values, "training": life.steps(4, **values["training"])}
    train(values, tmp_path / "child")
    shutil.rmtree(parent)
    train(whole, tmp_path / "child")
    assert headwise.load(tmp_path / "child").predict(["the film is dull"])


def test_what_is_frozen_stays(parent, tmp_path):
    train(started(start={"frozen": True}), tmp_path / "child")
    before, after = headwise.load(parent).model, headwise.load(tmp_path / "child").reader.model
    assert torch.equal(before.embedding.weight, after.embedding.weight)
    assert all(map(torch.equal, before.encoder.state_dict().values(), after.encoder.state_dict().values()))


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"tokenizer": {"kind": "char"}}, ConfigError, r"tokenizer.kind is 'word' there and 'char' here.*vocab_size"),
        ({"model": {**tiny_tasks.ATTENTION, "d_model": 6}}, ConfigError, r"'weight' has shape .*\[model\] as in"),
        ({"model": {"kind": "cnn", "d_model": 8}}, ConfigError, r"encoder: the weights do not fit the model"),
        ({"vectors": {"file": "v.txt"}}, ConfigError, "both give the embeddings"),
        ({"start": {"weights": "parent"}}, ConfigError, r"name the file model.safetensors .*parent/model.safetensors"),
        ({"start": {"weights": "away/model.safetensors"}}, CheckpointError, "away/manifest.json: missing"),
        ({"start": {"weights": "parent/config.toml"}}, ConfigError, "name the file model.safetensors"),
    ],
)
def test_a_start_that_does_not_fit_is_refused(parent, tmp_path, fields, error, message):
    with pytest.raises(error, match=message):
        train(started(**fields), tmp_path / "child")


def test_a_damaged_start_is_refused(parent, tmp_path):
    path = parent / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(CheckpointError, match=r"model\.safetensors"):
        train(started(), tmp_path / "child")


def test_a_run_without_an_encoder_is_no_start(parent, tmp_path):
    case = tiny_tasks.CASES["language-model"]
    tiny_tasks.text(tmp_path)
    train({**case.recipe, "task": "language-model", "training": life.steps(1)}, tmp_path / "decoder")
    with pytest.raises(ConfigError, match="has no embedding; start from a run of masked-lm"):
        train(
            started(start={"weights": "decoder/model.safetensors"}, tokenizer={"kind": "char", "spaces": "kept"}),
            tmp_path / "child",
        )


def test_lines_of_json_hold_what_is_told(make):
    filler = make().predictor(built_of(make()).eval())
    (line,) = filler.write("ab[MASK]", filler.predict(["ab[MASK]"])[0], "json")
    assert set(json.loads(line)) == {"masked", "text", "choices"}
    with pytest.raises(ConfigError, match="--beam-size means nothing"):
        filler.options({"beam_size": 3})

"""The task masked-lm on a tiny text: its loss, scores, baselines, and what it fills."""

import json
import math
from pathlib import Path

import pytest
import tiny_tasks
import torch
from life import batch_of, built_of, task_of

from headwise.data.sources import Limits
from headwise.errors import ConfigError, DataError
from headwise.tasks.language.masked_lm import masked_loss

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


def test_what_knowing_nothing_reaches_on_the_masked_tokens(make):
    Path("other.txt").write_text("ab\n" * 9)
    task = make(data={"train": "text.txt", "valid": "other.txt", "test_fraction": 0})
    filler = task.predictor(built_of(task).eval())
    asked = [int(token) for batch in filler.masked(["ab\n"] * 9) for token in batch.targets]
    train = [token for token in task.assets.data["train"].tokens[1:].tolist() if token > 3]
    size = task.tokenizer.vocab_size - 4
    best = max(set(train), key=train.count)
    nll = -sum(math.log((train.count(token) + 1) / (len(train) + size)) for token in asked) / len(asked)
    (found,) = type(task).baselines(task.config, filler, ["ab\n"] * 9)
    assert (found.name, found.count) == ("frequencies of tokens", len(asked))
    assert found.scores == {
        "accuracy": pytest.approx(asked.count(best) / len(asked)),
        "perplexity": pytest.approx(math.exp(nll)),
        "loss": pytest.approx(nll),
    }


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


def test_lines_of_json_hold_what_is_told(make):
    filler = make().predictor(built_of(make()).eval())
    (line,) = filler.write("ab[MASK]", filler.predict(["ab[MASK]"])[0], "json")
    assert set(json.loads(line)) == {"masked", "text", "choices"}
    with pytest.raises(ConfigError, match="no option --beam"):
        filler.options({"beam_size": 3})

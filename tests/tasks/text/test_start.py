"""Runs that start from a language model of their own: what is taken over and refused, states that stay the same."""

import shutil
from dataclasses import replace

import life
import pytest
import tiny_tasks
import torch
from life import built_of, task_of

import headwise
from headwise.data.batches import padded
from headwise.errors import CheckpointError, ConfigError
from headwise.tasks.text import start as _start
from headwise.tasks.text.words import SpellingConfig, WordTokenizer, encode_words
from headwise.training.train import train

MASKED = {"kind": "word", "vocab_size": 60}
WRITTEN = {**MASKED, "spaces": "kept"}
SIZES = {"d_model": 8, "d_ff": 8, "num_heads": 2, "dropout": 0.1}
DECODER = {"kind": "decoder", **SIZES, "num_layers": 2}
READER = {"kind": "attention", **SIZES, "encoder_layers": 2, "causal": True}
WEIGHTS = "parent/model.safetensors"
WANTED = {"masked-lm": (MASKED, tiny_tasks.ATTENTION), "language-model": (WRITTEN, READER)}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tiny_tasks.reviews(tmp_path)
    tiny_tasks.tagged(tmp_path)
    lines = (tmp_path / "reviews.csv").read_text().split("\n")[1:]
    (tmp_path / "text.txt").write_text("\n".join(line.split(",")[0] for line in lines))
    return tmp_path


def pretrained(folder, task, **fields):
    model = {"masked-lm": tiny_tasks.ATTENTION, "language-model": DECODER}[task]
    values = {**tiny_tasks.CASES[task].recipe, "tokenizer": WANTED[task][0], "model": model, "show": [], **fields}
    train({**values, "task": task, "training": life.steps(2)}, folder / "parent")
    return folder / "parent"


def started(task="classify", parent="masked-lm", **fields):
    case = tiny_tasks.CASES[task]
    tokenizer, model = WANTED[parent]
    start = {"weights": WEIGHTS, **fields.pop("start", {})}
    values = {**case.recipe, "tokenizer": tokenizer, "model": model, **fields, "start": start}
    return {**values, "task": task, "training": life.steps(2, **case.training)}


def untrained(values):
    return {name: value for name, value in values.items() if name not in ("task", "training", "start")}


def begun(values):
    """The task and its model, started and in eval mode, and what is told of it."""
    task = task_of(values["task"], {**untrained(values), "start": values["start"]})
    model = built_of(task)
    (told,) = task.initialise(model, 0)
    return task, model.eval(), told


@pytest.mark.parametrize("parent", WANTED)
@pytest.mark.parametrize("task", ["classify", "regress", "tag"])
def test_a_run_starts_from_another_and_then_needs_it_no_more(folder, task, parent):
    before = pretrained(folder, parent)
    values = started(task, parent)
    one, _, told = begun(values)
    assert "tensors of embedding and encoder are taken over; new: head" in told
    assert one.assets.files["tokenizer.json"] == (before / "text.tokenizer.json").read_bytes()
    train(values, folder / "child")
    shutil.rmtree(before)
    train({**values, "training": life.steps(4, **values["training"])}, folder / "child")
    assert headwise.load(folder / "child").predict([headwise.load(folder / "child").parse("the film is dull")])


@pytest.mark.parametrize(
    "fields", [{}, {"position": "t5", "encoder_layers": 2}, {"position": "learned", "max_len": 256}]
)
def test_weights_of_a_masked_language_model_are_taken_over(folder, fields):
    # one table of distances for both layers is one tensor in the file
    model = {**tiny_tasks.ATTENTION, **fields}
    before = headwise.load(pretrained(folder, "masked-lm", model=model)).model.state_dict()
    _, child, _ = begun(started(model=model))
    ours = {name: held for name, held in child.state_dict().items() if name.startswith(("embedding", "encoder"))}
    assert ours
    assert all(torch.equal(before[name], held) for name, held in ours.items())


@pytest.mark.parametrize(
    "fields",
    [
        {"position": "rotary"},
        {"position": "sinusoidal", "norm_order": "post", "num_kv_heads": 1, "activation": "swiglu"},
        {"position": "learned", "max_len": 256},
        {"position": "t5", "norm": "rms", "qk_norm": True},
        {"position": "rotary", "mechanism": "retention"},
        {"position": "none", "mechanism": "linear", "d_ff": 0},
    ],
)
def test_states_are_those_of_the_language_model(folder, fields):
    model = {**DECODER, **fields}
    writer = headwise.load(pretrained(folder, "language-model", model=model))
    task, child, _ = begun(started("classify", "language-model", model={**READER, **fields}))
    rows = [task.tokenizer.encode(text) for text in ("the film is really really great 3", "fine", "the film")]
    wanted = [writer.model.hidden(torch.tensor([row]))[0] for row in rows]
    tokens = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
    states, lens = child.states(tokens, torch.tensor([len(row) for row in rows]))
    for row, length, state in zip(states, lens, wanted, strict=True):
        torch.testing.assert_close(row[:length], state, rtol=1e-5, atol=1e-6)


def test_a_tagger_reads_the_words_as_the_language_model_did(folder):
    writer = headwise.load(pretrained(folder, "language-model"))
    task, child, _ = begun(started("tag", "language-model", pooling={"kind": "first"}))
    rows = encode_words([["film", "is", "dull"]], task.learned.tokenizer)
    tokens, text = padded(rows.tokens, 0), writer.tokenizer.encode(" film is dull")
    assert tokens.tolist() == [text]
    seen = []
    child.head.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    child(tokens, padded(rows.pieces, 0))
    torch.testing.assert_close(seen[0], writer.model.hidden(torch.tensor([text])), rtol=1e-5, atol=1e-6)


def test_words_have_a_space_before_them_only_where_spaces_are_kept():
    for spaces, wanted in (("kept", " b"), ("joined", "b")):
        config = headwise.data.tokenizers.TokenizerConfig(kind="word", spaces=spaces)
        words = WordTokenizer.train(["a", "b", "b"], config, SpellingConfig())
        assert [words.pieces.piece(token) for token in words.encode(["b"])[0]] == [wanted]


@pytest.mark.parametrize("task", ["classify", "tag"])
@pytest.mark.parametrize("parent", WANTED)
def test_what_is_frozen_stays(folder, task, parent):
    pretrained(folder, parent)
    values = started(task, parent, start={"frozen": True})
    before = begun(values)[1].state_dict()
    train(values, folder / "child")
    after = headwise.load(folder / "child")
    after = after.model.state_dict()
    same = {name for name in before if torch.equal(before[name], after[name])}
    assert {name for name in before if name.startswith(("embedding", "encoder"))} <= same
    assert "head.weight" not in same


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"tokenizer": {"kind": "char"}}, ConfigError, r"tokenizer.kind is 'word' there and 'char' here.*vocab_size"),
        (
            {"model": {**tiny_tasks.ATTENTION, "d_model": 6}},
            ConfigError,
            r"model.d_model is 8 there and 6 here; write \[model\] as in parent/config.toml",
        ),
        ({"model": {"kind": "cnn", "d_model": 8}}, ConfigError, "model.kind is 'attention' there and 'cnn' here"),
        # all of the same shapes
        ({"model": {**tiny_tasks.ATTENTION, "num_heads": 4}}, ConfigError, "num_heads is 2 there and 4 here"),
        ({"model": {**tiny_tasks.ATTENTION, "causal": True}}, ConfigError, "causal is False there and True here"),
        ({"model": {**tiny_tasks.ATTENTION, "segment": 3}}, ConfigError, "segment is None there and 3 here"),
        ({"vectors": {"file": "v.txt"}}, ConfigError, "both give the embeddings"),
        ({"start": {"weights": "parent"}}, ConfigError, r"name the file model.safetensors .*parent/model.safetensors"),
        ({"start": {"weights": "away/model.safetensors"}}, CheckpointError, "away/manifest.json: missing"),
        ({"start": {"weights": "parent/config.toml"}}, ConfigError, "name the file model.safetensors"),
    ],
)
def test_a_start_that_does_not_fit_is_refused(folder, fields, error, message):
    pretrained(folder, "masked-lm")
    with pytest.raises(error, match=message):
        train(started(**fields), folder / "child")


def test_a_table_of_other_places_is_refused(folder):
    model = {**tiny_tasks.ATTENTION, "position": "learned", "max_len": 256}
    pretrained(folder, "masked-lm", model=model)
    with pytest.raises(ConfigError, match=r"encoder: the weights do not fit the model: '.*' has shape .*\[model\] as"):
        train(started(model={**model, "max_len": 300}), folder / "child")


def test_a_language_model_is_read_from_its_beginning_only(folder):
    pretrained(folder, "language-model")
    fields = {"model": {**READER, "causal": False}}
    with pytest.raises(ConfigError, match=r'causal is True there and False here; .*kind = "attention", causal = true'):
        train(started("classify", "language-model", **fields), folder / "child")


def test_tokens_of_spelling_are_refused(folder):
    fields = {"spelling": {"longest": 2}, "pooling": {"place": "before"}}
    with pytest.raises(ConfigError, match="knows no tokens of spelling: leave out spelling"):
        train(started("tag", **fields), folder / "child")


def test_a_damaged_start_is_refused(folder):
    path = pretrained(folder, "masked-lm") / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(CheckpointError, match=r"model\.safetensors"):
        train(started(), folder / "child")


@pytest.mark.parametrize("config", [b"", b"task = 'x'", b"model = 3", b"\xff", b"[model"])
def test_a_run_that_says_nothing_of_its_model_is_refused(folder, config, monkeypatch):
    pretrained(folder, "masked-lm")
    model = begun(started())[1]
    whole = _start.read_folder

    def read(path):
        saved = whole(path)
        return replace(saved, files={**saved.files, "config.toml": config})

    monkeypatch.setattr(_start, "read_folder", read)
    with pytest.raises(CheckpointError, match=r"parent/config\.toml: says nothing of a model; restore it from a copy"):
        _start.take_over(model, WEIGHTS, task_of("classify", untrained(started())).config.model, frozen=False)


def test_a_run_without_an_encoder_is_no_start(folder):
    case = tiny_tasks.CASES["translate"]
    tiny_tasks.pairs(folder)
    train({**case.recipe, "task": "translate", "training": life.steps(1)}, folder / "parent")
    tokenizer = {"kind": "word"}
    with pytest.raises(ConfigError, match="has no embedding; start from a run of masked-lm, language-model"):
        train(started(tokenizer=tokenizer), folder / "child")

"""Dialogue: what is read before an answer and told of it, answers that need earlier turns, scores, explanations."""

import json

import pytest
import torch
from life import batch_of, built_of, scores_of, task_of

import headwise
from headwise.errors import ConfigError
from headwise.tasks.translation.data import BETWEEN
from headwise.tasks.translation.demo import DIALOGUE
from headwise.tasks.translation.dialogue import Dialogue
from headwise.tasks.translation.talk import UNKNOWN, dialogue
from headwise.tasks.translation.translator import distinct
from headwise.training import recipes
from headwise.training.loading import examples
from headwise.training.train import train

SIZES = {"d_model": 32, "d_ff": 48, "num_heads": 2, "dropout": 0.0, "attention_dropout": 0.0, "norm_order": "pre"}
MODEL = {"kind": "transformer", **SIZES, "encoder_layers": 1, "decoder_layers": 1}


@pytest.fixture
def make(tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps({"turns": dialogue(number)}) + "\n" for number in range(300)))

    def made(model=MODEL, **data):
        keys = {"train": str(path), "test_fraction": 0.0, "valid_fraction": 0.2, **data}
        values = {"data": keys, "tokenizer": {"kind": "word"}, "decoding": {"method": "greedy", "max_len": 7}}
        return task_of("dialogue", values | {"model": model, "label_smoothing": 0.0})

    return made


def test_sources_are_turns_with_a_token_between_and_targets_the_answers(make):
    task = make()
    found, (source, target) = task.split("valid"), task.tokenizers
    for pair, row, answer in zip(found.pairs, found.sources, found.targets, strict=True):
        turns = pair.source.split(" ||| ")
        assert len(turns) % 2
        wanted = [token for turn in turns for token in (*source.encode(turn), BETWEEN)][:-1]
        assert row.tolist() == wanted
        assert answer.tolist() == target.encode(pair.target)
    # `|||` is no word of any turn
    assert "|||" not in source.pieces()
    assert [note.split(":")[0] for note in task.assets.notes] == ["train", "valid", "test"]
    assert all(note.endswith(" dialogues") for note in task.assets.notes)


def test_what_is_not_read_is_told(make):
    told = "\n".join(make(max_source_len=20, max_target_len=3).assets.notes)
    assert " answers are longer than max_target_len 3" in told
    assert " answers the oldest turns are not read, " in told
    assert "in all (max_source_len 20)" in told
    few = make(max_turns=1)
    assert "in all (max_source_len 256, max_turns 1)" in "\n".join(few.assets.notes)
    assert not any(BETWEEN in row for row in few.split("train").sources)
    assert all(len(row) <= 20 for row in make(max_source_len=20).split("train").sources)


def test_scores_are_those_of_the_predictor(make):
    task = make()
    model = built_of(task).eval()
    scores = scores_of(task, model)
    answerer = task.predictor(model)
    pairs = task.split("valid").pairs
    told = answerer.evaluate(pairs)
    assert {name: told[name] for name in scores} == pytest.approx(scores, rel=1e-5)
    outputs, gold = answerer.answer([pair.source for pair in pairs]), [pair.target for pair in pairs]
    for n in (1, 2):
        assert told[f"distinct{n}"] == pytest.approx(distinct(outputs, n), nan_ok=True)
        assert told[f"reference_distinct{n}"] == distinct(gold, n)
    assert Dialogue.examples(task.config, "valid") == pairs


def test_distinct_counts_over_all_outputs_together():
    assert distinct(["a b a", "b"], 1) == 2 / 4
    assert distinct(["a b a", "b"], 2) == 2 / 4
    assert distinct(["", ""], 1) != distinct(["", ""], 1)
    assert distinct(["a"], 2) == 0


def test_an_answer_is_the_same_however_its_turns_are_written(make):
    task = make()
    answerer = task.predictor(built_of(task).eval())
    wanted = answerer.answer("my name is ben ||| hello ben ||| what is my name ?")
    turns = ["my name is ben", "hello ben", "what is my name ?"]
    assert answerer.answer(json.dumps({"turns": turns})) == wanted
    assert answerer.answer("my name is ben|||hello ben|||  what is my name ?") == wanted
    assert answerer.answer(["", "hi"])[0] == ""
    (output,) = answerer.predict(["hi"])
    (line,) = answerer.write("a ||| b", output, "json")
    assert json.loads(line)["turns"] == ["a", "b"]
    assert str(answerer.unknown(["what ||| zebra"])).startswith("1 of 2 words was never seen in training")
    with pytest.raises(ConfigError, match=r"'{': not valid JSON.*; write turns as 'turn \|\|\| turn'"):
        answerer.parse("{")
    with pytest.raises(ConfigError, match="answers have no --alignments: remove it"):
        answerer.options({"alignments": True})


def test_attention_is_shown_over_all_turns(make):
    task = make(max_source_len=9)
    found = task.predictor(built_of(task).eval()).explain("hi ||| my name is ben ||| what is my name ?", "your name")
    layer = found.layers[found.layer_name("decoder.blocks.0.cross_attention")]
    # the oldest turn is not read: 5 + 4 tokens and one between them are too many for both others, so one turn is left
    assert layer.keys == ["what", "is", "my", "name", "?", "<eos>"]
    assert layer.queries == ["your", "name", "<eos>"]
    whole = make().predictor(built_of(make()).eval()).explain("hi ||| what ?", "your")
    assert whole.layers["decoder.blocks.0.cross_attention"].keys == ["<unk>", "|||", "what", "?", "<eos>"]
    with pytest.raises(ConfigError, match="there is no turn to answer"):
        task.predictor(built_of(task).eval()).explain(" ||| ")


def test_a_recurrent_model_answers_too(make):
    task = make({"kind": "recurrent", "embed_dim": 6, "hidden_dim": 6, "num_layers": 1})
    assert torch.isfinite(task.loss(built_of(task), batch_of(task)))


@pytest.mark.slow
def test_answers_come_from_earlier_turns(tmp_path):
    _, path = DIALOGUE.make("dialogue", tmp_path)
    train(recipes.read(str(path), []), tmp_path / "run")
    answerer = headwise.load(tmp_path / "run")
    pairs = examples(tmp_path / "run", "test", {})
    asked = [pair for pair in pairs if pair.source.endswith("?") and pair.target != UNKNOWN]
    assert len(asked) > 100

    def right(contexts):
        said = answerer.answer(contexts)
        return sum(one == pair.target for one, pair in zip(said, asked, strict=True)) / len(asked)

    assert right([pair.source for pair in asked]) > 0.9
    # the question alone does not say what was told
    assert right([pair.source.rpartition("||| ")[2] for pair in asked]) < 0.3

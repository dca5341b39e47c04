"""Scores by length: the same places with longer contexts, files of each length, and what cannot read so far."""

import math

import numpy as np
import pytest
import torch

from headwise.compare.lengths import Lengths, extrapolate, notes, picture, rows, scores_at
from headwise.compare.sides import Cost, Side
from headwise.data.synthetic import Sizes, make
from headwise.errors import ConfigError, DataError
from headwise.tasks.text.plain import text_of
from headwise.training.loading import load
from headwise.training.train import train

TINY = {"max_steps": 2, "max_epochs": 0, "batch_tokens": 64, "warmup_steps": 1, "baseline_cpu_s": 0}
MODEL = {"kind": "decoder", "d_model": 8, "d_ff": 8, "num_heads": 2, "num_layers": 1, "dropout": 0.0}


def side(name, runs):
    return Side(name, {}, dict.fromkeys(runs, 1.0), Cost(1, 1.0, 1.0, 1), 1.0, 1.0, runs=runs)


@pytest.fixture(scope="module")
def spoken(tmp_path_factory):
    """Language models with a window of 6 characters, one with a table of positions that ends there."""
    folder = tmp_path_factory.mktemp("spoken")
    numbers = np.random.default_rng(0)
    lines = ["".join(numbers.choice(list("abc"), 19)) for _ in range(30)]
    (folder / "text.txt").write_text("\n".join(lines) + "\n")
    (folder / "test.txt").write_text("\n".join(lines[:9]) + "\n")
    runs = {}
    for position in ("alibi", "learned"):
        recipe = {
            "task": "language-model",
            "data": {"train": str(folder / "text.txt"), "test": str(folder / "test.txt"), "valid_fraction": 0.1},
            "tokenizer": {"kind": "char"},
            "model": {**MODEL, "position": position, "max_len": 6},
            "length": 6,
            "show": [],
            "decoding": {"max_len": 3},
            "training": TINY,
        }
        runs[position] = folder / position
        train(recipe, runs[position])
    return runs, lines[:9]


def test_a_longer_context_is_scored_at_the_same_places(spoken):
    runs, lines = spoken
    scores, reason = scores_at(runs["alibi"], [1, 2, 4])
    assert reason is None
    predictor = load(runs["alibi"])
    tokens = torch.from_numpy(text_of([f"{line}\n" for line in lines], predictor.tokenizer).tokens.astype(np.int64))
    ends = list(range(24, len(tokens), 6))
    for times in (1, 2, 4):
        losses = []
        for end in ends:
            with torch.no_grad():
                logits = predictor.model(tokens[None, end - 6 * times : end])[0]
            for back in range(3):
                losses.append(-float(logits[-1 - back].log_softmax(-1)[tokens[end - back]]))
        assert scores[times]["loss"] == pytest.approx(np.mean(losses), abs=1e-5)
        assert scores[times]["perplexity"] == pytest.approx(math.exp(np.mean(losses)), rel=1e-5)


def test_a_table_that_ends_is_absent_and_last(spoken):
    runs, _ = spoken
    found = extrapolate(
        [side("learned", {0: str(runs["learned"])}), side("alibi", {0: str(runs["alibi"])})], None, [1, 2]
    )
    assert found.metric == "perplexity"
    assert found.better == "low"
    assert found.order(2) == ["alibi", "learned"]
    table = {row["side"]: row for row in rows(found)}
    assert table["learned"]["x2"] is None
    assert table["learned"]["x1"] > 1
    assert table["alibi"]["x2"] > 1
    assert "learned is absent and ranked last: position" in notes(found)[1]
    assert picture(found).axes[0].get_ylabel() == "perplexity"
    with pytest.raises(DataError, match="the text has 181 tokens; 361 or more are needed"):
        scores_at(runs["alibi"], [1, 60])


def test_files_of_each_length_are_scored(tmp_path):
    make("odd", tmp_path / "odd", 1, Sizes(count=40, longest=5, times=(1, 3)))
    recipe = {
        "task": "classify",
        "data": {part: str(tmp_path / "odd" / f"{part}.tsv") for part in ("train", "valid", "test")},
        "tokenizer": {"kind": "word"},
        "model": {"kind": "token", "d_model": 8, "d_ff": 8},
        "training": TINY,
    }
    train(recipe, tmp_path / "run")
    scores, _ = scores_at(tmp_path / "run", [1, 3])
    predictor = load(tmp_path / "run")
    for times in (1, 3):
        lines = [line.split("\t") for line in (tmp_path / "odd" / f"times-{times}.tsv").read_text().splitlines()[1:]]
        assert {len(text.split()) for text, _ in lines} == {5 * times}
        right = [
            verdict.label == label
            for verdict, (_, label) in zip(predictor.classify([text for text, _ in lines]), lines, strict=True)
        ]
        assert scores[times]["accuracy"] == pytest.approx(np.mean(right))
    with pytest.raises(
        DataError, match=r"times-2.tsv: no such file; write test inputs of each length: headwise data make"
    ):
        scores_at(tmp_path / "run", [1, 2])


def test_order_and_intervals_are_those_of_the_seeds():
    scores = {
        "a": {1: {0: 0.5, 1: 0.7}, 2: {0: 0.1, 1: 0.1}},
        "b": {1: {0: 0.4, 1: 0.4}, 2: {0: 0.3, 1: 0.2}},
        "c": {1: {0: 0.9}, 2: {}},
    }
    found = Lengths("accuracy", "high", [1, 2], scores, {"c": "the table ends"})
    assert found.order(1) == ["c", "a", "b"]
    assert found.order(2) == ["b", "a", "c"]
    assert found.interval("a", 1).value == pytest.approx(0.6)
    assert found.interval("a", 1).high == pytest.approx(0.6 + 12.7062 * 0.1, rel=1e-4)
    assert found.interval("c", 2) is None
    assert [row["side"] for row in rows(found)] == ["b", "a", "c"]
    assert rows(found)[2]["x1 ±"] is None


@pytest.mark.parametrize("times", [[], [0, 1], [2, 2]])
def test_lengths_that_are_none(times):
    with pytest.raises(ConfigError, match="must be different numbers, 1 or more"):
        extrapolate([], None, times)

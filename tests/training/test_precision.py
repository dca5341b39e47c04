"""Which precision a run searches in: what is measured, remembered and said."""

import json

import pytest

from headwise import runtime
from headwise.errors import DataError
from headwise.predictors.predictor import Predictor
from headwise.predictors.twins import Choice
from headwise.training.precision import FILE, Decision, int8_gain


class Scores(Predictor):
    """Scores by precision, and what was asked for."""

    def __init__(self, **scores):
        self.scores, self.calls = scores, []

    def predict(self, items, options=None):
        return []

    def options(self, values):
        return values

    def evaluate(self, examples, *, options):
        self.calls.append((len(examples), options["method"], options["precision"]))
        return self.scores[options["precision"]]


def decision(run, predictor, *, gain=4.0, examples=lambda split: ["a"] * 300):
    (run / "manifest.json").write_text("{}")
    return Decision(run, predictor, examples, lambda: gain)


def bleu(fp32, int8):
    return Scores(fp32={"bleu": fp32, "loss": 1.0}, int8={"bleu": int8, "loss": 9.0})


@pytest.mark.parametrize(
    ("metric", "fp32", "int8", "fits"),
    [
        ("bleu", 30.0, 29.75, True),
        ("bleu", 30.0, 29.625, False),
        ("bleu", 30.0, 35.0, True),
        ("wer", 10.0, 11.0, True),
        ("wer", 10.0, 11.125, False),
        ("wer", 10.0, 3.0, True),
        ("loss", 2.0, 2.0078125, True),
        ("loss", 2.0, 2.015625, False),
        ("loss", 2.0, float("nan"), False),
    ],
)
@pytest.mark.parametrize("requested", ["auto", "int8"])
def test_8_bits_are_taken_where_they_are_as_good(tmp_path, metric, fp32, int8, fits, requested):
    predictor = Scores(fp32={metric: fp32}, int8={metric: int8})
    choice = decision(tmp_path, predictor)(requested)
    assert choice.precision == ("int8" if fits else "fp32")
    assert f"{metric} {int8:.4g} in place of {fp32:.4g} on 200 examples of the valid part" in choice.reason
    assert ("would lose too much" in choice.reason) != fits
    assert ("4.0 times the rate" in choice.reason) == (requested == "auto" and fits)
    assert predictor.calls == [(200, "greedy", "fp32"), (200, "greedy", "int8")]


def test_auto_needs_a_gain_and_a_request_does_not(tmp_path):
    predictor = bleu(30, 30)
    slow = decision(tmp_path, predictor, gain=1.25)
    assert slow("auto") == Choice("fp32", "products of 8 bits have 1.2 times the rate of float32 here")
    assert not predictor.calls
    assert slow("int8").precision == "int8"


def test_what_was_measured_is_remembered_for_the_same_weights_and_machine(tmp_path, monkeypatch):
    first = decision(tmp_path, bleu(30, 29.9))("auto")
    measured = bleu(1, 1)
    assert decision(tmp_path, measured, gain=1.0)("auto") == first
    assert not measured.calls
    (tmp_path / "manifest.json").write_text('{"other": "weights"}')
    again = Decision(tmp_path, measured, lambda split: ["a"], lambda: 4.0)
    assert again("auto").reason.endswith("bleu 1 in place of 1 on 1 examples of the valid part")
    assert len(measured.calls) == 2
    monkeypatch.setattr(runtime, "processor", lambda: "another processor")
    assert again("int8").precision == "int8"
    assert len(measured.calls) == 4


@pytest.mark.parametrize("content", ["", "[]", "{", '{"quality": {"metric": 3}}', '{"quality": null}'])
def test_a_damaged_record_is_measured_anew(tmp_path, content):
    (tmp_path / FILE).write_text(content)
    predictor = bleu(30, 30)
    assert decision(tmp_path, predictor)("int8").precision == "int8"
    assert len(predictor.calls) == 2
    assert json.loads((tmp_path / FILE).read_text())["quality"]["examples"] == "200 examples of the valid part"


def test_a_folder_that_cannot_be_written_is_measured_each_time(tmp_path):
    predictor = bleu(30, 30)
    (tmp_path / FILE).mkdir()
    for calls in (2, 4):
        assert decision(tmp_path, predictor)("int8").precision == "int8"
        assert len(predictor.calls) == calls


def test_the_test_part_is_taken_where_there_is_none_of_validation(tmp_path):
    def examples(split):
        if split == "valid":
            raise DataError("no valid part")
        return ["a", "b"]

    assert "2 examples of the test part" in decision(tmp_path, bleu(1, 1), examples=examples)("int8").reason


def test_without_examples_or_scores_auto_is_float32_and_8_bits_unchecked(tmp_path):
    def nothing(split):
        raise DataError("pairs.tsv: not found")

    unchecked = decision(tmp_path, bleu(1, 1), examples=nothing)
    assert unchecked("auto") == Choice("fp32", "there is nothing to check 8 bits by: pairs.tsv: not found")
    assert unchecked("int8").precision == "int8"
    assert "as requested; there is nothing to check 8 bits by: pairs.tsv: not found" in unchecked("int8").reason
    empty = decision(tmp_path, bleu(1, 1), examples=lambda split: [])
    assert "the run has no held-out part" in empty("auto").reason
    other = decision(tmp_path, Scores(fp32={"cer": 1.0}, int8={"cer": 1.0}))
    assert "its task has none of the scores bleu, wer, loss" in other("auto").reason


def test_a_gain_is_a_ratio_of_two_products():
    assert int8_gain() > 0

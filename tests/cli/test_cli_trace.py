"""`headwise explain --trace`, `--example` and `--ablate`: steps and effects of heads on standard output."""

import json

import numpy as np
import pytest

from headwise import load
from headwise.predictors.looking import passes
from headwise.predictors.outputs import outputs_for


def test_the_steps_of_a_translator_are_printed(headwise, trained):
    code, out, err = headwise("explain", trained, "one and two .", "--trace", "json", "--heads", "1")
    assert (code, err) == (0, ""), err
    told = json.loads(out)
    step = {each["name"]: np.array(each["values"], dtype=float) for each in told["steps"]}
    assert told["head"] == 1
    assert told["layer"].startswith("decoder")
    assert told["keys"] == ["one", "and", "two", ".", "<eos>"]
    assert step["weights"].shape == (len(told["queries"]), 5)
    np.testing.assert_allclose(step["weights"] @ step["value"], step["output"], atol=1e-5)
    assert {each["name"] for each in told["model"]} >= {"encoder", "decoder"}
    code, out, _ = headwise("explain", trained, "one and two .", "--trace", "latex", "--layer", "decoder.blocks.0.*")
    assert code == 2


def test_an_example_needs_no_run(headwise, untyped):
    code, out, err = headwise("explain", "--example", "illustrated")
    assert (code, err) == (0, "")
    assert "| **x2** | 4 | 16 | 12 |" in out
    code, out, _ = headwise("explain", "--example", "illustrated", "--trace", "csv")
    assert "scores,1,1,,x2,x2,16.0" in out.splitlines()


def test_vectors_may_be_columns(headwise, trained):
    code, out, _ = headwise("explain", "--example", "illustrated", "--columns")
    assert code == 0
    assert "## output: $O = V A$" in out
    told = {}
    for extra in ((), ("--columns",)):
        code, out, _ = headwise("explain", trained, "one and two .", "--trace", "json", *extra)
        assert code == 0
        told[extra] = {step["name"]: np.array(step["values"], dtype=float) for step in json.loads(out)["steps"]}
    for name, values in told[()].items():
        np.testing.assert_array_equal(told["--columns",][name], values.swapaxes(-1, -2))


def test_what_does_not_fit_together_is_said(headwise, trained):
    wrong = {
        ("--example", "picture"): "error: --example: unknown example 'picture'",
        ("--example", "illustrated", trained): "error: --example needs no run, no input and none of their options",
        ("--example", "illustrated", "--heads", "0"): "error: --example needs no run, no input and none",
        ("nowhere", "one", "--trace", "xml"): "error: --trace: unknown form 'xml'",
        (
            trained,
            "one",
            "--columns",
        ): "error: --columns goes with --trace or --example: add --trace markdown, or leave",
        (): "error: give a run folder and an input, or --example illustrated",
        (trained,): "error: give a run folder and an input, or --example illustrated",
        (trained, "one", "--trace", "xml"): "error: --trace: unknown form 'xml'",
        (trained, "one", "--trace", "csv", "--heads", "0,1"): "error: --trace shows one head: give --heads one number",
        (trained, "one", "--trace", "csv", "--heads", "9"): "head 9 is not there",
        (trained, "one", "--ablate", "--heads", "1"): "error: --ablate lists every head; leave",
        (trained, "one", "--ablate", "--table"): "error: --ablate lists every head; leave",
        (trained, "one", "--ablate", "--html", "a.html"): "error: --ablate lists every head; leave",
        ("--example", "illustrated", "--html", "a.html"): "error: --example needs no run, no input and none",
        ("--example", "illustrated", "--ablate"): "error: --example needs no run, no input and none",
    }
    for given, message in wrong.items():
        code, out, err = headwise("explain", *given)
        assert (code, out) == (2, "")
        assert message in err


def test_what_each_head_does_is_printed_most_first(headwise, trained):
    code, out, err = headwise("explain", trained, "one and two .", "--ablate")
    assert (code, err) == (0, ""), err
    heading, *rows = [line.split() for line in out.splitlines()]
    assert heading[:3] == ["layer", "head", "KL,"]
    found = [(layer, int(head), float(divergence)) for layer, head, divergence, _ in rows]
    assert {(layer, head) for layer, head, _ in found} == heads_of(load(trained))
    assert [each[2] for each in found] == sorted((each[2] for each in found), reverse=True)
    assert found[0][2] > 0


def heads_of(predictor):
    """Every layer and head that an input goes through."""
    with passes() as model_passes:
        predictor.explain("one and two .")
    return {(each.name, head) for each in model_passes[-1].trace for head in range(each.num_heads)}


def test_a_file_without_measurements_is_refused_before_anything_is_loaded(headwise, tmp_path):
    (tmp_path / "lengths.json").write_text("no json")
    code, out, err = headwise("explore", tmp_path, "--bench", tmp_path / "lengths.json", "--no-browser")
    assert (code, out) == (3, "")
    assert "lengths.json: is no JSON; python -m benchmarks.lengths --json FILE writes it" in err


def test_probabilities_of_each_output_are_a_table_and_a_picture(headwise, trained, tmp_path):
    drawn = ("--of", "probabilities", "--folder", tmp_path, "--top", 2)
    code, out, err = headwise("explain", trained, "one and two .", *drawn, "--target", "zwei .")
    assert (code, err) == (0, "")
    *lines, path = out.splitlines()
    assert path == str(tmp_path / "probabilities.png")
    predictor = load(trained)
    answer = outputs_for(predictor, predictor.parse("one and two ."), "zwei .")
    assert len(lines) == len(answer.values) == len(answer.chosen)
    for line, row in zip(lines, answer.values, strict=True):
        best = np.sort(np.exp(row))[::-1]
        assert [float(part.split()[-1]) for part in line.split(", ")] == [round(share, 4) for share in best[:2]]
        assert np.exp(row).sum() == pytest.approx(1.0)
    code, out, err = headwise("explain", trained, "one and two .", "--of", "probabilities", "--table")
    assert (code, err, "probabilities.png" in out) == (0, "", False)
    assert headwise("explain", trained, "one", "--of", "probabilities", "--all")[0] == 2
    assert headwise("explain", trained, "--of", "probabilities")[0] == 2


def test_a_run_is_explained_without_an_input(headwise, trained, tmp_path):
    code, out, err = headwise("explain", trained, "--of", "model", "--folder", tmp_path, "--format", "svg,png")
    assert (code, err) == (0, "")
    assert out.split() == [str(tmp_path / "model.svg"), str(tmp_path / "model.png")]
    assert (tmp_path / "model.png").stat().st_size > 5000
    code, out, err = headwise("explain", trained, "--of", "pronouns")
    assert (code, err) == (0, "")
    # a model of numbers knows none of these words, and says so
    assert sum(line.startswith("  unknown to this model: ") for line in out.splitlines()) == 5
    assert "  it → animal" in out
    wrong = {
        ("--of", "pronoun"): "error: --of: unknown thing to explain 'pronoun'; did you mean 'pronouns'",
        ("one", "--of", "model"): "error: --of model needs a run folder, or a Hugging Face one, and no input",
    }
    for given, message in wrong.items():
        code, out, err = headwise("explain", trained, *given)
        assert (code, out) == (2, "")
        assert message in err

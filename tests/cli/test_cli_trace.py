"""`headwise explain --trace` and `--example`: the steps of a head on standard output."""

import json

import numpy as np


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


def test_an_example_needs_no_run(headwise):
    code, out, err = headwise("explain", "--example", "illustrated")
    assert (code, err) == (0, "")
    assert "| **x2** | 4 | 16 | 12 |" in out
    code, out, _ = headwise("explain", "--example", "illustrated", "--trace", "csv")
    assert "scores,1,1,,x2,x2,16.0" in out.splitlines()


def test_what_does_not_fit_together_is_said(headwise, trained):
    wrong = {
        ("--example", "picture"): "error: --example: unknown example 'picture'",
        ("--example", "illustrated", trained): "error: --example needs no run, no input and none of their options",
        ("--example", "illustrated", "--heads", "0"): "error: --example needs no run, no input and none",
        ("nowhere", "one", "--trace", "xml"): "error: --trace: unknown form 'xml'",
        (): "error: give a run folder and an input, or --example illustrated",
        (trained,): "error: give a run folder and an input, or --example illustrated",
        (trained, "one", "--trace", "xml"): "error: --trace: unknown form 'xml'",
        (trained, "one", "--trace", "csv", "--heads", "0,1"): "error: --trace shows one head: give --heads one number",
        (trained, "one", "--trace", "csv", "--heads", "9"): "head 9 is not there",
    }
    for given, message in wrong.items():
        code, out, err = headwise("explain", *given)
        assert (code, out) == (2, "")
        assert message in err

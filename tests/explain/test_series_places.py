"""What a page is told of a series."""

import json

import numpy as np

from headwise.explain.places import OnSeries

PAST, AHEAD = np.arange(6.0).reshape(3, 2) / 3, np.array([[2.5, -1.0]])
STEPS = ["-2", "-1", "0", "+1"]


def test_only_steps_in_a_row_are_an_axis_of_steps():
    series = OnSeries("", ["a", "b"], PAST, AHEAD, None)
    for labels in (STEPS, STEPS[:3], STEPS[3:]):
        assert series.axis(labels) == {"kind": "steps", "before": 0}
    assert series.axis(["<cls>", *STEPS[:3]]) == {"kind": "steps", "before": 1}
    for labels in ([], ["forecast"], ["-2", "0"], ["0", "-1"], [*STEPS, "+2"]):
        assert series.axis(labels) is None, labels


def test_the_description_has_the_numbers_of_each_column():
    told = OnSeries("x", ["a", "b"], PAST, AHEAD, AHEAD + 1).description()
    assert json.loads(json.dumps(told)) == {
        "kind": "series",
        "name": "x",
        "columns": [
            {"name": "a", "past": [0.0, 0.666667, 1.33333], "ahead": [2.5], "truth": [3.5]},
            {"name": "b", "past": [0.333333, 1.0, 1.66667], "ahead": [-1.0], "truth": [0.0]},
        ],
    }
    assert OnSeries("x", ["a"], PAST, AHEAD, None).description()["columns"][0]["truth"] is None

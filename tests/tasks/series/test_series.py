"""Series from tables: what is read, what is refused by line, their times, and their parts in time."""

import json
import math

import numpy as np
import pytest

from headwise.config import build
from headwise.data.bad_lines import BadLine
from headwise.errors import ConfigError, DataError
from headwise.tasks.series.data import (
    Scaling,
    Series,
    SeriesConfig,
    Span,
    WindowTable,
    numeric_columns,
    parted,
    read_file,
    read_parts,
    scan_steps,
    windows,
)
from headwise.tasks.series.report import SERIES


@pytest.fixture
def table(tmp_path):
    def made(content, name="s.csv", **fields):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path, build(SeriesConfig, {"train": str(path), **fields}, "data")

    return made


def test_columns_of_numbers_are_found_and_read(table):
    path, config = table(",when,load,place,temp\n0,2026-01-01,1,here,-2.5\n1,2026-01-02,1e1,here, 3 \n")
    assert numeric_columns(path, config) == (["load", "temp"], ["", "when", "place"])
    (one,) = read_file(path, config)
    assert (one.name, one.columns, one.times, len(one)) == ("", ("load", "temp"), None, 2)
    assert one.values.tolist() == [[1.0, -2.5], [10.0, 3.0]]
    assert one.of(["temp"]).tolist() == [[-2.5], [3.0]]
    with pytest.raises(
        DataError, match=r"the series: unknown column 'tmep'; did you mean 'temp'\?; the model reads it"
    ):
        one.of(["tmep"])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("s.tsv", "id\tt\tx\nb\t1\t5\na\t7\t6\nb\t2\t7\n"),
        ("s.jsonl", '{"id": "b", "t": 1, "x": 5}\n{"id": "a", "t": 7, "x": 6.0}\n\n{"x": 7, "id": "b", "t": 2}\n'),
        ("s.csv", 'id,t,x\n"b",1,5\na,7,6\nb,2,7'),
    ],
)
def test_several_series_in_a_file(table, name, content):
    path, config = table(content, name, series="id", time="t")
    two, one = read_file(path, config)
    assert [(found.name, found.values.ravel().tolist(), found.times.tolist()) for found in (one, two)] == [
        ("a", [6.0], [7.0]), ("b", [5.0, 7.0], [1.0, 2.0])
    ]  # fmt: skip


def test_the_first_cell_that_is_not_empty_tells_what_a_column_is(table):
    path, config = table("x,y,z\n,a,1\nNA,,2\n3,,3\n", missing="previous")
    assert numeric_columns(path, config) == (["x", "z"], ["y"])
    with pytest.raises(
        DataError, match=r"s.csv:2: column 'x': there is no number; write one, or take that of the step"
    ):
        read_file(path, config)
    path, config = table("x\n1\n\nNaN\n3\n-\n", missing="previous")
    (one,) = read_file(path, config)
    assert (one.values.ravel().tolist(), one.filled) == ([1.0, 1.0, 3.0, 3.0], 2)


@pytest.mark.parametrize(
    ("content", "fields", "message"),
    [
        (b"", {}, r"s.csv: (the file )?is empty|s.csv: there is nothing in it"),
        ("\n \n", {}, r"s.csv: there is nothing in it; restore it or name another file"),
        (
            "x,y\n",
            {},
            r"s.csv: no column of it holds numbers, with digits and a point such as -0.5; write a heading, and a",
        ),
        ("x\n", {"columns": ["x"]}, r"s.csv: no time steps in it; write a row of numbers for each"),
        ("a,b\nx,y\n", {}, r"s.csv: no column of it holds numbers"),
        (",x\n0,2\n", {"columns": [""]}, r"s.csv:1: a column without a name is asked for; name it in the file"),
        (",x\n0,2\n", {"time": ""}, r"s.csv:1: a column without a name is asked for"),
        ("1,2\n3,4\n", {}, r"s.csv:1: numbers, where names of columns are expected; write a line of names above them"),
        (
            "x\n1\n\n \n?\n2\n",
            {},
            r"s.csv:5: column 'x': there is no number; write one, or take that of the step before",
        ),
        ("x\n1\nabc\n", {}, r"s.csv:3: column 'x': 'abc' is no number; write it with digits and a point"),
        ("x\n1\ninf\n", {}, r"s.csv:3: column 'x': 'inf' is no number"),
        ("x\n1\n1e400\n", {}, r"s.csv:3: column 'x': the number is too large"),
        ("x\n1\n-2e31\n", {}, r"s.csv:3: column 'x': the number is beyond 1e\+30; give it in a larger unit"),
        ("x,y\n1,2\n3\n", {}, r"s.csv:3: 1 column, the first line has 2"),
        ("x,y\n1,2\n3,4,5\n", {}, r"s.csv:3: 3 columns, the first line has 2; put a text with a delimiter in quotes"),
        ("x,x\n1,2\n", {}, r"s.csv:1: two columns are named 'x'; give each a name of its own"),
        (
            "x,y\n1,2\n",
            {"columns": ["x", "z"]},
            r"named 'z', but 'x', 'y'; say with data.columns, data.series and data.time what yours are called$",
        ),
        ("t,x\n2,1\n2,1\n", {"time": "t"}, r"s.csv:3: column 't': the time is not later than that of line 2; sort the"),
        (
            "t,x\n2026-01-02,1\n2026-01-01,1\n",
            {"time": "t"},
            r"s.csv:3: column 't': the time is not later than that of",
        ),
        (
            "t,x\n2026-13-02,1\n",
            {"time": "t"},
            r"s.csv:2: column 't': '2026-13-02' is no date; write a number or an ISO",
        ),
        ("t,x\n,1\n", {"time": "t"}, r"s.csv:2: column 't': the number is empty"),
        ("i,x\n,1\n", {"series": "i"}, r"s.csv:2: column 'i': the name of the series is empty; write one or remove"),
        (b"x\n1\n\xff\n", {}, r"s.csv:3: byte 4 \(0xff\) is not UTF-8"),
        (b"x\n1\n2\x003\n", {}, r"s.csv:3: .*NUL"),
        (b"\x1f\x8b\x08\x00cut", {}, r"s.csv.*gzip"),
        (b"PK\x03\x04\x00\x00rest", {}, r"s.csv:1: .*a zip archive; unpack it first"),
        ('x\n"1\n', {}, r"s.csv:2: a quote opens in this row and is never closed"),
    ],
)
def test_what_cannot_be_read_is_refused_by_line(table, content, fields, message):
    path, config = table(content, **fields)
    with pytest.raises(DataError, match=message):
        read_file(path, config)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"x": 1}\n{"y": 1}\n', r"s.jsonl:2: missing field 'x'"),
        ('{"x": 1}\n{"x": true}\n', r"s.jsonl:2: column 'x': the cell must be a number, got true or false"),
        ('{"x": 1}\n{"x": [1]}\n', r"s.jsonl:2: column 'x': the cell must be a number, got an array"),
        ('{"x": 1}\n{"x": null}\n', r"s.jsonl:2: column 'x': there is no number"),
        ('{"x": 1}\n{"x": NaN}\n', r"s.jsonl:2: .*NaN"),
        ("[1]\n", r"s.jsonl:1: expected a JSON object, got an array; write one object a line"),
        ("{}\n", r"s.jsonl: there is nothing in it"),
        ("\n", r"s.jsonl: there is nothing in it"),
    ],
)
def test_objects_that_cannot_be_read(table, content, message):
    path, config = table(content, "s.jsonl")
    with pytest.raises(DataError, match=message):
        read_file(path, config)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"columns": ["a", "b", "a"]}, r"data: columns name 'a' twice; leave one out"),
        ({"columns": ["a"], "targets": ["b"]}, r"data.targets: unknown column 'b'; known: a"),
        ({"columns": ["a"], "time": "a"}, r"time = 'a' is among columns, the numbers read; leave one out"),
        (
            {"valid_fraction": 0.5, "test_fraction": 0.5},
            r"valid_fraction \(0.5\) and test_fraction \(0.5\) must together",
        ),
        ({"season": 0}, r"data.*season"),
    ],
)
def test_keys_that_do_not_fit(fields, message):
    with pytest.raises(ConfigError, match=message):
        build(SeriesConfig, {"train": "s.csv", **fields}, "data")


def test_times_go_on_where_they_are_even():
    values = np.zeros((3, 1))

    def after(times, **fields):
        return Series("", ("x",), values, np.array(times), **fields).next_times(2)

    assert after([1.0, 1.5, 2.0]) == ["2.5", "3"]
    assert after([0.0, 86400.0, 2 * 86400.0], dated=True) == ["1970-01-04", "1970-01-05"]
    assert after([0.0, 90000.0, 180000.0], dated=True) == ["1970-01-04T03:00:00", "1970-01-05T04:00:00"]
    assert after([0.0, 1.0, 3.0]) == ["+1", "+2"]
    assert after([0.0, 1e12, 2e12], dated=True) == ["+1", "+2"]
    assert Series("", ("x",), values).next_times(1) == ["+1"]
    assert Series("", ("x",), values[:1], np.array([4.0])).next_times(1) == ["+1"]
    assert Series("", ("x",), values).even()
    # a series of one step has no gap to differ
    assert Series("", ("x",), values[:1], np.array([7.0])).even()
    assert not Series("", ("x",), values, np.array([0.0, 1.0, 3.0])).even()


def test_training_tells_nothing_of_what_is_held_out(table):
    _path, config = table("x\n" + "".join(f"{step}\n" for step in range(50)))
    parts = read_parts(config, 8, 3)
    cut = {part: [(span.start, span.end) for span in spans] for part, spans in parts.spans.items()}
    assert cut == {"train": [(0, 35)], "valid": [(35, 40)], "test": [(40, 50)]}
    scaling = parts.scaling()
    assert (scaling.means, scaling.deviations) == ((17.0,), (pytest.approx(np.arange(35).std()),))
    seen = {}
    for part, spans in parts.spans.items():
        rows = WindowTable(spans, scaling, 8, 3).rows(range(len(WindowTable(spans, scaling, 8, 3))))
        steps = np.round(rows[..., 0].double().numpy() * scaling.deviations[0] + 17).astype(int)
        assert (np.diff(steps) == 1).all()
        seen[part] = {int(step) for row in steps for step in row[8:]}
        places = [window.place for window in windows(spans, 8, 3)]
        assert places == (steps[:, 8]).tolist()
    assert seen == {"train": set(range(8, 35)), "valid": set(range(35, 40)), "test": set(range(40, 50))}


def test_short_series_are_left_out_and_told(table):
    rows = [f"{name},{step}" for name, count in (("long", 60), ("short", 9)) for step in range(count)]
    _path, config = table("\n".join(["id,x", *rows]), series="id")
    parts = read_parts(config, 6, 3)
    assert any(
        note.startswith("train: 48 steps in 2 series, 34 windows; too short for a window, left out: 1 series ('short')")
        for note in parts.notes
    )
    with pytest.raises(
        DataError, match=r"s.csv: no window of 60 \+ 3 steps in the train part, whose longest series has 42"
    ):
        read_parts(config, 60, 3)
    with pytest.raises(
        DataError, match=r"no window of 6 \+ 7 steps in the valid part, whose longest series has 6; lower"
    ):
        read_parts(config, 6, 7)


def test_files_for_the_other_parts(table, tmp_path):
    (tmp_path / "v.csv").write_text("y,x\n" + "".join(f"0,{step}\n" for step in range(20)))
    _path, config = table(
        "t,x\n" + "".join(f"{step * step},{step}\n" for step in range(30)),
        valid=str(tmp_path / "v.csv"),
        test=str(tmp_path / "s.csv"),
        time=None,
        columns=["x"],
    )
    parts = read_parts(config, 4, 2)
    cut = {part: [(span.start, span.end) for span in spans] for part, spans in parts.spans.items()}
    assert cut == {"train": [(0, 30)], "valid": [(0, 20)], "test": [(0, 30)]}
    assert "test: is the same file as train, so its scores are of what was trained on" in parts.notes
    assert not any(note.startswith("valid: is the same") for note in parts.notes)
    assert set(parts.digests) == {"train", "valid", "test"}


def test_what_is_odd_is_told(table):
    rows = "".join(f"{step * step},{step if step != 7 else ''},5,here\n" for step in range(40))
    path, config = table("t,x,y,where\n" + rows, time="t", missing="previous", valid_fraction=0.0)
    notes = read_parts(config, 4, 2).notes
    assert "columns without a name or without numbers, not read: 'where'" in notes
    assert "train: 1 missing numbers are those of the step before" in notes
    assert "train: the steps of the series are not even in time, but are taken as even" in notes
    assert "train: column 'y' is the same number throughout, so nothing can be learned of it" in notes
    assert parted(read_file(path, config), config, {"test"}).keys() == {"train"}


def test_a_scale_goes_to_a_file_and_back():
    scaling = Scaling(("a", "b"), ("b",), (1.0, 1 / 3), (2.0, 0.1))
    assert Scaling.from_json(json.loads(scaling.to_bytes())) == scaling
    assert scaling.target_columns == [1]
    np.testing.assert_allclose(scaling.restored(np.array([[2.0]])), [[0.2 + 1 / 3]])
    wrong = [b"", b"[]", b"{}", scaling.to_bytes().replace(b"2.0", b"0.0"), scaling.to_bytes().replace(b"0.1", b"NaN")]
    wrong += [scaling.to_bytes().replace(b'"b"', b'"c"', 1).replace(b'"a"', b'"c"')]
    for content in wrong:
        with pytest.raises((ValueError, TypeError, KeyError)):
            Scaling.from_json(json.loads(content))


def test_windows_of_a_span_that_begins_late():
    values = np.arange(30.0)[:, None]
    spans = [Span(Series("a", ("x",), values), 20, 26), Span(Series("b", ("x",), values + 100), 0, 7)]
    table = WindowTable(spans, Scaling(("x",), ("x",), (0.0,), (1.0,)), 4, 2)
    assert table.rows(range(len(table)))[:, 0, 0].tolist() == [16, 17, 18, 19, 20, 100, 101]
    assert WindowTable([], Scaling(("x",), ("x",), (0.0,), (1.0,)), 4, 2).rows([]).shape == (0, 6, 1)


def test_report_of_series(table):
    _path, config = table("t,x,note\n1,2,a\n2,,b\n3,oops,c\n3,4,d\n9,6,e\n", time="t", missing="previous")
    (found,) = SERIES.inspect(config)
    assert (found.good, found.bad.total, dict(found.odd.counts)) == (4, 1, {"missing numbers": 1, "uneven time": 1})
    assert found.values()["columns"] == {"x": {"least": 2.0, "mean": 3.5, "greatest": 6.0}}
    assert "  not read: 'note'" in found.lines()
    _path, config = table("x\n1\n?\n")
    (found,) = SERIES.inspect(config)
    assert found.bad.counts == {"cells": 1}


def test_a_bad_line_does_not_end_the_reading(table):
    path, config = table("x\n1\noops\n3\n")
    found = list(scan_steps(path, config, ["x"]))
    assert [isinstance(one, BadLine) for one in found] == [False, True, False]
    assert math.isclose(found[2].numbers[0], 3.0)

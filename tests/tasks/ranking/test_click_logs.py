"""Logs of clicks: what is read, how each fault is told, what follows what, which part it is in, what is drawn."""

import gzip
from collections import Counter

import numpy as np
import pytest

from headwise.config import build
from headwise.data.bad_lines import BadLine
from headwise.errors import ConfigError, DataError
from headwise.tasks.ranking.choices import (
    Catalogue,
    ChoiceTable,
    Negatives,
    NegativesConfig,
    choice_of,
    read_choices,
    read_log,
)
from headwise.tasks.ranking.click_logs import ClicksConfig, scan_clicks

LOG = 'session ID;"the item";colour;n;label\n1;A;red;2;1\n1;"B ";;1;0\n2;A;red;1;true\n1;C;blue;3;1\n'
KEYS = {"session": "session ID", "item": "the item", "features": ["colour"], "delimiter": ";"}


def config(**fields):
    return build(ClicksConfig, {"train": "unread"} | fields, "recipe")


@pytest.fixture
def write(tmp_path):
    def written(text, name="log.csv"):
        data = text if isinstance(text, bytes) else text.encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return str(tmp_path / name)

    return written


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz", "log.tsv"])
def test_quoted_headings_and_other_separators(write, name):
    text = LOG if "csv" in name else LOG.replace(";", "\t").replace('"', "")
    found = list(scan_clicks(write(text, name), config(**KEYS, order="n", label="label")))
    assert [(click.session, click.item, click.features, click.order, click.chosen, click.line) for click in found] == [
        ("1", "A", ("red",), 2.0, True, 2),
        ("1", "B", ("",), 1.0, False, 3),
        ("2", "A", ("red",), 1.0, True, 4),
        ("1", "C", ("blue",), 3.0, True, 5),
    ]


def test_json_lines_and_dates(write):
    lines = '{"session": 7, "item": "a", "at": "2026-01-31"}\n{"session": 7, "item": 3, "at": "2026-01-31T01:00:00Z"}\n'
    first, second = scan_clicks(write(lines, "log.jsonl"), config(order="at"))
    assert (first.session, second.item, second.order - first.order) == ("7", "3", 3600.0)


@pytest.mark.parametrize(
    ("text", "fields", "message"),
    [
        ("session,item\ns,\n", {}, r"log.csv:2: column 'item': the name is empty; write one or remove the row"),
        ("session,item\ns,a,b\n", {}, r"log.csv:2: 3 columns, the first line has 2"),
        ("session;item\ns;a\n", {}, r"log.csv:1: one column with semicolons in it, no 'session'; set data.delimiter"),
        ("session,thing\ns,a\n", {}, r"log.csv:1: no column is named 'item', .*say with data.session, data.item"),
        ("session,item,item\ns,a,b\n", {}, r"log.csv:1: two columns are named 'item'"),
        ("session,item,n\ns,a,nan\n", {"order": "n"}, r"log.csv:2: 'nan' is no number"),
        ("session,item,n\ns,a,1e999\n", {"order": "n"}, r"log.csv:2: the number is too large"),
        ("session,item,n\ns,a,\n", {"order": "n"}, r"log.csv:2: the number is empty"),
        ("session,item,n\ns,a,2026-13-01\n", {"order": "n"}, r"log.csv:2: '2026-13-01' is no date; write a number or"),
        (
            "session,item,y\ns,a,2\n",
            {"label": "y"},
            r"log.csv:2: column 'y': must be 1 \(chosen\) or 0 \(left\), got '2'",
        ),
        ('session,item\ns,"a\n', {}, r"log.csv:2: a quote opens in this row and is never closed"),
        (b"session,item\ns,\xff\n", {}, r"log.csv:2: .*UTF-8"),
        (b"session,item\ns,a\0b\n", {}, r"log.csv:2: .*NUL"),
        ("session,item\ns,a\n" + "s,b" * 99 + "\n", {"max_line_bytes": 50}, r"log.csv:3: the line is longer than 50"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(write, text, fields, message):
    with pytest.raises(DataError, match=message):
        read_log(config(train=write(text), **fields))


def test_bad_lines_are_skipped_and_counted(write):
    path = write("session,item\n" + "s,a\ns,b\n" * 20 + "s,\n")
    log = read_log(config(train=path, bad_lines="skip", valid_fraction=0, test_fraction=0))
    assert len(log.parts["train"]) == 39
    assert log.notes[0] == "train: 1 bad line skipped: fields 1 (line 42)"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"split": "time"}, "needs data.time"),
        ({"split": "time", "time": ["t"]}, "needs data.valid_from or data.test_from"),
        ({"split": "time", "time": ["t"], "test_from": [1, 2]}, "data.test_from names more numbers than data.time"),
        ({"split": "time", "time": ["t"], "test_from": [1], "valid_from": [1]}, "valid_from must come before"),
        ({"split": "time", "time": ["t"], "test_from": ["soon"]}, "data.test_from: 'soon' is no number"),
        ({"features": ["item"]}, "the column 'item' has two uses"),
        ({"delimiter": "ab"}, "delimiter must be one character"),
    ],
)
def test_settings_that_do_not_fit(fields, message):
    with pytest.raises(ConfigError, match=message):
        config(**fields)


def test_a_split_by_time_never_shows_what_came_later(write):
    rows = [("s", "a", 4, 1), ("s", "d", 6, 2), ("t", "x", 5, 1), ("s", "b", 4, 2), ("s", "c", 5, 9), ("s", "e", 6, 3)]
    text = "session,item,month,day\n" + "".join(",".join(map(str, row)) + "\n" for row in [*rows, ("t", "y", 4, 2)])
    how = {"split": "time", "time": ["month", "day"], "valid_from": [5], "test_from": [6, 2]}
    log = read_log(config(train=write(text), **how))
    # in the order of the file, since no column orders the clicks of a session
    assert {part: [(one.history, one.candidates[0]) for one in found] for part, found in log.parts.items()} == {
        "train": [(("a", "d"), "b"), (("x",), "y")],
        "valid": [(("a", "d", "b"), "c")],
        "test": [(("a",), "d"), (("a", "d", "b", "c"), "e")],
    }
    assert sorted(click.item for click in log.trained) == ["a", "b", "y"]
    with pytest.raises(DataError, match="leaves no choices for the test part"):
        read_log(config(train=write(text), **(how | {"test_from": [7]})))


def test_a_split_by_session_keeps_sessions_whole(write):
    text = "session,item\n" + "".join(f"s{n % 40},i{n % 7}\n" for n in range(160))
    log = read_log(config(train=write(text), valid_fraction=0.2, test_fraction=0.2))
    sessions = [{one.session for one in found} for found in log.parts.values()]
    assert sum(map(len, sessions)) == len(set.union(*sessions)) == 40
    assert all(len(one.history) == 1 + place for place, one in enumerate(log.parts["valid"][:3]))


def test_shown_and_left_is_ranked_but_no_history(write):
    log = read_log(config(train=write(LOG), **KEYS, order="n", label="label", valid_fraction=0, test_fraction=0))
    assert [(one.history, one.candidates, one.labels) for one in log.parts["train"]] == [(("A",), ("C",), (True,))]
    whole = config(train=write(LOG), **KEYS, order="n", label="label", min_history=0, valid_fraction=0, test_fraction=0)
    found = [(one.history, one.candidates[0], one.labels[0]) for one in read_log(whole).parts["train"]]
    assert found == [((), "B", False), ((), "A", True), (("A",), "C", True), ((), "A", True)]


@pytest.fixture
def catalogue(write):
    log = read_log(config(train=write(LOG), **KEYS, valid_fraction=0, test_fraction=0))
    return Catalogue.of(log.trained, ("colour",), ())


def test_items_have_the_features_of_most_of_their_rows(write, catalogue):
    assert catalogue.names == ["A", "B", "C"]
    assert catalogue.sizes("sku") == {"sku": 4, "colour": 4}
    # "", blue, red
    assert catalogue.table().tolist() == [[0], [3], [1], [2]]
    assert catalogue.counts().tolist() == [2, 1, 1]
    assert catalogue.number("Z") == 0
    # a feature may be called what the items are called elsewhere
    named = Catalogue(catalogue.items, ("item",), (), catalogue.values)
    assert named.sizes("sku") == {"sku": 4, "item": 4}


@pytest.mark.parametrize(("by", "odds"), [("uniform", [1, 1, 1, 0]), ("popularity", [6, 1, 3, 0])])
def test_negatives_are_never_the_choice_and_as_frequent_as_asked(by, odds):
    counts = np.array([6, 1, 3, 2 if by == "uniform" else 0])
    odds = [1, 1, 1, 1] if by == "uniform" else odds
    drawn = Negatives(counts, NegativesConfig(by=by)).draw(np.array([1, 3, 0]), 4000, 5)
    for chosen, row in zip((1, 3, 0), drawn, strict=True):
        wanted = np.array([0 if place == chosen else odd for place, odd in enumerate(odds, 1)], float)
        found = Counter(row.tolist())
        assert [found[place] / 4000 for place in (1, 2, 3, 4)] == pytest.approx(wanted / wanted.sum(), abs=0.03)


def test_negatives_follow_from_seed_and_pass_alone():
    one = Negatives(np.ones(50, int), NegativesConfig(seed=1))
    chosen = np.arange(1, 21)
    whole = one.draw(chosen, 6, 0)
    assert (one.draw(chosen[:5], 6, 0) == whole[:5]).all()
    assert (one.draw(chosen, 6, 1) != whole).any()
    assert (Negatives(np.ones(50, int), NegativesConfig(seed=2)).draw(chosen, 6, 0) != whole).any()
    with pytest.raises(DataError, match="fewer than two"):
        Negatives(np.array([1, 0]), NegativesConfig(by="popularity"))


def test_batches_hold_the_latest_of_a_history_and_the_time_since(catalogue):
    record = '{"history": ["A", "B", "Z", "C"], "times": [0, 5, 6, 8.5], "time": 9, "candidates": ["C", "A"]}'
    table = ChoiceTable(
        [choice_of(record, ()), choice_of('{"history": [], "candidates": ["B", "Z"]}', ())], catalogue, 3
    )
    batch = table.batch([1, 0])
    assert batch.history.tolist() == [[0, 0, 0], [2, 0, 3]]
    assert batch.gaps.tolist() == [[0, 0, 0], [3, 3, 1]]
    assert (batch.lens.tolist(), batch.candidates.tolist()) == ([0, 3], [[2, 0], [3, 1]])
    assert table.batch([1]).history.shape == (1, 1)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"histroy": []}', "unknown field 'histroy'; did you mean 'history'?"),
        ('{"candidates": ["a"]}', "missing field 'history'"),
        ('{"history": [1]}', "entry 1 is a number"),
        ('{"history": ["a"], "times": [1, 2]}', "'times' has 2 numbers, 'history' 1 items"),
        ('{"history": ["a"], "times": ["x"]}', "must hold numbers"),
        ('{"history": ["a"], "time": true}', "must hold numbers"),
        ('{"history": [], "candidates": []}', "'candidates' is empty; leave it out to rank all items"),
        ('{"history": [], "user": {"age": 3}}', "has 'age', but the model knows of a user: country"),
        ('{"history": [], "user": {"country": 0.5}}', "must be text or a whole number"),
        ('{"history": []', "not valid JSON"),
    ],
)
def test_lines_that_are_no_choice(write, line, message):
    path = write(f"A B\n\n{line}\n", "choices.txt")
    with pytest.raises(BadLine, match=rf"choices.txt:3: .*{message.replace('?', '.')}"):
        list(read_choices(path, ("country",)))
    assert [one.history for one in read_choices(write("A B\n\n", "two.txt"), ())] == [("A", "B"), ()]

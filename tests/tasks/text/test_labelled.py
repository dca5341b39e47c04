"""Labelled texts from CSV, TSV and JSON lines: what is read, and how each fault is told."""

import gzip

import pytest

from headwise.config import build
from headwise.data.bad_lines import BadLine, BadLines, strict
from headwise.data.tables import Table, named_format, scan_rows
from headwise.errors import ConfigError, DataError
from headwise.tasks.text.labelled import Labelled, LabelledConfig, read_texts, scan_labelled


@pytest.fixture
def write(tmp_path):
    def written(text, name="data.csv"):
        path = tmp_path / name
        data = text if isinstance(text, bytes) else text.encode()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return written


def config(**fields):
    return build(LabelledConfig, {"train": "unread"} | fields, "recipe")


def rows_of(path, numbers=False, **fields):
    return [
        (item.text, item.label, item.line) for item in strict(scan_labelled(path, config(**fields), numbers=numbers))
    ]


CSV = 'id,label,text\n1,good,"a film, ""fine""\nand long"\n\n2,bad,so  so\n'


@pytest.mark.parametrize("name", ["data.csv", "data.csv.gz", "data.CSV", "unnamed"])
@pytest.mark.parametrize("change", [lambda text: text, lambda text: "\ufeff" + text.replace("\n", "\r\n")])
def test_quoted_cells_reach_over_lines(write, name, change):
    expected = [('a film, "fine" and long', "good", 2), ("so so", "bad", 5)]
    assert rows_of(write(change(CSV), name)) == expected


def test_other_delimiters_and_names_of_columns(write):
    assert rows_of(write("Review;Stars\nfine; 5 \n"), delimiter=";", text_key="Review", label_key="Stars") == [
        ("fine", "5", 2)
    ]
    path = write('label\ttext\n1\t"a\n0\tb"\n', "data.tsv")
    assert rows_of(path) == [('"a', "1", 2), ('b"', "0", 3)]


@pytest.mark.parametrize("name", ["data.tsv", "data.tab.gz", "unnamed"])
def test_columns_have_numbers_where_there_are_no_names(write, name):
    assert rows_of(write("a\t1\tx\nb\t0\ty", name), columns=[0, 1]) == [("a", "1", 1), ("b", "0", 2)]
    assert rows_of(write("a\t1\tx\n", name), columns=[2, 0]) == [("x", "a", 1)]


@pytest.mark.parametrize("name", ["data.jsonl", "data.json.gz", "unnamed"])
def test_labels_of_json_lines_are_texts_whole_numbers_or_truth(write, name):
    lines = ['{"text": "a", "label": 1}', "", '{"text": "b", "label": true, "n": null}', '{"label": "x", "text": "c"}']
    # columns are those of tables
    assert rows_of(write("\n".join(lines), name), format="jsonl", columns=[0, 1]) == [
        ("a", "1", 1), ("b", "true", 3), ("c", "x", 4),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "number"),
    [("3", 3.0), (" -0.5 ", -0.5), ("1e-3", 0.001), ("+.25E+2", 25.0), ("7.", 7.0), ("1" * 100, float("1" * 100))],
)
def test_numbers_are_ascii_with_a_point(write, text, number):
    assert rows_of(write(f"text,label\na,{text}\n"), numbers=True) == [("a", number, 2)]


def test_numbers_of_json_lines(write):
    path = write('{"text": "a", "label": 2}\n{"text": "b", "label": -1.5}\n{"text": "c", "label": "3"}', "a.jsonl")
    assert [row[1] for row in rows_of(path, numbers=True)] == [2.0, -1.5, 3.0]


HOSTILE = [
    # name, bytes, what is told
    ("a.csv", "sentence,label\na,1\n", "a.csv:1: no column is named 'text', but 'sentence', 'label'; say with data.te"),
    ("a.csv", "text;label\na;1\n", "a.csv:1: one column with semicolons in it, no 'text'; set data.delimiter or"),
    ("a.csv", "text\na\n", "a.csv:1: no column is named 'label', but 'text'; say with data.text_key"),
    ("a.csv", "text,text,label\na,b,1\n", "a.csv:1: two columns are named 'text'; give each a name of its own"),
    (
        "a.csv",
        "text,label\na, b,1\n",
        "a.csv:2: 3 columns, the first line has 2; put a text with a delimiter in quotes",
    ),
    ("a.csv", "text,label\na\n", "a.csv:2: 1 column, the first line has 2$"),
    ("a.csv", 'text,label\n"a" b,1\n', "a.csv:2: a character stands behind a closing quote; double the quotes"),
    ("a.csv", 'text,label\nx,1\n"a,1\nb,2\n', "a.csv:3: a quote opens in this row and is never closed; close it"),
    ("a.csv", 'text,label\n"' + "a\n" * 60, "a.csv:2: a quote opens in this row and is never closed within 99 bytes"),
    ("a.csv", "text,label\na\rb,1\n", "a.csv:2: a carriage return stands inside a cell"),
    ("a.csv", "text,label\n" + "a" * 100 + ",1\n", "a.csv:2: the line is longer than 99 bytes"),
    ("a.csv", b"text,label\n\xe9,1\n", r"a.csv:2: byte 11 \(0xe9\) is not UTF-8: perhaps Latin-1"),
    ("a.csv", "text,label\na,1\n".encode("utf-16"), "a.csv:1: byte 0 .* UTF-16 text"),
    ("a.csv", b"PK\x03\x04\xff\xfe\x00", "a.csv:1: .* a zip archive; unpack it first"),
    ("a.csv", b"text,label\na\0b,1\n", "a.csv:2: NUL byte at byte 12"),
    ("a.csv", 'text,label\n" ",1\n', "a.csv:2: the text is empty; write one or remove the row"),
    ("a.csv", "text,label\na,\u00a0\n", "a.csv:2: the label is empty; write one or remove the row"),
    ("a.csv", "text,label\na" + "\u0301" * 300 + ",1\n", "a.csv:2: more than 256 combining marks in a row"),
    ("a.csv.gz", gzip.compress(b"text,label\na,1\n" * 9, mtime=0)[:-12], "a.csv.gz:3: the gzip data ends early"),
    ("a.tsv", "text\tlabel\na\tb\t1\n", "a.tsv:2: 3 columns, the first line has 2$"),
    ("a.tsv", "text,label\na,1\n", "a.tsv:1: no column is named 'text', but 'text,label'; say|one column"),
    ("a.jsonl", '{"text": "a", "label": 1.5}', "a.jsonl:1: the label must be text or a whole number, got 1.5"),
    ("a.jsonl", '{"text": "a", "label": null}', "a.jsonl:1: the label must be text or a whole number, got null"),
    ("a.jsonl", '{"text": "a", "label": [1]}', "a.jsonl:1: the label must be text or a whole number, got an array"),
    ("a.jsonl", '{"text": 3, "label": 1}', "a.jsonl:1: the field 'text' must be text, got a number"),
    ("a.jsonl", '{"text": "a"}', "a.jsonl:1: missing field 'label'"),
    ("a.jsonl", '{"text": "a\\u0000", "label": 1}', "a.jsonl:1: the text contains the NUL character; remove it"),
    ("a.jsonl", '{"text": "\\ud800", "label": 1}', r"a.jsonl:1: lone surrogate U\+D800"),
    ("a.jsonl", '{"text": "a", "label": NaN}', "a.jsonl:1: NaN is not allowed in JSON"),
    ("a.jsonl", '{"text": "a", "label": 1, "label": 2}', "a.jsonl:1: the key 'label' stands twice in one object"),
    ("a.jsonl", '{"text": "a", "label": ' + "9" * 5000 + "}", "a.jsonl:1: the line is longer|a number with too many"),
    ("a.jsonl", '["a", 1]', "a.jsonl:1: expected a JSON object, got an array"),
]


@pytest.mark.parametrize(("name", "data", "message"), HOSTILE)
def test_what_is_wrong_is_told_with_its_place(tmp_path, name, data, message):
    path = tmp_path / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    limit = 99 if "99 bytes" in message else 9999
    with pytest.raises(DataError, match=message):
        list(strict(scan_labelled(path, config(max_line_bytes=limit))))


@pytest.mark.parametrize("number", ["nan", "inf", "1_000", "3,5", "١٢", "0x1", "five", "1" * 101, "--1", "1e"])
def test_what_is_no_number_is_refused(write, number):
    with pytest.raises(DataError, match=r"data.tsv:2: '.*' is no number; write it with digits and a point, such as -0"):
        rows_of(write(f"text\tlabel\na\t{number}\n", "data.tsv"), numbers=True)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ('""', "the number is empty; write one or remove the row"),
        ("true", "the label must be a number, got true or false"),
        ("null", "the label must be a number, got null"),
        ('"1e999"', "the number is too large"),
        ("1" + "0" * 400, "the number is too large"),
    ],
)
def test_values_that_are_no_numbers_are_refused(write, value, message):
    with pytest.raises(DataError, match=f"data.jsonl:1: {message}"):
        rows_of(write(f'{{"text": "a", "label": {value}}}', "data.jsonl"), numbers=True)


def test_reading_goes_on_behind_what_is_bad(write):
    text = b'text,label\na,1\n"b" c,1\nd\n\xff,1\n,1\ne,2\n'
    bad = BadLines()
    found = list(bad.good(scan_labelled(write(text), config())))
    assert found == [Labelled("a", "1", 2), Labelled("e", "2", 7)]
    assert bad.note() == (
        "4 bad lines skipped: quoting 1 (line 3), columns 1 (line 4), encoding 1 (line 5), empty text 1 (line 6)"
    )


def test_a_line_that_is_no_text_spoils_its_row_alone(write):
    found = list(scan_rows(write(b'text\n"a\n\xff"\nb\n'), Table(), ["text"]))
    assert [item.line for item in found] == [3, 4]
    assert isinstance(found[0], BadLine)
    assert found[1].cells == {"text": "b"}


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("a.csv", 'text,label\n"a, b",\n', ["a, b"]),
        ("a.csv", "text\na\n", ["a"]),
        ("a.tsv", "label\ttext\n\ta\n", ["a"]),
        ("a.jsonl", '{"text": "a"}\n{"text": " ", "label": 3}', ["a", ""]),
        ("a.txt", 'text,label\n\n{"text": "a"}', ["text,label", "", '{"text": "a"}']),
        ("a", "one, two\nthree", ["one, two", "three"]),
        ("a", '{"text": "a"}', ["a"]),
    ],
)
def test_texts_to_label_need_no_labels(write, name, text, found):
    assert list(read_texts(write(text, name), config())) == found


def test_texts_of_tables_without_names(write):
    assert list(read_texts(write("a\t1\nb\t0\n", "a.tsv"), config(columns=[0, 1]))) == ["a", "b"]
    assert list(read_texts(write("1\ta\n", "a.txt"), config(columns=[1, 0]))) == ["1 a"]
    assert list(read_texts(write("a,1\n", "a"), config(format="csv", columns=[0, 1]))) == ["a"]
    with pytest.raises(DataError, match=r"a.tsv:1: 1 column, but column 1 is asked for; columns are counted from 0"):
        list(read_texts(write("a\n", "a.tsv"), config(columns=[1, 0])))


def test_reading_texts_is_lazy(write):
    found = read_texts(write(b"a\n\xff\n", "a.txt"), config())
    assert next(found) == "a"
    with pytest.raises(DataError, match=r"a.txt:2: byte 2 \(0xff\)"):
        next(found)


def test_wrong_options():
    with pytest.raises(ConfigError, match="columns: must be two different column numbers counted from 0"):
        config(columns=[1, 1])
    with pytest.raises(ConfigError, match='delimiter must be one character, such as ";"'):
        config(delimiter=";;")
    assert named_format("a.b/c") is None

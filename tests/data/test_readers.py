"""Sentence pairs from each format: what is read, and the message for each fault."""

import contextlib
import gzip
import json
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.data.readers import Pair, Reading, read_pairs
from headwise.data.text import clean
from headwise.errors import ConfigError, DataError

# a text that has something to see after cleaning
SIDE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\n\t\r"), min_size=1, max_size=13).filter(
    clean
)
PAIRS = st.lists(st.tuples(SIDE, SIDE), min_size=1, max_size=7)


def write(tmp_path, text, name="pairs.tsv"):
    path = tmp_path / name
    path.write_bytes(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
    return path


def sides(pairs):
    return [(pair.source, pair.target) for pair in pairs]


def refused(path, message, error=DataError, *, target_path=None, limit=None, **options):
    with pytest.raises(error, match=message) as caught:
        read_pairs(path, Reading(**options), target_path=target_path, limit=limit)
    assert len(str(caught.value).splitlines()) == 1


# tab-separated


def test_tsv(tmp_path):
    path = write(tmp_path, "\ufeffGo.\tVa\u202f!\r\n\n  \t \nHi.\t Salut  !")
    assert read_pairs(path) == [Pair("Go.", "Va !", 1), Pair("Hi.", "Salut !", 4)]


def test_quotes_mean_nothing(tmp_path):
    path = write(tmp_path, '"Go.\t"Va !\n"Hi."\t\'Salut !\n')
    assert sides(read_pairs(path)) == [('"Go.', '"Va !'), ('"Hi."', "'Salut !")]


@pytest.mark.parametrize(("columns", "expected"), [((0, 1), ("a", "b")), ((2, 0), ("c", "a"))])
def test_columns(tmp_path, columns, expected):
    assert sides(read_pairs(write(tmp_path, "a\tb\tc\td\n"), Reading(columns=columns))) == [expected]


def test_attribution_column_asks_for_columns(tmp_path):
    path = write(tmp_path, "ok\tok\nGo.\tVa !\tCC-BY 2.0\n")
    refused(path, r"pairs\.tsv:2: 3 columns, expected 2; say which two hold source and target; set columns=\(0, 1\)$")


def test_too_few_columns(tmp_path):
    refused(write(tmp_path, "ok\tok\n\nGo. Va !\n"), r"pairs\.tsv:3: 1 column, expected source TAB target$")
    refused(write(tmp_path, "a\rb\r"), r"pairs\.tsv:1: 1 column, expected .*this one has \\r inside")
    refused(
        write(tmp_path, "a\tb\n"),
        r"pairs\.tsv:1: 2 columns, but column 2 is asked for; .* from 0",
        columns=(0, 2),
    )
    refused(write(tmp_path, "a\n"), r"pairs\.tsv:1: 1 column, but column 2 is asked for", columns=(0, 2))


def test_a_million_columns(tmp_path):
    refused(write(tmp_path, "\t" * 999_999 + "x"), r":1: 1000000 columns, expected 2")


@pytest.mark.parametrize("columns", [(0, 0), (-1, 0)])
def test_bad_columns(tmp_path, columns):
    refused(tmp_path, "columns must be two different column numbers counted from 0", ConfigError, columns=columns)


@pytest.mark.parametrize(
    ("text", "side"), [("\tb", "the source is"), ("a\t\u00a0", "the target is"), ("\u3000\tb", "the source is")]
)
def test_empty_sides(tmp_path, text, side):
    path = write(tmp_path, f"a\tb\n{text}\n")
    refused(path, rf"pairs\.tsv:2: {side} empty; fill it or remove the line$")
    assert len(read_pairs(path, Reading(empty="skip"))) == 1
    assert len(read_pairs(path, Reading(empty="keep"))) == 2


def test_limit_stops_reading(tmp_path):
    path = write(tmp_path, "a\tb\nc\td\nbroken\n")
    assert sides(read_pairs(path, limit=2)) == [("a", "b"), ("c", "d")]
    refused(path, "limit must be at least 1, got 0", ConfigError, limit=0)


@pytest.mark.parametrize("data", [b"", b"\n\n", b" \n\t\n", gzip.compress(b"", mtime=0)])
def test_no_pairs(tmp_path, data):
    refused(write(tmp_path, data), r"pairs\.tsv: no sentence pairs in it")


def test_normalisation_is_the_readers(tmp_path):
    path = write(tmp_path, "cafe\u0301\t①\n")
    assert sides(read_pairs(path)) == [("café", "①")]
    assert sides(read_pairs(path, Reading(normalize="nfkc"))) == [("café", "1")]
    assert sides(read_pairs(path, Reading(normalize="none"))) == [("cafe\u0301", "①")]


def test_faults_of_the_text_have_a_place(tmp_path):
    path = write(tmp_path, "a\tb\nc\te" + "\u0301" * 999)
    refused(path, r"pairs\.tsv:2: more than 256 combining marks")


def test_encoding_faults_have_a_place(tmp_path):
    refused(write(tmp_path, b"a\tb\n\xe9\tb\n"), r"pairs\.tsv:2: byte 4 \(0xe9\) is not UTF-8")


def test_long_lines(tmp_path):
    refused(write(tmp_path, "a\t" + "b" * 99), r":1: the line is longer than 50 bytes", max_line_bytes=50)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "tsw"}, r"unknown format 'tsw'; did you mean 'tsv'\?"),
        ({"empty": "skipp"}, r"unknown rule for empty sides 'skipp'; did you mean 'skip'\?"),
        ({"format": "tsv", "target_path": "x"}, "format='tsv' does not go with target_path"),
        ({"columns": (0, 1), "target_path": "x"}, "columns does not go with target_path"),
    ],
)
def test_options_that_do_not_fit(tmp_path, options, message):
    refused(tmp_path, message, ConfigError, **options)


@given(PAIRS)
def test_tsv_round_trip(tmp_path_factory, pairs):
    path = tmp_path_factory.mktemp("tsv") / "x.tsv.gz"
    path.write_bytes(gzip.compress("".join(f"{a}\t{b}\n" for a, b in pairs).encode()))
    assert sides(read_pairs(path)) == [(clean(a), clean(b)) for a, b in pairs]


# two parallel files


def test_parallel(tmp_path):
    source, target = write(tmp_path, "Go.\nHi.\n", "x.en"), write(tmp_path, "Va !\r\nSalut !", "x.fr")
    assert read_pairs(source, target_path=target) == [Pair("Go.", "Va !", 1), Pair("Hi.", "Salut !", 2)]


@pytest.mark.parametrize("limit", [None, 1])
@pytest.mark.parametrize(("lines", "others"), [(3, 5), (5, 3), (2, 3)])
def test_misaligned_files_name_both_counts(tmp_path, lines, others, limit):
    source, target = write(tmp_path, "a\n" * lines, "x.en"), write(tmp_path, "b\n" * others, "x.fr")
    message = rf"x\.en:{lines} and .*x\.fr:{others}: the files are not aligned: {lines} lines against {others}"
    refused(source, message, target_path=target, limit=limit)


@pytest.mark.parametrize(
    ("one", "other", "side"),
    [
        ("a\n\nc\n", "x\ny\nz\n", "source is"),
        ("a\nb\n", "x\n\n", "target is"),
        ("a\n \n", "x\n\n", "source and the target are"),
    ],
)
def test_blank_lines_of_parallel_files_are_empty_sides(tmp_path, one, other, side):
    source, target = write(tmp_path, one, "x.en"), write(tmp_path, other, "x.fr")
    refused(source, rf"x\.en:2: the {side} empty", target_path=target)
    kept = read_pairs(source, Reading(empty="skip"), target_path=target)
    assert 2 not in [pair.line for pair in kept]


@given(PAIRS)
def test_parallel_round_trip(tmp_path_factory, pairs):
    folder = tmp_path_factory.mktemp("parallel")
    for name, side in (("s", 0), ("t", 1)):
        (folder / name).write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8", newline="\n")
    assert sides(read_pairs(folder / "s", target_path=folder / "t")) == [(clean(a), clean(b)) for a, b in pairs]


# JSON lines


def test_flat(tmp_path):
    path = write(
        tmp_path, '{"source": "Go.", "target": "Va !", "n": 1}\n\n{"target": "b", "source": "a\\nc"}', "x.jsonl"
    )
    assert read_pairs(path) == [Pair("Go.", "Va !", 1), Pair("a c", "b", 3)]


def test_flat_with_keys(tmp_path):
    path = write(tmp_path, '{"en": "Go.", "fr": "Va !"}', "x.jsonl")
    assert sides(read_pairs(path, Reading(source_key="fr", target_key="en"))) == [("Va !", "Go.")]


def test_nested_translation(tmp_path):
    path = write(tmp_path, '{"id": 3, "translation": {"en": "Go.", "fr": "Va !"}}', "x.json")
    assert sides(read_pairs(path, Reading(source_key="en", target_key="fr"))) == [("Go.", "Va !")]


@pytest.mark.parametrize("text", ['{"en": "a", "fr": "b"}', '{"translation": {"en": "a", "fr": "b"}}'])
def test_two_fields_without_keys_say_what_to_do(tmp_path, text):
    message = (
        r":1: the fields are 'en' and 'fr'; say which is source and which is target; set source_key='en', "
        "target_key='fr'$"
    )
    refused(write(tmp_path, text, "x.jsonl"), message)


def test_content_decides_where_the_name_does_not(tmp_path):
    assert sides(read_pairs(write(tmp_path, '\n{"source": "a", "target": "b"}\n', "x.txt"))) == [("a", "b")]
    assert sides(read_pairs(write(tmp_path, "{a\tb}\n", "x.tsv"))) == [("{a", "b}")]
    assert sides(read_pairs(write(tmp_path, "{a\tb}\n", "x.txt"), Reading(format="tsv"))) == [("{a", "b}")]
    assert sides(read_pairs(write(tmp_path, gzip.compress(b'{"source": "a", "target": "b"}'), "x.JSONL.gz"))) == [
        ("a", "b")
    ]


GOOD = '{"source": "a", "target": "b"}\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"source": "a", "target": NaN}', "NaN is not allowed in JSON"),
        ('{"source": "a", "target": "b", "score": -Infinity}', "-Infinity is not allowed in JSON"),
        ('{"source": "a", "source": "c", "target": "b"}', "the key 'source' stands twice in one object"),
        ('{"target": "b", "source": "a", "n": 1, "n": 2}', "the key 'n' stands twice in one object"),
        ('{"x": {"y": 1, "y": 1}, "source": "a", "target": "b"}', "the key 'y' stands twice"),
        ("[" * 100_000, "JSON nested too deeply; flatten the record"),
        ('{"source": "a", "target": ' + '{"a":' * 100_000, "JSON nested too deeply"),
        ('{"n": ' + "9" * 5_000 + "}", "a number with too many digits"),
        ('{"source": "\\ud800", "target": "b"}', r"lone surrogate U\+D800 at character 1"),
        ('{"source": "a\\u0000", "target": "b"}', r"the field 'source' contains the NUL character \\u0000"),
        ("[1, 2]", "expected a JSON object, got an array; write one object a line"),
        ("3", "expected a JSON object, got a number"),
        ("null", "expected a JSON object, got null"),
        ("true", "expected a JSON object, got true or false"),
        ('"text"', "expected a JSON object, got text"),
        ('{"source": "a"}', "missing field 'target': unknown field 'target'; known: source"),
        ('{"source": "a", "traget": "b", "n": "c"}', r"missing field 'target': .*; did you mean 'traget'\?"),
        ("{}", "missing field 'source': the object is empty"),
        ('{"source": 3, "target": "b"}', "the field 'source' must be text, got a number"),
        ('{"source": "a", "target": null}', "the field 'target' must be text, got null"),
        ('{"source": "a", "target": ["b"]}', "the field 'target' must be text, got an array"),
        ('{"source": "a", "target": {"b": 1}}', "the field 'target' must be text, got an object"),
        ('{"source": "a", "target": "b"', "not valid JSON: .* at column"),
        ("{'source': 'a'}", "not valid JSON: .* at column 2"),
        ('{"source": "", "target": "b"}', "the source is empty"),
    ],
)
def test_json_faults(tmp_path, text, message):
    refused(write(tmp_path, GOOD + text + "\n", "x.jsonl"), rf"x\.jsonl:2: {message}")


def test_raw_surrogate_bytes_are_not_utf_8(tmp_path):
    refused(write(tmp_path, '{"source": "\ud800"}', "x.jsonl"), r"x\.jsonl:1: byte 12 \(0xed\) is not UTF-8")


def test_digits_do_not_depend_on_the_interpreter_limit(tmp_path):
    if not hasattr(sys, "get_int_max_str_digits"):
        pytest.skip("this interpreter has no bound")
    assert sys.get_int_max_str_digits() < 5_000


@given(PAIRS, st.booleans(), st.booleans())
def test_jsonl_round_trip(tmp_path_factory, pairs, nested, ascii):
    path = tmp_path_factory.mktemp("jsonl") / "x.jsonl"
    rows = [{"en": a, "fr": b} for a, b in pairs]
    records = [{"translation": row} if nested else row for row in rows]
    lines = "".join(json.dumps(record, ensure_ascii=ascii) + "\n" for record in records)
    path.write_text(lines, encoding="utf-8", newline="\n")
    assert sides(read_pairs(path, Reading(source_key="en", target_key="fr"))) == [
        (clean(a), clean(b)) for a, b in pairs
    ]


# any bytes


@given(st.binary(max_size=97), st.sampled_from(["x.tsv", "x.jsonl", "x.txt"]), st.booleans())
def test_arbitrary_bytes_raise_nothing_but_data_errors(tmp_path_factory, data, name, packed):
    path = tmp_path_factory.mktemp("bytes") / name
    path.write_bytes(gzip.compress(data) if packed else data)
    message, pairs = f"{path}: ", []
    try:
        pairs = read_pairs(path)
    except DataError as error:
        message = str(error)
    assert re.match(rf"{re.escape(str(path))}:(\d+:)? ", message)
    assert all(pair.source and pair.target for pair in pairs)


PARTS = [b"\t", b"\n", b"\r", b'{"source":', b'"target":', b'"a"', b",", b"}", b"[", b"\xc3", b"\xa9", b"\0"]
LIKELY = st.lists(st.sampled_from(PARTS) | st.binary(max_size=3), max_size=17).map(b"".join)


@given(LIKELY, LIKELY)
def test_likely_bytes_raise_nothing_but_data_errors(tmp_path_factory, data, other):
    folder = tmp_path_factory.mktemp("likely")
    for name, content in (("x.jsonl", data), ("x.tsv", data), ("s", data), ("t", other), ("g.gz", b"\x1f\x8b" + data)):
        (folder / name).write_bytes(content)
    for name, target in (("x.jsonl", None), ("x.tsv", None), ("s", folder / "t"), ("g.gz", None)):
        with contextlib.suppress(DataError):
            read_pairs(folder / name, target_path=target)

"""`headwise data report`: bad and odd lines of files and recipes, each kind of data; JSON."""

import hashlib
import json
import re

import pytest

from headwise.data import data_sets

WORD = "1\tI\t_\tPRON\t_\t_\t_\t_\t_\t_\n"


@pytest.fixture
def write(tmp_path):
    def written(name, text):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return written


def test_bad_and_odd_lines_of_pairs(headwise, write):
    path = write("x.tsv", b'a\tb\nno\n\tb\n"c"\td\n\xff\tx\n' + b"g" * 40 + b"\th\n" + b"one two\tun deux\n" * 9)
    code, out, err = headwise("data", "report", path)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == f"{path}: 12 pairs"
    assert lines[2:9] == [
        "bad lines                3",
        "  columns                1",
        "    line 2: 1 column, expected source TAB target",
        "  empty side             1",
        "    line 3: the source is empty; fill it or remove the line",
        "  encoding               1",
        "    line 5: byte 16 (0xff) is not UTF-8: perhaps Latin-1; convert it with `iconv -f WINDOWS-1252 -t UTF-8`",
    ]
    assert lines[9:12] == [
        "odd lines                2",
        "  stray quotes           1: line 4",
        "  length ratio           1: line 6",
    ]
    assert "pairs                    12" in lines


def test_json_has_all_of_it(headwise, write):
    path = write("x.tsv", "a\tb\tc\n" * 7 + "a\tb\n")
    code, out, err = headwise("data", "report", path, "--json")
    assert (code, err) == (0, "")
    (found,) = json.loads(out)["files"]
    assert found["pairs"] == 1
    assert found["bad"]["columns"]["count"] == 7
    first = found["bad"]["columns"]["first"]
    assert [at["line"] for at in first] == [1, 2, 3, 4, 5]
    assert first[0]["what"] == "3 columns, expected 2; say which two hold source and target; give --columns 0 1"


def test_options_of_pairs(headwise, write):
    path = write("x.tsv", "a\tb\tc\n")
    assert "bad lines                0" in headwise("data", "report", path, "--columns", 0, 1)[1]
    one, two = write("x.en", "a\nb\n"), write("x.fr", "c\n\n")
    out = headwise("data", "report", one, "--kind", "pairs", "--target-data", two)[1]
    assert "line 2: the target is empty" in out
    held = write("held.tsv", "a\td\nz\tc\n")
    out = headwise("data", "report", write("y.tsv", "a\tb\n"), "--held-out", held)[1]
    assert "held-out pairs           1 of 2 held-out sources are in the training part" in out


def test_the_kind_is_seen_or_given(headwise, write):
    tagged = write("x.conllu", WORD + "\n" + WORD + "1\tno\n\n")
    out = headwise("data", "report", tagged)[1]
    assert "1 sentence\n" in out
    assert "line 4: 2 columns, CoNLL-U has 10" in out
    assert "  PRON                   1 (100.0%)" in out
    rows = write("x.jsonl", '{"words": ["a"], "tags": ["X"]}\n{"words": ["a"], "tags": []}\n')
    assert "line 2: 1 words but 0 tags" in headwise("data", "report", rows)[1]
    table = write("x.csv", "text,label\na,1\na,0\nb,1,2\n")
    out = headwise("data", "report", table)[1]
    assert "2 texts\n" in out
    assert "line 4: 3 columns, the first line has 2" in out
    assert "text of another label  1: line 3" in out
    assert "  1                      1 (50.0%)" in out
    assert (
        "2 texts"
        in headwise("data", "report", write("y.tsv", "a\t1\nb\t0\n"), "--kind", "labelled", "--columns", 0, 1)[1]
    )
    assert "1 text\n" in headwise("data", "report", write("y.jsonl", '{"text": "a", "label": 3}'))[1]
    text = write("x.txt", b"one\n\xff\n")
    out = headwise("data", "report", text)[1]
    assert "1 line\n" in out
    assert "  encoding               1" in out
    assert "1 column, expected" in headwise("data", "report", text, "--kind", "pairs")[1]


def test_settings_reach_the_reader(headwise, write):
    path = write("x.conllu", WORD)
    out = headwise("data", "report", path, "data.column=xpos")[1]
    assert "line 1: no xpos" in out


def test_a_recipe_reports_on_each_of_its_files(headwise, write):
    write("pairs.tsv", "a\tb\n")
    write("test.tsv", "a\tb\nno\n")
    data = '[data]\ntrain = "pairs.tsv"\ntest = "test.tsv"\n'
    recipe = write("r.toml", f'task = "translate"\n{data}[model]\nkind = "recurrent"\n')
    code, out, err = headwise("data", "report", recipe)
    assert (code, err) == (0, "")
    assert out.index("pairs.tsv: 1 pair\n") < out.index("test.tsv: 1 pair\n")
    assert "line 2: 1 column" in out
    files = json.loads(headwise("data", "report", "phrasebook", "--json")[1])["files"]
    assert [part["pairs"] for part in files] == [3569]


@pytest.fixture
def catalogue(tmp_path, monkeypatch):
    """A catalogue with one data set, of this machine."""
    folder = tmp_path / "catalogue"
    folder.mkdir()
    (tmp_path / "source.txt").write_text("line\n")
    digest = hashlib.sha256(b"line\n").hexdigest()
    about = 'title = "Lines"\ntask = "tag"\nhome = "https://home"\nlicence = "MIT"\ncitation = "Me 2026"\n'
    url = (tmp_path / "source.txt").as_uri()
    file = f'[[files]]\nname = "a.txt"\nsize_bytes = 5\nsha256 = "{digest}"\nurl = "{url}"\n'
    (folder / "lines.toml").write_text(about + file)
    monkeypatch.setattr(data_sets, "folder", lambda: folder)
    monkeypatch.setenv("HEADWISE_DATA", str(tmp_path / "data"))
    return tmp_path


def test_a_data_set_is_listed_and_fetched(headwise, catalogue):
    code, out, _ = headwise("data", "list")
    assert code == 0
    assert re.search(r"^lines +missing +0\.0 MiB  tag +Lines$", out, re.MULTILINE)
    code, out, err = headwise("data", "fetch", "lines")
    assert (code, err) == (0, "")
    assert "licence:  MIT\ncitation: Me 2026\nsource:   https://home\n" in out
    place = catalogue / "data" / "lines" / "a.txt"
    assert out.endswith(f"fetched: {place}\n")
    assert place.read_text() == "line\n"
    assert headwise("data", "fetch", "lines")[1].endswith(f"there: {place}\n")
    assert json.loads(headwise("data", "list", "--json")[1])["state"] == "there"
    # another folder, and a file that was downloaded by other means
    (catalogue / "by hand").mkdir()
    (catalogue / "source.txt").rename(catalogue / "by hand" / "source.txt")
    assert headwise("data", "fetch", "lines", "--to", catalogue / "to")[0] == 3
    assert headwise("data", "fetch", "lines", "--to", catalogue / "to", "--from", catalogue / "by hand")[0] == 0
    assert (catalogue / "to" / "lines" / "a.txt").is_file()


def test_nothing_is_fetched_where_one_name_is_wrong(headwise, catalogue):
    code, out, err = headwise("data", "fetch", "lines", "line")
    assert (code, out) == (2, "")
    assert "unknown data set 'line'; did you mean 'lines'" in err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nowhere.tsv"], 3, "nowhere.tsv: no such file"),
        (["phrasebook", "--limit", 3], 2, "a recipe states how its data is read; give settings, data.KEY=VALUE"),
        (["x.tsv", "--kind", "pair"], 2, "unknown --kind 'pair'; did you mean 'pairs'?"),
        (["x.tsv", "data.colums=1"], 2, "options: unknown key 'colums'; did you mean 'columns'?"),
        (["x.txt", "--held-out", "x.tsv"], 2, "--held-out goes with sentence pairs only"),
    ],
)
def test_what_is_wrong_is_one_line(headwise, write, monkeypatch, tmp_path, arguments, code, message):
    write("x.tsv", "a\tb\n")
    write("x.txt", "a\n")
    monkeypatch.chdir(tmp_path)
    number, out, err = headwise("data", "report", *arguments)
    assert (number, out) == (code, "")
    assert message in err
    assert err.count("\n") == 1

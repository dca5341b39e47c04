"""Dialogues from JSON lines and TSV: what is answered, what is read before it, parts, and what is refused."""

import json
from pathlib import Path

import pytest

from headwise.config import build
from headwise.data.bad_lines import BadLine
from headwise.data.tokenizers import Tokenizer, TokenizerConfig
from headwise.errors import DataError
from headwise.tasks.translation.dialogues import (
    BETWEEN,
    DialogueConfig,
    encoded,
    load_dialogues,
    scan_contexts,
    scan_dialogues,
    suggest_for_dialogues,
    turns_of,
)

TURNS = [["hi", "hello", "bye", "see you"], ["a", "b", "c"]]
PARTS = {"valid_fraction": 0.0, "test_fraction": 0.0}


def config(path="x", **data):
    return build(DialogueConfig, {"train": str(path), **PARTS, **data}, "data")


def scanned(path, **data):
    return list(scan_dialogues(Path(path), config(path, **data)))


@pytest.fixture
def files(tmp_path):
    roles = ["user", "assistant"]
    messages = [
        {"messages": [{"role": roles[at % 2], "content": turn} for at, turn in enumerate(turns)]} for turns in TURNS
    ]
    for name, lines in (
        ("turns.jsonl", [json.dumps({"turns": turns}) for turns in TURNS]),
        ("messages.jsonl", list(map(json.dumps, messages))),
        ("turns.tsv", ["\t".join(turns) for turns in TURNS]),
        ("no-ending", ["\t".join(turns) for turns in TURNS]),
    ):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    return tmp_path


@pytest.mark.parametrize("name", ["turns.jsonl", "messages.jsonl", "turns.tsv", "no-ending"])
def test_every_form_gives_the_same_answers_after_the_turns_before_them(files, name):
    found = [(pair.source, pair.target) for one in scanned(files / name) for pair in one.pairs()]
    assert found == [("hi", "hello"), ("hi ||| hello ||| bye", "see you"), ("a", "b")]


def test_the_side_that_answers_is_named():
    def of(answers):
        (found,) = scanned_of("a\tb\tc\td", answers=answers)
        return found.answers

    # nothing comes before the first turn
    assert (of("second"), of("first"), of("both")) == ([1, 3], [2], [1, 2, 3])


def scanned_of(text, name="x.tsv", folder=None, **data):
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return scanned(path, **data)


def test_roles_say_who_answers_and_others_are_read():
    roles = ["system", "user", "user", "assistant", "assistant", "user"]
    record = {"messages": [{"role": role, "content": f"{at}"} for at, role in enumerate(roles)]}
    (found,) = scanned_of(json.dumps(record), "x.jsonl")
    assert [(pair.source, pair.target) for pair in found.pairs()] == [
        ("0 ||| 1 ||| 2", "3"),
        ("0 ||| 1 ||| 2 ||| 3", "4"),
    ]
    (found,) = scanned_of(json.dumps(record), "x.jsonl", role="user")
    assert found.answers == [1, 2, 5]


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("just one", "x.tsv", "x.tsv:1: nothing in it answers a turn before it; give two turns or more"),
        ("a\t\tb", "x.tsv", "x.tsv:1: turn 2 is empty; fill it or remove the line"),
        ("a\tb ||| c", "x.tsv", "x.tsv:1: turn 2 has '|||' inside, which stands between turns; remove it"),
        ("a\tb\0", "x.tsv", "x.tsv:1: .*NUL"),
        (b"a\t\xff", "x.tsv", "x.tsv:1: .*UTF-8"),
        ('{"turns": []}', "x.jsonl", "x.jsonl:1: nothing in it answers"),
        (
            '{"turns": ["a", 3]}',
            "x.jsonl",
            "x.jsonl:1: the field 'turns' must be an array of texts, but entry 2 is",
        ),
        ('{"turns": "a"}', "x.jsonl", "x.jsonl:1: the field 'turns' must be an array of texts, got text"),
        ('{"turn": ["a"]}', "x.jsonl", "x.jsonl:1: missing field 'turns': .*did you mean"),
        ('{"turns": NaN}', "x.jsonl", "x.jsonl:1: NaN is not allowed in JSON"),
        ("[1]", "x.jsonl", "x.jsonl:1: expected a JSON object, got an array"),
        (
            '{"messages": [1]}',
            "x.jsonl",
            "x.jsonl:1: the field 'messages' must be an array of objects, got one with a",
        ),
        ('{"messages": {}}', "x.jsonl", "x.jsonl:1: the field 'messages' must be an array of objects, got an object"),
        ('{"messages": [{"role": "user"}]}', "x.jsonl", "x.jsonl:1: missing field 'content'"),
        ('{"messages": [{"role": "user", "content": "a"}]}', "x.jsonl", "x.jsonl:1: nothing in it answers a turn"),
        ('{"turns": ["a", "\\ud800"]}', "x.jsonl", "x.jsonl:1: .*surrogate"),
    ],
)
def test_lines_that_are_no_dialogues_are_named(text, name, message):
    (found,) = scanned_of(text, name)
    assert isinstance(found, BadLine)
    with pytest.raises(DataError, match=message.replace("|||", r"\|\|\|")):
        raise found


def test_parts_share_no_dialogue_and_bad_lines_are_counted(tmp_path):
    path = tmp_path / "all.jsonl"
    lines = [json.dumps({"turns": ["hi", f"{n}", "bye", f"{n} again"]}) for n in range(60)]
    path.write_text("\n".join([*lines, '{"turns": ["alone"]}']) + "\n")
    with pytest.raises(DataError, match=r"all\.jsonl:61: nothing in it answers"):
        load_dialogues(config(path), "nfc")
    given = config(path, bad_lines="skip", valid_fraction=0.3, test_fraction=0.2)
    corpus = load_dialogues(given, "nfc")
    lines_of = [{pair.line for pair in part} for part in (corpus.train, corpus.valid, corpus.test)]
    assert not lines_of[0] & lines_of[1]
    assert not (lines_of[0] | lines_of[1]) & lines_of[2]
    # both answers of a dialogue are in its part
    assert [len(part) for part in (corpus.train, corpus.valid, corpus.test)] == [2 * len(part) for part in lines_of]
    assert corpus.skipped == {"train": "1 bad line skipped: turns 1 (line 61)"}
    assert set(corpus.files) == {"train"}
    again = load_dialogues(config(path, bad_lines="skip", valid=str(path)), "nfc")
    assert len(again.overlaps["valid"].source_lines) == len(again.valid)
    assert len(load_dialogues(config(path, bad_lines="skip", limit=7), "nfc").train) == 14


@pytest.mark.parametrize("content", [b"", b"\n \n"])
def test_a_file_without_dialogues_is_refused(tmp_path, content):
    (tmp_path / "x.jsonl").write_bytes(content)
    with pytest.raises(DataError, match=r"x\.jsonl: no dialogues in it"):
        load_dialogues(config(tmp_path / "x.jsonl"), "nfc")


WORDS = Tokenizer.train(["a b c d e f g h"], TokenizerConfig(kind="word"))


def ids(text):
    return [BETWEEN if word == "/" else WORDS.encode(word)[0] for word in text.split()]


@pytest.mark.parametrize(
    ("longest", "most", "wanted", "shortened", "lost"),
    [
        (99, None, "a b / c / d e f", 0, 0),
        (8, None, "a b / c / d e f", 0, 0),
        (7, None, "c / d e f", 1, 1),
        (5, None, "c / d e f", 1, 1),
        (4, None, "d e f", 1, 2),
        (2, None, "e f", 1, 2),
        (99, 2, "c / d e f", 1, 1),
        (99, 1, "d e f", 1, 2),
        (4, 2, "d e f", 1, 2),
    ],
)
def test_the_oldest_turns_give_way(longest, most, wanted, shortened, lost):
    found = encoded(["a b ||| c ||| d e f", "g", ""], WORDS, longest, most)
    assert [row.tolist() for row in found.rows] == [ids(wanted), ids("g"), []]
    assert (found.shortened, found.lost) == (shortened, lost)


def test_no_text_makes_the_token_between_turns():
    found = encoded(["a ||| <eos> ||| b"], Tokenizer.train(["a <eos> b"], TokenizerConfig(kind="char")), 99)
    assert found.rows[0].tolist().count(BETWEEN) == 2


def test_contexts_are_turns_however_they_are_written(tmp_path):
    assert turns_of(" a b |||c||| ||| d ") == ["a b", "c", "d"]
    assert turns_of('{"messages": [{"role": "user", "content": "a  b"}]}') == ["a b"]
    assert turns_of("") == turns_of(" ||| ") == []
    with pytest.raises(DataError, match="not valid JSON"):
        turns_of("{")
    for name, text in (
        ("x.txt", 'a ||| b\n{"turns": ["a", "b"]}\n'),
        ("x.tsv", "a\tb\na\tb\n"),
        ("x.jsonl", '{"turns": ["a", "b"]}\n{"turns": ["a", "b"]}\n'),
    ):
        (tmp_path / name).write_text(text)
        assert list(scan_contexts(tmp_path / name, config())) == ["a ||| b"] * 2
    (tmp_path / "x.txt").write_text("a\n{\n")
    assert [isinstance(one, BadLine) for one in scan_contexts(tmp_path / "x.txt", config())] == [False, True]


def test_a_first_recipe_fits_the_dialogues(tmp_path):
    path = tmp_path / "all.jsonl"
    path.write_text("".join(json.dumps({"turns": ["so " * 900, f"{n}"]}) + "\n" for n in range(60)))
    found = suggest_for_dialogues({"train": str(path), "max_turns": 3})
    assert found.values["data"]["max_source_len"] == 512
    assert found.values["data"]["max_turns"] == 3
    assert found.values["training"]["batch_tokens"] >= 1024
    assert found.about == "Dialogue, fitted to 60 answers after up to 1 turns"

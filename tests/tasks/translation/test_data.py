"""Pairs and dialogues: their files, how they are split, what is answered, what is read before it, what is refused."""

import hashlib
import json
from pathlib import Path

import pytest

from headwise.config import build
from headwise.data.bad_lines import BadLine
from headwise.data.tokenizers import Tokenizer, TokenizerConfig
from headwise.errors import ConfigError, DataError
from headwise.tasks.translation.data import (
    BETWEEN,
    DataConfig,
    DialogueConfig,
    dialogue_set,
    encoded,
    pair_set,
    scan_contexts,
    scan_dialogues,
    turns_of,
)
from headwise.tasks.translation.dialogue import Dialogue, DialogueTaskConfig
from headwise.tasks.translation.dialogue import Dialogue as DialogueTask

TURNS = [["hi", "hello", "bye", "see you"], ["a", "b", "c"]]
PARTS = {"valid_fraction": 0.0, "test_fraction": 0.0}
MODEL = {"model": {"kind": "transformer"}}


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
        dialogue_set(config(path)).read()
    given = config(path, bad_lines="skip", valid_fraction=0.3, test_fraction=0.2)
    splits = Dialogue.read(DialogueTaskConfig(data=given, **MODEL))
    lines_of = [{pair.line for pair in part} for _, part in splits]
    assert not lines_of[0] & lines_of[1]
    assert not (lines_of[0] | lines_of[1]) & lines_of[2]
    # both answers of a dialogue are in its part
    assert [len(part) for _, part in splits] == [2 * len(part) for part in lines_of]
    assert splits.skipped == {"train": "1 bad line skipped: turns 1 (line 61)"}
    assert set(splits.digests) == {"train"}
    again = Dialogue.read(DialogueTaskConfig(data=config(path, bad_lines="skip", valid=str(path)), **MODEL))
    assert len(again.overlaps["valid"].source_lines) == len(again.examples["valid"])
    assert len(dialogue_set(config(path, bad_lines="skip", limit=7)).examples("train")) == 7


@pytest.mark.parametrize("content", [b"", b"\n \n"])
def test_a_file_without_dialogues_is_refused(tmp_path, content):
    (tmp_path / "x.jsonl").write_bytes(content)
    with pytest.raises(DataError, match=r"x\.jsonl: no dialogues in it"):
        dialogue_set(config(tmp_path / "x.jsonl")).read()


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
    found = DialogueTask.suggest({"train": str(path), "max_turns": 3})
    assert found.values["data"]["max_source_len"] == 512
    assert found.values["data"]["max_turns"] == 3
    assert found.values["training"]["batch_tokens"] >= 1024
    assert found.about == "Dialogue, fitted to 60 answers after up to 1 turns"


def write_pairs(tmp_path, name, first, last):
    path = tmp_path / name
    path.write_text("".join(f"source {n}\ttarget {n}\n" for n in range(first, last)), encoding="utf-8")
    return str(path)


def test_held_out_from_the_training_file(tmp_path):
    data = DataConfig(train=write_pairs(tmp_path, "a.tsv", 0, 499), valid_fraction=0.1, test_fraction=0.2)
    found = pair_set(data).read()
    train, valid, test = (len(pairs) for _, pairs in found)
    assert train + valid + test == 499
    assert test > valid > 20
    assert found.overlaps == {}


def test_files_for_each_part(tmp_path):
    names = [write_pairs(tmp_path, name, *span) for name, span in (("a", (0, 11)), ("b", (11, 13)), ("c", (7, 14)))]
    data = DataConfig(train=names[0], valid=names[1], test=names[2])
    found = pair_set(data).read()
    assert [len(pairs) for _, pairs in found] == [11, 2, 7]
    assert list(found.overlaps) == ["test"]
    assert found.overlaps["test"].source_lines == (1, 2, 3, 4)
    with open(names[0], "rb") as stream:
        assert found.digests["train"] == hashlib.sha256(stream.read()).hexdigest()
    assert list(found.digests) == ["train", "valid", "test"]


def test_one_file_given_the_other_held_out(tmp_path):
    data = DataConfig(
        train=write_pairs(tmp_path, "a", 0, 97), valid=write_pairs(tmp_path, "b", 97, 100), test_fraction=0.3
    )
    found = pair_set(data).read()
    assert len(found.examples["valid"]) == 3
    assert len(found.examples["train"]) + len(found.examples["test"]) == 97


def test_parallel_files_and_limit(tmp_path):
    for name in ("s", "t"):
        (tmp_path / name).write_text("\n".join(name + str(n) for n in range(13)), encoding="utf-8")
    source, target = str(tmp_path / "s"), str(tmp_path / "t")
    options = {"valid_fraction": 0, "test_fraction": 0, "limit": 5}
    data = DataConfig(train=source, train_target=target, valid=source, valid_target=target, **options)
    found = pair_set(data).read()
    assert [(pair.source, pair.target) for pair in found.examples["train"]] == [(f"s{n}", f"t{n}") for n in range(5)]
    assert len(found.examples["valid"]) == 13
    assert found.examples["test"] == []


def test_options_reach_the_reader(tmp_path):
    (tmp_path / "x").write_text("a\tb\tc\n\tb\tc\n", encoding="utf-8")
    data = DataConfig(train=str(tmp_path / "x"), columns=(2, 0), empty="skip", valid_fraction=0, test_fraction=0)
    assert [(pair.source, pair.target) for pair in pair_set(data).examples("train")] == [("c", "a")]


def test_the_keys_of_pairs():
    with pytest.raises(ConfigError, match=r"recipe: valid_target is given but valid is not; name both parallel files"):
        build(DataConfig, {"train": "x", "valid_target": "y"}, "recipe")
    with pytest.raises(ConfigError, match=r"valid_fraction: must be below 1"):
        build(DataConfig, {"train": "x", "valid_fraction": 1.0}, "recipe")
    with pytest.raises(ConfigError, match=r"unknown key 'trian'; did you mean 'train'\?"):
        build(DataConfig, {"train": "x", "trian": "y"}, "recipe")
    assert all(field.description for field in DataConfig.model_fields.values())
